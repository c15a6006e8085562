"""Tensor memory of one CTA: 128 lanes by 512 columns of 32 bits, its allocator, and its shadow.

Columns come first in every array, so that a column's lanes are contiguous. The shadow has a cell for each column and
group of 16 lanes, the finest unit that any tcgen05 access except a lane-masked MMA addresses.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ...chip import TMEM_COLUMNS, TMEM_LANES
from ...errors import Level, OutOfBounds, TensorMemoryError, place
from ...leniency import Grade, Leniency
from ...ptx.kinds import Kind
from ...ptx.syntax import Instr
from ..order.access import Access, Issuer
from ..order.cells import Cells
from ..order.clocks import Clock
from ..order.owner import CtaOwner
from ..order.shadow import UNWRITTEN, Shadow
from ..reports.report import report_conflict, unwritten_cells, written
from ..reports.suspects import WHOLE, LoadedPart
from ..synchronisation.pipe import Pipe

GROUP = 16
GROUPS = TMEM_LANES // GROUP
UNIT = 32
POISON = 0xFFFFFFFF
ALLOC = "tcgen05.alloc"
DEALLOC = "tcgen05.dealloc"
ADDRESS_BITS = TMEM_LANES - 1 << 16 | 0xFFFF


def named(address: int, instr: Instr, warp: Issuer) -> int:
    """Clear the address bits of lanes beyond the last, which hardware ignores and level `pedantic` reports."""
    known, launch = address & ADDRESS_BITS, warp.cta.launch
    if known != address and launch.enforces(Leniency.TENSOR_LANE_BITS):
        what = f"{instr.opcode} names lane {address >> 16} of tensor memory, which has {TMEM_LANES}"
        launch.report(OutOfBounds(what, instr, warp, level=Leniency.TENSOR_LANE_BITS))
    return known


def rectangle(column: int, columns: int, groups: slice, accesses: int = 1) -> Cells:
    """Return the shadow cells of columns in groups of lanes, for one or several accesses, see `Cells`."""
    return _rectangle(column, columns, *groups.indices(GROUPS), accesses)


@lru_cache(maxsize=4096)
def _rectangle(column: int, columns: int, start: int, stop: int, step: int, accesses: int) -> Cells:
    index, first = (slice(column, column + columns), slice(start, stop, step)), column * GROUPS + start
    if step == 1 and stop - start == GROUPS:
        length = columns * GROUPS // accesses
        return Cells(index, first, accesses, length, stride=length, accesses=accesses)
    if step == 1:
        return Cells(index, first, columns, stop - start, stride=GROUPS, accesses=accesses)
    return Cells(index, first, columns * GROUPS // step, 1, stride=step, accesses=accesses)


def _part(me: Access, hit: np.ndarray) -> LoadedPart:
    """Return the part of a load whose cells [columns, groups] are in the mask `hit`; each column is a register."""
    if "32x32b" not in me.instr.modifiers or "pack::16b" in me.instr.modifiers:
        return WHOLE
    lanes = sum(((1 << GROUP) - 1) << GROUP * int(group) for group in np.flatnonzero(hit.any(0)))
    return LoadedPart(lanes, frozenset(np.flatnonzero(hit.any(1)).tolist()))


class TensorMemory:
    """Cells uint32[512 columns, 128 lanes] and the columns' allocations."""

    def __init__(self, cta: CtaOwner) -> None:
        self.cta = cta
        self.cells = np.full((TMEM_COLUMNS, TMEM_LANES), POISON, np.uint32)
        self.floats = self.cells.view(np.float32)
        self.shadow = Shadow((TMEM_COLUMNS, TMEM_LANES // GROUP), cta.cluster.history, self._blame)
        self.owned = np.zeros(TMEM_COLUMNS, bool)
        self.allocations: dict[int, tuple[int, Instr, Issuer]] = {}
        self.freed: dict[int, tuple[int, Instr, Issuer]] = {}
        """The last allocation at each first column that was freed, and who freed it."""
        self.by_pair: dict[int, Access] = {}
        """The last allocation by a CTA pair at each first column."""
        self._checked: set[tuple[int, int]] = set()
        """Ranges (first column, count) that are known to be allocated."""
        self.relinquished: tuple[Instr, Issuer] | None = None
        self.waiters: list[Issuer] = []
        self.copied_unwritten: dict[range, str] = {}
        """Columns into which unwritten memory was copied, with the copy's place. They count as unwritten."""

    def _blame(self, me: Access, clock: Clock, verb: str, cells: Any, hit: Any, number: int, kind: str) -> None:
        shadow = self.shadow
        columns, groups = np.indices(shadow.writer.shape)[:]
        column, group = columns[cells][hit], groups[cells][hit]
        where = (
            f"tensor memory columns {column.min()} to {column.max()}, "
            f"lanes {group.min() * GROUP} to {group.max() * GROUP + GROUP - 1} of CTA {self.cta.name}"
        )
        near = self._near(int(column.min()), int(group.min()), column) if number == UNWRITTEN else ()
        if near:
            self.cta.launch.registry[unwritten_cells(me.warp, me.instr.line)] = shadow, (column, group)
        other = shadow.history.accesses[number]
        level: Grade = Level.FAULT
        if kind == "read" and other is not None and isinstance(other.via, Pipe) and other.via.unused(clock):
            level = Leniency.LOAD_WITHOUT_USE
        if me.what == DEALLOC:
            verb = "frees"
            unread = kind == "write" and not shadow.reader[cells][hit].any()
            if unread and other is not None and other.instr.kind is Kind.TENSOR_COPY:
                level = Leniency.FREED_WHILE_COPIED
        report_conflict(me, clock, verb, where, shadow.history, number, kind, near, level, _part(me, hit))

    def _near(self, column: int, group: int, columns: np.ndarray) -> tuple[tuple[str, str], ...]:
        for there, copied in self.copied_unwritten.items():
            if np.isin(columns, there).any():
                return (("copied at", copied),)
        runs = written(self.shadow.writer[:, group], column, self.shadow.history.accesses)
        shown = (f"columns {first} to {last} of these lanes by {by.origin()}" for first, last, by in runs)
        return tuple(("near", text) for text in shown) or (("near", "nothing was written in these lanes"),)

    def leave_unwritten(self, column: int, columns: int, groups: np.ndarray, copied: str) -> None:
        """Mark a region that was just written as unwritten: its source was unwritten."""
        self.shadow.writer[column : column + columns, groups] = UNWRITTEN
        self.copied_unwritten[range(column, column + columns)] = copied

    def region(self, lane: int, lanes: int, column: int, columns: int) -> Cells:
        """Return the shadow cells of a rectangle whose lanes are whole groups or lie in one."""
        return rectangle(column, columns, slice(lane // GROUP, -(-(lane + lanes) // GROUP)))

    def owns(self, column: int, columns: int) -> bool:
        """Return whether every column is allocated."""
        if (column, columns) in self._checked:
            return True
        owned = column + columns <= TMEM_COLUMNS and bool(self.owned[column : column + columns].all())
        if owned:
            self._checked.add((column, columns))
        return owned

    def check(self, column: int, columns: int, instr: Instr, warp: Issuer, what: str) -> None:
        """Raise TensorMemoryError unless every column is allocated."""
        if self.owns(column, columns):
            return
        live = ", ".join(f"{c} to {c + n - 1}" for c, (n, *_) in sorted(self.allocations.items())) or "none"
        fault = TensorMemoryError(
            f"{what} touches tensor memory columns {column} to {column + columns - 1} of CTA {self.cta.name}",
            instr,
            warp,
            (("allocated", f"columns {live}" if self.allocations else "none"), *self._freed(column, columns)),
        )
        if column + columns > TMEM_COLUMNS:
            raise fault
        self.cta.launch.report(fault)

    def _freed(self, column: int, columns: int) -> tuple[tuple[str, str], ...]:
        return tuple(
            ("freed at", f"{place(instr, warp)}\nby {warp}")
            for first, (count, instr, warp) in self.freed.items()
            if first < column + columns and column < first + count
        )

    def allocate(self, columns: int, instr: Instr, warp: Issuer) -> int | None:
        """Allocate columns with undefined contents. Return the first column, or None if they do not fit."""
        for start in range(0, TMEM_COLUMNS - columns + 1, UNIT):
            if not self.owned[start : start + columns].any():
                self.owned[start : start + columns] = True
                self.allocations[start] = (columns, instr, warp)
                self.cells[start : start + columns] = POISON
                self.shadow.writer[start : start + columns] = 0
                self.shadow.reader[start : start + columns] = 0
                self.copied_unwritten.clear()
                return start
        return None

    def free(self, column: int, columns: int, instr: Instr, warp: Issuer) -> None:
        """Free the allocation of `columns` from `column`, and wake the warps that wait to allocate.

        Raises TensorMemoryError without such an allocation by the same cta_group, DataRace for a use that is not
        ordered before.
        """
        known = self.allocations.get(column)
        if known is None or known[0] != columns:
            live = ", ".join(f"{c} ({n} columns)" for c, (n, *_) in self.allocations.items()) or "none"
            raise TensorMemoryError(
                f"tcgen05.dealloc of {columns} columns from {column}, which were not allocated like that",
                instr,
                warp,
                (("allocated", live),),
            )
        if ("cta_group::2" in known[1].modifiers) != ("cta_group::2" in instr.modifiers):
            raise TensorMemoryError(
                f"tcgen05.dealloc of columns from {column} names another cta_group than their allocation",
                instr,
                warp,
                (("allocated at", place(known[1], known[2])),),
            )
        every = (slice(column, column + columns), slice(None))
        kept = self.shadow.writer[every].copy()
        self.shadow.write(every, warp.access(instr, DEALLOC), warp.clock)
        self.shadow.writer[every] = kept
        self.freed[column] = (columns, instr, warp)
        del self.allocations[column]
        self.owned[column : column + columns] = False
        self._checked.clear()
        waiters, self.waiters = self.waiters, []
        self.cta.cluster.wake(waiters)
