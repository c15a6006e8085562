"""A CTA's rows, the keys that they see, and the KV tiles with those keys: index arithmetic, traced or in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32

from kernel.problem import Mask


class LoopInvariant:
    """Base class of objects that are never reassigned, so traced loops and branches have no values of them to carry."""

    def __extract_mlir_values__(self) -> list[Any]:
        return []

    def __new_from_mlir_values__(self, values: list[Any]) -> LoopInvariant:
        return self


def larger(x: Any, y: Any) -> Any:
    """Maximum of two integers, traced or not."""
    return max(x, y) if isinstance(x, int) and isinstance(y, int) else cutlass.select_(x > y, x, y)


def smaller(x: Any, y: Any) -> Any:
    """Minimum of two integers, traced or not."""
    return min(x, y) if isinstance(x, int) and isinstance(y, int) else cutlass.select_(x < y, x, y)


@dataclass
class RowTile(LoopInvariant):
    """The rows that a CTA works on at a time: block_m rows of a group, one Q tile or the two in flight.

    A group's rows are tokens * heads, head fastest.
    """

    index: Any
    group: Any  # a sequence, or one token where tokens have top-k indices
    rows: Any  # of the group
    heads: Any
    tokens: Any  # of the sequence
    block_m: int
    ctas: int = 1  # CTAs of one MMA, which have adjacent row tiles and the same KV tiles
    group_is_token: bool = False

    @property
    def sequence(self) -> Any:
        """Number of the row tile's sequence."""
        return self.group // self.tokens if self.group_is_token else self.group

    def row(self, i: Any) -> Any:
        """Return the number of the tile's row `i` within the group."""
        return self.index * self.block_m + i

    def token(self, i: Any) -> Any:
        """Token of the tile's row `i`, as its number within the sequence."""
        return self.group % self.tokens if self.group_is_token else self.row(i) // self.heads

    def head(self, i: Any) -> Any:
        """Head of the tile's row `i`."""
        return self.row(i) % self.heads

    def first_and_last_token(self) -> tuple[Any, Any]:
        """First and last token with a row in the row tiles of one MMA."""
        rank = self.index % self.ctas
        past = smaller((self.ctas - rank) * self.block_m, self.rows - self.row(0))
        return self.token(-rank * self.block_m), self.token(past - 1)


@dataclass
class VisibleKeys(LoopInvariant):
    """The keys that a sequence's queries see: token t sees lo(t) to hi(t) - 1. A key may be a block of tokens."""

    mask: Mask
    keys: Any  # rows of K
    length: Any  # with a causal mask, tokens of the sequence up to the launch's last; else keys that hold something
    tokens: Any  # of the launch
    window: Any = None  # keys that a query sees at most; None: all
    ratio: Any = 1  # tokens of a key

    def hi(self, t: Any) -> Any:
        """First key after those that token `t` sees. A block is seen once it is complete."""
        seen = self.length if self.mask != "causal" else self.end(t) // self.ratio
        return smaller(seen, self.keys)

    def lo(self, t: Any) -> Any:
        """First key that token `t` sees."""
        return 0 if self.mask != "causal" or self.window is None else larger(self.end(t) - self.window, 0)

    def end(self, t: Any) -> Any:
        """Return the number of the sequence's tokens up to token `t`."""
        return larger(self.length - self.tokens + t + 1, 0)

    @property
    def valid_end(self) -> Any:
        """Number of keys that hold something: keys from there on may be NaN. None if the mask shows all keys."""
        return None if self.mask == "none" else self.hi(self.tokens - 1)


@dataclass
class KvTiles(LoopInvariant):
    """The KV tiles of one branch that some row of the tokens t_first to t_last sees. Bounds grow with the token."""

    visible: VisibleKeys
    block_n: int
    t_first: Any
    t_last: Any

    @property
    def count(self) -> Any:
        """Number of KV tiles."""
        return larger(self.visible.hi(self.t_last) - self.start(0) + (self.block_n - 1), 0) // self.block_n

    def start(self, i: Any) -> Any:
        """First key of KV tile `i`."""
        return self.visible.lo(self.t_first) + i * self.block_n

    def needs_mask(self, i: Any) -> Any:
        """Return whether some row does not see all keys of KV tile `i`."""
        start = self.start(i)
        return (start < self.visible.lo(self.t_last)) | (start + self.block_n > self.visible.hi(self.t_first))


@dataclass
class TopkTiles(LoopInvariant):
    """The KV tiles of a token's top-k keys: block_n indices a tile."""

    indices: cute.Tensor  # [K] int32 of the token
    length: Any  # indices that count
    keys: Any  # an index must be below
    first_key: Any  # row of the sequence's key 0 in the tensor that is gathered from
    block_n: int

    @property
    def count(self) -> Any:
        """Number of KV tiles."""
        return (self.length + (self.block_n - 1)) // self.block_n

    def index(self, i: Any) -> Any:
        """Index `i` of the token. Past the last one, that one again, so that the read stays inside the tensor."""
        return self.indices[larger(smaller(i, self.length - 1), 0)]

    def key(self, i: Any, index: Any) -> Any:
        """Row of the gathered tensor for index number `i`; -1 if it is out of range or does not count."""
        valid = (i >= 0) & (i < self.length) & (index >= 0) & (index < self.keys)
        return cutlass.select_(valid, self.first_key + index, Int32(-1))


@dataclass
class Branches(LoopInvariant):
    """All KV tiles of a row tile, the window's first, then the compressed ones; a CTA has those from begin to end."""

    window: KvTiles
    compressed: KvTiles | TopkTiles | None
    splits: int = 1  # CTAs among which the tiles are split
    split: Any = 0  # this CTA's number among them

    @property
    def begin(self) -> Any:
        """First tile of the CTA."""
        return self.boundary(self.split) if self.splits > 1 else 0

    @property
    def end(self) -> Any:
        """First tile after those of the CTA."""
        return self.boundary(self.split + 1)

    @property
    def count(self) -> Any:
        """Number of the CTA's tiles."""
        return self.end - self.begin

    def boundary(self, splits: Any) -> Any:
        """Return the number of tiles that the first `splits` splits have together."""
        count = self.window.count if self.compressed is None else self.window.count + self.compressed.count
        return count * splits // self.splits if self.splits > 1 else count

    def bounds(self, i: Any, token: Any) -> tuple[Any, Any, Any]:
        """Return whether KV tile `i` needs a mask, and the range of its keys that `token` sees: lo to hi - 1."""
        visible = self.window.visible
        start = self.window.start(i)
        j = i - self.window.count
        needs_mask = self.window.needs_mask(i)
        lo = visible.lo(token) - start
        hi = visible.hi(token) - start
        if isinstance(self.compressed, TopkTiles):
            return needs_mask & (j < 0), lo, hi
        if self.compressed is not None:
            blocks = self.compressed
            of_window = needs_mask, lo, hi
            of_blocks = blocks.needs_mask(j), Int32(0), blocks.visible.hi(token) - blocks.start(j)
            needs_mask, lo, hi = (cutlass.select_(j < 0, *pair) for pair in zip(of_window, of_blocks, strict=True))
        return needs_mask, lo, hi
