"""A configuration of the Hopper kernel: everything that is fixed when it is compiled for sm_90a."""

from __future__ import annotations

from dataclasses import dataclass

from kernel.device import config
from kernel.device.config import MAX_DEPTH, Barrier, DeviceConfig, Ring
from kernel.errors import ArgumentError
from kernel.hardware import BF16_BYTES, SMEM_ALIGN, SMEM_BYTES, SWIZZLE_BYTES, WARP, WARPGROUP
from kernel.problem import SPLITS

TWO_PRODUCERS = {("v32",), ("v4", "v4"), ("v41", "v41_fp4")}  # layouts of caches


@dataclass(frozen=True)
class Roles:
    """The warps of each role.

    load: the producer warps that load K, each a slice of every KV tile or a quarter of the top-k
    keys; the first one loads Q, too. values: as many warps that load V, none if V is read as K. consumers: whole
    warpgroups, which multiply and compute the softmax.
    """

    load: tuple[int, ...]
    values: tuple[int, ...]
    consumers: tuple[int, ...]

    @property
    def softmax(self) -> tuple[int, ...]:
        """The warps that compute the softmax."""
        return self.consumers


@dataclass(frozen=True)
class Variant:
    """A way of dividing attention among warpgroups and KV tiles.

    q_tiles: Q tiles of a CTA, each for a consumer warpgroup; a single one is for two, which then have half of O's
    columns each. block_n: keys of a KV tile, the most for which a ring of two fits into shared memory. registers: of a
    producer thread and of a consumer thread. Their sum over the CTA is the launch's allocation: 384 threads of 168, or
    512 of 128.
    """

    q_tiles: int
    block_n: int
    registers: tuple[int, int]
    roles: Roles
    slices: int  # parts of a KV tile, along the dims, that are loaded and released separately
    tile_m: int = 64  # rows of a wgmma
    rows_per_warp: int = 16
    mma_ctas: int = 1
    leader: None = None

    @property
    def shares_rows(self) -> bool:
        """True if two consumer warpgroups have the same rows, and half of O's columns each."""
        return self.q_tiles == 1

    @property
    def warpgroups(self) -> int:
        """Consumer warpgroups."""
        return len(self.roles.consumers) // WARPGROUP


@dataclass(frozen=True)
class SharedMemory(config.SharedMemory):
    """Bytes of the buffers in shared memory. With rotary columns, O is staged in P's buffer for want of space."""

    variant: Variant
    head_dim: int
    rings: int
    rope_dim: int = 0

    @property
    def reserved_bytes(self) -> int:
        """Barriers, and the exchange between warpgroups with the same rows."""
        return SMEM_ALIGN * (2 if self.variant.shares_rows else 1)

    @property
    def p_bytes(self) -> int:
        """P of both warpgroups, if the other one reads it."""
        return self.variant.warpgroups * self.variant.tile_m * SWIZZLE_BYTES if self.variant.shares_rows else 0

    @property
    def stages_o_in_p(self) -> bool:
        """True if O is staged in P's buffer."""
        return self.rope_dim > 0

    @property
    def o_buffer_bytes(self) -> int:
        """A staging buffer of O and U: a swizzled row per row of every consumer warp."""
        return len(self.variant.roles.consumers) * self.variant.rows_per_warp * SWIZZLE_BYTES

    @property
    def o_buffers(self) -> int:
        """Staging buffers: two if O takes more than one and they fit, so that stores overlap."""
        if self.head_dim == 64 or self.variant.shares_rows:
            return 1
        used = self.reserved_bytes + self.q_bytes + self.kv_bytes
        return min(2, (SMEM_BYTES - used) // self.o_buffer_bytes)

    @property
    def o_bytes(self) -> int:
        """All staging buffers."""
        return 0 if self.stages_o_in_p else self.o_buffers * self.o_buffer_bytes

    @property
    def depth(self) -> int:
        """KV tiles that a ring holds: as many as fit, a power of two."""
        free = SMEM_BYTES - self.reserved_bytes - self.q_bytes - self.rope_bytes - self.p_bytes
        free -= 0 if self.stages_o_in_p else self.o_buffer_bytes
        fits = free // (self.kv_tile_bytes * self.rings)
        return min(MAX_DEPTH, 1 << fits.bit_length() - 1)


@dataclass(frozen=True, kw_only=True)
class HopperConfig(DeviceConfig):
    """The features of a problem, and the choices that the Hopper kernel made for it.

    splits: CTAs of a cluster over which the KV tiles of a row tile are split. warpgroups: of consumers, 2 or 3; three
    need head_dim 64 and neither splits nor top-k indices. adjacent_ctas: CTAs that have adjacent row tiles and the same
    KV tiles. small_tiles: KV tiles of 32 keys at head_dim 512, of which four are in flight, not two of 64. row_parts:
    above 1, a CTA has so small a part of a Q tile's rows, in the first rows of the tile; with split keys, where a
    merge of fewer rows is worth products of rows that count for nothing. loads_pages: TMA loads the keys of a block
    table's pages, which hold whole KV tiles. Raises ArgumentError.
    """

    warpgroups: int = 2
    adjacent_ctas: int = 1
    small_tiles: bool = False
    row_parts: int = 1
    loads_pages: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.splits not in SPLITS:
            raise ArgumentError("splits", self.splits, f"one of {SPLITS}")
        self.check_memory()

    @property
    def name(self) -> str:
        """Name of the kernel in PTX, profiles and reports."""
        parts = [f"fmha_sm90_hd{self.head_dim}"] + [f"rope{self.rope_dim}"] * (self.rope_dim > 0)
        parts += [self.mask] * (self.mask != "none")
        parts += ["shared_kv"] * self.shared_kv + [self.compressed] * (self.compressed != "none")
        parts += [each.name for each in self.caches] + ["maxima"] * self.maxima
        parts += ["sink"] * self.sink + ["partials"] * self.partials
        parts += ["three"] * (self.warpgroups == 3) + ["small_tiles"] * self.small_tiles
        parts += ["pages"] * self.loads_pages
        parts += [f"adjacent{self.adjacent_ctas}"] * (self.adjacent_ctas > 1)
        parts += [f"rows{self.block_m}"] * (self.row_parts > 1)
        return "_".join(parts + [f"splits{self.splits}"] * (self.splits > 1))

    # The variant.

    @property
    def roles(self) -> Roles:
        """The warps of each role.

        K and V are loaded by a warp each, at head_dim 512 by two each, or by four if V is K. Keys of top-k indices are
        loaded by the warps of all producer warpgroups.
        """
        producers = self.producers * WARPGROUP
        consumers = tuple(range(producers, producers + self.warpgroups * WARPGROUP))
        if self.loads_v:
            return Roles((0, 1), (2, 3), consumers) if self.head_dim == 512 else Roles((0,), (1,), consumers)
        warps = producers if self.by_token or self.head_dim == 512 else 1
        return Roles(tuple(range(warps)), (), consumers)

    @property
    def variant(self) -> Variant:
        """The division of work. A warp that copies keys needs registers for their addresses, of 64 bits in caches."""
        roles = self.roles
        registers = (48, 208) if self.producers == 2 else (88, 208) if self.gathers else (40, 232)
        slices = len(roles.load) // self.producers if not self.copies_pairs else 2 if self.head_dim == 512 else 1
        if self.head_dim == 512:
            return Variant(1, 32 if self.loads_v or self.small_tiles else 64, registers, roles, slices)
        if self.warpgroups == 3:
            registers = 32, 160
        return Variant(self.warpgroups, 64 if self.head_dim == 256 or self.by_token else 128, registers, roles, slices)

    # Consequences of the variant and the features

    @property
    def producers(self) -> int:
        """Producer warpgroups: two where pairs convert keys. While one waits for codes, the other converts.

        Elsewhere registers would spill: with split keys, a block table, lengths of two layouts, other layouts.
        """
        spills = self.splits > 1 or any(each.table or (each.lens and not self.one_layout) for each in self.caches)
        simple = self.loading_ctas > 1 and not spills
        return 2 if simple and tuple(each.layout for each in self.caches) in TWO_PRODUCERS else 1

    @property
    def keeps_number(self) -> bool:
        """True if a load warp keeps the number of its row tile in shared memory: ptxas would spill it."""
        return self.producers == 2 and not self.one_layout

    @property
    def gathers(self) -> bool:
        """True if load warps copy or convert keys one by one."""
        return self.by_token and not self.loads_pages

    @property
    def copies_pairs(self) -> bool:
        """True if every load warp copies a part of every slice, for two KV tiles at a time."""
        return self.loads_by_release and self.gathers

    @property
    def loads_by_release(self) -> bool:
        """True if slices are loaded in the order in which they are released: of odd KV tiles the right half first."""
        return self.by_token and not self.quantised

    @property
    def stores_by_tma(self) -> bool:
        """True if TMA stores the results: not those that the CTAs of a cluster merge."""
        return self.splits == 1

    @property
    def takes_turns(self) -> bool:
        """True if consumer warpgroups alternate in issuing: at head_dim 256 products are long enough without."""
        return self.head_dim < 256

    @property
    def compares_words(self) -> bool:
        """True if logits are compared as integers, three at a time: up to head_dim 128, where instructions are many."""
        return self.head_dim <= 128

    @property
    def keeps_q(self) -> bool:
        """True if consumers keep Q in registers: at head_dim 128 they have enough."""
        return self.head_dim == 128 and not self.by_token

    @property
    def keeps_rope(self) -> bool:
        """True if consumers keep Q's rotary columns in registers: their buffer is then a second slot for those of K."""
        return self.loads_pages and self.rope_dim > 0

    @property
    def loads_v(self) -> bool:
        """True if V is not read as K."""
        return not self.shared_kv

    @property
    def crosses_proxies(self) -> bool:
        """True if consumers execute the proxy fence: cp.async arrives itself, and a load warp would wait for loads."""
        return self.gathers and not (self.quantised and self.loading_ctas > 1)

    @property
    def zigzag(self) -> bool:
        """True if row tiles are dealt in a zigzag: they differ in how many keys they see."""
        return self.mask == "causal" and self.compressed == "none"

    @property
    def group_after_group(self) -> bool:
        """True if all row tiles of a group are dealt before those of the next: they see equally many keys.

        At head_dim 64 that is slower by up to 0.8%.
        """
        return self.mask == "none" and self.compressed == "none" and self.head_dim > 64

    @property
    def loading_ctas(self) -> int:
        """CTAs that load each KV tile together, a part each: by TMA multicast, or by converting some of its keys.

        Keys in bf16 at head_dim 512 are loaded up to 3% faster if the second CTA finds them in L2.
        """
        if self.head_dim == 512:
            return self.adjacent_ctas if self.quantised and self.splits * self.adjacent_ctas <= max(SPLITS) else 1
        return self.adjacent_ctas if self.splits == 1 and not self.by_token else 1

    @property
    def cluster_ctas(self) -> int:
        """CTAs of a cluster: those that split the keys, or those that load KV tiles together."""
        return self.splits * self.loading_ctas

    @property
    def block_m(self) -> int:
        """Rows of a CTA's row tile."""
        return self.q_tiles * self.tile_m // self.row_parts

    @property
    def o_cols(self) -> int:
        """Columns of O of a consumer warpgroup."""
        return self.head_dim // (self.variant.warpgroups if self.variant.shares_rows else 1)

    @property
    def pv_cols(self) -> int:
        """Columns of O of a wgmma: ptxas rejects one with more registers than a thread has at launch."""
        return self.o_cols // self.producers

    @property
    def loaded_part(self) -> tuple[int, int]:
        """Keys and dims of a slice that a CTA loads: some dims, or some keys if the dims are one swizzled row."""
        keys, dims = self.k_slice
        if dims * BF16_BYTES > SWIZZLE_BYTES:
            return keys, dims // self.loading_ctas
        return keys // self.loading_ctas, dims

    # Memory.

    @property
    def smem(self) -> SharedMemory:
        """The buffers of shared memory."""
        return SharedMemory(self.variant, self.head_dim, 2 if self.loads_v else 1, self.rope_dim)

    # Warps and barriers.

    @property
    def rings(self) -> tuple[Ring, ...]:
        """The ring of K, and the ring of V unless V is read as K."""
        k = Ring("k", self.roles.load, self.k_slice, along_keys=False, clears_tail=not self.loads_v)
        v = Ring("v", self.roles.values, self.v_slice, along_keys=False, clears_tail=True)
        return (k, v) if self.loads_v else (k,)

    @property
    def rope_ring(self) -> Ring:
        """The slot of K's rotary columns. Every warp that loads K copies them for a quarter of the keys."""
        return Ring("rope", self.roles.load, (self.block_n, self.rope_dim), along_keys=False, clears_tail=False)

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return WARP * (self.roles.consumers[-1] + 1)

    @property
    def barriers(self) -> tuple[Barrier, ...]:
        """Every mbarrier of the kernel, in the order in which they are in shared memory."""
        slots, warps = self.smem.depth * self.slices, len(self.roles.consumers)
        loading = len(self.roles.load) // self.producers * self.gathering if self.gathers else 1
        readers = WARPGROUP if self.variant.shares_rows else warps  # warps of a CTA that read a slice last
        readers *= self.loading_ctas
        return (
            Barrier("q_full", 1, 1, "load", "consumers"),
            Barrier("q_empty", 1, warps, "consumers", "load"),
            Barrier("k_full", slots, loading, "load", "consumers", self.gathering),
            Barrier("k_empty", slots, readers, "consumers", "load"),
            Barrier("v_full", slots * self.loads_v, 1, "values", "consumers"),
            Barrier("v_empty", slots * self.loads_v, readers, "consumers", "values"),
            # One for even and one for odd KV tiles, so that a warpgroup waits only for its own.
            Barrier("rope_full", 2 * (self.rope_dim > 0), loading, "load", "consumers", self.gathering),
            Barrier("rope_empty", (self.rope_dim > 0) + self.keeps_rope, readers, "consumers", "load"),
            Barrier("q_kept", int(self.keeps_rope), warps, "consumers", "load"),
            Barrier("tail_full", self.slices, 1, "load, or values", "the same warp"),
        )
