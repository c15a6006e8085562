"""Merge of branches from separate launches into one attention with a sink, in torch."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kernel.checks import check_rank, check_shape, check_sink, check_tensor
from kernel.errors import ArgumentError
from kernel.tensors import Attention

NEG_INF = -torch.inf


def merge(branches: Sequence[Attention], sink: torch.Tensor | None = None) -> Attention:
    """Compute one softmax over the keys of all branches and a sink (docs/explanation/attention.md, D5).

    branches: at least one, with partials: u [B, T, H, D], lse and m [B, T, H], fp32. sink: [H] fp32, a logit in the
    denominator of o only; -inf is none, +inf makes o 0. Returns o [B, T, H, D] bf16 and lse [B, T, H] fp32 without the
    sink; a row that sees no key in any branch has o = 0 and lse = -inf. Raises ArgumentError.
    """
    if not branches:
        raise ArgumentError("branches", "empty", "at least one")
    check_sink(branches[0].o, sink)
    partials = [checked(i, branch, branches[0].o) for i, branch in enumerate(branches)]
    lse = torch.stack([lse for _, lse, _ in partials])
    sinks = torch.full_like(lse[0], NEG_INF) if sink is None else sink.expand_as(lse[0])
    top = torch.maximum(lse.amax(dim=0), sinks)
    weight = exp_of_difference(lse, top)
    total = weight.sum(dim=0) + exp_of_difference(sinks, top)
    fractions = torch.where(total > 0, weight / total, torch.zeros_like(weight))
    o = torch.zeros_like(branches[0].o, dtype=torch.float32)
    for (u, own_lse, m), fraction in zip(partials, fractions, strict=True):
        o += u * (fraction * exp_of_difference(m, own_lse))[..., None]
    return Attention(o.bfloat16(), torch.logsumexp(lse, dim=0))


def merge_outputs(
    parts: Sequence[tuple[torch.Tensor, torch.Tensor]], sink: torch.Tensor | None = None, empty_lse: float = NEG_INF
) -> Attention:
    """Compute one softmax over the keys of all parts and a sink from outputs and lse alone, as in context parallelism.

    parts: at least one pair of o [..., H, D], bf16 or fp32, and lse [..., H] fp32, natural logarithm, of calls without
    sink, such as those of the ranks among which keys are divided. A row that saw no key has an lse of -inf, as here and
    in FlashInfer, or of +inf, as in FlashMLA. sink: [H] fp32, applied once, after the merge. Returns o in the dtype of
    the first part, and lse without the sink; where no part saw a key they are 0 and empty_lse. Raises ArgumentError.
    """
    if not parts:
        raise ArgumentError("parts", "empty", "at least one pair of o and lse")
    o = parts[0][0]
    check_rank("parts[0][0]", o, range(2, 9), "[..., H, D]")
    for i, part in enumerate(parts):
        for name, tensor, like, dtypes in (
            (f"parts[{i}][0]", part[0], o, (torch.bfloat16, torch.float32)),
            (f"parts[{i}][1]", part[1], o[..., 0], (torch.float32,)),
        ):
            check_rank(name, tensor, (like.dim(),), "[..., H, D] of o, [..., H] of lse")
            check_shape(name, tensor, like.shape, "that of the first o" if tensor is part[0] else "[..., H]")
            if tensor.dtype not in dtypes:
                raise ArgumentError(f"{name}.dtype", tensor.dtype, " or ".join(map(str, dtypes)))
    if sink is not None:
        check_tensor("sink", sink, torch.float32, 1, "[H]", o)
        check_shape("sink", sink, o.shape[-2:-1], "[H]")
    lse = torch.stack([each.masked_fill(each == torch.inf, NEG_INF) for _, each in parts])
    total = torch.logsumexp(lse, dim=0)
    empty = total == NEG_INF
    denominator = total if sink is None else torch.logsumexp(torch.stack([total, sink.expand_as(total)]), dim=0)
    weights = torch.exp(lse - denominator).masked_fill(empty, 0)
    merged = torch.zeros_like(o, dtype=torch.float32)
    for (each, _), weight in zip(parts, weights, strict=True):
        merged += torch.where(weight[..., None] > 0, each.float() * weight[..., None], 0)
    return Attention(merged.to(o.dtype), total.masked_fill(empty, empty_lse))


def exp_of_difference(x: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Return exp(x - reference) without NaN: 0 if x is -inf, 1 if both are +inf."""
    same = torch.where(x == reference, torch.zeros_like(x), x - reference)
    return torch.where(x == NEG_INF, torch.zeros_like(x), torch.exp(same))


def checked(i: int, branch: Attention, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return u, lse and m of branch `i`. Raises ArgumentError if they are missing or have another shape."""
    if branch.u is None or branch.m is None:
        raise ArgumentError(f"branches[{i}].u or .m", None, "tensors, as fmha gives them with partials=True")
    for name, tensor in (("u", branch.u), ("lse", branch.lse), ("m", branch.m)):
        shape, form = (like.shape, "[B, T, H, D]") if name == "u" else (like.shape[:3], "[B, T, H]")
        check_tensor(f"branches[{i}].{name}", tensor, torch.float32, len(shape), form, like)
        check_shape(f"branches[{i}].{name}", tensor, shape, form)
    return branch.u, branch.lse, branch.m
