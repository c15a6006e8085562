"""The problems that the milestones test: shape, masks, branches and options of one launch, with a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from kernel.reference import causal_mask, compressed_mask, dense_mask, length_mask
from stages.caches import Served

if TYPE_CHECKING:
    from kernel import Problem
    from kernel.chips import Config

PPath = Literal["tmem", "smem"]
Trend = Literal["growing", "falling", "constant"]

TILE = 128  # keys of the widest KV tile
LEAST_TILE = 32  # no kernel has smaller KV tiles


@dataclass(frozen=True)
class Compressed:
    """Compressed keys in addition to a window: all visible blocks of `ratio` tokens, or `topk` indices per token.

    past: number of tokens of each sequence that precede its window buffer.
    lens: pass a length for each token's indices; without lengths all indices count.
    first_key: let the indices include key 0.
    blocks: rows of the compressed keys; by default three more than the longest sequence fills.
    out_of_range: pass the least int32 for a top-k length of 0, and the greatest for `topk`.
    """

    past: tuple[int, ...]
    ratio: int
    topk: int | None = None
    lens: bool = True
    first_key: bool = True
    blocks: int | None = None
    out_of_range: bool = False

    def __str__(self) -> str:
        parts = {
            f"blocks of {self.ratio}": self.topk is None,
            f"top {self.topk}": self.topk is not None,
            "without lens": not self.lens,
            "without key 0": not self.first_key,
            f"rows={self.blocks}": self.blocks is not None,
            "lens out of range": self.out_of_range,
        }
        return " ".join(part for part, holds in parts.items() if holds)


@dataclass(frozen=True)
class Case:
    """`batch` sequences, each with `tokens` query tokens of `heads` heads and with `keys` keys.

    causal, window, p_path and partials are arguments of kernel.fmha.
    scale: factor of the logits; None means head_dim^-0.5. Q is drawn so that the logits do not depend on it.
    lens: valid keys of each sequence; the keys past them are poisoned.
    shared_kv: V is K.
    trend: how a row's maximum changes from one KV tile to the next.
    compressed: compressed keys beside the window.
    sinks: sink logits, repeated cyclically over the heads.
    merged: launch each branch by itself and combine them with kernel.merge, or with kernel.merge_outputs.
    splits: CTAs that split the keys of a row tile; "auto" lets the kernel choose.
    sms: upper bound on the CTAs of the launch; each then processes several row tiles.
    peak: factor of Q, and so of the logits. From 32 on, few keys of a row have weight, and its maximum changes at most
    KV tiles.
    strided: inputs and outputs are slices of larger tensors.
    layer: call kernel.dsv4.attention instead of kernel.fmha. Not part of the name.
    served: keys are in caches alone: call kernel.serving. `keys` is then 0, and V is K, or its first 512 columns.
    """

    milestone: str
    head_dim: int
    keys: int
    heads: int = 128
    tokens: int = 1
    batch: int = 1
    p_path: PPath | None = None
    shared_kv: bool = False
    partials: bool = True
    trend: Trend | None = None
    lens: tuple[int, ...] | None = None
    causal: bool = False
    window: int | None = None
    compressed: Compressed | None = None
    sinks: tuple[float, ...] | None = None
    merged: bool | Literal["outputs"] = False
    scale: float | None = None
    splits: int | Literal["auto"] = 1
    sms: int | None = None
    peak: int = 1
    strided: bool = False
    layer: bool = False
    served: Served | None = None

    def __post_init__(self) -> None:
        assert self.lens is None or len(self.lens) == self.batch, f"{len(self.lens or ())} lens, batch={self.batch}"

    @property
    def value_dim(self) -> int:
        """Columns of V and O: the first of K's."""
        return min(self.head_dim, 512)

    @property
    def name(self) -> str:
        """Name of the case in the pins and in reports."""
        parts = {
            f"hd={self.head_dim}": True,
            f"n={self.keys}": self.served is None,
            f"B={self.batch}": self.batch > 1,
            f"T={self.tokens}": self.tokens > 1,
            f"H={self.heads}": self.heads != TILE,
            f"scale={self.scale}": self.scale is not None,
            f"P in {self.p_path}": self.p_path is not None,
            "V=K": self.shared_kv and self.served is None,
            "O and lse": not self.partials and self.served is None,
            str(self.served): self.served is not None,
            str(self.trend): self.trend is not None,
            f"lens={','.join(map(str, self.lens or ()))}": self.lens is not None,
            f"W={self.window or 'none'}": self.causal,
            str(self.compressed): self.compressed is not None,
            "sink": self.sinks is not None,
            "merged": self.merged is True,
            f"merged {self.merged}": self.merged == "outputs",
            f"splits={self.splits}": self.splits != 1,
            f"sms={self.sms}": self.sms is not None,
            f"peak={self.peak}": self.peak > 1,
            "strided": self.strided,
        }
        return " ".join(part for part, holds in parts.items() if holds)

    def __str__(self) -> str:
        return self.name

    @property
    def problem(self) -> Problem:
        """Problem that the kernel is launched for; with `merged`, that of the compressed branch."""
        from kernel import Problem
        from kernel.problem import mask_of

        branch = self.compressed
        if self.served is not None:
            return self._served_problem(self.served)
        return Problem(
            head_dim=self.head_dim,
            heads=self.heads,
            tokens=self.tokens,
            batch=self.batch,
            keys=self.keys,
            mask=mask_of(self.causal, self.lens is not None),
            window=self.window,
            shared_kv=self.shared_kv,
            compressed="none" if branch is None else "blocks" if branch.topk is None else "topk",
            compressed_keys=0 if branch is None else branch.topk or self.blocks,
            sink=self.sinks is not None and not self.merged,
            partials=self.writes_partials,
            p_path=self.p_path or "auto",
            splits=self.splits,
            sms=self.sms,
        )

    def _served_problem(self, served: Served) -> Problem:
        from kernel import Problem
        from kernel.problem import CacheKind

        kinds = (CacheKind(each.layout, each.window is not None, each.lens is not None) for each in served.caches)
        return Problem(
            head_dim=self.value_dim,
            rope_dim=self.head_dim - self.value_dim,
            heads=self.heads,
            tokens=self.tokens,
            batch=self.batch,
            keys=0,
            shared_kv=True,
            partials=False,
            caches=tuple(kinds),
            compressed_keys=sum(each.listed for each in served.caches),
            page=served.whole_page,
            sink=self.sinks is not None,
            maxima=served.maxima,
            splits=self.splits,
            flat=served.flat,
        )

    @property
    def config(self) -> Config:
        """Configuration that the kernel is compiled for; with `merged`, that of the compressed branch."""
        from kernel.chips import configuration  # not at the top: a judge has no code of the kernel's

        return configuration(self.problem)

    @property
    def writes_partials(self) -> bool:
        """True if the launches write U and m."""
        return self.partials or bool(self.merged)

    @property
    def by_token(self) -> bool:
        """True if each token has keys of its own, so that tokens cannot share a row tile."""
        return self.served is not None or (self.compressed is not None and self.compressed.topk is not None)

    @property
    def kv_tile(self) -> int:
        """Keys of a KV tile of the kernel for sm_100a, for which trends and wrong outputs are made on every chip."""
        return TILE if self.head_dim < 256 or self.pairs else TILE // 2

    @property
    def pairs(self) -> bool:
        """True if rows fill row tiles of CTA pairs on sm_100a: if there are more than one CTA has, or heads fill two.

        With rotary columns of K's own, a pair has no shared memory for those.
        """
        rows = self.heads if self.by_token else self.tokens * self.heads
        fill = rows > TILE if self.head_dim == 256 else self.heads % TILE == 0 and self.head_dim == 512
        return fill and self.splits == 1

    @property
    def exact_maxima(self) -> bool:
        """True if m is the largest logit itself; else it may be the reference maximum, which lags behind it."""
        return self.served is not None or (self.keys <= self.kv_tile and self.compressed is None)

    @property
    def one_tile(self) -> bool:
        """True if all keys of a row lie in the first KV tile of any kernel, so that its maximum does not move."""
        if self.served is not None:
            return len(self.served.caches) == 1 and self.served.caches[0].listed <= LEAST_TILE
        return self.keys <= LEAST_TILE and self.compressed is None

    @property
    def tensors(self) -> tuple[str, ...]:
        """Results of the launch, by name."""
        if self.served is not None and self.served.maxima:
            return "O", "lse", "m"
        return ("O", "U", "lse", "m") if self.partials else ("O", "lse")

    @property
    def visible(self) -> torch.Tensor:
        """Mask of the keys that a token sees, bool [batch, tokens, keys]. `lens` are clamped to 0 to `keys`."""
        lens = torch.tensor(self.lens or (self.keys,) * self.batch).clamp(0, self.keys)
        if self.causal:
            return causal_mask(self.tokens, self.keys, lens, self.window)
        if self.lens is not None:
            return length_mask(self.tokens, self.keys, lens)
        return dense_mask(self.batch, self.tokens, self.keys)

    @property
    def sink(self) -> torch.Tensor | None:
        """Sink logits of all heads, fp32 [heads]."""
        return None if self.sinks is None else torch.tensor(self.sinks).repeat(self.heads)[: self.heads].clone()

    @property
    def seq_lens(self) -> torch.Tensor:
        """Tokens of each sequence including its newest, int32 [batch]."""
        return torch.tensor(self._lengths).int()

    @property
    def _lengths(self) -> list[int]:
        """`seq_lens` as numbers: a call that is recorded may compute with them, but not with tensors."""
        assert self.compressed is not None, "only cases with compressed keys have seq_lens"
        lens = self.lens or (self.keys,) * self.batch
        return [past + valid for past, valid in zip(self.compressed.past, lens, strict=True)]

    @property
    def visible_blocks(self) -> torch.Tensor:
        """Mask of the compressed blocks that a token sees without top-k indices, bool [batch, tokens, blocks]."""
        assert self.compressed is not None
        position = self.seq_lens[:, None] - self.tokens + torch.arange(self.tokens)
        return compressed_mask(position, self.blocks, self.compressed.ratio)

    @property
    def blocks(self) -> int:
        """Rows of the compressed keys: as given, or three more than the longest sequence fills."""
        assert self.compressed is not None
        if self.compressed.blocks is not None:
            return self.compressed.blocks
        return max(self._lengths) // self.compressed.ratio + 3
