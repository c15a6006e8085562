"""Loads and stores as machine code beside the same source uncompiled, on drawn memory, records and clocks."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.chip import LANES, RANK_SHIFT
from emulator.native import load_store
from emulator.native.load_store import LoadStore, operations
from emulator.native.memory_layout import (
    COMPONENT_BITS,
    FIRST_ID,
    GLOBAL_TIME_BITS,
    ID_BITS,
    LOST,
    MANY,
    MEMORY_ROW,
    PATTERN,
    READ,
    SERIAL_BITS,
    TIME_BITS,
    UNCHANGED,
    UNWRITTEN,
    WINDOW,
    WRITTEN,
    address_of,
)

BYTES: Final = 256
"""Bytes of memory that the accesses reach."""
COMPONENTS: Final = 6
WARPS: Final = 2
OWN: Final = 2
"""The clock component of the warp, whose lanes have the next."""
SERIAL: Final = 3
BASE: Final = 1 << RANK_SHIFT
"""The window of the second CTA, which the warp is in."""
DATA_AT, ADDRESS_AT, GUARD_AT, MEMORY_AT, FILE_BYTES = 0, 2048, 2304, 2560, 2816
SOURCES: Final = dict(zip(operations(), load_store.ENTRIES, strict=True))
MACHINE: Final = {
    key: ctypes.CFUNCTYPE(ctypes.c_int64, *(ctypes.c_int64,) * 3)(address) for key, address in operations().items()
}


@dataclass
class State:
    """All that an access may read or change."""

    file: np.ndarray
    memory: np.ndarray
    writes: np.ndarray
    reads: np.ndarray
    pending: np.ndarray
    readers: np.ndarray
    epochs: np.ndarray
    clock: np.ndarray
    pattern: np.ndarray
    counts: np.ndarray
    stored: np.ndarray
    shift: np.ndarray

    def run(self, access: LoadStore, call: Callable[[int, int, int], int], active: int, tracked: bool) -> list[Any]:
        """Run an access on a copy. Return whether it proceeded, and the copy's contents."""
        at = State(**{name: array.copy() for name, array in vars(self).items()})
        words = [np.array([value]) for value in (address_of(at.epochs), address_of(at.reads), WARPS)]
        peers = np.zeros(2, MEMORY_ROW)
        window = np.zeros(1, WINDOW)
        row = at.file[MEMORY_AT:].view(MEMORY_ROW)
        row["windows"], row["bytes"], row["patterns"] = map(address_of, (window, at.counts, at.pattern))
        row["start"], row["limit"], row["data"] = BASE, BYTES, address_of(at.memory)
        row["writes"], row["pending"], row["readers"] = map(address_of, (at.writes, at.pending, at.readers))
        row["epochs"], row["reads"], row["warps"] = map(address_of, words)
        row["cells"], row["shift"], row["stored"] = BYTES >> self.shift[0], self.shift[0], address_of(at.stored)
        row["clock"], row["component"], row["serial"], row["warp"] = address_of(at.clock), OWN, SERIAL, 0
        peers[1] = row[0]
        row["peers"], row["ctas"] = address_of(peers), 2
        addresses = at.file[ADDRESS_AT:GUARD_AT].view(np.int64)
        first = BASE
        if not access.shared:
            first = address_of(at.memory)
            skipped = 8 * (first // access.cell)
            records = (address_of(at.writes) - skipped, address_of(at.reads) - skipped) if tracked else (0, 0)
            window[0] = first, BYTES - access.width * access.count + 1, *(record % (1 << 64) for record in records)
        addresses += first
        if not access.long:
            addresses.view(np.uint32)[:LANES] = addresses.astype(np.uint32)
        guard = GUARD_AT if access.guard is not None else 0
        data = 77 if access.constant else DATA_AT
        step = np.array([data, ADDRESS_AT, 0, 0, MEMORY_AT, guard, access.form])
        answer = call(address_of(at.file), active, address_of(step))
        assert answer in (0, address_of(step) + load_store.NEXT)
        changed = at.file[:ADDRESS_AT], at.memory, at.writes, at.reads, at.pending, at.pattern, at.counts, at.stored
        return [answer != 0, *(array.tobytes() for array in changed)]


@st.composite
def accesses(draw: Any) -> LoadStore:
    """Draw the form of an access."""
    shared, store = draw(st.booleans()), draw(st.booleans())
    width = draw(st.sampled_from((1, 2, 4, 8)))
    count = draw(st.sampled_from((1, 2, 4) if width == 4 else (1, 2)))
    return LoadStore(
        store=store,
        shared=shared,
        peer=shared and draw(st.booleans()),
        width=width,
        count=count,
        bits=draw(st.sampled_from([bits for bits in (16, 32, 64) if bits >= 8 * width])),
        signed=draw(st.booleans()),
        long=not shared or draw(st.booleans()),
        uniform=draw(st.booleans()),
        guard=draw(st.sampled_from((None, None, True, False))),
        constant=store and draw(st.booleans()),
        cell=0 if shared else min(width, 4),
        once=not store and draw(st.booleans()),
    )


SEEN: Final = OWN << COMPONENT_BITS | MANY
"""The record of a store that every lane has seen."""


def shared_record(draw: Any) -> int:
    """Draw the record of an access of shared memory that is probably ordered."""
    time, component = draw(st.sampled_from((0, 1, 1, 2))), draw(st.sampled_from((OWN, OWN, 4)))
    lane = draw(st.sampled_from((0, 1, 5, MANY)))
    return int(time << TIME_BITS | component << COMPONENT_BITS | draw(st.sampled_from((0, FIRST_ID))) | lane)


def global_record(draw: Any, lane: int) -> int:
    """Draw the record of an access of global memory, probably of this lane, or 0."""
    if draw(st.booleans()):
        return 0
    who = draw(st.sampled_from((SERIAL, SERIAL, SERIAL, 9))) << SERIAL_BITS | draw(st.sampled_from((lane, lane, MANY)))
    bits = draw(st.sampled_from((0, UNCHANGED, LOST, UNCHANGED | LOST)))
    return int(1 << GLOBAL_TIME_BITS | who | 1 << ID_BITS | bits)


@st.composite
def states(draw: Any, access: LoadStore, active: int) -> State:
    """Draw a state in which the access may proceed if its records let it."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 16)))
    size = access.width * access.count
    file = rng.integers(0, 256, FILE_BYTES, np.uint8)
    lanes = np.arange(LANES) % (BYTES // size)
    places = np.full(LANES, lanes[draw(st.integers(0, 3))]) if access.uniform else lanes
    if draw(st.booleans()) and not access.uniform:
        places = places[::-1]
    offsets = places * size + draw(st.sampled_from((0, 0, 0, 0, 1, size)))
    file[ADDRESS_AT:GUARD_AT].view(np.int64)[:] = offsets
    memory = rng.integers(0, 2, BYTES, np.uint8)
    if draw(st.booleans()):
        memory[:] = 77 if access.constant else 0
    if draw(st.booleans()):
        file[:ADDRESS_AT] = 0
    live = active & (0xFFFF_FFFF if access.guard is None else int(file[GUARD_AT : GUARD_AT + 4].view(np.uint32)[0]))
    if access.guard is False:
        live = active & ~int(file[GUARD_AT : GUARD_AT + 4].view(np.uint32)[0])
    pattern = np.zeros(1, PATTERN)
    first = int(np.flatnonzero([live >> lane & 1 for lane in range(LANES)] or [1])[:1].sum())
    pattern["lanes"] = 1 if access.uniform else live
    pattern["offsets"][0] = (offsets - offsets[first]).astype(np.uint32)
    pattern["who"][0] = draw(st.sampled_from((np.arange(LANES), np.full(LANES, MANY))))
    number = len(memory)
    kinds = [draw(st.sampled_from((0, 0, 0, 1, 2))) for _ in range(8)]
    clean = draw(st.booleans())
    if access.shared:
        drawn = [UNWRITTEN if access.store else SEEN, *(shared_record(draw) for _ in range(3))]
        writes = np.array([drawn[0] if clean else drawn[kinds[cell % 8]] for cell in range(number)])
        reads = np.array([0 if clean else drawn[1 + kinds[cell % 8]] for cell in range(WARPS * BYTES)])
    else:
        named = [int(np.argmax(places == cell * max(access.cell, 1) // size)) for cell in range(number)]
        writes, reads = (np.array([0 if clean else global_record(draw, lane) for lane in named[:8]] * 32) for _ in "12")
    clock = np.array([draw(st.integers(0, 3)) for _ in range(COMPONENTS)], np.int32)
    clock[OWN : OWN + 2] += draw(st.sampled_from((0, 2)))
    return State(
        file=file,
        memory=memory,
        writes=writes,
        reads=reads,
        pending=np.array([draw(st.sampled_from((0, WRITTEN, READ)))] * number, np.uint8),
        readers=np.full(number, draw(st.sampled_from((0, 0, 1, 2))), np.int32),
        epochs=np.array([0, *(1 << TIME_BITS | component << COMPONENT_BITS for component in (OWN, 4))]),
        clock=clock,
        pattern=pattern,
        counts=np.zeros(2, np.int64),
        stored=np.zeros(1, np.uint32),
        shift=np.array([draw(st.sampled_from((0, 2)))]),
    )


def test_machine_code_does_what_its_source_does() -> None:
    """The draws reach both answers of each operation."""
    proceeded = dict.fromkeys(SOURCES, 0)

    @settings(max_examples=200)
    @given(st.data())
    def compare(data: Any) -> None:
        access = data.draw(accesses())
        active = data.draw(st.sampled_from((0xFFFF_FFFF, 0xFFFF_FFFF, 1, 0x8000_0000, 0x00FF_00F0, 0)))
        state, tracked = data.draw(states(access, active)), data.draw(st.booleans())
        key = access.shared, access.store
        source, machine = (state.run(access, calls[key], active, tracked) for calls in (SOURCES, MACHINE))
        assert machine == source
        proceeded[key] += bool(source[0] and active)

    compare()
    assert min(proceeded.values()) >= 1, proceeded
