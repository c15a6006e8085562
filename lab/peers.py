"""`python -m lab.peers [--write]`: predict this project's kernel and FlashAttention-4's under the same clock.

`--write` keeps the figures in lab/data/peers.csv. Nothing is measured. This needs PyPI's `flash-attn-4` and `triton`,
neither of which is in requirements.lock.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Final

import torch

from emulator.clock.chips import chip
from kernel import dsv4, fmha
from kernel.serving import IndexedCache, attention
from lab import fa4

FIGURES: Final = Path(__file__).parent / "data" / "peers.csv"
HEAD: Final = ("problem", "peer", "our_cycles", "our_tflops", "peer_cycles", "peer_tflops", "ratio")
HIDDEN: Final = 2048
TOKENS: Final = 32_768
"""Tokens in total, for each of these sequence lengths. Each sequence has as many keys as tokens."""
LENGTHS: Final = (1024, 4096, 16_384)
PREFILL: Final = 4096
"""Tokens of the sparse prefill, and keys of a sequence of the sparse decode."""
SEQUENCES: Final = 64
"""Sequences of the sparse decode, with pages of PAGE keys."""
PAGE: Final = 64
WINDOW: Final = 128
TOP_K: Final = {128: 1024, 64: 512}
"""Top-k keys by number of heads, in addition to the window."""


@dataclass(frozen=True)
class Work:
    """A problem for both kernels. flops: those of both matrix products."""

    name: str
    flops: float
    ours: Callable[[], object]
    peer: Callable[[], object]


def plain(width: int, causal: bool, length: int) -> Work:
    """Return full or causal multi-query attention."""
    batch, heads = TOKENS // length, HIDDEN // width
    sizes = [(batch, length, count, width) for count in (heads, 1, 1)]

    def ours() -> object:
        q, k, v = fa4.inputs(sizes)
        return fmha(q, k.squeeze(2), v.squeeze(2), causal=causal, partials=False)

    flops = 4.0 * TOKENS * HIDDEN * length / (1 + causal)
    name = f"head dim {width}, {length:,} keys{', causal' if causal else ''}"
    return Work(name, flops, ours, partial(fa4.called, sizes, causal))


def sparse(heads: int) -> Work:
    """Return sparse prefill at head dim 512. Our kernel takes a window and top-k indices, the peer all indices."""
    topk, random = TOP_K[heads], torch.Generator().manual_seed(0)
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
    return Work(f"{heads} heads of 512, {topk + WINDOW:,} sparse keys", flops, ours, theirs)


def decode(heads: int) -> Work:
    """Return sparse decode of a token of each sequence at head dim 512, over keys that a list names."""
    listed, random = TOP_K[heads] + WINDOW, torch.Generator().manual_seed(0)
    query, flat = (SEQUENCES, 1, heads, 512), (SEQUENCES, PREFILL, 1, 512)

    def indices() -> torch.Tensor:
        return torch.randint(PREFILL, (SEQUENCES, 1, listed), generator=random, dtype=torch.int32)

    def ours() -> object:
        q, kv = fa4.inputs([query, flat])
        first = torch.arange(SEQUENCES, dtype=torch.int32)[:, None, None] * PREFILL
        return attention(q, IndexedCache(kv.view(-1, PAGE, 1, 512), (indices() + first).cuda()))

    def theirs() -> object:
        q, kv = fa4.inputs([query, flat])
        return fa4.attention(q, kv, kv, gather_kv_indices=indices().cuda())

    flops = 4.0 * SEQUENCES * heads * 512 * listed
    return Work(f"{SEQUENCES} sequences, {heads} heads of 512, {listed:,} listed keys", flops, ours, theirs)


def figures(work: Work) -> tuple[str, ...]:
    """Return cycles and TFLOP/s of both kernels, and the peer's time over ours."""
    found: list[str] = []
    seconds: list[float] = []
    for call in (work.ours, work.peer):
        made = fa4.predictions(call)
        seconds.append(sum(p.seconds for p in made))
        found += [f"{sum(p.cycles for p in made):,.0f}", f"{work.flops / seconds[-1] / 1e12:,.0f}"]
    return *found, f"{seconds[1] / seconds[0]:.2f}"


def line(name: str, shown: Sequence[str]) -> str:
    """Format a line of the table."""
    return f"{name:<52}" + "".join(f"{text:>{width}}" for text, width in zip(shown, (13, 8, 13, 8, 8), strict=True))


def write(peer: str, found: Sequence[tuple[str, ...]]) -> None:
    """Replace the rows of `peer` in lab/data/peers.csv."""
    text = FIGURES.read_text()
    comment = "".join(row for row in text.splitlines(keepends=True) if row.startswith("#"))
    kept = [row for row in csv.reader(text[len(comment) :].splitlines()[1:]) if row[1] != peer]
    with FIGURES.open("w", newline="") as file:
        file.write(comment)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([HEAD, *((name, peer, *shown) for name, *shown in found), *kept])


def main() -> int:
    """Print a line for each problem and return the exit code."""
    print(f"predicted on a {chip('b200').name}; nothing was measured\n")
    print(line("", ("ours: cycles", "TFLOP/s", "peer: cycles", "TFLOP/s", "ratio")))
    if not fa4.installed():
        print("FlashAttention-4 is left out: pip install flash-attn-4 triton")
        return 0
    print(f"FlashAttention-4 {version('flash-attn-4')}")
    works = [plain(width, causal, length) for width, causal, length in product((64, 128, 256), (False, True), LENGTHS)]
    found = []
    for work in (*works, *map(sparse, TOP_K), *map(decode, TOP_K)):
        found.append((work.name, *figures(work)))
        print(line(work.name, found[-1][1:]), flush=True)
    if "--write" in sys.argv[1:]:
        write("FlashAttention-4", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
