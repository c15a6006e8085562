"""A configuration of the kernel: everything that is fixed when it is compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from kernel.device.config import Barrier, DeviceConfig, Ring
from kernel.errors import ArgumentError
from kernel.hardware import WARP, WARPGROUP
from kernel.problem import SPLITS, V41, PPath
from kernel.sm100.hardware import TMEM_COLS, TMEM_LANES
from kernel.sm100.memory import S_STAGES, SharedMemory, TensorMemory
from kernel.sm100.roles import Roles
from kernel.sm100.variants import ProductOrder, Variant, variant

P_PARTS = (range(3), range(3, 4))  # quarters of P's keys that are published together: PV starts during the last quarter


@dataclass(frozen=True, kw_only=True)
class FmhaConfig(DeviceConfig):
    """The features of a problem, and the choices that the kernel made for it.

    p_path: the memory through which P goes to the second product; "smem" at head_dim 512. splits: CTAs of a cluster
    over which the KV tiles of a row tile are split. block_rows: rows of a CTA if fewer than a Q tile, so that more
    CTAs merge fewer rows each. variant: a row of the table; by default the one for one Q tile, or for split keys.
    Raises ArgumentError for values that do not exist or are incompatible.
    """

    p_path: PPath = "tmem"
    block_rows: int | None = None
    variant: Variant = None  # replaced by __post_init__, which knows the head dim

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variant is None:
            row = variant("one Q tile" if self.splits == 1 else "split keys", self.head_dim)
            object.__setattr__(self, "variant", row)
        self._check()
        assert self.tmem.cols <= TMEM_COLS, f"{self.tmem.cols} tensor-memory columns, {self}"
        self.check_memory()

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

    # Consequences of the row and the features.

    @property
    def roles(self) -> Roles:
        """The warps of each role."""
        return self.variant.roles

    @property
    def loads_v(self) -> bool:
        """True if V is loaded as well as K: it is another tensor, or a CTA of a pair needs other parts of it."""
        return self.mma_ctas == 2 or not self.shared_kv

    @property
    def product_order(self) -> ProductOrder:
        """The order of the products."""
        return self.variant.order if self.loads_v else self.variant.order_v_is_k

    @property
    def crosses_proxies(self) -> bool:
        """True if cp.async itself arrives, and the MMA warp executes the proxy fence. A pair's warps wait and fence."""
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
        """CTAs that have adjacent row tiles and the same KV tiles: the CTAs of one MMA."""
        return self.mma_ctas

    @property
    def cluster_ctas(self) -> int:
        """CTAs of a cluster: the CTAs of one MMA, or the CTAs that split the keys."""
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
        """True if a CTA pair converts: each load warp of K has some keys of its CTA's half, with all columns."""
        return self.variant.converts

    @property
    def converts_in_turn(self) -> bool:
        """True if each load warp converts all columns of some keys; V's load warps, idle otherwise, help."""
        return self.variant.swapped and self.quantised

    @property
    def tmem_slices(self) -> int:
        """Slices of A of QK that fit into tensor memory: of converted keys or, in a pair that converts, of Q."""
        if self.converts_in_pair:
            return self.slices // 2
        return self.converts_in_turn * (self.slices if self.tile_m <= 32 else self.slices - 1)

    @property
    def pv_behind(self) -> int:
        """The number of slices by which PV[i - 1] is issued behind QK[i], with operands swapped.

        A smaller number releases the first slots earlier. With 64 heads P' stays in the collector buffer for all slices
        of PV after QK's last one, so a larger number reads the port of shared memory less. V4.1's keys take too long to
        convert for that.
        """
        if self.tile_m == 16:
            return 1
        return 3 if self.tile_m == 64 and V41.isdisjoint(each.layout for each in self.caches) else 2

    @property
    def prefetches_after_o(self) -> bool:
        """True if the next row tile's Q is prefetched only when O of the previous row tile is stored."""
        return self.variant.swapped and self.splits == 1

    @property
    def late_slices(self) -> int:
        """Slices of a KV tile that reuse its first slices' columns of tensor memory, once QK has read them."""
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
            Barrier("k_full", slots, loading * self.gathering, "load of each CTA", readers, self.gathering),
            Barrier("k_empty", slots, 1, "mma", "load"),
            Barrier("v_full", slots * self.loads_v, ctas, "values of each CTA", "mma"),
            Barrier("v_empty", slots * self.loads_v, 1, "mma", "values"),
            Barrier("rope_full", int(self.rope_dim > 0), self.gathering, "values", "mma", self.gathering),
            Barrier("rope_empty", int(self.rope_dim > 0), 1, "mma", "values"),
            Barrier("a_empty", S_STAGES * self.late_slices, 1, "mma", "load"),
            Barrier("tail_full", self.slices, 1, "load, or values", "the same warp"),
            Barrier("s_full", S_STAGES, 1, "mma", "softmax"),
            Barrier("p_full", S_STAGES * len(self.p_parts), softmax, "softmax", "mma"),
            Barrier("o_begun", int(self.prefetches_after_o), 1, "mma", "queries"),
            Barrier("o_done", S_STAGES, 1, "mma", "softmax"),
        )
