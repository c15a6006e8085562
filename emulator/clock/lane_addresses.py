"""The addresses of a warp's lanes relative to each other, as far as the PTX shows them.

Bank conflicts and the number of sectors depend on them. A register's values are followed from %tid.x and %laneid
through integer arithmetic. Everything else is the same in all lanes, or unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..chip import LANES
from ..engine.effects import Effect
from ..machine.launch.statistics import WAVEFRONT_BYTES, passes, shape_of
from ..ptx.kinds import Kind
from ..ptx.syntax import Address, Imm, Operand, Reg, Special, Symbol

PASSES: Final = 4
"""The number of passes over a kernel, so that values reach the start of loops."""
SECTOR_BYTES: Final = 32
LINE_BYTES: Final = 128


@dataclass(frozen=True)
class Values:
    """The values of a register in the lanes of warp 0.

    Unless they are exact, an unknown number that is the same in all lanes is added. strided: distances between lanes
    are multiples of an unknown number, such as the length of a row, represented by FAR. random: lanes loaded them from
    memory, where they are assumed to be random numbers.
    """

    lanes: np.ndarray
    exact: bool = False
    strided: bool = False
    random: bool = False

    @property
    def relative(self) -> np.ndarray:
        """The values minus that of lane 0."""
        found: np.ndarray = self.lanes - self.lanes[0]
        return found

    @property
    def uniform(self) -> bool:
        """True if all lanes have the same value."""
        return not self.relative.any()


FAR: Final = 4096
"""A distance for which no two lanes access the same line of global memory."""
RANDOM: Final = np.random.default_rng(0).integers(0, 1 << 32, LANES)
"""A number that each lane loads."""
SAME: Final = Values(np.zeros(LANES, np.int64))
THREADS: Final = Values(np.arange(LANES, dtype=np.int64), exact=True)
ADDRESSING: Final = frozenset({Kind.MOVE, Kind.ADD, Kind.SUBTRACT, Kind.MULTIPLY_ADD, Kind.OR})
"""Instructions that compute an address from another address of the same memory."""
Arithmetic = Callable[[np.ndarray, np.ndarray], np.ndarray]
BITWISE: Final[dict[Kind, Arithmetic]] = {
    Kind.AND: np.bitwise_and,
    Kind.OR: np.bitwise_or,
    Kind.XOR: np.bitwise_xor,
    Kind.SHIFT_RIGHT: np.right_shift,
}


class LaneAddresses:
    """The relative values of a kernel's registers."""

    def __init__(self, effects: Sequence[Effect]) -> None:
        self._known: dict[Reg, Values | None] = {}
        for _ in range(PASSES):
            before = dict(self._known)
            for effect in effects:
                self._follow(effect)
            if before.keys() == self._known.keys() and all(before[r] is self._known[r] for r in before):
                break
        self._shared: set[Reg] = set()
        """Registers with generic addresses of shared memory."""
        for _ in range(PASSES):
            for effect in effects:
                if _is_shared(effect, self._shared):
                    self._shared.update(effect.writes)

    def in_shared(self, operand: Operand) -> bool:
        """Return True for a generic address that is known to be in shared memory."""
        return (operand.base if isinstance(operand, Address) else operand) in self._shared

    def of(self, operand: Operand) -> np.ndarray | None:
        """Return the addresses of all lanes minus that of lane 0, None if they are not known."""
        found = self._address(operand)
        return None if found is None or found.strided or found.random else found.relative

    def of_lines(self, operand: Operand) -> np.ndarray | None:
        """Return the addresses like `of`, also if the lanes are only known to be in different lines."""
        found = self._address(operand)
        return None if found is None else found.relative

    def scattered(self, operand: Operand) -> bool:
        """Return True for an address that follows from numbers which lanes loaded, each its own."""
        found = self._address(operand)
        return found is not None and found.random and not found.uniform

    def _address(self, operand: Operand) -> Values | None:
        return self._values(operand.base if isinstance(operand, Address) else operand)

    def _values(self, operand: Operand) -> Values | None:
        match operand:
            case Imm(value):
                return Values(np.full(LANES, value, np.int64), exact=True)
            case Special(name):
                return THREADS if name in ("%tid.x", "%laneid", "tid.x", "laneid") else SAME
            case Symbol():
                return SAME
            case Reg():
                return self._known.get(operand)
        return None

    def _follow(self, effect: Effect) -> None:
        """Join the values that an instruction writes with those that are known of its register."""
        if len(effect.writes) != 1 and effect.instr.kind is not Kind.LOAD:
            self._known |= dict.fromkeys(effect.writes)
            return
        if any(isinstance(r, Reg) and r not in self._known for r in effect.reads):
            return
        made = self._result(effect)
        for register in effect.writes:
            self._join(register, made)

    def _join(self, register: Reg, made: Values | None) -> None:
        if register in self._known and self._known[register] is None:
            return
        known = self._known.get(register)
        if known is None or made is None:
            self._known[register] = made
        elif not np.array_equal(known.relative, made.relative):
            self._known[register] = None
        elif known.exact and not (made.exact and np.array_equal(known.lanes, made.lanes)):
            self._known[register] = Values(known.relative, strided=made.strided, random=made.random)

    def _result(self, effect: Effect) -> Values | None:
        """Return the values that an instruction computes, None if they are not known."""
        instr, kind = effect.instr, effect.instr.kind
        operands = instr.operands[1:]
        if kind is Kind.PARAMETER:
            return SAME
        if kind is Kind.LOAD:
            return SAME if "param" in instr.modifiers else _loaded(self._address(operands[0]))
        if kind in (Kind.ATOMIC, Kind.SHUFFLE):
            return None
        sources = [self._values(o) for o in operands]
        if all(s is not None and s.uniform and not s.exact for s in sources) and effect.pure:
            return SAME
        if any(s is None for s in sources):
            return None
        values = [s for s in sources if s is not None]
        if kind in (Kind.MOVE, Kind.ADDRESS, Kind.CONVERT):
            return values[0] if values else SAME
        if kind in (Kind.ADD, Kind.SUBTRACT) and len(values) == 2:
            return _sum(values[0], values[1], -1 if kind is Kind.SUBTRACT else 1)
        if kind in (Kind.MULTIPLY, Kind.MULTIPLY_ADD) and "hi" not in instr.modifiers:
            product = _product(values[0], values[1])
            return product if kind is Kind.MULTIPLY or product is None else _sum(product, values[2])
        if kind is Kind.SHIFT_LEFT and values[1].exact:
            return _product(values[0], Values(1 << np.clip(values[1].lanes, 0, 40), exact=True))
        if kind in BITWISE and len(values) == 2:
            return _bitwise(kind, values[0], values[1])
        return SAME if effect.pure and all(v.uniform for v in values) else None


def _is_shared(effect: Effect, shared: Set[Reg]) -> bool:
    """Return True if an instruction computes a generic address of shared memory. shared: registers with such ones."""
    instr = effect.instr
    if instr.kind is Kind.ADDRESS:
        return "to" not in instr.modifiers and any(m.startswith("shared") for m in instr.modifiers)
    return instr.kind in ADDRESSING and not shared.isdisjoint(r for r in effect.reads if isinstance(r, Reg))


def _loaded(address: Values | None) -> Values | None:
    """Return the values that lanes load from an address: one, or a random number for each place."""
    if address is None or address.uniform:
        return None if address is None else SAME
    _, places = np.unique(address.lanes, return_inverse=True)
    return Values(RANDOM[places], exact=True, random=True)


def _sum(a: Values, b: Values, sign: int = 1) -> Values:
    return Values(a.lanes + sign * b.lanes, a.exact and b.exact, a.strided or b.strided, a.random or b.random)


def _product(a: Values, b: Values) -> Values | None:
    if a.exact and b.exact:
        return Values(a.lanes * b.lanes, exact=True, random=a.random or b.random)
    if a.uniform and b.uniform:
        return SAME
    if not (a.uniform or b.uniform):
        return None
    same, other = (a, b) if a.uniform else (b, a)
    if same.exact:
        return Values(other.relative * same.lanes[0], strided=other.strided, random=other.random)
    return Values(other.relative * FAR, strided=True, random=other.random)


def _bitwise(kind: Kind, a: Values, b: Values) -> Values | None:
    if a.exact and b.exact:
        other = np.clip(b.lanes, 0, 63) if kind is Kind.SHIFT_RIGHT else b.lanes
        return Values(BITWISE[kind](a.lanes, other), exact=True, random=a.random or b.random)
    if a.uniform and b.uniform:
        return SAME
    if kind is Kind.AND and a.random:  # with an argument of the launch
        return a
    return _sum(a, b) if kind is Kind.OR else None  # compilers write `or` where bits do not overlap


def wavefronts(addresses: np.ndarray, size: int, loads: bool = False) -> int:
    """Return the cycles that an access of `size` bytes per lane takes: each bank serves one word at a time.

    Two turns of wide loads are one if neighbours, at a distance of one lane or of two, load the same bytes. So half a
    warp loads 16 bytes in a turn (GEMMs with tiles in shared memory on an H200: lab/ordinary.cu).
    """

    def joined(pair: np.ndarray) -> bool:
        return loads and any((pair == pair[np.arange(len(pair)) ^ distance]).all() for distance in (1, 2))

    pairs = np.array_split(addresses, max(size * len(addresses) // (2 * WAVEFRONT_BYTES), 1))
    return sum(passes(*shape_of(np.unique(pair) if joined(pair) else pair, size))[0] for pair in pairs)


def lines(addresses: np.ndarray, size: int) -> int:
    """Return the lines of global memory that an access of `size` bytes per lane touches."""
    return len(np.unique(np.concatenate([addresses // LINE_BYTES, (addresses + size - 1) // LINE_BYTES])))


def sectors(addresses: np.ndarray, size: int) -> int:
    """Return the sectors of global memory that an access of `size` bytes per lane touches."""
    first, last = addresses // SECTOR_BYTES, (addresses + size - 1) // SECTOR_BYTES
    return len(np.unique(np.concatenate([first, last])))
