"""Block-scaled matrix products that torch computes on CUDA alone, in float32 on the CPU."""

from __future__ import annotations

from typing import Any, Final

import torch

_E2M1: Final = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
_ROWS, _COLUMNS = 128, 4


def is_block_scaled(scale: Any) -> bool:
    """Whether a scale argument of torch._scaled_mm holds one factor a block of 16 or 32 elements along k."""
    return isinstance(scale, torch.Tensor) and scale.dtype in (torch.float8_e4m3fn, torch.float8_e8m0fnu)


def scaled_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale_result: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> torch.Tensor:
    """torch._scaled_mm for block scales: (a [m, k] * scale_a) @ (b [k, n] * scale_b) -> [m, n].

    a and b are float8 or packed float4 (two a byte along k). The scales lie in cuBLAS's blocked layout: tiles of
    128 rows by 4 columns, each stored as [32][4][4] with row = 32 * second + first. A float8_e4m3fn factor covers
    16 elements, a float8_e8m0fnu one 32 (cuBLAS documentation, "1D block scaling factors layout").
    """
    left = _scaled(unpack(a), scale_a)
    right = _scaled(unpack(b.t()), scale_b)
    product = left @ right.t()
    if bias is not None:
        product = product + bias.float()
    if scale_result is not None:
        product = product * scale_result.float()
    return product.to(out_dtype or torch.bfloat16)


def unpack(matrix: torch.Tensor) -> torch.Tensor:
    """A [rows, k] matrix of float8, or [rows, k / 2] of packed float4, as float32. The low nibble comes first."""
    if matrix.dtype is not torch.float4_e2m1fn_x2:
        return matrix.float()
    codes = matrix.contiguous().view(torch.uint8)
    nibbles = torch.stack((codes & 15, codes >> 4), dim=-1).flatten(-2)
    magnitude = _E2M1[(nibbles & 7).long()]
    return torch.where(nibbles >= 8, -magnitude, magnitude)


def _scaled(matrix: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    rows, k = matrix.shape
    block = 16 if scale.dtype is torch.float8_e4m3fn else 32
    row_tiles, column_tiles = -(-rows // _ROWS), -(-k // (block * _COLUMNS))
    expected = row_tiles * column_tiles * _ROWS * _COLUMNS
    if scale.numel() != expected:
        raise ValueError(f"scale: expected {expected} factors for [{rows}, {k}], got {scale.numel()}")
    tiles = scale.flatten().float().view(row_tiles, column_tiles, 32, 4, _COLUMNS)
    factors = tiles.permute(0, 3, 2, 1, 4).reshape(row_tiles * _ROWS, column_tiles * _COLUMNS)
    return matrix * factors[:rows, : -(-k // block)].repeat_interleave(block, dim=1)[:, :k]
