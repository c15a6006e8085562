"""Problems for performance: the attention calls of DeepSeek-V4 layers, and plain attention of each head dim."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import product
from typing import Literal

import torch

from kernel import dsv4, fmha

CONTEXT = 16_384  # tokens of a sequence during decode
CHUNK = 1_024  # tokens of a prefill chunk
HCA_RATIO = 128


@dataclass(frozen=True)
class Shape:
    """One call of `kernel.dsv4.attention`, or of `kernel.fmha` if `branch` is "plain".

    keys: keys of the window; with "plain", all keys.
    """

    name: str
    branch: Literal["plain", "window", "csa", "hca"]
    batch: int
    tokens: int
    heads: int
    head_dim: int
    keys: int
    topk: int = 0

    @property
    def flops(self) -> float:
        """Floating-point operations of both products, for the keys that a query sees."""
        seen = self.keys + {"plain": 0, "window": 0, "csa": self.topk, "hca": CONTEXT // HCA_RATIO}[self.branch]
        return 4.0 * self.batch * self.tokens * self.heads * self.head_dim * seen

    def call(self) -> None:
        """Call the kernel on zeros of this shape. Only the top-k indices are random."""
        self.prepared(torch.zeros, "cpu")()

    def prepared(self, make: Callable[..., torch.Tensor], device: str) -> Callable[[], object]:
        """Return the call with its inputs on a device. make: torch.zeros or torch.randn."""

        def bf16(*shape: int) -> torch.Tensor:
            return make(*shape, dtype=torch.bfloat16, device=device)

        q = bf16(self.batch, self.tokens, self.heads, self.head_dim)
        kept = self.keys if self.branch == "plain" else dsv4.WINDOW + self.tokens - 1
        kv = bf16(self.batch, kept, self.head_dim)
        if self.branch == "plain":
            return partial(fmha, q, kv, kv.clone(), partials=False)
        if self.branch == "window":
            return partial(dsv4.attention, q, kv)
        if self.branch == "hca":
            blocks = bf16(self.batch, CONTEXT // HCA_RATIO, self.head_dim)
            lens = torch.full((self.batch,), CONTEXT, dtype=torch.int32, device=device)
            return partial(dsv4.attention, q, kv, cmp_kv=blocks, seq_lens=lens, compress_ratio=HCA_RATIO)
        blocks = bf16(self.batch, CONTEXT // 4, self.head_dim)
        random = torch.Generator().manual_seed(0)
        shape = (self.batch, self.tokens, self.topk)
        indices = torch.randint(CONTEXT // 4, shape, generator=random, dtype=torch.int32).to(device)
        return partial(dsv4.attention, q, kv, cmp_kv=blocks, topk_indices=indices)


def _decode(heads: tuple[int, ...], batches: tuple[int, ...], tokens: tuple[int, ...]) -> Iterator[Shape]:
    """Yield CSA and HCA layers. 32 heads or fewer are one tensor-parallel GPU's part of 128 heads."""
    for h, batch, t in product(heads, batches, tokens):
        name, topk = f"decode-{h}h-b{batch}-t{t}", 512 if h == 64 else 1024
        yield Shape(f"{name}-csa", "csa", batch, t, h, 512, dsv4.WINDOW, topk)
        yield Shape(f"{name}-hca", "hca", batch, t, h, 512, dsv4.WINDOW)


SHAPES = (
    Shape("prefill-128h-csa", "csa", 1, CHUNK, 128, 512, dsv4.WINDOW, 1024),
    Shape("prefill-64h-csa", "csa", 1, CHUNK, 64, 512, dsv4.WINDOW, 512),
    Shape("prefill-128h-hca", "hca", 1, CHUNK, 128, 512, dsv4.WINDOW),
    *(Shape(f"prefill-{h}h-window", "window", 1, CHUNK, h, 512, dsv4.WINDOW) for h in (128, 64)),
    *_decode((128, 64), (2, 64, 256), (1,)),
    *_decode((16,), (64,), (1,)),
    *(Shape(f"plain-hd{d}", "plain", 4, 2048, 16, d, 8192) for d in (64, 128, 256)),
)


_EVERY = _decode((128, 64, 32, 16, 8), (2, 64, 74, 128, 148, 256), (1, 2, 3))
#: More decode shapes; predicting all of them takes long.
MORE = tuple(shape for shape in _EVERY if shape not in SHAPES)


def find(pattern: str) -> tuple[Shape, ...]:
    """Return the shapes whose names match the glob `pattern`. Raises ValueError, which lists all names."""
    known = {shape.name: shape for shape in SHAPES + MORE}
    found = tuple(shape for name, shape in known.items() if fnmatchcase(name, pattern))
    if not found:
        raise ValueError(f"no shape {pattern!r}; there are {', '.join(known)}")
    return found
