"""Bank conflicts and uncoalesced accesses of a recorded launch, by source line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

import numpy as np

from ..debug.addresses import SHARED, TENSOR
from ..debug.events import Access, Executed
from ..debug.places import source_line
from ..engine.divergence import lanes_of
from ..machine.launch.statistics import passes, shape_of
from ..ptx.kinds import Kind

if TYPE_CHECKING:
    from ..debug.recording import Recording

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
