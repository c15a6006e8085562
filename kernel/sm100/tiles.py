"""Which rows a CTA has, which keys they see, and which KV tiles hold those: index arithmetic, traced or in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32

from kernel.config import Mask


class Fixed:
    """Base of what is traced once and never reassigned: branches and loops have nothing of it to carry."""

    def __extract_mlir_values__(self) -> list[Any]:
        return []

    def __new_from_mlir_values__(self, values: list[Any]) -> Fixed:
        return self


def larger(x: Any, y: Any) -> Any:
    """Maximum of two integers, traced or not."""
    return max(x, y) if isinstance(x, int) and isinstance(y, int) else cutlass.select_(x > y, x, y)


def smaller(x: Any, y: Any) -> Any:
    """Minimum of two integers, traced or not."""
    return min(x, y) if isinstance(x, int) and isinstance(y, int) else cutlass.select_(x < y, x, y)


@dataclass
class RowTile(Fixed):
    """A CTA's rows: block_m of a row group, whose rows are tokens * heads, head fastest."""

    index: Any
    group: Any  # a sequence with all its tokens, or, where each token has a list of keys of its own, one token
    rows: Any  # of the group
    heads: Any
    tokens: Any  # of the sequence
    block_m: int
    ctas: int = 1  # of one MMA, and so of the same KV tiles
    group_is_token: bool = False

    @property
    def sequence(self) -> Any:
        return self.group // self.tokens if self.group_is_token else self.group

    def row(self, i: Any) -> Any:
        """Number within the group of row `i` of the tile."""
        return self.index * self.block_m + i

    def token(self, i: Any) -> Any:
        """Number within the sequence of the token of row `i`."""
        return self.group % self.tokens if self.group_is_token else self.row(i) // self.heads

    def head(self, i: Any) -> Any:
        return self.row(i) % self.heads

    def first_and_last_token(self) -> tuple[Any, Any]:
        """Of those that the CTA, or those of one MMA, hold a row of."""
        rank = self.index % self.ctas
        past = smaller((self.ctas - rank) * self.block_m, self.rows - self.row(0))
        return self.token(-rank * self.block_m), self.token(past - 1)


@dataclass
class Visible(Fixed):
    """Which keys the queries of a sequence see: token t sees lo(t) up to, not including, hi(t), blocks if whole."""

    mask: Mask
    keys: Any  # rows of K
    length: Any  # tokens of the sequence, those of the launch included; without "causal", keys that hold something
    tokens: Any
    window: Any = None  # keys that a query sees at most; None: all
    ratio: Any = 1  # tokens of a key

    def hi(self, t: Any) -> Any:
        seen = self.length if self.mask != "causal" else self.end(t) // self.ratio
        return smaller(seen, self.keys)

    def lo(self, t: Any) -> Any:
        return 0 if self.mask != "causal" or self.window is None else larger(self.end(t) - self.window, 0)

    def end(self, t: Any) -> Any:
        """Tokens of the sequence up to query `t`."""
        return larger(self.length - self.tokens + t + 1, 0)

    @property
    def poisoned_from(self) -> Any:
        """The first key that may hold anything, NaN included; none does where all are seen."""
        return None if self.mask == "none" else self.hi(self.tokens - 1)


@dataclass
class KvTiles(Fixed):
    """The KV tiles that some row of a row tile of the tokens t_first to t_last sees; bounds grow with the token."""

    seen: Visible
    block_n: int
    t_first: Any
    t_last: Any

    @property
    def count(self) -> Any:
        return larger(self.seen.hi(self.t_last) - self.start(0) + (self.block_n - 1), 0) // self.block_n

    def start(self, i: Any) -> Any:
        """First key of the row tile's KV tile `i`."""
        return self.seen.lo(self.t_first) + i * self.block_n

    def is_cut(self, i: Any) -> Any:
        """Whether some row of the tile does not see all keys of KV tile `i`."""
        return (self.start(i) < self.seen.lo(self.t_last)) | (self.start(i) + self.block_n > self.seen.hi(self.t_first))


@dataclass
class TopkTiles(Fixed):
    """KV tiles of the compressed keys that a token lists, block_n of the list a tile."""

    indices: cute.Tensor  # [K] int32 of the token
    length: Any  # how many of them count
    keys: Any  # what an index has to lie below
    first_key: Any  # row of the sequence's key 0 in the tensor that is gathered from
    block_n: int

    @property
    def count(self) -> Any:
        return (self.length + (self.block_n - 1)) // self.block_n

    def index(self, i: Any) -> Any:
        """Entry `i`, as listed; another where there is none."""
        return self.indices[larger(smaller(i, self.length - 1), 0)]

    def key(self, i: Any, index: Any) -> Any:
        """Row in the tensor of entry `i`, whose index is at hand; -1 for one that names no key or does not count."""
        named = (i >= 0) & (i < self.length) & (index >= 0) & (index < self.keys)
        return cutlass.select_(named, self.first_key + index, Int32(-1))


@dataclass
class Branches(Fixed):
    """All KV tiles of a row tile, the window's, then the compressed ones: a share of them, from `begin` to `end`."""

    window: KvTiles
    compressed: KvTiles | TopkTiles | None
    shares: int = 1
    share: Any = 0

    @property
    def begin(self) -> Any:
        return self.part(self.share) if self.shares > 1 else 0

    @property
    def end(self) -> Any:
        return self.part(self.share + 1)

    @property
    def count(self) -> Any:
        return self.end - self.begin

    def part(self, shares: Any) -> Any:
        """How many tiles so many shares have."""
        count = self.window.count if self.compressed is None else self.window.count + self.compressed.count
        return count * shares // self.shares if self.shares > 1 else count

    def bounds(self, i: Any, token: Any) -> tuple[Any, Any, Any]:
        """Whether some row does not see all of KV tile `i`; the keys of it that `token` sees, from lo up to hi."""
        seen, start, j = self.window.seen, self.window.start(i), i - self.window.count
        cut, lo, hi = self.window.is_cut(i), seen.lo(token) - start, seen.hi(token) - start
        if isinstance(self.compressed, TopkTiles):
            return cut & (j < 0), lo, hi
        if self.compressed is not None:
            own = self.compressed.is_cut(j), Int32(0), self.compressed.seen.hi(token) - self.compressed.start(j)
            cut, lo, hi = (cutlass.select_(j < 0, *pair) for pair in zip((cut, lo, hi), own, strict=True))
        return cut, lo, hi
