"""Run a small DeepSeek-V4 attention layer on the emulated B200 and compare it with a float64 oracle. No GPU is used.

    python examples/dsv4_layer.py [--head-dim 512] [--heads 8] [--seed 0]

Queries, keys and sinks are random. The compressor takes block means; the indexer takes the highest mean scores. Each
layer type runs prefill of a chunk and decode of one token. The oracle, in numpy, is one softmax over all keys and the
sink.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import emulator
from kernel import Attention, dsv4, oracle

RATIO = {"SWA": 0, "CSA": 4, "HCA": 16}  # the model's HCA compresses by 128, which needs longer sequences
TOP_K = 12
TOKENS = 200  # sequence length
COSINE, LSE = 0.99999, 1e-5


@dataclass(frozen=True)
class Step:
    """The newest tokens of one sequence, as input of one layer type."""

    layer: str
    name: str
    q: torch.Tensor  # [1, T, H, D]
    kv: torch.Tensor  # [1, TOKENS, D]
    sink: torch.Tensor  # [H]

    @property
    def tokens(self) -> int:
        return self.q.shape[1]

    @property
    def positions(self) -> np.ndarray:
        """Positions within the sequence, [1, T]."""
        return np.arange(TOKENS - self.tokens, TOKENS)[None]

    def blocks(self) -> torch.Tensor:
        """Compress the keys: means of RATIO tokens, bf16."""
        ratio = RATIO[self.layer]
        whole = TOKENS // ratio * ratio
        return self.kv[:, :whole].float().reshape(1, -1, ratio, self.kv.shape[2]).mean(2).bfloat16()

    def best_blocks(self) -> torch.Tensor:
        """Return the top-k indices [1, T, TOP_K] by mean score among visible blocks, padded with -1."""
        scores = torch.einsum("bthd,bjd->btj", self.q.float(), self.blocks().float())
        ends = torch.from_numpy((self.positions + 1) // RATIO[self.layer])
        scores[torch.arange(scores.shape[2]) >= ends[..., None]] = -torch.inf
        best = scores.topk(TOP_K)
        return torch.where(best.values.isfinite(), best.indices, -1).int()


def steps(head_dim: int, heads: int, seed: int) -> Iterator[Step]:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    for layer in RATIO:
        for name, tokens in (("prefill", 5), ("decode", 1)):
            q, kv = normal(1, tokens, heads, head_dim).bfloat16(), normal(1, TOKENS, head_dim).bfloat16()
            yield Step(layer, name, q, kv, normal(heads))


def run(step: Step) -> Attention:
    """Call the layer's attention as a serving engine does."""
    length = torch.tensor([TOKENS], dtype=torch.int32)
    branch: dict[str, Any] = {}
    if step.layer == "CSA":
        branch = {"cmp_kv": step.blocks(), "topk_indices": step.best_blocks()}
    if step.layer == "HCA":
        branch = {"cmp_kv": step.blocks(), "compress_ratio": RATIO["HCA"], "seq_lens": length}
    return dsv4.attention(step.q, step.kv, swa_lens=length, attn_sink=step.sink, **branch, debug=True)


def expected(step: Step) -> tuple[np.ndarray, np.ndarray]:
    """Return the oracle's o and lse."""
    kv = step.kv.double().numpy()
    sources = [(kv, kv, oracle.swa_keys([TOKENS], step.tokens, dsv4.WINDOW))]
    if step.layer != "SWA":
        blocks = step.blocks().double().numpy()
        keys = oracle.compressed_keys(step.positions, RATIO[step.layer])
        if step.layer == "CSA":
            keys = oracle.topk_keys(step.best_blocks().numpy(), np.full((1, step.tokens), TOP_K), len(blocks[0]))
        sources.append((blocks, blocks, keys))
    scale = step.q.shape[-1] ** -0.5
    return oracle.attention(step.q.double().numpy(), sources, scale, step.sink.double().numpy())


def compare(step: Step) -> bool:
    """Run one step, print its row of the table, and return True if the errors are within the bounds."""
    with emulator.emulate(completion="lazy") as device:
        started = time.perf_counter()
        got = run(step)
        seconds = time.perf_counter() - started
    o, lse = expected(step)
    x, y = got.o.double().numpy().ravel(), o.ravel()
    cosine = x @ y / np.sqrt((x @ x) * (y @ y))
    diff = ((x - y) ** 2).sum() / (x @ x + y @ y)
    lse_error = np.abs(got.lse.double().numpy() - lse).max()
    holds = bool(cosine >= COSINE and lse_error <= LSE)
    instructions = device.launches[-1].instructions
    print(
        f"{step.layer:<6}{step.name:<9}{step.tokens:>6}{cosine:>12.7f}{diff:>10.1e}{lse_error:>10.1e}"
        f"{instructions:>14,}{seconds:>9.1f}  {'holds' if holds else 'FAILS'}"
    )
    return holds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--head-dim", type=int, default=512, choices=(64, 128, 256, 512))
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(
        f"H={options.heads} D={options.head_dim}, {TOKENS} tokens, window {dsv4.WINDOW}, top-k {TOP_K}, emulated B200"
    )
    heads = ("layer", "step", "tokens", "cosine", "diff", "lse err", "instructions", "seconds")
    print("{:<6}{:<9}{:>6}{:>12}{:>10}{:>10}{:>14}{:>9}".format(*heads))
    held = [compare(step) for step in steps(options.head_dim, options.heads, options.seed)]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
