"""Decode with the calls of FlashMLA: DeepSeek-V4's layers over paged FP8 caches, captured once in a CUDA graph.

    python -m emulator run examples/dsv4_decode.py    # the emulated B200; on a GPU: python examples/dsv4_decode.py

Three layer kinds (window; window and compressed keys listed by an indexer, CSA; window and all compressed keys, HCA)
decode a batch of sequences, one of which is padding. One graph has a layer of each kind. Before each step the lengths
grow and the lists change in place, and the graph is replayed. Each step is compared with a softmax in float64 over what
the caches' bytes mean.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from flash_mla import FlashMLASchedMeta, flash_mla_with_kvcache, get_mla_metadata

BATCH, HEADS, D, WINDOW, TOP_K = 3, 8, 512, 128, 40
WINDOW_PAGE, RATIO = 64, {"SWA": 0, "CSA": 4, "HCA": 16}  # the model's HCA compresses by 128
COMPRESSED_PAGE = {"CSA": 64, "HCA": 2}
STEPS = ((140, 30, 0), (141, 31, 0), (142, 1, 65))  # tokens of each sequence; 0 is padding
MOST_TOKENS = 160
CODES, KEY_BYTES, GROUP = 448, 576, 64  # FP8 columns, bytes without scales, columns of a scale


def cache(pages: int, size: int, seed: int) -> torch.Tensor:
    """Return a cache of random keys in DeepSeek-V4's layout, [pages, size, 1, 584] uint8."""
    values = torch.randn(pages, size, D, generator=torch.Generator().manual_seed(seed)) / 8
    groups = values[..., :CODES].reshape(pages, size, -1, GROUP)
    exponents = (groups.abs().amax(3) / 448).log2().ceil()
    codes = (groups / 2.0 ** exponents[..., None]).to(torch.float8_e4m3fn).view(torch.uint8).flatten(2)
    others = values[..., CODES:].bfloat16().contiguous().view(torch.uint8)
    keys = torch.cat([codes, others], 2).flatten(1)
    scales = torch.nn.functional.pad((exponents + 127).to(torch.uint8), (0, 1)).flatten(1)
    return torch.cat([keys, scales], 1).view(pages, size, 1, -1).cuda()


def meaning(pages: torch.Tensor) -> torch.Tensor:
    """Return the keys of a cache in float64, [pages * size, D]."""
    count, size = pages.shape[:2]
    raw = pages.cpu().view(count, -1)
    keys, scales = raw[:, : size * KEY_BYTES].reshape(count * size, -1), raw[:, size * KEY_BYTES :].reshape(-1, 8)
    factors = 2.0 ** (scales[:, :7].double() - 127)
    codes = keys[:, :CODES].contiguous().view(torch.float8_e4m3fn).double() * factors.repeat_interleave(GROUP, 1)
    return torch.cat([codes, keys[:, CODES:].contiguous().view(torch.bfloat16).double()], 1)


def tensor(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype, device="cuda")


@dataclass
class Layer:
    """A layer with the tensors that the graph reads and writes."""

    kind: str

    def __post_init__(self) -> None:
        self.schedule: FlashMLASchedMeta = get_mla_metadata()[0]
        self.q = tensor(BATCH, 1, HEADS, D, dtype=torch.bfloat16)
        self.sink = torch.linspace(-2, 4, HEADS).cuda()
        self.per_sequence = -(-MOST_TOKENS // WINDOW_PAGE)
        self.window = cache(BATCH * self.per_sequence, WINDOW_PAGE, seed=1)
        self.listed, self.length = tensor(BATCH, 1, WINDOW), tensor(BATCH)
        self.extra: dict[str, Any] = {}
        if self.kind != "SWA":
            size = COMPRESSED_PAGE[self.kind]
            self.blocks = -(-MOST_TOKENS // RATIO[self.kind] // size) * size  # of a sequence
            self.extra = {
                "extra_k_cache": cache(BATCH * self.blocks // size, size, seed=2),
                "extra_indices_in_kvcache": tensor(BATCH, 1, TOP_K),
                "extra_topk_length": tensor(BATCH),
            }

    def set(self, tokens: tuple[int, ...], seed: int) -> None:
        """Write queries, lists and lengths of a step into the tensors."""
        generator = torch.Generator().manual_seed(seed)
        self.q.copy_(torch.randn(self.q.shape, generator=generator).bfloat16() * 4)
        for b, count in enumerate(tokens):
            seen = torch.arange(max(count - WINDOW, 0), count, dtype=torch.int32)
            self.listed[b, 0, : len(seen)] = (seen + b * self.per_sequence * WINDOW_PAGE).cuda()
            self.length[b] = len(seen)
            if self.extra:
                whole = count // RATIO[self.kind]
                chosen = torch.randperm(whole, generator=generator)[:TOP_K].int()  # CSA's indexer scores them instead
                self.extra["extra_indices_in_kvcache"][b, 0, : len(chosen)] = (chosen + b * self.blocks).cuda()
                self.extra["extra_topk_length"][b] = len(chosen)

    def step(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Attend. Nothing here depends on what the tensors hold."""
        return flash_mla_with_kvcache(
            self.q, self.window, None, None, D, self.schedule, is_fp8_kvcache=True, indices=self.listed,
            topk_length=self.length, attn_sink=self.sink, **self.extra,
        )  # fmt: skip

    def expected(self, b: int) -> torch.Tensor:
        """Return the output of sequence `b` in float64, [HEADS, D]."""
        keys = [meaning(self.window)[self.listed[b, 0, : int(self.length[b])].cpu().long()]]
        if self.extra:
            listed = self.extra["extra_indices_in_kvcache"][b, 0, : int(self.extra["extra_topk_length"][b])]
            keys.append(meaning(self.extra["extra_k_cache"])[listed.cpu().long()])
        kv = torch.cat(keys)
        scores = torch.cat([D**-0.5 * self.q[b, 0].cpu().double() @ kv.T, self.sink.cpu().double()[:, None]], 1)
        return scores.softmax(1)[:, :-1] @ kv


def main() -> None:
    """Capture a step of all layers once, replay it for every step, and compare."""
    layers = [Layer(kind) for kind in RATIO]
    for layer in layers:
        layer.step()  # compiles; a capture must not
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = [layer.step()[0] for layer in layers]
    for seed, tokens in enumerate(STEPS):
        for layer in layers:
            layer.set(tokens, seed)
        graph.replay()
        for layer, out in zip(layers, outputs, strict=True):
            errors = [float((out[b, 0].cpu().double() - layer.expected(b)).abs().max()) for b in range(BATCH)]
            shown = ", ".join(f"{error:.1e}" for error in errors)
            print(f"{layer.kind} tokens {tokens}: largest errors {shown}", flush=True)
            assert max(errors) < 2e-3, f"{layer.kind}: the output differs"


if __name__ == "__main__":
    main()
