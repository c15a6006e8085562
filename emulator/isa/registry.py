"""Where instructions are found: handlers that act on the machine, lowerings of pure computation, and what the rest of
the emulator must know of each. What a family does not say is taken to be the case that needs the most care.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import CO_VARARGS
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from ..errors import UnknownInstruction
from ..ptx.syntax import Instr, Operand, Special

if TYPE_CHECKING:
    from ..native.builder import Builder


class Block:
    """The answer of a blocking handler that could not go on: the warp stays at this instruction."""


BLOCK: Final = Block()


class Action(Protocol):
    """What a handler leaves behind for one instruction of the program.

    `mask` is None when all 32 lanes are active, else bool[32]; it is never all false. Operands come in PTX
    order without the destinations: a register as an array [32] of its width's unsigned type (predicates
    bool), or as a Python int (bool) where it is the same in every lane by static proof; an immediate as a
    Python int; an Address as its sum, like a register; a TensorAddress as (map address, coordinates); a
    Vector as a tuple. The answer is one value a destination register (a tuple for several, vectors and d|p
    flattened): an array [32] of which the inactive lanes are ignored, or an int for all lanes.
    """

    def __call__(self, warp: Any, mask: np.ndarray | None, *operands: Any) -> Any: ...


Uniform = Callable[[Instr], Sequence[Operand] | None]
"""The operands that decide whether a result is the same in all lanes that execute an instruction together: it is if
they are. No operands: it always is. None: it may differ whatever the operands are."""
Reads = Callable[[Instr], tuple[Special, ...]]
Meets = Callable[[Instr], bool]
Later = Callable[[Any], None]


def never(ins: Instr) -> None:
    """A result that may differ between lanes with equal operands."""


def if_sources_are(ins: Instr) -> Sequence[Operand]:
    """A result that equal operands make equal."""
    return ins.operands[1:]


def always(ins: Instr) -> Sequence[Operand]:
    """A result that is one for the warp."""
    return ()


def operands_only(ins: Instr) -> tuple[Special, ...]:
    """An instruction that reads nothing but its operands."""
    return ()


def anyone(ins: Instr) -> bool:
    """An instruction by which clusters may meet, or be seen by who launched them, before the launch ends."""
    return True


def nobody(ins: Instr) -> bool:
    """An instruction of which other clusters see nothing before the launch ends, short of a race."""
    return False


@dataclass(frozen=True)
class Facts:
    """What must be known of a family before any of it runs.

    dst: how many leading operands are destinations, 0 or 1 (a vector, a d|p pair and a sink count as one).
    uniform: of the result; of d and of p, where they are a pair that differs in this.
    reads: registers of the emulator's own that it reads besides its operands.
    meets: whether clusters may meet by it. If by no instruction of a kernel, they may run in several processes.
    """

    dst: int
    uniform: Uniform | tuple[Uniform, Uniform]
    reads: Reads
    meets: Meets


@dataclass(frozen=True)
class Handler(Facts):
    """A family that acts on the machine. `make` checks one instruction and answers its `Action`.

    later: what the actions of instructions in a row leave to do for the warp, at once, before it does anything else.
    """

    make: Callable[[Instr], Action]
    blocking: bool
    later: Later | None = None


Lower = Callable[["Builder", Instr], None]


@dataclass(frozen=True)
class Lowering(Facts):
    """A family of pure computation. `lower` checks one instruction and appends its code to a segment's."""

    lower: Lower


HANDLERS: Final[dict[str, Handler]] = {}
LOWERINGS: Final[dict[str, Lowering]] = {}


def executes(
    *opcodes: str,
    blocking: bool = False,
    dst: int = 0,
    uniform: Uniform | tuple[Uniform, Uniform] = never,
    reads: Reads = operands_only,
    meets: Meets = anyone,
    later: Later | None = None,
) -> Callable[[Callable[[Instr], Action]], Callable[[Instr], Action]]:
    """Register the handler of `opcodes`.

    blocking: the handler may answer BLOCK after setting `warp.waiting`; it runs again when the warp resumes.
    dst, uniform, reads and meets: as of `Facts`; later: as of `Handler`.
    """

    def register(make: Callable[[Instr], Action]) -> Callable[[Instr], Action]:
        for opcode in opcodes:
            _refuse_second(opcode)
            HANDLERS[opcode] = Handler(dst, uniform, reads, meets, make, blocking, later)
        return make

    return register


def lowers(
    *opcodes: str,
    dst: int = 1,
    uniform: Uniform | tuple[Uniform, Uniform] = never,
    reads: Reads = operands_only,
) -> Callable[[Lower], Lower]:
    """Register the lowering of `opcodes`, whose results depend on nothing but what they read and the active lanes.

    Clusters cannot meet by registers. dst, uniform and reads: as of `Facts`.
    """

    def register(lower: Lower) -> Lower:
        for opcode in opcodes:
            _refuse_second(opcode)
            LOWERINGS[opcode] = Lowering(dst, uniform, reads, nobody, lower)
        return lower

    return register


def find(instr: Instr) -> Handler | Lowering:
    """The entry of an instruction. Raises UnknownInstruction if there is none."""
    found = HANDLERS.get(instr.opcode) or LOWERINGS.get(instr.opcode)
    if found is None:
        raise UnknownInstruction(instr, f"opcode {instr.opcode!r}")
    return found


def takes(action: Action, count: int) -> bool:
    """Whether a handler's action can be called with so many arguments."""
    code: CodeType = action.__code__  # type: ignore[attr-defined]
    defaults = action.__defaults__ or ()  # type: ignore[attr-defined]
    at_most = count if code.co_flags & CO_VARARGS else code.co_argcount
    return code.co_argcount - len(defaults) <= count <= at_most


def _refuse_second(opcode: str) -> None:
    if opcode in HANDLERS or opcode in LOWERINGS:
        raise ValueError(f"opcode {opcode!r} is registered twice")
