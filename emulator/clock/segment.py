"""Segments, straight-line runs of ordinary instructions: their use of a sub-partition's pipes.

ptxas folds instructions into others: it removes moves, merges two instructions into one with three operands where the
machine has it, and tests eight bits of a word at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import prod
from typing import Final

from ..chip import LANES
from ..engine.effects import Effect, registers
from ..isa.registry import Timing
from ..isa.tcgen05_ld_st import REGISTERS_A_REPEAT
from ..ptx.kinds import Kind
from ..ptx.syntax import Address, Imm, Instr, Operand, Reg
from .accesses import Load, Site
from .atomics import FLOATS as ATOMIC_FLOATS
from .atomics import of_shared
from .chips import Chip
from .expansions import pipes
from .lane_addresses import LINE_BYTES, SECTOR_BYTES, LaneAddresses, lines, sectors, wavefronts
from .origins import Origin, Origins

SLICE: Final = 16
"""The cycles of a schedule that are reserved at once: the granularity at which warps share a sub-partition's pipes.

A warp waits for a longer latency at the end of a segment. The next instructions cover a shorter one.
"""
FLOATS: Final = ATOMIC_FLOATS | {"f32x2", "tf32"}
OWN_SPACES: Final = frozenset({"local", "param", "const"})
"""The state spaces whose bytes L1 or the constant cache is taken to hold."""
OTHER_SPACES: Final = ("shared", *OWN_SPACES)
"""The state spaces other than global memory."""
BITS_A_TEST: Final = 8
BYTES_A_TURN: Final = 8
"""The bytes of adjacent loads that become one: of four words, too, but LDS.128 takes two turns (see `wavefronts`)."""
MOST_OPERANDS: Final = 3
"""The maximum operands of max and min."""
ISSUE, FMA, ALU, MUFU, LSU, WARP_MMA, TMEM = range(7)
PIPES: Final = ("issue slots", "FMA", "ALU", "MUFU", "LSU", "mma.sync")
"""TMEM, the path to tensor memory, is modelled by the timeline: segments do not use it."""
PAST_L1: Final = frozenset({"relaxed", "acquire", "volatile", "mmio", "cg", "cv"})
"""Modifiers of loads that L1 does not answer."""
SUB_PARTITIONS: Final = 4
BF16_BITS: Final = 16
OPERAND_BITS: Final = {"tf32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}
"""The bits of an operand of mma.sync in registers, by its type; 16 for the others."""
OFFSET: Final = frozenset({Kind.LOAD, Kind.STORE, Kind.ATOMIC, Kind.REDUCTION, Kind.MATRIX_LOAD, Kind.MATRIX_STORE})
"""Accesses with a constant offset, of 24 bits with its sign."""
MOST_OFFSET: Final = 1 << 23
MATRIX_ACCESSES: Final = frozenset({Kind.MATRIX_LOAD, Kind.MATRIX_STORE})
FRAGMENT_ACCESSES: Final = frozenset({"wmma.load", "wmma.store"})
FRAGMENT_BYTES_PER_CYCLE: Final = 16
"""The LSU's rate for these in global memory: four or eight loads, each of a few words of eight or four rows. An H200
takes 68 cycles for both fragments of m16n16k16, 184 for five."""
MATRIX_ROWS, MATRIX_ROW_BYTES = 8, 16
"""The rows of a matrix of ldmatrix, and the bytes of one."""
WORD_BYTES: Final = 4
LONG_SCOREBOARD: Final = "long scoreboard"
SHORT_SCOREBOARD: Final = "short scoreboard"
FIXED_LATENCY: Final = "fixed latency"
BUSY_PIPES: Final = "busy pipes"
"""Reasons of stalls, named as Nsight Compute names them where it has them: waits for values of L2 or HBM, of shared
memory and the MUFU, and of other arithmetic; and for a pipe."""
WIDTHS: Final = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}


@dataclass(frozen=True, slots=True)
class Slice:
    """At most SLICE cycles of a schedule.

    demands: (pipe, cycles of use, how many of these may lie after the slice's end) for each pipe.
    loaded: bytes of global memory that a warp's loads read, by the parameters that their addresses follow from, the
    mean number of these loads that wait for L2, and cycles of L2 that atomics among them take all SMs.
    slack: cycles of the schedule after the slice before the first use of what its LSU instructions load. used: the
    same for its loads of global memory, with their latency.
    awaited: the waits in the slice for values from L2 or HBM: (PTX line of the instruction that waits, cycles, whether
    the wait begins here). carried: loads that later blocks wait for: (PTX line, cycles after the slice until the value
    is there). used is infinite if all are.
    """

    cycles: float
    demands: tuple[tuple[int, float, float], ...]
    loaded: tuple[tuple[Origin, float, float, float], ...] = ()
    slack: float = 0.0
    used: float = 0.0
    awaited: tuple[tuple[int, float, bool], ...] = ()
    carried: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class LineCost:
    """The costs of one PTX line each time a warp runs through its segment.

    issued: issue slots; stalled: cycles in which the warp waits to issue it, but for loads from global memory;
    reason: of these cycles; conflicts: cycles that bank conflicts add; wasted: bytes of the sectors of global memory
    that no lane asked for.
    """

    line: int
    issued: float = 0.0
    stalled: float = 0.0
    reason: str = BUSY_PIPES
    conflicts: float = 0.0
    wasted: float = 0.0


@dataclass(frozen=True)
class Segment:
    """A straight-line run of ordinary instructions, scheduled.

    line: its first PTX line; demand: cycles of use by pipe; loaded: bytes of global memory, as in its slices; flops: of
    mma.sync; asked: bytes that lanes load from global memory; lines: the costs of its PTX lines. instructions: PTX
    instructions of its region, if it is the first there.
    """

    line: int
    slices: tuple[Slice, ...]
    cycles: float
    demand: tuple[float, ...]
    loaded: tuple[tuple[Origin, float], ...] = ()
    flops: float = 0.0
    lines: tuple[LineCost, ...] = ()
    instructions: int = 0
    asked: float = 0.0


@dataclass(frozen=True)
class Loading:
    """A kernel's loads of global memory. known: by the identity of the effect; others come from HBM."""

    lanes: LaneAddresses
    origins: Origins
    known: Mapping[int, Load]


class Folding:
    """The instructions that ptxas folds into others. Query them in program order."""

    def __init__(
        self,
        effects: Sequence[Effect],
        chip: Chip,
        loading: Loading,
        offsets: Set[Reg] = frozenset(),
    ) -> None:
        self._chip, self._loading, self._uses, self._offsets = chip, loading, _uses(effects), offsets
        self.lanes = self._lanes = loading.lanes
        self._parts = _expanded_costs(chip)
        self._joined: set[Reg] = set()
        self._tested: set[Reg] = set()
        self._tests = 0
        self._passed: set[int] = set()
        """Identities of the instructions up to the present one."""
        self._vectors: dict[tuple[Operand, int, int], Reg] = {}

    def removes(self, effect: Effect) -> bool:
        """Return True if ptxas leaves nothing of an instruction."""
        self._passed.add(id(effect.instr))
        later = self._only_use(effect)
        if later is not None and _masks_a_bit(effect, later):
            self._tested.update(effect.writes)
        is_test = effect.instr.kind is Kind.COMPARE and not self._tested.isdisjoint(effect.reads)
        self._tests += is_test
        constant = effect.instr.kind is Kind.LOAD and "const" in effect.instr.modifiers
        if constant and (at := self._lanes.of(effect.instr.operands[1])) is not None and not at.any():
            return True  # an operand of the instruction that uses it
        folded = not self._tested.isdisjoint(effect.writes) or (is_test and self._tests % BITS_A_TEST != 1)
        joins = later is not None and _joins_next(effect, later, self._joined, self._chip)
        return folded or _timing(effect) is Timing.FREE or joins or not self._offsets.isdisjoint(effect.writes)

    def _only_use(self, effect: Effect) -> Instr | None:
        """Return the only instruction that uses a result, None if it comes earlier and uses it in the next round."""
        uses = self._uses.get(effect.writes[0], ()) if effect.writes else ()
        return uses[0] if len(uses) == 1 and id(uses[0]) not in self._passed else None

    def vector(self, effect: Effect) -> Reg | None:
        """Return the register of the first of adjacent loads of shared memory that take one turn.

        ptxas makes them one if it can prove the alignment; here, if all lanes load the same bytes. Stores and barriers
        between them prevent it. None for the first load and for anything else.
        """
        instr = effect.instr
        if instr.kind is Kind.STORE or instr.kind.is_barrier:
            self._vectors = {}
        if instr.kind is not Kind.LOAD or instr.guard or len(effect.writes) != 1 or not _is_shared(instr, self._lanes):
            return None
        (count, width), address = _shape(instr), instr.operands[1]
        if count > 1 or not isinstance(address, Address) or "volatile" in instr.modifiers:
            return None
        if (lanes := self._lanes.of(address)) is None or lanes.any():
            return None
        first = self._vectors.setdefault((address.base, address.offset // BYTES_A_TURN, width), effect.writes[0])
        return None if first == effect.writes[0] else first

    def costs(self, effect: Effect, operation: bool) -> Sequence[tuple[int, float, float]]:
        """Return (pipe, cycles of use, latency) of each machine instruction of an instruction that remains."""
        if expanded := pipes(effect.instr):
            return [self._parts[pipe] for pipe in expanded]
        return [self._cost(effect, operation)]

    def _cost(self, effect: Effect, operation: bool) -> tuple[int, float, float]:
        timing = _timing(effect)
        if operation and effect.instr.kind is not Kind.LOAD and timing is not Timing.TENSOR_MEMORY:
            return ISSUE, 1.0, 1.0
        if _is_product(effect.instr):
            return WARP_MMA, *self._warp_mma(effect.instr)
        scales = timing is Timing.ADD and not self._joined.isdisjoint(effect.reads)
        if timing is Timing.MEMORY:
            return _memory_cost(effect, self._chip, self._lanes, self._loading.known.get(id(effect)))
        return _product(self._chip) if scales else _cost(effect.instr, timing, self._chip)

    def loaded(self, effect: Effect) -> tuple[float, float]:
        """Return (bytes that L2 sends for a warp's load, bytes of requested sectors that no lane asked for).

        An atomic takes as many. A generic address is of global memory unless it is known to be of shared.
        """
        if (known := self._loading.known.get(id(effect))) is not None:
            return known.fetched, known.wasted
        if not is_global_load(effect.instr, self._lanes):
            return 0.0, 0.0
        site = site_of(effect.instr, self._lanes, self._loading.origins)
        return SECTOR_BYTES * site.sectors, max(SECTOR_BYTES * site.sectors - LANES * site.lane_bytes, 0.0)

    def waits(self, effect: Effect) -> float:
        """Return the share of the executions of a load of global memory that wait for L2."""
        known = self._loading.known.get(id(effect))
        return float(effect.instr.kind is not Kind.REDUCTION) * (1.0 if known is None else known.waits)

    def updates(self, effect: Effect) -> float:
        """Return the cycles of L2 that an atomic takes all SMs, besides those of its bytes."""
        known = self._loading.known.get(id(effect))
        return 0.0 if known is None else known.updates

    def asked(self, effect: Effect) -> float:
        """Return the bytes that the lanes of a warp load from global memory."""
        known = self._loading.known.get(id(effect))
        count, width = _shape(effect.instr)
        return LANES * count * width * (1.0 if known is None else known.lanes)

    def origin(self, effect: Effect) -> Origin:
        """Return the parameters that the address of a load follows from."""
        return self._loading.origins.of(addressed_by(effect.instr))

    def is_remote(self, effect: Effect) -> bool:
        """Return True for an access whose value comes from L2 or HBM."""
        if _timing(effect) is not Timing.MEMORY or not effect.writes:
            return False
        return not (_is_shared(effect.instr, self._lanes) or OWN_SPACES & {*effect.instr.modifiers})

    def conflicts(self, effect: Effect, cycles: float) -> float:
        """Return the cycles that bank conflicts add to an access that takes `cycles`."""
        if _timing(effect) is not Timing.MEMORY or not _is_shared(effect.instr, self._lanes):
            return 0.0
        return max(cycles - _least_cycles(effect.instr, self._chip), 0.0)

    def flops(self, effect: Effect) -> float:
        """Return the flops of an mma.sync, 0 of anything else."""
        return _flops(effect.instr) if _is_product(effect.instr) else 0.0

    def _warp_mma(self, instr: Instr) -> tuple[float, float]:
        """Return (cycles of use, latency) of an mma.sync. Twice the bits of an operand take twice the cycles."""
        bits = OPERAND_BITS.get(instr.modifiers[-3], BF16_BITS)
        cycles = SUB_PARTITIONS * _flops(instr) * bits / BF16_BITS / self._chip.warp_mma_flops_per_cycle
        return cycles, self._chip.warp_mma_latency


def _is_product(instr: Instr) -> bool:
    """Return True for mma.sync and wmma.mma."""
    return instr.kind is Kind.WARP_MMA or instr.opcode == "wmma.mma"


def _flops(instr: Instr) -> float:
    """Return the flops of an mma.sync or wmma.mma."""
    return 2.0 * prod(_shape_of_product(instr))


def _shape_of_product(instr: Instr) -> tuple[int, ...]:
    """Return m, n and k of an instruction with a modifier such as m16n8k16."""
    shape = next(each for each in instr.modifiers if each[0] == "m" and "n" in each and "k" in each)
    return tuple(map(int, shape[1:].replace("n", "k").split("k")))


def _timing(effect: Effect) -> Timing | None:
    """Return the timing class of an instruction, None for a branch or exit."""
    return None if effect.entry is None else effect.entry.timing


def offsets(found: Sequence[Effect]) -> frozenset[Reg]:
    """Return the sums with a constant that ptxas leaves to accesses, as their offset: they have no other use."""
    uses, written = _uses(found), Counter(register for effect in found for register in effect.writes)

    def is_offset(effect: Effect) -> bool:
        instr = effect.instr
        constant = instr.operands[-1] if instr.opcode == "add" and FLOATS.isdisjoint(instr.modifiers) else None
        if not isinstance(constant, Imm) or abs(constant.value) >= MOST_OFFSET or instr.guard:
            return False
        (to,) = effect.writes[:1]
        return written[to] == 1 and to in uses and all(_is_at(use, to) for use in uses[to])

    return frozenset(effect.writes[0] for effect in found if is_offset(effect))


def _is_at(instr: Instr, register: Operand) -> bool:
    """Return True for an access to memory with an address in a register, if it has no other use for that."""
    at = [operand for operand in instr.operands if register in registers(operand)]
    return instr.kind in OFFSET and len(at) == 1 and isinstance(at[0], Address) and at[0].base == register


def _uses(effects: Sequence[Effect]) -> dict[Reg, list[Instr]]:
    uses: dict[Reg, list[Instr]] = {}
    for effect in effects:
        for register in effect.reads:
            if isinstance(register, Reg):
                uses.setdefault(register, []).append(effect.instr)
    return uses


def _masks_a_bit(effect: Effect, later: Instr) -> bool:
    """Return True if a bit of a word is masked only to compare it with zero: ptxas tests several bits at once (R2P)."""
    instr = effect.instr
    mask = instr.operands[-1] if instr.kind is Kind.AND else None
    if not isinstance(mask, Imm) or (mask.value & 0xFFFF_FFFF).bit_count() != 1:
        return False
    return later.kind is Kind.COMPARE and later.operands[-1] == Imm(0)


def _joins_next(effect: Effect, later: Instr, joined: set[Reg], chip: Chip) -> bool:
    """Return True for the first of two instructions that ptxas merges into one with three operands.

    later: the second one. joined: the results of such first instructions.
    """
    wanted = _merges(effect, chip)
    if not wanted or not joined.isdisjoint(effect.reads):
        return False
    (to,) = effect.writes
    if later.opcode not in wanted or len(later.operands) != MOST_OPERANDS:
        return False
    joined.add(to)
    return True


def _merges(effect: Effect, chip: Chip) -> Sequence[str]:
    """Return the opcodes of a second instruction with which ptxas merges an instruction on this chip."""
    if effect.entry is None or ("f32" in effect.instr.modifiers and chip.max_operands != MOST_OPERANDS):
        return ()
    return effect.entry.merges(effect.instr)


def _product(chip: Chip) -> tuple[int, float, float]:
    """Return the cost of an integer multiplication."""
    return FMA, chip.packed_cycles, chip.fma_latency


def _cost(instr: Instr, timing: Timing | None, chip: Chip) -> tuple[int, float, float]:
    """Return (pipe, cycles of use, latency) of one instruction of a warp."""
    types = set(instr.modifiers)
    match timing:
        case None:
            return ISSUE, 1.0, chip.alu_latency
        case Timing.TENSOR_MEMORY:
            return TMEM, transferred(instr) / chip.tmem_bytes_per_cycle, chip.tmem_latency
        case Timing.SHUFFLE:
            return LSU, 1.0, chip.shared_latency
        case Timing.SPECIAL:
            return MUFU, chip.mufu_cycles, chip.mufu_latency + chip.mufu_cycles
        case Timing.CONVERT:
            return ALU, _convert_cycles(instr, chip), chip.alu_latency
        case Timing.ADD | Timing.MULTIPLY if types & FLOATS:
            return FMA, chip.packed_cycles if types & {"f32x2", "f64"} else chip.fma_cycles, chip.fma_latency
        case Timing.MULTIPLY:
            return _product(chip)
    wide = 2.0 if timing is Timing.ADD and types & {"s64", "u64", "b64"} else 1.0
    return ALU, wide * chip.alu_cycles, chip.alu_latency


def _expanded_costs(chip: Chip) -> Mapping[int, tuple[int, float, float]]:
    """Return (pipe, cycles of use, latency) of a part of an instruction, by its pipe."""
    special = MUFU, chip.mufu_cycles, chip.mufu_latency + chip.mufu_cycles
    return {FMA: (FMA, chip.fma_cycles, chip.fma_latency), ALU: (ALU, chip.alu_cycles, chip.alu_latency), MUFU: special}


def _convert_cycles(instr: Instr, chip: Chip) -> float:
    """Return the cycles of a conversion: of two values to a narrower type, of two narrower ones, of one, or of none."""
    to, of = instr.modifiers[-2:]
    if to.endswith(("x2", "x4")):
        return chip.convert_cycles if of == "f32" else chip.unpack_cycles
    return chip.scalar_convert_cycles if (to, of) == ("bf16", "f32") else chip.alu_cycles


def _shape(instr: Instr) -> tuple[int, int]:
    """Return the elements per lane and their bytes of a memory access."""
    count = next((int(m[1:]) for m in instr.modifiers if m in ("v2", "v4", "v8", "x2", "x4")), 1)
    width = next((WIDTHS[m[1:]] for m in reversed(instr.modifiers) if m[1:] in WIDTHS and m[0] in "bsuf"), 4)
    return count, 4 if instr.kind in MATRIX_ACCESSES else width


def _memory_cost(effect: Effect, chip: Chip, lanes: LaneAddresses, load: Load | None) -> tuple[int, float, float]:
    """Return the cost of a memory access. Without known addresses there are no bank conflicts.

    An access to another CTA's shared memory has a longer latency and less bandwidth. An access to global memory takes a
    cycle for each line of 128 bytes, and L1 gives the bytes of a load at a rate of its own. load: what a load of global
    memory requests in this launch, None if not known.
    """
    instr = effect.instr
    count, width = _shape(instr)
    peer, near = _is_peer(instr), _is_shared(instr, lanes)
    cycles = least = _least_cycles(instr, chip)
    addressed = addressed_by(instr)
    if load is not None and instr.kind is not Kind.LOAD:
        cycles = max(load.asked / SECTOR_BYTES, 1.0)  # an SM sends a sector a cycle
        return LSU, cycles, cycles + load.latency * (instr.kind is Kind.ATOMIC)
    if load is not None:
        given = _registers_bytes(min(load.asked, LANES * count * width * load.lanes), width)
        cycles = max(load.lines, least * load.lanes, given / chip.l1_bytes_per_cycle)
        return LSU, cycles, load.latency + max(cycles - least, 0.0)
    if near and not peer and (addresses := lanes.of(addressed)) is not None:
        if instr.kind in MATRIX_ACCESSES:
            cycles = float(wavefronts(addresses[: MATRIX_ROWS * count], MATRIX_ROW_BYTES))
        else:
            cycles = float(wavefronts(addresses, count * width, instr.kind is Kind.LOAD))
    updates = near and not peer and instr.kind.is_read_modify_write
    if updates and (addresses := lanes.of_lines(addressed)) is not None:
        cycles, loop = of_shared(chip, instr, addresses)
        return LSU, cycles, loop or cycles + chip.shared_latency * (instr.kind is Kind.ATOMIC)
    local = not OWN_SPACES.isdisjoint(instr.modifiers)
    if instr.opcode in FRAGMENT_ACCESSES:
        size = _fragment_bytes(instr)
        cycles = size / (chip.smem_bytes_per_cycle if near else FRAGMENT_BYTES_PER_CYCLE)
        loads = instr.opcode == "wmma.load"
        return LSU, cycles, cycles + loads * (chip.shared_latency if near else chip.global_latency)
    if not near and not local and (addresses := lanes.of_lines(addressed)) is not None:
        cycles = max(cycles, float(lines(addresses, count * width)))
        if instr.kind is Kind.LOAD:
            given = min(SECTOR_BYTES * sectors(addresses, count * width), LANES * count * width)
            given = _registers_bytes(given, width)
            cycles = max(cycles, given / chip.l1_bytes_per_cycle)
    if instr.kind in (Kind.STORE, Kind.REDUCTION, Kind.MATRIX_STORE):
        return LSU, cycles, cycles
    if peer:
        return LSU, cycles, chip.peer_latency
    latency = chip.shared_latency if near or local else chip.global_latency
    return LSU, cycles, latency + max(cycles - least, 0.0)


def _registers_bytes(size: float, width: int) -> float:
    """Return the bytes of the registers that L1 fills with `size` bytes: elements of one or two bytes take one each."""
    return size * max(WORD_BYTES / width, 1.0)


def _fragment_bytes(instr: Instr) -> float:
    """Return the bytes of a matrix that wmma.load or wmma.store accesses."""
    m, n, k = _shape_of_product(instr)
    rows, columns = {"a": (m, k), "b": (k, n)}.get(instr.modifiers[0], (m, n))
    return rows * columns * OPERAND_BITS.get(instr.modifiers[-1], 32 if "32" in instr.modifiers[-1] else BF16_BITS) / 8


def is_global_load(instr: Instr, lanes: LaneAddresses) -> bool:
    """Return True for a load of global memory, as far as the PTX shows it."""
    return instr.kind is Kind.LOAD and _is_global(instr, lanes)


def is_global_atomic(instr: Instr, lanes: LaneAddresses) -> bool:
    """Return True for an atomic of global memory, as far as the PTX shows it."""
    return instr.kind.is_read_modify_write and _is_global(instr, lanes)


def _is_global(instr: Instr, lanes: LaneAddresses) -> bool:
    other = any(m.startswith(OTHER_SPACES) for m in instr.modifiers)
    return not other and not lanes.in_shared(addressed_by(instr))


def site_of(instr: Instr, lanes: LaneAddresses, origins: Origins) -> Site:
    """Return a load of global memory as a site of requests."""
    count, width = _shape(instr)
    size, whole = touched(instr, lanes)
    address = addressed_by(instr)
    origin, bytes_, random = origins.of(address), count * width, lanes.scattered(address)
    if instr.kind is Kind.LOAD:
        cached = PAST_L1.isdisjoint(instr.modifiers)
        return Site(origin, bytes_, cached, size / SECTOR_BYTES, float(whole), random)
    known = None if random else lanes.of_lines(address)
    return Site(origin, bytes_, False, size / SECTOR_BYTES, float(whole), random, instr, known)


def touched(instr: Instr, lanes: LaneAddresses) -> tuple[int, int]:
    """Return (bytes of the sectors, lines) of global memory that a warp's access touches."""
    count, width = _shape(instr)
    addresses = lanes.of_lines(addressed_by(instr))
    if addresses is None:
        asked = LANES * count * width
        return asked, -(-asked // LINE_BYTES)
    return SECTOR_BYTES * sectors(addresses, count * width), lines(addresses, count * width)


def addressed_by(instr: Instr) -> Operand:
    """Return the address of a memory access."""
    return next((operand for operand in instr.operands if isinstance(operand, Address)), instr.operands[0])


def _is_shared(instr: Instr, lanes: LaneAddresses) -> bool:
    """Return True for an access to shared memory, as far as the PTX shows it."""
    named = instr.kind in MATRIX_ACCESSES or any(m.startswith("shared") for m in instr.modifiers)
    return named or lanes.in_shared(addressed_by(instr))


def _is_peer(instr: Instr) -> bool:
    """Return True for an access to another CTA's shared memory."""
    return "shared::cluster" in instr.modifiers


def _least_cycles(instr: Instr, chip: Chip) -> float:
    """Return the cycles of a memory access without bank conflicts."""
    count, width = _shape(instr)
    rate = chip.peer_bytes_per_cycle if _is_peer(instr) else chip.smem_bytes_per_cycle
    return max(1.0, LANES * count * width / rate)


def transferred(instr: Instr) -> int:
    """Return the bytes that a warp's tcgen05.ld or tcgen05.st transfers."""
    shape = next(m for m in instr.modifiers if m in REGISTERS_A_REPEAT)
    count = next(int(m[1:]) for m in instr.modifiers if m[0] == "x" and m[1:].isdecimal())
    return 4 * LANES * REGISTERS_A_REPEAT[shape] * count
