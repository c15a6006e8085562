"""What each instruction reads and writes, with symbols resolved: what the later analyses work on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from emulator.errors import UnknownInstruction
from emulator.isa import registry
from emulator.isa.carry import with_carry
from emulator.isa.moves import FIXED_PARAMETER, PARAMS
from emulator.isa.registry import Handler, Lowering
from emulator.ptx.flow import ENDS
from emulator.ptx.syntax import (
    Address,
    Dual,
    Imm,
    Instr,
    Kernel,
    Not,
    Operand,
    Reg,
    Special,
    Symbol,
    TensorAddress,
    Vector,
)

SHARED_SYMBOL = "@shared+"
MEMORY = Special("@memory")
"""Where the accesses that are machine code find what they may touch: `machine.direct`."""
_NEAR = frozenset({"global", "shared", "shared::cta"})
CHANGING = frozenset({"%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"})
Source = Reg | Special


@dataclass(frozen=True, slots=True)
class Effect:
    """One instruction with its entry in the registry (None for branches and ends) and its registers.

    `preserves`: it writes only where its guard holds, so what was there before matters.
    """

    instr: Instr
    entry: Handler | Lowering | None
    writes: tuple[Reg, ...]
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
    def inlined(self) -> bool:
        """Whether it becomes machine code, rather than a call of a handler."""
        return isinstance(self.entry, Lowering)


def effects(kernel: Kernel, variables: Mapping[str, int]) -> tuple[Effect, ...]:
    """The effect of each instruction. variables: host addresses of the module's variables.

    Raises UnknownInstruction for an opcode or a symbol that nothing defines.
    """
    symbols = _symbols(kernel, variables)
    return tuple(_effect(with_carry(_resolved(instr, symbols))) for instr in kernel.instrs)


def _symbols(kernel: Kernel, variables: Mapping[str, int]) -> dict[str, Imm | Special]:
    found: dict[str, Imm | Special] = {p.name: Imm(p.offset) for p in kernel.params}
    found |= {v.name: Imm(v.offset) for v in kernel.local}
    found |= {v.name: Special(f"{SHARED_SYMBOL}{v.offset}") for v in kernel.shared}
    return found | {name: Imm(address) for name, address in variables.items()}


def _resolved(instr: Instr, symbols: Mapping[str, Imm | Special]) -> Instr:
    if instr.opcode in ENDS:
        return instr

    def resolve(operand: Operand) -> Operand:
        match operand:
            case Symbol(name):
                if name not in symbols:
                    raise UnknownInstruction(instr, f"nothing called {name!r}")
                return symbols[name]
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
    resolved = replace(instr, operands=tuple(resolve(operand) for operand in instr.operands))
    if instr.opcode == "ld" and "param" in instr.modifiers and _at_constant(resolved.operands[1]):
        return replace(resolved, opcode=FIXED_PARAMETER)
    return resolved


def _at_constant(address: Operand) -> bool:
    return isinstance(address, Address) and isinstance(address.base, Imm)


def _effect(instr: Instr) -> Effect:
    entry = None if instr.opcode in ENDS else registry.find(instr)
    count = entry.dst if entry is not None else 0
    writes = tuple(r for operand in instr.operands[:count] for r in registers(operand) if isinstance(r, Reg))
    reads = [r for operand in instr.operands[count:] for r in registers(operand)]
    if instr.opcode in ("cvta", FIXED_PARAMETER) and any(part.startswith("param") for part in instr.modifiers):
        reads.append(PARAMS)
    if instr.opcode in ("ld", "st") and not _NEAR.isdisjoint(instr.modifiers):
        reads.append(MEMORY)
    if instr.guard is not None:
        reads.append(instr.guard[0])
    return Effect(instr, entry, writes, tuple(reads), instr.guard is not None)


def registers(operand: Operand) -> Iterator[Source]:
    """The registers and special registers that an operand names."""
    match operand:
        case Reg() | Special():
            yield operand
        case Not(reg):
            yield reg
        case Address(base):
            yield from registers(base)
        case TensorAddress(map_address, coordinates):
            yield from registers(map_address)
            yield from registers(coordinates)
        case Vector(items):
            for item in items:
                yield from registers(item)
        case Dual(d, p):
            yield from registers(d)
            yield from registers(p)
