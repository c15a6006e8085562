"""Handlers of the skeleton's instructions by opcode. Each appends operations for the timeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from ...chip import LANES
from ...isa import registry
from ...isa.ld_st import STRONG
from ...isa.registry import BLOCK, Action, Handler, Lowering, never_communicates
from ...ptx.kinds import Kind
from ...ptx.syntax import Instr, Operand
from ..accesses import Request
from ..lane_addresses import SECTOR_BYTES
from ..segment import LONG_SCOREBOARD, SHORT_SCOREBOARD
from ..warps import TimedWarp

REASONS: Final = {
    "bulk stores": "TMA",
    "earlier stores": "stores",
    "wgmma": "tensor core",
    "tensor memory": "tensor memory",
    "barrier.cluster": "barrier",
}
"""The kinds of the waits with a known end; the others wait for values from memory."""
SEGMENT: Final = "clock.segment"
AWAIT_LOAD: Final = "clock.loaded"
OUTCOME: Final = "clock.outcome"
"""A predicate that a comparison of data computes."""
ACCESS: Final = "clock.access"
"""A load of global memory whose requests are recorded: its number, and the address if it is known."""
PASS: Final = "clock.pass"
"""A warp comes to a recorded load, and may not execute it."""
SPIN: Final = "clock.spin"
"""An mbarrier.try_wait that the kernel repeats until it succeeds."""


@dataclass(frozen=True, kw_only=True)
class Operation(Handler):
    """A family of instructions that the timeline performs.

    keep: selects the operands that the handler takes, destinations first.
    hints: selects operands that it takes in addition if they follow from the launch alone, whatever is in memory.
    delays: a warp may wait at the instruction for a time that the program does not show.
    """

    keep: Callable[[Instr], Sequence[Operand]]
    hints: Callable[[Instr], Sequence[Operand]]
    delays: bool

    def kept(self, instr: Instr, hinted: bool = False) -> Instr:
        """Return an instruction with the operands that the handler takes. hinted: its hints are among them."""
        return replace(instr, operands=(*self.keep(instr), *(self.hints(instr) if hinted else ())))


UNCOUNTED: Final = frozenset({SEGMENT, AWAIT_LOAD, OUTCOME, ACCESS, PASS})
"""Operations that are no instructions of the kernel."""
_OPERATIONS: Final[dict[str, Operation]] = {}


def operation(instr: Instr) -> Operation | None:
    """Return the operation that an instruction is, or None."""
    return _OPERATIONS.get(instr.opcode)


def find(instr: Instr) -> Handler | Lowering:
    """Return the registry entry of a skeleton's instruction."""
    return operation(instr) or registry.find(instr)


def timed(
    *opcodes: str,
    keep: Callable[[Instr], Sequence[Operand]] = lambda instr: (),
    hints: Callable[[Instr], Sequence[Operand]] = lambda instr: (),
    blocking: bool = False,
    delays: bool = False,
    **facts: Any,
) -> Callable[[Callable[[Instr], Action]], Callable[[Instr], Action]]:
    """Register the handler of `opcodes`. The parameters are fields of `Operation`."""

    def register(make: Callable[[Instr], Action]) -> Callable[[Instr], Action]:
        for opcode in opcodes:
            _OPERATIONS[opcode] = Operation(
                make=make if opcode in UNCOUNTED else partial(_counted, make),
                keep=keep,
                hints=hints,
                blocking=blocking,
                delays=delays or blocking,
                communicates=never_communicates,
                **facts,
            )
        return make

    return register


def _counted(make: Callable[[Instr], Action], ins: Instr) -> Action:
    """Return the action of an instruction, which also counts how often warps execute it."""
    perform, line = make(ins), ins.line

    def run(warp: TimedWarp, mask: Any, *operands: Any) -> Any:
        result = perform(warp, mask, *operands)
        warp.sm.executed[line] += result is not BLOCK
        return result

    return run


def first(count: int) -> Callable[[Instr], Sequence[Operand]]:
    """Return a selector of the first `count` operands."""
    return lambda instr: instr.operands[:count]


def everything(instr: Instr) -> Sequence[Operand]:
    return instr.operands


def is_global_store(instr: Instr) -> bool:
    """Return True for a store to global memory, which takes machine time whatever it stores."""
    return instr.kind is Kind.STORE and "global" in instr.modifiers


def waits_at_first_use(instr: Instr) -> bool:
    """Return True for a load for which a warp waits at the first use of its value.

    A warp waits for a strong load at once, because it may poll until another warp has stored.
    """
    kinds = frozenset(instr.modifiers)
    return instr.kind is Kind.TENSOR_LOAD or (instr.kind is Kind.LOAD and kinds.isdisjoint({*STRONG, "mmio", "param"}))


@timed(SEGMENT, keep=everything)
def _segment(ins: Instr) -> Action:
    def begin(warp: TimedWarp, now: float, number: int) -> float:
        return float(warp.timeline.begin(warp, number, now))

    def run(warp: TimedWarp, mask: Any, number: int) -> None:
        warp.ops.append((begin, number))

    return run


@timed(OUTCOME, keep=everything, dst=1)
def _outcome(ins: Instr) -> Action:
    def run(warp: TimedWarp, mask: Any, number: int) -> Any:
        outcomes = warp.timeline.outcomes
        if outcomes is None:
            return 0
        time = warp.compared[number]
        warp.compared[number] += 1
        return outcomes.value((warp.cta.rank, warp.index, number), time)

    return run


@timed(PASS, keep=everything)
def _pass(ins: Instr) -> Action:
    def run(warp: TimedWarp, mask: Any, *sites: int) -> None:
        if warp.requests is not None:
            warp.requests.passes(sites)

    return run


@timed(ACCESS, keep=everything)
def _access(ins: Instr) -> Action:
    def run(warp: TimedWarp, mask: Any, site: int, *address: Any) -> None:
        if warp.requests is None or warp.requests.full:
            return
        lanes = LANES if mask is None else int(mask.sum())
        sectors: Sequence[int] | None = None if lanes else ()
        if address and lanes:
            at = np.asarray(address[0], np.uint64).reshape(-1)
            at = at if mask is None or at.size == 1 else at[mask]
            shift = warp.requests.placement.shift(int(at[0]), warp.cta.launch.memory)
            sectors = np.unique((at - np.uint64(shift)) // SECTOR_BYTES).tolist()
        warp.requests.made.append(Request(site, sectors, lanes))

    return run


def idle(warp: TimedWarp, now: float, done: float, ins: Instr, what: str) -> float:
    """Wait until a known time."""
    if done <= now:
        warp.visited(ins.line, what)
        return now
    value = SHORT_SCOREBOARD if "shared" in what else LONG_SCOREBOARD
    warp.waited(ins.line, what, done - now, REASONS.get(what, value))
    if warp.timeline.trace is not None:
        warp.timeline.trace.waited(warp, ins, what, now, done)
    return done
