"""How operands and results lie: tiled MMAs, shared-memory layouts, TMA atoms and the views that they are made of.

A launch prepares these on the host; the device takes them as they are.
"""

# CuTeDSL's operations take and give traced values and static ones alike, which its annotations cannot say.
# mypy: disable-error-code="index, arg-type, union-attr, assignment, misc"

from __future__ import annotations

from typing import NamedTuple

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int64
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.utils import blackwell_helpers as sm100

from kernel.arguments import Operands
from kernel.config import BF16_BYTES, MMA_N, S_STAGES, SWIZZLE_BYTES, FmhaConfig
from kernel.sm100.barriers import cta_group

GATHER = 4  # keys that one TMA gather brings
CHUNK = SWIZZLE_BYTES // BF16_BYTES  # bf16 in it


class TiledMmas(NamedTuple):
    """The tensor core's Q K' and P V."""

    qk: cute.TiledMma
    pv: cute.TiledMma


class SmemLayouts(NamedTuple):
    """Shared memory of Q, K, V and P: ((box), stage), swizzled as the tensor core wants its operands."""

    q: cute.ComposedLayout
    k: cute.ComposedLayout
    v: cute.ComposedLayout
    p: cute.ComposedLayout


class KeyLoads(NamedTuple):
    """TMA of units of K and of V, where V is not read as K, each the atom and its tensor of coordinates.

    alone: V that a CTA waits for by itself, to clear keys, where the MMA of a pair waits for the rest.
    """

    k: cpasync.TmaInfo
    v: cpasync.TmaInfo | None = None
    alone: cpasync.TmaInfo | None = None

    def of(self, of_v: bool) -> tuple[cpasync.TmaInfo | None, cpasync.TmaInfo | None]:
        """Of V or K: what all wait for that use it, and what a CTA waits for by itself."""
        return (self.v, self.alone or self.v) if of_v else (self.k, self.k)


class Loads(NamedTuple):
    """TMA of Q, and of the keys of the window and the compressed ones."""

    q: cpasync.TmaInfo
    window: KeyLoads
    compressed: KeyLoads | None

    @property
    def all(self) -> list[cpasync.TmaInfo | None]:
        return [self.q, *self.window, *(self.compressed or ())]


class Stores(NamedTuple):
    """TMA of O and U."""

    o: cpasync.TmaInfo
    u: cpasync.TmaInfo | None


class Results(NamedTuple):
    """O and U [G, R, D] as they lie."""

    o: cute.Tensor
    u: cute.Tensor | None


def tiled_mmas(config: FmhaConfig) -> TiledMmas:
    bf16, ctas = (BFloat16, BFloat16), cta_group(config)
    keys_by_d, d_by_keys = (OperandMajorMode.K, OperandMajorMode.K), (OperandMajorMode.K, OperandMajorMode.MN)
    p_source = tcgen05.OperandSource.TMEM if config.p_path == "tmem" else tcgen05.OperandSource.SMEM
    pv_tiler = (config.pv_tiler[0], min(config.mma_ctas * config.v_unit[1], MMA_N))
    return TiledMmas(
        sm100.make_trivial_tiled_mma(*bf16, *keys_by_d, Float32, ctas, config.qk_tiler[:2]),
        sm100.make_trivial_tiled_mma(*bf16, *d_by_keys, Float32, ctas, pv_tiler, p_source),
    )


def smem_layouts(config: FmhaConfig, mmas: TiledMmas) -> SmemLayouts:
    slots = config.depth * config.units
    k_tiler = (*config.qk_tiler[:2], config.k_unit[1])
    v_tiler = (config.pv_tiler[0], config.mma_ctas * config.v_unit[1], config.v_unit[0])
    return SmemLayouts(
        sm100.make_smem_layout_a(mmas.qk, config.qk_tiler, BFloat16, config.row_tiles),
        sm100.make_smem_layout_b(mmas.qk, k_tiler, BFloat16, slots),
        sm100.make_smem_layout_b(mmas.pv, v_tiler, BFloat16, slots),
        sm100.make_smem_layout_a(mmas.pv, config.pv_tiler, BFloat16, S_STAGES if config.p_path == "smem" else 1),
    )


def loads(config: FmhaConfig, operands: Operands, indices: cute.Tensor | None) -> Loads:
    group = cta_group(config)
    q = unit_atom(view(operands.q, config.head_dim), (config.tile_m, config.head_dim), group)
    window, compressed = key_loads(config, operands.k, operands.v), None
    if config.compressed == "blocks":
        compressed = key_loads(config, operands.compressed, operands.compressed)
    if config.compressed == "topk":
        keys = view(operands.compressed, config.head_dim)[None, None, 0]
        v = gather_atom(config, keys, indices, config.v_unit) if config.own_v else None
        compressed = KeyLoads(gather_atom(config, keys, indices, config.k_unit), v)
    return Loads(q, window, compressed)


def key_loads(config: FmhaConfig, k: cute.Tensor, v: cute.Tensor) -> KeyLoads:
    group = cta_group(config)
    load_k = unit_atom(view(k, config.head_dim), config.k_unit, group)
    if not config.own_v:
        return KeyLoads(load_k)
    v = view(v, config.head_dim)
    alone = unit_atom(v, config.v_unit, tcgen05.CtaGroup.ONE) if config.mma_ctas == 2 else None
    return KeyLoads(load_k, unit_atom(v, config.v_unit, group), alone)


def stores(config: FmhaConfig, operands: Operands) -> Stores | Results:
    """How results are stored: by TMA, or, where they are merged, by the rows."""
    results = Results(operands.o, operands.u)
    if config.splits > 1:
        return results
    o, u = (None if each is None else store_atom(config, view(each, config.head_dim)) for each in results)
    return Stores(o, u)


def view(tensor: cute.Tensor, head_dim: int) -> cute.Tensor:
    """`tensor` [B, rows, D] as (rows, D, B), D known and the other strides multiples of 16 bytes."""
    (batch, rows, _), strides = tensor.shape, tensor.stride
    of_batch, of_rows = (cute.assume(Int64(stride), divby=8) for stride in strides[:2])
    layout = cute.make_layout((rows, head_dim, batch), stride=(of_rows, 1, of_batch))
    return cute.make_tensor(tensor.iterator, layout)


def unit_atom(tensor: cute.Tensor, unit: tuple[int, int], group: tcgen05.CtaGroup) -> cpasync.TmaInfo:
    """TMA load of so many rows and columns; with a group of two the pair's first CTA is told."""
    load = cpasync.CopyBulkTensorTileG2SOp(group)
    return cpasync.make_tiled_tma_atom(load, tensor, unit_layout(unit, unit[0]), unit)


def unit_layout(unit: tuple[int, int], rows: int) -> cute.ComposedLayout:
    """Where `rows` rows lie among those of a unit, (row, (column, chunk)), a chunk 128 bytes of every row."""
    chunks = unit[1] // CHUNK
    layout = cute.make_layout((rows, (CHUNK, chunks)), stride=(CHUNK, (1, CHUNK * unit[0])))
    return cute.make_composed_layout(cute.make_swizzle(3, 4, 3), 0, layout)


def gather_atom(config: FmhaConfig, keys: cute.Tensor, indices: cute.Tensor, unit: tuple[int, int]) -> cpasync.TmaInfo:
    """TMA load of GATHER keys [S, D] of a unit by row number; of the numbers only the layout matters here."""
    numbers = cute.make_tensor(indices.iterator, cute.make_layout(keys.shape, stride=(1, 0)))
    gather, box = cpasync.CopyBulkTensor2DGather4G2SOp(cta_group(config)), unit_layout(unit, GATHER)
    return cpasync.make_tiled_tma_atom(gather, keys, box, (GATHER, unit[1]), gmem_coord_tensor=numbers)


def store_atom(config: FmhaConfig, tensor: cute.Tensor) -> cpasync.TmaInfo:
    dtype = tensor.element_type
    return cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileS2GOp(), tensor, store_layout(config, dtype), store_tile(config, dtype)
    )


def store_layout(config: FmhaConfig, dtype: type[cutlass.Numeric]) -> cute.ComposedLayout:
    """A warp's staging of its rows for a TMA store: 128 bytes of each, swizzled."""
    atom = tcgen05.make_smem_layout_atom(tcgen05.SmemLayoutAtomKind.K_SW128, dtype)
    return cute.tile_to_shape(atom, store_tile(config, dtype), (0, 1))


def store_tile(config: FmhaConfig, dtype: type[cutlass.Numeric]) -> tuple[int, int]:
    """Rows and columns that a warp stores at once."""
    return config.rows_per_warp, SWIZZLE_BYTES * 8 // dtype.width
