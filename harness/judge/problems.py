"""Problems that `make perf TARGET=...` times on a GPU, and that the clock predicts, each with the kernel and its peers.

They are plain attention of head dims 64, 128 and 256 to 1,024 to 16,384 keys, windows of 1,024 keys, and the
shapes of stages/shapes.py. Peers are torch's attention, FlexAttention for windows, and FlashAttention-4 where
PyPI's flash-attn-4 is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from typing import Any

import torch
from torch.nn import functional

from kernel import fmha
from stages.shapes import SHAPES

TOKENS, HIDDEN = 32_768, 2_048
"""Tokens in total, and head dim times heads, of plain attention."""
LENGTHS = (1_024, 4_096, 16_384)
WINDOW = 1_024
QKV = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Problem:
    """A problem: the flops of both products, the call of this repository's kernel, and a maker of its peers' calls."""

    name: str
    flops: float
    ours: Callable[[], object]
    peers: Callable[[], dict[str, Callable[[], object]]] = dict


def problems(
    make: Callable[..., torch.Tensor], device: str, wanted: Callable[[str], bool] = lambda name: True
) -> Iterator[Problem]:
    """Yield the problems whose names `wanted` accepts, with inputs on a device. make: torch.zeros or torch.randn."""
    for width, causal, length in product((64, 128, 256), (False, True), LENGTHS):
        if wanted(plain_name(width, length, causal)):
            yield plain(inputs(make, device, width, length), causal)
    for width in (64, 128):
        if wanted(windowed_name(width, LENGTHS[-1])):
            yield windowed(inputs(make, device, width, LENGTHS[-1]))
    for shape in SHAPES:
        if wanted(shape.name):
            yield Problem(shape.name, shape.flops, shape.prepared(make, device))


def plain_name(width: int, length: int, causal: bool) -> str:
    """Return the name of plain attention of a head dim to `length` keys."""
    return f"head dim {width}, {length:,} keys{', causal' if causal else ''}"


def windowed_name(width: int, length: int) -> str:
    """Return the name of attention of a head dim to `length` keys in windows."""
    return f"head dim {width}, {length:,} keys, window {WINDOW:,}"


def plain(qkv: QKV, causal: bool) -> Problem:
    """Return multi-query attention: one key and value head."""
    q, k, v = qkv
    length, width = k.shape[1:]

    def peers() -> dict[str, Callable[[], object]]:
        attention: Any = functional.scaled_dot_product_attention
        by_head = q.transpose(1, 2).contiguous()
        shared = [each[:, None].expand(len(q), q.shape[2], length, width) for each in (k, v)]
        calls = {"torch's scaled_dot_product_attention": lambda: attention(by_head, *shared, is_causal=causal)}
        return calls | flash_attention(qkv, causal=causal)

    return Problem(
        plain_name(width, length, causal),
        4.0 * TOKENS * HIDDEN * length / (1 + causal),
        lambda: fmha(q, k, v, causal=causal, partials=False),
        peers,
    )


def windowed(qkv: QKV) -> Problem:
    """Return causal multi-query attention in which a query sees the last WINDOW keys."""
    q, k, v = qkv
    length, width = k.shape[1:]

    def peers() -> dict[str, Callable[[], object]]:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        def sees(batch: Any, head: Any, query: Any, key: Any) -> Any:
            return (key <= query) & (query - key < WINDOW)

        by_head = q.transpose(1, 2).contiguous()
        shared = [each[:, None].contiguous() for each in (k, v)]
        mask = create_block_mask(sees, None, None, length, length)
        flexible: Any = torch.compile(flex_attention)
        calls = {"FlexAttention": lambda: flexible(by_head, *shared, block_mask=mask, enable_gqa=True)}
        return calls | flash_attention(qkv, causal=True, window_size=(WINDOW - 1, 0))

    seen = WINDOW - WINDOW * (WINDOW - 1) / 2 / length  # keys of a query on average
    return Problem(
        windowed_name(width, length),
        4.0 * TOKENS * HIDDEN * seen,
        lambda: fmha(q, k, v, causal=True, window=WINDOW, partials=False),
        peers,
    )


def flash_attention(qkv: QKV, **options: object) -> dict[str, Callable[[], object]]:
    """Return the call of FlashAttention-4 by its name, if it is installed. It has one key head, as here."""
    if not (find_spec("flash_attn") and find_spec("flash_attn.cute")):
        return {}
    from flash_attn.cute import flash_attn_func

    q, k, v = qkv
    return {"FlashAttention-4": lambda: flash_attn_func(q, k[:, :, None], v[:, :, None], **options)}


def inputs(make: Callable[..., torch.Tensor], device: str, width: int, length: int) -> QKV:
    """Return queries of HIDDEN // width heads, keys and values."""
    batch = TOKENS // length
    shapes = (batch, length, HIDDEN // width, width), (batch, length, width), (batch, length, width)
    q, k, v = (make(shape, dtype=torch.bfloat16, device=device) for shape in shapes)
    return q, k, v
