"""The collector buffers of a CTA's tensor core: each keeps one operand of tcgen05.mma for later instructions.

PTX lets `use` and `lastuse` read the operand from the buffer or from memory, and requires an earlier fill that is still
valid. So the buffer must hold the operand that memory holds. PTX leaves open when a fill ends to be valid, other than
by a later fill, `lastuse` or `discard` of the same buffer. Here an instruction without .ws also empties the buffers of
.ws, and one with .ws empties the buffer of A.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from ...errors import CollectorError, place
from ...ptx.syntax import Instr
from ..formats.zero_columns import ZeroColumns
from ..order.access import Issuer

BUFFER_OF_A: Final = "a"


class Operand(NamedTuple):
    """The identity of an operand. Equal ones have the same elements if memory has not changed.

    place: the matrix descriptor, or the address in tensor memory. n: 0 for A, whose layout does not depend on N.
    """

    matrix: str
    kind: str
    element: str
    m: int
    n: int
    lane: int
    mn_major: bool
    negated: bool
    in_tmem: bool
    place: int
    zeros: ZeroColumns | None

    def __str__(self) -> str:
        where = f"{self.place:#x} of tensor memory" if self.in_tmem else f"matrix descriptor {self.place:#018x}"
        return f"{self.matrix} at {where}"

    def difference(self, other: Operand) -> str:
        """Describe both operands and the other fields in which they differ."""
        each = zip(self._fields, self, other, strict=True)
        more = [f"{name} {one} and {two}" for name, one, two in each if one != two and name != "place"]
        return "; ".join([f"{self} and {other}", *more])


@dataclass(slots=True, eq=False)
class Buffered:
    """The operand of one instruction that fills a collector buffer or uses it. fill: the instruction that filled it."""

    instr: Instr
    warp: Issuer
    buffer: str
    operand: Operand
    fill: Buffered | None = None
    contents: list[np.ndarray] | None = None
    """The operand in each participating CTA, once a fill is complete."""

    def perform(self, now: list[np.ndarray]) -> None:
        """Keep the operand's present elements, or compare them with those that the fill kept."""
        if self.fill is None:
            self.contents = now
            return
        then = self.fill.contents
        if then is None:
            missing = f"a wait of {self.warp} for the product of PTX line {self.fill.instr.line}"
            self.warp.cta.launch.report(self.fault("is not ordered after its fill", ("missing", missing)))
            return
        changed = sum(int((one != two).sum()) for one, two in zip(then, now, strict=True))
        if changed:
            cells = f"{changed} of {sum(each.size for each in now)} {'words' if self.operand.in_tmem else 'bytes'}"
            why = "reads an operand that was overwritten after the fill"
            self.warp.cta.launch.report(self.fault(why, ("overwritten", cells)))

    def fault(self, why: str, *lines: tuple[str, str]) -> CollectorError:
        """Return the fault of a buffer that does not hold the operand."""
        filled = [] if self.fill is None else [("filled at", place(self.fill.instr, self.fill.warp))]
        what = f"{self.instr.opcode} from collector buffer {self.buffer} {why}"
        return CollectorError(what, self.instr, self.warp, (*filled, *lines))


class Collectors:
    """The fills of a CTA's buffers that are valid, in the order in which instructions were issued."""

    def __init__(self) -> None:
        self.valid: dict[str, Buffered] = {}
        self.ended: dict[str, tuple[Buffered, Instr, Issuer]] = {}
        """For each emptied buffer its last fill and the instruction that emptied it."""

    def issue(self, use: str, me: Buffered) -> CollectorError | None:
        """Execute an instruction's collector operation. Return the fault if it does not find its operand."""
        for buffer in [name for name in self.valid if (name == BUFFER_OF_A) != (me.buffer == BUFFER_OF_A)]:
            self._empty(buffer, me)
        if use == "fill":
            self.valid[me.buffer] = me
            return None
        fault = None if use == "discard" else self._find(me)
        if use != "use":
            self._empty(me.buffer, me)
        return fault

    def _empty(self, buffer: str, by: Buffered) -> None:
        fill = self.valid.pop(buffer, None)
        if fill is not None:
            self.ended[buffer] = fill, by.instr, by.warp

    def _find(self, me: Buffered) -> CollectorError | None:
        """Find the fill that `me` relies on. Return the fault if there is no fill, or one of another operand."""
        me.fill = self.valid.get(me.buffer)
        if me.fill is None:
            missing = ("missing", f"a fill of {me.buffer} in {me.warp.cta} before PTX line {me.instr.line}")
            if me.buffer not in self.ended:
                return me.fault("finds it empty", missing)
            me.fill, instr, warp = self.ended[me.buffer]
            return me.fault("finds it empty", ("emptied at", place(instr, warp)), missing)
        if me.fill.operand != me.operand:
            return me.fault("finds another operand there", ("operands", me.fill.operand.difference(me.operand)))
        return None
