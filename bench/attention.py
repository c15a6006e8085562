"""The attention problem that all are measured on: 256 query rows of hd=128 over 1,024 keys, bf16."""

from __future__ import annotations

from typing import Final

import torch

ROWS: Final = 256
KEYS: Final = 1024
HEAD_DIM: Final = 128
SCALE: Final = HEAD_DIM**-0.5


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q [rows, hd], k and v [keys, hd], bf16, always the same."""
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(n, HEAD_DIM, generator=random).bfloat16() for n in (ROWS, KEYS, KEYS))
    return q, k, v


def worst_error(o: torch.Tensor) -> float:
    """The largest difference of an output [rows, hd] from float64 attention."""
    q, k, v = (t.double() for t in inputs())
    wanted = (q @ k.T * SCALE).softmax(-1) @ v
    return float((o.double() - wanted).abs().max())
