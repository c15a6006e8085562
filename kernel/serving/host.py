"""The host calls for caches: check torch tensors, choose the configuration, launch the kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch

from kernel import host
from kernel.checks import (
    MAX_CTAS,
    check_alignment,
    check_rank,
    check_scale,
    check_shape,
    check_sink,
    check_sms,
    check_tensor,
)
from kernel.chips import Config, chip, configuration
from kernel.errors import ArgumentError
from kernel.plan import Plan, Plans
from kernel.problem import Problem
from kernel.serving.caches import HEAD_DIM, QK_DIMS, IndexedCache, TableCache, Values
from kernel.tensors import Attention

MAX_HEADS = 128


def attention(
    q: torch.Tensor,
    main: IndexedCache | TableCache,
    extra: IndexedCache | None = None,
    *,
    scale: float | None = None,
    sink: torch.Tensor | None = None,
    empty_lse: float = -math.inf,
    maxima: bool = False,
    splits: int | Literal["auto"] = "auto",
    batch_invariant: bool = False,
    sms: int | None = None,
    out: Attention | None = None,
    debug: bool = False,
) -> Attention:
    """Compute attention of each token over its keys in one or two caches, in one softmax. Keys are also the values.

    q: [B, T, H, D] bf16, 1 to 128 heads of D = 512 or 576; strides are multiples of 16 bytes. Values are the first 512
    columns of keys. A key that both caches list counts twice. scale: factor of the logits, default D^-0.5. sink: [H]
    fp32, a logit of each head in the denominator of o only, not scaled; -inf is none, +inf makes o 0. empty_lse: lse of
    a token that sees no key; its o is 0. maxima: return m, too, the largest scaled logit of a row, -inf if it sees no
    key. splits, sms: as of kernel.fmha. batch_invariant: the bits of a token do not depend on the other tokens; keys
    are then not split. out: buffers for the results; any strides that are multiples of 16 bytes (o), the last one 1.
    debug: reject lengths, indices and pages that are out of range, but for the index -1, which synchronizes with the
    device.

    Returns o [B, T, H, 512] bf16, lse [B, T, H] fp32 (natural logarithm, without the sink), m [B, T, H] fp32 or None.
    Runs on the current stream of q's device. Raises ArgumentError before anything is compiled or launched.
    """
    call = q, main, extra, scale, sink, empty_lse, maxima, splits, batch_invariant, sms, out, debug
    try:
        tensors = tensors_of(q, main, extra, sink, out)
        options = main.options, extra and extra.options, scale, empty_lse, maxima, splits, batch_invariant, sms
    except AttributeError:  # of a cache or `out`, whose types are checked
        planned(*call)
        raise
    plan = PLANS.find(call, options, tensors, debug)
    found = PLANS.launch(plan, call, tensors)
    return found if out is None else out


def tensors_of(
    q: torch.Tensor,
    main: IndexedCache | TableCache,
    extra: IndexedCache | None,
    sink: torch.Tensor | None,
    out: Attention | None,
) -> tuple[torch.Tensor | None, ...]:
    """Return the tensors of a call, its buffers last."""
    of_extra = host.NO_BRANCH if extra is None else extra.tensors
    return (q, sink, *main.tensors, *of_extra, *(host.NO_BUFFERS if out is None else out.tensors))


def planned(
    q: torch.Tensor,
    main: IndexedCache | TableCache,
    extra: IndexedCache | None,
    scale: float | None,
    sink: torch.Tensor | None,
    empty_lse: float,
    maxima: bool,
    splits: int | Literal["auto"],
    batch_invariant: bool,
    sms: int | None,
    out: Attention | None,
    debug: bool,
) -> Plan:
    """Check a call, choose its configuration, and plan its launch. Raises ArgumentError."""
    config = checked(q, main, extra, scale, sink, maxima, splits, batch_invariant, sms, out, debug)
    plan = Plan(q.device, results(q.shape, maxima) if out is None else {})
    if q.numel() == 0:
        return plan
    stand_ins = plan.stand_ins(tensors_of(q, main, extra, sink, out))
    q, sink, *rest = stand_ins
    main, extra = main.of(*rest[:3]), None if extra is None else extra.of(*rest[3:6])
    values = kernel_values(q, main, extra, scale, sink, empty_lse, sms, Attention(*rest[6:]))
    plan.set_launch(config, values, stand_ins)
    return plan


PLANS = Plans(planned)


def checked(
    q: torch.Tensor,
    main: IndexedCache | TableCache,
    extra: IndexedCache | None,
    scale: float | None,
    sink: torch.Tensor | None,
    maxima: bool,
    splits: int | Literal["auto"],
    batch_invariant: bool,
    sms: int | None,
    out: Attention | None,
    debug: bool,
) -> Config:
    """Check a call, and choose its configuration. Raises ArgumentError."""
    check_queries(q)
    for name, cache in (("main", main), ("extra", extra)):
        allowed = (IndexedCache, TableCache) if name == "main" else (IndexedCache, type(None))
        if not isinstance(cache, allowed):
            raise ArgumentError(name, type(cache).__name__, " or ".join(each.__name__ for each in allowed))
        if cache is not None:
            cache.check(name, q)
    check_scale(q.shape[3] ** -0.5 if scale is None else scale)
    check_sink(q, sink)
    check_sms(sms)
    if debug:
        main.check_values("main", q)
        if extra is not None:
            extra.check_values("extra", q)
    if batch_invariant and splits not in (1, "auto"):
        raise ArgumentError("splits", splits, "1 or 'auto' with batch_invariant=True")
    problem = serving_problem(q, main, extra, sink is not None, maxima, 1 if batch_invariant else splits)
    config = configuration(problem)
    if out is not None:
        check_outputs(out, q, maxima)
    return config


def kernel_values(
    q: torch.Tensor,
    main: IndexedCache | TableCache,
    extra: IndexedCache | None,
    scale: float | None,
    sink: torch.Tensor | None,
    empty_lse: float,
    sms: int | None,
    out: Attention,
) -> Values:
    """Return the kernel's arguments of a call that was checked."""
    tokens, heads, head_dim = q.shape[1:]
    scale = head_dim**-0.5 if scale is None else scale
    values: Values = {"q": q, "o": out.o, "lse": out.lse, "m": out.m, "sink": sink, "empty_lse": empty_lse}
    values |= {
        "rows": heads,
        "heads": heads,
        "tokens": tokens,
        "keys": 0,
        "window": 0,
        "compressed_keys": 0,
        "ratio": 1,
    }
    values |= {"ctas": sms or chip().sms, "scale_log2": scale * math.log2(math.e)}
    return values | main.values("main") | ({} if extra is None else extra.values("extra"))


def results(shape: Sequence[int], maxima: bool) -> dict[str, tuple[torch.dtype, Sequence[int]]]:
    """Return dtypes and shapes of the results for queries of a shape."""
    rows = shape[:-1]
    found: dict[str, tuple[torch.dtype, Sequence[int]]] = {"o": (torch.bfloat16, (*rows, HEAD_DIM))}
    return found | {name: (torch.float32, rows) for name in ("lse", "m") if maxima or name == "lse"}


def sparse_attention(
    q: torch.Tensor,
    kv: torch.Tensor,
    indices: torch.Tensor,
    lens: torch.Tensor | None = None,
    *,
    scale: float | None = None,
    sink: torch.Tensor | None = None,
    empty_lse: float = -math.inf,
    maxima: bool = False,
    splits: int | Literal["auto"] = "auto",
    sms: int | None = None,
    out: Attention | None = None,
    debug: bool = False,
) -> Attention:
    """Compute attention of each token over the keys that its indices list in a flat tensor of keys.

    q: [T, H, D] bf16. kv: [S, D] bf16, D = 512 or 576. indices: [T, K] int32, outside 0 to S - 1 for none. lens: [T]
    int32, how many indices count; None: all K. The rest is as of `attention`; results have no dimension B.
    """
    call = q, kv, indices, lens, scale, sink, empty_lse, maxima, splits, sms, out, debug
    try:
        tensors = (q, kv, indices, lens, sink, *(host.NO_BUFFERS if out is None else out.tensors))
    except AttributeError:  # of `out`, whose type is checked
        sparse_planned(*call)
        raise
    plan = SPARSE_PLANS.find(call, (scale, empty_lse, maxima, splits, sms), tensors, debug)
    found = SPARSE_PLANS.launch(plan, call, tensors)
    return found if out is None else out


def sparse_planned(
    q: torch.Tensor,
    kv: torch.Tensor,
    indices: torch.Tensor,
    lens: torch.Tensor | None,
    scale: float | None,
    sink: torch.Tensor | None,
    empty_lse: float,
    maxima: bool,
    splits: int | Literal["auto"],
    sms: int | None,
    out: Attention | None,
    debug: bool,
) -> Plan:
    """Check a call of `sparse_attention`, choose its configuration, and plan its launch. Raises ArgumentError."""
    config = sparse_checked(q, kv, indices, lens, scale, sink, maxima, splits, sms, out, debug)
    plan = Plan(q.device, results(q.shape, maxima) if out is None else {})
    if q.numel() == 0:
        return plan
    stand_ins = plan.stand_ins((q, kv, indices, lens, sink, *(host.NO_BUFFERS if out is None else out.tensors)))
    q, kv, indices, lens, sink, *buffers = stand_ins
    values = sparse_values(q, kv, indices, lens, scale, sink, empty_lse, sms, Attention(*buffers))
    plan.set_launch(config, values, stand_ins)
    return plan


def sparse_checked(
    q: torch.Tensor,
    kv: torch.Tensor,
    indices: torch.Tensor,
    lens: torch.Tensor | None,
    scale: float | None,
    sink: torch.Tensor | None,
    maxima: bool,
    splits: int | Literal["auto"],
    sms: int | None,
    out: Attention | None,
    debug: bool,
) -> Config:
    """Check a call of `sparse_attention`, and choose its configuration. Raises ArgumentError."""
    check_rank("q", q, (3,), "[T, H, D]")
    check_tensor("kv", kv, torch.bfloat16, 2, "[S, D]", q)
    check_shape("kv", kv, (len(kv), q.shape[2]), "[S, D]")
    check_rank("indices", indices, (2,), "[T, K]")
    check_shape("indices", indices, (len(q), indices.shape[1]), "[T, K]")
    if lens is not None:
        check_rank("lens", lens, (1,), "[T]")
        check_shape("lens", lens, (len(q),), "[T]")
    if out is not None:
        check_outputs(out, q, maxima)
    cache, buffers = flat_cache(kv, indices, lens), None if out is None else batched(out)
    return checked(q[None], cache, None, scale, sink, maxima, splits, False, sms, buffers, debug)


def sparse_values(
    q: torch.Tensor,
    kv: torch.Tensor,
    indices: torch.Tensor,
    lens: torch.Tensor | None,
    scale: float | None,
    sink: torch.Tensor | None,
    empty_lse: float,
    sms: int | None,
    out: Attention,
) -> Values:
    """Return the kernel's arguments of a call of `sparse_attention` that was checked."""
    cache = flat_cache(kv, indices, lens)
    return kernel_values(q[None], cache, None, scale, sink, empty_lse, sms, batched(out))


SPARSE_PLANS = Plans(sparse_planned)


def flat_cache(kv: torch.Tensor, indices: torch.Tensor, lens: torch.Tensor | None) -> IndexedCache:
    """Return keys [S, D] as a cache of pages of one key, for one sequence of T tokens."""
    return IndexedCache(kv[:, None], indices[None], None if lens is None else lens[None])


def batched(out: Attention) -> Attention:
    """Return results of T tokens as those of one sequence."""
    return Attention(*(None if each is None else each[None] for each in out.tensors))  # type: ignore[arg-type]


def serving_problem(
    q: torch.Tensor,
    main: IndexedCache | TableCache,
    extra: IndexedCache | None,
    sink: bool,
    maxima: bool,
    splits: int | Literal["auto"],
) -> Problem:
    """Return the problem of a call. Raises ArgumentError."""
    batch, tokens, heads, head_dim = q.shape
    caches = (main,) if extra is None else (main, extra)
    return Problem(
        head_dim=HEAD_DIM,
        rope_dim=head_dim - HEAD_DIM,
        heads=heads,
        tokens=tokens,
        batch=batch,
        keys=0,
        shared_kv=True,
        partials=False,
        caches=tuple(each.kind for each in caches),
        compressed_keys=sum(each.keys_per_token for each in caches),
        sink=sink,
        maxima=maxima,
        splits=splits,
    )


def check_queries(q: torch.Tensor) -> None:
    """Check dtype, shape and layout of q."""
    check_tensor("q", q, torch.bfloat16, 4, "[B, T, H, D]", q)
    batch, tokens, heads, head_dim = q.shape
    if head_dim not in QK_DIMS:
        raise ArgumentError("q.shape", tuple(q.shape), f"[B, T, H, D] with D one of {QK_DIMS}")
    if not 0 < heads <= MAX_HEADS:
        raise ArgumentError("q.shape[2]", heads, f"at most {MAX_HEADS} heads, and at least one")
    if 2 * batch * tokens > MAX_CTAS:
        raise ArgumentError("q.shape", tuple(q.shape), f"at most {MAX_CTAS // 2} tokens")
    check_alignment("q", q)


def check_outputs(out: Attention, q: torch.Tensor, maxima: bool) -> None:
    """Check dtypes, shapes and layouts of the caller's buffers against those of q, [B, T, H, D] or [T, H, D]."""
    if not isinstance(out, Attention):
        raise ArgumentError("out", type(out).__name__, "kernel.Attention(o, lse) or None")
    rows, form = q.shape[:-1], "[B, T, H" if q.dim() == 4 else "[T, H"
    expected = {"o": (torch.bfloat16, (*rows, HEAD_DIM)), "lse": (torch.float32, rows)}
    expected |= {"m": (torch.float32, rows)} if maxima else {}
    for name in ("o", "lse", "u", "m"):
        tensor = getattr(out, name)
        if name not in expected:
            if tensor is not None:
                raise ArgumentError(f"out.{name}", "a tensor", "None" if name == "u" else "None when maxima=False")
            continue
        dtype, shape = expected[name]
        check_tensor(f"out.{name}", tensor, dtype, len(shape), str(tuple(shape)), q)
        check_shape(f"out.{name}", tensor, shape, f"{form}, 512]" if name == "o" else f"{form}]")
    check_alignment("out.o", out.o)
