"""One configuration of the kernel and all that follows from it: roles, barriers, tensor and shared memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from kernel.errors import ArgumentError

HEAD_DIMS = (64, 128, 256, 512)
WARP = 32
WARPGROUP = 4  # warps
TMEM_LANES = 128
TMEM_COLS = 512  # columns of tensor memory an SM has, 32 bits wide each
SMS = 148  # of a B200: how many CTAs are launched at most, where keys are not split
SMEM_BYTES = 227 * 1024  # shared memory a CTA may have on sm_100
SMEM_ALIGN = 1024  # eight swizzled rows: the period of the pattern
BF16_BYTES = 2
FP32_BYTES = 4
MBARRIER_BYTES = 8
MMA_K = 16  # of the summed dimension, that it takes
MMA_N = 256  # columns that one tensor-core instruction writes at most
S_STAGES = 2  # logits of one tile are computed while those of the other are in softmax
MAX_DEPTH = 4  # tiles that a ring of keys holds; a power of two
SWIZZLE_BYTES = 128  # width of a swizzled row of shared memory
P_PARTS = (range(3), range(3, 4))  # of P's keys, handed on at once: a product runs during the last exponentials
STATS, PARTIAL_PADDING = 2, 4  # fp32 behind a row of U: its maximum and sum, and with them
SPLITS = (1, 2, 4, 8, 16)
#: CTAs of a cluster, and how many such clusters a B200 holds at a time: its GPCs have 18 or 20 SMs.
CLUSTERS_AT_ONCE = {1: 148, 2: 74, 4: 34, 8: 16, 16: 8}
#: Cycles at head_dim 512 by the clock of the emulated B200: of a launch, of a row tile beside its KV tiles, of one of
#: those of 64 keys, of one of 128 of a pair's MMA, of a share of keys beside its tiles, and what is added where all
#: of a row tile's rows cross the cluster.
LAUNCH, ROW_TILE, TILE, PAIR_TILE, SPLIT, CROSSING = 10_500, 2_800, 2_100, 2_700, 12_000, 9_000
FEW_TOKENS = 8  # of a sequence at most, whose lists name keys that are not in L2: others' lists do not share them
SLICES = 4  # parts of a tile's K, and of its V, each loaded by a warp and given back by itself at head_dim 512

PPath = Literal["tmem", "smem"]
Mask = Literal["none", "length", "causal"]
ProductOrder = Literal["qk_first", "pv_first", "interleaved"]
Compressed = Literal["none", "blocks", "topk"]
SMEM_P_FROM = 512  # automatic choice: P stays in tensor memory below this head dim


@dataclass(frozen=True)
class Roles:
    """Which warps do what. Every participant count is the length of one of these tuples.

    A warp reaches the quarter of tensor memory's lanes that its number has modulo four, so the softmax warps are four
    in a row from a multiple of four, or eight: a warpgroup for each row tile in flight. load: warps that load K, a unit
    of a tile each; values: as many for V, idle where it is read as K; queries: that of Q, or none where the one warp
    that loads K asks for Q first. Raises ArgumentError for other roles.
    """

    softmax: tuple[int, ...] = (0, 1, 2, 3)
    mma: tuple[int, ...] = (4,)
    load: tuple[int, ...] = (5,)
    values: tuple[int, ...] = (6,)
    queries: tuple[int, ...] = (7,)

    def __post_init__(self) -> None:
        first = self.softmax[0] if self.softmax else 0
        if first % WARPGROUP or self.softmax not in (
            tuple(range(first, first + n)) for n in (WARPGROUP, 2 * WARPGROUP)
        ):
            raise ArgumentError("softmax", self.softmax, "four or eight warps in a row from a multiple of four")
        if len(self.mma) != 1:
            raise ArgumentError("mma", self.mma, "one warp")
        if len(self.load) != len(self.values) or len(self.load) not in (1, SLICES):
            raise ArgumentError("load", self.load + self.values, f"one warp for K and one for V, or {SLICES} for each")
        if len(self.queries) > 1 or len(self.queries) < len(self.load) // SLICES:
            raise ArgumentError("queries", self.queries, f"one warp, or none where not {SLICES} load K")
        if len({*self.warps}) < len(self.warps):
            raise ArgumentError("roles", self.warps, "one role a warp")

    @property
    def warps(self) -> tuple[int, ...]:
        return self.softmax + self.mma + self.load + self.values + self.queries

    @property
    def registers(self) -> tuple[int, int] | None:
        """Of a softmax thread and of another, where they are not alike: more warps than have all that they need."""
        if len(self.softmax) > WARPGROUP:
            return 232, 40
        return (200, 104) if len(self.load) == SLICES else None

    def is_softmax(self, warp: Any) -> Any:
        """Whether a warp, by its number or traced, has the softmax role."""
        return has_role(self.softmax, warp)


def has_role(warps: tuple[int, ...], warp: Any) -> Any:
    """Whether a warp, by its number or traced, is one of some in a row."""
    first, past = warps[0], warps[-1] + 1
    return warp < past if first == 0 else (warp >= first) & (warp < past)


SLICE_ROLES = Roles(load=(4, 5, 6, 7), values=(8, 9, 10, 11), mma=(12,), queries=(13,))
TWO_Q_TILES = Roles(softmax=(0, 1, 2, 3, 4, 5, 6, 7), mma=(8,), load=(9,), values=(10,), queries=())


@dataclass(frozen=True)
class Barrier:
    """An mbarrier (or one per stage): who arrives, how many arrivals complete a phase, who waits."""

    name: str
    stages: int
    arrivals: int
    arrives: str
    waits: str


@dataclass(frozen=True)
class Ring:
    """Where tiles of K lie, and of V where it is not read as K, in units: which warps load them, a unit each.

    unit: keys and dims. along_keys: units are parts of a tile's keys, else of its dims. clears_tail: keys that may hold
    anything are clears_tail here.
    """

    name: Literal["k", "v"]
    warps: tuple[int, ...]
    box: tuple[int, int]
    along_keys: bool
    clears_tail: bool

    @property
    def full(self) -> str:
        return f"{self.name}_full"

    @property
    def empty(self) -> str:
        return f"{self.name}_empty"

    @property
    def slice_bytes(self) -> int:
        return self.box[0] * self.box[1] * BF16_BYTES


@dataclass(frozen=True)
class FmhaConfig:
    """What is fixed when the kernel is compiled.

    head_dim: one of HEAD_DIMS. p_path: where P waits for the second product, "tmem" or "smem" (hd=512: "smem").
    mask: every key is visible ("none"), those before the sequence's length ("length"), or those of a window that
    ends at the query's own position ("causal"). shared_kv: V is K, loaded once. partials: U and m are written beside
    O and lse. compressed: beside those keys, none, all visible blocks of a second tensor ("blocks") or the blocks of it
    that each token lists ("topk"); needs shared_kv. sink: a logit a head joins the denominator of O.
    splits: CTAs of a cluster that have a share of a row tile's KV tiles each, and merge what comes of them.
    block_rows: rows of a CTA where it has fewer than a row tile, None otherwise: more CTAs then merge less each.
    mma_ctas: 2 where one MMA computes the row tiles of a pair of CTAs, each holding half of the keys; else 1.
    Raises ArgumentError for a value that does not exist.
    """

    head_dim: int
    p_path: PPath = "tmem"
    mask: Mask = "none"
    shared_kv: bool = False
    partials: bool = True
    compressed: Compressed = "none"
    sink: bool = False
    splits: int = 1
    block_rows: int | None = None
    mma_ctas: int = 1
    roles: Roles = field(default_factory=Roles)

    def __post_init__(self) -> None:
        if self.head_dim not in HEAD_DIMS:
            raise ArgumentError("head_dim", self.head_dim, f"one of {HEAD_DIMS}")
        if self.p_path not in ("tmem", "smem"):
            raise ArgumentError("p_path", repr(self.p_path), "'tmem' or 'smem'")
        if self.mask not in ("none", "length", "causal"):
            raise ArgumentError("mask", repr(self.mask), "'none', 'length' or 'causal'")
        if self.compressed not in ("none", "blocks", "topk"):
            raise ArgumentError("compressed", repr(self.compressed), "'none', 'blocks' or 'topk'")
        if self.compressed != "none" and not self.shared_kv:
            raise ArgumentError("shared_kv", False, "True with compressed keys")
        if self.splits not in SPLITS or self.cluster_ctas not in CLUSTERS_AT_ONCE:
            raise ArgumentError("splits", self.splits, f"one of {SPLITS}, and {max(CLUSTERS_AT_ONCE)} CTAs a cluster")
        if self.splits > 1 and self.q_tiles > 1:
            raise ArgumentError("splits", self.splits, "1 with two row tiles in flight")
        if self.block_rows is not None and (self.splits == 1 or self.block_rows not in self.short_block_rows):
            raise ArgumentError("block_rows", self.block_rows, f"one of {self.short_block_rows} where keys are split")
        if self.mma_ctas not in (1, 2) or (self.mma_ctas == 2 and (self.head_dim < 256 or self.splits > 1)):
            raise ArgumentError("mma_ctas", self.mma_ctas, "1, or 2 from head_dim 256 on where no keys are split")
        if self.slices > 1 and self.head_dim < 512:
            raise ArgumentError("roles", self.roles.load, "one warp that loads K below head_dim 512")
        if self.tile_m < TMEM_LANES and self.p_path == "tmem":
            raise ArgumentError("p_path", repr(self.p_path), f"'smem' at head_dim {self.head_dim}")
        if self.q_tiles > 1 and (self.head_dim > 128 or self.p_path == "smem" or self.compressed == "topk"):
            where = "beyond head_dim 128, with P in smem or with lists, which take the load warps' registers"
            raise ArgumentError("roles", self.roles.softmax, f"four softmax warps {where}")
        assert self.tmem_cols <= TMEM_COLS, f"{self.tmem_cols} tensor-memory columns, {self}"
        assert self.smem_bytes <= SMEM_BYTES, f"{self.smem_bytes} B of shared memory, {self}"
        room = self.q_bytes + self.kv_bytes
        assert self.splits == 1 or self.partial_bytes <= room, f"{self.partial_bytes} B of partials, {self}"

    @property
    def name(self) -> str:
        """Names the kernel in PTX, profiles and reports."""
        parts = [f"fmha_hd{self.head_dim}", self.p_path] + [self.mask] * (self.mask != "none")
        parts += ["shared_kv"] * self.shared_kv + [self.compressed] * (self.compressed != "none")
        parts += ["two_q_tiles"] * (self.q_tiles == 2)
        parts += ["sink"] * self.sink + ["partials"] * self.partials
        parts += [f"splits{self.splits}"] * (self.splits > 1) + [f"rows{self.block_rows}"] * bool(self.block_rows)
        parts += ["cta_pair"] * (self.mma_ctas == 2)
        return "_".join(parts)

    @property
    def cluster_ctas(self) -> int:
        """CTAs of a cluster: those of one MMA, or a share of the keys each."""
        return self.mma_ctas * self.splits

    @property
    def leader(self) -> int | None:
        """Rank of the CTA whose mma warp works for both of a pair; None where each works for its own."""
        return 0 if self.mma_ctas == 2 else None

    @property
    def loads_v(self) -> bool:
        """Whether V is loaded beside K: where it is another tensor, or the MMA of a pair takes other parts of it."""
        return self.mma_ctas == 2 or not self.shared_kv

    # Tiles.

    @property
    def q_tiles(self) -> int:
        """Row tiles that a CTA has in flight, each with a softmax warpgroup: one computes while the other waits."""
        return len(self.roles.softmax) // WARPGROUP

    @property
    def tile_m(self) -> int:
        """Query rows of a row tile. At hd=512 two halves of O share the columns of 64 rows."""
        return 64 if self.head_dim == 512 else TMEM_LANES

    @property
    def short_block_rows(self) -> tuple[int, int]:
        """Rows that a CTA may have instead: those of one softmax warp, or of two."""
        return self.tile_m // WARPGROUP, self.tile_m // 2

    @property
    def block_m(self) -> int:
        """Query rows of a CTA."""
        return self.block_rows or self.q_tiles * self.tile_m

    @property
    def block_n(self) -> int:
        """Keys of a KV tile: as many as leave shared memory room for loads that run ahead (5 tiles at 256)."""
        return 64 if self.head_dim >= 256 and self.mma_ctas == 1 else 128

    @property
    def qk_tiler(self) -> tuple[int, int]:
        """M and N of S = Q K'."""
        return self.mma_ctas * self.tile_m, self.block_n

    @property
    def pv_tiler(self) -> tuple[int, int, int]:
        """M, N and K of O = P V."""
        return self.mma_ctas * self.tile_m, self.head_dim, self.block_n

    @property
    def slices(self) -> int:
        """Parts of a tile of K, and of V, that are loaded and given back each by itself."""
        return len(self.roles.load)

    @property
    def k_slice(self) -> tuple[int, int]:
        """Keys and dims of a unit of K: the pair's CTAs have half of the keys each."""
        return self.block_n // self.mma_ctas, self.head_dim // self.slices

    @property
    def v_slice(self) -> tuple[int, int]:
        """Keys and dims of a unit of V: as of K, or some keys, of which the pair's CTAs have half of the dims each."""
        return self.k_slice if self.mma_ctas == 1 else (self.block_n // self.slices, self.head_dim // 2)

    @property
    def threads_per_row(self) -> int:
        """Softmax threads that share a row, each with its half of the keys and of O's columns where there are two."""
        return TMEM_LANES // self.tile_m

    @property
    def row_spans_warps(self) -> bool:
        """Whether those are in different warps: as the MMA of a pair has it."""
        return self.threads_per_row == 2 and self.mma_ctas == 2

    @property
    def rows_per_warp(self) -> int:
        """Rows of O that a softmax warp stores: all columns of them, or its threads' halves."""
        return WARP if self.row_spans_warps else WARP // self.threads_per_row

    @property
    def zigzag(self) -> bool:
        """Whether the row tiles are dealt so: where they differ in how many keys they see, and a CTA may have many."""
        return self.mask == "causal" and self.compressed == "none" and not self.roles.queries

    @property
    def product_order(self) -> ProductOrder:
        """The order in which S = Q K' and O += P V of successive KV tiles are issued."""
        if self.q_tiles > 1:
            return "pv_first"
        if not self.loads_v and self.depth == S_STAGES:
            return "interleaved"
        return "qk_first" if self.loads_v or self.depth > 1 else "pv_first"

    @property
    def rings(self) -> tuple[Ring, ...]:
        """That of K, and that of V where it is not read as K."""
        k = Ring("k", self.roles.load, self.k_slice, along_keys=False, clears_tail=not self.loads_v)
        return (k, Ring("v", self.roles.values, self.v_slice, self.mma_ctas == 2, clears_tail=True))[: 1 + self.loads_v]

    @property
    def loaders(self) -> tuple[tuple[tuple[int, ...], Ring | None], ...]:
        """Warps that load, and what: units of a ring, or None: Q alone."""
        queries = ((self.roles.queries, None),) if self.roles.queries else ()
        return *((ring.warps, ring) for ring in self.rings), *queries

    @property
    def threads(self) -> int:
        """Of a CTA; a warp without a role ends at once. Whole warpgroups where registers move between them."""
        used = self.roles.softmax + self.roles.mma
        warps = 1 + max(*used, *(warp for loading, _ in self.loaders for warp in loading))
        return WARP * (-(-warps // WARPGROUP) * WARPGROUP if self.roles.registers else warps)

    # Tensor memory, in columns.

    @property
    def p_cols(self) -> int:
        """P is bf16: two keys a column."""
        return self.block_n // 2

    @property
    def p_parts(self) -> tuple[range, ...]:
        """Which equal pieces of P each part has that is handed on at once."""
        return P_PARTS if self.p_path == "tmem" else (range(1),)

    @property
    def s_cols(self) -> int:
        """Columns of a tile's logits: one a key, or for two where lanes of both halves of tensor memory have a row."""
        return self.block_n // 2 if self.row_spans_warps else self.block_n

    @property
    def tmem_o(self) -> int:
        return S_STAGES * self.s_cols

    @property
    def o_cols(self) -> int:
        return self.head_dim // self.threads_per_row

    @property
    def p_over_s(self) -> bool:
        """Whether P takes the columns of the logits that it was made of: where no others are left."""
        return self.p_path == "tmem" and self.tmem_o_end + S_STAGES * self.p_cols > TMEM_COLS

    @property
    def tmem_o_end(self) -> int:
        return self.tmem_o + self.q_tiles * self.o_cols

    @property
    def tmem_p(self) -> int:
        return 0 if self.p_over_s else self.tmem_o_end

    @property
    def p_stride(self) -> int:
        """Columns from P of one stage to P of the next."""
        return self.block_n if self.p_over_s else self.p_cols

    @property
    def tmem_cols(self) -> int:
        """Columns used; tmem_alloc_cols is what the allocator is asked for."""
        own_p = self.p_path == "tmem" and not self.p_over_s
        return self.tmem_o_end + own_p * S_STAGES * self.p_cols

    @property
    def tmem_alloc_cols(self) -> int:
        return 1 << (self.tmem_cols - 1).bit_length()

    # Shared memory, in bytes.

    @property
    def reserved_bytes(self) -> int:
        """Barriers, the tensor-memory address, and what threads of a row tell each other, in whole SMEM_ALIGN."""
        return SMEM_ALIGN * (2 if self.row_spans_warps else 1)

    @property
    def q_bytes(self) -> int:
        return self.q_tiles * self.tile_m * self.head_dim * BF16_BYTES

    @property
    def kv_tile_bytes(self) -> int:
        """Of K or V: the half that a CTA has of it where one MMA is of two CTAs."""
        return self.block_n * self.head_dim * BF16_BYTES // self.mma_ctas

    @property
    def p_bytes(self) -> int:
        """Of both stages."""
        return S_STAGES * self.tile_m * self.block_n * BF16_BYTES if self.p_path == "smem" else 0

    @property
    def o_bytes(self) -> int:
        """Staging of O, for a swizzled row of each softmax thread; 0 where it takes place in P's room."""
        return self.o_staging_bytes if self.o_staging_bytes > self.p_bytes else 0

    @property
    def o_staging_bytes(self) -> int:
        """A swizzled row of each softmax thread: what is staged at once."""
        return len(self.roles.softmax) * WARP * SWIZZLE_BYTES

    @property
    def o_stages(self) -> int:
        """2 where O and U are staged in two places by turns, one while the other is stored: an even number of times, so
        that no row tile begins where the last one ended."""
        even = self.o_cols * BF16_BYTES % (2 * SWIZZLE_BYTES) == 0
        return 2 if even and self.p_bytes >= 2 * self.o_staging_bytes else 1

    @property
    def depth(self) -> int:
        """Tiles that the ring of K holds, and that of V: a power of two."""
        room = SMEM_BYTES - self.reserved_bytes - self.q_bytes - self.p_bytes - self.o_bytes
        fits = room // (self.kv_tile_bytes * (2 if self.loads_v else 1))
        return min(MAX_DEPTH, 1 << fits.bit_length() - 1)

    @property
    def kv_bytes(self) -> int:
        """Of the rings of K and V, or of the one that both are in."""
        return self.depth * self.kv_tile_bytes * (2 if self.loads_v else 1)

    @property
    def smem_bytes(self) -> int:
        return self.reserved_bytes + self.q_bytes + self.p_bytes + self.o_bytes + self.kv_bytes

    @property
    def partial_row(self) -> int:
        """fp32 of a row of a share: U, maximum and sum, and so many that rows begin in other banks."""
        return self.head_dim + PARTIAL_PADDING

    @property
    def partial_bytes(self) -> int:
        """What a share leaves for its peers, where Q and the keys lay."""
        return self.block_m * self.partial_row * FP32_BYTES

    # Barriers.

    @property
    def barriers(self) -> tuple[Barrier, ...]:
        """Every mbarrier of the kernel in the order in which it lies in shared memory."""
        ctas, slots = self.mma_ctas, self.depth * self.slices
        softmax = len(self.roles.softmax) // self.q_tiles * ctas  # one elected lane a warp arrives
        queries = "queries" if self.roles.queries else "load"
        return (
            Barrier("q_full", 1, ctas, f"{queries} of each CTA", "mma"),
            Barrier("q_empty", 1, 1, "mma", queries),
            Barrier("k_full", slots, ctas, "load of each CTA", "mma"),
            Barrier("k_empty", slots, 1, "mma", "load"),
            Barrier("v_full", slots * self.loads_v, ctas, "values of each CTA", "mma"),
            Barrier("v_empty", slots * self.loads_v, 1, "mma", "values"),
            Barrier("tail_full", self.slices, 1, "what loads values", "the same"),
            Barrier("s_full", S_STAGES, 1, "mma", "softmax"),
            Barrier("p_full", S_STAGES * len(self.p_parts), softmax, "softmax", "mma"),
            Barrier("o_done", S_STAGES, 1, "mma", "softmax"),
        )

    def barrier_offset(self, name: str) -> int:
        """Index of the first mbarrier called `name`."""
        offset = 0
        for barrier in self.barriers:
            if barrier.name == name:
                return offset
            offset += barrier.stages
        raise KeyError(name)

    @property
    def mbarriers(self) -> dict[int, str]:
        """The name of each mbarrier by its offset in bytes in dynamic shared memory, in which they come first."""
        stages = (f"{b.name}[{i}]" if b.stages > 1 else b.name for b in self.barriers for i in range(b.stages))
        return {MBARRIER_BYTES * i: name for i, name in enumerate(stages)}

    @property
    def barrier_count(self) -> int:
        return sum(barrier.stages for barrier in self.barriers)


@dataclass(frozen=True)
class Size:
    """How much a call asks for: sequences, tokens of each, keys of both kinds, and how many of the first one sees."""

    batch: int
    tokens: int
    keys: int
    compressed_keys: int = 0
    window: int | None = None

    def seen(self, tokens: int) -> int:
        """Keys that are not compressed and that so many tokens in a row see."""
        return self.keys if self.window is None else min(self.keys, self.window + tokens - 1)


def configuration(
    head_dim: int,
    heads: int,
    tokens: int = 1,
    *,
    has_lens: bool = False,
    causal: bool = False,
    shared_kv: bool = False,
    compressed: Compressed = "none",
    sink: bool = False,
    partials: bool = True,
    p_path: PPath | Literal["auto"] = "auto",
    splits: int = 1,
    size: Size | None = None,
) -> FmhaConfig:
    """The configuration that a call with these arguments launches: the only place where that is decided.

    Where a sequence has more rows than a row tile, a CTA has two in flight up to head_dim 128, but for listed keys, and
    at 256 one MMA is of two CTAs; at 512 it is where heads fill pairs. The keys of a row tile are split as is said, or
    as suits `size`, and then a CTA may have fewer rows.
    Raises ArgumentError.
    """
    if p_path == "auto":
        p_path = "tmem" if head_dim < SMEM_P_FROM else "smem"
    mask: Mask = "causal" if causal else "length" if has_lens else "none"
    config = FmhaConfig(
        head_dim, p_path, mask, shared_kv=shared_kv, partials=partials, compressed=compressed, sink=sink
    )
    rows = heads if compressed == "topk" else tokens * heads
    whole = config = replace(config, roles=SLICE_ROLES) if head_dim == 512 else config
    if head_dim <= 128 and p_path == "tmem" and compressed != "topk" and rows > config.tile_m:
        whole = replace(config, roles=TWO_Q_TILES)
    if head_dim == 256 and rows > config.tile_m:
        whole = replace(config, mma_ctas=2, roles=Roles(queries=()))
    if head_dim == 512 and heads % (2 * config.tile_m) == 0:
        whole = replace(config, mma_ctas=2)
    if size is None:
        return whole if splits == 1 else replace(config, splits=splits)
    shares = [(n, rows) for n in SPLITS if n > 1 for rows in (*config.short_block_rows, None)]
    candidates = [whole, *(replace(config, splits=n, block_rows=rows) for n, rows in shares)]
    return min(candidates, key=lambda each: estimate(each, heads, size))


def estimate(config: FmhaConfig, heads: int, size: Size) -> float:
    """Cycles that a launch would take. CTAs that share a row tile's keys begin anew at the next."""
    rows, groups = size.tokens * heads, size.batch
    if config.compressed == "topk":
        rows, groups = heads, size.batch * size.tokens
    block = config.mma_ctas * config.block_m
    clusters, tokens = -(-rows // block) * groups, -(-min(rows, block) // max(heads, 1))
    kv_tiles = -(-size.seen(tokens) // config.block_n) - (-size.compressed_keys // config.block_n)
    waves = -(-clusters // CLUSTERS_AT_ONCE[config.cluster_ctas])
    if config.splits > 1:
        crossing = min(rows, block) / config.tile_m * (config.splits - 1) / config.splits  # shares but the own
        return waves * (SPLIT + CROSSING * crossing + TILE * -(-kv_tiles // config.splits))
    return LAUNCH + waves * (ROW_TILE + kv_tiles * (PAIR_TILE if config.mma_ctas == 2 else TILE))
