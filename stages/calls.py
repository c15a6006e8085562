"""Calls of the kernel under test: by its own Python, or by whatever takes its place, such as a recording of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch

import kernel
from stages.caches import NAMES, Paged, Served
from stages.case import Case

LAYER_WINDOW = 128
"""The window that kernel.dsv4.attention must have by default. Cases with another one pass it."""
Tensors = Mapping[str, torch.Tensor]
"""Tensors of a call by name: q, k, v, compressed, sink, lens, seq_lens, topk_indices and topk_lens, if it has them."""
Outputs = Sequence[kernel.Attention | None]
"""Buffers for the results of each launch of a call; None lets the kernel allocate them."""


class Tiles(NamedTuple):
    """Rows of a row tile, rows of a warp, and keys of a KV tile."""

    rows: int
    rows_of_warp: int
    keys: int


class Caller(Protocol):
    """The kernel under test, as the stages call it."""

    def compile_s(self, case: Case) -> float:
        """Compile the configuration of a case, unless that was done. Return the seconds that it took."""

    def call(self, case: Case, tensors: Tensors, out: Outputs) -> kernel.Attention:
        """Make the call of a case."""

    def warps(self, case: Case) -> dict[int, str]:
        """Return the names of the warps' roles."""

    def mbarriers(self, case: Case) -> Mapping[int, str]:
        """Return names of mbarriers for reports, by offset in shared memory."""

    def tiles(self, case: Case) -> Tiles:
        """Return how the kernel divides the case into tiles, for reports."""

    def accepted(self, table: str, torch_device: str) -> list[str]:
        """Make the bad calls of a table of `bad_arguments`. Return a line for each that was not rejected by name."""


class Python:
    """The kernel's Python in this process."""

    def compile_s(self, case: Case) -> float:
        return kernel.compile(case.config).compile_s

    def call(self, case: Case, tensors: Tensors, out: Outputs) -> kernel.Attention:
        options: dict[str, Any] = {"splits": case.splits, "sms": case.sms, "swa_lens": tensors.get("lens")}
        if case.served is not None:
            return _serve(case, case.served, tensors, out[0])
        q, k, v, sink = tensors["q"], tensors["k"], tensors.get("v"), tensors.get("sink")
        if case.layer:
            window = {} if case.window == LAYER_WINDOW else {"window": case.window}
            options |= {"attn_sink": sink, "softmax_scale": case.scale, **_layer_branch(case, tensors), **window}
            return kernel.dsv4.attention(q, k if case.keys else None, out=out[0], **options)
        options |= {"scale": case.scale, "causal": case.causal, "window": case.window, "p_path": case.p_path or "auto"}
        options |= {"partials": case.writes_partials}
        compressed = _compressed(case, tensors)
        if not case.merged:
            return kernel.fmha(q, k, v, compressed=compressed, sink=sink, out=out[0], **options)
        parts = [kernel.fmha(q, k, v, out=out[0], **options)]
        if compressed is not None:
            parts.append(kernel.fmha(q, k[:, :0], v, compressed=compressed, out=out[1], **options))
        return _merged_outputs(parts, sink) if case.merged == "outputs" else kernel.merge(parts, sink)

    def warps(self, case: Case) -> dict[int, str]:
        return {warp: name for name, warps in vars(case.config.roles).items() for warp in warps}

    def mbarriers(self, case: Case) -> Mapping[int, str]:
        return case.config.mbarriers

    def tiles(self, case: Case) -> Tiles:
        config = case.config
        return Tiles(config.tile_m, config.variant.rows_per_warp, config.block_n)

    def accepted(self, table: str, torch_device: str) -> list[str]:
        from stages import bad_arguments

        return bad_arguments.accepted(table, torch_device)


callers: list[Caller] = [Python()]
"""The last of them is the kernel under test."""


def launches(case: Case) -> int:
    """Return the number of launches of a case's call: one, or one per branch with `merged`."""
    return 2 if case.merged and case.compressed is not None else 1


def has_topk(case: Case) -> bool:
    """Return True if the case has top-k indices. Batch and tokens must then be viewable as one dimension."""
    return case.compressed is not None and case.compressed.topk is not None


def _serve(case: Case, served: Served, tensors: Tensors, out: kernel.Attention | None) -> kernel.Attention:
    """Make the call of kernel.serving for a case."""
    options: dict[str, Any] = {"splits": case.splits, "sms": case.sms, "scale": case.scale}
    options |= {"sink": tensors.get("sink"), "empty_lse": served.empty_lse, "maxima": served.maxima}
    if served.invariant:
        options |= {"splits": "auto", "batch_invariant": True}
    if served.flat:
        first = None if out is None else kernel.Attention(out.o[0], out.lse[0], m=None if out.m is None else out.m[0])
        lens = tensors.get("main_lens")
        flat = tensors["q"][0], tensors["main"][:, 0, 0], tensors["main_indices"][0], None if lens is None else lens[0]
        found = kernel.serving.sparse_attention(*flat, out=first, **options)
        return kernel.Attention(found.o[None], found.lse[None], m=None if found.m is None else found.m[None])
    caches: list[Any] = [_cache(paged, tensors, name) for paged, name in zip(served.caches, NAMES, strict=False)]
    return kernel.serving.attention(tensors["q"], *caches, out=out, **options)


def _cache(paged: Paged, tensors: Tensors, name: str) -> kernel.serving.IndexedCache | kernel.serving.TableCache:
    pages, page_scales = tensors[name], paged.layout.endswith("page_scales")
    if paged.window is not None:
        pages = pages.view(torch.float8_e4m3fn) if pages.dtype == torch.uint8 else pages
        window = None if paged.window == math.inf else int(paged.window)
        table, lens = tensors[f"{name}_table"], tensors[f"{name}_lens"]
        return kernel.serving.TableCache(pages, table, lens, window, page_scales)
    return kernel.serving.IndexedCache(pages, tensors[f"{name}_indices"], tensors.get(f"{name}_lens"), page_scales)


def _merged_outputs(parts: Sequence[kernel.Attention], sink: torch.Tensor | None) -> kernel.Attention:
    """Merge branches by o in fp32 and lse alone. Rows without a key have o = NaN, and in the first branch lse = inf."""
    pairs = [(each.u * torch.exp(each.m - each.lse)[..., None], each.lse) for each in parts]  # type: ignore[operator]
    pairs[0] = pairs[0][0], pairs[0][1].masked_fill(pairs[0][1] == -torch.inf, torch.inf)
    found = kernel.merge_outputs(pairs, sink)
    return kernel.Attention(found.o.bfloat16(), found.lse)


def _compressed(case: Case, tensors: Tensors) -> kernel.AllBlocks | kernel.TopkBlocks | None:
    """Return the argument `compressed` of kernel.fmha."""
    if case.compressed is None:
        return None
    if has_topk(case):
        return kernel.TopkBlocks(tensors["compressed"], tensors["topk_indices"], tensors.get("topk_lens"))
    return kernel.AllBlocks(tensors["compressed"], tensors["seq_lens"], case.compressed.ratio)


def _layer_branch(case: Case, tensors: Tensors) -> dict[str, Any]:
    """Return the arguments of kernel.dsv4.attention for the compressed keys, without those equal to their default."""
    if case.compressed is None:
        return {}
    names = {"cmp_kv": "compressed", "topk_indices": "topk_indices", "topk_lens": "topk_lens"}
    branch: dict[str, Any] = {name: tensors[key] for name, key in names.items() if key in tensors}
    if has_topk(case):
        return branch
    lens = {"seq_lens": tensors["seq_lens"]} if any(case.compressed.past) else {}
    return branch | {"compress_ratio": case.compressed.ratio, **lens}
