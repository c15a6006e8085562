"""Launches of the kernel for a case, with guarded outputs and poisoned inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import kernel
from kernel import dsv4
from stages.buffers import Poisoned, gapped
from stages.case import Case
from stages.inputs import POISONS, Inputs, Poison, poisoned, poisoned_compressed

Call = Callable[[], kernel.Attention]


def launch(case: Case, inputs: Inputs, torch_device: str, poison: Poison = POISONS[0]) -> kernel.Attention:
    """Launch a case once, or once per branch with a merge. Keys that must not be read are poisoned.

    Raises WroteOutside if a guard element beside an output was overwritten.
    """
    buffers: list[Poisoned] = []

    def poisoned_outputs(q: torch.Tensor) -> kernel.Attention:
        buffers.append(Poisoned.like(q, case.config.partials, case.strided, flat=has_topk(case)))
        return buffers[-1].attention

    out = prepared(case, inputs, torch_device, poisoned_outputs, poison)()
    for outputs in buffers:
        outputs.check_guards()
    return out


def prepared(
    case: Case,
    inputs: Inputs,
    torch_device: str,
    outputs: Callable[[torch.Tensor], kernel.Attention | None] = lambda _: None,
    poison: Poison = POISONS[0],
) -> Call:
    """Return the call that `launch` makes, with its inputs already on the device.

    outputs: allocates the output tensors of a launch, given q; None lets the launch allocate them.
    """

    def placed(tensor: torch.Tensor | None) -> torch.Tensor | None:
        if tensor is None or not case.strided:
            return None if tensor is None else tensor.to(torch_device)
        return gapped(tensor.to(torch_device), flat=has_topk(case))

    q = placed(inputs.q)
    k = placed(poisoned(case, inputs.k, poison.k))
    v = None if inputs.v is None else placed(poisoned(case, inputs.v, poison.v))
    kv = placed(poisoned_compressed(case, inputs, poison.k))
    sink = None if case.sink is None else case.sink.to(torch_device)
    lens = None if case.lens is None else torch.tensor(case.lens, dtype=torch.int32, device=torch_device)
    assert q is not None and k is not None
    options: dict[str, Any] = {"splits": case.splits, "sms": case.sms, "swa_lens": lens}
    if case.layer:
        branch = _layer_branch(case, inputs, kv, torch_device)
        window = {} if case.window == dsv4.WINDOW else {"window": case.window}
        options |= {"attn_sink": sink, "softmax_scale": case.scale, **branch, **window}
        return lambda: dsv4.attention(q, k if case.keys else None, out=outputs(q), **options)
    options |= {"scale": case.scale, "causal": case.causal, "window": case.window, "p_path": case.p_path or "auto"}
    options |= {"partials": case.config.partials}

    def attention(k: torch.Tensor, compressed: kernel.AllBlocks | kernel.TopkBlocks | None, **more: Any) -> Call:
        return lambda: kernel.fmha(q, k, v, compressed=compressed, out=outputs(q), **options, **more)

    compressed = compressed_keys(case, inputs, kv, torch_device)
    if not case.merged:
        return attention(k, compressed, sink=sink)
    parts = [attention(k, None)]
    if compressed is not None:
        parts.append(attention(k[:, :0], compressed))
    return lambda: kernel.merge([part() for part in parts], sink)


def has_topk(case: Case) -> bool:
    """Return True if the case has top-k indices. Batch and tokens must then be viewable as one dimension."""
    return case.compressed is not None and case.compressed.topk is not None


def compressed_keys(
    case: Case, inputs: Inputs, kv: torch.Tensor | None, torch_device: str
) -> kernel.AllBlocks | kernel.TopkBlocks | None:
    """Return the argument `compressed` of kernel.fmha for the compressed keys `kv`."""
    if kv is None or case.compressed is None:
        return None
    if inputs.topk_indices is None or inputs.topk_lens is None:
        return kernel.AllBlocks(kv, case.seq_lens.to(torch_device), case.compressed.ratio)
    lens, topk = inputs.topk_lens, inputs.topk_indices.shape[2]
    if case.compressed.out_of_range:
        limits = torch.iinfo(lens.dtype)
        lens = lens.where(lens != 0, limits.min).where(lens != topk, limits.max)
    given = lens.to(torch_device) if case.compressed.lens else None
    return kernel.TopkBlocks(kv, inputs.topk_indices.to(torch_device), given)


def _layer_branch(case: Case, inputs: Inputs, kv: torch.Tensor | None, torch_device: str) -> dict[str, Any]:
    """Return the arguments of kernel.dsv4.attention for the compressed keys, without those equal to their default."""
    compressed = compressed_keys(case, inputs, kv, torch_device)
    if compressed is None:
        return {}
    if isinstance(compressed, kernel.TopkBlocks):
        lens = {} if compressed.lens is None else {"topk_lens": compressed.lens}
        return {"cmp_kv": kv, "topk_indices": compressed.indices, **lens}
    assert case.compressed is not None
    lens = {"seq_lens": compressed.seq_lens} if any(case.compressed.past) else {}
    return {"cmp_kv": kv, "compress_ratio": compressed.ratio, **lens}
