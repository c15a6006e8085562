"""Counts of what a launch did, independent of the machine that emulates it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from ...chip import BANK_BYTES, SHARED_BANKS

WAVEFRONT_BYTES = SHARED_BANKS * BANK_BYTES

KINDS = (
    INSTRUCTIONS := "instructions",
    LONGEST := "instructions of the longest warp",
    FLOPS := "flops",
    SLEPT := "ns of nanosleep",
    WAITED := "waits for mbarriers",
    GAVE_UP := "waits for mbarriers that gave up",
    COPIED_IN := "bytes copied in",
    LOADED := "bytes loaded by warps",
    STORED := "bytes stored",
)
"""Kinds of work, beside the opcodes of operations."""

ASLEEP = -1
"""Stands for a block of a warp's `passed`: the nanoseconds that it slept are the number of times."""
Shape = tuple[int, bytes]
"""The shape of a shared-memory access: bytes per lane, and the lanes' offsets from the first lane's wavefront."""


@dataclass
class MBarrierUse:
    """One mbarrier, over all CTAs: `offset` in the CTA's shared window, waits that ended, phases that completed."""

    offset: int
    waits: int = 0
    phases: int = 0


@dataclass
class Stats:
    """Counts of one launch, over all its CTAs.

    - `by_warp`: executed warp-instructions, by the warp's index in its CTA. `longest_warp`: the most of one warp.
    - `waits_on`: the mbarriers that each warp index waited for, by their order of initialisation.
    - `mbarriers`: the use of each.
    - `copied_in_bytes`, `copied_out_bytes`: bytes moved into and out of shared memory by TMA, bulk copies and cp.async.
      Zero fill counts; a multicast counts once for each destination CTA.
    - `global_load_bytes`, `global_store_bytes`: bytes requested by ordinary instructions of active lanes; a uniform
      address counts once.
    - `mma_flops`: 2 M N K of every tcgen05.mma, a 2-CTA MMA once.
    - `slept_ns`: the nanoseconds that each executed nanosleep asked for.
    - `gave_up`: waits for mbarriers that returned false after their time limit.
    - `paths`: a cluster of each kind. Warps of clusters of a kind ran the same blocks equally often, and slept as long.
    - `operations`: executed warp-instructions by opcode, of those that act on the machine. Polls of mbarriers are left
      out, and ordinary loads and stores. `acted`: those instructions, by their place in the kernel.
    - `shared_accesses`: ordinary loads and stores of shared memory, one per warp; an atomic is one of each.
    - `shared_wavefronts`: their passes over the 32 banks of 4 bytes.
    - `shared_conflicts`: the passes caused by lanes that access different words of one bank.
    - `swizzle_mismatches`: 16-byte pieces of shared memory that a matrix descriptor or a TMA store read by a swizzle
      other than the TMA load's that wrote them.
    - `first_swizzle_mismatch`: reader and writer of the first.
    """

    by_warp: dict[int, int] = field(default_factory=dict)
    longest_warp: int = 0
    waits_on: dict[int, set[int]] = field(default_factory=dict)
    mbarriers: dict[int, MBarrierUse] = field(default_factory=dict)
    copied_in_bytes: int = 0
    copied_out_bytes: int = 0
    global_load_bytes: int = 0
    global_store_bytes: int = 0
    mma_flops: int = 0
    slept_ns: int = 0
    gave_up: int = 0
    operations: dict[str, int] = field(default_factory=dict)
    acted: set[int] = field(default_factory=set, repr=False, compare=False)
    shared_accesses: int = 0
    shared_wavefronts: int = 0
    shared_conflicts: int = 0
    swizzle_mismatches: int = 0
    first_swizzle_mismatch: str = ""
    paths: dict[bytes, tuple[int, int, int]] = field(default_factory=dict, repr=False, compare=False)
    _patterns: dict[Shape, int] = field(default_factory=dict, repr=False, compare=False)

    @property
    def instructions(self) -> int:
        """The number of executed warp-instructions."""
        return sum(self.by_warp.values())

    @property
    def work(self) -> dict[str, int]:
        """The work that takes time, by kind: a prediction of the launch has the same."""
        return self.operations | {
            INSTRUCTIONS: self.instructions,
            LONGEST: self.longest_warp,
            FLOPS: self.mma_flops,
            SLEPT: self.slept_ns,
            WAITED: sum(each.waits for each in self.mbarriers.values()),
            GAVE_UP: self.gave_up,
            COPIED_IN: self.copied_in_bytes,
            LOADED: self.global_load_bytes,
            STORED: self.copied_out_bytes + self.global_store_bytes,
        }

    @property
    def by_role(self) -> dict[tuple[int, ...], int]:
        """Warp-instructions by role. Warps that wait for the same mbarriers have the same role."""
        roles: dict[frozenset[int], list[int]] = {}
        for warp in sorted(self.by_warp):
            roles.setdefault(frozenset(self.waits_on.get(warp, ())), []).append(warp)
        return {tuple(warps): sum(self.by_warp[w] for w in warps) for warps in roles.values()}

    def access_shared(self, offsets: np.ndarray, size: int) -> None:
        """Count an ordinary access of `size` bytes at each of `offsets` (one per lane)."""
        self.count_access(shape_of(offsets, size), 1)

    def count_access(self, shape: Shape, times: int) -> None:
        """Count ordinary accesses of one shape. `count_wavefronts` computes their wavefronts."""
        self._patterns[shape] = self._patterns.get(shape, 0) + times

    def count_swizzle_mismatch(self, pieces: int, who: str) -> None:
        """Count pieces that were read by a swizzle other than their writer's. who: both accesses, as text."""
        self.swizzle_mismatches += pieces
        self.first_swizzle_mismatch = self.first_swizzle_mismatch or who

    def add_path(self, cluster: tuple[int, int, int], passed: Iterable[Mapping[int, int]]) -> None:
        """Add the path of a cluster. passed: by warp, how often it ran each block."""
        path = repr([sorted(blocks.items()) for blocks in passed])
        self.paths.setdefault(blake2b(path.encode()).digest(), cluster)

    def count_operation(self, opcode: str, times: int = 1) -> None:
        """Count an executed instruction that acts on the machine."""
        self.operations[opcode] = self.operations.get(opcode, 0) + times

    def add_warp(self, index: int, executed: int, waits_on: Iterable[int]) -> None:
        """Add the counts of a warp. waits_on: the mbarriers that it waited for, by their order of initialisation."""
        self.by_warp[index] = self.by_warp.get(index, 0) + executed
        self.longest_warp = max(self.longest_warp, executed)
        self.waits_on.setdefault(index, set()).update(waits_on)

    def add_mbarrier(self, order: int, offset: int, waits: int, phases: int) -> None:
        """Add the use of an mbarrier, the `order`-th that its CTA initialised."""
        use = self.mbarriers.setdefault(order, MBarrierUse(offset))
        use.waits += waits
        use.phases += phases

    def count_wavefronts(self) -> None:
        """Count the wavefronts of the shared-memory accesses so far."""
        for (size, pattern), count in self._patterns.items():
            wavefronts, needed = passes(size, pattern)
            self.shared_accesses += count
            self.shared_wavefronts += count * wavefronts
            self.shared_conflicts += count * (wavefronts - needed)
        self._patterns.clear()

    def add(self, other: Stats) -> None:
        """Add the counts of other CTAs of the launch."""
        longest = max(self.longest_warp, other.longest_warp)
        self.paths, self.acted = other.paths | self.paths, self.acted | other.acted
        for warp, executed in other.by_warp.items():
            self.add_warp(warp, executed, other.waits_on.get(warp, ()))
        for order, use in other.mbarriers.items():
            self.add_mbarrier(order, use.offset, use.waits, use.phases)
        for opcode, times in other.operations.items():
            self.count_operation(opcode, times)
        self.first_swizzle_mismatch = self.first_swizzle_mismatch or other.first_swizzle_mismatch
        for count in (f.name for f in fields(self) if f.type == "int"):
            setattr(self, count, getattr(self, count) + getattr(other, count))
        self.longest_warp = longest


def shape_of(offsets: np.ndarray, size: int) -> Shape:
    """Return the shape of an access of `size` bytes at each of `offsets` (one per lane)."""
    return size, (offsets - (offsets.item(0) & -WAVEFRONT_BYTES)).tobytes()


@lru_cache(maxsize=4096)
def passes(size: int, pattern: bytes) -> tuple[int, int]:
    """Return (passes over the banks, passes without conflicts) of an access of `size` bytes at each offset.

    Lanes are served in groups whose bytes fill the banks once: 32 lanes of 4 bytes, 16 of 8, 8 of 16. Lanes that access
    the same word share it.
    """
    offsets = np.frombuffer(pattern, np.intp)
    group = WAVEFRONT_BYTES // max(size, BANK_BYTES)
    words = offsets[:, None] // BANK_BYTES + np.arange(max(size // BANK_BYTES, 1))
    passes = 0
    starts = range(0, len(offsets), group)
    for start in starts:
        wanted = np.unique(words[start : start + group])
        passes += int(np.bincount(wanted % SHARED_BANKS).max())
    return passes, len(starts)
