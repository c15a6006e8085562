"""Warpgroup MMAs whose registers other instructions accessed without a fence in between, on some path.

PTX asks for a fence before the first product of a kernel, too. Most of NVIDIA's programs have all fences. The effect of
a missing one on a GPU was not tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..errors import MissingWait
from ..leniency import Leniency
from ..ptx.flow import Flow
from ..ptx.kinds import Kind
from ..ptx.syntax import Instr, Reg
from .effects import Effect, registers
from .static_fault import StaticFault

START: Final = -1
FENCE: Final = Kind.GROUP_MMA_FENCE.opcode
_Touch = tuple[Reg | None, str]
"""A register, or None for all of them, and the shape of the product whose accumulator it was; "" for other accesses."""
_State = dict[_Touch, int]
"""The last effect that touched each since the last fence. None as register: no fence was executed at all."""


def unfenced(flow: Flow, effects: Sequence[Effect]) -> dict[int, StaticFault]:
    """Return the products that lack a fence, by the id of their effects."""
    products = [effect for effect in effects if effect.instr.kind is Kind.GROUP_MMA]
    if not products:
        return {}
    theirs = {register for product in products for register in _operands(product)}
    shapes = ["", *sorted({_shape(product.instr) for product in products})]

    def follow(state: _State, at: int) -> _State:
        _follow(state, at, effects[at], theirs, shapes)
        return state

    found: dict[int, StaticFault] = {}
    entry: _State = {(None, ""): START}
    for at, state in flow.before_each(entry, follow, _join, dict):
        product = effects[at].instr
        touches = _touches(effects[at], shapes) if product.kind is Kind.GROUP_MMA else []
        late = {t: state[t] for t in touches if t in state and t[1] != _shape(product)}
        if late:
            (register, _), touched = max(late.items(), key=lambda item: item[1])
            found[id(effects[at])] = _fault(product, register, None if touched == START else effects[touched].instr)
    return found


def _fault(product: Instr, register: Reg | None, touched: Instr | None) -> StaticFault:
    """Return the fault of a product that lacks a fence. touched: the last instruction that touched the register."""
    if touched is None:
        does, missing = "is executed", f"{FENCE} before PTX line {product.line}"
    else:
        does, missing = f"uses {register}", f"{FENCE} between PTX lines {touched.line} and {product.line}"
    what = f"{product.opcode} {does} with no {FENCE} before it"
    return StaticFault(MissingWait, what, product, Leniency.PRODUCT_WITHOUT_FENCE, touched, missing)


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
