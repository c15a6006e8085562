"""Block-scaled products on the CPU against an element-by-element reference."""

import pytest
import torch

from emulator import NotEmulated
from emulator.host.session import emulated_host

E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def blocked_index(row, column, column_tiles):
    """Return the index of the factor of (row, column) in cuBLAS's blocked layout."""
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


def test_groups_of_rows_are_products_of_their_own():
    m, n, k, ends = 200, 24, 96, [70, 70, 190]
    torch.manual_seed(1)
    a, b = torch.randn(m, k).to(torch.float8_e4m3fn), torch.randn(3, n, k).to(torch.float8_e4m3fn)

    def factors(rows):
        return (2.0 ** torch.randint(-2, 3, (-(-rows // 128) * 512,))).to(torch.float8_e8m0fnu)

    scale_a, scale_b = [factors(70), factors(0), factors(120)], torch.stack([factors(n) for _ in range(3)])
    single = torch.nn.functional.ScalingType.BlockWise1x32
    swizzle = torch.nn.functional.SwizzleType.SWIZZLE_32_4_4
    with emulated_host():
        grouped = torch.nn.functional.scaled_grouped_mm(  # type: ignore[attr-defined]
            a.cuda(),
            b.cuda().transpose(1, 2),
            torch.cat(scale_a).cuda(),
            single,
            scale_b.cuda(),
            single,
            swizzle_a=swizzle,
            swizzle_b=swizzle,
            offs=torch.tensor(ends, dtype=torch.int32, device="cuda"),
            output_dtype=torch.float32,
        )
        for group, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
            if start < end:
                alone = torch._scaled_mm(
                    a[start:end].cuda(),
                    b[group].cuda().t(),
                    scale_a[group].cuda(),
                    scale_b[group].cuda(),
                    out_dtype=torch.float32,
                )
                torch.testing.assert_close(grouped[start:end], alone, rtol=0, atol=0)
        assert not grouped[ends[-1] :].any()


def test_other_groupings_are_refused():
    with emulated_host():
        a, scale = torch.zeros(16, 64, device="cuda").to(torch.float8_e4m3fn), torch.ones(512, device="cuda")
        with pytest.raises(NotEmulated, match="one level of block scales"):
            torch._scaled_grouped_mm_v2(a, a.t(), [scale], [3], [1], [scale], [3], [1])
