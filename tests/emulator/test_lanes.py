"""Lanes of a warp that communicate through shared memory need bar.warp.sync, in handlers and in machine code."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.errors import DataRace, Fault, Level, MissingWait
from tests.emulator.ptx_kernel import launch, source

MODES = ("eager", "lazy", "random")
OWN = """
.shared .align 128 .b8 box[2048]; .shared .align 8 .b64 bar;
mov.u32 %r50, box; shl.b32 %r51, %t, 2; add.u32 %r51, %r51, %r50; // the lane's own word
xor.b32 %r52, %t, 1; shl.b32 %r52, %r52, 2; add.u32 %r52, %r52, %r50; // its neighbour's
mul.wide.u32 %q9, %t, 4; add.u64 %q0, %a0, %q9; mov.b32 %r60, 0; mov.u32 %r55, bar;
"""
SYNC = "bar.warp.sync -1;"
LOOP = "mov.b32 %r90, 0; LOOP: {body} add.u32 %r90, %r90, 1; setp.lt.u32 %p39, %r90, {rounds}; @%p39 bra LOOP;"
EXCHANGE = "st.shared.u32 [%r51], %t; {0} ld.shared.u32 %r60, [%r52]; {1}"
OVERWRITE = "{1} ld.shared.u32 %r60, [%r52]; {0} st.shared.u32 [%r51], %t;"
WIDE = """
shl.b32 %r51, %t, 3; add.u32 %r51, %r51, %r50; xor.b32 %r52, %t, 1; shl.b32 %r52, %r52, 3; add.u32 %r52, %r52, %r50;
"""
PAIRS = {
    "read after write": (EXCHANGE, "st.shared.u32 [%r51], 7; bar.warp.sync -1;"),
    "write after read": (OVERWRITE, "st.shared.u32 [%r51], %t; bar.warp.sync -1;"),
    "write after write": ("st.shared.u32 [%r51], %t; {0} st.shared.u32 [%r52], %t; {1}", ""),
    "all read what one wrote": (
        "setp.eq.u32 %p1, %t, 3; @%p1 st.shared.u32 [%r50], %t; {0} ld.shared.u32 %r60, [%r50]; {1}",
        "",
    ),
    "one writes what all read": (
        "ld.shared.u32 %r60, [%r50]; {0} setp.eq.u32 %p1, %t, 3; @%p1 st.shared.u32 [%r50], %t; {1}",
        "setp.eq.u32 %p1, %t, 3; @%p1 st.shared.u32 [%r50], %t; bar.warp.sync -1;",
    ),
    "one writes what several read in turn": (
        """setp.eq.u32 %p1, %t, 3; @%p1 ld.shared.u32 %r60, [%r50]; setp.eq.u32 %p2, %t, 4;
        @%p2 ld.shared.u32 %r60, [%r50]; {0} @%p2 st.shared.u32 [%r50], %t; {1}""",
        "setp.eq.u32 %p1, %t, 3; @%p1 st.shared.u32 [%r50], %t; bar.warp.sync -1;",
    ),
    "wide": ("st.shared.v2.u32 [%r51], {{%t, %t}}; {0} ld.shared.u32 %r60, [%r52+4]; {1}", WIDE),
    "a byte": ("st.shared.u8 [%r51], %t; {0} ld.shared.u8 %r60, [%r52]; {1}", ""),
    "a weak read of an atomic": (
        "atom.shared.add.u32 %r61, [%r50], 1; {0} ld.shared.u32 %r60, [%r50]; {1}",
        "setp.eq.u32 %p1, %t, 3; @%p1 st.shared.u32 [%r50], %t; bar.warp.sync -1;",
    ),
}
HANDED_OVER = {
    "bar.sync": "bar.sync 0;",
    "an mbarrier": """mbarrier.arrive.shared.b64 _, [%r55];
        W{n}: and.b32 %r56, %r90, 1; mbarrier.try_wait.parity.shared.b64 %p5, [%r55], %r56; @!%p5 bra W{n};""",
}
INIT = "setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [%r55], 32; bar.sync 0;"


def run(
    body: str, before: str = "", rounds: int = 1, completion: str = "lazy", level: Level = Level.FAULT
) -> np.ndarray:
    """Run a body for several rounds in one warp, and store %r60 of each lane."""
    out = np.zeros(32, np.uint32)
    loop = LOOP.format(body=body, rounds=rounds)
    launch(source(f"{OWN} {before} {loop} st.global.u32 [%q0], %r60; ret;"), out, completion=completion, level=level)
    return out


def program(name: str, between: str, after: str) -> tuple[str, str]:
    body, before = PAIRS[name]
    return body.format(between, after), before


@pytest.mark.parametrize("rounds", [1, 40])
@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("name", PAIRS)
def test_with_bar_warp_sync_all_is_well(name: str, completion: str, rounds: int) -> None:
    run(*program(name, SYNC, SYNC), rounds, completion)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("name", PAIRS)
def test_without_it_is_a_race_that_names_both_lanes(name: str, completion: str) -> None:
    with pytest.raises(DataRace, match=r"in (lane \d+|several lanes), not ordered after .* of the same warp") as caught:
        run(*program(name, "", SYNC), 1, completion)
    assert "bar.warp.sync between PTX lines" in str(caught.value)


@pytest.mark.parametrize("name", PAIRS)
def test_machine_code_asks_where_the_lanes_did_not_meet_in_the_last_round(name: str) -> None:
    """In all rounds but the last the lanes synchronise."""
    late = "setp.eq.u32 %p7, %r90, 30; @%p7 bra LATE; bar.warp.sync -1; LATE:"
    with pytest.raises(DataRace, match="of the same warp"):
        run(*program(name, late, SYNC), 40, level=Level.FORMAL)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("how", HANDED_OVER)
def test_a_barrier_that_all_lanes_wait_for_will_do(how: str, completion: str) -> None:
    body = EXCHANGE.format(HANDED_OVER[how].format(n=1), "bar.sync 0;")
    assert run(body, INIT, 40, completion).tolist() == [lane ^ 1 for lane in range(32)]


def test_a_lane_may_use_its_own_word_again() -> None:
    body = "st.shared.u32 [%r51], %t; ld.shared.u32 %r60, [%r51]; add.u32 %r60, %r60, 1; st.shared.u32 [%r51], %r60;"
    assert run(body, "", 40).tolist() == [lane + 1 for lane in range(32)]


def test_what_all_lanes_store_any_may_read() -> None:
    run("st.shared.u32 [%r50], %r90; ld.shared.u32 %r60, [%r50]; bar.warp.sync -1;", "", 40)


@pytest.mark.parametrize("completion", MODES)
def test_two_lanes_that_store_different_values_in_one_place(completion: str) -> None:
    at = "shr.u32 %r57, %t, 1; shl.b32 %r57, %r57, 2; add.u32 %r57, %r57, %r50; {0} %r58, %t, 1;"
    run(at.format("shr.u32") + "st.shared.u32 [%r57], %r58; bar.warp.sync -1;", "", 40, completion)
    with pytest.raises(DataRace, match=r"in lane 1 and another value in lane 0: either value may remain"):
        run(at.format("add.u32") + "st.shared.u32 [%r57], %r58;", "", 1, completion)
    run(at.format("add.u32") + "st.volatile.shared.u32 [%r57], %r58; bar.warp.sync -1;", "", 2, completion)
    run("atom.shared.exch.b32 %r58, [%r50], %t;", "st.shared.u32 [%r50], 7; bar.warp.sync -1;", 2, completion)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("between", ["shfl.sync.idx.b32 %r70, %t, 0, 31, -1;", "membar.cta;"])
def test_with_a_shuffle_or_fence_in_between_it_is_formal(between: str, completion: str) -> None:
    body, before = program("read after write", between, SYNC)
    run(body, before, 2, completion)
    with pytest.raises(DataRace, match="of the same warp"):
        run(body, before, 1, completion, Level.FORMAL)


NEXT = "st.shared.u32 [%r51], %t; {0} ld.shared.u32 %r60, [%r51+4]; {1}"
"""Each lane reads the next lane's word, at a constant distance from its own."""
NEXT_BEFORE = "st.shared.u32 [box+128], 0; st.shared.u32 [%r51], 7; bar.warp.sync -1;"
KEPT = (
    "membar.cta;",
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r70}, [%r50];",
    "shfl.sync.idx.b32 %r70, %t, 0, 31, -1; mov.u32 %r51, %r51;",
)
MOVED = (
    "shfl.sync.idx.b32 %r70, %t, 0, 31, -1;",
    "vote.sync.any.pred %p6, %p6, -1;",
    "redux.sync.add.u32 %r70, %t, -1;",
    "elect.sync _|%p6, -1;",
)


@pytest.mark.parametrize("between", MOVED)
def test_a_load_that_the_assembler_moves_above_the_store_is_a_fault(between: str) -> None:
    run(NEXT.format(SYNC, SYNC), NEXT_BEFORE, level=Level.FORMAL)
    with pytest.raises(DataRace, match="of the same warp") as caught:
        run(NEXT.format(between, SYNC), NEXT_BEFORE)
    assert caught.value.level == Level.FAULT


@pytest.mark.parametrize("between", KEPT)
def test_a_load_that_the_assembler_keeps_behind_the_store_is_formal(between: str) -> None:
    run(NEXT.format(between, SYNC), NEXT_BEFORE)
    with pytest.raises(DataRace, match="of the same warp"):
        run(NEXT.format(between, SYNC), NEXT_BEFORE, level=Level.FORMAL)


MATRICES = {
    "ldmatrix reads": (
        "st.shared.u32 [%r51], %t; {0} ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r60}}, [%r53]; {1}",
        "xor.b32 %r53, %t, 1; and.b32 %r53, %r53, 7; shl.b32 %r53, %r53, 4; add.u32 %r53, %r53, %r50;",
    ),
    "ldmatrix read": (
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r60}}, [%r53]; {0} st.shared.u32 [%r51], %t; {1}",
        "xor.b32 %r53, %t, 1; and.b32 %r53, %r53, 7; shl.b32 %r53, %r53, 4; add.u32 %r53, %r53, %r50; "
        "st.shared.u32 [%r51], 7; bar.warp.sync -1;",
    ),
    "stmatrix wrote": (
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r53], {{%t}}; {0} ld.shared.u32 %r60, [%r52]; {1}",
        "and.b32 %r53, %t, 7; shl.b32 %r53, %r53, 4; add.u32 %r53, %r53, %r50;",
    ),
    "stmatrix writes": (
        "ld.shared.u32 %r60, [%r52]; {0} stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r53], {{%t}}; {1}",
        "and.b32 %r53, %t, 7; shl.b32 %r53, %r53, 4; add.u32 %r53, %r53, %r50; "
        "st.shared.u32 [%r51], 7; bar.warp.sync -1;",
    ),
}
"""Lanes communicate by instructions that converge the warp: no known hardware shows that bar.warp.sync is missing."""


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("name", MATRICES)
def test_lanes_that_exchange_by_matrices(name: str, completion: str) -> None:
    body, before = MATRICES[name]
    run(body.format(SYNC, SYNC), before, 40, completion, Level.FORMAL)
    run(body.format("", SYNC), before, 2, completion)
    for late in ("", "setp.eq.u32 %p7, %r90, 30; @%p7 bra LATE; bar.warp.sync -1; LATE:"):
        with pytest.raises(DataRace, match="of the same warp") as caught:
            run(body.format(late, SYNC), before, 40, completion, Level.FORMAL)
        assert "bar.warp.sync between PTX lines" in str(caught.value)


def test_each_lane_may_have_its_own_part_of_a_matrix() -> None:
    to, back = "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r53], {%t};", "ld.shared.u32 %r60, [%r51];"
    at = "and.b32 %r53, %t, 7; shl.b32 %r53, %r53, 4; add.u32 %r53, %r53, %r50;"
    assert run(f"{at} {to} {back} bar.warp.sync -1;", "", 40, level=Level.FORMAL).tolist() == [*range(32)]


def test_two_rows_of_stmatrix_in_one_place() -> None:
    twice = "and.b32 %r53, %t, 3; shl.b32 %r53, %r53, 4; add.u32 %r53, %r53, %r50; "
    with pytest.raises(DataRace, match="another value in several lanes: either value may remain"):
        run(twice + "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r53], {%t};")


COPY = "cp.async.ca.shared.global [%r51], [%q0], 4; cp.async.commit_group; cp.async.wait_group 0;"
COPIES = {
    "read": (COPY + "{0} ld.shared.u32 %r60, [%r52]; {1}", ""),
    "read, some rounds on": (
        COPY + "{0} setp.gt.u32 %p1, %r90, 2; @!%p1 ld.shared.u32 %r60, [%r51]; @%p1 ld.shared.u32 %r60, [%r52]; {1}",
        "",
    ),
    "overwritten": (COPY + "{0} st.shared.u32 [%r52], 7; {1}", ""),
    "copied over what was read": ("ld.shared.u32 %r60, [%r52]; {0}" + COPY + "{1}", "st.shared.u32 [%r51], 7; " + SYNC),
    "copied over what was written": ("st.shared.u32 [%r52], 7; {0}" + COPY + "{1}", ""),
}


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("name", COPIES)
def test_each_lane_waits_for_its_own_copies(name: str, completion: str) -> None:
    """cp.async.wait_group covers the lane's own copies. Those of other lanes need a bar.warp.sync after it."""
    body, before = COPIES[name]
    run(body.format(SYNC, SYNC), before, 40, completion, Level.FORMAL)
    with pytest.raises(DataRace, match="of the same warp") as caught:
        run(body.format("", SYNC), before, 40, completion, Level.FORMAL)
    assert caught.value.level == (Level.FAULT if "copied over" in name else Level.FORMAL)
    assert "bar.warp.sync after cp.async.wait_group" in str(caught.value) or "copied over" in name


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("some", ["setp.lt.u32 %p1, %t, 16;", "setp.lt.u32 %p1, %r90, 99;"])
def test_lanes_that_waited_together_read_copies_that_are_complete(some: str, completion: str) -> None:
    """Formal, as seen on an H200. A fault if half of the lanes wait first and the others later."""
    wait = "cp.async.wait_group 0;"
    body = f"{some} {COPY.replace(wait, f'@%p1 {wait} @!%p1 {wait}')} ld.shared.u32 %r60, [%r52]; bar.warp.sync -1;"
    if "%t" not in some:
        run(body, "", 2, completion)
        return
    with pytest.raises(DataRace, match=r"bar\.warp\.sync after cp\.async\.wait_group") as caught:
        run(body, "", 2, completion)
    assert caught.value.level == Level.FAULT


@pytest.mark.parametrize("completion", MODES)
def test_a_lane_that_does_not_wait_knows_of_no_copy(completion: str) -> None:
    """Half of the lanes copy and wait, then the other half; or each half waits for what the other half copies."""
    copy, wait = COPY.split("cp.async.wait_group")
    halves = "setp.lt.u32 %p1, %t, 16; " + " ".join(f"@{p} {c};" for p in ("%p1", "!%p1") for c in copy.split(";")[:-1])
    body = f"{halves} @%p1 cp.async.wait_group{wait} @!%p1 cp.async.wait_group{wait} ld.shared.u32 %r60, [%r51];"
    run(body, "", 3, completion, Level.FORMAL)
    with pytest.raises(MissingWait, match=r"cp\.async\.wait_group in warp 0 .* in the lanes that copied"):
        run(body.replace("@!%p1 cp.async.wait_group" + wait, ""), "", 1, completion)


@pytest.mark.parametrize("completion", MODES)
def test_lanes_that_met_before_they_waited_have_not_met(completion: str) -> None:
    early = COPY.replace("cp.async.wait_group", "bar.warp.sync -1; cp.async.wait_group")
    with pytest.raises(DataRace, match=r"bar\.warp\.sync after cp\.async\.wait_group"):
        run(early + "ld.shared.u32 %r60, [%r52]; bar.warp.sync -1;", "", 2, completion, Level.FORMAL)


@pytest.mark.parametrize("completion", MODES)
def test_copies_of_a_loop_into_one_place(completion: str) -> None:
    run(COPY, "", 2, completion, Level.FORMAL)
    with pytest.raises(
        MissingWait, match=r"missing +a separate destination for each copy of PTX line \d+, or a wait between"
    ):
        run(COPY.replace("cp.async.wait_group 0;", ""), "", 2, completion)


def test_a_lane_may_use_its_own_copy() -> None:
    run(COPY + "ld.shared.u32 %r60, [%r51]; st.shared.u32 [%r51], 7;", "", 40, level=Level.FORMAL)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("name", [n for n in PAIRS if "all read" not in n and "several" not in n and "atomic" not in n])
def test_bar_warp_sync_of_some_lanes_counts_for_these(name: str, completion: str) -> None:
    pair = "and.b32 %r71, %t, 30; shl.b32 %r70, 3, %r71; bar.warp.sync %r70;"
    halves = "setp.lt.u32 %p2, %t, 16; @%p2 bar.warp.sync 0x0000ffff; @!%p2 bar.warp.sync 0xffff0000;"
    for some in (pair, halves):
        run(*program(name, some, SYNC), 10, completion, Level.FORMAL)
    others = "and.b32 %r71, %t, 1; shl.b32 %r70, 0x55555555, %r71; bar.warp.sync %r70;"
    with pytest.raises(DataRace, match="of the same warp"):
        run(*program(name, others, SYNC), 10, completion)
    run(*program(name, others + halves, SYNC), 10, completion, Level.FORMAL)


def test_what_lanes_saw_before_they_met_is_handed_on() -> None:
    """Lane 0 synchronises with lane 1, and then lane 1 with lane 2. In the other order lane 2 is not ordered."""
    store, load = (
        "setp.eq.u32 %p1, %t, 0; @%p1 st.shared.u32 [%r50], 5;",
        "setp.eq.u32 %p2, %t, 2; @%p2 ld.shared.u32 %r60, [%r50];",
    )
    first, second = (
        "setp.lt.u32 %p3, %t, 2; @%p3 bar.warp.sync 3;",
        "sub.u32 %r70, %t, 1; setp.lt.u32 %p4, %r70, 2; @%p4 bar.warp.sync 6;",
    )
    assert run(store + first + second + load, level=Level.FORMAL)[2] == 5
    with pytest.raises(DataRace, match=r"in lane 2, not ordered after st.shared that wrote it in lane 0"):
        run(store + second + first + load)


def test_lanes_that_ended_need_not_meet() -> None:
    body = (
        "setp.lt.u32 %p1, %t, 8; @%p1 ret; {0} st.shared.u32 [%r51], %t; bar.warp.sync {1}; ld.shared.u32 %r60, [%r52];"
    )
    for members in ("-1", "0xffffff00"):
        run(body.format("", members), level=Level.FORMAL)


def test_a_mask_that_leaves_ended_lanes_out_does_not_order_their_stores() -> None:
    body = "st.shared.u32 [%r51], %t; {0} setp.ge.u32 %p1, %t, 20; @%p1 ret; {1} ld.shared.u32 %r60, [%r51+32];"
    some = "activemask.b32 %r70; bar.warp.sync %r70;"
    run(body.format("bar.warp.sync -1;", some), level=Level.FORMAL)
    with pytest.raises(DataRace, match=r"in lane 12, not ordered after st\.shared that wrote it in lane 20"):
        run(body.format("", some))


def test_synchronisations_of_the_same_lanes_are_one() -> None:
    """Half of the lanes exchange words in a loop: the emulator keeps one of their synchronisations, not each."""
    sync = "bar.warp.sync 0xffff;"
    loop = f"L: st.shared.u32 [%r51], %t; {sync} ld.shared.u32 %r60, [%r52]; {sync}"
    count = "add.u32 %r70, %r70, 1; setp.lt.u32 %p2, %r70, 2000; @%p2 bra L;"
    run(f"mov.u32 %r70, 0; setp.ge.u32 %p1, %t, 16; @%p1 ret; {loop} {count}", level=Level.FORMAL)


SUM = """
cvt.rn.f32.u32 %r60, %t; mul.f32 %r60, %r60, 0f3EAAAAAB; add.f32 %r60, %r60, 0f3F8CCCCD;
mul.f32 %r61, %r60, 0f3DCCCCCD; mul.f32 %r62, %r60, %r61;
shfl.sync.bfly.b32 %r63, %r62, 16, 31, -1; fma.rn.f32 %r64, %r61, %r60, %r63;
shfl.sync.bfly.b32 %r65, %r64, {distance}, 31, -1; add.f32 %r66, %r64, %r65;
and.b32 %r57, %t, {others}; shl.b32 %r57, %r57, 2;
cvt.u64.u32 %q1, %r57; add.u64 %q1, %q1, %a0; add.u32 %r57, %r57, %r50; st.{space} %r66; bar.warp.sync -1;
"""
"""Lanes add values of other lanes, as Triton's compiler does. The first addition is fused with a product."""


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("space", ["shared.b32 [%r57],", "global.b32 [%q1],"])
def test_lanes_that_store_one_sum_in_one_place_are_formal(space: str, completion: str) -> None:
    """The winning lane is undefined, and with it the last bit. A sum over other lanes is a different value: a fault."""
    well, ill = (SUM.format(space=space, distance=8, others=others) for others in (0b00111, 0b00011))
    run(well, "", 1, completion)
    for body, level in ((well, Level.FORMAL), (ill, Level.FAULT), (well.replace("add.f32", "sub.f32"), Level.FAULT)):
        with pytest.raises(DataRace, match="another value in lane"):
            run(body, "", 1, completion, level)


PAIR = """
shfl.sync.bfly.b32 %r70, %r60, 16, 31, -1; add.f32 %r71, %r60, %r70;
shfl.sync.bfly.b32 %r72, %r71, {distance}, 31, -1; mov.b64 %q2, {{%r64, %r71}}; mov.b64 %q3, {{%r65, %r72}};
add.f32x2 %q4, %q2, %q3; and.b32 %r57, %t, {others}; shl.b32 %r57, %r57, 3; add.u32 %r57, %r57, %r50;
st.shared.b64 [%r57], %q4; bar.warp.sync -1;
"""


@pytest.mark.parametrize("completion", MODES)
def test_two_sums_in_one_register_are_formal(completion: str) -> None:
    """The last addition of both halves is one instruction, as in flash-linear-attention's recurrent kernels."""
    begin = SUM.split("add.f32 %r66")[0].format(distance=8)
    well, ill = (begin + PAIR.format(distance=8, others=others) for others in (0b00111, 0b00011))
    mixed = well.replace("%r65, %r72", "%r65, %r60")
    for body, level in ((well, Level.FORMAL), (ill, Level.FAULT), (mixed, Level.FAULT)):
        with pytest.raises(DataRace, match="another value in lane") as caught:
            run(body, "", 1, completion, Level.FORMAL)
        assert caught.value.level == level


@pytest.mark.parametrize("completion", MODES)
def test_warps_that_store_one_sum_alike_are_formal(completion: str) -> None:
    """Warps 0 and 1 store the same sum, as in Triton's kernels that hold two copies of a row."""
    alike = SUM.format(space="shared.b32 [%r57],", distance=8, others=0b00111)
    other = alike.replace("cvt.rn", "@%p7 add.u32 %r69, %r69, 1; cvt.rn").replace("%t;", "%r69;", 1)
    for body, level in ((alike, Level.FAULT), (alike, Level.FORMAL), (other, Level.FAULT)):
        start = "setp.ge.u32 %p7, %t, 32; and.b32 %t, %t, 31; mov.b32 %r69, %t;"
        text, out = source(f"{start} {OWN} {body} ret;", block=64), np.zeros(32, np.uint32)
        if body is alike and level is Level.FAULT:
            launch(text, out, block=64, completion=completion, level=level)
            continue
        with pytest.raises(DataRace, match=r"another value in lane|not ordered after st\.shared that wrote it"):
            launch(text, out, block=64, completion=completion, level=level)


TREE = """.shared .b32 words[128]; .reg .b32 %w; shl.b32 %r1, %t, 2; mov.u32 %w, words; add.u32 %w, %w, %r1;
st.shared.u32 [%w], %t; bar.sync 0; mov.u32 %r2, 64;
L: setp.ge.u32 %p1, %t, %r2; @%p1 bra N; shl.b32 %r3, %r2, 2; add.u32 %r3, %w, %r3; ld.shared.u32 %r4, [%r3];
ld.shared.u32 %r5, [%w]; add.u32 %r5, %r5, %r4; st.shared.u32 [%w], %r5;
N: BARRIER shr.u32 %r2, %r2, 1; setp.ne.u32 %p2, %r2, 0; @%p2 bra L;
setp.ne.u32 %p3, %t, 0; @%p3 bra X; ld.shared.u32 %r6, [words]; st.global.u32 [%a0], %r6; X: ret;"""


@pytest.mark.parametrize("barrier", ["", "bar.warp.sync -1;"])
@pytest.mark.parametrize("stops", [True, False])
def test_a_race_between_lanes_and_across_warps_is_one_across_warps(barrier: str, stops: bool) -> None:
    """A barrier orders both. The advice to add bar.warp.sync would only lead to the second report."""
    found: list[Fault] = []
    try:
        text = source(TREE.replace("BARRIER", barrier), block=128)
        launch(text, np.zeros(1, np.uint32), block=128, findings=None if stops else found)
    except DataRace as error:
        found.append(error)
    (fault,) = found
    assert "a barrier that warp 0" in fault.missing and "bar.warp.sync" not in fault.missing
