"""What the kernel takes and gives, in torch tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernel.config import Compressed


@dataclass(frozen=True)
class Attention:
    """What the kernel computes (symbols of docs/explanation/attention.md).

    o: [B, T, H, D] bf16, normalised. lse: [B, T, H] fp32, natural logarithm.
    u: [B, T, H, D] fp32, not normalised, and m: [B, T, H] fp32, the maximum it refers to, in the units of the
    scaled logits; O = U exp(m - lse). Both None where partials were not asked for.
    """

    o: torch.Tensor
    lse: torch.Tensor
    u: torch.Tensor | None = None
    m: torch.Tensor | None = None


@dataclass(frozen=True)
class AllBlocks:
    """Compressed keys of which a query sees every block that ends at or before it (HCA).

    kv: [B, S_c, D] bf16, block j for tokens j * ratio to (j + 1) * ratio - 1. seq_lens: [B] int32, tokens of each
    sequence up to its last query's, so that query t is token p = seq_lens[b] - T + t and sees j < (p + 1) // ratio.
    Blocks that the last query does not see are never read as numbers.
    """

    kv: torch.Tensor
    seq_lens: torch.Tensor
    ratio: int

    @property
    def kind(self) -> Compressed:
        return "blocks"


@dataclass(frozen=True)
class TopkBlocks:
    """Compressed keys of which each query token lists some, in any order, one listed twice counting twice (CSA).

    kv: [B, S_c, D] bf16. indices: [B, T, K] int32, rows of kv[b]; an entry outside 0 to S_c - 1 is no key and reads
    nothing. lens: [B, T] int32, how many entries of each list count (all K where None).
    """

    kv: torch.Tensor
    indices: torch.Tensor
    lens: torch.Tensor | None = None

    @property
    def kind(self) -> Compressed:
        return "topk"
