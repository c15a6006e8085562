"""Where instructions are found: handlers that act on the machine, and lowerings of pure computation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from emulator.errors import UnknownInstruction
from emulator.ptx.syntax import Instr

if TYPE_CHECKING:
    from emulator.native.run import Run as NativeRun

LANES: Final = 32


class Block:
    """The answer of a blocking handler that could not go on: the warp stays at this instruction."""


BLOCK: Final = Block()


class Run(Protocol):
    """What a handler leaves behind for one instruction of the program.

    `mask` is None when all 32 lanes are active, else bool[32]; it is never all false. Operands come in PTX
    order without the destinations: a register as an array [32] of its width's unsigned type (predicates
    bool), or as a Python int (bool) where it is the same in every lane by static proof; an immediate as a
    Python int; an Address as its sum, like a register; a TensorAddress as (map address, coordinates); a
    Vector as a tuple. The answer is one value a destination register (a tuple for several, vectors and d|p
    flattened): an array [32] of which the inactive lanes are ignored, or an int for all lanes.
    """

    def __call__(self, warp: Any, mask: np.ndarray | None, *operands: Any) -> Any: ...


@dataclass(frozen=True)
class Handler:
    """A family that acts on the machine. `make` checks one instruction and answers its `Run`."""

    make: Callable[[Instr], Run]
    blocking: bool
    dst: int
    uniform: bool


Lower = Callable[["NativeRun", Instr], None]


@dataclass(frozen=True)
class Lowering:
    """A family of pure computation. `lower` checks one instruction and appends its code to a run.

    dst and uniform: as of a Handler.
    """

    lower: Lower
    dst: int
    uniform: bool


HANDLERS: Final[dict[str, Handler]] = {}
LOWERINGS: Final[dict[str, Lowering]] = {}


def executes(
    *opcodes: str, blocking: bool = False, dst: int = 0, uniform: bool = False
) -> Callable[[Callable[[Instr], Run]], Callable[[Instr], Run]]:
    """Register the handler of `opcodes`.

    dst: how many leading operands are destinations (a vector, a d|p pair and a sink count as one).
    blocking: the handler may answer BLOCK after setting `warp.waiting`; it runs again when the warp resumes.
    uniform: equal operands in all lanes give equal results in all lanes.
    """

    def register(make: Callable[[Instr], Run]) -> Callable[[Instr], Run]:
        for opcode in opcodes:
            _refuse_second(opcode)
            HANDLERS[opcode] = Handler(make, blocking, dst, uniform)
        return make

    return register


def lowers(*opcodes: str, dst: int = 1, uniform: bool = True) -> Callable[[Lower], Lower]:
    """Register the lowering of `opcodes`, whose results depend on nothing but operands and active lanes.

    dst and uniform: as for `executes`.
    """

    def register(lower: Lower) -> Lower:
        for opcode in opcodes:
            _refuse_second(opcode)
            LOWERINGS[opcode] = Lowering(lower, dst, uniform)
        return lower

    return register


def find(instr: Instr) -> Handler | Lowering:
    """The entry of an instruction. Raises UnknownInstruction if there is none."""
    found = HANDLERS.get(instr.opcode) or LOWERINGS.get(instr.opcode)
    if found is None:
        raise UnknownInstruction(instr, f"opcode {instr.opcode!r}")
    return found


def lanes(value: Any, dtype: Any) -> np.ndarray:
    """A value that may be one int for all lanes (negative ones too) as an array [32] of the unsigned `dtype`."""
    if isinstance(value, np.ndarray):
        return value
    return np.full(LANES, value & np.iinfo(dtype).max, dtype)


def _refuse_second(opcode: str) -> None:
    if opcode in HANDLERS or opcode in LOWERINGS:
        raise ValueError(f"opcode {opcode!r} is registered twice")
