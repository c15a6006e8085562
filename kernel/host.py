"""The host call: check torch tensors, choose the configuration, launch the kernel."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch

from kernel.checks import (
    UNBOUNDED,
    check_compressed,
    check_flat,
    check_inputs,
    check_mask,
    check_outputs,
    check_outputs_flat,
    check_scale,
    check_sink,
    check_sms,
    check_values,
    plain,
    whole,
)
from kernel.chips import chip_of, configuration
from kernel.plan import RESULTS, Fill, Plan, Plans
from kernel.problem import PPath, Problem, mask_of
from kernel.tensors import AllBlocks, Attention, TopkBlocks
from kernel.tracing import OPERATORS, buffers, split_number, traced


class Options(NamedTuple):
    """The arguments of `fmha` that are no tensors."""

    scale: float | None
    causal: bool
    window: int | None
    p_path: PPath | Literal["auto"]
    splits: int | Literal["auto"]
    sms: int | None
    partials: bool


def fmha(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor | None = None,
    *,
    scale: float | None = None,
    swa_lens: torch.Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    compressed: AllBlocks | TopkBlocks | None = None,
    sink: torch.Tensor | None = None,
    p_path: PPath | Literal["auto"] = "auto",
    splits: int | Literal["auto"] = "auto",
    sms: int | None = None,
    partials: bool = True,
    out: Attention | None = None,
    debug: bool = False,
) -> Attention:
    """Compute attention of every query head over one shared key and value head.

    q: [B, T, H, D] bf16. k, v: [B, S, D] bf16; v=None means V = K, loaded once. D is one of HEAD_DIMS.
    scale: factor of the logits, default D^-0.5: a number, also of numpy or in a tensor of the CPU without dimensions.
    swa_lens: [B] int32, the number of each sequence's keys that hold something, 0 to S; the device clamps others to
    that range. Keys from there on may be NaN.
    causal: query t has key p = swa_lens[b] - T + t (S if swa_lens is None) and sees keys p - window + 1 to p;
    window=None is unbounded.
    compressed: further keys in the same softmax, which are also values, so that v must be None.
    sink: [H] fp32, a logit of each head in the denominator of O only, not scaled and not part of lse; -inf is none,
    +inf makes O 0.
    p_path: the memory through which P goes to the second product. splits: the number of CTAs that the keys of a row
    tile are split over, one of SPLITS; the result's last bits depend on it. sms: the maximum of CTAs unless keys are
    split, an even number, to leave SMs to other kernels. window, splits and sms may be integers of numpy.
    partials: write U and m, too. out: buffers for the results, shaped as in Attention. debug: reject lengths and top-k
    indices out of range, which synchronizes with the device.
    Runs on the current stream of q's device. Raises ArgumentError before anything is compiled or launched.
    """
    scale = scale if scale is None or type(scale) is float else plain(scale)
    options = Options(scale, causal, window, p_path, splits, sms, partials)
    if traced(q):
        return traced_fmha(q, k, v, swa_lens, compressed, sink, out, options)
    call = q, k, v, swa_lens, compressed, sink, out, options, debug
    try:
        tensors = tensors_of(q, k, v, swa_lens, compressed, sink, out)
    except AttributeError:  # of `compressed` or `out`, whose type is checked
        planned(*call)
        raise
    plan = PLANS.find(call, (*options, compressed and compressed.options), tensors, debug)
    found = PLANS.launch(plan, call, tensors)
    return Attention(*found) if out is None else out


def traced_fmha(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor | None,
    swa_lens: torch.Tensor | None,
    compressed: AllBlocks | TopkBlocks | None,
    sink: torch.Tensor | None,
    out: Attention | None,
    options: Options,
) -> Attention:
    """Make a call of `fmha` by its operator."""
    found = buffers(q, q.shape[-1], options.partials) if out is None else out
    kv, which, counts = NO_BRANCH if compressed is None else compressed.tensors
    ratio = compressed.ratio if isinstance(compressed, AllBlocks) else 0
    numbers = (ratio, *options._replace(splits=split_number(options.splits))[:-1])
    OPERATORS.fmha(q, k, v, swa_lens, sink, kv, which, counts, *numbers, *found.tensors)
    return found


def tensors_of(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor | None,
    swa_lens: torch.Tensor | None,
    compressed: AllBlocks | TopkBlocks | None,
    sink: torch.Tensor | None,
    out: Attention | None,
) -> tuple[torch.Tensor | None, ...]:
    """Return the tensors of a call, its buffers last."""
    branch = NO_BRANCH if compressed is None else compressed.tensors
    return (q, k, v, swa_lens, sink, *branch, *(NO_BUFFERS if out is None else out.tensors))


NO_BRANCH, NO_BUFFERS = (None,) * 3, (None,) * 4


def planned(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor | None,
    swa_lens: torch.Tensor | None,
    compressed: AllBlocks | TopkBlocks | None,
    sink: torch.Tensor | None,
    out: Attention | None,
    options: Options,
    debug: bool,
) -> Plan:
    """Check a call, choose its configuration, and plan its launch. Raises ArgumentError."""
    check_inputs(q, k, v)
    batch, tokens, heads, head_dim = q.shape
    scale, causal, window, p_path, splits, sms, partials = options
    window, splits, sms = map(whole, (window, splits, sms))
    scale = head_dim**-0.5 if scale is None else scale
    check_scale(scale)
    check_mask(q, swa_lens, causal, window)
    check_compressed(q, v, compressed)
    check_sink(q, sink)
    check_sms(sms)
    if debug:
        check_values(k.shape[1], swa_lens, compressed)
    keys = k.shape[1]
    problem = Problem(
        head_dim=head_dim,
        heads=heads,
        tokens=tokens,
        batch=batch,
        keys=keys,
        mask=mask_of(causal, swa_lens is not None),
        window=window,
        shared_kv=v is None,
        compressed="none" if compressed is None else compressed.kind,
        compressed_keys=0 if compressed is None else compressed.keys_per_token,
        sink=sink is not None,
        partials=partials,
        p_path=p_path,
        splits=splits,
        sms=sms,
    )
    config = configuration(problem, q.device)
    if out is not None:
        check_outputs(out, q, partials)
        if config.compressed == "topk":
            check_outputs_flat(q, out)
    elif config.compressed == "topk":
        check_flat("q", q)
    results = {"o": (torch.bfloat16, q.shape), "lse": (torch.float32, q.shape[:3])}
    results |= {"u": (torch.float32, q.shape), "m": (torch.float32, q.shape[:3])} if partials else {}
    plan = Plan(q.device, results if out is None else {})
    if q.numel() == 0 or q.is_meta:
        return plan
    stand_ins = plan.stand_ins(tensors_of(q, k, v, swa_lens, compressed, sink, out))
    q, k, v, swa_lens, sink, *branch = stand_ins[:-4]
    compressed = None if compressed is None else compressed.of(*branch)
    values = {"q": q, **dict(zip(RESULTS, stand_ins[-4:], strict=True)), "tokens": tokens, "heads": heads}
    values |= {"rows": problem.rows, **compressed_values(q, compressed), "k": k, "v": v}
    if keys == 0:  # a tensor map cannot describe an empty tensor
        values |= {name: Fill((batch, 1, head_dim), q.dtype, 0) for name in ("k", "v")}
    lens = Fill((batch,), torch.int32, keys) if causal and swa_lens is None else swa_lens
    values |= {"lens": lens, "keys": keys, "window": window or UNBOUNDED}
    values |= {"ctas": sms or chip_of(config).sms, "sink": sink, "scale_log2": scale * math.log2(math.e)}
    plan.set_launch(config, values, stand_ins)
    return plan


PLANS = Plans(planned)
Values = dict[str, torch.Tensor | Fill | float | None]


def compressed_values(q: torch.Tensor, branch: AllBlocks | TopkBlocks | None) -> Values:
    """Return the kernel arguments of the compressed keys."""
    if branch is None:
        return {"compressed_keys": 0, "ratio": 1}
    kv: torch.Tensor | Fill = branch.kv
    batch, keys, head_dim = branch.kv.shape
    if keys == 0:  # a tensor map cannot describe an empty tensor
        kv = Fill((batch, 1, head_dim), q.dtype, 0)
    if isinstance(branch, AllBlocks):
        return {"compressed": kv, "positions": branch.seq_lens, "compressed_keys": keys, "ratio": whole(branch.ratio)}
    rows, topk = tuple(q.shape[:2]), branch.keys_per_token
    indices = Fill((*rows, 1), torch.int32, -1) if topk == 0 else branch.indices
    lens = Fill(rows, torch.int32, topk) if branch.lens is None else branch.lens
    return {"compressed": kv, "topk_indices": indices, "topk_lens": lens, "compressed_keys": keys, "ratio": 1}
