"""Block-scaled products on the CPU against a statement of them element by element."""

import pytest
import torch

from emulator.host.session import emulated_host

E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def blocked_index(row, column, column_tiles):
    """Where cuBLAS's blocked layout keeps the factor of (row, column)."""
    tile = (row // 128) * column_tiles + column // 4
    return tile * 512 + (row % 32) * 16 + (row % 128 // 32) * 4 + column % 4


@pytest.mark.parametrize(("scale_dtype", "block"), [(torch.float8_e4m3fn, 16), (torch.float8_e8m0fnu, 32)])
@pytest.mark.parametrize(("m", "n", "k"), [(128, 128, 128), (256, 16, 64)])
def test_packed_float4(m, n, k, scale_dtype, block):
    torch.manual_seed(0)
    codes = [torch.randint(0, 256, (rows, k // 2), dtype=torch.uint8) for rows in (m, n)]
    column_tiles = -(-k // (4 * block))
    scales = []
    for rows in (m, n):
        count = -(-rows // 128) * column_tiles * 512
        scales.append((2.0 ** torch.randint(-2, 3, (count,))).to(scale_dtype))

    def value(side, row, column):
        nibble = int(codes[side][row, column // 2]) >> 4 * (column % 2) & 15
        factor = scales[side][blocked_index(row, column // block, column_tiles)].float()
        return (-1 if nibble & 8 else 1) * E2M1[nibble & 7] * float(factor)

    with emulated_host():
        a, b = (code.view(torch.float4_e2m1fn_x2).cuda() for code in codes)
        result = torch._scaled_mm(a, b.t(), scales[0].cuda(), scales[1].cuda(), out_dtype=torch.float32)
        assert result.is_cuda
        result = result.cpu()
    for row, column in [(0, 0), (m - 1, n - 1), (77, 5), (m // 2 + 1, n // 2 + 3)]:
        expected = sum(value(0, row, i) * value(1, column, i) for i in range(k))
        assert result[row, column].item() == pytest.approx(expected, rel=1e-6)


def test_wrong_number_of_factors_is_named():
    with emulated_host():
        a = torch.zeros(128, 64, dtype=torch.uint8, device="cuda").view(torch.float4_e2m1fn_x2)
        scale = torch.zeros(100, device="cuda").to(torch.float8_e4m3fn)
        with pytest.raises(ValueError, match=r"expected 1024 factors for \[128, 128\], got 100"):
            torch._scaled_mm(a, a.t(), scale, scale)
