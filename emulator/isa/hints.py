"""Instructions about caches and for profilers: nothing here depends on them, but that discarded memory is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..errors import UnknownInstruction
from ..native.builder import Builder
from ..ptx.syntax import Imm, Instr
from .ld_st import chosen
from .modifiers import Modifiers
from .registry import Action, executes, if_sources_are, lowers, nobody

if TYPE_CHECKING:
    from ..machine.topology import Warp

LINE_BYTES: Final = 128
POLICIES: Final = {
    "L2::evict_normal": 0x16F0 << 48,
    "L2::evict_first": 0x12F0 << 48,
    "L2::evict_last": 0x14F0 << 48,
    "L2::evict_unchanged": 0x10F0 << 48,
}


@lowers("createpolicy", uniform=if_sources_are)
def createpolicy(builder: Builder, ins: Instr) -> None:
    """A cache policy, which nothing here looks into: its value says the first priority, not the fraction."""
    m = Modifiers(ins)
    m.choice("fractional")
    m.choice("b64")
    first = m.choice(*POLICIES)
    m.choice(*POLICIES, default="")
    m.done()
    builder.write(ins.operands[0], builder.code.constant(POLICIES[first], "i64"))


@executes("applypriority", meets=nobody)
def _applypriority(ins: Instr) -> Action:
    Modifiers(ins).pick({"global"}, {"L2::evict_normal"})
    _check_line(ins)
    return lambda warp, mask, address, size: None


@executes("discard", meets=nobody)
def _discard(ins: Instr) -> Action:
    """The line's bytes become all ones, as what nobody wrote."""
    Modifiers(ins).pick({"global"}, {"L2"})
    _check_line(ins)

    def run(warp: Warp, mask: Any, address: Any, _size: int) -> None:
        lines = chosen(warp, mask, address) & np.uint64(~(LINE_BYTES - 1) % (1 << 64))
        lost = np.full((lines.size, LINE_BYTES // 8), ~np.uint64(0))
        warp.cta.launch.memory.store(lines, lost, ins, warp, "discard")

    return run


def _check_line(ins: Instr) -> None:
    size = ins.operands[1]
    if not isinstance(size, Imm) or size.value != LINE_BYTES:
        raise UnknownInstruction(ins, f"size {size}; allowed is {LINE_BYTES}")


@executes("pmevent", meets=nobody)
def _pmevent(ins: Instr) -> Action:
    Modifiers(ins).pick({"mask"})
    return lambda warp, mask, event: None
