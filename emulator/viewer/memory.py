"""Memory in a recorded launch: bank conflicts and uncoalesced accesses by source line, and maps of it over time.

A map of shared or tensor memory shows which instruction wrote what there, and when.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

import numpy as np

from ..chip import TMEM_COLUMNS, TMEM_LANES
from ..debug.addresses import CTA_SHIFT, SHARED, TENSOR, UNKNOWN, shared_base, tensor_base
from ..debug.events import Access, Copied, Event, Executed, Multiplied
from ..debug.places import source_line
from ..debug.recording import Recording
from ..engine.divergence import lanes_of
from ..machine.launch.shared_names import shared_variables, source_name
from ..machine.launch.statistics import passes, shape_of
from ..machine.topology import Cta
from ..ptx.kinds import Kind
from ..tensors import place

BANDS: Final = 512
"""The most parts into which a memory is divided."""
SMALLEST: Final = 16
COLUMN_BYTES: Final = 4 * TMEM_LANES
NAMES: Final = 4096
"""The most copies that are asked for the tensor that they bring."""


@dataclass(frozen=True)
class Band:
    """A range of a memory whose parts were written at the same moments.

    first, end: bytes, or columns of tensor memory. writes: (moment, instruction) of each, in order. A moment is the
    number of instructions that all warps have executed, as in the debugger. names: tensors and variables there.
    """

    first: int
    end: int
    writes: tuple[tuple[int, int], ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Map:
    """A memory of a CTA. unit: "bytes" or "columns". end: the number of its units."""

    title: str
    unit: str
    end: int
    bands: tuple[Band, ...]


def maps(recording: Recording) -> Iterator[Map]:
    """Yield the memories of the first CTA that wrote any, and of the others of its cluster."""
    written = _written(recording)
    moments = _moments(recording)
    first = next((cta for cta, _ in written), None)
    for (cta, space), events in written.items():
        if first is not None and cta.cluster is first.cluster:
            yield _map(recording, moments, cta, space, events)


def _written(recording: Recording) -> Mapping[tuple[Cta, int], list[tuple[Event, np.ndarray]]]:
    """Return by CTA and memory the events that wrote it, with the first bytes of the 16-byte parts."""
    found: dict[tuple[Cta, int], list[tuple[Event, np.ndarray]]] = defaultdict(list)
    bases: dict[int, Cta] = {}
    for event in recording.events:
        places = _targets(event)
        if places is None or not places.size or int(places.flat[0]) < SHARED:
            continue
        warp = recording.issuer(event).warp
        for cta in warp.cta.cluster.ctas:
            bases.setdefault(shared_base(cta), cta)
            bases.setdefault(tensor_base(cta), cta)
        for base in np.unique(places >> CTA_SHIFT << CTA_SHIFT).tolist():
            if base in bases:
                here = places[places >> CTA_SHIFT << CTA_SHIFT == base] - base
                found[bases[base], TENSOR if base >= TENSOR else SHARED].append((event, here))
    return found


def _targets(event: Event) -> np.ndarray | None:
    """Return the places that an event wrote, one for every SMALLEST bytes at least."""
    if isinstance(event, Executed):
        if event.access is None or not event.access.stores or not event.lanes:
            return None
        return event.access.places[..., lanes_of(event.lanes)].reshape(-1)
    if isinstance(event, Copied):
        inside = np.arange(0, event.width, SMALLEST)
        return (event.targets[:, None] + inside).reshape(-1)
    return event.places.reshape(-1)


def _moments(recording: Recording) -> np.ndarray:
    """Return the number of instructions that were executed before each event."""
    executed = np.array([isinstance(event, Executed) for event in recording.events], np.int64)
    found: np.ndarray = np.cumsum(executed) - executed
    return found


def _map(
    recording: Recording, moments: np.ndarray, cta: Cta, space: int, events: list[tuple[Event, np.ndarray]]
) -> Map:
    if space == TENSOR:
        unit, end, size, band = "columns", TMEM_COLUMNS, COLUMN_BYTES, 1
        title = f"tensor memory of {cta}"
    else:
        unit, end, size = "bytes", recording.launch.shared_bytes, 1
        band = max(-(-end // BANDS), SMALLEST)
        band = -(-band // SMALLEST) * SMALLEST
        title = f"shared memory of {cta}"
    writes: dict[int, dict[int, int]] = defaultdict(dict)
    names: dict[int, dict[str, None]] = defaultdict(dict)
    for number, (event, places) in enumerate(events):
        at, name = recording.issuer(event).at, _name(recording, event) if number < NAMES else ""
        for part in np.unique(places // (size * band)).tolist():
            writes[part][int(moments[event.number])] = at
            if name:
                names[part][name] = None
    if space == SHARED:
        for variable in shared_variables(recording.kernel):
            for part in range(variable.offset // band, -(-(variable.offset + variable.size) // band)):
                names[part][source_name(variable.name)] = None
    return Map(title, unit, end, _merged(writes, names, band, end))


def _merged(
    writes: Mapping[int, Mapping[int, int]], names: Mapping[int, Mapping[str, None]], band: int, end: int
) -> tuple[Band, ...]:
    """List the parts that were written. Neighbours that were written at the same moments are one band."""
    found: list[Band] = []
    for part in sorted(writes):
        here = Band(part * band, min((part + 1) * band, end), tuple(_changes(writes[part])), tuple(names.get(part, ())))
        last = found[-1] if found else None
        if last is not None and (last.end, last.writes, last.names) == (here.first, here.writes, here.names):
            found[-1] = replace(last, end=here.end)
        else:
            found.append(here)
    return tuple(found)


def _changes(writes: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the first of successive writes by the same instruction."""
    last = None
    for moment, at in sorted(writes.items()):
        if at != last:
            yield moment, at
        last = at


def _name(recording: Recording, event: Event) -> str:
    """Return the tensor of the program that a copy reads; empty for others."""
    if not isinstance(event, Copied):
        return "accumulator" if isinstance(event, Multiplied) else ""
    known = event.sources[event.sources != UNKNOWN]
    found = place(recording.tensors, int(known[0])) if known.size else None
    return "" if found is None else found[0].name


SECTOR_BYTES: Final = 32
ROW_BYTES: Final = 16
"""Bytes of a row of a matrix of ldmatrix or stmatrix."""
_MATRICES: Final = (Kind.MATRIX_LOAD, Kind.MATRIX_STORE)


@dataclass
class Accesses:
    """The accesses of a source line (of an instruction, without source lines) to shared or global memory, by all warps.

    at: the index of its first instruction. instructions: their number. needed, taken: passes over the banks of shared
    memory, or sectors of 32 bytes of global memory. needed: with the same bytes in the best layout.
    """

    at: int
    space: str
    instructions: int = 0
    times: int = 0
    needed: int = 0
    taken: int = 0

    @property
    def lost(self) -> int:
        """The passes or sectors that another layout saves."""
        return self.taken - self.needed


def accesses(recording: Recording) -> list[Accesses]:
    """Return the accesses of each line, those that lose most first."""
    found: dict[tuple[object, str], Accesses] = {}
    seen: set[int] = set()
    for event in recording.events:
        if not isinstance(event, Executed) or event.access is None or not event.lanes:
            continue
        kind = recording.effects[event.at].instr.kind
        line = source_line(recording.kernel, event.at)
        for space, needed, taken in _of_event(event, event.access, kind):
            known = found.setdefault((line, space), Accesses(event.at, space))
            known.instructions += event.at not in seen
            known.times += 1
            known.needed += needed
            known.taken += taken
        seen.add(event.at)
    return sorted(found.values(), key=lambda each: (-each.lost, each.at))


def _of_event(event: Executed, access: Access, kind: Kind) -> Iterator[tuple[str, int, int]]:
    """Yield (space, needed, taken) of an executed access to shared or global memory, nothing for tensor memory."""
    places = access.places
    first = int(places.flat[0])
    if first >= TENSOR:
        return
    if kind in _MATRICES:
        rows = [np.unique(matrix // ROW_BYTES) * ROW_BYTES for matrix in places]
        counts = [passes(*shape_of(each, ROW_BYTES)) for each in rows]
        yield "shared", sum(needed for _, needed in counts), sum(taken for taken, _ in counts)
        return
    here = places[0, 0][lanes_of(event.lanes)]
    size = access.width * places.shape[0] * places.shape[1]
    if first >= SHARED:
        taken, needed = passes(*shape_of(here, size))
        times = 2 if access.reads and access.stores else 1  # an atomic is a load and a store
        yield "shared", times * needed, times * taken
        return
    bytes_ = np.unique((here[:, None] + np.arange(size)).reshape(-1))
    yield "global", ceil(bytes_.size / SECTOR_BYTES), np.unique(bytes_ // SECTOR_BYTES).size
