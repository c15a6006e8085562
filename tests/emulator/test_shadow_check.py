"""Compiled checks agree with the shadow, cell by cell: in their verdicts and in the accesses that they record."""

from __future__ import annotations

import random
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from emulator.chip import ALL_LANES
from emulator.machine.order.access import CTA, GPU, Access
from emulator.machine.order.cells import Cells, pieces, span
from emulator.machine.order.clocks import ASYNC_VISIBLE, ORDERED, Clock
from emulator.machine.order.history import History
from emulator.machine.order.shadow import UNWRITTEN, Shadow
from emulator.native.memory_layout import (
    COMPONENT_BITS,
    COMPONENTS_MAX,
    FIRST_ID,
    ID,
    MANY,
    TIME_BITS,
    WRITTEN,
)
from emulator.ptx.kinds import Kind

CELLS = 96
COMPONENTS = 5


def _shadow() -> tuple[Shadow, list[Any]]:
    """Make a shadow that logs its reports: who did what to which cells after which access."""
    blamed: list[Any] = []

    def blame(me: Access, clock: Clock, verb: str, cells: Any, hit: Any, number: int, kind: str) -> None:
        blamed.append((me.time, me.component, verb, kind, _named(shadow, number)))

    shadow = Shadow(CELLS, History(COMPONENTS), blame)
    return shadow, blamed


def _named(shadow: Shadow, number: int) -> Any:
    access = shadow.history.accesses[number]
    return number if access is None else sorted(each.what for each in (*(access.parts or (access,)), *access.overwrote))


def _state(shadow: Shadow) -> list[Any]:
    return [_named(shadow, number) for numbers in (shadow.writer, shadow.reader) for number in numbers.tolist()]


def _any_cells(rng: random.Random) -> Cells:
    if rng.random() < 0.5:
        first = rng.randrange(CELLS)
        return span(first, rng.randint(1, CELLS - first))
    length = rng.choice((1, 4, 8))
    return pieces(np.array(rng.sample(range(CELLS // length), 3)) * length, length)


@dataclass(eq=False)
class _Warp:
    cta: Any
    time: int = 0
    releases: tuple[()] = ()


def _warps() -> list[Any]:
    """Return a warp for each component, in two CTAs."""
    launch = SimpleNamespace(result_used=lambda _: True, reads_in_flight={})
    ctas = [SimpleNamespace(cluster_id=0, launch=launch) for _ in range(2)]
    return [_Warp(ctas[component % 2]) for component in range(COMPONENTS)]


@pytest.mark.parametrize("seed", range(30))
def testprove_or_not_it_is_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accesses in any order, with clocks that have observed some of the earlier accesses, often all of them."""
    rng = random.Random(seed)
    (proving, blamed), (looking, wanted) = _shadow(), _shadow()
    proved: list[bool] = []
    prove = proving.prove

    def counted(*arguments: Any, **options: Any) -> bool:
        proved.append(prove(*arguments, **options))
        return proved[-1]

    monkeypatch.setattr(proving, "prove", counted)
    monkeypatch.setattr(looking, "prove", lambda *_, **__: False)
    times, warps = [0] * COMPONENTS, _warps()
    for step in range(120):
        component = rng.randrange(COMPONENTS)
        clock = Clock(COMPONENTS, block=COMPONENTS)
        clock.v[ORDERED] = [t if rng.random() < 0.95 else rng.randint(0, t) for t in times]
        clock.v[ASYNC_VISIBLE] = [t if rng.random() < 0.95 else rng.randint(0, t) for t in clock.v[ORDERED].tolist()]
        times[component] += 1
        cells, write, generic = _any_cells(rng), rng.random() < 0.5, rng.random() < 0.5
        follows = (component,) if rng.random() < 0.5 else ()
        strong, kind = rng.choice((0, 0, 0, CTA, GPU)), rng.choice((Kind.ATOMIC, Kind.STORE))
        instr: Any = SimpleNamespace(kind=kind, place=step)
        for shadow in (proving, looking):
            warps[component].time = step
            me = Access(component, times[component], generic, instr, warps[component], f"step {step}", follows)
            me.strong = strong
            (shadow.write if write else shadow.read)(cells.index if strong else cells, me, clock)
        assert _state(proving) == _state(looking)
        assert sorted(map(str, blamed)) == sorted(map(str, wanted))
    assert 0 < sum(proved) < len(proved)


def test_a_copy_races_with_a_read_before_the_strong_write_that_it_replaces() -> None:
    """Leave the strong read and the strong write unordered, and order the copy after the write alone."""
    shadow, blamed = _shadow()
    instr: Any = SimpleNamespace(kind=Kind.REDUCTION, place=0)
    cells, warps = span(0, CELLS), _warps()
    for component, strong, ordered in ((0, CTA, (0,)), (2, CTA, (2,)), (4, 0, (2, 4))):
        clock = Clock(COMPONENTS, block=COMPONENTS)
        clock.v[:, ordered] = 1
        me = Access(component, 1, bool(strong), instr, warps[component], f"access {component}")
        me.strong = strong
        (shadow.write if component else shadow.read)(cells.index if strong else cells, me, clock)
    unwritten, *races = blamed
    assert unwritten == (1, 0, "reads", "write", UNWRITTEN)
    assert races == [(1, 4, "writes", "read", ["access 0"])]


def test_several_reads_at_once_are_pending_each_by_its_own_number() -> None:
    shadow, blamed = _shadow()
    clock, warp = Clock(COMPONENTS, block=COMPONENTS), _warps()[0]
    clock.v[:] = 1
    shadow.write(span(0, CELLS), Access(0, 1, False, None, warp, "a copy"), clock)  # type: ignore[arg-type]
    reads = [Access(1, 1, False, None, warp, f"step {i}", (1,)) for i in range(3)]  # type: ignore[arg-type]
    assert shadow.prove(pieces(np.array([0, 8, 16, 24, 32, 40]), 8, 3), reads, clock)
    readers = [shadow.history.accesses[number] for number in shadow.reader.tolist()]
    assert readers == [None if at >= 48 else reads[at // 16] for at in range(CELLS)]
    assert not blamed


def test_cells_beyond_the_last_are_left_to_numpy() -> None:
    shadow, _ = _shadow()
    me = Access(0, 1, False, None, _warps()[0], "a copy")  # type: ignore[arg-type]
    with pytest.raises(IndexError):
        shadow.write(pieces(np.array([CELLS]), 1), me, Clock(COMPONENTS, block=COMPONENTS))


def _stored() -> tuple[np.ndarray, np.ndarray]:
    """Return records of stores, half of them by component 0, lane 3, the rest by 1, all lanes, and their marks."""
    both = [2 << TIME_BITS | who << COMPONENT_BITS | FIRST_ID | lane for who, lane in ((0, 3), (1, MANY))]
    return np.repeat(np.array(both), CELLS // 2), np.full(CELLS, WRITTEN, np.uint8)


@pytest.mark.parametrize("several", [False, True])
def test_a_merge_records_what_compiled_stores_wrote(several: bool) -> None:
    """If the cells had more different writers than a list holds, it takes several passes."""
    history = History(COMPONENTS)
    shadow = Shadow(CELLS, history, lambda *_: None, by_lane=lambda *_: None)
    warp: Any = _warps()[0]
    earlier = [Access(3, 1, True, None, warp, f"before {i}") for i in range(CELLS if several else 1)]  # type: ignore[arg-type]
    shadow.writer[:] = [history.record(earlier[cell % len(earlier)]) for cell in range(CELLS)]
    old, first = shadow.writer.tolist(), len(history.accesses)
    records, pending = _stored()
    places = np.arange(CELLS - 1)

    def access(record: int) -> Access:
        return Access(record >> COMPONENT_BITS & COMPONENTS_MAX - 1, 2, True, None, warp, "a store")  # type: ignore[arg-type]

    shadow.merge_writes(places, records, pending, ID, access)
    made = [history.accesses[number] for number in shadow.writer.tolist()]
    half = CELLS // 2
    assert [each.component for each in made[:-1] if each is not None] == [0] * half + [1] * (half - 1)
    assert shadow.writer[-1] == old[-1]
    assert shadow.writer_lanes.tolist() == [1 << 3] * half + [ALL_LANES] * (half - 1) + [0]
    replaced = {number for each in history.accesses[first:] if each is not None for number in each.replaced[0]}
    assert replaced == set(old[:-1])
    assert pending.tolist() == [0] * (CELLS - 1) + [WRITTEN]
    assert not (records[:-1] & ID).any()
    assert records[-1] & ID


def test_records_are_merged_before_a_read() -> None:
    shadow = Shadow(CELLS, History(COMPONENTS), lambda *_: None)
    clock, warp = Clock(COMPONENTS, block=COMPONENTS), _warps()[0]
    clock.v[:] = 2
    merged: list[Any] = []

    class Pending:
        writes, pending = _stored()

        def flush(self, cells: Any, write: bool) -> None:
            merged.append((cells, write))
            self.pending[cells] = 0

    shadow.attach(Pending())  # type: ignore[arg-type]
    shadow.write(span(8, 8), Access(3, 1, True, None, warp, "a store"), clock)  # type: ignore[arg-type]
    assert merged == [(slice(8, 16), False)]
