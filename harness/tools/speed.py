"""`python -m harness.tools.speed FILE.csv`: measure the kernel on this machine's GPU beside torch's attention.

FlashAttention-4 (PyPI's flash-attn-4) is measured too where it is installed. The problems are plain attention of head
dims 64, 128 and 256 to 1,024 to 16,384 keys, windows of 1,024 keys, and those of stages/shapes.py. Inputs are normal.
Each is measured with L2 cold, and the clock rate and power meanwhile are kept beside the times.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from harness.judge.gpu_time import measure
from kernel import fmha
from stages.shapes import SHAPES

TOKENS, HIDDEN = 32_768, 2_048
"""Tokens in total, and head dim times heads, of plain attention."""
LENGTHS = (1_024, 4_096, 16_384)
WINDOW = 1_024
ROUNDS = 20
HEAD = ("problem", "kernel", "us", "low_us", "high_us", "tflops", "sm_mhz", "watts", "error")


@dataclass(frozen=True)
class Work:
    """A problem: the flops of both products, and the calls of the kernels that compute it, by name."""

    name: str
    flops: float
    calls: dict[str, Callable[[], object]]


def works() -> Iterator[Work]:
    """Yield every problem, its inputs drawn."""
    for width, causal, length in product((64, 128, 256), (False, True), LENGTHS):
        yield plain(width, causal, length)
    for width in (64, 128):
        yield windowed(width, LENGTHS[-1])
    for shape in SHAPES:
        yield Work(shape.name, shape.flops, {"this kernel": shape.prepared(torch.randn, "cuda")})


def plain(width: int, causal: bool, length: int) -> Work:
    """Return multi-query attention: one key and value head."""
    q, k, v = drawn(width, length)
    attention: Any = functional.scaled_dot_product_attention
    by_head = q.transpose(1, 2).contiguous()
    shared = [each[:, None].expand(len(q), q.shape[2], length, width) for each in (k, v)]
    name = f"head dim {width}, {length:,} keys{', causal' if causal else ''}"
    calls: dict[str, Callable[[], object]] = {
        "this kernel": lambda: fmha(q, k, v, causal=causal, partials=False),
        "torch's scaled_dot_product_attention": lambda: attention(by_head, *shared, is_causal=causal),
    }
    if find_spec("flash_attn"):
        from flash_attn.cute import flash_attn_func  # one key head, as here

        calls["FlashAttention-4"] = lambda: flash_attn_func(q, k[:, :, None], v[:, :, None], causal=causal)
    return Work(name, 4.0 * TOKENS * HIDDEN * length / (1 + causal), calls)


def windowed(width: int, length: int) -> Work:
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
        "this kernel": lambda: fmha(q, k, v, causal=True, window=WINDOW, partials=False),
        "FlexAttention": lambda: flexible(by_head, *shared, block_mask=mask, enable_gqa=True),
    }
    if find_spec("flash_attn"):
        from flash_attn.cute import flash_attn_func

        values = k[:, :, None], v[:, :, None]
        calls["FlashAttention-4"] = lambda: flash_attn_func(q, *values, causal=True, window_size=(WINDOW - 1, 0))
    seen = WINDOW - WINDOW * (WINDOW - 1) / 2 / length  # keys of a query on average
    return Work(f"head dim {width}, {length:,} keys, window {WINDOW:,}", 4.0 * TOKENS * HIDDEN * seen, calls)


def drawn(width: int, length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return normal queries of HIDDEN // width heads, keys and values."""
    batch = TOKENS // length
    shapes = (batch, length, HIDDEN // width, width), (batch, length, width), (batch, length, width)
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for shape in shapes)
    return q, k, v


def row(work: Work, name: str, call: Callable[[], object]) -> tuple[object, ...]:
    """Measure a call."""
    try:
        times = measure(call, cold=True, rounds=ROUNDS)
    except Exception as error:
        return work.name, name, "", "", "", "", "", "", f"{type(error).__name__}: {error}"[:200]
    us = [f"{1e6 * each:.2f}" for each in (times.median, times.low, times.high)]
    rate = f"{work.flops / times.median / 1e12:.1f}"
    return work.name, name, *us, rate, f"{times.sm_mhz:.0f}", f"{times.watts:.0f}", ""


def main() -> int:
    """Measure everything. Each row is written at once, so that a deadline loses only what was not measured."""
    with Path(sys.argv[1]).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEAD)
        for work in works():
            for name, call in work.calls.items():
                found = row(work, name, call)
                writer.writerow(found)
                file.flush()
                print(*found, sep="  ", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
