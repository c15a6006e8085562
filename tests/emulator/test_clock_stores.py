"""Stores: the port to L2 that loads use as well, and barriers that wait for them."""

from __future__ import annotations

import pytest

from emulator.clock.warps import Sm, Tensor
from lab import clock as bench

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
