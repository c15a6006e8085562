"""How operands and results lie: tiled MMAs, shared-memory layouts, TMA atoms and the views that they are made of.

A launch prepares these on the host; the device takes them as they are.
"""

# CuTeDSL's operations take and give traced values and static ones alike, which its annotations cannot say.
# mypy: disable-error-code="index, arg-type, union-attr, assignment"

from __future__ import annotations

from typing import NamedTuple

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int64
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.utils import blackwell_helpers as sm100

from kernel.arguments import Operands
from kernel.config import BF16_BYTES, MMA_N, UNITS, FmhaConfig
from kernel.sm100.barriers import cta_group

BOX = [0, 1, 2]  # modes of an operand's shared-memory layout that one tile fills
ROWS_D_BATCH, D_ROWS_BATCH = [1, 2, 0], [2, 1, 0]  # orders of the modes of a [B, rows, D] tensor
GATHER = 4  # keys that one TMA gather brings
SWIZZLE_BYTES = 128  # width of a swizzled row of shared memory
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


class Loads(NamedTuple):
    """TMA of Q, K, V and the compressed keys: each the atom and its tensor of coordinates."""

    q: cpasync.TmaInfo
    k: cpasync.TmaInfo
    v: cpasync.TmaInfo
    compressed: cpasync.TmaInfo | None


class PairLoads(NamedTuple):
    """The same where one MMA is of two CTAs: units of K and V, and V that the CTA itself waits for, to clear keys."""

    q: cpasync.TmaInfo
    k: cpasync.TmaInfo
    v: cpasync.TmaInfo
    tail: cpasync.TmaInfo
    compressed_k: cpasync.TmaInfo | None
    compressed_v: cpasync.TmaInfo | None
    compressed_tail: cpasync.TmaInfo | None


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
    pv_tiler = (config.pv_tiler[0], min(config.head_dim, MMA_N))
    return TiledMmas(
        sm100.make_trivial_tiled_mma(*bf16, *keys_by_d, Float32, ctas, config.qk_tiler[:2]),
        sm100.make_trivial_tiled_mma(*bf16, *d_by_keys, Float32, ctas, pv_tiler, p_source),
    )


def smem_layouts(config: FmhaConfig, mmas: TiledMmas) -> SmemLayouts:
    stages = config.kv_stages if config.mma_ctas == 1 else UNITS
    k_tiler, v_tiler = (*config.qk_tiler[:2], config.k_unit[1]), (*config.pv_tiler[:2], config.v_unit[0])
    return SmemLayouts(
        sm100.make_smem_layout_a(mmas.qk, config.qk_tiler, BFloat16, config.row_tiles),
        sm100.make_smem_layout_b(mmas.qk, k_tiler, BFloat16, stages),
        sm100.make_smem_layout_b(mmas.pv, v_tiler, BFloat16, stages),
        sm100.make_smem_layout_a(mmas.pv, config.pv_tiler, BFloat16, 1),
    )


def loads(
    config: FmhaConfig, operands: Operands, topk_indices: cute.Tensor | None, mmas: TiledMmas, smem: SmemLayouts
) -> Loads | PairLoads:
    d = config.head_dim
    q, k = view(operands.q, ROWS_D_BATCH, d), view(operands.k, ROWS_D_BATCH, d)
    if config.mma_ctas == 2:
        return pair_loads(config, q, k, operands.compressed, topk_indices)
    v = view(operands.v, D_ROWS_BATCH, d)
    load = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
    tma_q = cute.nvgpu.make_tiled_tma_atom_A(load, q, cute.select(smem.q, BOX), config.qk_tiler, mmas.qk)
    tma_k = keys_atom(config, k, smem.k, config.qk_tiler, mmas.qk)
    tma_v = keys_atom(config, v, smem.v, config.pv_tiler, mmas.pv)
    compressed = None
    if config.compressed != "none":
        keys = view(operands.compressed, ROWS_D_BATCH, d)
        if config.compressed == "blocks":
            compressed = keys_atom(config, keys, smem.k, config.qk_tiler, mmas.qk)
        else:
            compressed = gather_atom(config, keys[None, None, 0], topk_indices, config.k_unit)
    return Loads(tma_q, tma_k, tma_v, compressed)


def stores(config: FmhaConfig, operands: Operands) -> Stores | Results:
    """How results are stored: by TMA, or, where they are merged, by the rows."""
    if config.splits > 1:
        return Results(operands.o, operands.u)
    o = store_atom(config, view(operands.o, ROWS_D_BATCH, config.head_dim))
    if operands.u is None:
        return Stores(o, None)
    return Stores(o, store_atom(config, view(operands.u, ROWS_D_BATCH, config.head_dim)))


def view(tensor: cute.Tensor, order: list[int], head_dim: int) -> cute.Tensor:
    """`tensor` [B, rows, D] with its modes in `order`, D known and the other strides multiples of 16 bytes."""
    shape = [tensor.shape[i] for i in order]
    stride = [cute.assume(Int64(tensor.stride[i]), divby=8) for i in order]
    d_mode = order.index(2)
    shape[d_mode], stride[d_mode] = head_dim, 1
    return cute.make_tensor(tensor.iterator, cute.make_layout(tuple(shape), stride=tuple(stride)))


def keys_atom(
    config: FmhaConfig,
    keys: cute.Tensor,
    smem: cute.ComposedLayout,
    tiler: tuple[int, int, int],
    mma: cute.TiledMma,
) -> cpasync.TmaInfo:
    """TMA load of a KV tile, for both CTAs of a pair."""
    load = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
    if config.cluster == 2:
        load = cpasync.CopyBulkTensorTileG2SMulticastOp(tcgen05.CtaGroup.ONE)
    pair = (1, config.cluster, 1, 1)
    return cute.nvgpu.make_tiled_tma_atom_B(load, keys, cute.select(smem, BOX), tiler, mma, pair)


def pair_loads(
    config: FmhaConfig, q: cute.Tensor, k: cute.Tensor, compressed: cute.Tensor | None, indices: cute.Tensor | None
) -> PairLoads:
    q_and_window = (unit_atom(q, (config.block_m, config.head_dim)), *unit_atoms(config, k))
    if compressed is None:
        return PairLoads(*q_and_window, None, None, None)
    keys = view(compressed, ROWS_D_BATCH, config.head_dim)
    if config.compressed == "blocks":
        return PairLoads(*q_and_window, *unit_atoms(config, keys))
    gather_k, gather_v = (gather_atom(config, keys[None, None, 0], indices, u) for u in (config.k_unit, config.v_unit))
    return PairLoads(*q_and_window, gather_k, gather_v, None)


def unit_atoms(config: FmhaConfig, keys: cute.Tensor) -> tuple[cpasync.TmaInfo, cpasync.TmaInfo, cpasync.TmaInfo]:
    """TMA loads of a unit of K and of V for the pair's MMA, and of V for the CTA itself."""
    alone = unit_atom(keys, config.v_unit, tcgen05.CtaGroup.ONE)
    return unit_atom(keys, config.k_unit), unit_atom(keys, config.v_unit), alone


def unit_atom(
    tensor: cute.Tensor, unit: tuple[int, int], group: tcgen05.CtaGroup = tcgen05.CtaGroup.TWO
) -> cpasync.TmaInfo:
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
    gather = cpasync.CopyBulkTensor2DGather4G2SOp(cta_group(config))
    if config.cluster > config.mma_ctas:
        gather = cpasync.CopyBulkTensor2DGather4G2SMulticastOp()
    box = unit_layout(unit, GATHER)
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
