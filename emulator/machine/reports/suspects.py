"""Loads of what they should not have read. Programs load ahead of the branch or the guard that decides whether there is
something to use, or in more warps than use it: what a warp does with the value decides whether that is a fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from ...chip import LANES
from ...errors import Fault, Level
from ...ptx.kinds import Kind
from ...ptx.syntax import ALL_BYTES, Vector

if TYPE_CHECKING:
    from ...ptx.syntax import Instr
    from ..launch.launch import Launch
    from ..order.access import Access, Issuer

LOADS: Final = frozenset({Kind.LOAD, Kind.MATRIX_LOAD, Kind.TENSOR_LOAD})
ALL: Final = (1 << LANES) - 1


@dataclass(frozen=True)
class LoadedPart:
    """Of what a load brings: the lanes, as bits, and the registers by number, None for all."""

    lanes: int = ALL
    registers: frozenset[int] | None = None


WHOLE: Final = LoadedPart()


class TaintTracker(Protocol):
    """What is known of a warp that goes on one instruction at a time."""

    def keep(self, fault: Fault, part: LoadedPart) -> None:
        """What the load that is being executed brings is not to be used, as far as it is of this part."""


class SuspectLoad(Exception):
    """A load of what it should not read, before it has done anything: its warp is to be watched from it on.

    lanes: those that came to the load, as bits, whatever its guard says; the block's function adds them.
    """

    def __init__(self, instr: Instr) -> None:
        super().__init__(instr.text)
        self.instr, self.lanes = instr, 0


class Stores(Protocol):
    """Stores, by number, that the value of a load may come to; exchanged: from other lanes too."""

    @property
    def stores(self) -> frozenset[int]: ...

    @property
    def exchanged(self) -> bool: ...


class PendingOverwrites:
    """Of one launch: writes over what a load read, with no order between, whose fault depends on where the loaded value
    goes. reach: of a load, the stores that it may come to, if it can come to nothing else; met: what wrote comes after
    all that the reader did before its last arrival at a barrier.

    A value that only stores take which the warp never executes, for their guard, was never used: compilers have several
    warps load what one of them uses. That is known when the warp has ended.
    """

    def __init__(self, reach: Callable[[Instr, bool], Stores | None]) -> None:
        self._reach = reach
        self._left: dict[tuple[int, int, Issuer], tuple[Fault, frozenset[int], int]] = {}

    def defer(self, fault: Fault, me: Access, reader: Access, lanes: int) -> bool:
        """Whether it is left to `judge` what the value is for that `reader` read, in these lanes (bits), and `me`
        overwrote."""
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
        self._left[key] = fault, stores | stored.stores, ALL if stored.exchanged else lanes | known
        return True

    def judge(self, launch: Launch) -> None:
        """Find what was put off because of warps that have ended."""
        for key, (fault, stores, lanes) in list(self._left.items()):
            *_, reader = key
            if reader.done:
                del self._left[key]
                used = any(int(reader.stored[number]) & lanes for number in stores)
                fault.level = Level.FAULT if used else Level.FORMAL
                launch.report(fault)


def report_overwrite(me: Access, fault: Fault, reader: Access, lanes: int = ALL) -> bool:
    """Find the fault that `me` wrote what `reader` read; or leave it until it is known where the value goes: whether
    that."""
    launch = me.warp.cta.launch
    later: PendingOverwrites | None = launch.registry.get(PendingOverwrites)
    waits = later is not None and fault.level == Level.FAULT and not launch.asks(Level.FORMAL)
    if waits and later is not None and later.defer(fault, me, reader, lanes):
        return True
    launch.report(fault)
    return False


def part_of_load(me: Access, hit: np.ndarray) -> LoadedPart:
    """What the lanes bring whose row of cells is `hit` somewhere; all, where it is not by lanes.

    Of a vector those registers, as far as each has cells of its own.
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
    """Find the fault of a read; of a load only once its value is used, but where every such load is asked for."""
    launch, taint = me.warp.cta.launch, me.warp.taint
    if me.instr.kind not in LOADS or fault.level > Level.FAULT or launch.asks(Level.FORMAL):
        launch.report(fault)
    elif taint is None:
        raise SuspectLoad(me.instr)
    else:
        taint.keep(fault, part)
