"""The host calls for caches: check torch tensors, choose the configuration, launch the kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

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
    plain,
    whole,
)
from kernel.chips import Config, chip_of, configuration
from kernel.errors import ArgumentError
from kernel.plan import RESULTS, Form, Plan, Plans
from kernel.problem import Problem
from kernel.serving.caches import HEAD_DIM, QK_DIMS, IndexedCache, TableCache, Values, flat_values
from kernel.tensors import Attention
from kernel.tracing import OPERATORS, buffers, split_number, traced

MAX_HEADS = 128


class Options(NamedTuple):
    """The arguments of `attention` that are no tensors."""

    scale: float | None = None
    empty_lse: float = -math.inf
    maxima: bool = False
    splits: int | Literal["auto"] = "auto"
    batch_invariant: bool = False
    sms: int | None = None


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
    scale = scale if scale is None or type(scale) is float else plain(scale)
    options = Options(scale, empty_lse, maxima, splits, batch_invariant, sms)
    if traced(q):
        return traced_attention(q, main, extra, sink, out, options)
    call = q, main, extra, sink, out, options, debug
    try:
        tensors = tensors_of(q, main, extra, sink, out)
        key = *options, main.options, extra and extra.options
    except AttributeError:  # of a cache or `out`, whose types are checked
        planned(*call)
        raise
    plan = PLANS.find(call, key, tensors, debug)
    found = PLANS.launch(plan, call, tensors)
    return Attention(*found) if out is None else out


def traced_attention(
    q: torch.Tensor,
    main: IndexedCache | TableCache,
    extra: IndexedCache | None,
    sink: torch.Tensor | None,
    out: Attention | None,
    options: Options,
) -> Attention:
    """Make a call of `attention` by its operator."""
    found = buffers(q, HEAD_DIM, maxima=options.maxima) if out is None else out
    of_extra = host.NO_BRANCH if extra is None else extra.tensors
    window = main.window if isinstance(main, TableCache) else None
    scales = main.page_scales, extra is not None and extra.page_scales
    OPERATORS.attention(
        q, sink, *main.tensors, *of_extra, isinstance(main, TableCache), window, *scales,
        options.scale, options.empty_lse, split_number(options.splits), options.batch_invariant, options.sms,
        found.o, found.lse, found.m,
    )  # fmt: skip
    return found


def traced_sparse(
    q: torch.Tensor,
    kv: torch.Tensor,
    indices: torch.Tensor,
    lens: torch.Tensor | None,
    sink: torch.Tensor | None,
    out: Attention | None,
    options: Options,
) -> Attention:
    """Make a call of `sparse_attention` by its operator."""
    found = buffers(q, HEAD_DIM, maxima=options.maxima) if out is None else out
    numbers = options.scale, options.empty_lse, split_number(options.splits), options.sms
    OPERATORS.sparse_attention(q, kv, indices, lens, sink, *numbers, found.o, found.lse, found.m)
    return found


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
    sink: torch.Tensor | None,
    out: Attention | None,
    options: Options,
    debug: bool = False,
    made: Sequence[str] = (),
    about: Any = None,
) -> Plan:
    """Check a call, choose its configuration, and plan its launch. Raises ArgumentError.

    made: results of `out` that calls with this plan have no buffer for. about: as of Plan.
    """
    options = options._replace(splits=whole(options.splits), sms=whole(options.sms))
    config = checked(q, main, extra, sink, out, options, debug)
    plan = Plan(q.device, missing(q, out, options, made), about)
    if q.numel() == 0 or q.is_meta:
        return plan
    stand_ins = plan.stand_ins(tensors_of(q, main, extra, sink, out))
    q, sink, *rest = stand_ins
    values = kernel_values(config, q, sink, rest[6:], options) | main.of(*rest[:3]).values("main")
    plan.set_launch(config, values if extra is None else values | extra.of(*rest[3:6]).values("extra"), stand_ins)
    return plan


PLANS = Plans(planned)


def checked(
    q: torch.Tensor,
    main: IndexedCache | TableCache,
    extra: IndexedCache | None,
    sink: torch.Tensor | None,
    out: Attention | None,
    options: Options,
    debug: bool,
    flat: bool = False,
) -> Config:
    """Check a call, and choose its configuration. Raises ArgumentError."""
    check_queries(q)
    for name, cache in (("main", main), ("extra", extra)):
        allowed = (IndexedCache, TableCache) if name == "main" else (IndexedCache, type(None))
        if not isinstance(cache, allowed):
            raise ArgumentError(name, type(cache).__name__, " or ".join(each.__name__ for each in allowed))
        if cache is not None:
            cache.check(name, q)
    check_scale(q.shape[3] ** -0.5 if options.scale is None else options.scale)
    check_sink(q, sink)
    check_sms(options.sms)
    if debug:
        main.check_values("main", q)
        if extra is not None:
            extra.check_values("extra", q)
    if options.batch_invariant and options.splits not in (1, "auto"):
        raise ArgumentError("splits", options.splits, "1 or 'auto' with batch_invariant=True")
    batch, tokens, heads, head_dim = q.shape
    caches = (main,) if extra is None else (main, extra)
    problem = Problem(
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
        page=main.pages.shape[1] if isinstance(main, TableCache) and main.window is None and extra is None else 0,
        sink=sink is not None,
        maxima=options.maxima,
        splits=1 if options.batch_invariant else options.splits,
        flat=flat,
    )
    config = configuration(problem, q.device)
    if out is not None:
        check_outputs(out, q, options.maxima)
    return config


def kernel_values(
    config: Config, q: torch.Tensor, sink: torch.Tensor | None, results: Sequence[Any], options: Options
) -> Values:
    """Return the kernel's arguments of a call that was checked, but for those of its caches."""
    tokens, heads, head_dim = q.shape[-3:]
    scale = head_dim**-0.5 if options.scale is None else options.scale
    values: Values = {"q": q, "sink": sink, **dict(zip(RESULTS, results, strict=True)), "empty_lse": options.empty_lse}
    values |= {"rows": heads, "heads": heads, "tokens": tokens, "ctas": options.sms or chip_of(config).sms}
    values |= dict.fromkeys(("keys", "window", "compressed_keys"), 0) | {"ratio": 1}
    return values | {"scale_log2": scale * math.log2(math.e)}


def missing(q: torch.Tensor, out: Attention | None, options: Options, made: Sequence[str]) -> dict[str, Form]:
    """Return dtypes and shapes of the results that a call with queries q has no buffer for."""
    rows = q.shape[:-1]
    forms: dict[str, Form] = {"o": (torch.bfloat16, (*rows, HEAD_DIM)), "lse": (torch.float32, rows)}
    forms |= {"m": (torch.float32, rows)} if options.maxima else {}
    return {name: form for name, form in forms.items() if out is None or name in made}


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
    scale = scale if scale is None or type(scale) is float else plain(scale)
    options = Options(scale, empty_lse, maxima, splits, False, sms)
    if traced(q):
        return traced_sparse(q, kv, indices, lens, sink, out, options)
    call = q, kv, indices, lens, sink, out, options, debug
    try:
        tensors = (q, kv, indices, lens, sink, *(host.NO_BUFFERS if out is None else out.tensors))
    except AttributeError:  # of `out`, whose type is checked
        sparse_planned(*call)
        raise
    plan = SPARSE_PLANS.find(call, options, tensors, debug)
    found = SPARSE_PLANS.launch(plan, call, tensors)
    return Attention(*found) if out is None else out


def sparse_planned(
    q: torch.Tensor,
    kv: torch.Tensor,
    indices: torch.Tensor,
    lens: torch.Tensor | None,
    sink: torch.Tensor | None,
    out: Attention | None,
    options: Options,
    debug: bool = False,
) -> Plan:
    """Check a call of `sparse_attention`, choose its configuration, and plan its launch. Raises ArgumentError."""
    check_rank("q", q, (3,), "[T, H, D]")
    check_rank("kv", kv, (2,), "[S, D]")
    check_shape("kv", kv, (len(kv), q.shape[2]), "[S, D]")
    check_rank("indices", indices, (2,), "[T, K]")
    check_shape("indices", indices, (len(q), indices.shape[1]), "[T, K]")
    try:
        return flat_planned(q, kv, indices, lens, sink, out, options, debug)
    except ArgumentError as error:
        raise error.renamed({"main.pages": "kv", "main.indices": "indices", "main.lens": "lens"}) from None


SPARSE_PLANS = Plans(sparse_planned)


def flat_planned(
    q: torch.Tensor,
    kv: torch.Tensor,
    indices: torch.Tensor,
    lens: torch.Tensor | None,
    sink: torch.Tensor | None,
    out: Attention | None,
    options: Options,
    debug: bool = False,
    made: Sequence[str] = (),
) -> Plan:
    """Do what `planned` does, for a flat tensor of keys.

    kv and indices are [S, D] and [T, K], or [S, 1, D] and [T, 1, K]; their shapes were checked.
    """
    check_tensor("kv", kv, torch.bfloat16, kv.dim(), "[S, D]", q)
    if lens is not None:
        check_rank("lens", lens, (1,), "[T]")
        check_shape("lens", lens, (len(q),), "[T]")
    buffers, held = None, kv if len(kv) else kv.new_empty(1, *kv.shape[1:])  # a key to check for a tensor of none
    if out is not None:
        check_outputs(out, q, options.maxima)
        buffers = Attention(*(None if each is None else each[None] for each in out.tensors))  # type: ignore[arg-type]
    listed = indices.reshape(len(q), indices.shape[-1])[None]
    cache = IndexedCache(held.reshape(len(held), 1, kv.shape[-1]), listed, None if lens is None else lens[None])
    options = options._replace(splits=whole(options.splits), sms=whole(options.sms))
    config = checked(q[None], cache, None, sink, buffers, options, debug, flat=True)
    plan = Plan(q.device, missing(q, out, options, made))
    if q.numel() == 0 or q.is_meta:
        return plan
    stand_ins = plan.stand_ins((q, kv, indices, lens, sink, *(host.NO_BUFFERS if out is None else out.tensors)))
    q, kv, indices, lens, sink, *results = stand_ins
    plan.set_launch(
        config, kernel_values(config, q, sink, results, options) | flat_values("main", kv, indices, lens), stand_ins
    )
    return plan


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
