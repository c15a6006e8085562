"""The attention problems that all are measured on, bf16."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Problem:
    """Query rows of a head dim over keys; the scale is 1 / sqrt(head_dim)."""

    rows: int
    keys: int
    head_dim: int

    def __str__(self) -> str:
        return f"hd={self.head_dim}, {self.rows} rows, {self.keys:,} keys"

    @property
    def scale(self) -> float:
        """What logits are multiplied by."""
        return float(self.head_dim**-0.5)

    @property
    def gflop(self) -> float:
        """Of both products."""
        return 4e-9 * self.rows * self.keys * self.head_dim

    def inputs(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """q [rows, hd], k and v [keys, hd], bf16, always the same."""
        random = torch.Generator().manual_seed(0)
        q, k, v = (
            torch.randn(n, self.head_dim, generator=random).bfloat16() for n in (self.rows, self.keys, self.keys)
        )
        return q, k, v

    def worst_error(self, o: torch.Tensor) -> float:
        """The largest difference of an output [rows, hd] from float64 attention."""
        q, k, v = (t.double() for t in self.inputs())
        wanted = (q @ k.T * self.scale).softmax(-1) @ v
        return float((o.double() - wanted).abs().max())
