"""Warpgroup MMAs whose registers other instructions accessed without a fence in between, on some path.

PTX asks for a fence before the first product of a kernel, too. Most of NVIDIA's programs have all fences. The effect of
a missing one on a GPU was not tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..errors import MissingWait, place
from ..leniency import Leniency
from ..ptx.dataflow import forward
from ..ptx.flow import Flow
from ..ptx.kinds import Kind
from ..ptx.syntax import Instr, Reg
from .effects import Effect, registers

START: Final = -1
FENCE: Final = Kind.GROUP_MMA_FENCE.opcode
_Touch = tuple[Reg | None, str]
"""A register, or None for all of them, and the shape of the product whose accumulator it was; "" for other accesses."""
_State = dict[_Touch, int]
"""The last effect that touched each since the last fence. None as register: no fence was executed at all."""


@dataclass(frozen=True)
class Unfenced:
    """A product that lacks a fence, and the last instruction that touched one of its registers, if any did."""

    product: Instr
    register: Reg | None
    touched: Instr | None

    def report(self, warp: Any) -> None:
        """Report it, once per launch."""
        launch = warp.cta.launch
        known = launch.registry.setdefault(Unfenced, set())
        if id(self) in known:
            return
        known.add(id(self))
        at: tuple[tuple[str, str], ...] = ()
        if self.touched is None:
            what = "is executed"
            missing = f"{FENCE} before PTX line {self.product.line}"
        else:
            what, at = f"uses {self.register}", (("touched at", place(self.touched, warp)),)
            missing = f"{FENCE} between PTX lines {self.touched.line} and {self.product.line}"
        what = f"{self.product.opcode} {what} with no {FENCE} before it"
        launch.report(
            MissingWait(what, self.product, warp, (*at, ("missing", missing)), level=Leniency.PRODUCT_WITHOUT_FENCE)
        )


def unfenced(flow: Flow, effects: Sequence[Effect]) -> dict[int, Unfenced]:
    """Return the products that lack a fence, by the id of their effects."""
    products = [effect for effect in effects if effect.instr.kind is Kind.GROUP_MMA]
    if not products:
        return {}
    theirs = {register for product in products for register in _operands(product)}
    shapes = ["", *sorted({_shape(product.instr) for product in products})]

    def at_end(block: int, state: _State) -> _State:
        state = dict(state)
        for at in range(flow.blocks[block].start, flow.blocks[block].end):
            _follow(state, at, effects[at], theirs, shapes)
        return state

    found: dict[int, Unfenced] = {}
    entry: _State = {(None, ""): START}
    for index, at_start in forward(flow.ways, {0: entry}, at_end, _join).items():
        state = dict(at_start)
        for at in range(flow.blocks[index].start, flow.blocks[index].end):
            effect = effects[at]
            touches = _touches(effect, shapes) if effect.instr.kind is Kind.GROUP_MMA else []
            late = {t: state[t] for t in touches if t in state and t[1] != _shape(effect.instr)}
            if late:
                (register, _), touched = max(late.items(), key=lambda item: item[1])
                by = None if touched == START else effects[touched].instr
                found[id(effect)] = Unfenced(effect.instr, register, by)
            _follow(state, at, effect, theirs, shapes)
    return found


def _shape(product: Instr) -> str:
    return next((m for m in product.modifiers if m.startswith("m64n")), "no shape")


def _touches(product: Effect, shapes: Sequence[str]) -> list[_Touch]:
    """Return the touches that matter to a product: its registers and None, each by every shape."""
    return [(register, shape) for register in (None, *_operands(product)) for shape in shapes]


def _operands(product: Effect) -> list[Reg]:
    """Return the registers of the accumulator and of A."""
    found = (r for operand in product.instr.operands[:3] for r in registers(operand))
    return [r for r in found if isinstance(r, Reg) and r.type == "b32"]


def _follow(state: _State, at: int, effect: Effect, theirs: set[Reg], shapes: Sequence[str]) -> None:
    """Update the state by an instruction. After a product, those of other shapes may not use its accumulator."""
    kind = effect.instr.kind
    if kind is Kind.GROUP_MMA_FENCE and not effect.preserves:
        state.clear()
    elif kind is Kind.GROUP_MMA:
        for touch in _touches(effect, shapes):
            state.pop(touch, None)
        shape = _shape(effect.instr)
        state.update(((r, shape), at) for r in registers(effect.instr.operands[0]) if isinstance(r, Reg))
    elif kind is not Kind.GROUP_MMA_COMMIT:
        state.update(((r, ""), at) for r in (*effect.writes, *effect.reads) if isinstance(r, Reg) and r in theirs)


def _join(one: _State, other: _State) -> _State:
    """Return the touches on either path, each by the last effect in the order of the program."""
    return {touch: max(one.get(touch, START), other.get(touch, START)) for touch in one | other}
