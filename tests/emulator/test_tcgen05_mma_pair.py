"""2-CTA tcgen05.mma and tcgen05.cp: each CTA provides half of A and half of B and receives half of D."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_program import BASE, WINDOW, after
from test_tcgen05_mma import operand
from test_tcgen05_mma_block_scaled import scale_values, spread
from test_tcgen05_mma_forms import (
    A_COLUMN,
    B_AT,
    RNG,
    descriptor,
    initial,
    issue,
    numbers,
    packed,
    put,
    result_type,
    setup,
)

from emulator import errors
from emulator.machine.formats.descriptors import E2M1, E4M3
from emulator.machine.formats.numbers import table

MODES = ("eager", "lazy", "random")


def laid_out(product: np.ndarray) -> np.ndarray:
    """Return [M, N] as the two CTAs' cells [2, columns, 128 lanes]: layouts A (M=256) and B (M=128)."""
    m, n = product.shape
    halves = product.reshape(2, m // 2, n)
    if m == 128:
        halves = np.concatenate([halves[..., : n // 2], halves[..., n // 2 :]], 1)
    return halves.transpose(0, 2, 1)


@pytest.mark.parametrize("a_in_tmem", [False, True], ids=["shared", "tensor"])
@pytest.mark.parametrize(("m", "n"), [(256, 32), (256, 96), (128, 32), (128, 128)])
@pytest.mark.parametrize("kind", ["bf16", "tf32", "e4m3", "s8"])
def test_a_pair(kind: str, m: int, n: int, a_in_tmem: bool) -> None:
    a, b, rows = numbers(m, kind), numbers(n, kind), m // 2
    image, state = np.zeros((2, WINDOW), np.uint8), initial(2, result_type(kind))
    a_at: int | str = 0
    for cta in range(2):
        mine = a[cta * rows :][:rows]
        a_at = put(image[cta], operand(kind, rows, False, "128B", 0), mine, kind)
        b_at = put(image[cta], operand(kind, n // 2, False, "64B", B_AT), b[cta * n // 2 :][: n // 2], kind)
        if a_in_tmem:
            words = np.tile(packed(mine, kind), 128 // rows)
            state.view(np.uint32)[cta, A_COLUMN : A_COLUMN + len(words)] = words
    new = laid_out(a @ b.T)
    expected = state.copy()
    expected[:, : new.shape[1]] += new.astype(state.dtype)
    act = issue(kind, 0, f"{A_COLUMN:#x}" if a_in_tmem else a_at, b_at, descriptor(kind, m, n), "cta_group::2")
    np.testing.assert_array_equal(after(act, image, state), expected)


@pytest.mark.parametrize("numerics", ["fp32", "tc"])
def test_each_half_of_the_lanes_multiplies_its_own_a(numerics: str) -> None:
    """Layout B with two different As, as in cuDNN's implicit dual GEMM."""
    m, n, rows = 128, 64, 64
    a, b = [numbers(m, "bf16") for _ in range(2)], numbers(n, "bf16")
    image, state = np.zeros((2, WINDOW), np.uint8), initial(2)
    for cta in range(2):
        b_at = put(image[cta], operand("bf16", n // 2, False, "64B", B_AT), b[cta * n // 2 :][: n // 2], "bf16")
        words = np.concatenate([packed(half[cta * rows :][:rows], "bf16") for half in a], 1)
        state.view(np.uint32)[cta, A_COLUMN : A_COLUMN + len(words)] = words
    new = laid_out(np.concatenate([a[0] @ b[: n // 2].T, a[1] @ b[n // 2 :].T], 1))
    expected = state.copy()
    expected[:, : new.shape[1]] += new.astype(state.dtype)
    act = issue("bf16", 0, f"{A_COLUMN:#x}", b_at, descriptor("bf16", m, n), "cta_group::2")
    np.testing.assert_array_equal(after(act, image, state, numerics=numerics), expected)


SFA, SFB = 112, 120
SCALED = {
    # kind: (modifiers, K, elements per factor, scale type, element, its code)
    "mxf8f6f4": ("mxf8f6f4.block_scale", 32, 32, "ue8m0", E4M3, 0),
    "mxf4nvf4": ("mxf4nvf4.block_scale.block16", 64, 16, "ue4m3", E2M1, 1),
}


def quarters(factors: np.ndarray, columns: int, copies: list[int]) -> np.ndarray:
    """Return factors [rows, count] as cells [columns, 128]: row r in lane r % 32 of column r // 32, by quarter."""
    cells = np.full((columns, 128, 4), 0x55, np.uint8)
    for row, codes in enumerate(factors):
        for quarter in copies:
            cells[row // 32, 32 * quarter + row % 32, : len(codes)] = codes
    return cells.view(np.uint32)[..., 0]


@pytest.mark.parametrize("m", [256, 128])
@pytest.mark.parametrize("kind", SCALED)
def test_a_pair_with_scale_factors(kind: str, m: int) -> None:
    """Each CTA has the factors of its rows of A and those of all N; in layout B each half of the lanes has a half."""
    name, k, block, scale, element, code = SCALED[kind]
    n, rows = 64, m // 2
    image, state, dense, factors = np.zeros((2, WINDOW), np.uint8), initial(2), [], []
    for count in (m, n):
        codes = RNG.integers(0, 16 if element is E2M1 else 64, (count, k), np.uint8)
        factors.append(RNG.integers(40, 50, (count, k // block), np.uint8) + np.uint8(80 * (scale == "ue8m0")))
        dense.append((codes, table(element)[codes] * np.repeat(scale_values(factors[-1], scale), block, 1)))
    for cta in range(2):
        at = []
        for (codes, _), count, start in zip(dense, (rows, n // 2), (0, B_AT), strict=True):
            where = operand("e4m3", count, False, "32B", start)
            image[cta][where.byte()] = spread(codes[cta * count :][:count], element, k == 64)
            at.append(where.descriptor + (BASE >> 4))
        cells = state.view(np.uint32)[cta]
        cells[SFA : SFA + 4] = quarters(factors[0][cta * rows :][:rows], 4, [0, 1, 2, 3])
        if m == 256:
            cells[SFB : SFB + 2] = quarters(factors[1], 2, [0, 1, 2, 3])
        else:
            low, high = (quarters(half, 2, where) for half, where in
                         ((factors[1][: n // 2], [0, 1]), (factors[1][n // 2 :], [2, 3])))  # fmt: skip
            cells[SFB : SFB + 2] = np.where(np.arange(128) < 64, low, high)
    idesc = code << 7 | code << 10 | n >> 3 << 17 | (scale == "ue8m0") << 23 | m >> 4 << 24
    words = setup(("%r20", 0), ("%r23", SFA), ("%r24", SFB), ("%r22", idesc), ("%rd10", at[0]), ("%rd11", at[1]))
    act = f"@%p1 tcgen05.mma.cta_group::2.kind::{name} [%r20], %rd10, %rd11, %r22, [%r23], [%r24], %p6;"
    wanted = laid_out(dense[0][1] @ dense[1][1].T)
    got = after(words + act, image, state)[:, : wanted.shape[1]]
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("completion", MODES)
def test_copies_of_a_pair_take_each_ctas_own_rows(completion: str) -> None:
    image, state = RNG.integers(0, 256, (2, WINDOW), np.uint8), initial(2)
    expected = state.copy()
    rows = np.arange(128)
    for cta in range(2):
        chunks = image[cta][(rows % 8 * 16 + rows // 8 * 128)[:, None] + np.arange(16)]
        expected.view(np.uint32)[cta, 8:12] = np.ascontiguousarray(chunks).view(np.uint32).T
    source = BASE >> 4 | 128 >> 4 << 32 | 1 << 46
    act = setup(("%r20", 8), ("%rd12", source)) + "@%p1 tcgen05.cp.cta_group::2.128x128b [%r20], %rd12;"
    got = after(act, image, state, completion=completion)
    np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize(("m", "n", "says"), [(64, 32, "M 128, 256"), (256, 24, "in steps of 16")])
def test_shapes_that_a_pair_does_not_have(m: int, n: int, says: str) -> None:
    act = issue("bf16", 0, 64 | 1 << 46, 64 | 1 << 46, descriptor("bf16", m, n), "cta_group::2")
    with pytest.raises(errors.DescriptorError, match=says):
        after(act, np.zeros((2, WINDOW), np.uint8), initial(2))


@pytest.mark.parametrize(
    "act",
    [
        issue("bf16", 0, 64 | 1 << 46, 64 | 1 << 46, descriptor("bf16", 256, 32), "cta_group::2"),
        setup(("%r20", 8), ("%rd12", 64 | 1 << 46)) + "@%p1 tcgen05.cp.cta_group::2.128x128b [%r20], %rd12;",
        setup(("%r20", 0)) + "@%p1 tcgen05.shift.cta_group::2.down [%r20];",
    ],
    ids=["mma", "cp", "shift"],
)
def test_a_pair_needs_two_ctas(act: str) -> None:
    with pytest.raises(errors.DescriptorError, match=r"CTA \(0,0,0\), which has no peer in its cluster of 1"):
        after(act, np.zeros((1, WINDOW), np.uint8), initial(1))
