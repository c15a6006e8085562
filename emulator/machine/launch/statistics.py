"""What a launch did, in counts that do not depend on the machine that emulates it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import lru_cache

import numpy as np

from ...chip import BANK_BYTES, SHARED_BANKS

WAVEFRONT_BYTES = SHARED_BANKS * BANK_BYTES

Shape = tuple[int, bytes]
"""Of an access of shared memory: the bytes of each lane, and where each begins, from the wavefront of the first on."""


@dataclass
class MBarrierUse:
    """One mbarrier, over all CTAs: `offset` in the CTA's shared window, waits that ended, phases that completed."""

    offset: int
    waits: int = 0
    phases: int = 0


@dataclass
class Stats:
    """Counts of one launch, over all its CTAs.

    by_warp: warp-instructions executed, by the warp's index in its CTA. waits_on: the mbarriers that each warp index
    waited for, by their order of initialisation; mbarriers: what became of each.
    copied_in_bytes, copied_out_bytes: moved into and out of shared memory by TMA, bulk copies and cp.async, what is
    filled with zeros included, a multicast once for each CTA that it reaches. global_load_bytes, global_store_bytes:
    asked for by ordinary instructions of the active lanes, an address that is the same for the warp once.
    mma_flops: 2 M N K of every tcgen05.mma, that of a pair of CTAs once.
    shared_accesses: ordinary loads and stores of shared memory, an atomic as one of each, a warp's as one.
    shared_wavefronts: passes over the 32 banks of 4 bytes that they take. shared_conflicts: how many of those would
    not be needed if no two lanes wanted different words of one bank.
    swizzle_mismatches: 16-byte pieces of shared memory that a matrix descriptor or a TMA store read by another swizzle
    than that by which a TMA load wrote them; first_swizzle_mismatch: who read and who wrote the first of them.
    """

    by_warp: dict[int, int] = field(default_factory=dict)
    waits_on: dict[int, set[int]] = field(default_factory=dict)
    mbarriers: dict[int, MBarrierUse] = field(default_factory=dict)
    copied_in_bytes: int = 0
    copied_out_bytes: int = 0
    global_load_bytes: int = 0
    global_store_bytes: int = 0
    mma_flops: int = 0
    shared_accesses: int = 0
    shared_wavefronts: int = 0
    shared_conflicts: int = 0
    swizzle_mismatches: int = 0
    first_swizzle_mismatch: str = ""
    _patterns: dict[Shape, int] = field(default_factory=dict, repr=False, compare=False)

    @property
    def instructions(self) -> int:
        """Warp-instructions executed."""
        return sum(self.by_warp.values())

    @property
    def by_role(self) -> dict[tuple[int, ...], int]:
        """Warp-instructions of the warps that wait for the same mbarriers, which is what tells roles apart."""
        roles: dict[frozenset[int], list[int]] = {}
        for warp in sorted(self.by_warp):
            roles.setdefault(frozenset(self.waits_on.get(warp, ())), []).append(warp)
        return {tuple(warps): sum(self.by_warp[w] for w in warps) for warps in roles.values()}

    def access_shared(self, offsets: np.ndarray, size: int) -> None:
        """Note an ordinary access of `size` bytes at each of `offsets` (one a lane)."""
        self.count_access(shape_of(offsets, size), 1)

    def count_access(self, shape: Shape, times: int) -> None:
        """Note ordinary accesses of one shape, which is judged later."""
        self._patterns[shape] = self._patterns.get(shape, 0) + times

    def count_swizzle_mismatch(self, pieces: int, who: str) -> None:
        """Note pieces that were read by another swizzle than that of their writer. who: both, for people."""
        self.swizzle_mismatches += pieces
        self.first_swizzle_mismatch = self.first_swizzle_mismatch or who

    def add_warp(self, index: int, executed: int, waits_on: Iterable[int]) -> None:
        """Add what a warp did. waits_on: the mbarriers that it waited for, by their order of initialisation."""
        self.by_warp[index] = self.by_warp.get(index, 0) + executed
        self.waits_on.setdefault(index, set()).update(waits_on)

    def add_mbarrier(self, order: int, offset: int, waits: int, phases: int) -> None:
        """Add what became of an mbarrier, the `order`-th that its CTA initialised."""
        use = self.mbarriers.setdefault(order, MBarrierUse(offset))
        use.waits += waits
        use.phases += phases

    def judge_patterns(self) -> None:
        """Count the wavefronts of the accesses of shared memory so far."""
        for (size, pattern), count in self._patterns.items():
            wavefronts, needed = _wavefronts(size, pattern)
            self.shared_accesses += count
            self.shared_wavefronts += count * wavefronts
            self.shared_conflicts += count * (wavefronts - needed)
        self._patterns.clear()

    def add(self, other: Stats) -> None:
        """Add the counts of other CTAs of the launch."""
        for warp, executed in other.by_warp.items():
            self.add_warp(warp, executed, other.waits_on.get(warp, ()))
        for order, use in other.mbarriers.items():
            self.add_mbarrier(order, use.offset, use.waits, use.phases)
        self.first_swizzle_mismatch = self.first_swizzle_mismatch or other.first_swizzle_mismatch
        for count in (f.name for f in fields(self) if f.type == "int"):
            setattr(self, count, getattr(self, count) + getattr(other, count))


def shape_of(offsets: np.ndarray, size: int) -> Shape:
    """That of an access of `size` bytes at each of `offsets` (one a lane)."""
    return size, (offsets - (offsets.item(0) & -WAVEFRONT_BYTES)).tobytes()


@lru_cache(maxsize=4096)
def _wavefronts(size: int, pattern: bytes) -> tuple[int, int]:
    """(passes over the banks, passes without conflicts) of one access of `size` bytes at each offset of `pattern`.

    Lanes are served in groups whose bytes fill the banks once: 32 lanes of 4 bytes, 16 of 8, 8 of 16. Lanes that want
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
