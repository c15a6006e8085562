"""Faults that analyses find in a kernel's text, and uses of registers before asynchronous work on them was waited for.

tcgen05.ld writes its registers until the wait for loads. A warpgroup MMA writes its accumulator, and reads matrix A in
registers, until its wait. At run time the work is outstanding if a path with an early use was taken.

A copy does not count as an early use, because NVIDIA's compiler puts the moves that pair registers before the wait; the
copy is tracked. Nor does an MMA that continues with an accumulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

from ..errors import Fault, Level, MissingWait, UnwrittenRead, place
from ..isa.registry import Handler
from ..leniency import Grade, Leniency
from ..ptx.flow import Flow
from ..ptx.kinds import Kind
from ..ptx.syntax import Address, Imm, Instr, Operand, Reg, TensorAddress, Vector
from .effects import Effect, registers
from .registers import Liveness

_MOVES_DATA = frozenset({Kind.LOAD, Kind.STORE, Kind.TENSOR_STORE})
START: Final = -1
FENCE: Final = Kind.GROUP_MMA_FENCE.opcode
_Touch = tuple[Reg | None, str]
"""A register, or None for all of them, and the shape of the product whose accumulator it was; "" for other accesses."""
_State = dict[_Touch, int]
"""The last effect that touched each since the last fence. None as register: no fence was executed at all."""


@dataclass(frozen=True)
class StaticFault:
    """A fault of an instruction that does not depend on its operands.

    touched: the last instruction that touched the registers in question, if one did. missing: what the program lacks.
    """

    kind: type[Fault]
    what: str
    instr: Instr
    level: Grade
    touched: Instr | None = None
    missing: str = ""

    def report(self, warp: Any) -> None:
        """Report it, once per launch."""
        launch = warp.cta.launch
        known = launch.registry.setdefault(StaticFault, set())
        if id(self) in known:
            return
        known.add(id(self))
        touched = () if self.touched is None else (("touched at", place(self.touched, warp)),)
        missing = (("missing", self.missing),) if self.missing else ()
        launch.report(self.kind(self.what, self.instr, warp, (*touched, *missing), self.level))


def unwritten(flow: Flow, effects: Sequence[Effect], liveness: Liveness) -> dict[int, StaticFault]:
    """Return the reads of registers that no path has written, by the id of their effects.

    Compilers leave such reads in correct programs, where the value does not matter. They are formal, except those that
    decide something (an address, a guard, an operand of the machine). A copy of such a register writes nothing.
    """
    if not liveness.live_in[0]:
        return {}

    def follow(written: int, at: int) -> int:
        return written | _written(effects[at], written, liveness)

    return {
        id(effects[at]): _read_fault(effects[at], missing, liveness)
        for at, written in flow.before_each(0, follow, int.__or__)
        if (missing := liveness.bits(_certain(effects[at])) & ~written)
    }


def _written(effect: Effect, before: int, liveness: Liveness) -> int:
    copies = effect.instr.kind is Kind.MOVE and effect.instr.guard is None
    reads = liveness.reads(effect)
    return 0 if copies and reads and not reads & before else liveness.writes(effect)


def _certain(effect: Effect) -> tuple[object, ...]:
    """Return the operands that are read in any case: the guard of a guarded instruction, but no accumulator of an MMA.

    The MMA may ignore its accumulator.
    """
    guard = effect.instr.guard
    if guard is None and effect.instr.kind is Kind.GROUP_MMA:
        return tuple(register for operand in effect.sources[1:] for register in registers(operand))
    return effect.reads if guard is None else (guard[0],)


def _read_fault(effect: Effect, missing: int, liveness: Liveness) -> StaticFault:
    decides = missing & liveness.bits(_deciding(effect))
    names = ", ".join(register.name for register in liveness.members(decides or missing))
    what = f"{effect.instr.opcode} reads {names}, which nothing wrote"
    return StaticFault(UnwrittenRead, what, effect.instr, Level.FAULT if decides else Leniency.REGISTER_UNWRITTEN)


def _deciding(effect: Effect) -> list[object]:
    """Return the registers that decide where an instruction goes, what it accesses or what the machine does."""
    instr = effect.instr
    if instr.guard is not None:
        return [instr.guard[0]]
    every = isinstance(effect.entry, Handler) and instr.kind not in _MOVES_DATA
    operands = effect.sources if every else [o for o in effect.sources if isinstance(o, Address | TensorAddress)]
    return [register for operand in operands for register in registers(operand)]


def unfenced(flow: Flow, effects: Sequence[Effect]) -> dict[int, StaticFault]:
    """Return the warpgroup MMAs with registers that a path accessed without a fence, by the id of their effects.

    PTX asks for a fence before the first product of a kernel, too. Most of NVIDIA's programs have all fences. The
    effect of a missing one on a GPU was not tested.
    """
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
            found[id(effects[at])] = _product_fault(
                product, register, None if touched == START else effects[touched].instr
            )
    return found


def _product_fault(product: Instr, register: Reg | None, touched: Instr | None) -> StaticFault:
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


WORK: Final = frozenset({Kind.TENSOR_LOAD, Kind.GROUP_MMA})
WAITS: Final = {Kind.TENSOR_LOAD_WAIT: Kind.TENSOR_LOAD, Kind.GROUP_MMA_WAIT: Kind.GROUP_MMA}
"""The work that each instruction waits for."""
EarlyUse = tuple[Instr, str]
"""Work that may be outstanding, and the used register of it or of a copy."""


class _Work(NamedTuple):
    """Work that may be outstanding.

    groups: the least number of groups committed since its issue. late: registers that it may still have to write, and
    copies of them. held: registers that it may still have to read.
    """

    groups: int = 0
    late: frozenset[Reg] = frozenset()
    held: frozenset[Reg] = frozenset()

    def join(self, other: _Work) -> _Work:
        """Merge the work that may be outstanding on each path."""
        return _Work(min(self.groups, other.groups), self.late | other.late, self.held | other.held)

    def touched(self, effect: Effect) -> bool:
        """Return whether an instruction accesses any of the registers."""
        writes, late = effect.writes, self.late
        return not (late.isdisjoint(effect.reads) and late.isdisjoint(writes) and self.held.isdisjoint(writes))

    def past(self, effect: Effect) -> _Work:
        """Return the work after another instruction, which may write late registers or copy them."""
        groups, late, held = self
        copied = effect.instr.kind is Kind.MOVE and not late.isdisjoint(effect.reads)
        if not effect.preserves:
            late, held = late.difference(effect.writes), held.difference(effect.writes)
        return _Work(groups, late.union(effect.writes) if copied else late, held)

    def use(self, effect: Effect, own: Sequence[Reg]) -> Reg | None:
        """Return the first register used early: a late one that is read, or one of `own` or a held one written."""
        written = () if effect.instr.kind in WORK else [r for r in effect.writes if r in self.late and r in own]
        early = (r for r in _read(effect) if r in self.late), written, (r for r in effect.writes if r in self.held)
        return next(chain.from_iterable(early), None)


_Outstanding = dict[int, _Work]
"""The work that may be outstanding, by the index of its effect."""


def early_uses(flow: Flow, effects: Sequence[Effect]) -> dict[int, list[EarlyUse]]:
    """Return the early uses of each instruction, by the id of its effect."""
    found: dict[int, list[EarlyUse]] = {}
    if WORK.isdisjoint(effect.instr.kind for effect in effects):
        return found
    for at, state in flow.before_each(_Outstanding(), lambda state, at: _after(state, at, effects), _joined):
        used = [
            (effects[w].instr, r.name) for w, work in state.items() if (r := work.use(effects[at], effects[w].writes))
        ]
        if used:
            found[id(effects[at])] = used
    return found


def _after(state: _Outstanding, at: int, effects: Sequence[Effect]) -> _Outstanding:
    """Return the state after an instruction."""
    effect, kind = effects[at], effects[at].instr.kind
    if kind in WAITS:
        return (
            state
            if effect.preserves
            else {w: work for w, work in state.items() if not _waits(effect, work, effects[w])}
        )
    if kind in WORK:
        mine = state.get(at, _Work())
        left = {w: _Work(n, late.difference(effect.writes), held) for w, (n, late, held) in state.items()}
        known = {w: work for w, work in left.items() if work.late or work.held}
        return {**known, at: _Work(0, mine.late.union(effect.writes), mine.held.union(_matrix_a(effect)))}
    if kind is Kind.GROUP_MMA_COMMIT:
        products = (w for w in state if effects[w].instr.kind is Kind.GROUP_MMA)
        return {**state, **{w: state[w]._replace(groups=state[w].groups + 1) for w in products}}
    changed = {w: work.past(effect) for w, work in state.items() if work.touched(effect)}
    return {**state, **changed} if changed else state


def _joined(one: _Outstanding, other: _Outstanding) -> _Outstanding:
    return {w: one[w].join(other[w]) if w in one and w in other else work for w, work in (one | other).items()}


def _waits(wait: Effect, work: _Work, issued: Effect) -> bool:
    """Return whether an instruction waits for this work."""
    operands, kind = wait.instr.operands, issued.instr.kind
    allowed = operands[0].value if operands and isinstance(operands[0], Imm) else 0
    return kind is WAITS[wait.instr.kind] and (kind is Kind.TENSOR_LOAD or work.groups > allowed)


def _matrix_a(effect: Effect) -> tuple[Reg, ...]:
    """Return the registers of matrix A, which a warpgroup MMA reads asynchronously."""
    if effect.instr.kind is not Kind.GROUP_MMA:
        return ()
    a: Operand = effect.instr.operands[2]
    return tuple(r for r in a.items if isinstance(r, Reg)) if isinstance(a, Vector) else ()


def _read(effect: Effect) -> tuple[Reg, ...]:
    """Return the registers whose values are used: not a copy, nor the accumulator of an MMA."""
    if effect.instr.kind is Kind.MOVE:
        return ()
    read = _matrix_a(effect) if effect.instr.kind is Kind.GROUP_MMA else effect.reads
    return tuple(r for r in read if isinstance(r, Reg))


def first_uses(
    effects: Sequence[Effect], early: Mapping[int, Sequence[EarlyUse]], kind: Kind
) -> dict[int, tuple[Instr, str, str]]:
    """Return the first early use of each outstanding operation of a kind among `effects`, by the operation's id.

    A use is the instruction, "uses" or "overwrites", and the register.
    """
    found: dict[int, tuple[Instr, str, str]] = {}
    for effect in effects:
        for work, name in early.get(id(effect), ()):
            if work.kind is kind:
                read = any(isinstance(r, Reg) and r.name == name for r in effect.reads)
                found.setdefault(id(work), (effect.instr, "uses" if read else "overwrites", name))
    return found
