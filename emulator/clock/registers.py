"""Registers of a thread, which limit how many CTAs an SM holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from ..chip import MAX_REGISTERS_A_THREAD, REGISTERS_AN_SM
from ..engine.effects import Effect
from ..engine.registers import Liveness
from ..ptx.flow import Flow
from ..ptx.syntax import Kernel, Reg

STEP: Final = 8
"""Registers of a thread are allocated in such groups."""
WORDS: Final = {"pred": 0, "b64": 2, "u64": 2, "s64": 2, "f64": 2, "b128": 4}
"""The 32-bit registers that a PTX register takes, by type; 1 for the others."""


@dataclass(frozen=True)
class Registers:
    """The registers of a thread. how: the source of the number."""

    count: int
    how: str

    @property
    def allocated(self) -> int:
        """The registers that the SM reserves for a thread."""
        return -(-self.count // STEP) * STEP


def estimated(kernel: Kernel, found: Sequence[Effect], flow: Flow) -> Registers:
    """Return the most registers that are live at a time in the order of the PTX, as far as the kernel allows.

    ptxas may need fewer, because it moves instructions. found: the effects of the kernel's instructions.
    """
    live, most = Liveness(flow, found), 0
    for block in flow.blocks:
        after = live.live_out[block.index]
        count = _words(live.members(after))
        most = max(most, count)
        for effect in reversed(found[block.start : block.end]):
            before = live.before(effect, after)
            count += _words(live.members(before & ~after)) - _words(live.members(after & ~before))
            after, most = before, max(most, count)
    return Registers(max(min(most, _allowed(kernel)), STEP), "estimated from the PTX")


def _words(registers: Iterable[Reg]) -> int:
    return sum(WORDS.get(register.type, 1) for register in registers)


def _allowed(kernel: Kernel) -> int:
    """Return the registers that a kernel's directives leave a thread."""
    threads = prod(kernel.reqntid or kernel.maxntid or (1,)) * (kernel.minnctapersm or 1)
    return min(kernel.maxnreg or MAX_REGISTERS_A_THREAD, REGISTERS_AN_SM // threads // STEP * STEP)
