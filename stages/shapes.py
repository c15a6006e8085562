"""Problems for performance: the attention calls of DeepSeek-V4 layers, and plain attention of each head dim."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import product
from typing import ClassVar, Literal

import torch

from kernel import dsv4, fmha, serving
from kernel.layouts import QUANTISED
from kernel.problem import Layout

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
        """Return the call with its inputs on a device. make: torch.zeros or torch.randn.

        Lengths are given: what the host call fills in for missing ones are launches of their own.
        """
        bf16 = partial(make, dtype=torch.bfloat16, device=device)
        q = bf16(self.batch, self.tokens, self.heads, self.head_dim)
        kept = self.keys if self.branch == "plain" else dsv4.WINDOW + self.tokens - 1
        kv = bf16(self.batch, kept, self.head_dim)
        if self.branch == "plain":
            return partial(fmha, q, kv, kv.clone(), partials=False)

        def filled(value: int, *shape: int) -> torch.Tensor:
            return torch.full(shape, value, dtype=torch.int32, device=device)

        attention = partial(dsv4.attention, q, kv, swa_lens=filled(kept, self.batch))
        if self.branch == "window":
            return attention
        if self.branch == "hca":
            blocks = bf16(self.batch, CONTEXT // HCA_RATIO, self.head_dim)
            return partial(attention, cmp_kv=blocks, seq_lens=filled(CONTEXT, self.batch), compress_ratio=HCA_RATIO)
        blocks = bf16(self.batch, CONTEXT // 4, self.head_dim)
        random = torch.Generator().manual_seed(0)
        shape = (self.batch, self.tokens, self.topk)
        indices = torch.randint(CONTEXT // 4, shape, generator=random, dtype=torch.int32).to(device)
        lens = filled(self.topk, self.batch, self.tokens)
        return partial(attention, cmp_kv=blocks, topk_indices=indices, topk_lens=lens)


@dataclass(frozen=True)
class ServedShape:
    """One call of `kernel.serving.attention`: decode over caches in a layout of kernel.layouts, or in bf16.

    lists: indices of a token in each cache, of which there are one or two, without any key twice in a batch. sizes:
    keys of a page.
    """

    name: str
    heads: int
    batch: int
    tokens: int
    layouts: tuple[Layout, ...]
    lists: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def qk_dim(self) -> int:
        """Columns of Q and K."""
        return 576 if self.layouts[0] == "v32" else 512

    @property
    def flops(self) -> float:
        """Floating-point operations of both products."""
        return 2.0 * self.batch * self.tokens * self.heads * (self.qk_dim + 512) * sum(self.lists)

    def call(self) -> None:
        """Call the kernel on zeros of this shape. Only the indices are random."""
        self.prepared(torch.zeros, "cpu")()

    def prepared(self, make: Callable[..., torch.Tensor], device: str) -> Callable[[], object]:
        """Return the call with its inputs on a device. make: torch.zeros or torch.randn; quantised keys are zeros."""
        bf16 = partial(make, dtype=torch.bfloat16, device=device)
        q = bf16(self.batch, self.tokens, self.heads, self.qk_dim)
        of_each = zip(self.layouts, self.lists, self.sizes, strict=True)
        return partial(serving.attention, q, *(self._cache(*each, bf16, device) for each in of_each))

    def _cache(
        self, layout: Layout, listed: int, size: int, bf16: Callable[..., torch.Tensor], device: str
    ) -> serving.IndexedCache:
        count = self.batch * self.tokens * listed
        pages = -(-count // size)
        if layout == "bf16":
            held = bf16(pages, size, 1, self.qk_dim)
        else:
            held = torch.zeros(pages, size, 1, QUANTISED[layout].bytes, dtype=torch.uint8, device=device)
        keys = torch.randperm(count, generator=torch.Generator().manual_seed(0)).int().to(device)
        return serving.IndexedCache(held, keys.view(self.batch, self.tokens, listed))


@dataclass(frozen=True)
class DenseShape:
    """One call of `kernel.serving.attention`: causal decode over all keys that a block table lists, in bf16.

    keys: of a sequence, a multiple of PAGE.
    """

    name: str
    heads: int
    batch: int
    tokens: int
    keys: int

    PAGE: ClassVar[int] = 64
    QK_DIM: ClassVar[int] = 576

    @property
    def flops(self) -> float:
        """Floating-point operations of both products, for all keys."""
        return 2.0 * self.batch * self.tokens * self.heads * (self.QK_DIM + 512) * self.keys

    def call(self) -> None:
        """Call the kernel on zeros of this shape. Only the block table is random."""
        self.prepared(torch.zeros, "cpu")()

    def prepared(self, make: Callable[..., torch.Tensor], device: str) -> Callable[[], object]:
        """Return the call with its inputs on a device. make: torch.zeros or torch.randn."""
        q, pages, table, lens = self.inputs(make, device)
        return partial(serving.attention, q, serving.TableCache(pages, table, lens))

    def inputs(self, make: Callable[..., torch.Tensor], device: str) -> tuple[torch.Tensor, ...]:
        """Return q, the pages, the block table and the lengths, with pages in any order."""
        bf16, columns = partial(make, dtype=torch.bfloat16, device=device), self.keys // self.PAGE
        q = bf16(self.batch, self.tokens, self.heads, self.QK_DIM)
        pages = bf16(self.batch * columns, self.PAGE, 1, self.QK_DIM)
        table = torch.randperm(len(pages), generator=torch.Generator().manual_seed(0)).int().to(device)
        lens = torch.full((self.batch,), self.keys, dtype=torch.int32, device=device)
        return q, pages, table.view(self.batch, columns), lens


def _served() -> Iterator[ServedShape]:
    """Yield decode of DeepSeek-V4's CSA and HCA layers, of V4.1's, and of V3.2's layers."""
    pairs: dict[str, tuple[Layout, Layout]] = {"bf16": ("bf16", "bf16"), "v4": ("v4", "v4"), "v41": ("v41", "v41_fp4")}
    for h, batch, (name, layouts) in product((128, 64, 32, 16, 8), (2, 64, 256), pairs.items()):
        csa = dsv4.WINDOW, 512 if h == 64 else 1024
        yield ServedShape(f"serve-{h}h-b{batch}-csa-{name}", h, batch, 1, layouts, csa, (256, 64))
        hca = dsv4.WINDOW, CONTEXT // HCA_RATIO
        yield ServedShape(f"serve-{h}h-b{batch}-hca-{name}", h, batch, 1, layouts, hca, (256, 2))
    for batch in (2, 64, 128):
        yield ServedShape(f"serve-128h-b{batch}-t2-v32", 128, batch, 2, ("v32",), (2048,), (64,))


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
#: Decode over paged caches, for `make perf SHAPE="serve-*"`.
SERVED = tuple(_served())


#: Decode over all keys of a block table's pages. With 16 heads HBM limits it.
DENSE = tuple(
    DenseShape(f"dense-{heads}h-b{batch}-t{tokens}-k{keys}", heads, batch, tokens, keys)
    for heads, batch, tokens, keys in ((128, 2, 1, 8192), (128, 128, 1, 4096), (128, 128, 2, 4096), (16, 128, 1, 4096))
)


def find(pattern: str) -> tuple[Shape | ServedShape | DenseShape, ...]:
    """Return the shapes whose names match the glob `pattern`. Raises ValueError, which lists all names."""
    every: tuple[Shape | ServedShape | DenseShape, ...] = (*SHAPES, *MORE, *SERVED, *DENSE)
    known = {shape.name: shape for shape in every}
    found = tuple(shape for name, shape in known.items() if fnmatchcase(name, pattern))
    if not found:
        raise ValueError(f"no shape {pattern!r}; there are {', '.join(known)}")
    return found
