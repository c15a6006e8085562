"""The configuration, as far as device code of both chips uses it: mbarriers, rings, and properties per chip."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

from kernel.hardware import BF16_BYTES, FP32_BYTES, MBARRIER_BYTES, SMEM_BYTES, WARP
from kernel.problem import Features

MAX_DEPTH = 4  # KV tiles that a ring holds, a power of two
STATS = 2  # fp32 behind a row of U in a partial result: the row's maximum and sum; then its largest logit, if needed
PARTIAL_PADDING = 4  # fp32 behind a row of U, with those: rows begin in different banks


@dataclass(frozen=True)
class Barrier:
    """An mbarrier, or one per stage: the arrivals that complete a phase, the arriving warps, the waiting warps.

    of_warp: arrivals of each warp, for a slot of keys or a part of it.
    """

    name: str
    stages: int
    arrivals: int
    arrives: str
    waits: str
    of_warp: int = 1


@dataclass(frozen=True)
class Ring:
    """The slots of K, of V if V is not read as K, or of rotary columns. A KV tile has slices, each loaded by one warp.

    box: keys and dims of a slice. along_keys: slices divide the tile's keys, else its dims. clears_tail: the warp
    overwrites keys that may be NaN with zeros.
    """

    name: Literal["k", "v", "rope"]
    warps: tuple[int, ...]
    box: tuple[int, int]
    along_keys: bool
    clears_tail: bool

    @property
    def full(self) -> str:
        """Name of the barrier that says that a slot is full."""
        return f"{self.name}_full"

    @property
    def empty(self) -> str:
        """Name of the barrier that says that a slot is free."""
        return f"{self.name}_empty"

    @property
    def slice_bytes(self) -> int:
        """Bytes of a slice."""
        return self.box[0] * self.box[1] * BF16_BYTES


class SharedMemory(ABC):
    """Bytes of shared memory: barriers, Q, a ring of K, one of V unless V is read as K, P, O's staging buffer.

    If K has rotary columns that V lacks, Q's buffer has them too, and K's have a separate slot.
    """

    variant: Any
    head_dim: int
    rings: int
    rope_dim: int

    @property
    @abstractmethod
    def reserved_bytes(self) -> int:
        """Barriers, and the values that threads of a row exchange."""

    @property
    @abstractmethod
    def p_bytes(self) -> int:
        """P, if it is in shared memory."""

    @property
    @abstractmethod
    def o_bytes(self) -> int:
        """Staging buffers of O; 0 if O is staged in another buffer."""

    @property
    @abstractmethod
    def depth(self) -> int:
        """KV tiles that a ring holds: a power of two, as many as fit."""

    @property
    def q_bytes(self) -> int:
        """All Q tiles of a CTA."""
        return self.variant.q_tiles * self.variant.tile_m * (self.head_dim + self.rope_dim) * BF16_BYTES

    @property
    def kv_tile_bytes(self) -> int:
        """A tile of K or V in one CTA: half of it with 2-CTA MMA."""
        return self.variant.block_n * self.head_dim * BF16_BYTES // self.variant.mma_ctas

    @property
    def rope_bytes(self) -> int:
        """The rotary columns of a tile of K."""
        return self.variant.block_n * self.rope_dim * BF16_BYTES

    @property
    def kv_bytes(self) -> int:
        """All rings."""
        return self.depth * self.kv_tile_bytes * self.rings

    @property
    def total_bytes(self) -> int:
        """All buffers."""
        return self.reserved_bytes + self.q_bytes + self.rope_bytes + self.p_bytes + self.o_bytes + self.kv_bytes


@dataclass(frozen=True, kw_only=True)
class DeviceConfig(Features, ABC):
    """A configuration: the features of a problem, and the choices that a chip's kernel made for it.

    splits: CTAs of a cluster over which the KV tiles of a row tile are split.
    """

    splits: int = 1

    def check_memory(self) -> None:
        """Assert that shared memory is large enough, and that a partial result fits into the buffers of Q and keys."""
        assert self.smem.total_bytes <= SMEM_BYTES, f"{self.smem.total_bytes} B of shared memory, {self}"
        reused = self.smem.q_bytes + self.smem.kv_bytes
        assert self.splits == 1 or self.partial_bytes <= reused, f"{self.partial_bytes} B of partials, {self}"

    # Facts of a chip's configuration.

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the kernel in PTX, profiles and reports."""

    @property
    @abstractmethod
    def variant(self) -> Any:
        """The division of work: an object of a class of the chip, which has at least these fields.

        q_tiles: Q tiles of a CTA. mma_ctas: CTAs of one MMA. leader: rank of the CTA whose MMA warp works for a pair.
        slices: parts of a KV tile that are loaded and released separately. tile_m: rows of a Q tile. block_n: keys of a
        KV tile. rows_per_warp: rows of O that a warp stores.
        """

    @property
    @abstractmethod
    def smem(self) -> Any:
        """The buffers of shared memory, a SharedMemory of the chip."""

    @property
    @abstractmethod
    def barriers(self) -> tuple[Barrier, ...]:
        """Every mbarrier of the kernel, in the order in which they are in shared memory."""

    @property
    @abstractmethod
    def rings(self) -> tuple[Ring, ...]:
        """The ring of K, the ring of V unless V is read as K, and slots with load warps of their own."""

    @property
    @abstractmethod
    def threads(self) -> int:
        """Threads of a CTA."""

    @property
    @abstractmethod
    def block_m(self) -> int:
        """Rows of a CTA's row tile."""

    @property
    @abstractmethod
    def loads_v(self) -> bool:
        """True if V is loaded separately from K."""

    @property
    @abstractmethod
    def crosses_proxies(self) -> bool:
        """True if cp.async itself arrives for keys, and the warp that multiplies executes the proxy fence."""

    @property
    def gathering(self) -> int:
        """Arrivals of a warp that gathers keys: its own, and one of each lane's copies.

        Without .noinc cp.async.mbarrier.arrive adds an arrival first, which compute-sanitizer reports as an overflow.
        """
        return 1 + WARP * self.crosses_proxies

    @property
    @abstractmethod
    def stores_by_tma(self) -> bool:
        """True if TMA stores the results."""

    @property
    @abstractmethod
    def zigzag(self) -> bool:
        """True if row tiles are dealt in a zigzag: they differ in how many keys they see."""

    @property
    @abstractmethod
    def group_after_group(self) -> bool:
        """True if all row tiles of a group are dealt before those of the next; else those of all groups alternate."""

    @property
    @abstractmethod
    def adjacent_ctas(self) -> int:
        """CTAs that have adjacent row tiles and the same KV tiles."""

    @property
    @abstractmethod
    def cluster_ctas(self) -> int:
        """CTAs of a cluster."""

    @property
    def loading_ctas(self) -> int:
        """Adjacent CTAs of a cluster that load each KV tile together, a part each."""
        return 1

    # The variant's facts.

    @property
    def q_tiles(self) -> int:
        """Q tiles of a CTA."""
        return self.variant.q_tiles

    @property
    def mma_ctas(self) -> int:
        """CTAs of one MMA."""
        return self.variant.mma_ctas

    @property
    def slices(self) -> int:
        """Slices of a KV tile."""
        return self.variant.slices

    @property
    def tile_m(self) -> int:
        """Rows of a Q tile."""
        return self.variant.tile_m

    @property
    def block_n(self) -> int:
        """Keys of a KV tile."""
        return self.variant.block_n

    # Consequences.

    @property
    def k_slice(self) -> tuple[int, int]:
        """Keys and dims of a slice of K in one CTA."""
        return self.block_n // self.mma_ctas, self.head_dim // self.slices

    @property
    def v_slice(self) -> tuple[int, int]:
        """Keys and dims of a slice of V in one CTA: as of K, or with 2-CTA MMA some keys with half of the dims."""
        if self.mma_ctas == 1:
            return self.k_slice
        return self.block_n // self.slices, self.head_dim // 2

    @property
    def partial_row(self) -> int:
        """Elements (fp32) from a row of a partial result to the next: U, maximum, sum and padding."""
        return self.head_dim + PARTIAL_PADDING

    @property
    def partial_bytes(self) -> int:
        """Bytes of a CTA's partial result, which overwrites the buffers of Q and the keys."""
        return self.block_m * self.partial_row * FP32_BYTES

    # Mbarriers by name.

    def barrier(self, name: str) -> Barrier:
        """Return the mbarrier, or the stages of mbarriers, called `name`."""
        return next(barrier for barrier in self.barriers if barrier.name == name)

    def barrier_offset(self, name: str) -> int:
        """Return the index of the first mbarrier called `name`."""
        offset = 0
        for barrier in self.barriers:
            if barrier.name == name:
                return offset
            offset += barrier.stages
        raise KeyError(name)

    @property
    def mbarriers(self) -> dict[int, str]:
        """The name of each mbarrier by its offset in bytes in dynamic shared memory, where they come first."""
        stages = (f"{b.name}[{i}]" if b.stages > 1 else b.name for b in self.barriers for i in range(b.stages))
        return {MBARRIER_BYTES * i: name for i, name in enumerate(stages)}

    @property
    def barrier_count(self) -> int:
        """Number of mbarriers."""
        return sum(barrier.stages for barrier in self.barriers)


def has_role(warps: tuple[int, ...], warp: Any) -> Any:
    """Return whether a warp, a number or traced, is one of a role's consecutive warps."""
    first = warps[0]
    end = warps[-1] + 1
    return warp < end if first == 0 else (warp >= first) & (warp < end)
