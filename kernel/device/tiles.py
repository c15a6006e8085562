"""A CTA's rows, the keys that they see, and the KV tiles with those keys: index arithmetic, traced or in Python."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Boolean, Int32, Int64, Uint32

from kernel.layouts import KeyLayout
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
    ctas: int  # CTAs that have adjacent row tiles and the same KV tiles
    group_is_token: bool

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
        """First and last token with a row in the row tiles that have the same KV tiles."""
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


class SplitTiles(LoopInvariant):
    """All KV tiles of a row tile; a CTA has those from begin to end."""

    splits: int  # CTAs among which the tiles are split
    split: Any  # this CTA's number among them

    @property
    def total(self) -> Any:
        """Number of KV tiles of all CTAs."""
        raise NotImplementedError

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
        total = self.total
        return total * splits // self.splits if self.splits > 1 else total


@dataclass
class CacheKeys(LoopInvariant):
    """The keys of one cache or tensor that a token sees: those that its indices list, or a window of its sequence."""

    length: Any
    base: Any  # address of page 0, or of key 0, 64 bits
    page_bytes: Any  # from a page to the next, 64 bits; None without pages
    row_bytes: Any  # from a key to the next in a page
    page: Any  # keys of a page; None without pages
    keys: Any  # of all pages
    indices: cute.Tensor  # [K] int32: keys, or the sequence's pages
    first: Any = None  # with pages: the window's first key in its sequence

    def index(self, i: Any) -> Any:
        """Return the token's key `i`, as its number in the cache. Past the last one, that one again, to read inside."""
        i = larger(smaller(i, self.length - 1), 0)
        if self.first is None:
            return self.indices[i]
        page, row = self.place(self.first + i)
        valid = (page >= 0) & (page < self.keys // self.page)
        return cutlass.select_(valid, page * self.page + row, Int32(-1))

    def place(self, key: Any) -> tuple[Any, Any]:
        """Return the page of a key of the sequence by the block table, which may name none, and its row there."""
        key, of_page = Uint32(key), Uint32(self.page)
        number = key // of_page
        return self.indices[smaller(Int32(number), cute.size(self.indices) - 1)], Int32(key - number * of_page)


@dataclass
class CacheTiles(SplitTiles):
    """The KV tiles of the keys that a token sees in one or two caches. A tile has keys of one cache."""

    caches: tuple[CacheKeys, ...]
    block_n: int
    splits: int
    split: Any

    @property
    def listed(self) -> CacheTiles:
        """The KV tiles of keys that are gathered: all."""
        return self

    @property
    def first_listed(self) -> Any:
        """First of the listed tiles that the CTA has."""
        return self.begin

    @property
    def end_listed(self) -> Any:
        """First listed tile after those of the CTA."""
        return self.end

    @property
    def boundary_tile(self) -> Any:
        """First tile of the second cache."""
        return (self.caches[0].length + (self.block_n - 1)) // self.block_n

    @property
    def total(self) -> Any:
        """Number of KV tiles of all CTAs."""
        return sum((each.length + (self.block_n - 1)) // self.block_n for each in self.caches)

    def alone(self, number: int) -> tuple[CacheTiles, Any]:
        """Return the KV tiles of a cache alone, and the number of its first key among those of all."""
        return replace(self, caches=self.caches[number : number + 1]), number * self.boundary_tile * self.block_n

    def of_tile(self, i: Any) -> tuple[CacheTiles, Any]:
        """Return what `alone` does for the cache of tile `i`.

        All lanes have the same tile, so the choice needs no register of theirs.
        """
        if len(self.caches) == 1:
            return self, 0
        first = i < self.boundary_tile
        names = "length", "base", "page_bytes", "row_bytes", "page", "keys"
        facts = {name: cutlass.select_(first, *[getattr(each, name) for each in self.caches]) for name in names}
        start = cutlass.select_(first, Int32(0), self.boundary_tile * self.block_n)
        return replace(self, caches=(replace(self.caches[0], **facts),)), start

    def of(self, entry: Any, values: list[Any]) -> Any:
        """Return the value of the cache that key `entry` is in, from one value for each cache."""
        if len(values) == 1:
            return values[0]
        return cutlass.select_(entry < self.boundary_tile * self.block_n, *values)

    def within(self, entry: Any) -> list[Any]:
        """Return the number of key `entry` within each cache."""
        return [entry, entry - self.boundary_tile * self.block_n][: len(self.caches)]

    def index(self, entry: Any) -> Any:
        """Return the token's key `entry`, counted over all tiles, as its number in its cache."""
        return self.of(entry, [each.index(i) for each, i in zip(self.caches, self.within(entry), strict=True)])

    def key(self, entry: Any, index: Any) -> Any:
        """Return `index`, the one of `entry`; -1 if it is out of range or does not count."""
        left = self.of(entry, [each.length - i for each, i in zip(self.caches, self.within(entry), strict=True)])
        valid = (left > 0) & (index >= 0) & (index < self.of(entry, [each.keys for each in self.caches]))
        return cutlass.select_(valid, index, Int32(-1))

    def address(self, entry: Any, index: Any) -> Any:
        """Return the address of the key of `index`, the one of `entry`; 0 if it is out of range or does not count."""
        page, offset = self.page_and_offset(entry, index)
        return self.if_key(entry, index, page + Int64(offset) * self.fact(entry, "row_bytes"))

    def scale_address(self, entry: Any, index: Any, layout: KeyLayout) -> Any:
        """Return the address of the scales of the key of `index`, behind its codes or all keys of its page; or 0."""
        page, offset = self.page_and_offset(entry, index)
        if layout.page_scale_bytes == 0:
            scales = Int64(offset) * self.fact(entry, "row_bytes") + layout.code_bytes
            return self.if_key(entry, index, page + scales)
        keys_bytes = Int64(self.fact(entry, "page")) * layout.key_bytes
        return self.if_key(entry, index, page + keys_bytes + Int64(offset) * layout.page_scale_bytes)

    def page_and_offset(self, entry: Any, index: Any) -> tuple[Any, Any]:
        """Return the address of the page of `index`, and its number in the page; those of key 0 if it names no key."""
        if self.caches[0].page is None:
            return self.caches[0].base, larger(self.key(entry, index), 0)
        of_page = Uint32(self.fact(entry, "page"))
        number = Uint32(larger(self.key(entry, index), 0))
        page = number // of_page
        return self.fact(entry, "base") + Int64(page) * self.fact(entry, "page_bytes"), number - page * of_page

    def fact(self, entry: Any, name: str) -> Any:
        """Return a field of the cache that key `entry` is in."""
        return self.of(entry, [getattr(each, name) for each in self.caches])

    def if_key(self, entry: Any, index: Any, address: Any) -> Any:
        """Return `address`, or 0 if `index`, the one of `entry`, names no key."""
        return cutlass.select_(self.key(entry, index) < 0, Int64(0), address)

    def bounds(self, i: Any, token: Any) -> tuple[Any, Any, Any]:
        """Return that KV tile `i` needs no mask of a window: keys are masked one by one."""
        return Boolean(False), Int32(0), Int32(0)

    def first_entry(self, i: Any) -> Any:
        """Return the first key of KV tile `i`."""
        return i * self.block_n


@dataclass
class Branches(SplitTiles):
    """All KV tiles of a row tile, the window's first, then the compressed ones."""

    window: KvTiles
    compressed: KvTiles | CacheTiles | None
    splits: int
    split: Any

    @property
    def total(self) -> Any:
        """Number of KV tiles of all CTAs."""
        return self.window.count if self.compressed is None else self.window.count + self.compressed.count

    @property
    def listed(self) -> Any:
        """The KV tiles of keys that are gathered, if they are: the compressed ones."""
        return self.compressed

    @property
    def first_listed(self) -> Any:
        """First of the compressed tiles that the CTA has, counted without those of the window."""
        return larger(self.begin - self.window.count, 0)

    @property
    def end_listed(self) -> Any:
        """First compressed tile after those of the CTA, counted likewise."""
        return self.end - self.window.count

    def first_entry(self, i: Any) -> Any:
        """Return the first top-k index of KV tile `i`, negative in tiles of the window."""
        return (i - self.window.count) * self.window.block_n

    def bounds(self, i: Any, token: Any) -> tuple[Any, Any, Any]:
        """Return whether KV tile `i` needs a mask, and the range of its keys that `token` sees: lo to hi - 1."""
        visible = self.window.visible
        start = self.window.start(i)
        j = i - self.window.count
        needs_mask = self.window.needs_mask(i)
        lo = visible.lo(token) - start
        hi = visible.hi(token) - start
        if isinstance(self.compressed, CacheTiles):
            return needs_mask & (j < 0), lo, hi
        if self.compressed is not None:
            blocks = self.compressed
            of_window = needs_mask, lo, hi
            of_blocks = blocks.needs_mask(j), Int32(0), blocks.visible.hi(token) - blocks.start(j)
            needs_mask, lo, hi = (cutlass.select_(j < 0, *pair) for pair in zip(of_window, of_blocks, strict=True))
        return needs_mask, lo, hi
