"""Loads of values they should not read: a fault if the value is used, formal if not, in every completion mode."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernel import source
from ptx_launch import launch
from test_pairs import MODES

from emulator import launch as device_launch
from emulator.errors import DataRace, Fault, Level, UnwrittenRead
from emulator.machine.order.completion import Completion

ALLOCATED = """
.shared .align 16 .b8 memory[512];
ld.global.u32 %r9, [%a1]; setp.ne.u32 %p9, %r9, 0; mov.u32 %r8, memory; mad.lo.u32 %r6, %t, 4, %r8;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r8], 32; ld.shared.b32 %r7, [%r8]; mov.b32 %r0, 5;
BODY
bar.warp.sync -1; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r7, 32;
add.u64 %a0, %a0, %b; st.global.u32 [%a0], %r0; ret;
"""
"""%r9 and %p9: whether the value is used. %r7: tensor memory. %r8: shared memory, of which four bytes are written.
%r6: each lane's place there.
"""
TENSOR = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r7]; tcgen05.wait::ld.sync.aligned;"
SHARED = "ld.shared.b32 %r1, [%r6+64];"
WAYS = {
    "a branch": "add.u32 %r3, %r1, 1; @!%p9 bra PAST; add.u32 %r0, %r3, %r0; PAST:",
    "a guard": "max.f32 %r3, %r1, %r1; @%p9 mov.b32 %r0, %r3;",
    "a selection": "mul.lo.u32 %r3, %r1, 3; selp.b32 %r0, %r3, %r0, %p9;",
    "a jump far away": "@%p9 bra USE; bra PAST; USE: bar.warp.sync -1; setp.eq.u32 %p1, %r1, 7; @%p1 bra PAST;"
    "st.shared.b32 [%r6+64], 7; PAST:",
    "a way past lanes": "and.b32 %r5, %t, %r9; setp.ne.u32 %p1, %r5, 1; @%p1 bra PAST; add.u32 %r0, %r1, %r0; PAST:",
    "other lanes": "shfl.sync.idx.b32 %r3, %r1, 3, 31, -1; @%p9 mov.b32 %r0, %r3;",
    "an address": "add.u32 %r3, %r1, %r8; @%p9 ld.shared.b32 %r4, [%r3];",
    "a predicate": "setp.eq.u32 %p1, %r1, 7; and.pred %p2, %p1, %p9; @%p9 bra ASK; bra PAST;"
    "ASK: @%p1 bra PAST; st.shared.b32 [%r6+64], 7; PAST:",
    "a choice": "setp.eq.u32 %p1, %r1, 7; @%p1 bra ELSE; add.u32 %r3, %t, 1; bra PAST; ELSE: neg.s32 %r3, %t;"
    "PAST: @%p9 mov.b32 %r0, %r3;",
    "what is passed by": "mov.b32 %r3, 5; setp.ne.u32 %p1, %r1, 7; @%p1 bra PAST; mov.b32 %r3, 6;"
    "PAST: @%p9 mov.b32 %r0, %r3;",
    "shared memory": "st.shared.b32 [%r6+192], %r1; bar.warp.sync -1; @%p9 ld.shared.b32 %r0, [%r6+192];",
    "a part of it": "mad.lo.u32 %r5, %t, 4, %r6; st.shared.v2.b32 [%r5+192], {%r0, %r1}; bar.warp.sync -1;"
    "ld.shared.b32 %r0, [%r5+192]; @%p9 ld.shared.b32 %r0, [%r5+196];",
    "stored twice": "st.shared.b32 [%r6+192], %r1; ld.shared.b32 %r3, [%r6+192]; st.shared.b32 [%r6+64], %r3;"
    "@%p9 ld.shared.b32 %r0, [%r6+64];",
    "a matrix": "shl.b32 %r5, %t, 4; and.b32 %r5, %r5, 112; add.u32 %r5, %r5, %r8;"
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r5+256], {%r1}; bar.warp.sync -1;"
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r5+256]; @%p9 mov.b32 %r0, %r3;",
    "one of two matrices": "shl.b32 %r5, %t, 4; and.b32 %r5, %r5, 240; add.u32 %r5, %r5, %r8;"
    "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r5+256], {%r0, %r1}; bar.warp.sync -1;"
    "ld.shared.b32 %r3, [%r6+384]; @%p9 mov.b32 %r0, %r3;",
    "stored over": "st.shared.b32 [%r6+192], %r1; @!%p9 st.shared.b32 [%r6+192], %r0; ld.shared.b32 %r0, [%r6+192];",
}


def run(body: str, used: int, completion: Completion, level: Level = Level.FAULT) -> tuple[list[int], list[Fault]]:
    """Return what the lanes store, and the findings."""
    out, found = np.zeros(32, np.uint32), list[Fault]()
    text = source(ALLOCATED.replace("BODY", body), 2)
    launch(text, [out, np.array([used], np.uint32)], completion=completion, level=level, findings=found)
    return out.tolist(), found


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("load", [TENSOR, SHARED], ids=["tensor", "shared"])
@pytest.mark.parametrize("way", WAYS)
def test_a_value_that_nobody_uses_is_formal(way: str, load: str, completion: Completion) -> None:
    out, (found,) = run(load + WAYS[way], 0, completion)
    assert out == [5] * 32
    assert isinstance(found, UnwrittenRead) and found.level == Level.FORMAL
    with pytest.raises(UnwrittenRead):
        run(load + WAYS[way], 0, completion, Level.FORMAL)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("load", [TENSOR, SHARED], ids=["tensor", "shared"])
@pytest.mark.parametrize("way", WAYS)
def test_a_value_that_is_used_is_a_fault(way: str, load: str, completion: Completion) -> None:
    with pytest.raises(UnwrittenRead, match=r"flows into +PTX line \d+: ") as caught:
        run(load + WAYS[way], 1, completion)
    assert "ld" in caught.value.instr.opcode and caught.value.level == Level.FAULT


HANDED_ON = """
.shared .align 16 .b8 memory[256];
mov.u32 %r8, memory; mad.lo.u32 %r6, %t, 4, %r8; setp.lt.u32 %p0, %t, 32; setp.eq.u32 %p1, %t, 0;
@%p0 ld.shared.b32 %r1, [%r6]; @%p0 st.shared.b32 [%r6+128], %r1; BETWEEN
ret;
"""
"""A warp stores a value that it loaded and that nothing wrote, and another warp continues."""
OVER = "@!%p0 st.shared.b32 [%r6], 7;"
SENT = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%a0], [%r8+128], 128; cp.async.bulk.commit_group;"
WAITED = "fence.proxy.async.shared::cta; bar.sync 0; SENT cp.async.bulk.wait_group 0;"


@pytest.mark.parametrize("completion", MODES)
def test_the_reader_of_a_stored_suspect_is_reported(completion: Completion) -> None:
    """A copy reads the stored value; or another warp stores there, which is right only after a barrier."""

    def tried(between: str) -> list[Fault]:
        found = list[Fault]()
        text = source(HANDED_ON.replace("BETWEEN", between), block=64)
        launch(text, [np.zeros(32, np.uint32)], block=(64, 1, 1), completion=completion, findings=found)
        return found

    assert {fault.level for fault in tried(f"bar.sync 0; {OVER}")} == {Level.FORMAL}
    with pytest.raises(DataRace, match=r"missing +a barrier that warp"):
        tried(OVER)
    with pytest.raises(UnwrittenRead, match=r"stored at +PTX line(.|\n)+read at +PTX line \d+: @%p1 cp.async.bulk"):
        tried(WAITED.replace("SENT", SENT))
    with pytest.raises(UnwrittenRead) as caught:
        device_launch(
            source(HANDED_ON.replace("BETWEEN", WAITED.replace("SENT", SENT)), block=64),
            "k",
            [np.zeros(32, np.uint32)],
            block=64,
        )
    assert not hasattr(caught.value, "__notes__")  # the earlier formal finding is the same one and is not listed again


REPLICATED = """
.shared .align 4 .b8 word[4]; .reg .b64 %place, %other;
setp.eq.u32 %p0, %t, 0; add.u64 %other, %a0, 128; mov.u32 %r8, word;
@%p0 st.SPACE.b32 [PLACE], 7; bar.sync 0; mov.b32 %r9, 0;
AGAIN: ld.SPACE.b32 %r1, [PLACE]; add.u32 %r3, %r1, 1;
@%p0 st.SPACE.b32 [PLACE], %r3; USE
add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 2; bar.sync 0; @%p2 bra AGAIN; ret;
"""
"""Every lane loads a word and adds 1, and the first lane stores the sum in its place, in two rounds."""


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(
    ("shuffle", "seen"),
    [("bfly.b32 %r3, %r1, 8, 31", 0), ("bfly.b32 %r3, %r1, 16, 31", 16), ("down.b32 %r3, %r1, 4, 31", 4)],
)
def test_a_shuffle_takes_a_value_to_the_lanes_that_read_it(shuffle: str, seen: int, completion: Completion) -> None:
    """Lanes 0 to 15 write words and all load theirs. The first 16 lanes, or fewer, store what the shuffle brings."""
    body = (
        "mad.lo.u32 %r6, %t, 4, %r8; setp.lt.u32 %p1, %t, 16; @%p1 st.shared.b32 [%r6+64], %t; bar.warp.sync -1;"
        f"ld.shared.b32 %r1, [%r6+64]; shfl.sync.{shuffle}, -1; setp.lt.u32 %p2, %t, LAST; @%p2 mov.b32 %r0, %r3;"
    )
    assert run(body.replace("LAST", str(16 - seen)), 0, completion)[1][0].level == Level.FORMAL
    if seen:
        with pytest.raises(UnwrittenRead):
            run(body.replace("LAST", str(17 - seen)), 0, completion)


@pytest.mark.parametrize("completion", MODES)
def test_the_used_registers_of_a_vector_are_reported(completion: Completion) -> None:
    vector = "mad.lo.u32 %r5, %t, 16, %r8; st.shared.b32 [%r5+516], 5; ld.shared.v4.b32 {%r1, %r0, _, %r2}, [%r5+512];"
    wide = ALLOCATED.replace("memory[512]", "memory[1024]")

    def tried(then: str) -> tuple[list[int], list[Fault]]:
        out, found = np.zeros(32, np.uint32), list[Fault]()
        text = source(wide.replace("BODY", vector + then), 2)
        launch(text, [out, np.zeros(1, np.uint32)], completion=completion, findings=found)
        return out.tolist(), found

    out, (found,) = tried("")
    assert out == [5] * 32 and found.level == Level.FORMAL
    with pytest.raises(UnwrittenRead, match="flows into"):
        tried("add.u32 %r0, %r0, %r2;")


SHARED_BY = frozenset({(32, "shared"), (64, "shared")})


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(("space", "place"), [("global", "%a0"), ("shared", "%r8")])
@pytest.mark.parametrize("threads", [32, 64])
@pytest.mark.parametrize(
    ("use", "by"),
    [
        ("", frozenset()),
        ("setp.eq.u32 %p4, %t, 99; @%p4 st.global.b32 [%other], %r3;", frozenset()),
        ("setp.eq.u32 %p4, %t, LAST; @%p4 st.global.b32 [%other], %r3;", SHARED_BY | {(64, "global")}),
        ("setp.eq.u32 %p4, %r3, 99; @%p4 bra PAST; mov.b32 %r4, 1; PAST:", frozenset()),
        (
            "setp.eq.u32 %p4, %r3, 99; @%p4 bra USED; st.global.b32 [%other], 1; USED:",
            SHARED_BY | {(64, "global")},
        ),
        ("shfl.sync.idx.b32 %r4, %r3, 3, 31, -1; @%p0 st.global.b32 [%other], %r4;", SHARED_BY),
    ],
)
def test_a_word_that_all_load_and_one_overwrites(
    use: str, by: frozenset[tuple[int, str]], threads: int, space: str, place: str, completion: Completion
) -> None:
    """A fault if other lanes use the word. The lanes of a warp load global memory together, before one stores."""
    text = REPLICATED.replace("USE", use).replace("SPACE", space).replace("PLACE", place)
    text = source(text.replace("LAST", str(threads - 1)), block=threads)
    out, found = np.zeros(64, np.uint32), list[Fault]()
    if (threads, space) in by:
        with pytest.raises(DataRace):
            launch(text, [out], block=(threads, 1, 1), completion=completion, findings=found, seed=2)
        return
    launch(text, [out], block=(threads, 1, 1), completion=completion, findings=found, seed=2)
    assert {fault.level for fault in found} == {Level.FORMAL}
    assert space == "shared" or out[0] == 9


LOADED_TWICE = """
setp.eq.u32 %p0, %t, LAST; setp.eq.u32 %p1, %t, 5; setp.eq.u32 %p2, %t, 4; add.u64 %a1, %a0, 128;
@%p1 ld.global.b32 %r1, [%a0]; BETWEEN @%p2 ld.global.b32 %r2, [%a0]; @%p0 st.global.b32 [%a0], 7; ret;
"""


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("threads", [32, 64])
def test_of_two_loads_of_a_word_the_first_is_used(threads: int, completion: Completion) -> None:
    """The second load's value is unused, and it is the latest known load when another lane or warp stores there."""

    def tried(between: str) -> list[Fault]:
        found = list[Fault]()
        text = source(LOADED_TWICE.replace("LAST", str(threads - 1)).replace("BETWEEN", between), block=threads)
        launch(text, [np.zeros(64, np.uint32)], block=(threads, 1, 1), completion=completion, findings=found)
        return found

    assert {fault.level for fault in tried("")} <= {Level.FORMAL}
    with pytest.raises(DataRace):
        tried("@%p1 st.global.b32 [%a1], %r1;")


TWO_PASSES = """
shl.b32 %r5, %t, 2; and.b32 %r5, %r5, 124; cvt.u64.u32 %q1, %r5; add.u64 %a1, %a0, %q1;
add.u64 %a2, %a0, 128; add.u64 %a2, %a2, %b; setp.lt.u32 %p0, %t, 32; setp.lt.u32 %p1, %t, 64;
ld.global.b32 %r1, [%a1]; BETWEEN
ld.global.b32 %r2, [%a1]; @!%p0 st.global.b32 [%a1], 7; st.global.b32 [%a2], %r1; ret;
"""
"""Two warps load a row twice and use the first load's value. The second warp stores over the row. The first does not
use the value of its second load.
"""


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(
    ("between", "met"),
    [
        ("bar.sync 0;", True),
        ("add.u32 %r1, %r1, 0; SEEN: barrier.sync.aligned 1; bar.warp.sync -1;", True),
        ("bar.sync 1, 64; bar.warp.sync -1;", True),
        ("bar.sync 0; mov.b64 %q0, table; ld.global.b32 %r3, [%q0]; add.u32 %r1, %r1, %r3;", True),
        ("", False),
        ("bar.sync 1, 32;", False),
        ("bar.warp.sync -1;", False),
        ("@%p1 bra PAST; bar.sync 0; PAST:", False),
        ("bra PAST; AGAIN: bar.sync 0; PAST: @!%p1 bra AGAIN;", False),
    ],
)
def test_what_was_loaded_before_the_warps_met_does_not_count(between: str, met: bool, completion: Completion) -> None:
    row, found = np.arange(1, 97, dtype=np.uint32), list[Fault]()
    text = source(TWO_PASSES.replace("BETWEEN", between), block=64, outside=".global .b32 table[1] = {0};")
    if not met:
        with pytest.raises(DataRace):
            launch(text, [row], block=(64, 1, 1), completion=completion, findings=found)
        return
    launch(text, [row], block=(64, 1, 1), completion=completion, findings=found)
    assert {fault.level for fault in found} == {Level.FORMAL}
    assert row[32:].tolist() == [*range(1, 33)] * 2


@pytest.mark.parametrize("completion", MODES)
def test_of_two_loads_of_a_word_the_lane_of_the_second_stores_there(completion: Completion) -> None:
    """The value that another lane loaded and uses is undefined. The lane's own load is ordered before its store."""
    text = "@%p1 st.global.b32 [%a1], %r1;".join(LOADED_TWICE.split("BETWEEN")).replace("LAST", "4")
    with pytest.raises(DataRace, match=r"in lane 4, not ordered after ld\.global that reads it in lane 5"):
        launch(source(text), [np.zeros(64, np.uint32)], completion=completion)
    out, met = np.zeros(64, np.uint32), "bar.warp.sync -1; @%p2 ld.global"
    launch(source(text.replace("@%p2 ld.global", met)), [out], completion=completion, level=Level.FORMAL)
    assert out[0] == 7


GROUPS = """
.reg .b64 %place, %out; and.b32 %r4, %t, 3; mul.wide.u32 %place, %r4, 4; add.u64 %place, %place, %a0;
setp.lt.u32 %p0, %t, 4; setp.ge.u32 %p1, %t, 16; add.u64 %out, %a0, %b; mov.b32 %r9, 0;
AGAIN: mov.b32 %r1, 1; @%p1 ld.global.b32 %r1, [%a0]; BETWEEN
ld.global.b32 %r2, [%place]; add.u32 %r3, %r2, %r1; @%p0 st.global.b32 [%place], %r3;
add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 3; bar.warp.sync -1; @%p2 bra AGAIN;
st.global.b32 [%out+128], %r3; ret;
"""
"""Half of the lanes load the first of four words. Then eight lanes each load one of the words, and one of them stores
there. All values are used.
"""


@pytest.mark.parametrize("completion", MODES)
def test_loads_of_one_word_by_other_lanes_are_distinguished(completion: Completion) -> None:
    """If the lanes converge between the first load and the store, the later load of the word replaces the first."""

    def tried(between: str) -> list[Fault]:
        out, found = np.array([1, 2, 3, 4] + [0] * 60, np.uint32), list[Fault]()
        launch(source(GROUPS.replace("BETWEEN", between)), [out], completion=completion, findings=found)
        assert out[32:36].tolist() == [4, 5, 6, 7]
        return found

    assert {fault.level for fault in tried("shfl.sync.idx.b32 %r1, %r1, 3, 31, -1;")} == {Level.FORMAL}
    with pytest.raises(DataRace, match="reads it in several lanes"):
        tried("add.u32 %r1, %r1, 0;")
