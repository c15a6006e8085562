"""A configuration of the kernel: everything that is fixed when it is compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from kernel.errors import ArgumentError
from kernel.hardware import (
    BF16_BYTES,
    FP32_BYTES,
    MBARRIER_BYTES,
    SMEM_BYTES,
    TMEM_COLS,
    TMEM_LANES,
    WARP,
    WARPGROUP,
)
from kernel.memory import S_STAGES, SharedMemory, TensorMemory
from kernel.problem import V41, Features, PPath
from kernel.roles import Roles
from kernel.variants import SPLITS, ProductOrder, Variant, variant

P_PARTS = (range(3), range(3, 4))  # quarters of P's keys that are published together: PV starts during the last quarter
STATS = 2  # fp32 behind a row of U in a partial result: the row's maximum and sum; then its largest logit, if needed
PARTIAL_PADDING = 4  # fp32 behind a row of U, with those: rows begin in different banks


@dataclass(frozen=True)
class Barrier:
    """An mbarrier, or one per stage: the arriving warps, the arrivals that complete a phase, the waiting warps."""

    name: str
    stages: int
    arrivals: int
    arrives: str
    waits: str


class Mbarriers:
    """The mbarriers of a configuration, which says which there are."""

    @property
    def barriers(self) -> tuple[Barrier, ...]:
        """Every mbarrier of the kernel, in the order in which they are in shared memory."""
        raise NotImplementedError

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


@dataclass(frozen=True, kw_only=True)
class FmhaConfig(Features, Mbarriers):
    """The features of a problem, and the choices that the kernel made for it.

    p_path: the memory through which P goes to the second product; "smem" at head_dim 512. splits: CTAs of a cluster
    over which the KV tiles of a row tile are split. block_rows: rows of a CTA if fewer than a Q tile; more CTAs then
    merge less each. variant: a row of the table; by default the one for one Q tile, or for split keys.
    Raises ArgumentError for values that do not exist or do not go together.
    """

    p_path: PPath = "tmem"
    splits: int = 1
    block_rows: int | None = None
    variant: Variant = None  # type: ignore[assignment]  # replaced by __post_init__, which knows the head dim

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variant is None:
            row = variant("one Q tile" if self.splits == 1 else "split keys", self.head_dim)
            object.__setattr__(self, "variant", row)
        self._check()
        assert self.tmem.cols <= TMEM_COLS, f"{self.tmem.cols} tensor-memory columns, {self}"
        assert self.smem.total_bytes <= SMEM_BYTES, f"{self.smem.total_bytes} B of shared memory, {self}"
        reused = self.smem.q_bytes + self.smem.kv_bytes
        assert self.splits == 1 or self.partial_bytes <= reused, f"{self.partial_bytes} B of partials, {self}"

    def _check(self) -> None:
        row = self.variant
        if self.head_dim not in row.head_dims:
            raise ArgumentError("variant", repr(row.name), f"one that supports head_dim {self.head_dim}")
        if self.p_path not in get_args(PPath):
            raise ArgumentError("p_path", repr(self.p_path), "'tmem' or 'smem'")
        if row.tile_m < TMEM_LANES and self.p_path == "tmem":
            raise ArgumentError("p_path", repr(self.p_path), f"'smem' at head_dim {self.head_dim}")
        if self.splits not in row.splits:
            allowed = f"1 with the variant {row.name!r}" if row.splits == (1,) else f"one of {SPLITS}"
            raise ArgumentError("splits", self.splits, allowed)
        if self.block_rows is not None and (self.splits == 1 or self.block_rows not in row.short_block_rows):
            raise ArgumentError("block_rows", self.block_rows, f"one of {row.short_block_rows} if keys are split")
        if row.q_tiles > 1 and (self.p_path == "smem" or self.by_token):
            # Its load warps keep too few registers to copy top-k keys, and it has P in tensor memory only.
            raise ArgumentError("variant", repr(row.name), "another one with P in smem or top-k indices")
        if row.swapped and (not self.caches or self.rope_dim):
            raise ArgumentError("variant", repr(row.name), "another one without caches or with rope_dim above 0")
        if row.converts != (self.quantised and not self.rope_dim) and not row.swapped:
            allowed = (
                "one with operands swapped, or the CTA pair that converts, for quantised keys without rope_dim alone"
            )
            raise ArgumentError("variant", repr(row.name), allowed)
        if self.rope_dim and row.mma_ctas == 2:  # shared memory of a pair is full
            raise ArgumentError("variant", repr(row.name), "another one with rope_dim above 0")

    @property
    def name(self) -> str:
        """Name of the kernel in PTX, profiles and reports."""
        parts = [f"fmha_hd{self.head_dim}", self.p_path] + [self.mask] * (self.mask != "none")
        parts += ["shared_kv"] * self.shared_kv + [self.compressed] * (self.compressed != "none")
        parts += [f"rope{self.rope_dim}"] * (self.rope_dim > 0)
        parts += [each.name for each in self.caches] + ["maxima"] * self.maxima
        parts += ["two_q_tiles"] * (self.q_tiles == 2)
        parts += ["sink"] * self.sink + ["partials"] * self.partials
        parts += [f"splits{self.splits}"] * (self.splits > 1) + [f"rows{self.block_rows}"] * bool(self.block_rows)
        parts += ["cta_pair"] * (self.mma_ctas == 2) + [f"swapped{self.tile_m}"] * self.variant.swapped
        return "_".join(parts)

    # The variant's row.

    @property
    def roles(self) -> Roles:
        """The warps of each role."""
        return self.variant.roles

    @property
    def q_tiles(self) -> int:
        """Q tiles in flight."""
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

    # Consequences of the row and the features

    @property
    def loads_v(self) -> bool:
        """True if V is loaded beside K: it is another tensor, or a CTA of a pair needs other parts of it."""
        return self.mma_ctas == 2 or not self.shared_kv

    @property
    def product_order(self) -> ProductOrder:
        """The order of the products."""
        return self.variant.order if self.loads_v else self.variant.order_v_is_k

    @property
    def crosses_proxies(self) -> bool:
        """True if the MMA warp orders copies by cp.async before its reads. In a pair, the warps that copy do."""
        return self.by_token and self.mma_ctas == 1 and not self.quantised

    @property
    def stores_by_tma(self) -> bool:
        """True if TMA stores the results: not those that the CTAs of a cluster merge, nor transposed ones."""
        return self.splits == 1 and not self.variant.swapped

    @property
    def zigzag(self) -> bool:
        """True if row tiles are dealt in a zigzag: they differ in how many keys they see."""
        return self.variant.zigzag and self.mask == "causal" and self.compressed == "none"

    @property
    def group_after_group(self) -> bool:
        """False: the row tiles of groups alternate."""
        return False

    @property
    def adjacent_ctas(self) -> int:
        """CTAs that have adjacent row tiles and the same KV tiles: those of one MMA."""
        return self.mma_ctas

    @property
    def cluster_ctas(self) -> int:
        """CTAs of a cluster: those of one MMA, or those that split the keys."""
        return self.mma_ctas * self.splits

    # Tiles.

    @property
    def block_m(self) -> int:
        """Rows of a CTA's row tile."""
        return self.block_rows or self.q_tiles * self.tile_m

    @property
    def qk_tiler(self) -> tuple[int, int]:
        """M and N of S = Q K'."""
        return self.mma_ctas * self.tile_m, self.block_n

    @property
    def pv_tiler(self) -> tuple[int, int, int]:
        """M, N and K of O = P V."""
        return self.mma_ctas * self.tile_m, self.head_dim, self.block_n

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
    def p_parts(self) -> tuple[range, ...]:
        """The equal pieces of P in each part that is published at once."""
        return P_PARTS if self.p_path == "tmem" else (range(1),)

    # Memory.

    @property
    def tmem(self) -> TensorMemory:
        """The columns of tensor memory."""
        return TensorMemory(self.variant, self.head_dim, self.p_path, self.tmem_slices)

    @property
    def smem(self) -> SharedMemory:
        """The buffers of shared memory."""
        return SharedMemory(self.variant, self.head_dim, self.p_path, 2 if self.loads_v else 1, self.rope_dim)

    @property
    def partial_row(self) -> int:
        """Elements (fp32) from a row of a partial result to the next: U, maximum, sum and padding."""
        return self.head_dim + PARTIAL_PADDING

    @property
    def partial_bytes(self) -> int:
        """Bytes of a CTA's partial result, which takes over the buffers of Q and the keys."""
        return self.block_m * self.partial_row * FP32_BYTES

    # Warps.

    @property
    def rings(self) -> tuple[Ring, ...]:
        """The ring of K, the ring of V unless V is read as K, and the slot of K's rotary columns if it has any."""
        warps = self.roles.load + self.roles.values * self.converts_in_turn
        k = Ring("k", warps, self.k_slice, along_keys=False, clears_tail=not self.loads_v)
        v = Ring("v", self.roles.values, self.v_slice, along_keys=self.mma_ctas == 2, clears_tail=True)
        rope = Ring("rope", self.roles.values[:1], (self.block_n, self.rope_dim), along_keys=False, clears_tail=False)
        return (k,) + (v,) * self.loads_v + (rope,) * (self.rope_dim > 0)

    @property
    def converts_in_pair(self) -> bool:
        """True if the warps of a CTA pair convert: each that loads K has some keys of its CTA's half, all columns."""
        return self.variant.converts

    @property
    def converts_in_turn(self) -> bool:
        """True if each warp that loads K has some keys of all columns, and those of V, which are idle, help."""
        return self.variant.swapped and self.quantised

    @property
    def tmem_slices(self) -> int:
        """Slices of A of QK that fit into tensor memory: of converted keys or, in a pair that converts, of Q."""
        if self.converts_in_pair:
            return self.slices // 2
        return self.converts_in_turn * (self.slices if self.tile_m <= 32 else self.slices - 1)

    @property
    def pv_behind(self) -> int:
        """Slices from one of QK[i] to the one of PV[i - 1] that follows it, with operands swapped.

        With fewer, the first slots are released earlier. With 64 heads P' stays in the tensor core for all slices of PV
        after the last one of QK, so with more its port is read less; V4.1's keys take too long to convert for that.
        """
        if self.tile_m == 16:
            return 1
        return 3 if self.tile_m == 64 and V41.isdisjoint(each.layout for each in self.caches) else 2

    @property
    def prefetches_after_o(self) -> bool:
        """True if the next row tile's Q is prefetched only when O of the row tile before is stored."""
        return self.variant.swapped and self.splits == 1

    @property
    def late_slices(self) -> int:
        """Slices of a KV tile that take the columns of its first ones in tensor memory, once QK has read those."""
        return self.slices - self.tmem_slices if self.converts_in_turn else 0

    @property
    def loaders(self) -> tuple[tuple[tuple[int, ...], Ring | None], ...]:
        """The warps that load, each group with its ring, or None for the warp that loads Q alone."""
        queries = ((self.roles.queries, None),) if self.roles.queries else ()
        return *((ring.warps, ring) for ring in self.rings), *queries

    @property
    def threads(self) -> int:
        """Threads of a CTA, in whole warpgroups if registers move between warps. A warp without a role ends at once."""
        used = self.roles.softmax + self.roles.mma
        warps = 1 + max(*used, *(warp for loading, _ in self.loaders for warp in loading))
        return WARP * (-(-warps // WARPGROUP) * WARPGROUP if self.variant.registers else warps)

    # Barriers.

    @property
    def barriers(self) -> tuple[Barrier, ...]:
        """Every mbarrier of the kernel, in the order in which they are in shared memory."""
        ctas = self.mma_ctas
        slots = self.smem.depth * self.slices
        softmax = len(self.roles.softmax) // self.q_tiles * ctas  # one elected lane per warp arrives
        loading = ctas * (len(self.roles.load) if self.converts_in_turn or self.converts_in_pair else 1)
        queries = "queries" if self.roles.queries else "load"
        readers = "mma, softmax" if self.variant.swapped else "mma"
        return (
            Barrier("q_full", 1, ctas, f"{queries} of each CTA", "mma"),
            Barrier("q_empty", 1, 1, "mma", queries),
            Barrier("k_full", slots, loading, "load of each CTA", readers),
            Barrier("k_empty", slots, 1, "mma", "load"),
            Barrier("v_full", slots * self.loads_v, ctas, "values of each CTA", "mma"),
            Barrier("v_empty", slots * self.loads_v, 1, "mma", "values"),
            Barrier("rope_full", int(self.rope_dim > 0), 1, "values", "mma"),
            Barrier("rope_empty", int(self.rope_dim > 0), 1, "mma", "values"),
            Barrier("a_empty", S_STAGES * self.late_slices, 1, "mma", "load"),
            Barrier("tail_full", self.slices, 1, "load, or values", "the same warp"),
            Barrier("s_full", S_STAGES, 1, "mma", "softmax"),
            Barrier("p_full", S_STAGES * len(self.p_parts), softmax, "softmax", "mma"),
            Barrier("o_begun", int(self.prefetches_after_o), 1, "mma", "queries"),
            Barrier("o_done", S_STAGES, 1, "mma", "softmax"),
        )
