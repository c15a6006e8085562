"""Compiled checks agree with the shadow, cell by cell: in their verdicts and in the accesses that they record."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from emulator.machine.order.access import Access
from emulator.machine.order.cells import Cells, pieces, span
from emulator.machine.order.clocks import ASYNC_VISIBLE, ORDERED, Clock
from emulator.machine.order.history import History
from emulator.machine.order.shadow import Shadow
from emulator.native.memory_layout import (
    ALL_LANES,
    COMPONENT_BITS,
    COMPONENTS_MAX,
    FIRST_ID,
    ID,
    MANY,
    TIME_BITS,
    WRITTEN,
)

CELLS = 96
COMPONENTS = 5


def _shadow() -> tuple[Shadow, list[Any]]:
    """Make a shadow that logs its reports: who did what to which cells after which access."""
    blamed: list[Any] = []

    def blame(me: Access, clock: Clock, verb: str, cells: Any, number: int, kind: str) -> None:
        blamed.append((me.time, me.component, verb, kind, _named(shadow, number)))

    shadow = Shadow(CELLS, History(COMPONENTS), blame)
    return shadow, blamed


def _named(shadow: Shadow, number: int) -> Any:
    access = shadow.history.accesses[number]
    return number if access is None else sorted(part.what for part in access.parts or (access,))


def _state(shadow: Shadow) -> list[Any]:
    return [_named(shadow, number) for numbers in (shadow.writer, shadow.reader) for number in numbers.tolist()]


def _any_cells(rng: random.Random) -> Cells:
    if rng.random() < 0.5:
        first = rng.randrange(CELLS)
        return span(first, rng.randint(1, CELLS - first))
    length = rng.choice((1, 4, 8))
    return pieces(np.array(rng.sample(range(CELLS // length), 3)) * length, length)


@pytest.mark.parametrize("seed", range(30))
def test_proved_or_not_it_is_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accesses in any order, with clocks that have observed some of the earlier accesses, often all of them."""
    rng = random.Random(seed)
    (proving, blamed), (looking, wanted) = _shadow(), _shadow()
    proved: list[bool] = []
    prove = proving._proved

    def noted(*arguments: Any, **options: Any) -> bool:
        proved.append(prove(*arguments, **options))
        return proved[-1]

    monkeypatch.setattr(proving, "_proved", noted)
    monkeypatch.setattr(looking, "_proved", lambda *_, **__: False)
    times = [0] * COMPONENTS
    for step in range(120):
        component = rng.randrange(COMPONENTS)
        clock = Clock(COMPONENTS)
        clock.v[ORDERED] = [t if rng.random() < 0.95 else rng.randint(0, t) for t in times]
        clock.v[ASYNC_VISIBLE] = [t if rng.random() < 0.95 else rng.randint(0, t) for t in clock.v[ORDERED].tolist()]
        times[component] += 1
        cells, write, generic = _any_cells(rng), rng.random() < 0.5, rng.random() < 0.5
        follows = (component,) if rng.random() < 0.5 else ()
        for shadow in (proving, looking):
            warp: Any = SimpleNamespace(time=step)
            me = Access(component, times[component], generic, None, warp, f"step {step}", follows)  # type: ignore[arg-type]
            (shadow.write if write else shadow.read)(cells, me, clock)
        assert _state(proving) == _state(looking)
        assert sorted(map(str, blamed)) == sorted(map(str, wanted))
    assert 0 < sum(proved) < len(proved)


def test_several_reads_at_once_are_noted_each_by_its_own_number() -> None:
    shadow, blamed = _shadow()
    clock, warp = Clock(COMPONENTS), SimpleNamespace(time=0)
    clock.v[:] = 1
    shadow.write(span(0, CELLS), Access(0, 1, False, None, warp, "a copy"), clock)  # type: ignore[arg-type]
    reads = [Access(1, 1, False, None, warp, f"step {i}", (1,)) for i in range(3)]  # type: ignore[arg-type]
    assert shadow.read_at_once(pieces(np.array([0, 8, 16, 24, 32, 40]), 8, 3), reads, clock, None)
    readers = [shadow.history.accesses[number] for number in shadow.reader.tolist()]
    assert readers == [None if at >= 48 else reads[at // 16] for at in range(CELLS)]
    assert not blamed


def test_cells_beyond_the_last_are_left_to_numpy() -> None:
    shadow, _ = _shadow()
    me = Access(0, 1, False, None, SimpleNamespace(time=0), "a copy")  # type: ignore[arg-type]
    with pytest.raises(IndexError):
        shadow.write(pieces(np.array([CELLS]), 1), me, Clock(COMPONENTS))


class Stored:
    """Records of compiled stores: half of the cells by component 0, lane 3, time 2; the rest by 1, all lanes."""

    def __init__(self, shadow: Shadow) -> None:
        self.noted = np.full(CELLS, WRITTEN, np.uint8)
        both = [2 << TIME_BITS | who << COMPONENT_BITS | FIRST_ID | lane for who, lane in ((0, 3), (1, MANY))]
        self.writes = np.repeat(np.array(both), CELLS // 2)
        self.notified: list[tuple[list[int], list[Any]]] = []
        shadow.attach(self)  # type: ignore[arg-type]

    def record_flushed(self, notes: list[int], replaced: Any) -> None:
        self.notified.append(([note >> COMPONENT_BITS & COMPONENTS_MAX - 1 for note in notes], list(replaced)))


@pytest.mark.parametrize("seen", [True, False])
def test_a_read_takes_over_what_compiled_stores_wrote(seen: bool) -> None:
    """If its clock has observed both stores, through the proxy that it reads by. Otherwise nothing changes."""
    history = History(COMPONENTS)
    shadow = Shadow(CELLS, history, lambda *_: None, by_lane=lambda *_: None)
    warp: Any = SimpleNamespace(time=0)
    clock = Clock(COMPONENTS)
    before = Access(3, 1, True, None, warp, "before")  # type: ignore[arg-type]
    shadow.write(span(0, CELLS), before, clock)
    stored, written, old = Stored(shadow), history.record(before), shadow.writer.copy()
    clock.v[ORDERED] = 2
    clock.v[ASYNC_VISIBLE] = [2, 2 if seen else 1, 0, 0, 0]
    reads = [Access(4, 1, False, None, warp, f"step {i}") for i in range(2)]  # type: ignore[arg-type]
    cells = pieces(np.arange(0, CELLS, 4), 4, 2)
    assert shadow.read_at_once(cells, reads, clock, None) == seen
    if not seen:
        assert stored.noted.all()
        assert not stored.notified
        assert (shadow.writer == old).all()
        return
    first = history.record_all(reads)
    half = CELLS // 2
    assert stored.notified == [([0, 1], [[written], [0]])]
    assert shadow.writer.tolist() == [first + 2] * half + [first + 3] * half
    assert shadow.writer_lanes.tolist() == [1 << 3] * half + [ALL_LANES] * half
    assert shadow.reader.tolist() == [first] * half + [first + 1] * half
    assert not stored.noted.any()
    assert not (stored.writes & ID).any()
