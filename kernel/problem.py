"""The facts of an attention problem that decide which configuration of the kernel computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from kernel.errors import ArgumentError
from kernel.variants import HEAD_DIMS

PPath = Literal["tmem", "smem"]
Mask = Literal["none", "length", "causal"]
Compressed = Literal["none", "blocks", "topk"]


@dataclass(frozen=True, kw_only=True)
class Features:
    """The facts that are compiled into the kernel.

    head_dim: one of HEAD_DIMS. mask: every key is visible ("none"), those before the sequence's length ("length"), or
    those of a window that ends at the query's own position ("causal"). shared_kv: V is K. partials: U and m are
    written beside O and lse. compressed: further keys, none, all visible blocks of a second tensor ("blocks") or those
    of each token's top-k indices ("topk"); they need shared_kv. sink: a logit of each head joins the denominator of O.
    Raises ArgumentError.
    """

    head_dim: int
    mask: Mask = "none"
    shared_kv: bool = False
    partials: bool = True
    compressed: Compressed = "none"
    sink: bool = False

    def __post_init__(self) -> None:
        if self.head_dim not in HEAD_DIMS:
            raise ArgumentError("head_dim", self.head_dim, f"one of {HEAD_DIMS}")
        if self.mask not in get_args(Mask):
            raise ArgumentError("mask", repr(self.mask), "'none', 'length' or 'causal'")
        if self.compressed not in get_args(Compressed):
            raise ArgumentError("compressed", repr(self.compressed), "'none', 'blocks' or 'topk'")
        if self.compressed != "none" and not self.shared_kv:
            raise ArgumentError("shared_kv", False, "True with compressed keys")


@dataclass(frozen=True, kw_only=True)
class Problem(Features):
    """An attention problem: the features, the size, and what the caller wants.

    heads, tokens, batch: of the queries. keys: of a sequence's window buffer. compressed_keys: top-k indices of a
    token, or blocks. window: keys that a token sees at most, None if unbounded. p_path: the memory of P. splits: CTAs
    over which the keys of a row tile are split. "auto": the kernel chooses.
    """

    heads: int
    keys: int
    tokens: int = 1
    batch: int = 1
    compressed_keys: int = 0
    window: int | None = None
    p_path: PPath | Literal["auto"] = "auto"
    splits: int | Literal["auto"] = "auto"

    @property
    def features(self) -> dict[str, Any]:
        """The features by name."""
        return {name: getattr(self, name) for name in Features.__dataclass_fields__}

    @property
    def rows(self) -> int:
        """Rows of a group: of a sequence, or of a token if tokens have top-k indices."""
        return self.heads if self.compressed == "topk" else self.tokens * self.heads

    @property
    def groups(self) -> int:
        """Groups of rows that cannot share a row tile."""
        return self.batch * self.tokens if self.compressed == "topk" else self.batch

    def window_keys(self, tokens: int) -> int:
        """Return how many keys of the window buffer so many successive tokens see together."""
        return self.keys if self.window is None else min(self.keys, self.window + tokens - 1)


def mask_of(causal: bool, has_lens: bool) -> Mask:
    """Return the mask of a call."""
    if causal:
        return "causal"
    return "length" if has_lens else "none"
