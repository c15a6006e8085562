"""Values that warps pass to each other through memory and that decide times: tensor maps, and numbers for branches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from test_clock_laws import B200, predicted
from test_cp_async_bulk_tensor import tensor_map

from emulator.clock.grid import PROBES_IN_ORDER
from emulator.clock.walk import Walk
from emulator.clock.warps import TimedCluster
from emulator.machine.launch.launch import Dim3
from lab import clock as bench

TEMPLATE = "ld.param.v2.b64 {{%d2, %d3}}, [map+{0}]; st.{1}.v2.b64 [{2}+{0}], {{%d2, %d3}};"
IN_SHARED = f"""{"".join(TEMPLATE.format(at, "shared", "%r3") for at in range(0, 128, 16))}
bar.warp.sync -1; elect.sync _|%p2, -1;
@%p2 tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r3], 1, %r6;
bar.warp.sync -1;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d0], [%r3], 128;"""
IN_GLOBAL = f"""elect.sync _|%p2, -1; @!%p2 bra USE;
{"".join(TEMPLATE.format(at, "global", "%d0") for at in range(0, 128, 16))}
tensormap.replace.tile.box_dim.global.b1024.b32 [%d0], 1, %r6;
fence.proxy.tensormap::generic.release.gpu;"""


@pytest.mark.parametrize("change", [IN_SHARED, IN_GLOBAL], ids=["shared", "global"])
def test_a_load_has_the_box_that_another_warp_wrote_into_its_map(change: str) -> None:
    """The wait ends only if 8 rows of 128 bytes arrive; the map that the host made has 4."""
    text = bench.entry(
        "b64 map,u64 made",
        f"""
.shared .align 128 .b8 copy[128]; .shared .align 128 .b8 box[1024]; .shared .align 8 .b8 full[8];
mov.u32 %r1, %tid.x; mov.b32 %r2, full; mov.b32 %r3, copy; mov.b32 %r4, box; mov.b32 %r5, 0; mov.b32 %r6, 8;
ld.param.u64 %d0, [made]; setp.eq.u32 %p0, %r1, 0; @%p0 mbarrier.init.shared.b64 [%r2], 1;
setp.lt.u32 %p1, %r1, 32; @%p1 bra USE;
{change}
USE: bar.sync 0; @!%p0 bra END;
mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 1024;
{bench.TMA_LOAD.format(to="cta", more="")} [%r4], [%d0, {{%r5, %r5}}], [%r2];
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; @!%p3 bra WAIT;
END: ret;""",
    ).replace(".param .b64 map", ".param .align 64 .b8 map[128]")
    data = np.zeros((64, 32), np.float32)
    found = predicted(text, [tensor_map(data, (32, 4), 0), np.zeros(128, np.uint8)], 1, 64)
    assert found.busy["HBM"] * found.cycles > 0


def test_a_warp_does_as_much_as_another_warp_tells_it() -> None:
    """The first of 149 CTAs has 1,000 rounds and the others one, as a grouped GEMM's scheduler warp divides tiles."""
    text = bench.entry(
        "u32 rounds",
        """
.shared .align 4 .b8 told[4];
mov.u32 %r1, %tid.x; mov.b32 %r2, told; mov.u32 %r3, %ctaid.x; ld.param.u32 %r4, [rounds];
setp.ne.u32 %p0, %r3, 0; selp.u32 %r5, 1, %r4, %p0;
setp.eq.u32 %p1, %r1, 32; @%p1 st.shared.u32 [%r2], %r5;
bar.sync 0; setp.ge.u32 %p2, %r1, 32; @%p2 bra END; ld.shared.u32 %r6, [%r2];
NEXT: sub.u32 %r6, %r6, 1; setp.ne.u32 %p3, %r6, 0; @%p3 bra NEXT;
END: ret;""",
    )
    one, all_of_them = (predicted(text, [1000], ctas, 64).cycles for ctas in (1, 149))
    assert one == pytest.approx(all_of_them, rel=0.01)


ALLOCATED, OWN, OTHERS, ADDED = 0, 4, 8, 12
"""Offsets of the words that tcgen05.alloc and the loading warp write, and of those that the other warp writes."""
LOAD = "ld.shared.u32 %r6, [%r2+{}];"
PART = "ld.shared.v2.u16 {{%h1, %h6}}, [%r2+{}]; cvt.u32.u16 %r6, %h6;"
SKIPPED = f"{LOAD}\nsetp.ne.u32 %p3, %r3, 148; @%p3 bra END;\n{LOAD}"
LOADS = {
    "the address of tensor memory": (LOAD.format(ALLOCATED), False),
    "what the warp stored": (LOAD.format(OWN), False),
    "what another warp stored": (LOAD.format(OTHERS), True),
    "a part of what another warp stored": (PART.format(OTHERS), True),
    "in one line what another warp and the warp stored": (LOAD.format(OTHERS) + LOAD.format(OWN), True),
    "what another warp added": (LOAD.format(ADDED), True),
    "what only another cluster loads": (SKIPPED.format(OWN, OWN), True),
}


@pytest.mark.parametrize(("load", "in_order"), LOADS.values(), ids=LOADS.keys())
def test_all_warps_of_all_samples_run_only_if_they_pass_values(
    load: str, in_order: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FlashMLA's warps compare the address of tensor memory with 0, and store bytes that decide nothing."""
    text = bench.entry(
        "u64 data",
        f"""
.shared .align 16 .b8 words[16]; .reg .b16 %h1, %h6;
mov.u32 %r1, %tid.x; mov.b32 %r2, words; mov.u32 %r3, %ctaid.x; ld.param.u64 %d0, [data]; ld.global.u32 %r4, [%d0];
setp.ge.u32 %p0, %r1, 32; mov.b32 %r5, 32;
@!%p0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2+{ALLOCATED}], %r5;
@!%p0 st.shared.u32 [%r2+{OWN}], %r5; @%p0 st.shared.u32 [%r2+{OTHERS}], %r5;
@%p0 atom.shared.add.u32 %r8, [%r2+{ADDED}], %r5;
bar.sync 0; @%p0 bra END;
{load}
setp.eq.u32 %p1, %r6, 0; @%p1 bra END; ex2.approx.ftz.f32 %r7, %r7;
END: ret;""",
    )
    walked: list[object] = []

    def walk(walker: Walk, index: Dim3, enough: Callable[[], bool]) -> TimedCluster:
        walked.append(index)
        return original(walker, index, enough)

    original = Walk.in_order
    monkeypatch.setattr(Walk, "in_order", walk)
    predicted(text, [np.zeros(1, np.uint32)], 149, 64)
    first, *others = walked
    assert first == (0, 0, 0)
    assert (len(others) >= PROBES_IN_ORDER) == in_order == bool(others)


def test_a_launch_finds_the_integers_that_a_launch_before_it_stored() -> None:
    """As CUTLASS's torch_grouped_mm.py, whose first launch makes the tensor maps of the second."""
    store = bench.entry("u64 rounds", "ld.param.u64 %d0, [rounds]; mov.b32 %r1, 500; st.global.u32 [%d0], %r1; ret;")
    use = bench.entry(
        "u64 rounds",
        """ld.param.u64 %d0, [rounds]; ld.global.u32 %r1, [%d0];
NEXT: ex2.approx.ftz.f32 %r2, %r2; sub.u32 %r1, %r1, 1; setp.ne.u32 %p0, %r1, 0; @%p0 bra NEXT; ret;""",
    )
    rounds = np.ones(1, np.uint32)
    once = predicted(use, [rounds], 1).cycles
    predicted(store, [rounds], 1)
    assert predicted(use, [rounds], 1).cycles > 100 * B200.mufu_cycles + once


def test_a_load_outside_memory_reads_zero() -> None:
    """As the scheduler warp of CUTLASS's masked_grouped_gemm.py reads a group past the last one, and ignores it."""
    text = bench.entry(
        "u64 data",
        """ld.param.u64 %d0, [data]; ld.global.u32 %r1, [%d0+4]; ex2.approx.ftz.f32 %r2, %r1;
setp.ne.u32 %p0, %r1, 0; @%p0 trap; ret;""",
    )
    assert predicted(text, [np.ones(1, np.uint32)], 1).cycles > 0


SPINS = {
    "at the end": "AGAIN: ld.global.acquire.gpu.u32 %r3, [%d0]; setp.lt.s32 %p1, %r3, 2; @%p1 bra AGAIN;",
    "at the start": """AGAIN: ld.volatile.global.u32 %r3, [%d0]; setp.ge.s32 %p1, %r3, 2; @%p1 bra GO; bra AGAIN;
GO:""",
    "by exchange": "AGAIN: atom.global.cas.b32 %r3, [%d0], 2, 3; setp.ne.s32 %p1, %r3, 2; @%p1 bra AGAIN;",
}


@pytest.mark.parametrize("spin", SPINS.values(), ids=SPINS.keys())
def test_a_poll_of_what_other_ctas_store_succeeds_at_once(spin: str) -> None:
    """A barrier of the grid takes two accesses to L2 one after the other, not for ever."""
    head = "ld.param.u64 %d0, [count]; mov.b32 %r1, 1; ex2.approx.ftz.f32 %r9, %r9;"
    add = "atom.add.release.gpu.global.u32 %r2, [%d0], %r1;"
    count = np.zeros(1, np.uint32)
    none, found = (
        predicted(bench.entry("u64 count", f"{head} {body} ret;"), [count], 2) for body in ("", f"{add} {spin}")
    )
    assert B200.l2_latency < found.cycles - none.cycles < 3 * B200.global_latency
    assert any("polls global memory" in text for text in found.assumptions) and "other CTAs" in str(found.range)


ALL_WAIT = {
    "barrier.cluster": "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
    "bar.sync": "bar.sync 0;",
}
WORK = "ex2.approx.ftz.f32 %r9, %r9;" * 64


@pytest.mark.parametrize("barrier", ALL_WAIT.values(), ids=ALL_WAIT.keys())
def test_a_barrier_of_all_does_not_wait_for_a_warp_that_ends(barrier: str) -> None:
    """As in ThunderKittens' kernels of two CTAs, whose producer warps return while the others wait to deallocate."""
    head = "mov.u32 %r1, %tid.x; setp.ge.u32 %p0, %r1, 32; mov.b32 %r9, 0; @%p0 bra OTHER;"
    text = bench.entry("", f"{head} {barrier} ret; OTHER: {WORK} ret;")
    ends = bench.end(bench.cycles(text, [], threads=64, cluster=2))
    assert ends > 64 * B200.mufu_cycles + B200.barrier_latency


def test_an_arrival_of_a_warp_that_ends_counts_for_no_other_warp() -> None:
    """The first warp arrives and ends; the barrier still waits for the last one, which works first."""
    text = bench.entry(
        "",
        f"""mov.u32 %r1, %tid.x; setp.lt.u32 %p0, %r1, 32; setp.ge.u32 %p1, %r1, 64; mov.b32 %r9, 0;
@%p0 bra ARRIVE; @%p1 bra LATE;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;
ARRIVE: barrier.cluster.arrive.aligned; ret;
LATE: {WORK} barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;""",
    )
    (waited,) = (
        wait
        for warp in bench.cycles(text, [], threads=96).finished[0].warps[1:2]
        for (_, what), wait in warp.waits.items()
        if what == "barrier.cluster"
    )
    assert waited.cycles > 64 * B200.mufu_cycles
