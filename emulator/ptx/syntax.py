"""The syntax tree of a parsed PTX module: registers, operands, instructions and kernels, all immutable."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from ..chip import RESERVED_SHARED_BYTES
from .kinds import KINDS, Kind

DYNAMIC_SHARED_ALIGN = 1024
ALL_BYTES = 0xFFFF_FFFF
"""The `Instr.used` mask of a load of which all bytes are used; the widest load has 32 bytes."""


class Reg(NamedTuple):  # hashed often: that takes 0.03 us, of a dataclass 0.5 us
    """A virtual register. `name` is unique in its kernel; `type` is pred, b8, b16, b32, b64 or b128."""

    name: str
    type: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Special:
    """A special register by its PTX spelling, as in `%tid.x`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Imm:
    """A literal. Floating-point literals hold their bit pattern; `type` is int, f32 or f64."""

    value: int
    type: str = "int"

    def __str__(self) -> str:
        match self.type:
            case "f32":
                return f"0f{self.value:08X}"
            case "f64":
                return f"0d{self.value:016X}"
            case _:
                return str(self.value)


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of a parameter, variable, label or function."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`, offset in bytes."""

    base: Reg | Symbol | Imm
    offset: int = 0

    def __str__(self) -> str:
        return f"[{self.base}+{self.offset}]" if self.offset else f"[{self.base}]"


@dataclass(frozen=True, slots=True)
class TensorAddress:
    """`[map, {c0, c1, ...}]`: a tensor map's address with its coordinates, the innermost dimension first."""

    map: Address
    coordinates: Vector

    def __str__(self) -> str:
        return f"{str(self.map)[:-1]}, {self.coordinates}]"


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, ...}`."""

    items: tuple[Operand, ...]

    def __str__(self) -> str:
        return f"{{{', '.join(map(str, self.items))}}}"


@dataclass(frozen=True, slots=True)
class Dual:
    """`d|p`: a value and its predicate."""

    d: Operand
    p: Operand

    def __str__(self) -> str:
        return f"{self.d}|{self.p}"


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: a destination that is discarded."""

    def __str__(self) -> str:
        return "_"


@dataclass(frozen=True, slots=True)
class Not:
    """`!p`: the negation of a predicate source."""

    reg: Reg

    def __str__(self) -> str:
        return f"!{self.reg}"


Operand = Reg | Special | Imm | Symbol | Address | TensorAddress | Vector | Dual | Sink | Not


def atoms(operands: Iterable[Operand]) -> Iterator[Reg | Special | Imm | Symbol | Sink]:
    """Yield the registers, literals and names in operands, also those inside vectors, addresses and negations."""
    for operand in operands:
        match operand:
            case Reg() | Imm():  # the common case
                yield operand
            case Not(reg):
                yield reg
            case Address(base):
                yield base
            case TensorAddress(Address(base), Vector(coordinates)):
                yield from atoms((base, *coordinates))
            case Vector(items):
                yield from atoms(items)
            case Dual(d, p):
                yield from atoms((d, p))
            case _:
                yield operand


@dataclass(frozen=True, slots=True)
class Instr:
    """One instruction: its family, modifiers, operands in PTX order and guard.

    guard: (predicate, wanted value). line: the line of the PTX text, from 1. text: as written.
    used: the bytes of a load that the program uses, one bit a byte, lowest first (pragma used_bytes_mask).
    twin: the number of earlier instructions with the same text on the same line.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: tuple[Reg, bool] | None
    line: int
    text: str
    used: int = ALL_BYTES
    twin: int = 0
    kind: Kind = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", KINDS.get(self.opcode, Kind.OTHER))

    @property
    def is_collective(self) -> bool:
        """True for a .sync instruction of a warp, except barriers."""
        return ("sync" in self.modifiers or self.opcode.endswith(".sync")) and not self.kind.is_barrier

    @property
    def place(self) -> tuple[int, str, int]:
        """A key that is unique in the kernel and does not change when symbols are resolved."""
        return self.line, self.text, self.twin


@dataclass(frozen=True, slots=True)
class Param:
    """One kernel parameter: `offset` and `size` in bytes within the parameter space, and its PTX type, as in `u32`."""

    name: str
    offset: int
    size: int
    align: int
    type: str = ""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in shared or local memory: `offset` in bytes within its CTA's or thread's window.

    view: of an array in dynamic shared memory, the type, the swizzle of byte addresses (`-` for none) and the layout of
    the tensor that the source makes of it, if known. member: whether it is a member of a struct.
    """

    name: str
    size: int
    align: int
    offset: int
    view: str = ""
    member: bool = False


@dataclass(frozen=True, slots=True)
class GlobalVariable:
    """A module-scope variable in global or constant memory with its initial bytes.

    references: (offset, name) of the 8-byte addresses of variables and functions among them. constant: it is in
    constant memory, so no launch changes it.
    """

    name: str
    size: int
    align: int
    initial: bytes
    references: tuple[tuple[int, str], ...] = ()
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Location:
    """The source position (`.loc`) from instruction `instr` on: `file`, line `line`.

    Column 0 marks a position that stands for the whole compiled function. inlined_at: file, line and column of the call
    if the function was inlined; that of a call inside an inlined function is an earlier location.
    """

    instr: int
    file: str
    line: int
    column: int
    inlined_at: tuple[str, int, int] | None = None


_CELL = 4
_TYPE = re.compile(r"(?:[busf]|bf)(\d+)(x2)?")
_ACCESSES = frozenset({Kind.LOAD, Kind.STORE, Kind.ATOMIC, Kind.REDUCTION})


def _global_access_bytes(instr: Instr) -> int:
    """Return the bytes of a lane's global-memory access, at most a cell's; 0 if the instruction has none.

    A copy with a byte mask counts as 1.
    """
    if "cp_mask" in instr.modifiers:
        return 1
    if instr.kind not in _ACCESSES or any(m.startswith(("shared", "local", "param", "const")) for m in instr.modifiers):
        return 0
    kind = next((found for m in instr.modifiers if (found := _TYPE.fullmatch(m))), None)
    bits = 8 * _CELL if kind is None else int(kind[1]) * (2 if kind[2] else 1)
    vector = next((int(m[1:]) for m in instr.modifiers if m in ("v2", "v4", "v8")), 1)
    return min(bits // 8 * vector, _CELL)


@dataclass(frozen=True)
class Kernel:
    """One `.entry`, complete for lowering and launch. Sizes are in bytes, labels are instruction indices."""

    name: str
    params: tuple[Param, ...]
    shared: tuple[Variable, ...]
    local: tuple[Variable, ...]
    registers: tuple[Reg, ...]
    instrs: tuple[Instr, ...]
    labels: dict[str, int]
    reqntid: tuple[int, int, int] | None = None
    maxntid: tuple[int, int, int] | None = None
    reqnctapercluster: tuple[int, int, int] | None = None
    maxnreg: int | None = None
    minnctapersm: int | None = None
    locations: tuple[Location, ...] = ()
    source: tuple[str, ...] = field(default=(), repr=False)
    arrays: tuple[Variable, ...] = ()
    """Named arrays in dynamic shared memory."""

    @cached_property
    def places(self) -> dict[tuple[int, str, int], int]:
        """The index of each instruction by its place."""
        return {instr.place: i for i, instr in enumerate(self.instrs)}

    @cached_property
    def sources(self) -> dict[int, object]:
        """A cache of resolved source positions, by index of a location."""
        return {}

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The source files of instructions, sorted."""
        return tuple(sorted({each.file for each in self.locations if each.line and each.column}))

    @cached_property
    def param_bytes(self) -> int:
        """The size of the parameter space in bytes."""
        return max((p.offset + p.size for p in self.params), default=0)

    @cached_property
    def static_shared_bytes(self) -> int:
        """The bytes of shared memory below the dynamic part, including the 1,024 reserved ones."""
        return max((v.offset + v.size for v in self.shared if v.size), default=RESERVED_SHARED_BYTES)

    @cached_property
    def dynamic_shared_offset(self) -> int:
        """The offset of dynamic shared memory in the CTA's window."""
        return -(-self.static_shared_bytes // DYNAMIC_SHARED_ALIGN) * DYNAMIC_SHARED_ALIGN

    @cached_property
    def triggers_dependents(self) -> bool:
        """True if the next launch may start before this one ends, if its attributes say so."""
        return any(instr.opcode == "griddepcontrol.launch_dependents" for instr in self.instrs)

    @cached_property
    def global_cell(self) -> int:
        """The size of the smallest global-memory access by threads or by byte-masked copies, at most 4 bytes."""
        return min((size for i in self.instrs if (size := _global_access_bytes(i))), default=_CELL)

    @cached_property
    def local_bytes(self) -> int:
        """The bytes of local memory per thread."""
        return max((v.offset + v.size for v in self.local), default=0)


@dataclass(frozen=True)
class Module:
    """A PTX module: its kernels by name, module-scope variables, and synthetic function addresses.

    rejected: the errors of the kernels that could not be parsed, by name.
    """

    kernels: dict[str, Kernel]
    variables: tuple[GlobalVariable, ...]
    target: str
    functions: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, Exception] = field(default_factory=dict)
