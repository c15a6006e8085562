"""The table of kernel variants: one row per way of dividing attention among CTAs, warps and KV tiles.

docs/explanation/kernel.md says why each variant exists, docs/explanation/kernel-pipeline.md draws it in time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from kernel.errors import ArgumentError
from kernel.hardware import WARP, WARPGROUP
from kernel.problem import SPLITS
from kernel.sm100.hardware import TMEM_LANES
from kernel.sm100.roles import Roles

VariantName = Literal[
    "one Q tile",
    "two Q tiles",
    "CTA pair at 256",
    "CTA pair at 512",
    "converting CTA pair",
    "split keys",
    "16 heads",
    "32 heads",
    "64 heads",
]
#: The order of the products of KV tiles i = 0, 1, ...: QK[i + 1] before PV[i]; PV[i] before QK[i + 1]; or two KV tiles
#: at a time, QK[i], then QK[i + 1] and PV[i] alternating by slice, then PV[i + 1].
ProductOrder = Literal["qk_first", "pv_first", "interleaved"]


@dataclass(frozen=True)
class Variant:
    """A row of the table.

    head_dims: those that it supports. q_tiles: Q tiles in flight, each with a softmax warpgroup. mma_ctas: CTAs of one
    MMA; with 2 each holds half of K's keys and half of V's columns. slices: parts of a KV tile that are loaded and
    released separately. tile_m: rows of a Q tile. block_n: keys of a KV tile. order: the order of the
    products; order_v_is_k: the same if V is read as K. registers: of a softmax thread, of another thread and, if load
    warps convert keys, of a load thread; None if registers are not moved between warps. zigzag: under a causal mask,
    row tiles are dealt to CTAs in a zigzag. roles: the warps. swapped: K and V are the A operands, and rows the N of
    both products: S' = K Q' and O' = V' P'. Raises ArgumentError if the roles do not fit the rest of the row.
    """

    name: VariantName
    head_dims: tuple[int, ...]
    q_tiles: int
    mma_ctas: int
    slices: int
    tile_m: int
    block_n: int
    order: ProductOrder
    order_v_is_k: ProductOrder
    registers: tuple[int, ...] | None
    zigzag: bool
    roles: Roles
    swapped: bool = False

    def __post_init__(self) -> None:
        if len(self.roles.softmax) != self.q_tiles * WARPGROUP:
            raise ArgumentError("roles.softmax", self.roles.softmax, f"{self.q_tiles * WARPGROUP} warps")
        if len(self.roles.load) != self.slices:
            raise ArgumentError("roles.load", self.roles.load, f"{self.slices} warps")

    @property
    def splits(self) -> tuple[int, ...]:
        """Numbers of CTAs that the keys of a row tile may be split over."""
        if self.swapped:
            return SPLITS
        return SPLITS[1:] if self.name == "split keys" else (1,)

    @property
    def converts(self) -> bool:
        """True if the variant is for quantised keys alone, which the load warps of a CTA pair convert."""
        return self.registers is not None and len(self.registers) > 2

    @property
    def leader(self) -> int | None:
        """Rank of the CTA whose MMA warp works for both CTAs of a pair, None with 1-CTA MMA."""
        return 0 if self.mma_ctas == 2 else None

    @property
    def threads_per_row(self) -> int:
        """Softmax threads per row. Two have half of the keys and half of O's columns each."""
        return TMEM_LANES // self.tile_m

    @property
    def row_spans_warps(self) -> bool:
        """True if the two threads of a row are in different warps (the accumulator layout of 2-CTA MMA)."""
        return self.threads_per_row == 2 and self.mma_ctas == 2

    @property
    def rows_per_warp(self) -> int:
        """Rows of O that a softmax warp stores, with all columns or half of them."""
        return WARP if self.row_spans_warps else WARP // self.threads_per_row

    @property
    def short_block_rows(self) -> tuple[int, ...]:
        """Rows that a CTA may have instead of a Q tile when keys are split: the rows of one softmax warp, or two."""
        if self.swapped:
            return ()
        return self.tile_m // WARPGROUP, self.tile_m // 2


_SLICED = Roles(load=(4, 5, 6, 7), values=(8, 9, 10, 11), mma=(12,), queries=(13,))
_TWO = Roles(softmax=(0, 1, 2, 3, 4, 5, 6, 7), mma=(8,), load=(9,), values=(10,), queries=())
_NO_Q = Roles(queries=())

# fmt: off
_WITHOUT_SPLITS = (
    # name, head dims, Q tiles, MMA CTAs, slices, tile_m, block_n, order, order if V is K, registers, zigzag, roles
    Variant("one Q tile",      (64, 128), 1, 1, 1, 128, 128, "qk_first", "qk_first",    None,       False, Roles()),
    Variant("one Q tile",      (256,),    1, 1, 1, 128,  64, "qk_first", "qk_first",    None,       False, Roles()),
    Variant("one Q tile",      (512,),    1, 1, 4,  64,  64, "qk_first", "interleaved", (200, 104), False, _SLICED),
    Variant("two Q tiles",     (64, 128), 2, 1, 1, 128, 128, "pv_first", "pv_first",    (232, 40),  True,  _TWO),
    Variant("CTA pair at 256", (256,),    1, 2, 1, 128, 128, "qk_first", "qk_first",    None,       True,  _NO_Q),
    Variant("CTA pair at 512", (512,),    1, 2, 4,  64, 128, "qk_first", "qk_first",    (200, 104), False, _SLICED),
)
#: Quantised keys and heads that fill pairs.
_CONVERTING = Variant(
    "converting CTA pair", (512,), 1, 2, 4, 64, 128, "qk_first", "qk_first", (152, 72, 144), False, _SLICED
)
#: Few heads with operands swapped. The keys may be split.
_SWAPPED = (
    Variant("16 heads",       (512,),    1, 1, 4,  16,  64, "qk_first", "qk_first",    (144, 80), False, _SLICED, True),
    Variant("32 heads",       (512,),    1, 1, 4,  32,  64, "qk_first", "qk_first",    (144, 80), False, _SLICED, True),
    Variant("64 heads",       (512,),    1, 1, 4,  64,  64, "qk_first", "qk_first",    (144, 80), False, _SLICED, True),
)
# fmt: on
#: All variants. Split keys run as one Q tile does, on a part of the KV tiles.
VARIANTS = (
    *_SWAPPED,
    *_WITHOUT_SPLITS,
    _CONVERTING,
    *(replace(each, name="split keys") for each in _WITHOUT_SPLITS if each.name == "one Q tile"),
)


def variant(name: VariantName, head_dim: int) -> Variant:
    """Return a row of the table. Raises ArgumentError if there is none."""
    for each in VARIANTS:
        if each.name == name and head_dim in each.head_dims:
            return each
    allowed = sorted({hd for each in VARIANTS if each.name == name for hd in each.head_dims})
    raise ArgumentError("head_dim", head_dim, f"one of {allowed} for the variant {name!r}")
