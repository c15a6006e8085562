"""The host calls for caches: check torch tensors, choose the configuration, launch the kernel."""

from __future__ import annotations

import math
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
from kernel.chips import chip, configuration
from kernel.errors import ArgumentError
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
    check_queries(q)
    for name, cache in (("main", main), ("extra", extra)):
        allowed = (IndexedCache, TableCache) if name == "main" else (IndexedCache, type(None))
        if not isinstance(cache, allowed):
            raise ArgumentError(name, type(cache).__name__, " or ".join(each.__name__ for each in allowed))
        if cache is not None:
            cache.check(name, q)
    tokens, heads = q.shape[1:3]
    scale = q.shape[3] ** -0.5 if scale is None else scale
    check_scale(scale)
    check_sink(q, sink)
    check_sms(sms)
    if debug:
        main.check_values("main", q)
        if extra is not None:
            extra.check_values("extra", q)
    if batch_invariant and splits not in (1, "auto"):
        raise ArgumentError("splits", splits, "1 or 'auto' with batch_invariant=True")
    splits = 1 if batch_invariant else splits
    problem = serving_problem(q, main, extra, sink is not None, maxima, splits)
    config = configuration(problem)
    out = Attention.empty(q, HEAD_DIM, u=False, m=maxima) if out is None else out
    check_outputs(out, q, maxima)
    if q.numel() == 0:
        return out
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
    values |= main.values("main") | ({} if extra is None else extra.values("extra"))
    host.launch(config, values, q.device)
    return out


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
    check_rank("q", q, (3,), "[T, H, D]")
    check_tensor("kv", kv, torch.bfloat16, 2, "[S, D]", q)
    check_shape("kv", kv, (len(kv), q.shape[2]), "[S, D]")
    check_rank("indices", indices, (2,), "[T, K]")
    check_shape("indices", indices, (len(q), indices.shape[1]), "[T, K]")
    if lens is not None:
        check_rank("lens", lens, (1,), "[T]")
        check_shape("lens", lens, (len(q),), "[T]")
    cache = IndexedCache(kv[:, None], indices[None], None if lens is None else lens[None])
    if out is not None:
        check_outputs(out, q, maxima)
        out = Attention(out.o[None], out.lse[None], m=None if out.m is None else out.m[None])
    options = {"scale": scale, "sink": sink, "empty_lse": empty_lse, "maxima": maxima, "splits": splits, "sms": sms}
    options["debug"] = debug
    found = attention(q[None], cache, out=out, **options)  # type: ignore[arg-type]
    return Attention(found.o[0], found.lse[0], m=None if found.m is None else found.m[0])


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
