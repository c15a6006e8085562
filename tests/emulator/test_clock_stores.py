"""Stores: the port to L2 that loads use as well, and barriers that wait for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_clock_laws import B200, predicted

from emulator.clock.lane_addresses import LINE_BYTES
from emulator.clock.operations.in_memory import PARTIAL
from emulator.clock.warps import Sm, Tensor
from lab import clock as bench
from lab import microbenchmarks

H200 = bench.H200
NOTHING = bench.entry("", "ret;")
BYTES = 1 << 16
TENSOR = Tensor(bench.TENSOR, 1 << 30, BYTES, BYTES // 128)


def loaded_behind_stores(stores: int) -> float:
    """Return when a load from HBM is there that an SM requests behind stores."""
    timeline, sm = bench.cycles(NOTHING, [], threads=32, chip=H200, sharers=1), Sm()
    for _ in range(stores):
        timeline.store(sm, 0.0, BYTES)
    return timeline.load(sm, 0.0, BYTES, timeline.engine, TENSOR)


def test_loads_wait_for_the_stores_before_them_at_the_port_to_l2() -> None:
    each = BYTES / H200.store_bytes_per_cycle
    assert loaded_behind_stores(5) - loaded_behind_stores(4) == pytest.approx(each, rel=0.01)


@pytest.mark.parametrize(("arrive", "waits"), [("arrive", True), ("arrive.release", True), ("arrive.relaxed", False)])
def test_a_cluster_barrier_waits_for_earlier_stores_unless_it_is_relaxed(arrive: str, waits: bool) -> None:
    barrier = f"barrier.cluster.{arrive}.aligned; barrier.cluster.wait.aligned; ret;"
    store = "mov.u32 %r1, %tid.x; ld.param.u64 %d0, [out]; mad.wide.u32 %d1, %r1, 4, %d0; st.global.u32 [%d1], %r1;"
    without, behind = (
        bench.end(bench.cycles(bench.entry("u64 out", body + barrier), [bench.TENSOR], threads=32, chip=H200))
        for body in (store.rpartition("st.")[0], store)
    )
    assert (behind - without > H200.global_latency) == waits, (without, behind)


def test_stores_of_all_sms_take_what_l2_takes() -> None:
    row = {"target": "L2", "ctas": "132", "box_columns": "32", "box_rows": "128", "stages": "4"}
    half, whole = (
        bench.round_cycles(microbenchmarks.tma_store(row), replace(H200, l2_store_bytes_per_us=rate))
        for rate in (2.5e6, 5e6)
    )
    assert half == pytest.approx(2 * whole, rel=0.01)


def storing(stride: int, address: str = "global") -> str:
    """Return a kernel that stores 4 bytes per lane, `stride` bytes apart. address: "" for generic ones."""
    space = "." * bool(address) + address
    store = "".join(f"st{space}.u32 [%d3+{32 * stride * i}], %r1;" for i in range(64))
    return bench.entry(
        "u64 to",
        f"""ld.param.u64 %d1, [to]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, {64 * 32}, %r1;
mul.wide.u32 %d2, %r3, {stride}; add.u64 %d3, %d1, %d2; {store} ret;""",
    )


def test_scattered_stores_cost_whole_sectors_of_l2() -> None:
    data = np.zeros(148 * 64 * 32 * 128, np.uint8)
    dense, spread, far = (predicted(storing(stride), [data], 148) for stride in (4, 32, 128))
    moved = [found.busy["L2"] * found.cycles for found in (dense, spread, far)]
    assert moved[1] == pytest.approx(8 * PARTIAL * moved[0], rel=0.01) and moved[2] == pytest.approx(moved[1], rel=0.01)
    assert far.cycles >= spread.cycles >= 2 * (dense.cycles - B200.cta_launch)


@pytest.mark.parametrize(("mebibytes", "moved"), [(256, 2 * LINE_BYTES * 15 / 16), (16, 4)])
def test_words_at_random_places_make_hbm_read_and_write_lines(mebibytes: int, moved: int) -> None:
    """A sixteenth of 256 MiB is stored. All of 16 MiB is, so that every sector is completed."""
    text = bench.entry(
        "u64 index,u64 to,u64 pad",
        """ld.param.u64 %d1, [index]; ld.param.u64 %d2, [to]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
mad.lo.u32 %r3, %r2, 256, %r1; mul.wide.u32 %d3, %r3, 4; add.u64 %d3, %d1, %d3; ld.global.u32 %r4, [%d3];
mul.wide.u32 %d4, %r4, 4; add.u64 %d4, %d2, %d4; st.global.u32 [%d4], %r1; ret;""",
    )
    count = 1 << 22
    found = predicted(text, [np.zeros(count, np.uint32), np.zeros(mebibytes << 20, np.uint8), 0], count // 256, 256)
    bytes_ = found.busy["HBM"] * found.pace.cycles * B200.hbm_share(1, found.ghz)
    assert bytes_ == pytest.approx(count * (4 + moved), rel=0.05)


def test_stores_to_generic_addresses_cost_what_global_ones_cost() -> None:
    data = np.zeros(148 * 64 * 32 * 4, np.uint8)
    named, generic = (predicted(storing(4, address), [data], 148) for address in ("global", ""))
    assert (generic.cycles, generic.busy) == (named.cycles, named.busy)
    assert generic.busy["L2"] > 0
