"""Problems that `make perf TARGET=...` times on a GPU, each with the kernel and its peers.

They are plain attention of head dims 64, 128 and 256 to 1,024 to 16,384 keys, windows of 1,024 keys, and those of
stages/shapes.py. Inputs are normal. Peers are torch's attention, FlexAttention for windows, and FlashAttention-4 where
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

from harness.judge.gpu_time import OURS
from kernel import fmha
from stages.shapes import SHAPES

TOKENS, HIDDEN = 32_768, 2_048
"""Tokens in total, and head dim times heads, of plain attention."""
LENGTHS = (1_024, 4_096, 16_384)
WINDOW = 1_024


@dataclass(frozen=True)
class Problem:
    """The flops of both products, and the calls of the kernels that compute them, by name."""

    name: str
    flops: float
    calls: dict[str, Callable[[], object]]


def problems() -> Iterator[Problem]:
    """Yield every problem, its inputs drawn."""
    for width, causal, length in product((64, 128, 256), (False, True), LENGTHS):
        yield plain(width, causal, length)
    for width in (64, 128):
        yield windowed(width, LENGTHS[-1])
    for shape in SHAPES:
        yield Problem(shape.name, shape.flops, {OURS: shape.prepared(torch.randn, "cuda")})


def plain(width: int, causal: bool, length: int) -> Problem:
    """Return multi-query attention: one key and value head."""
    q, k, v = drawn(width, length)
    attention: Any = functional.scaled_dot_product_attention
    by_head = q.transpose(1, 2).contiguous()
    shared = [each[:, None].expand(len(q), q.shape[2], length, width) for each in (k, v)]
    name = f"head dim {width}, {length:,} keys{', causal' if causal else ''}"
    calls: dict[str, Callable[[], object]] = {
        OURS: lambda: fmha(q, k, v, causal=causal, partials=False),
        "torch's scaled_dot_product_attention": lambda: attention(by_head, *shared, is_causal=causal),
    }
    if find_spec("flash_attn"):
        from flash_attn.cute import flash_attn_func  # one key head, as here

        calls["FlashAttention-4"] = lambda: flash_attn_func(q, k[:, :, None], v[:, :, None], causal=causal)
    return Problem(name, 4.0 * TOKENS * HIDDEN * length / (1 + causal), calls)


def windowed(width: int, length: int) -> Problem:
    """Return causal multi-query attention of which a query sees the last WINDOW keys."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v = drawn(width, length)
    by_head = q.transpose(1, 2).contiguous()
    shared = [each[:, None].contiguous() for each in (k, v)]

    def sees(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return (key <= query) & (query - key < WINDOW)

    mask = create_block_mask(sees, None, None, length, length)
    flexible: Any = torch.compile(flex_attention)
    calls: dict[str, Callable[[], object]] = {
        OURS: lambda: fmha(q, k, v, causal=True, window=WINDOW, partials=False),
        "FlexAttention": lambda: flexible(by_head, *shared, block_mask=mask, enable_gqa=True),
    }
    if find_spec("flash_attn"):
        from flash_attn.cute import flash_attn_func

        values = k[:, :, None], v[:, :, None]
        calls["FlashAttention-4"] = lambda: flash_attn_func(q, *values, causal=True, window_size=(WINDOW - 1, 0))
    seen = WINDOW - WINDOW * (WINDOW - 1) / 2 / length  # keys of a query on average
    return Problem(f"head dim {width}, {length:,} keys, window {WINDOW:,}", 4.0 * TOKENS * HIDDEN * seen, calls)


def drawn(width: int, length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return normal queries of HIDDEN // width heads, keys and values."""
    batch = TOKENS // length
    shapes = (batch, length, HIDDEN // width, width), (batch, length, width), (batch, length, width)
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for shape in shapes)
    return q, k, v
