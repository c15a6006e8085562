"""Which rows a CTA has, which keys they see, and which KV tiles hold those: index arithmetic, traced or in Python."""

# CuTeDSL's operations take and give traced values and static ones alike, which its annotations cannot say.
# mypy: disable-error-code="index, arg-type, misc, attr-defined, operator, union-attr, assignment"

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import cutlass
import cutlass.cute as cute
from cutlass import Int32

from kernel.config import Mask
from kernel.sm100.traced import Fixed, larger, smaller


@dataclass
class RowTile(Fixed):
    """A CTA's rows: block_m of a row group, whose rows are tokens * heads, head fastest.

    A group is a sequence with all its tokens, or, where each token has a list of keys of its own, one token.
    """

    index: Any
    group: Any
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
    """Which keys the queries of a sequence see: token t sees lo(t) up to, not including, hi(t)."""

    mask: Mask
    keys: Any  # rows of K
    length: Any  # keys that hold something, counted from the first
    tokens: Any
    window: Any

    @property
    def may_poison(self) -> bool:
        """Whether keys from `length` on may hold anything, NaN included."""
        return self.mask != "none"

    def hi(self, t: Any) -> Any:
        last = self.length if self.mask != "causal" else larger(self.length - self.tokens + t + 1, 0)
        return smaller(last, self.keys)

    def lo(self, t: Any) -> Any:
        return 0 if self.mask != "causal" else larger(self.length - self.tokens + t + 1 - self.window, 0)


@dataclass
class Blocks(Fixed):
    """Compressed blocks that lie wholly at or before a query, seen as Visible is; the query of token t is number
    position - tokens + t of its sequence and sees block j iff j < floor((that + 1) / ratio)."""

    keys: Any  # rows of the compressed keys
    position: Any  # tokens of the sequence, those of the launch included
    tokens: Any
    ratio: Any
    may_poison: bool = True

    def hi(self, t: Any) -> Any:
        return smaller(larger(self.position - self.tokens + t + 1, 0) // self.ratio, self.keys)

    def lo(self, t: Any) -> Any:
        return 0

    @property
    def length(self) -> Any:
        return self.hi(self.tokens - 1)


@dataclass
class KvTiles(Fixed):
    """The KV tiles that some row of a row tile sees, from the first such key on. Its tokens are t_first to t_last;
    bounds grow with the token."""

    seen: Visible | Blocks
    block_n: int
    t_first: Any
    t_last: Any
    skipped: Any = 0  # of those tiles, which another CTA has
    limit: Any = None  # tiles at most

    @property
    def count(self) -> Any:
        left = larger(self.seen.hi(self.t_last) - self.start(0) + (self.block_n - 1), 0) // self.block_n
        return left if self.limit is None else smaller(left, self.limit)

    def start(self, i: Any) -> Any:
        """First key of the row tile's KV tile `i`."""
        return self.seen.lo(self.t_first) + (self.skipped + i) * self.block_n

    def is_cut(self, i: Any) -> Any:
        """Whether some row of the tile does not see all keys of KV tile `i`."""
        return (self.start(i) < self.seen.lo(self.t_last)) | (self.start(i) + self.block_n > self.seen.hi(self.t_first))

    def poisoned_from(self, i: Any) -> Any:
        """First row of KV tile `i` that may hold anything, NaN included; block_n or more if none does."""
        return self.seen.length - self.start(i)


@dataclass
class TopkTiles(Fixed):
    """KV tiles of the compressed keys that a token lists, block_n of the list a tile."""

    indices: cute.Tensor  # [K] int32 of the token
    length: Any  # how many of them count
    keys: Any  # what an index has to lie below
    first_key: Any  # row of the sequence's key 0 in the tensor that is gathered from
    block_n: int
    skipped: Any = 0  # tiles of the list, which another CTA has
    limit: Any = None  # tiles at most

    @property
    def count(self) -> Any:
        left = (self.length + (self.block_n - 1)) // self.block_n - self.skipped
        return left if self.limit is None else smaller(larger(left, 0), self.limit)

    def key(self, i: Any) -> Any:
        """Row of the tiles' entry `i` in the tensor, or -1 for one that names no key or does not count."""
        return self.row(i, self.index(i))

    def index(self, i: Any) -> Any:
        """Of the tiles' entry `i`, as listed; of another where there is none."""
        return self.indices[larger(smaller(i + self.skipped * self.block_n, self.length - 1), 0)]

    def row(self, i: Any, index: Any) -> Any:
        """`key` where the index is at hand."""
        entry = i + self.skipped * self.block_n
        named = (i >= 0) & (entry < self.length) & (index >= 0) & (index < self.keys)
        return cutlass.select_(named, self.first_key + index, Int32(-1))


@dataclass
class Branches(Fixed):
    """All KV tiles of a row tile, in the order of the one loop over them: the window's, then the compressed ones."""

    window: KvTiles
    compressed: KvTiles | TopkTiles | None = None

    @property
    def count(self) -> Any:
        return self.window.count if self.compressed is None else self.window.count + self.compressed.count

    def share(self, index: Any, shares: int) -> Branches:
        """Of `shares` shares of the tiles, in their order and as even as can be, that of this index."""
        begin, end = self.count * index // shares, self.count * (index + 1) // shares
        if self.compressed is None:
            return Branches(part(self.window, begin, end))
        past = self.window.count
        return Branches(part(self.window, begin, smaller(end, past)), part(self.compressed, begin - past, end - past))


Tiles = TypeVar("Tiles", bound="KvTiles | TopkTiles")


def part(tiles: Tiles, begin: Any, end: Any) -> Tiles:
    """The tiles from `begin` up to, not including, `end`; numbers below 0 are none."""
    begin = larger(begin, 0)
    return replace(tiles, skipped=begin, limit=larger(end - begin, 0))
