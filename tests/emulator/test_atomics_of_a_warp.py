"""Atomics of lanes that share addresses, and the clocks that acquire and release through them."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.isa.atomics import conflict_free_groups
from emulator.machine.launch.globalmem import GlobalMemory
from emulator.machine.order.clocks import Clock
from tests.emulator.ptx_kernel import launch, source

PLACES = 4
COUNT_UP = f"""
and.b32 %r1, %t, {PLACES - 1}; mul.wide.u32 %q0, %r1, 4; add.u64 %q1, %a0, %q0;
atom.global.gpu.acq_rel.add.u32 %r2, [%q1], 1; add.u64 %q2, %a1, %b; st.global.u32 [%q2], %r2; ret;
"""


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect the number of addresses of each store."""
    sizes: list[int] = []
    store = GlobalMemory.store

    def noted(memory: GlobalMemory, addresses: np.ndarray, *given: object) -> None:
        sizes.append(addresses.size)
        store(memory, addresses, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(GlobalMemory, "store", noted)
    return sizes


def test_lanes_of_one_address_follow_in_order_and_it_is_stored_once(stored: list[int]) -> None:
    counts, old = np.zeros(PLACES, np.uint32), np.zeros(32, np.uint32)
    stats = launch(source(COUNT_UP, 2), counts, old)
    assert counts.tolist() == [32 // PLACES] * PLACES
    assert old.tolist() == [lane // PLACES for lane in range(32)]
    assert stored == [PLACES, 32]
    assert (stats.global_load_bytes, stats.global_store_bytes) == (4 * 32, 8 * 32)


def test_each_lane_stores_where_the_bits_are_the_old_ones_in_the_end(stored: list[int]) -> None:
    """Lanes 28 to 31 exchange zeros; before them are other values, which a racing load could see."""
    body = COUNT_UP.replace("add.u32 %r2, [%q1], 1", "exch.b32 %r2, [%q1], %r3").replace(
        "atom", "sub.u32 %r3, 31, %t; shr.u32 %r3, %r3, 2; atom", 1
    )
    values, old = np.zeros(PLACES, np.uint32), np.zeros(32, np.uint32)
    stats = launch(source(body, 2), values, old)
    assert not values.any()
    assert old.tolist() == [0] * PLACES + [(31 - lane) // PLACES for lane in range(32 - PLACES)]
    assert stored == [PLACES] * (32 // PLACES) + [32]
    assert (stats.global_load_bytes, stats.global_store_bytes) == (4 * 32, 8 * 32)


def test_lanes_that_change_nothing_store_once(stored: list[int]) -> None:
    counts, old = np.full(PLACES, 7, np.uint32), np.zeros(32, np.uint32)
    launch(source(COUNT_UP.replace("%r2, [%q1], 1", "%r2, [%q1], 0"), 2), counts, old)
    assert counts.tolist() == [7] * PLACES and (old == 7).all()
    assert stored == [PLACES, 32]


@pytest.mark.parametrize(
    ("addresses", "groups"),
    [([8, 16, 0], [[0, 1, 2]]), ([8, 8, 8], [[0], [1], [2]]), ([0, 8, 0, 16, 8, 0], [[0, 1, 3], [2, 4], [5]])],
)
def test_groups_without_a_common_address(addresses: list[int], groups: list[list[int]]) -> None:
    assert [group.tolist() for group in conflict_free_groups(np.array(addresses, np.uint64))] == groups


def test_clocks_that_saw_the_same_of_a_cluster_share_its_row() -> None:
    early, late, flag, warp = Clock(64, 1), Clock(64, 1), Clock(0), Clock(64, 2)
    early.advance(3, 5)
    late.merge(early)
    late.advance(7, 9)
    flag.merge(early.for_other_clusters())
    seen = late.for_other_clusters()
    flag.merge(seen)
    warp.merge(flag)
    warp.merge(early.for_other_clusters())
    assert seen.remote is not None and flag.remote is not None and warp.remote is not None
    assert warp.remote[1] is flag.remote[1] is seen.remote[1]
    assert warp.remote[1][0, [3, 7]].tolist() == [5, 9]
