"""The bf16 attention problems that the emulator and its peers are measured on."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Problem:
    """Attention of `rows` query rows to `keys` keys. The scale is 1 / sqrt(head_dim)."""

    rows: int
    keys: int
    head_dim: int

    def __str__(self) -> str:
        return f"hd={self.head_dim}, {self.rows} rows, {self.keys:,} keys"

    @property
    def scale(self) -> float:
        """The factor of the logits."""
        return float(self.head_dim**-0.5)

    @property
    def gflop(self) -> float:
        """GFLOP of both matrix products."""
        return 4e-9 * self.rows * self.keys * self.head_dim

    def inputs(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return q [rows, hd], k and v [keys, hd] in bf16, drawn with a fixed seed."""
        random = torch.Generator().manual_seed(0)
        q, k, v = (
            torch.randn(n, self.head_dim, generator=random).bfloat16() for n in (self.rows, self.keys, self.keys)
        )
        return q, k, v

    def worst_error(self, o: torch.Tensor) -> float:
        """Return the largest absolute difference of an output [rows, hd] from float64 attention."""
        q, k, v = (t.double() for t in self.inputs())
        wanted = (q @ k.T * self.scale).softmax(-1) @ v
        return float((o.double() - wanted).abs().max())
