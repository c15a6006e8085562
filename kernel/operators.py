"""The calls as operators of torch. Each writes to its last tensors: o, lse, u and m as the call has them."""

# Operators are declared by annotations, which torch reads: no `from __future__ import annotations`.
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from kernel import host
from kernel.plan import RESULTS
from kernel.serving import IndexedCache, TableCache
from kernel.serving import host as serving
from kernel.tensors import AllBlocks, Attention, TopkBlocks


def operator(function: Callable[..., None]) -> Callable[..., None]:
    """Register a function as an operator. Its results exist before it, so a traced call has nothing to do.

    It makes `q` a plain tensor: torch passes a Parameter as it is, and `traced` would send it here again.
    """

    @wraps(function)
    def of_plain(q: Tensor, *others: Any, **options: Any) -> None:
        function(q.as_subclass(Tensor), *others, **options)

    written = [name for name in function.__annotations__ if name in RESULTS]
    declared = torch.library.custom_op(f"dsv4_attention::{function.__name__}", of_plain, mutates_args=written)
    declared.register_fake(lambda *tensors, **options: None)
    return declared


@operator
def fmha(
    q: Tensor,
    k: Tensor,
    v: Tensor | None,
    swa_lens: Tensor | None,
    sink: Tensor | None,
    compressed: Tensor | None,
    which: Tensor | None,
    counts: Tensor | None,
    ratio: int,
    scale: float | None,
    causal: bool,
    window: int | None,
    p_path: str,
    splits: int,
    sms: int | None,
    o: Tensor,
    lse: Tensor,
    u: Tensor | None,
    m: Tensor | None,
) -> None:
    """kernel.fmha. which: seq_lens of AllBlocks with a ratio above 0, or indices of TopkBlocks. splits: 0 is "auto"."""
    branch: Any = None
    if compressed is not None and which is not None:
        branch = AllBlocks(compressed, which, ratio) if ratio else TopkBlocks(compressed, which, counts)
    options: Any = {"scale": scale, "causal": causal, "window": window, "p_path": p_path, "splits": splits or "auto"}
    out = Attention(o, lse, u, m)
    host.fmha(
        q, k, v, swa_lens=swa_lens, compressed=branch, sink=sink, sms=sms, partials=u is not None, out=out, **options
    )


@operator
def attention(
    q: Tensor,
    sink: Tensor | None,
    main: Tensor,
    listed: Tensor,
    lens: Tensor | None,
    extra: Tensor | None,
    extra_indices: Tensor | None,
    extra_lens: Tensor | None,
    table: bool,
    window: int | None,
    page_scales: bool,
    extra_page_scales: bool,
    scale: float | None,
    empty_lse: float,
    splits: int,
    batch_invariant: bool,
    sms: int | None,
    o: Tensor,
    lse: Tensor,
    m: Tensor | None,
) -> None:
    """kernel.serving.attention. listed, lens: those of an IndexedCache, or the table and seq_lens of a TableCache."""
    first: Any = IndexedCache(main, listed, lens, page_scales)
    if table and lens is not None:
        first = TableCache(main, listed, lens, window, page_scales)
    second = None
    if extra is not None and extra_indices is not None:
        second = IndexedCache(extra, extra_indices, extra_lens, extra_page_scales)
    options: Any = {"scale": scale, "empty_lse": empty_lse, "splits": splits or "auto", "sms": sms}
    options |= {"batch_invariant": batch_invariant, "maxima": m is not None}
    serving.attention(q, first, second, sink=sink, out=Attention(o, lse, m=m), **options)


@operator
def sparse_attention(
    q: Tensor,
    kv: Tensor,
    indices: Tensor,
    lens: Tensor | None,
    sink: Tensor | None,
    scale: float | None,
    empty_lse: float,
    splits: int,
    sms: int | None,
    o: Tensor,
    lse: Tensor,
    m: Tensor | None,
) -> None:
    """kernel.serving.sparse_attention."""
    options: Any = {"scale": scale, "empty_lse": empty_lse, "splits": splits or "auto", "sms": sms}
    out = Attention(o, lse, m=m)
    serving.sparse_attention(q, kv, indices, lens, sink=sink, maxima=m is not None, out=out, **options)
