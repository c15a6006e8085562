"""The words of a parsed PTX module: registers, operands, instructions and kernels, all immutable."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from ..chip import RESERVED_SHARED_BYTES

DYNAMIC_SHARED_ALIGN = 1024
ALL_BYTES = 0xFFFF_FFFF
"""Of a load, whose widest form has 32."""


@dataclass(frozen=True, slots=True)
class Reg:
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
    """A parameter, a variable, a label or a function by name."""

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
    """`d|p`: a value and the predicate that goes with it."""

    d: Operand
    p: Operand

    def __str__(self) -> str:
        return f"{self.d}|{self.p}"


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: a destination that nobody reads."""

    def __str__(self) -> str:
        return "_"


@dataclass(frozen=True, slots=True)
class Not:
    """`!p`: the negation of a predicate source."""

    reg: Reg

    def __str__(self) -> str:
        return f"!{self.reg}"


Operand = Reg | Special | Imm | Symbol | Address | TensorAddress | Vector | Dual | Sink | Not


@dataclass(frozen=True, slots=True)
class Instr:
    """One instruction: its family, the dotted parts after it, its operands in PTX order and its guard.

    `guard` is (predicate, wanted value); `line` is the line of the PTX text, from 1; `text` is as written. `used`: the
    bytes of a load that the program uses, as bits from the first byte on (the pragma used_bytes_mask). `twin`: how many
    with the same text stand before it on its line.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: tuple[Reg, bool] | None
    line: int
    text: str
    used: int = ALL_BYTES
    twin: int = 0

    @property
    def place(self) -> tuple[int, str, int]:
        """What tells it from the others of its kernel: it keeps that when its symbols are resolved."""
        return self.line, self.text, self.twin


@dataclass(frozen=True, slots=True)
class Param:
    """One kernel parameter: `offset` and `size` in bytes within the parameter space."""

    name: str
    offset: int
    size: int
    align: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in shared or local memory: `offset` in bytes within its CTA's or thread's window."""

    name: str
    size: int
    align: int
    offset: int


@dataclass(frozen=True, slots=True)
class GlobalVariable:
    """A module-scope variable in global or constant memory with its initial bytes.

    references: (offset, name) of the 8-byte addresses of variables and functions among them.
    """

    name: str
    size: int
    align: int
    initial: bytes
    references: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Location:
    """From instruction `instr` on, the source is `file` line `line` (the compiler's .loc directives).

    In column 0 it is no place in the program: the whole function that was compiled.
    """

    instr: int
    file: str
    line: int
    column: int


_CELL = 4
_TYPE = re.compile(r"(?:[busf]|bf)(\d+)(x2)?")
_ACCESSES = frozenset({"ld", "st", "atom", "red"})


def _global_access_bytes(instr: Instr) -> int:
    """The bytes of a lane's access of global memory up to a cell's, 0 if it is none; 1 of a copy by a mask of bytes."""
    if "cp_mask" in instr.modifiers:
        return 1
    if instr.opcode not in _ACCESSES or any(
        m.startswith(("shared", "local", "param", "const")) for m in instr.modifiers
    ):
        return 0
    kind = next((found for m in instr.modifiers if (found := _TYPE.fullmatch(m))), None)
    bits = 8 * _CELL if kind is None else int(kind[1]) * (2 if kind[2] else 1)
    vector = next((int(m[1:]) for m in instr.modifiers if m in ("v2", "v4", "v8")), 1)
    return min(bits // 8 * vector, _CELL)


@dataclass(frozen=True)
class Kernel:
    """One `.entry`: all that is needed to lower and launch it. Sizes in bytes, labels as instruction indices."""

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

    @cached_property
    def places(self) -> dict[tuple[int, str, int], int]:
        """The index of each instruction by its place."""
        return {instr.place: i for i, instr in enumerate(self.instrs)}

    @cached_property
    def sources(self) -> dict[int, object]:
        """Where instructions come from in the program, by their index: of those that somebody asked about."""
        return {}

    @cached_property
    def param_bytes(self) -> int:
        """Size of the parameter space."""
        return max((p.offset + p.size for p in self.params), default=0)

    @cached_property
    def static_shared_bytes(self) -> int:
        """Bytes of shared memory below the dynamic part, the reserved first 1,024 included."""
        return max((v.offset + v.size for v in self.shared if v.size), default=RESERVED_SHARED_BYTES)

    @cached_property
    def dynamic_shared_offset(self) -> int:
        """Where dynamic shared memory starts in the CTA's window."""
        return -(-self.static_shared_bytes // DYNAMIC_SHARED_ALIGN) * DYNAMIC_SHARED_ALIGN

    @cached_property
    def global_cell(self) -> int:
        """The bytes of the smallest access of global memory by threads or by a mask of bytes, 4 at most."""
        return min((size for i in self.instrs if (size := _global_access_bytes(i))), default=_CELL)

    @cached_property
    def local_bytes(self) -> int:
        """Bytes of local memory a thread."""
        return max((v.offset + v.size for v in self.local), default=0)


@dataclass(frozen=True)
class Module:
    """A PTX module: its kernels by name, its module-scope variables, and what stands for its functions' addresses.

    refused: the kernels that are not understood, by name.
    """

    kernels: dict[str, Kernel]
    variables: tuple[GlobalVariable, ...]
    target: str
    functions: dict[str, int] = field(default_factory=dict)
    refused: dict[str, Exception] = field(default_factory=dict)
