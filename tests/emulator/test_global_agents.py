"""Global memory that bulk copies and TMA write: other accesses must be ordered after a wait for the writes."""

from __future__ import annotations

import mmap
import weakref
from typing import Any

import numpy as np
import pytest

from emulator.errors import DataRace, Fault, Level, MissingProxyFence, MissingWait
from emulator.machine.execution import scheduler
from emulator.machine.launch.globalmem import GlobalMemory
from emulator.machine.topology import Cluster
from tests.emulator.ptx_kernel import launch, source

MODES = ("eager", "lazy", "random")
ROUNDS = 6
START = """
.shared .align 128 .b8 box[256]; .shared .align 8 .b64 bar;
mov.u32 %r50, box; mov.u32 %r55, bar; add.u32 %r53, %r50, 128; mov.b32 %r60, 0;
setp.eq.u32 %p0, %t, 0; setp.lt.u32 %p1, %t, 32; shl.b32 %r51, %t, 2; add.u32 %r51, %r51, %r50;
add.u64 %q0, %a0, %b; add.u64 %q1, %a1, %b; sub.u64 %q2, %q0, 128;
@%p0 mbarrier.init.shared.b64 [%r55], 1; @%p0 fence.proxy.async; bar.sync 0;
"""
LOOP = "mov.b32 %r90, 0; LOOP: {0} add.u32 %r90, %r90, 1; setp.lt.u32 %p39, %r90, {1}; @%p39 bra LOOP;"
STORE = """
add.u32 %r61, %t, %r90; @%p1 st.shared.u32 [%r51], %r61; @%p1 fence.proxy.async; bar.sync 0;
@%p0 cp.async.bulk.global.shared::cta.bulk_group [%a0], [%r50], 128; {commit} {wait} {barrier}
"""
GOOD = {
    "commit": "@%p0 cp.async.bulk.commit_group;",
    "wait": "@%p0 cp.async.bulk.wait_group 0;",
    "barrier": "bar.sync 0;",
}
READ = "@!%p1 ld.global.u32 %r60, [%q2]; bar.sync 0;"
OVERWRITE = "@!%p1 st.global.u32 [%q2], 7; fence.proxy.async; bar.sync 0;"
LOAD = """
@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r55], 128;
@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r53], [%a0], 128, [%r55];
and.b32 %r56, %r90, 1; WAIT: mbarrier.try_wait.parity.shared.b64 %p5, [%r55], %r56; @!%p5 bra WAIT;
@%p1 ld.shared.u32 %r60, [%r51+128]; fence.proxy.async; bar.sync 0;
"""
COPY = """
@%p1 cp.async.ca.shared.global [%r51+128], [%q0], 4; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
"""
USES = {"cp.async": COPY, "a load": READ, "a store": OVERWRITE, "a bulk copy": LOAD}
BROKEN = {
    "no commit_group": {"commit": ""},
    "no wait_group": {"wait": ""},
    "only for the reads": {"wait": "@%p0 cp.async.bulk.wait_group.read 0;"},
}
MISSING = {
    "no commit_group": "after a commit_group that follows PTX line",
    "no wait_group": r"cp.async.bulk.wait_group \(not .read\) in warp 0 .* that covers PTX line",
    "only for the reads": r"cp.async.bulk.wait_group \(not .read\) in warp 0 .* that covers PTX line",
}


def run(body: str, completion: str, rounds: int = ROUNDS) -> np.ndarray:
    """Run a body for several rounds with two warps, and store %r60 of each thread."""
    words, out = (np.zeros(64 + 32, np.uint32) for _ in range(2))
    start = -words.ctypes.data % 16 // 4
    text = source(f"{START} {LOOP.format(body, rounds)} st.global.u32 [%q1], %r60; ret;", 2, block=64)
    launch(text, words[start : start + 64], out, block=64, completion=completion, level=Level.FORMAL)
    return out[:64]


@pytest.mark.parametrize("completion", MODES)
def test_after_the_wait_all_may_read_and_write(completion: str) -> None:
    read = run(STORE.format(**GOOD) + READ, completion)
    assert read[32:].tolist() == [t + ROUNDS - 1 for t in range(32)]
    run(STORE.format(**GOOD) + OVERWRITE, completion)
    run(STORE.format(**GOOD) + COPY, completion)
    copied = run(STORE.format(**GOOD) + LOAD, completion)
    assert copied[:32].tolist() == [t + ROUNDS - 1 for t in range(32)]


@pytest.mark.parametrize("completion", MODES)
def test_the_bits_that_are_there_before_a_copy_comes_are_not_its_own(completion: str) -> None:
    """A store of zeros over zeros, while a copy or a reduction is in flight."""
    copy = "st.shared.u32 [%r51], %t; fence.proxy.async; bar.sync 0; @%p0 {} [%a0], [%r50], 128; {} {} ret;"
    over, whole = "@!%p1 st.global.u32 [%q2], 0;", f"{GOOD['commit']} {GOOD['wait']}"
    for by in ("cp.async.bulk", "cp.reduce.async.bulk"):
        fold = ".add.u32" if "reduce" in by else ""
        body = copy.format(f"{by}.global.shared::cta.bulk_group{fold}", "{}", "{}")
        found = list[Fault]()
        words = np.zeros(96, np.uint32)
        given = words[-words.ctypes.data % 16 // 4 :][:64]
        launch(source(START + body.format(f"{whole} bar.sync 0;", over), 2, block=64), given, given, block=64)
        with pytest.raises(DataRace, match="not ordered after"):
            text = source(START + body.format(over, whole), 2, block=64)
            launch(text, given, np.zeros(64), block=64, completion=completion, findings=found)
            raise next(fault for fault in found if fault.level == Level.FAULT)


@pytest.mark.parametrize("completion", MODES)
def test_the_bits_of_a_sum_are_not_those_of_a_store(completion: str) -> None:
    """One warp adds 1 to 0, another stores 1. The store equals the sum here; in the other order the result is 2."""
    body = "setp.eq.u32 %p1, %t, 32; ADD @%p1 st.global.u32 [%a0], 1; ret;"
    add, found = "@%p0 red.global.add.u32 [%a0], 1;", list[Fault]()
    text = "setp.eq.u32 %p0, %t, 0; " + body.replace("ADD", add)
    launch(source(text, 1, block=64), np.zeros(4, np.uint32), block=64, completion=completion, findings=found)
    assert [fault.level for fault in found] == [Level.FAULT]


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", BROKEN)
def test_without_it_the_wait_is_missing(name: str, use: str, completion: str) -> None:
    with pytest.raises(MissingWait, match=MISSING[name]) as caught:
        run(STORE.format(**{**GOOD, **BROKEN[name]}) + USES[use], completion)
    assert "global memory 0x" in str(caught.value) and "a bulk store that wrote it" in str(caught.value)


@pytest.mark.parametrize("completion", MODES)
def test_another_warp_needs_a_barrier_after_the_wait(completion: str) -> None:
    late = STORE.format(**{**GOOD, "wait": "bar.sync 0; @%p0 cp.async.bulk.wait_group 0;", "barrier": ""})
    missing = (
        r"a barrier that warp 0 .* arrives on after its cp\.async\.bulk\.wait_group|wait_group \(not \.read\) in warp 0"
    )
    with pytest.raises(MissingWait, match=missing):
        run(late + READ, completion, 1)


@pytest.mark.parametrize("completion", MODES)
def test_what_threads_write_needs_a_fence_before_a_bulk_copy_reads_it(completion: str) -> None:
    run(STORE.format(**GOOD) + OVERWRITE + LOAD, completion)
    with pytest.raises(MissingProxyFence, match="a bulk copy reads global memory"):
        run(STORE.format(**GOOD) + OVERWRITE.replace("fence.proxy.async;", "") + LOAD, completion)
    run(STORE.format(**GOOD) + OVERWRITE.replace("fence.proxy.async;", "fence.proxy.async.global;") + LOAD, completion)
    shared = "fence.proxy.async.shared::cta;"
    with pytest.raises(MissingProxyFence, match="a bulk copy reads global memory"):
        run(STORE.format(**GOOD) + OVERWRITE.replace("fence.proxy.async;", shared) + LOAD, completion)


@pytest.mark.parametrize("completion", MODES)
def test_warps_race_where_an_agent_wrote_before(completion: str) -> None:
    with pytest.raises(DataRace, match=r"st\.global writes global memory"):
        run(STORE.format(**GOOD) + "@%p1 st.global.u32 [%q0], 8;" + OVERWRITE, completion)


@pytest.mark.parametrize("completion", MODES)
def test_what_was_read_before_anything_wrote_there_was_read_too(completion: str) -> None:
    read = "@%p1 ld.global.u32 %r60, [%q0]; {} @!%p1 st.shared.u32 [%r51], %t; @!%p1 fence.proxy.async;"
    write = f"""
    bar.warp.sync -1; setp.eq.u32 %p6, %t, 32; @%p6 {PLAIN} [%a0], [%r53], 128;
    @%p6 cp.async.bulk.commit_group; @%p6 cp.async.bulk.wait_group 0;
    """
    run(read.format("bar.sync 0;") + write, completion, 1)
    with pytest.raises(DataRace, match=r"ld\.global"):
        run(read.format("") + write, completion, 1)


def test_two_bulk_stores_of_one_place_may_come_in_any_order() -> None:
    twice = STORE.format(**{**GOOD, "wait": "", "barrier": ""}) + "@%p0 cp.async.bulk.wait_group 0; bar.sync 0;"
    run(twice + READ, "random")


OF_TWO = """
.shared .align 128 .b8 box[128]; mov.u32 %r50, box; setp.eq.u32 %p0, %t, 0; mov.u32 %r52, %ctaid.x;
shl.b32 %r53, %t, 2; add.u32 %r53, %r53, %r50; mul.wide.u32 %q0, %r52, APART; add.u64 %q0, %a0, %q0;
st.shared.u32 [%r53], VALUE; fence.proxy.async.shared::cta; bar.sync 0;
@%p0 COPY [%q0], [%r50], 128; @%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0; ret;
"""
PLAIN = "cp.async.bulk.global.shared::cta.bulk_group"
FOLDED = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("processes", [1, 2])
def test_copies_of_two_ctas_to_one_place(processes: int, completion: str) -> None:
    """Either may complete last: a fault, unless both bring the same bytes or reduce."""

    def tried(apart: int, value: str, copy: str) -> list[Fault]:
        words, found = np.zeros(128, np.uint32), list[Fault]()
        words = words[-words.ctypes.data % 16 // 4 :][:96]
        text = OF_TWO.replace("APART", str(apart)).replace("VALUE", value).replace("COPY", copy)
        launch(source(text), words, grid=3, completion=completion, processes=processes, findings=found)
        return found

    assert tried(128, "%r52", PLAIN) == tried(0, "%r52", FOLDED) == tried(64, "%r52", FOLDED) == []
    assert {fault.level for fault in tried(0, "%t", PLAIN)} == {Level.FORMAL}
    for apart, value in ((0, "%r52"), (64, "%r52"), (64, "%t")):
        faults = tried(apart, value, PLAIN)
        assert {fault.level for fault in faults} == {Level.FAULT}
        assert all("an acquire of warp 0 of CTA" in str(fault) for fault in faults)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("second", [PLAIN, FOLDED])
def test_a_copy_over_one_that_was_not_waited_for(second: str, completion: str) -> None:
    store = "st.shared.u32 [%r51], %t; fence.proxy.async; bar.sync 0;"
    first, wait = f"@%p0 {PLAIN} [%a0], [%r50], 128; {GOOD['commit']}", "@%p0 cp.async.bulk.wait_group{} 0;"
    then = f"@%p0 {second} [%a0], [%r50], 128; {GOOD['commit']} {wait.format('')} bar.sync 0;"
    run(store + first + wait.format("") + then, completion, 1)
    with pytest.raises(MissingWait, match=r"wait_group \(not \.read\) in warp 0"):
        run(store + first + wait.format(".read") + then.replace("[%r50], 128", "[%r53], 128"), completion, 1)


BY_CTA = """
.shared .align 128 .b8 box[128]; mov.u32 %r50, box; setp.eq.u32 %p0, %t, 0; mov.u32 %r52, %ctaid.x;
shl.b32 %r53, %t, 2; add.u32 %r53, %r53, %r50; st.shared.u32 [%r53], %r52; fence.proxy.async; bar.sync 0;
mul.wide.u32 %q0, %r52, 128; add.u64 %q0, %a0, %q0;
@%p0 cp.async.bulk.global.shared::cta.bulk_group [%q0], [%r50], 128; @%p0 cp.async.bulk.commit_group;
@%p0 cp.async.bulk.wait_group.read 0; bar.sync 0;
"""
CTAS = 4


def test_a_cluster_that_ended_is_let_go_with_what_its_agents_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[weakref.ref[Cluster]] = []
    beside = []

    class Counted(Cluster):
        def __init__(self, *given: Any) -> None:
            beside.append(sum(other() is not None for other in began))
            super().__init__(*given)
            began.append(weakref.ref(self))

    monkeypatch.setattr(scheduler, "Cluster", Counted)
    words = np.zeros(32 * CTAS + 4, np.uint32)
    words = words[-words.ctypes.data % 16 // 4 :][: 32 * CTAS]
    launch(source(BY_CTA + "ret;"), words, grid=CTAS)
    assert words.tolist() == [i // 32 for i in range(32 * CTAS)]
    assert beside == [0] * CTAS


def test_a_read_of_what_an_ended_cta_did_not_wait_for_is_reported() -> None:
    words = np.zeros(32 * CTAS + 4, np.uint32)
    words = words[-words.ctypes.data % 16 // 4 :][: 32 * CTAS]
    read = "setp.gt.u32 %p1, %r52, 0; @%p1 ld.global.u32 %r60, [%q0+-128]; @%p1 st.shared.u32 [%r60], 0; ret;"
    missing = r"cp.async.bulk.wait_group \(not .read\) in warp 0 of CTA \(0,0,0\) that covers PTX line"
    with pytest.raises(MissingWait, match=missing):
        launch(source(BY_CTA + read), words, grid=CTAS)


def test_memory_in_two_mappings_of_the_process_is_one_allocation() -> None:
    """A tensor that no argument names may lie in pages that Linux lists apart, as after a madvise of some."""
    with mmap.mmap(-1, 2 * mmap.PAGESIZE) as pages:
        pages.madvise(mmap.MADV_DONTFORK, mmap.PAGESIZE, mmap.PAGESIZE)
        array = np.frombuffer(pages, np.uint8)
        middle = array.ctypes.data + mmap.PAGESIZE
        found = GlobalMemory([], False, lambda fault: None).find(middle - 64, middle + 64)
        del array
    assert found is not None and found.address < middle < found.address + found.size
