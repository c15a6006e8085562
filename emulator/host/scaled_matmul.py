"""Block-scaled matrix products that torch has only for CUDA, computed in float32 on the CPU."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import torch

from .errors import not_emulated

_E2M1: Final = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
_ROWS, _COLUMNS = 128, 4


def is_block_scaled(scale: Any) -> bool:
    """Return True if a scale argument of torch._scaled_mm has one factor per block of 16 or 32 elements along k."""
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
    """Compute torch._scaled_mm with block scales: (a [m, k] * scale_a) @ (b [k, n] * scale_b) -> [m, n].

    a and b are float8 or packed float4 (two per byte along k). The scales have cuBLAS's blocked layout: tiles of
    128 rows by 4 columns, each stored as [32][4][4] with row = 32 * second + first. A float8_e4m3fn factor covers
    16 elements, a float8_e8m0fnu factor 32 (cuBLAS documentation, "1D block scaling factors layout").
    """
    left = _scaled(unpack(a), scale_a)
    right = _scaled(unpack(b.t()), scale_b)
    product = left @ right.t()
    if bias is not None:
        product = product + bias.float()
    if scale_result is not None:
        product = product * scale_result.float()
    return product.to(out_dtype or torch.bfloat16)


def scaled_grouped_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: list[torch.Tensor],
    recipe_a: list[int],
    swizzle_a: list[int],
    scale_b: list[torch.Tensor],
    recipe_b: list[int],
    swizzle_b: list[int],
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    contraction_dim: tuple[int, ...] = (),
    use_fast_accum: bool = False,
) -> torch.Tensor:
    """torch._scaled_grouped_mm_v2 for rows in groups: a [m, k], b [groups, k, n] -> [m, n].

    Group g is the rows from offs[g - 1] to offs[g]. One level of block scales, in the blocked layout of
    `scaled_mm`: those of a group's rows start at a tile of their own, those of b are [groups, factors]. Raises
    NotEmulated for other scales and shapes.
    """
    single = len(scale_a) == len(scale_b) == 1 and is_block_scaled(scale_a[0]) and is_block_scaled(scale_b[0])
    if offs is None or bias is not None or a.dim() != 2 or b.dim() != 3 or not single:
        raise not_emulated(
            "torch's _scaled_grouped_mm_v2", "only [m, k] x [groups, k, n] with one level of block scales is done"
        )
    factors_a, factors_b = scale_a[0].flatten(), scale_b[0].reshape(b.shape[0], -1)
    ends = [0, *offs.tolist()]
    parts, used = [], 0
    for group, (start, end) in enumerate(pairwise(ends)):
        right = _scaled(unpack(b[group].t()), factors_b[group])
        count = _factors(end - start, right.shape[1], scale_a[0].dtype)
        left = _scaled(unpack(a[start:end]), factors_a[used : used + count])
        used += count
        parts.append(left @ right.t())
    rest = torch.zeros(a.shape[0] - ends[-1], b.shape[2])
    return torch.cat([*parts, rest]).to(out_dtype or torch.bfloat16)


def unpack(matrix: torch.Tensor) -> torch.Tensor:
    """Convert a [rows, k] float8 or [rows, k / 2] packed float4 matrix to float32. The low nibble comes first."""
    if matrix.dtype is not torch.float4_e2m1fn_x2:
        return matrix.float()
    codes = matrix.contiguous().view(torch.uint8)
    nibbles = torch.stack((codes & 15, codes >> 4), dim=-1).flatten(-2)
    magnitude = _E2M1[(nibbles & 7).long()]
    return torch.where(nibbles >= 8, -magnitude, magnitude)


def _scaled(matrix: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    rows, k = matrix.shape
    expected = _factors(rows, k, scale.dtype)
    if scale.numel() != expected:
        raise ValueError(f"scale: expected {expected} factors for [{rows}, {k}], got {scale.numel()}")
    block = _block(scale.dtype)
    row_tiles, column_tiles = -(-rows // _ROWS), -(-k // (block * _COLUMNS))
    tiles = scale.flatten().float().view(row_tiles, column_tiles, 32, 4, _COLUMNS)
    factors = tiles.permute(0, 3, 2, 1, 4).reshape(row_tiles * _ROWS, column_tiles * _COLUMNS)
    return matrix * factors[:rows, : -(-k // block)].repeat_interleave(block, dim=1)[:, :k]


def _factors(rows: int, k: int, dtype: torch.dtype) -> int:
    """Return how many factors the tiles of a [rows, k] matrix contain, padding included."""
    return -(-rows // _ROWS) * -(-k // (_block(dtype) * _COLUMNS)) * _ROWS * _COLUMNS


def _block(dtype: torch.dtype) -> int:
    """Return how many elements along k one factor covers."""
    return 16 if dtype is torch.float8_e4m3fn else 32
