"""Reads of shared memory that are in flight at an arrival, which a bulk copy may overtake.

Measured on an H200 where loads of other warps missed the TLB: of what ldmatrix and ld.shared should have read before
bar.sync, bar.arrive or an mbarrier.arrive of the CTA, every word was of the bulk copy that came next. None was with a
fence, a use of the values or an arrival of scope .cluster between, and none if st.shared or cp.async wrote.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from .flow import reachable
from .kinds import Kind
from .syntax import Instr, Kernel, Reg, Symbol, atoms

COMPLETE: Final = frozenset({"fence", "fence.proxy", "membar", "barrier.cluster"})
"""Opcodes that wait for the warp's reads."""


def reads_in_flight(kernel: Kernel) -> dict[Any, frozenset[Any]]:
    """Return the reads that may be in flight at each arrival that has some, by `Instr.place`."""
    found, moves = defaultdict[Any, set[Any]](set), _moves(kernel)
    for at, read in enumerate(kernel.instrs):
        if read.kind is Kind.MATRIX_LOAD or (read.kind is Kind.LOAD and {"shared", "shared::cta"} & {*read.modifiers}):
            values = reachable(_registers(read), lambda register: moves.get(register, ()))
            for arrival in _arrivals_before_use(kernel, at, values):
                found[arrival.place].add(read.place)
    return {arrival: frozenset(reads) for arrival, reads in found.items()}


def _arrivals_before_use(kernel: Kernel, at: int, values: set[Any]) -> Iterator[Instr]:
    """Yield the arrivals that a path from the read at index `at` comes to before an instruction names its values."""
    instrs = kernel.instrs

    def following(i: int) -> list[int]:
        instr = instrs[i]
        uses = i != at and instr.kind is not Kind.MOVE and not values.isdisjoint(atoms(instr.operands))
        if uses or instr.opcode in COMPLETE or (instr.kind is Kind.EXIT and instr.guard is None):
            return []
        ways = [i + 1] if instr.kind is not Kind.BRANCH or instr.guard else []
        if instr.kind is Kind.BRANCH and isinstance(instr.operands[0], Symbol):
            ways.append(kernel.labels.get(instr.operands[0].name, len(instrs)))
        return [way for way in ways if way < len(instrs)]

    for i in reachable([at], following):
        if _arrives(instrs[i]) and values.isdisjoint(atoms(instrs[i].operands)):
            yield instrs[i]


def _arrives(instr: Instr) -> bool:
    if instr.opcode in ("mbarrier.arrive", "mbarrier.arrive_drop"):
        return not {"cluster", "shared::cluster"} & {*instr.modifiers}
    return instr.kind.is_cta_barrier


def _registers(instr: Instr) -> set[Any]:
    """Return the registers that an instruction writes."""
    return {each for each in atoms(instr.operands[:1]) if isinstance(each, Reg)}


def _moves(kernel: Kernel) -> dict[Any, set[Any]]:
    """Return the registers that moves copy each register to. ptxas leaves out most moves, so they use no value."""
    found = defaultdict[Any, set[Any]](set)
    for instr in kernel.instrs:
        if instr.kind is Kind.MOVE:
            for source in atoms(instr.operands[1:]):
                found[source] |= _registers(instr)
    return found
