"""Reads of shared memory that are in flight at an arrival, which a bulk copy may overtake.

Measured on an H200 where loads of other warps missed the TLB (lab/reads_in_flight.cu). After bar.sync, bar.arrive or an
mbarrier.arrive of the CTA, up to all words that ldmatrix or ld.shared should have read before were of the bulk copy
that came next. None was after an arrival of scope .cluster, or with a fence or a use of the values before the arrival,
and none if st.shared or cp.async wrote.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from ..ptx.flow import Flow, reachable
from ..ptx.kinds import Kind
from ..ptx.syntax import Instr
from .effects import Effect

COMPLETE: Final = frozenset({"fence", "fence.proxy", "membar", "barrier.cluster"})
"""Opcodes that wait for the warp's reads."""
COPIES: Final = frozenset({Kind.BULK_COPY, Kind.BOX_COPY})


def reads_in_flight(flow: Flow, effects: Sequence[Effect]) -> dict[Any, frozenset[Any]]:
    """Return the reads whose values no instruction has named yet at each arrival that has some, by `Instr.place`."""
    reads = [at for at, effect in enumerate(effects) if _reads_shared(effect.instr)]
    if not reads or not any(effect.instr.kind in COPIES for effect in effects):
        return {}
    moves = _moves(effects)
    bits = {at: 1 << number for number, at in enumerate(reads)}
    of_register = defaultdict[Any, int](int)
    for at in reads:
        for register in reachable(effects[at].writes, lambda register: moves.get(register, ())):
            of_register[register] |= bits[at]

    def follow(state: int, at: int) -> int:
        instr = effects[at].instr
        if instr.opcode in COMPLETE:
            return 0
        return (state if instr.kind is Kind.MOVE else unused(state, at)) | bits.get(at, 0)

    def unused(state: int, at: int) -> int:
        for register in (*effects[at].reads, *effects[at].writes) if state else ():
            state &= ~of_register.get(register, 0)
        return state

    return {
        effects[at].instr.place: frozenset(
            effects[read].instr.place for read in reads if bits[read] & unused(state, at)
        )
        for at, state in flow.before_each(0, follow, int.__or__)
        if _arrives(effects[at].instr) and unused(state, at)
    }


def _reads_shared(instr: Instr) -> bool:
    shared = instr.kind is Kind.LOAD and not {"shared", "shared::cta"}.isdisjoint(instr.modifiers)
    return shared or instr.kind is Kind.MATRIX_LOAD


def _arrives(instr: Instr) -> bool:
    if instr.opcode in ("mbarrier.arrive", "mbarrier.arrive_drop"):
        return {"cluster", "shared::cluster"}.isdisjoint(instr.modifiers)
    return instr.kind.is_cta_barrier


def _moves(effects: Sequence[Effect]) -> dict[Any, set[Any]]:
    """Return the registers that moves copy each register to. ptxas leaves out most moves, so they use no value."""
    found = defaultdict[Any, set[Any]](set)
    for effect in effects:
        if effect.instr.kind is Kind.MOVE:
            for source in effect.reads:
                found[source].update(effect.writes)
    return found
