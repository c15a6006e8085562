"""Layouts of operands and results: shared-memory layouts, TMA atoms and their tensor views.

The host side of a launch builds these while tracing. The device code uses them as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import cutlass.cute as cute
from cutlass import BFloat16, Int32, Int64, Uint8
from cutlass.cute.nvgpu import cpasync, tcgen05
from cutlass.memory import SmemAllocator

from kernel.arguments import Arguments, Operands
from kernel.device.config import DeviceConfig
from kernel.device.tiles import LoopInvariant
from kernel.hardware import BF16_BYTES, SMEM_ALIGN, SWIZZLE_BYTES, VECTOR_BYTES

CHUNK = SWIZZLE_BYTES // BF16_BYTES  # bf16 of a swizzled row


class KeyLoads(NamedTuple):
    """TMA loads of slices of K and V, each an atom and its tensor of coordinates. v: None if V is read as K."""

    k: cpasync.TmaInfo | None = None
    v: cpasync.TmaInfo | None = None
    v_local: cpasync.TmaInfo | None = None  # V that signals its own CTA of a pair, which clears keys before use
    rope: cpasync.TmaInfo | None = None  # rotary columns of K


class Copies(NamedTuple):
    """TMA of Q, of the keys of the window, or of a cache, and the compressed ones, and of O and U [G, R, D]."""

    q: cpasync.TmaInfo
    queries: cute.Tensor  # Q in global memory as (row, dim, group), for prefetches
    window: KeyLoads
    compressed: KeyLoads
    topk_keys: cute.Tensor | None  # compressed keys as (key, dim) where tokens have top-k indices: no TMA then
    o: cpasync.TmaInfo | cute.Tensor  # the tensor itself where keys are split: no TMA then
    u: cpasync.TmaInfo | cute.Tensor | None


class Buffers(LoopInvariant):
    """The buffers of shared memory, in their order: mbarriers, buffers of one chip, Q, rings of K and V, others."""

    def __init__(self, config: DeviceConfig) -> None:
        """Allocate the mbarriers, which come first."""
        self.allocator = SmemAllocator()
        self.barriers = self.allocator.allocate_array(Int64, config.barrier_count)

    def bf16(self, size: int) -> cute.Tensor:
        """Allocate bytes for bf16."""
        return self.allocator.allocate_tensor(BFloat16, cute.make_layout(size // BF16_BYTES), SMEM_ALIGN)

    def allocate_operands(self, config: DeviceConfig) -> None:
        """Allocate Q, the ring of K, that of V unless V is read as K, and the slot of K's rotary columns."""
        self.sQ = self.bf16(config.smem.q_bytes)
        self.sK = self.bf16(config.smem.depth * config.smem.kv_tile_bytes)
        self.sV = self.bf16(config.smem.depth * config.smem.kv_tile_bytes) if config.loads_v else self.sK
        self.sRope = self.bf16(config.smem.rope_bytes) if config.rope_dim else None


def cta_group(config: DeviceConfig) -> tcgen05.CtaGroup:
    """Return the CTA group that issues an MMA."""
    return tcgen05.CtaGroup.TWO if config.mma_ctas == 2 else tcgen05.CtaGroup.ONE


def copies(config: DeviceConfig, operands: Operands) -> Copies:
    """Build the TMA loads and stores of a launch, and the tensors that are accessed without TMA."""
    queries = view(operands.q, config.qk_dim)
    q = load_atom(config, queries, (config.tile_m, config.qk_dim))
    window = KeyLoads() if config.caches else key_loads(config, operands.k, operands.v)
    compressed = KeyLoads()
    if config.compressed == "blocks":
        compressed = key_loads(config, operands.compressed, operands.compressed)
    topk_keys = rows_of_all(operands.compressed, config.head_dim) if config.compressed == "topk" else None
    results = operands.o, operands.u
    if not config.stores_by_tma and config.caches:
        results = by_group(operands.o), None
    if config.stores_by_tma:
        results = tuple(None if each is None else store_atom(config, each) for each in results)
    return Copies(q, queries, window, compressed, topk_keys, *results)


def key_loads(config: DeviceConfig, k: cute.Tensor, v: cute.Tensor) -> KeyLoads:
    """Build the TMA loads of one branch's keys and values."""
    k, v = view(k, config.head_dim), view(v, config.head_dim)
    load_k = load_atom(config, k, config.k_slice)
    if not config.loads_v:
        return KeyLoads(load_k)
    local = load_atom(config, v, config.v_slice, local=True) if config.mma_ctas == 2 else None
    return KeyLoads(load_k, load_atom(config, v, config.v_slice), local)


def view(tensor: cute.Tensor, columns: int) -> cute.Tensor:
    """`tensor` [B, rows, D] as (rows, D, B), with D = `columns` static and the other strides multiples of 16 bytes.

    [B, T, rows, D] becomes (rows, D, (T, B)), whose last mode counts the groups.
    """
    groups, strides = tensor.shape[-3::-1], tuple(cute.assume(Int64(each), divby=8) for each in tensor.stride[-3::-1])
    row_stride = cute.assume(Int64(tensor.stride[-2]), divby=8)
    group, stride = (groups, strides) if len(groups) > 1 else (groups[0], strides[0])
    layout = cute.make_layout((tensor.shape[-2], columns, group), stride=(row_stride, 1, stride))
    return cute.make_tensor(tensor.iterator, layout)


def rows_of_all(tensor: cute.Tensor, columns: int) -> cute.Tensor:
    """`tensor` [B, rows, D] as (B * rows, D), with D = `columns` static."""
    rows = merged(tensor, 0)
    return cute.make_tensor(rows.iterator, cute.make_layout((rows.shape[0], columns), stride=(rows.stride[0], 1)))


def grouped(config: DeviceConfig, tensors: Operands, args: Arguments) -> tuple[Operands, Arguments]:
    """Return the arguments of a call in the form of the device code: rows in groups, and no tensor twice.

    Queries and results become [G, R, D], and statistics [G, R]. With caches q stays [B, T, R, D], and O and statistics
    have one mode for batch and token.
    """
    rows = {name: getattr(tensors, name) for name in ("q", "o", "u")}
    statistics = {name: getattr(args, name) for name in ("lse", "m")}
    if not config.caches:
        first = 0 if config.compressed == "topk" else 1
        changed = {name: merged(each, first) for name, each in (rows | statistics).items() if each is not None}
        if config.compressed == "topk":
            changed |= {name: merged(getattr(args, name), 0) for name in ("topk_indices", "topk_lens")}
        if tensors.v is None:
            changed |= {"v": tensors.k}
        return replaced(tensors, changed), replaced(args, changed)
    if config.flat:
        rows = {name: None if each is None else one_sequence(each) for name, each in rows.items()}
        statistics = {name: None if each is None else one_sequence(each) for name, each in statistics.items()}
    changed = rows | {name: None if each is None else by_group(each) for name, each in statistics.items()}
    for name, _ in zip(("main", "extra"), config.caches, strict=False):
        changed |= cache_arguments(config, args, name, rows["q"].shape[0])
    return replaced(tensors, changed), replaced(args, changed)


def replaced(table: Any, changed: Mapping[str, Any]) -> Any:
    """Return a table of arguments with values of `changed` for the arguments that it has."""
    return table._replace(**{name: value for name, value in changed.items() if name in table._fields})


def cache_arguments(config: DeviceConfig, args: Arguments, name: str, batch: Any) -> dict[str, Any]:
    """Return pages as bytes [P, X], and the indices and lengths of a cache as [B, T, K] and [B, L]."""
    pages, indices, lens = (getattr(args, name + suffix) for suffix in ("", "_indices", "_lens"))
    page_bytes = cute.assume(Int64(pages.stride[0]) * (pages.element_type.width // 8), divby=VECTOR_BYTES)
    layout = cute.make_layout((pages.shape[0], pages.shape[-1]), stride=(page_bytes, 1))
    changed = {name: cute.make_tensor(cute.recast_ptr(pages.iterator, dtype=Uint8), layout)}
    if config.flat:
        tokens, one, columns = indices.shape
        stride = indices.stride[0]
        layout = cute.make_layout((one, tokens, columns), stride=(stride, stride, 1))
        changed[f"{name}_indices"] = cute.make_tensor(indices.iterator, layout)
    if lens is not None:
        tokens, step = (getattr(args, f"{name}_lens_{each}") for each in ("tokens", "step"))
        layout = cute.make_layout((batch, tokens), stride=(step, 1))
        changed[f"{name}_lens"] = cute.make_tensor(lens.iterator, layout)
    return changed | {f"{name}_lens_tokens": None, f"{name}_lens_step": None}


def merged(tensor: cute.Tensor, first: int) -> cute.Tensor:
    """`tensor` with modes `first` and `first` + 1 as one. They need a common stride, unless the first has size 1."""
    shape, stride = list(tensor.shape), list(tensor.stride)
    shape[first : first + 2], stride[first : first + 2] = [shape[first] * shape[first + 1]], [stride[first + 1]]
    unit = tensor.iterator.alignment * 8 // tensor.element_type.width
    aligned = (each if isinstance(each, int) else cute.assume(Int64(each), divby=unit) for each in stride)
    return cute.make_tensor(tensor.iterator, cute.make_layout(tuple(shape), stride=tuple(aligned)))


def one_sequence(tensor: cute.Tensor) -> cute.Tensor:
    """`tensor` [T, ...] as [1, T, ...], whose first size is not static."""
    layout = cute.make_layout((Int32(1), *tensor.shape), stride=(tensor.stride[0], *tensor.stride))
    return cute.make_tensor(tensor.iterator, layout)


def by_group(tensor: cute.Tensor) -> cute.Tensor:
    """`tensor` [B, T, rows, ...] as ((T, B), rows, ...), whose first mode counts the groups."""
    batch, tokens, *shape = tensor.shape
    batch_stride, token_stride, *stride = tensor.stride
    layout = cute.make_layout(((tokens, batch), *shape), stride=((token_stride, batch_stride), *stride))
    return cute.make_tensor(tensor.iterator, layout)


def load_atom(config: DeviceConfig, tensor: cute.Tensor, box: tuple[int, int], local: bool = False) -> cpasync.TmaInfo:
    """TMA load of a box of (row, column, group). It signals the leader CTA of a pair, or with `local` its own CTA."""
    load = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE if local else cta_group(config))
    return cpasync.make_tiled_tma_atom(load, tensor, box_layout(box), box)


def store_atom(config: DeviceConfig, tensor: cute.Tensor) -> cpasync.TmaInfo:
    """TMA store of 128 bytes of each of a warp's rows."""
    box = config.variant.rows_per_warp, SWIZZLE_BYTES * 8 // tensor.element_type.width
    rows = view(tensor, config.head_dim)
    return cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileS2GOp(), rows, box_layout(box), box)


def box_layout(box: tuple[int, int]) -> cute.ComposedLayout:
    """Swizzled shared-memory layout of a box: (row, (column, chunk)); a chunk is 128 bytes of every row."""
    width = min(CHUNK, box[1])  # fp32 rows of a chunk have 32 elements
    layout = cute.make_layout((box[0], (width, box[1] // width)), stride=(width, (1, width * box[0])))
    return cute.make_composed_layout(cute.make_swizzle(3, 4, 3), 0, layout)


def slice_ring(buffer: cute.Tensor, box: tuple[int, int], slots: int, dtype: Any = BFloat16) -> cute.Tensor:
    """Return a buffer as a ring of boxes: (row, (column, chunk), slot)."""
    layout = box_layout(box)
    shape = (*layout.outer.shape, slots)
    stride = (*layout.outer.stride, math.prod(box))
    pointer = cute.recast_ptr(buffer.iterator, layout.inner, dtype)
    return cute.make_tensor(pointer, cute.make_layout(shape, stride=stride))


def tma_partition(atom: cute.CopyAtom, smem: cute.Tensor, gmem: Any) -> tuple[Any, Any]:
    """Return a box in shared memory and its place in global memory, as operands of a TMA copy."""
    return cpasync.tma_partition(atom, 0, cute.make_layout(1), *(cute.group_modes(each, 0, 2) for each in (smem, gmem)))
