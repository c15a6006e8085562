"""Loads of memory that should not be read yet, and the use of their values, which decides whether that is a fault.

Programs load ahead of the branch or guard that decides whether there is something to use, or in more warps than use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...chip import ALL_LANES
from ...errors import Fault, Level
from ...leniency import Leniency
from ...ptx.kinds import Kind
from ...ptx.syntax import ALL_BYTES, Instr, Vector
from ..launch.launch import Launch
from ..order.access import Access, Issuer

LOADS: Final = frozenset({Kind.LOAD, Kind.MATRIX_LOAD, Kind.TENSOR_LOAD})


@dataclass(frozen=True)
class LoadedPart:
    """A part of a load's result: the lanes, as bits, and the registers by number, None for all."""

    lanes: int = ALL_LANES
    registers: frozenset[int] | None = None


WHOLE: Final = LoadedPart()


class SuspectLoad(Exception):
    """A load of memory that it should not read, raised before it has any effect. Its warp is tracked from then on.

    lanes: the lanes (bits) that came to the load, before its guard. The block's function adds them.
    """

    def __init__(self, instr: Instr) -> None:
        super().__init__(instr.text)
        self.instr, self.lanes = instr, 0


@dataclass(frozen=True)
class Reach:
    """The stores, by number, that the value of a load may reach. exchanged: from other lanes too."""

    stores: frozenset[int]
    exchanged: bool


class PendingOverwrites:
    """Unordered writes over what a load read, in one launch. Their level depends on the use of the loaded value.

    reach: returns the stores that a load's value may reach, None if it may have other uses. Its second argument says
    that the write comes after everything that the reader did before its last arrival at a barrier.

    Compilers let several warps load a value that one of them stores under a guard. A value that reaches only stores
    that the warp never executes is unused, which is known when the warp has ended.
    """

    def __init__(self, reach: Callable[[Instr, bool], Reach | None]) -> None:
        self._reach = reach
        self._left: dict[tuple[int, int, Issuer], tuple[Fault, frozenset[int], int]] = {}

    def defer(self, fault: Fault, me: Access, reader: Access, lanes: int) -> bool:
        """Return whether `judge` will decide on the write `me` over what `reader` read in these lanes (bits)."""
        met = (
            me.generic
            and me.via is None
            and me.warp.cta is reader.warp.cta
            and reader.ordered_after_arrivals(me.warp.clock)
        )
        stored = self._reach(reader.instr, met) if reader.generic and reader.instr.kind is Kind.LOAD else None
        if stored is None:
            return False
        key = id(fault.instr), id(reader.instr), reader.warp
        _, stores, known = self._left.get(key, (fault, frozenset[int](), 0))
        self._left[key] = fault, stores | stored.stores, ALL_LANES if stored.exchanged else lanes | known
        return True

    def report_ended(self, launch: Launch) -> None:
        """Report the deferred overwrites of readers that have ended."""
        for key, (fault, stores, lanes) in list(self._left.items()):
            *_, reader = key
            if reader.done:
                del self._left[key]
                used = any(int(reader.stored[number]) & lanes for number in stores)
                fault.grade(Level.FAULT if used else Leniency.UNUSED_BEFORE_STORE)
                launch.report(fault)


def report_overwrite(me: Access, fault: Fault, reader: Access, lanes: int = ALL_LANES) -> bool:
    """Report the fault that `me` overwrote what `reader` read. Return whether that is deferred to the reader's end."""
    launch = me.warp.cta.launch
    later: PendingOverwrites | None = launch.registry.get(PendingOverwrites)
    waits = later is not None and fault.level == Level.FAULT and not launch.enforces(Leniency.UNUSED_BEFORE_STORE)
    if waits and later is not None and later.defer(fault, me, reader, lanes):
        return True
    launch.report(fault)
    return False


def part_of_load(me: Access, hit: np.ndarray) -> LoadedPart:
    """Return the lanes, and the registers of a vector, whose cells are in the mask `hit`.

    The whole load if the cells are not kept by lane.
    """
    lanes = me.warp.lanes
    if me.instr.kind is not Kind.LOAD or lanes is None or hit.shape[:1] != lanes.shape:
        return WHOLE
    rows, to = hit.reshape(len(lanes), -1), me.instr.operands[0]
    count = len(to.items) if isinstance(to, Vector) and me.instr.used == ALL_BYTES else 1
    each = rows.any(0).reshape(count, -1).any(1) if rows.shape[1] % count == 0 else np.ones(count, bool)
    return LoadedPart(
        sum(1 << lane for lane in lanes[rows.any(1)].tolist()),
        None if count == 1 else frozenset(np.flatnonzero(each).tolist()),
    )


def report_read(me: Access, fault: Fault, part: LoadedPart = WHOLE) -> None:
    """Report the fault of a read; a race of a load is reported once its value is used, unless the level reports all."""
    launch, taint = me.warp.cta.launch, me.warp.taint
    if me.instr.kind not in LOADS or fault.level > Level.FAULT or launch.enforces(Leniency.UNUSED_LOAD):
        launch.report(fault)
    elif taint is None:
        raise SuspectLoad(me.instr)
    else:
        taint.keep(fault, part)
