"""Warp-wide instructions that some of their lanes do not reach."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import kernel, launch
from test_pairs import MODES

import emulator
from emulator import emulate
from emulator.errors import BarrierError, Level
from emulator.machine.launch.launch import Dim3
from emulator.machine.order.completion import Completion

PROGRAM = """
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %a<3>;
ld.param.b64 %a0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %a1, %r0, 4; add.s64 %a0, %a0, %a1;
setp.lt.u32 %p0, %r0, 8; mov.b32 %r1, 0;
BODY
st.global.b32 [%a0], %r1; END: ret;
"""


def run(body: str, completion: str = "lazy", threads: int = 64) -> list[int]:
    out = np.zeros(threads, np.uint32)
    text = kernel("k", ".param .u64 out", PROGRAM.replace("BODY", body))
    launch(text, [out], block=(threads, 1, 1), completion=completion, level=Level.FORMAL)  # type: ignore[arg-type]
    return out.tolist()


BARRIERS = ("bar.sync 0;", "barrier.cta.sync.aligned 0;", "bar.red.popc.u32 %r2, 0, %p0;", "bar.arrive 1, 64;")
EXCHANGES = (
    "shfl.sync.bfly.b32 %r2, %r0, 0, 31, MEMBERS;",
    "vote.sync.ballot.b32 %r2, %p0, MEMBERS;",
    "match.any.sync.b32 %r2, %r0, MEMBERS;",
    "redux.sync.add.u32 %r2, %r0, MEMBERS;",
    "elect.sync %r2|%p1, MEMBERS;",
    "bar.warp.sync MEMBERS;",
)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("barrier", BARRIERS)
def test_an_aligned_barrier_is_for_all_lanes(barrier: str, completion: str) -> None:
    run(f"@%p0 bra A; mov.b32 %r1, 1; A: {barrier}", completion)
    run(f"@%p0 bra END; {barrier}", completion)
    run(f"@%p0 ret; {barrier}", completion)
    run(barrier, completion, threads=40 if "arrive" not in barrier else 64)
    for body in (f"@%p0 bra A; {barrier} A:", f"@!%p0 {barrier}", f"@%p0 bra A; {barrier} bra B; A: {barrier} B:"):
        with pytest.raises(
            BarrierError, match=r"names lanes 0 to 31, but lanes (0 to 7|8 to 31) did not come with them"
        ):
            run(body, completion)


@pytest.mark.parametrize("completion", MODES)
def test_a_barrier_that_is_not_aligned_is_for_a_warp_in_parts(completion: str) -> None:
    run("@%p0 bra A; barrier.cta.sync 0; A:", completion, threads=32)


MATRIX = (
    "mov.b32 %r3, words; mad.lo.u32 %r3, %r4, 16, %r3; st.shared.v4.b32 [%r3], {%r0, %r0, %r0, %r0}; bar.warp.sync -1;"
)
TOGETHER = {
    "ldmatrix": "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r3];",
    "stmatrix": "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {%r0};",
    "movmatrix": "movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r0;",
    "mma": "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%r5, %r6, %r7, %r8}, {%r0, %r0}, {%r0}, "
    "{%r0, %r0, %r0, %r0};",
    "tcgen05.wait": "tcgen05.wait::ld.sync.aligned;",
}


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("name", TOGETHER)
def test_an_aligned_instruction_is_for_all_lanes(name: str, completion: str) -> None:
    begin = ".shared .align 16 .b8 words[1024]; and.b32 %r4, %r0, 31; " + MATRIX
    run(f"{begin} {TOGETHER[name]}", completion, threads=32)
    for body in (f"@%p0 bra A; {TOGETHER[name]} A: bar.warp.sync -1;", f"@!%p0 {TOGETHER[name]}"):
        with pytest.raises(
            BarrierError, match=r"names lanes 0 to 31, but lanes (0 to 7|8 to 31) did not come with them"
        ):
            run(f"{begin} {body}", completion, threads=32)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(
    ("shuffle", "lanes"),
    [
        ("down.b32 %r2, %r0, 4, 31", "4 to 7"),
        ("bfly.b32 %r2, %r0, 8, 31", "0 to 7"),
        ("idx.b32 %r2, %r0, 9, 31", "0 to 7"),
    ],
)
def test_a_shuffle_from_lanes_that_have_ended(shuffle: str, lanes: str, completion: str) -> None:
    run(f"shfl.sync.{shuffle}, -1;", completion)
    run("@!%p0 bra END; shfl.sync.down.b32 %r2, %r0, 4, 0x1807, 0xff;", completion)
    for body, threads in ((f"@!%p0 bra END; shfl.sync.{shuffle}, 0xff;", 32), (f"shfl.sync.{shuffle}, 0xff;", 8)):
        with pytest.raises(BarrierError, match=f"gives lanes {lanes} the values of lanes that have ended") as caught:
            run(body, completion, threads)
        assert caught.value.level == Level.FORMAL


@pytest.mark.parametrize("completion", MODES)
def test_a_shuffle_from_lanes_that_it_does_not_name(completion: str) -> None:
    """Those lanes wait elsewhere. In segments of eight no lane reads theirs."""
    half = "@!%p0 bra A; shfl.sync.down.b32 %r2, %r0, 4, {}, 0xff; A: bar.warp.sync -1;"
    run(half.format("0x1807"), completion, threads=32)
    with pytest.raises(BarrierError, match="gives lanes 4 to 7 the values of lanes that it does not name") as caught:
        run(half.format("31"), completion, threads=32)
    assert caught.value.level == Level.FORMAL


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_lane_that_is_not_named_may_not_come(exchange: str, completion: str) -> None:
    """An H200 ends the launch (illegal instruction) after a branch that may diverge, whether or not it does.

    If no branch may diverge, the compiler emits no synchronisation and all lanes take part. FlashInfer's gated delta
    rule depends on that.
    """
    these = exchange.replace("MEMBERS", "0xffffff00")
    run(f"@%p0 bra A; {these} A:", completion, threads=32)
    everyone = "setp.ge.u32 %p2, %r0, 32;"
    for body, level in (
        (these, Level.FORMAL),
        (f"@%p0 bra A; mov.b32 %r1, 1; A: {these}", Level.FORMAL),
        (f"{everyone} @%p2 bra A; {these} A:", Level.FAULT),
        (f"setp.lt.u32 %p2, %r0, 4; @%p2 bra A; {these} A:", Level.FAULT),
        (f"{everyone} @%p2 bra A; mov.b32 %r3, 0xffffff00; {exchange.replace('MEMBERS', '%r3')} A:", Level.FAULT),
    ):
        with pytest.raises(
            BarrierError, match=r"names lanes 8 to 31 only: the results of other lanes are undefined"
        ) as caught:
            run(body, completion, threads=32)
        assert caught.value.level == level


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(("size", "level"), [((64, 1, 1), Level.FORMAL), ((8, 8, 1), Level.FAULT)])
def test_a_branch_on_the_number_of_a_warp_parts_none(size: Dim3, level: Level, completion: Completion) -> None:
    """The warp number is %tid.x / 32 if the kernel declares that its block is a row of threads."""
    exchange = "shfl.sync.bfly.b32 %r2, %r0, 0, 31, 0xffff;"
    body = PROGRAM.replace("BODY", f"shr.u32 %r4, %r0, 5; setp.ne.b32 %p2, %r4, 0; @%p2 bra A; {exchange} A:")
    text = kernel("k", ".param .u64 out", body).replace(")\n{", f")\n.reqntid {size[0]}, {size[1]}, 1\n{{")
    with pytest.raises(BarrierError, match="names lanes 0 to 15 only") as caught:
        launch(text, [np.zeros(64, np.uint32)], block=size, completion=completion, level=Level.FORMAL)
    assert caught.value.level == level


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_lanes_that_are_named_must_come_or_end(exchange: str, completion: str) -> None:
    every, these = exchange.replace("MEMBERS", "-1"), exchange.replace("MEMBERS", "0xffffff00")
    run(every, completion)
    run(every, completion, threads=40)
    run(f"@%p0 bra END; {every}", completion)
    run(f"@%p0 bra A; {these} A: bar.sync 0;", completion, threads=32)
    for body in (
        f"@%p0 bra A; {every} A:",
        f"@%p0 bra A; {every} A: mul.lo.u32 %r1, %r0, 2; @%p0 bra B; add.u32 %r1, %r1, 1; B:",
    ):
        run(body, completion)
    for before in (f"@%p0 bra A; {every} A:", f"@!%p0 bra A; {every} A:"):
        for after in (
            "bar.sync 0;",
            "barrier.cta.sync 0;",
            "barrier.cluster.arrive;",
            exchange.replace("MEMBERS", "-1"),
        ):
            with pytest.raises(BarrierError, match=r"names .*, but lanes (0 to 7|8 to 31) did not come with them"):
                run(f"{before} {after}", completion, threads=32)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("shuffle", ["down.b32 %r2, %r0, 8, 31", "idx.b32 %r2, %r0, 9, 31", "bfly.b32 %r2, %r0, 8, 31"])
def test_a_shuffle_from_lanes_that_end_without_it(shuffle: str, completion: str) -> None:
    """Lanes 8 to 31 go round the shuffle, whose mask names them. It waits until they end."""
    run("@!%p0 bra A; shfl.sync.bfly.b32 %r2, %r0, 4, 31, -1; A:", completion)
    with pytest.raises(BarrierError, match="the values of lanes that have ended") as caught:
        run(f"@!%p0 bra A; shfl.sync.{shuffle}, -1; A:", completion)
    assert caught.value.level == Level.FORMAL


LOCKED = """bar.warp.sync -1; L: atom.shared.cas.b32 %r2, [words], 0, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra L;
ld.volatile.shared.b32 %r1, [words+4]; add.u32 %r3, %r1, 1; st.volatile.shared.b32 [words+4], %r3;
atom.shared.exch.b32 %r4, [words], 0;"""
ARMS = {
    "votes": (
        "@%p0 bra A; vote.sync.ballot.b32 %r1, !%p1, -1; bra B; A: vote.sync.ballot.b32 %r1, %p1, -1; B:",
        lambda lane: 0xF0,
    ),
    "shuffles between registers of their own": (
        "@%p0 bra A; add.u32 %r2, %r0, 90; shfl.sync.bfly.b32 %r1, %r2, 31, 31, -1; bra B; "
        "A: shfl.sync.bfly.b32 %r1, %r0, 31, 31, -1; B:",
        lambda lane: 31 - lane + 90 * (lane < 24),
    ),
    "three arms": (
        "@%p0 bra A; redux.sync.add.u32 %r1, %r0, -1; bra B; A: @%p1 bra C; mov.b32 %r2, 100; "
        "redux.sync.add.u32 %r1, %r2, -1; bra B; C: redux.sync.add.u32 %r1, %r0, -1; B:",
        lambda lane: sum(range(4, 32)) + 400,
    ),
    "a barrier of the warp": (
        "@%p0 bra A; bar.warp.sync -1; ld.shared.b32 %r1, [words+8]; bra B; A: st.shared.b32 [words+8], 7; "
        "bar.warp.sync -1; B:",
        lambda lane: 7 * (lane >= 8),
    ),
    "a branch before each": (
        "@!%p0 bra A; st.shared.b32 [words+8], 7; bar.warp.sync -1; A: @%p0 bra B; bar.warp.sync -1; "
        "ld.shared.b32 %r1, [words+8]; B:",
        lambda lane: 7 * (lane >= 8),
    ),
    "a flag of the lanes that branch": (
        "@!%p0 bra B; A: ld.volatile.shared.b32 %r2, [words]; setp.eq.u32 %p1, %r2, 0; @%p1 bra A; mov.b32 %r1, 5; "
        "bra C; B: st.volatile.shared.b32 [words], 1; C:",
        lambda lane: 5 * (lane < 8),
    ),
    "a flag of the other lanes": (
        "@%p0 bra B; A: ld.volatile.shared.b32 %r2, [words]; setp.eq.u32 %p1, %r2, 0; @%p1 bra A; mov.b32 %r1, 5; "
        "bra C; B: st.volatile.shared.b32 [words], 1; C:",
        lambda lane: 5 * (lane >= 8),
    ),
    "a flag that lanes set past the loop": (
        "A: ld.volatile.shared.b32 %r1, [words]; setp.lt.u32 %p1, %r1, %r0; @%p1 bra A; add.u32 %r2, %r1, 1; "
        "st.volatile.shared.b32 [words], %r2; bar.sync 0;",
        lambda lane: lane,
    ),
    "a lock for each lane": (LOCKED, lambda lane: lane),
    "a lock, then a barrier": (
        f"{LOCKED} bar.sync 0; ld.volatile.shared.b32 %r1, [words+4]; vote.sync.ballot.b32 %r2, %p0, -1; "
        "add.u32 %r1, %r1, %r2;",
        lambda lane: 32 + 255,
    ),
    "an mbarrier of another lane": (
        "@!%p0 bra B; A: mbarrier.try_wait.parity.shared::cta.b64 %p1, [m], 0; @!%p1 bra A; mov.b32 %r1, 5; bra C; "
        "B: setp.eq.u32 %p1, %r0, 20; @%p1 mbarrier.arrive.shared.b64 _, [m]; C: bar.sync 0;",
        lambda lane: 5 * (lane < 8),
    ),
    "an mbarrier of a lane past the branch": (
        "@%p0 bra B; A: mbarrier.try_wait.parity.shared::cta.b64 %p1, [m], 0; @!%p1 bra A; mov.b32 %r1, 5; "
        "B: setp.eq.u32 %p1, %r0, 3; @%p1 mbarrier.arrive.shared.b64 _, [m]; bar.sync 0;",
        lambda lane: 5 * (lane >= 8),
    ),
}


@pytest.mark.parametrize("completion", [*MODES, "all"])
@pytest.mark.parametrize("name", ARMS)
def test_arms_that_wait_for_each_other(name: str, completion: Completion) -> None:
    """Lanes meet by the member mask, and each goes on by itself, as an H200's do."""
    body, wanted = ARMS[name]
    begin = """.shared .b32 words[4]; .shared .b64 m; setp.ge.u32 %p1, %r0, 4; setp.eq.u32 %p2, %r0, 0;
@%p2 mbarrier.init.shared.b64 [m], 1; @%p2 st.shared.v4.b32 [words], {0, 0, 0, 0}; bar.sync 0;"""
    out = np.zeros(32, np.uint32)
    with emulate(completion=completion, level="formal"):
        emulator.launch(kernel("k", ".param .u64 out", PROGRAM.replace("BODY", f"{begin} {body}")), "k", [out])
    assert out.tolist() == [wanted(lane) for lane in range(32)]


ENDING = {
    "in one side": "@!%p0 bra A; @%p1 bra END; mov.b32 %r1, 1; A:",
    "by ret": "@!%p0 bra A; @%p1 ret; mov.b32 %r1, 1; A:",
    "after a store": "@!%p0 bra A; @%p1 bra OUT; mov.b32 %r1, 1; bra A; OUT: st.global.b32 [%a0], 0; "
    "setp.eq.u32 %p2, %r0, 1; @%p2 bra MORE; ret; MORE: st.global.b32 [%a0], 0; ret; A:",
    "in the other side": "@%p0 bra A; setp.gt.u32 %p1, %r0, 20; @%p1 bra END; bra B; A: mov.b32 %r1, 1; B:",
    "in a side of a side": "@!%p0 bra A; setp.lt.u32 %p2, %r0, 6; @!%p2 bra B; @%p1 bra END; mov.b32 %r1, 1; B: A:",
    "in a loop": "mov.b32 %r2, 0; @!%p0 bra A; L: @%p1 bra END; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r0, %r2; "
    "setp.lt.u32 %p2, %r2, 4; @%p2 bra L; mov.b32 %r1, 1; A:",
}


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("how", ENDING)
def test_lanes_that_others_of_their_side_leave_meet_the_other_side(how: str, completion: str) -> None:
    """The lanes that have not ended meet the rest of the warp: at an exchange, at a barrier, in a count of the warp."""
    body = f"setp.lt.u32 %p1, %r0, 3; {ENDING[how]} vote.sync.ballot.b32 %r2, %p0, -1; bar.sync 0; mov.b32 %r1, %r2;"
    ended = {*range(3)} if "other" not in how else {*range(21, 32)}
    there = sum(1 << lane for lane in range(8) if lane not in ended)
    assert run(body, completion, threads=32) == [0 if lane in ended else there for lane in range(32)]


@pytest.mark.parametrize("completion", MODES)
def test_lanes_meet_past_an_assertion_that_holds(completion: str) -> None:
    body = """setp.gt.u32 %p1, %r0, 99; @!%p0 bra A; @%p1 bra STOP; mov.b32 %r1, 1;
A: vote.sync.ballot.b32 %r2, %p0, -1; bar.sync 0; mov.b32 %r1, %r2; bra PAST;
STOP: trap; PAST:"""
    assert run(body, completion, threads=32) == [0xFF] * 32


def test_lanes_that_end_later_do_not_take_part() -> None:
    """Sums over groups of eight lanes, where the last group skips to the end, give the results of an H100."""
    sums = "setp.lt.u32 %p1, %r0, 24; @!%p1 bra A; shfl.sync.bfly.b32 %r1, %r0, 4, 31, -1; A:"
    assert run(f"{sums} @%p1 bra B; mov.b32 %r1, 9; B:", threads=32) == [
        lane ^ 4 if lane < 24 else 9 for lane in range(32)
    ]
