"""The check of accesses as machine code beside the same source uncompiled, on drawn shadows and clocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.native import shadow_check
from emulator.native.memory_layout import (
    COMPONENT_BITS,
    FIRST_ID,
    ID,
    ID_BITS,
    MANY,
    READ,
    TIME_BITS,
    UNWRITTEN,
    WRITTEN,
    address_of,
)
from emulator.native.shadow_check import ASK, CELLS, DIFFERENT, DONE, FLUSH, GENERIC, NOT_KNOWN, SHADOW

SIZE: Final = 96
COMPONENTS: Final = 4
CHECKS: Final = {
    source.__name__: (source, machine)
    for source, machine in zip(shadow_check.ENTRIES, shadow_check.checks(), strict=True)
}


@dataclass
class Cells:
    """Runs of cells, listed or every `stride`. shape: the number of runs, their length, and the runs of one access."""

    starts: list[int]
    listed: bool
    stride: int
    shape: tuple[int, int, int]


@dataclass
class Memory:
    """A shadow with records, and a clock. Addresses are those of its own arrays."""

    writers: np.ndarray
    readers: np.ndarray
    writer_lanes: np.ndarray
    reader_lanes: np.ndarray
    epochs: np.ndarray
    pending: np.ndarray
    writes: np.ndarray
    clock: np.ndarray

    def check(self, which: Any, cells: Cells, *arguments: int, recording: bool, by_lane: bool) -> tuple[int, list[Any]]:
        """Return the answer of a check, and all that it may change."""
        arrays = {name: array.copy() for name, array in vars(self).items()}
        row, word, place = np.zeros(1, SHADOW), np.array([address_of(arrays["epochs"])]), np.zeros(1, CELLS)
        absent = [*("pending", "writes") * (not recording), *("writer_lanes", "reader_lanes") * (not by_lane)]
        for name in ("writers", "readers", "writer_lanes", "reader_lanes", "pending", "writes"):
            row[name] = 0 if name in absent else address_of(arrays[name])
        row["epochs"] = address_of(word)
        starts = np.array(cells.starts)
        place[0] = starts[0], address_of(starts) if cells.listed else 0, cells.stride, *cells.shape
        answer = which(address_of(row), address_of(place), address_of(arrays["clock"]), COMPONENTS, *arguments)
        lists = [each["numbers"][: each["count"]].tolist() for each in row["replaced"][0].reshape(-1)]
        return answer, [*(array.tolist() for array in arrays.values()), lists]

    def merge(self, which: Any, cells: list[int], number: int, marked: bool) -> tuple[int, list[Any]]:
        """Return the answer of a merge of records, and all that it may change."""
        arrays, row, places = (
            {name: array.copy() for name, array in vars(self).items()},
            np.zeros(1, SHADOW),
            np.array(cells),
        )
        for name in ("writers", "readers", "writer_lanes"):
            row[name] = address_of(arrays[name])
        pending = address_of(arrays["pending"]) if marked else 0
        answer = which(
            address_of(row), address_of(arrays["writes"]), pending, address_of(places), places.size, ID, number
        )
        found = row["merged"][0]
        lists = [each["numbers"][: each["count"]].tolist() for each in row["replaced"][0][0]]
        stores = found["records"][: found["count"]].tolist()
        return answer, [*(array.tolist() for array in arrays.values()), lists, stores]


@st.composite
def cells(draw: Any) -> Cells:
    """Draw one to four accesses of one or two runs."""
    together, accesses = draw(st.integers(1, 2)), draw(st.integers(1, 4))
    runs = together * accesses
    length = draw(st.integers(1, SIZE // runs))
    stride = draw(st.integers(length, SIZE // runs))
    first = draw(st.integers(0, SIZE - length - (runs - 1) * stride))
    starts = [first + run * stride for run in range(runs)]
    return Cells(starts, draw(st.booleans()), stride, (runs, length, together))


def runs_of(values: st.SearchStrategy[int], dtype: Any) -> st.SearchStrategy[np.ndarray]:
    """Draw a value per cell, in runs long enough to be compared eight at a time."""
    pieces = st.lists(st.tuples(values, st.integers(1, 40)), min_size=1, max_size=6)
    return pieces.map(lambda found: np.resize(np.repeat(*map(np.array, zip(*found, strict=True))), SIZE).astype(dtype))


EPOCHS: Final = st.builds(
    lambda time, component, word: time << TIME_BITS | component << COMPONENT_BITS | word,
    st.integers(0, 3),
    st.integers(0, COMPONENTS),
    st.sampled_from((0, 1, 1, 1, 1, 2 << 1, 3 << 1)),
) | st.just(NOT_KNOWN)
RECORDS: Final = st.builds(
    lambda time, component, id, lane: time << TIME_BITS | component << COMPONENT_BITS | id << ID_BITS | lane,
    st.integers(0, 2),
    st.integers(0, COMPONENTS - 1),
    st.integers(0, 4),
    st.sampled_from((0, 1, 31, MANY)),
) | st.just(UNWRITTEN)
MEMORIES: Final = st.builds(
    Memory,
    writers=runs_of(st.integers(0, 5), np.int32),
    readers=runs_of(st.integers(0, 5), np.int32),
    writer_lanes=runs_of(st.integers(0, 2**32 - 1), np.uint32),
    reader_lanes=runs_of(st.integers(0, 2**32 - 1), np.uint32),
    epochs=st.lists(EPOCHS, min_size=12, max_size=12).map(lambda epochs: np.array([NOT_KNOWN, *epochs[1:]])),
    pending=runs_of(st.sampled_from((0, 0, 0, WRITTEN, WRITTEN, READ, WRITTEN | READ)), np.uint8),
    writes=runs_of(RECORDS, np.int64),
    clock=st.lists(st.integers(0, 3), min_size=2 * COMPONENTS, max_size=2 * COMPONENTS).map(
        lambda times: np.array(times, np.int32)
    ),
)


@pytest.mark.parametrize("name", ("read", "write"))
@given(
    memory=MEMORIES,
    cells=cells(),
    follows=st.integers(-1, COMPONENTS),
    agent=st.integers(0, 1),
    pattern=st.integers(0, 3),
    recording=st.booleans(),
    by_lane=st.booleans(),
)
def test_machine_code_does_what_its_source_does(
    name: str, memory: Memory, cells: Cells, recording: bool, by_lane: bool, **words: int
) -> None:
    arguments = (words["follows"], words["agent"], words["pattern"], 7)
    source, machine = (
        memory.check(check, cells, *arguments, recording=recording, by_lane=by_lane) for check in CHECKS[name]
    )
    assert machine == source


@given(
    memory=MEMORIES,
    cells=st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=SIZE, unique=True),
    number=st.integers(3, 9),
    marked=st.booleans(),
)
def test_a_merge_as_machine_code_does_what_its_source_does(
    memory: Memory, cells: list[int], number: int, marked: bool
) -> None:
    source, machine = (memory.merge(merge, cells, number, marked) for merge in CHECKS["merge"])
    assert machine == source


def memory_of(**changed: Any) -> Memory:
    """Return a shadow whose cells access 1 wrote and nothing read, and a clock that has seen all accesses."""
    defaults = {"writers": 1, "readers": 0, "writer_lanes": 1, "reader_lanes": 0, "pending": 0, "writes": UNWRITTEN}
    kinds = dict(zip(defaults, (np.int32, np.int32, np.uint32, np.uint32, np.uint8, np.int64), strict=True))
    arrays = {name: np.full(SIZE, changed.get(name, value), kinds[name]) for name, value in defaults.items()}
    epochs = np.array([NOT_KNOWN, *[EPOCH] * SIZE])
    return Memory(**arrays, epochs=epochs, clock=np.full(2 * COMPONENTS, changed.get("seen", 1), np.int32))


EPOCH: Final = 1 << TIME_BITS | 1 << COMPONENT_BITS | GENERIC
STORE: Final = EPOCH & ~GENERIC | FIRST_ID
ALL: Final = Cells([0], False, SIZE, (1, SIZE, 1))
MANY_ACCESSES: Final = np.arange(SIZE)
assert DIFFERENT < SIZE


@pytest.mark.parametrize("kind", (0, 1), ids=("source", "machine"))
@pytest.mark.parametrize(
    "name, memory, expected",
    (
        ("read", memory_of(), DONE),
        ("read", memory_of(seen=0), ASK),
        ("read", memory_of(writers=0), ASK),
        ("read", memory_of(writers=MANY_ACCESSES + 1), DONE),
        ("read", memory_of(pending=WRITTEN, writes=STORE), FLUSH),
        ("read", memory_of(pending=READ), FLUSH),
        ("write", memory_of(), DONE),
        ("write", memory_of(writers=0), DONE),
        ("write", memory_of(readers=2, seen=0), ASK),
        ("write", memory_of(writers=MANY_ACCESSES + 1), ASK),
        ("write", memory_of(pending=WRITTEN, writes=STORE), FLUSH),
    ),
)
def test_answers(kind: int, name: str, memory: Memory, expected: int) -> None:
    """Cover every answer, because draws need not: a read or write of all cells by a warp."""
    answer, _ = memory.check(CHECKS[name][kind], ALL, -1, 0, 0, 7, recording=True, by_lane=True)
    assert answer == expected
