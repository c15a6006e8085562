"""Basic blocks cut into segments: runs of pure computation, calls of handlers, and the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..isa.special_registers import changes
from ..ptx.flow import BasicBlock, Flow
from ..ptx.syntax import Reg, Special
from .effects import Effect
from .registers import Liveness


@dataclass(frozen=True)
class Segment:
    """Instructions executed as one: several inlined ones, or one handler, branch or end.

    `live`: the set of registers needed afterwards.
    """

    effects: tuple[Effect, ...]
    live: int

    @property
    def inlined(self) -> bool:
        return is_inlined(self.effects[0])


@dataclass(frozen=True)
class Chain:
    """Neighbouring segments that are one list of steps, from address `start`.

    stops: for each access, the step at which the list stops if the access asks for its handler, and the next step.
    """

    start: int
    segments: int
    stops: tuple[tuple[Effect, int, int], ...]


def is_inlined(effect: Effect) -> bool:
    """Return whether an instruction becomes machine code. Reading a clock does not, as its value changes."""
    return effect.inlined and not any(isinstance(s, Special) and changes(s) for s in effect.reads)


def segments(flow: Flow, effects: Sequence[Effect], liveness: Liveness) -> list[list[Segment]]:
    """Return the segments of every block."""
    return [_of_block(block, effects, liveness) for block in flow.blocks]


def _of_block(block: BasicBlock, effects: Sequence[Effect], liveness: Liveness) -> list[Segment]:
    found: list[Segment] = []
    live = liveness.live_out[block.index]
    pending: list[Effect] = []
    pending_live = 0
    for effect in reversed(effects[block.start : block.end]):
        if is_inlined(effect):
            if not pending:
                pending_live = live
            pending.append(effect)
        else:
            if pending:
                found.append(Segment(tuple(reversed(pending)), pending_live))
                pending = []
            found.append(Segment((effect,), live))
        live = liveness.before(effect, live)
    if pending:
        found.append(Segment(tuple(reversed(pending)), pending_live))
    return found[::-1]


def placed_registers(blocks: Sequence[Sequence[Segment]], liveness: Liveness) -> list[Reg]:
    """Return the registers that outlive a segment and need a place in the register file."""
    wanted = 0
    for block in blocks:
        for segment in block:
            wanted |= _crossing(segment, liveness)
    return liveness.members(wanted)


def within_one_block(flow: Flow, effects: Sequence[Effect], liveness: Liveness) -> dict[Reg, int]:
    """Return the block of each register that only one block names and that is dead where a block begins or ends."""
    named = []
    for block in flow.blocks:
        here = 0
        for effect in effects[block.start : block.end]:
            here |= liveness.reads(effect) | liveness.writes(effect)
        named.append(here)
    once = others = 0
    for here, live_in, live_out in zip(named, liveness.live_in, liveness.live_out, strict=True):
        others |= once & here | live_in | live_out
        once |= here
    return {register: at for at, here in enumerate(named) for register in liveness.members(here & ~others)}


def _crossing(segment: Segment, liveness: Liveness) -> int:
    if not segment.inlined:
        (effect,) = segment.effects
        return liveness.reads(effect) | liveness.writes(effect)
    used = written = 0
    for effect in segment.effects:
        used |= liveness.reads(effect) & ~written
        if not effect.preserves:
            written |= liveness.writes(effect)
    stored = 0
    for effect in segment.effects:
        stored |= liveness.writes(effect)
    before = segment.live
    for effect in reversed(segment.effects):
        before = liveness.before(effect, before)
    return used | (stored & (segment.live | before))
