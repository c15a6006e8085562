"""The kernel's compressed inputs and its results, as torch tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernel.problem import Compressed


@dataclass(frozen=True)
class Attention:
    """The results of the kernel, with the symbols of docs/explanation/attention.md.

    o: [B, T, H, D] bf16, normalized. lse: [B, T, H] fp32, natural logarithm.
    u: [B, T, H, D] fp32, not normalized, and m: [B, T, H] fp32, the maximum that u refers to, in the units of the
    scaled logits; O = U exp(m - lse). Both are None with partials=False.
    """

    o: torch.Tensor
    lse: torch.Tensor
    u: torch.Tensor | None = None
    m: torch.Tensor | None = None

    @property
    def tensors(self) -> tuple[torch.Tensor | None, ...]:
        """All results, in the order of the fields."""
        return self.o, self.lse, self.u, self.m


@dataclass(frozen=True)
class AllBlocks:
    """Compressed keys of which a query sees every block that ends at or before it (HCA).

    kv: [B, S_c, D] bf16, where block j compresses tokens j * ratio to (j + 1) * ratio - 1. seq_lens: [B] int32, tokens
    of each sequence up to its last query, so that query t is token p = seq_lens[b] - T + t and sees
    j < (p + 1) // ratio. Blocks that the last query does not see may hold anything, NaN included.
    """

    kv: torch.Tensor
    seq_lens: torch.Tensor
    ratio: int

    @property
    def tensors(self) -> tuple[torch.Tensor | None, ...]:
        """The tensors among the fields, three."""
        return self.kv, self.seq_lens, None

    @property
    def options(self) -> tuple[object, ...]:
        """The part of a plan's key that is no tensor."""
        return "blocks", self.ratio, type(self.ratio)

    def of(self, kv: torch.Tensor, seq_lens: torch.Tensor, _lens: None) -> AllBlocks:
        """Return the same with other tensors."""
        return AllBlocks(kv, seq_lens, self.ratio)

    @property
    def kind(self) -> Compressed:
        """Name of the kind in a configuration."""
        return "blocks"

    @property
    def keys_per_token(self) -> int:
        """Keys that a token sees at most."""
        return self.kv.shape[1]


@dataclass(frozen=True)
class TopkBlocks:
    """Compressed keys of which each token sees those of its top-k indices (CSA).

    kv: [B, S_c, D] bf16. indices: [B, T, K] int32, rows of kv[b] in any order; an index that occurs twice counts twice,
    and one outside 0 to S_c - 1 names no key and reads nothing. lens: [B, T] int32, how many indices of each token
    count; None: all K.
    """

    kv: torch.Tensor
    indices: torch.Tensor
    lens: torch.Tensor | None = None

    @property
    def tensors(self) -> tuple[torch.Tensor | None, ...]:
        """The tensors among the fields, three."""
        return self.kv, self.indices, self.lens

    @property
    def options(self) -> tuple[object, ...]:
        """The part of a plan's key that is no tensor."""
        return ("topk",)

    def of(self, kv: torch.Tensor, indices: torch.Tensor, lens: torch.Tensor | None) -> TopkBlocks:
        """Return the same with other tensors."""
        return TopkBlocks(kv, indices, lens)

    @property
    def kind(self) -> Compressed:
        """Name of the kind in a configuration."""
        return "topk"

    @property
    def keys_per_token(self) -> int:
        """Keys that a token sees at most."""
        return self.indices.shape[2]
