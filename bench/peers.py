"""`python -m bench.peers`: our kernel and FlashAttention-4's under one clock in one run. Nothing is measured.

It takes PyPI's `flash-attn-4` and `triton`, neither of which is in requirements.lock.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import product
from typing import Final

import torch

from bench import fa4
from emulator.clock.chips import chip
from kernel import dsv4, fmha

HIDDEN: Final = 2048
TOKENS: Final = 32_768
"""In sequences of each of these lengths, with as many keys."""
LENGTHS: Final = (1024, 4096, 16_384)
PREFILL: Final = 4096
"""Tokens of a sequence whose queries list keys."""
WINDOW: Final = 128
LISTED: Final = {128: 1024, 64: 512}
"""By heads, beside the window."""


@dataclass(frozen=True)
class Work:
    """What two kernels compute; flops of both products."""

    name: str
    flops: float
    ours: Callable[[], object]
    peer: Callable[[], object]


def plain(width: int, causal: bool, length: int) -> Work:
    """Multi-query attention to all keys, or to those before a query."""
    batch, heads = TOKENS // length, HIDDEN // width
    sizes = [(batch, length, count, width) for count in (heads, 1, 1)]

    def ours() -> object:
        q, k, v = fa4.inputs(sizes)
        return fmha(q, k.squeeze(2), v.squeeze(2), causal=causal, partials=False)

    flops = 4.0 * TOKENS * HIDDEN * length / (1 + causal)
    name = f"head dim {width}, {length:,} keys{', causal' if causal else ''}"
    return Work(name, flops, ours, partial(fa4.called, sizes, causal))


def listed(heads: int) -> Work:
    """Sparse prefill at head dim 512: ours has a window and a list, theirs lists all of these keys."""
    topk, random = LISTED[heads], torch.Generator().manual_seed(0)
    query, keys = (1, PREFILL, heads, 512), (1, PREFILL, 512)

    def indices(count: int) -> torch.Tensor:
        return torch.randint(PREFILL, (1, PREFILL, count), generator=random, dtype=torch.int32).cuda()

    def ours() -> object:
        q, kv, blocks = fa4.inputs([query, keys, keys])
        return dsv4.attention(q, kv, cmp_kv=blocks, topk_indices=indices(topk))

    def theirs() -> object:
        q, kv = fa4.inputs([query, (1, PREFILL, 1, 512)])
        return fa4.attention(q, kv, kv, gather_kv_indices=indices(topk + WINDOW))

    flops = 4.0 * PREFILL * heads * 512 * (topk + WINDOW)
    return Work(f"{heads} heads of 512, {topk + WINDOW:,} keys listed", flops, ours, theirs)


def line(work: Work) -> str:
    """Cycles and TFLOP/s of both, and how many times as long the peer takes."""
    shown, seconds = "", []
    for call in (work.ours, work.peer):
        made = fa4.predictions(call)
        seconds.append(sum(p.seconds for p in made))
        shown += f"{sum(p.cycles for p in made):>13,.0f}{work.flops / seconds[-1] / 1e12:>8,.0f}"
    return f"{work.name:<36}{shown}{seconds[1] / seconds[0]:>8.2f}"


def main() -> int:
    """Print a line for each problem; answers the exit code."""
    print(f"predicted on a {chip('b200').name}; nothing was measured\n")
    print(f"{'':<36}{'ours: cycles':>13}{'TFLOP/s':>8}{'peer: cycles':>13}{'TFLOP/s':>8}{'ratio':>8}")
    if fa4.installed():
        print(f"FlashAttention-4 {version('flash-attn-4')}")
        for width, causal, length in product((64, 128, 256), (False, True), LENGTHS):
            print(line(plain(width, causal, length)), flush=True)
        for heads in LISTED:
            print(line(listed(heads)), flush=True)
    else:
        print("FlashAttention-4 is left out: pip install flash-attn-4 triton")
    return 0


if __name__ == "__main__":
    sys.exit(main())
