"""The registry of instructions, and the parsing of modifiers, without skipping any.

Handlers act on the machine, lowerings are pure computation. The registry also holds the static facts about each family
that the rest of the emulator needs. A fact that a family does not declare has its conservative value, which costs speed
but never correctness.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from inspect import CO_VARARGS
from types import CodeType
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from ..errors import UnknownInstruction
from ..machine.order.access import CLUSTER, CTA
from ..native.builder import Builder
from ..ptx.syntax import Instr, Operand, Special

SEMANTICS: Final = frozenset({"relaxed", "acquire", "release", "acq_rel", "sc", "weak", "volatile"})
SCOPE: Final = frozenset({"cta", "cluster", "gpu", "sys"})
REACH: Final[Mapping[str | None, int]] = {"cta": CTA, "cluster": CLUSTER}
"""The scopes that do not reach the whole GPU."""
SHARED: Final = frozenset({"shared", "shared::cta", "shared::cluster"})
ALIGNED: Final = frozenset({"aligned"})
CACHE_HINT: Final = frozenset({"L2::cache_hint"})
CTA_GROUP: Final = frozenset({"cta_group::1", "cta_group::2"})


Kind = TypeVar("Kind")


class Modifiers:
    """The modifiers of one instruction. Each is taken once; `done` rejects what is left."""

    def __init__(self, instr: Instr) -> None:
        self._instr = instr
        self._left = list(instr.modifiers)

    def flag(self, name: str) -> bool:
        """Take `.name`; return True if it is present."""
        if name in self._left:
            self._left.remove(name)
            return True
        return False

    def choice(self, *names: str, default: str | None = None) -> str:
        """Take and return the one of `names` that is present, else return `default`.

        Raises UnknownInstruction without a default.
        """
        found = self._take(names) or default
        if found is None:
            raise self.unsupported(f"none of the modifiers {', '.join('.' + name for name in names)}")
        return found

    def last(self) -> str:
        """Take and return the last modifier, which is the type in most families."""
        if not self._left:
            raise self.unsupported("no type")
        return self._left.pop()

    def kind(self, kinds: Mapping[str, Kind]) -> Kind:
        """Take the type, the last modifier, and return its entry in `kinds`.

        Raises UnknownInstruction if there is none.
        """
        name = self.last()
        if name not in kinds:
            raise self.unsupported(f"type .{name}; allowed is {', '.join(kinds)}")
        return kinds[name]

    def pick(self, *groups: Collection[str]) -> tuple[str | None, ...]:
        """Return the first modifier of each group that is present, or None.

        Raises UnknownInstruction if a modifier is left.
        """
        picked = tuple(self._take(group) for group in groups)
        self.done()
        return picked

    def done(self) -> None:
        """Raise UnknownInstruction if a modifier was not taken."""
        if self._left:
            raise self.unsupported(f"modifier '.{self._left[0]}'")

    def unsupported(self, what: str) -> UnknownInstruction:
        """Return the error for a form of the instruction that is not supported."""
        return UnknownInstruction(self._instr, what)

    def _take(self, names: Collection[str]) -> str | None:
        for part in self._left:
            if part in names:
                self._left.remove(part)
                return part
        return None


class Block:
    """The result of a blocking handler that cannot complete: the warp stays at this instruction."""


BLOCK: Final = Block()


class Action(Protocol):
    """The function that executes one instruction of the program.

    mask: None when all 32 lanes are active, else bool[32] with at least one true lane.
    Operands come in PTX order without the destinations. A register is an array [32] of its width's unsigned type
    (predicates bool), or a Python int (bool) if it is provably the same in every lane. An immediate is a Python int. An
    Address is its sum, like a register. A TensorAddress is (map address, coordinates). A Vector is a tuple.
    The result is one value per destination register; several (vectors and d|p flattened) form a tuple. A value is an
    array
    [32], of which inactive lanes are ignored, or an int for all lanes.
    """

    def __call__(self, warp: Any, mask: np.ndarray | None, *operands: Any) -> Any: ...


Uniform = Callable[[Instr], Sequence[Operand] | None]
"""Returns the operands that decide uniformity: if they are uniform in the executing lanes, so is the result.

Without operands the result is always uniform; None means that it may differ whatever the operands are.
"""
ImplicitReads = Callable[[Instr], tuple[Special, ...]]
Communicates = Callable[[Instr], bool]
Merges = Callable[[Instr], Sequence[str]]
Flush = Callable[[Any], None]


def never_uniform(ins: Instr) -> None:
    """Return None: the result may differ between lanes with equal operands."""


def if_sources_uniform(ins: Instr) -> Sequence[Operand]:
    """Return all sources: equal operands give an equal result."""
    return ins.operands[1:]


def always_uniform(ins: Instr) -> Sequence[Operand]:
    """Return no operands: the result is always uniform."""
    return ()


def never_communicates(ins: Instr) -> bool:
    """Return False: without a race, nothing outside the cluster observes the instruction before the launch ends."""
    return False


class Timing(Enum):
    """Pipe and latency class of an instruction in the timing model."""

    FREE = auto()
    """ptxas leaves nothing of it."""
    ALU = auto()
    ADD = auto()
    """The FMA pipe for floating-point types, else the ALU."""
    MULTIPLY = auto()
    CONVERT = auto()
    SPECIAL = auto()
    """The MUFU pipe."""
    SHUFFLE = auto()
    MEMORY = auto()
    """The LSU pipe."""
    TENSOR_MEMORY = auto()


class Publishes(Enum):
    """The way in which an instruction publishes earlier accesses of its warp."""

    NOTHING = auto()
    ARRIVAL = auto()
    """It arrives at an mbarrier."""
    WORK = auto()
    """It starts asynchronous work, which reads memory or reports to an mbarrier."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Static facts about a family.

    dst: the number of leading destination operands, 0 or 1 (a vector, a d|p pair and a sink count as one).
    uniform: of the result; a pair if it differs for d and p.
    implicit_reads: implicit registers of the emulator that the instruction reads besides its operands.
    communicates: whether clusters, or the launching host, may observe each other through it during the launch. If no
    instruction of a kernel does, its clusters may run in several processes.
    pure: the results depend only on what is read and on the active lanes.
    membermask: the last operand is a mask of the lanes that exchange values.
    publishes: the way in which it publishes earlier accesses of its warp. By default no missing bar.warp.sync is found.
    joins_lanes: it orders the accesses of the lanes that execute it.
    timing: its class in the timing model.
    merges: the opcodes of a second instruction with which ptxas merges it into one of three operands.
    """

    dst: int = 0
    uniform: Uniform | tuple[Uniform, Uniform] = never_uniform
    implicit_reads: ImplicitReads = lambda ins: ()
    communicates: Communicates = lambda ins: True
    pure: bool = False
    membermask: bool = False
    publishes: Publishes = Publishes.NOTHING
    joins_lanes: bool = False
    timing: Timing = Timing.ALU
    merges: Merges = lambda ins: ()

    @property
    def crosses_lanes(self) -> bool:
        """True if a lane's result may depend on what other lanes read."""
        return self.membermask or (self.pure and isinstance(self, Handler))


@dataclass(frozen=True, kw_only=True)
class Handler(Facts):
    """A family that acts on the machine. `make` checks one instruction and returns its `Action`.

    blocking: the action may return BLOCK.
    flush: called once after a run of consecutive actions, before the warp does anything else.
    """

    make: Callable[[Instr], Action]
    blocking: bool = False
    flush: Flush | None = None


Lower = Callable[["Builder", Instr], None]
Lowers = Callable[["Builder", Instr, Modifiers], None]
Rewrite = Callable[[Instr], Instr]


@dataclass(frozen=True, kw_only=True)
class Lowering(Facts):
    """A family of pure computation. `lower` checks one instruction and appends its code to a segment."""

    lower: Lower


HANDLERS: Final[dict[str, Handler]] = {}
LOWERINGS: Final[dict[str, Lowering]] = {}
REWRITES: Final[dict[str, Rewrite]] = {}


def executes(*opcodes: str, **facts: Any) -> Callable[[Callable[[Instr], Action]], Callable[[Instr], Action]]:
    """Register the handler of `opcodes`. facts: fields of `Facts` and `Handler`.

    A blocking action may return BLOCK after it suspended the warp; it runs again when the warp resumes.
    """

    def register(make: Callable[[Instr], Action]) -> Callable[[Instr], Action]:
        for opcode in opcodes:
            _check_unregistered(opcode)
            HANDLERS[opcode] = Handler(make=make, **facts)
        return make

    return register


def performs(
    *opcodes: str, modifiers: Sequence[Collection[str]] = (), **facts: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register an action as the handler of `opcodes`, with no per-instruction setup; its first parameter is `ins`.

    modifiers: groups of which the instruction has at most one each, as in `Modifiers.pick`; it has no other modifiers.
    facts: fields of `Facts` and `Handler`.
    """

    def register(perform: Callable[..., Any]) -> Callable[..., Any]:
        @executes(*opcodes, **facts)
        def make(ins: Instr) -> Action:
            Modifiers(ins).pick(*modifiers)
            return partial(perform, ins)

        return perform

    return register


def lowers(*opcodes: str, dst: int = 1, **facts: Any) -> Callable[[Lowers], Lowers]:
    """Register the lowering of `opcodes`, which takes the modifiers of the instruction. facts: fields of `Facts`.

    Modifiers that it does not take are rejected.
    The results may depend only on the operands, the implicit reads and the active lanes, so clusters cannot
    communicate.
    """

    def register(body: Lowers) -> Lowers:
        def lower(builder: Builder, ins: Instr) -> None:
            modifiers = Modifiers(ins)
            try:
                body(builder, ins, modifiers)
            except (TypeError, ValueError):  # the wrong operands: a modifier that is not taken is the better reason
                modifiers.done()
                raise
            modifiers.done()

        for opcode in opcodes:
            _check_unregistered(opcode)
            LOWERINGS[opcode] = Lowering(lower=lower, dst=dst, pure=True, communicates=never_communicates, **facts)
        return body

    return register


def rewrites(*opcodes: str) -> Callable[[Rewrite], Rewrite]:
    """Register a function that makes the implicit operands of `opcodes` explicit, before anything else reads them."""

    def register(rewrite: Rewrite) -> Rewrite:
        for opcode in opcodes:
            REWRITES[opcode] = rewrite
        return rewrite

    return register


def explicit(instr: Instr) -> Instr:
    """Return the instruction with its implicit operands, such as the carry, made explicit."""
    rewrite = REWRITES.get(instr.opcode)
    return instr if rewrite is None else rewrite(instr)


def find(instr: Instr) -> Handler | Lowering:
    """Return the entry of an instruction. Raises UnknownInstruction if there is none."""
    found = HANDLERS.get(instr.opcode) or LOWERINGS.get(instr.opcode)
    if found is None:
        raise UnknownInstruction(instr, f"opcode {instr.opcode!r}")
    return found


def accepts(action: Action, count: int) -> bool:
    """Return True if a handler's action can be called with `count` arguments."""
    if isinstance(action, partial):
        return accepts(action.func, count + len(action.args))
    code: CodeType = action.__code__  # type: ignore[attr-defined]
    defaults = action.__defaults__ or ()  # type: ignore[attr-defined]
    at_most = count if code.co_flags & CO_VARARGS else code.co_argcount
    return code.co_argcount - len(defaults) <= count <= at_most


def _check_unregistered(opcode: str) -> None:
    if opcode in HANDLERS or opcode in LOWERINGS:
        raise ValueError(f"opcode {opcode!r} is registered twice")
