"""How operands and results lie: tiled MMAs, shared-memory layouts, TMA atoms and the views that they are made of.

A launch prepares these on the host; the device takes them as they are.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int64
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.utils import blackwell_helpers as sm100

from kernel.arguments import Operands
from kernel.config import BF16_BYTES, MMA_N, S_STAGES, SWIZZLE_BYTES, FmhaConfig
from kernel.sm100.barriers import cta_group

CHUNK = SWIZZLE_BYTES // BF16_BYTES  # bf16 in it


class Products(NamedTuple):
    """The tensor core's Q K' and P V, and where it wants P in shared memory: ((box), stage), swizzled."""

    qk: cute.TiledMma
    pv: cute.TiledMma
    p: cute.ComposedLayout


class KeyLoads(NamedTuple):
    """TMA of units of K and of V, where V is not read as K, each the atom and its tensor of coordinates."""

    k: cpasync.TmaInfo | None = None
    v: cpasync.TmaInfo | None = None
    alone: cpasync.TmaInfo | None = None  # V that a CTA of a pair waits for by itself, to clear keys


class Copies(NamedTuple):
    """TMA of Q, of the keys of the window and the compressed ones, and of O and U [G, R, D]."""

    q: cpasync.TmaInfo
    queries: cute.Tensor  # (row, dim, group): what TMA loads Q from
    window: KeyLoads
    compressed: KeyLoads
    listed: cute.Tensor | None  # (key, dim) of those that are listed: no TMA then
    o: cpasync.TmaInfo | cute.Tensor  # the tensor where keys are split: no TMA then
    u: cpasync.TmaInfo | cute.Tensor | None


def products(config: FmhaConfig) -> Products:
    bf16, ctas = (BFloat16, BFloat16), cta_group(config)
    keys_by_d, d_by_keys = (OperandMajorMode.K, OperandMajorMode.K), (OperandMajorMode.K, OperandMajorMode.MN)
    p_source = tcgen05.OperandSource.TMEM if config.p_path == "tmem" else tcgen05.OperandSource.SMEM
    pv_tiler = (config.pv_tiler[0], min(config.mma_ctas * config.v_unit[1], MMA_N))
    qk = sm100.make_trivial_tiled_mma(*bf16, *keys_by_d, Float32, ctas, config.qk_tiler)
    pv = sm100.make_trivial_tiled_mma(*bf16, *d_by_keys, Float32, ctas, pv_tiler, p_source)
    stages = S_STAGES if config.p_path == "smem" else 1
    return Products(qk, pv, sm100.make_smem_layout_a(pv, config.pv_tiler, BFloat16, stages))


def copies(config: FmhaConfig, operands: Operands) -> Copies:
    q = load_atom(config, operands.q, (config.tile_m, config.head_dim))
    window, compressed = key_loads(config, operands.k, operands.v), KeyLoads()
    if config.compressed == "blocks":
        compressed = key_loads(config, operands.compressed, operands.compressed)
    listed = view(config, operands.compressed)[None, None, 0] if config.compressed == "topk" else None
    results = operands.o, operands.u
    if config.splits == 1:
        results = tuple(None if each is None else store_atom(config, each) for each in results)
    return Copies(q, view(config, operands.q), window, compressed, listed, *results)


def key_loads(config: FmhaConfig, k: cute.Tensor, v: cute.Tensor) -> KeyLoads:
    load_k = load_atom(config, k, config.k_unit)
    if not config.own_v:
        return KeyLoads(load_k)
    alone = load_atom(config, v, config.v_unit, alone=True) if config.mma_ctas == 2 else None
    return KeyLoads(load_k, load_atom(config, v, config.v_unit), alone)


def view(config: FmhaConfig, tensor: cute.Tensor) -> cute.Tensor:
    """`tensor` [B, rows, D] as (rows, D, B), D known and the other strides multiples of 16 bytes."""
    (batch, rows, _), strides = tensor.shape, tensor.stride
    of_batch, of_rows = (cute.assume(Int64(stride), divby=8) for stride in strides[:2])
    layout = cute.make_layout((rows, config.head_dim, batch), stride=(of_rows, 1, of_batch))
    return cute.make_tensor(tensor.iterator, layout)


def load_atom(config: FmhaConfig, tensor: cute.Tensor, unit: tuple[int, int], alone: bool = False) -> cpasync.TmaInfo:
    """TMA load of so many rows and columns; of a pair's CTAs the first is told, unless each waits `alone`."""
    load = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE if alone else cta_group(config))
    return cpasync.make_tiled_tma_atom(load, view(config, tensor), unit_layout(unit), unit)


def store_atom(config: FmhaConfig, tensor: cute.Tensor) -> cpasync.TmaInfo:
    """TMA store of 128 bytes of a warp's rows."""
    tile = config.rows_per_warp, SWIZZLE_BYTES * 8 // tensor.element_type.width
    return cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileS2GOp(), view(config, tensor), unit_layout(tile), tile)


def unit_layout(unit: tuple[int, int]) -> cute.ComposedLayout:
    """Where a unit's rows lie, (row, (column, chunk)), a chunk 128 bytes of every row."""
    width = min(CHUNK, unit[1])  # fp32 come 32 at a time
    layout = cute.make_layout((unit[0], (width, unit[1] // width)), stride=(width, (1, width * unit[0])))
    return cute.make_composed_layout(cute.make_swizzle(3, 4, 3), 0, layout)


def units(buffer: cute.Tensor, unit: tuple[int, int], slots: int, dtype: Any = BFloat16) -> cute.Tensor:
    """A ring of units: (row, (column, chunk), slot)."""
    box = unit_layout(unit)
    shape, stride = (*box.outer.shape, slots), (*box.outer.stride, math.prod(unit))
    return cute.make_tensor(cute.recast_ptr(buffer.iterator, box.inner, dtype), cute.make_layout(shape, stride=stride))


def both_sides(atom: cute.CopyAtom, smem: cute.Tensor, gmem: Any) -> tuple[Any, Any]:
    """A box in shared memory, and where it lies in a tensor, as a TMA copy takes them."""
    return cpasync.tma_partition(atom, 0, cute.make_layout(1), *(cute.group_modes(each, 0, 2) for each in (smem, gmem)))
