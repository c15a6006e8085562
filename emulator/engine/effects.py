"""Effects: the registers that each instruction reads and writes, with symbols resolved, for all later analyses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..errors import Decoding, UnknownInstruction
from ..isa import registry
from ..isa.moves import parameter_bytes
from ..isa.registry import Handler, Lowering, Publishes, Uniform, explicit, if_sources_uniform
from ..isa.special_registers import SHARED_SYMBOL
from ..ptx.kinds import Kind
from ..ptx.syntax import (
    Address,
    Dual,
    Imm,
    Instr,
    Kernel,
    Operand,
    Reg,
    Sink,
    Special,
    Symbol,
    TensorAddress,
    Vector,
    atoms,
)

RELEASING: Final = frozenset({Kind.STORE, Kind.ATOMIC, Kind.REDUCTION})
_PUBLISHING: Final = frozenset({"release", "acq_rel", "relaxed", "volatile"})
Source = Reg | Special
Result = tuple[Reg, tuple[Source, ...] | None]
Find = Callable[[Instr], Handler | Lowering]
"""The lookup of an instruction's entry: `registry.find`, or a substitute that replaces the machine."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One instruction with its entry in the registry (None for branches and ends) and its registers.

    results: each of `writes` with the registers that decide whether it is uniform (`registry.Uniform`).
    preserves: it writes only where its guard holds, so the earlier value matters.
    """

    instr: Instr
    entry: Handler | Lowering | None
    writes: tuple[Reg, ...]
    results: Sequence[Result]
    reads: tuple[Source, ...]
    preserves: bool

    @property
    def destinations(self) -> tuple[Operand, ...]:
        count = self.entry.dst if self.entry is not None else 0
        return self.instr.operands[:count]

    @property
    def sources(self) -> tuple[Operand, ...]:
        count = self.entry.dst if self.entry is not None else 0
        return self.instr.operands[count:]

    @property
    def blocking(self) -> bool:
        return isinstance(self.entry, Handler) and self.entry.blocking

    @property
    def pure(self) -> bool:
        """True if the results depend only on what is read and on the active lanes."""
        return self.entry is not None and self.entry.pure

    @property
    def membermask(self) -> Operand | None:
        """The mask of the lanes that exchange values, if they do."""
        return self.instr.operands[-1] if self.entry is not None and self.entry.membermask else None

    @property
    def crosses_lanes(self) -> bool:
        """True if a lane's result may depend on what other lanes read."""
        return self.entry is not None and self.entry.crosses_lanes

    @property
    def publishes(self) -> Publishes:
        """The way in which it publishes earlier accesses of its warp."""
        if self.instr.kind in RELEASING and not _PUBLISHING.isdisjoint(self.instr.modifiers):
            return Publishes.ARRIVAL
        return self.entry.publishes if self.entry is not None else Publishes.NOTHING

    @property
    def joins_lanes(self) -> bool:
        """True if it orders the accesses of the lanes that execute it."""
        return self.entry is not None and self.entry.joins_lanes

    @property
    def inlined(self) -> bool:
        """True if it becomes machine code instead of a call of a handler."""
        return isinstance(self.entry, Lowering)


def effects(kernel: Kernel, variables: Mapping[str, int], find: Find = registry.find) -> tuple[Effect, ...]:
    """Return the effect of each instruction. variables: host addresses of the module's variables.

    Raises UnknownInstruction for an unknown opcode or an undefined symbol.
    """
    symbols = _symbols(kernel, variables)
    found = []
    for instr in kernel.instrs:
        with Decoding(instr):
            effect = _effect(explicit(_resolved(instr, symbols)), find)
            if effect.instr.kind is Kind.PARAMETER:
                _check_parameter(effect.instr, kernel)
        found.append(effect)
    return _with_constant_masks(found, find)


def _with_constant_masks(found: Sequence[Effect], find: Find) -> tuple[Effect, ...]:
    """Replace each member mask that only one `mov` of a constant writes by the constant, as NVIDIA's compiler does."""
    if not any(isinstance(effect.membermask, Reg) for effect in found):
        return tuple(found)
    written = Counter(register for effect in found for register in effect.writes)
    constants = {}
    for effect in found:
        match effect.instr:
            case Instr(kind=Kind.MOVE, guard=None, operands=(Reg() as to, Imm() as value)) if written[to] == 1:
                constants[to] = value

    def replaced(effect: Effect) -> Effect:
        mask = effect.membermask
        if not isinstance(mask, Reg) or mask not in constants:
            return effect
        return _effect(replace(effect.instr, operands=(*effect.instr.operands[:-1], constants[mask])), find)

    return tuple(map(replaced, found))


def _check_parameter(instr: Instr, kernel: Kernel) -> None:
    """Raise UnknownInstruction for a load outside the parameters, which nothing checks at run time."""
    address = instr.operands[1]
    assert isinstance(address, Address) and isinstance(address.base, Imm)
    if not 0 <= address.base.value <= kernel.param_bytes - parameter_bytes(instr):
        raise UnknownInstruction(
            instr, f"ld.param at {address.base.value}; the parameters have {kernel.param_bytes} bytes"
        )


def _symbols(kernel: Kernel, variables: Mapping[str, int]) -> dict[str, Imm | Special]:
    found: dict[str, Imm | Special] = {p.name: Imm(p.offset) for p in kernel.params}
    found |= {v.name: Imm(v.offset) for v in kernel.local}
    found |= {v.name: Special(f"{SHARED_SYMBOL}{v.offset}") for v in kernel.shared}
    return found | {name: Imm(address) for name, address in variables.items()}


def _resolved(instr: Instr, symbols: Mapping[str, Imm | Special]) -> Instr:
    if instr.kind.ends_block:
        return instr

    def resolve(operand: Operand) -> Operand:
        match operand:
            case Symbol(name):
                if name not in symbols:
                    raise UnknownInstruction(instr, f"nothing called {name!r}")
                return symbols[name]
            case Address(Reg(type=kind) as base) if kind not in ("b32", "b64"):
                raise UnknownInstruction(instr, f"an address in {base.name}, a register of .{kind}")
            case Address(base, offset):
                place = resolve(base)
                if isinstance(place, Imm):
                    return Address(Imm(place.value + offset), 0)
                return Address(place, offset)  # type: ignore[arg-type]
            case TensorAddress(map_address, coordinates):
                return TensorAddress(resolve(map_address), coordinates)  # type: ignore[arg-type]
        return operand

    if not any(isinstance(operand, Symbol | Address | TensorAddress) for operand in instr.operands):
        return instr
    return replace(instr, operands=tuple(resolve(operand) for operand in instr.operands))


def _effect(instr: Instr, find: Find) -> Effect:
    guard = () if instr.guard is None else (instr.guard[0],)
    if instr.kind.ends_block:
        return Effect(instr, None, (), (), guard, bool(guard))
    entry = find(instr)
    for to in instr.operands[: entry.dst]:
        for part in to.items if isinstance(to, Vector) else (to.d, to.p) if isinstance(to, Dual) else (to,):
            if not isinstance(part, Reg | Sink):
                raise UnknownInstruction(instr, "a destination that is no register")
    sources = _sources(instr.operands[entry.dst :])
    results = [r for to in instr.operands[: entry.dst] for r in _results(instr, to, entry.uniform, sources)]
    reads = sources + entry.implicit_reads(instr) + guard
    return Effect(instr, entry, tuple([register for register, _ in results]), results, reads, bool(guard))


def _results(
    instr: Instr, to: Operand, uniform: Uniform | tuple[Uniform, Uniform], sources: tuple[Source, ...]
) -> list[Result]:
    """Return the registers of a destination, each with the registers that decide whether it is uniform."""
    if isinstance(uniform, tuple):
        parts = (to.d, to.p) if isinstance(to, Dual) else (to,)
        return [r for part, of in zip(parts, uniform, strict=False) for r in _results(instr, part, of, sources)]
    deciding = uniform(instr)
    deciders = None if deciding is None else sources if uniform is if_sources_uniform else _sources(deciding)
    return [(register, deciders) for register in _sources((to,)) if isinstance(register, Reg)]


def _sources(operands: Iterable[Operand]) -> tuple[Source, ...]:
    return tuple([found for found in atoms(operands) if isinstance(found, Reg | Special)])


def registers(operand: Operand) -> tuple[Source, ...]:
    """Return the registers and special registers that an operand names."""
    return _sources((operand,))
