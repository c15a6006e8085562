"""Caches of serving engines as cases have them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

NAMES = ("main", "extra")
Layout = Literal["bf16", "e4m3", "v4", "v32", "v41", "v41_fp4", "v41_page_scales", "v41_fp4_page_scales"]


@dataclass(frozen=True)
class Paged:
    """A cache: `pages` pages of `size` keys, of which each token lists `topk`.

    layout: bytes of a key. gap: bytes after each page that belong to nobody. lens: indices that count, for each
    sequence or for each token; None: all. window: tokens see a window of that many of their sequence's newest keys,
    whose pages are in a block table, and `lens` are tokens of each sequence; math.inf: all keys. held: columns of the
    block table, if it lacks pages of the longest sequence.
    """

    pages: int
    size: int
    topk: int
    layout: Layout = "bf16"
    gap: int = 0
    lens: tuple[int, ...] | None = None
    window: float | None = None
    held: int | None = None

    def __str__(self) -> str:
        parts = [f"{self.layout} {self.pages}x{self.size}"]
        parts += [f"top {self.topk}"] if self.window is None else [f"table W={self.window}"]
        parts += [f"gap={self.gap}"] * (self.gap > 0)
        parts += [f"lens={','.join(map(str, self.lens))}"] if self.lens is not None else []
        parts += [f"held={self.held}"] if self.held is not None else []
        return " ".join(parts)

    @property
    def keys(self) -> int:
        """Keys in all pages."""
        return self.pages * self.size

    @property
    def columns(self) -> int:
        """Columns of the block table: pages of the longest sequence, unless it holds fewer."""
        return -(-max(self.lens or (0,)) // self.size) if self.held is None else self.held

    @property
    def listed(self) -> int:
        """Keys that a token sees at most."""
        return self.topk if self.window is None else int(min(self.window, self.columns * self.size))


@dataclass(frozen=True)
class Served:
    """The caches of a case, and options of kernel.serving.

    empty_lse: lse of rows that see no key. maxima: m is returned. flat: call kernel.serving.sparse_attention with the
    single cache, of pages with one key each. ascending: indices are sorted by rising score of head 0. twice: half of
    the keys of the second cache equal keys of the first, and both are listed. codes: keys have every code and scale,
    token t lists key t alone, and queries are 0, so that O is the key. invariant: with batch_invariant; the case has
    splits=1.
    """

    caches: tuple[Paged, ...]
    empty_lse: float = -math.inf
    maxima: bool = False
    flat: bool = False
    ascending: bool = False
    twice: bool = False
    codes: bool = False
    invariant: bool = False

    def __str__(self) -> str:
        parts = {
            " + ".join(map(str, self.caches)): True,
            "empty=inf": self.empty_lse == math.inf,
            "maxima": self.maxima,
            "flat": self.flat,
            "ascending": self.ascending,
            "twice": self.twice,
            "every code": self.codes,
            "batch invariant": self.invariant,
        }
        return " ".join(part for part, holds in parts.items() if holds)

    @property
    def whole_page(self) -> int:
        """Keys of a page, if the only keys are all that a block table's pages hold; else 0."""
        return self.caches[0].size if [each.window for each in self.caches] == [math.inf] else 0
