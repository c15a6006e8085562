"""The float64 reference of a case."""

from __future__ import annotations

import torch

import kernel
from kernel.reference import Partial, branch, merge, selection, weights
from stages.case import Case
from stages.inputs import Inputs
from stages.metrics import Array

Outputs = dict[str, Array]


def reference(case: Case, inputs: Inputs, visible: torch.Tensor | None = None) -> Outputs:
    """Return the expected outputs in float64, rows flattened. `visible` replaces the mask of the case."""
    parts = partials(case, inputs, visible)
    whole, out = joined(parts), merge(parts, case.sink)
    lse = out.lse if case.served is None else out.lse.where(out.lse > -torch.inf, case.served.empty_lse)
    return outputs_of(case, kernel.Attention(o=out.o, u=whole.u, lse=lse, m=whole.m))


def partials(case: Case, inputs: Inputs, visible: torch.Tensor | None = None) -> list[Partial]:
    """Return the partials of the branches in float64: the window, then the compressed keys if there are any."""
    parts = [
        branch(inputs.q, inputs.k, inputs.v, scale=case.scale, visible=case.visible if visible is None else visible)
    ]
    if case.served is not None:
        return cached(case, inputs)
    if inputs.compressed is None:
        return parts
    if inputs.topk_indices is None:
        return [*parts, branch(inputs.q, inputs.compressed, scale=case.scale, visible=case.visible_blocks)]
    return [
        *parts,
        selection(
            inputs.q,
            inputs.compressed,
            topk_indices=inputs.topk_indices,
            topk_lens=inputs.topk_lens,
            scale=case.scale,
        ),
    ]


def cached(case: Case, inputs: Inputs) -> list[Partial]:
    """Return the partials of each cache in float64."""
    return [
        selection(
            inputs.q,
            cache.keys.expand(case.batch, -1, -1),
            None if case.value_dim == case.head_dim else cache.keys[:, : case.value_dim].expand(case.batch, -1, -1),
            topk_indices=cache.indices,
            topk_lens=cache.counts.clamp(0, cache.indices.shape[2]),
            scale=case.scale,
        )
        for cache in inputs.caches
    ]


def joined(parts: list[Partial]) -> Partial:
    """Return the partial over the keys of all branches together."""
    m = torch.stack([part.m for part in parts]).amax(0)
    u = torch.stack([part.u * weights(part.m, m)[..., None] for part in parts]).sum(0)
    return Partial(u, torch.logsumexp(torch.stack([part.lse for part in parts]), 0), m)


def outputs_of(case: Case, attention: kernel.Attention) -> Outputs:
    """Return the results as float64 arrays: O and U [rows, value_dim], lse and m [rows]."""
    tensors = {"O": attention.o, "U": attention.u, "lse": attention.lse, "m": attention.m}
    outputs = {}
    for name in case.tensors:
        tensor = tensors[name]
        assert tensor is not None, f"the launch returned no {name}"
        outputs[name] = _float64(tensor.flatten(0, 2))
    return outputs


def _float64(tensor: torch.Tensor) -> Array:
    array: Array = tensor.detach().cpu().double().numpy()
    return array
