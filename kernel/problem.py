"""The facts of an attention problem that decide which configuration of the kernel computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from kernel.errors import ArgumentError

HEAD_DIMS = (64, 128, 256, 512)
SPLITS = (1, 2, 4, 8, 16)  # CTAs that the keys of a row tile may be split over
FEW_TOKENS = 8  # of a sequence at most: its tokens find few of their top-k keys in L2
PPath = Literal["tmem", "smem"]
Mask = Literal["none", "length", "causal"]
Compressed = Literal["none", "blocks", "topk"]
Layout = Literal["bf16", "e4m3", "v4", "v32", "v41", "v41_fp4", "v41_page_scales", "v41_fp4_page_scales"]
#: Layouts of V4.1. Two caches of a call may have any of them.
V41: frozenset[Layout] = frozenset({"v41", "v41_fp4", "v41_page_scales", "v41_fp4_page_scales"})
ROPE_DIMS = (0, 64)


@dataclass(frozen=True)
class CacheKind:
    """A cache of keys in pages, as the kernel is compiled for it.

    layout: bytes of a key, all bf16 or those of kernel.layouts. table: tokens see a window of their sequence, whose
    pages are in a block table; else the keys that their indices list. lens: a number of indices counts for each token
    or sequence; else all.
    Raises ArgumentError for another layout.
    """

    layout: Layout
    table: bool = False
    lens: bool = False

    def __post_init__(self) -> None:
        if self.layout not in get_args(Layout):
            raise ArgumentError("layout", repr(self.layout), f"one of {get_args(Layout)}")

    @property
    def name(self) -> str:
        """Name of the kind in the name of a kernel."""
        return self.layout + "_table" * self.table + "_lens" * self.lens


@dataclass(frozen=True, kw_only=True)
class Features:
    """The facts that are compiled into the kernel.

    head_dim: one of HEAD_DIMS. mask: every key is visible ("none"), those before the sequence's length ("length"), or
    those of a window that ends at the query's own position ("causal"). shared_kv: V is K. partials: U and m are
    written beside O and lse. compressed: further keys, none, all visible blocks of a second tensor ("blocks") or those
    of each token's top-k indices ("topk"); they need shared_kv. sink: a logit of each head joins the denominator of O.
    caches: the keys are in one or two paged caches, and there are no others; they need head_dim 512 and shared_kv.
    maxima: m, the largest logit of a row, is written beside O and lse; it needs caches. rope_dim: columns of Q and K
    behind those of V, which count in the logits alone; they need caches. flat: tensors of the call have no dimension B,
    and the keys of the only cache are a flat tensor; the device code is the same.
    Raises ArgumentError.
    """

    head_dim: int
    mask: Mask = "none"
    shared_kv: bool = False
    partials: bool = True
    compressed: Compressed = "none"
    sink: bool = False
    caches: tuple[CacheKind, ...] = ()
    maxima: bool = False
    rope_dim: int = 0
    flat: bool = False

    def __post_init__(self) -> None:
        if self.head_dim not in HEAD_DIMS:
            raise ArgumentError("head_dim", self.head_dim, f"one of {HEAD_DIMS}")
        if self.mask not in get_args(Mask):
            raise ArgumentError("mask", repr(self.mask), "'none', 'length' or 'causal'")
        if self.compressed not in get_args(Compressed):
            raise ArgumentError("compressed", repr(self.compressed), "'none', 'blocks' or 'topk'")
        if self.compressed != "none" and not self.shared_kv:
            raise ArgumentError("shared_kv", False, "True with compressed keys")
        if self.rope_dim not in ROPE_DIMS:
            raise ArgumentError("rope_dim", self.rope_dim, f"one of {ROPE_DIMS}")
        if self.caches:
            self._check_caches()
        elif self.maxima:
            raise ArgumentError("maxima", True, "False without caches")
        elif self.rope_dim:
            raise ArgumentError("rope_dim", self.rope_dim, "0 without caches")
        if self.flat and (len(self.caches) != 1 or self.caches[0].table):
            raise ArgumentError("flat", True, "False without a single cache with indices")

    def _check_caches(self) -> None:
        alone = (self.head_dim, self.mask, self.shared_kv, self.partials, self.compressed)
        if alone != (512, "none", True, False, "none"):
            allowed = "() unless head_dim is 512, V is K, and there are no masks, partials and compressed keys"
            raise ArgumentError("caches", self.cache_names, allowed)
        if len(self.caches) > 2 or any(each.table for each in self.caches[1:]):
            raise ArgumentError("caches", self.cache_names, "two; the second with indices")
        layouts = {each.layout for each in self.caches}
        if len(layouts) > 1 and not layouts <= V41:
            allowed = "one layout in both, or two of DeepSeek-V4.1, with 528 and 288 bytes a key"
            raise ArgumentError("caches", self.layout_names, allowed)
        either = {"bf16", "v32"} if self.rope_dim else {"bf16", "e4m3", "v4", *V41}
        if not layouts <= either:
            raise ArgumentError(
                "caches", self.layout_names, f"one of {sorted(either)} for q with {self.qk_dim} columns"
            )

    @property
    def qk_dim(self) -> int:
        """Columns of Q and K."""
        return self.head_dim + self.rope_dim

    @property
    def quantised(self) -> bool:
        """True if keys are codes with scales."""
        return any(each.layout != "bf16" for each in self.caches)

    @property
    def one_layout(self) -> bool:
        """True if the keys of all caches have the same layout."""
        return len({each.layout for each in self.caches}) <= 1

    @property
    def cache_names(self) -> str:
        """Names of the kinds of caches, for messages."""
        return ", ".join(each.name for each in self.caches)

    @property
    def layout_names(self) -> str:
        """Layouts of the caches, for messages."""
        return " and ".join(each.layout for each in self.caches)

    @property
    def by_token(self) -> bool:
        """True if each token has keys of its own, so that tokens cannot share a row tile."""
        return self.compressed == "topk" or bool(self.caches)


@dataclass(frozen=True, kw_only=True)
class Problem(Features):
    """An attention problem: the features, the size, and what the caller wants.

    heads, tokens, batch: of the queries. keys: of a sequence's window buffer. compressed_keys: top-k indices of a
    token, in all caches together, or blocks. window: keys that a token sees at most, None if unbounded. page: keys of a
    page, if the only keys are all that a block table's pages hold; else 0. p_path: the memory of P. splits: CTAs over
    which the keys of a row tile are split. "auto": the kernel chooses. sms: the most CTAs unless keys are split, None
    for the chip's.
    """

    heads: int
    keys: int
    tokens: int = 1
    batch: int = 1
    compressed_keys: int = 0
    window: int | None = None
    page: int = 0
    p_path: PPath | Literal["auto"] = "auto"
    splits: int | Literal["auto"] = "auto"
    sms: int | None = None

    @property
    def features(self) -> dict[str, Any]:
        """The features by name."""
        return {name: getattr(self, name) for name in Features.__dataclass_fields__}

    @property
    def rows(self) -> int:
        """Rows of a group: of a sequence, or of a token if tokens have keys of their own."""
        return self.heads if self.by_token else self.tokens * self.heads

    @property
    def groups(self) -> int:
        """Groups of rows that cannot share a row tile."""
        return self.batch * self.tokens if self.by_token else self.batch

    def window_keys(self, tokens: int) -> int:
        """Return the number of keys of the window buffer that some successive tokens see together."""
        return self.keys if self.window is None else min(self.keys, self.window + tokens - 1)


def mask_of(causal: bool, has_lens: bool) -> Mask:
    """Return the mask of a call."""
    if causal:
        return "causal"
    return "length" if has_lens else "none"
