"""numerics="tc" against an exact reference in Python's integers, term by term."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from ptx_launch import launch

from emulator.machine.formats.descriptors import BF16, E4M3, E5M2, F16, TF32, ElementType
from emulator.machine.formats.truncation import truncated_sum
from tests.emulator.twins import core_matrices

STEP = {BF16: 16, F16: 16, TF32: 8, E4M3: 32, E5M2: 32}
MANTISSA = {BF16: 7, F16: 10, TF32: 10, E4M3: 3, E5M2: 2}
EXPONENTS = {BF16: (-126, 127), F16: (-14, 15), TF32: (-126, 127), E4M3: (-6, 8), E5M2: (-14, 15)}
RNG = np.random.default_rng(5)


def draw(kind: ElementType, shape: tuple[int, ...], spread: int) -> np.ndarray:
    """Draw values of a type whose exponents differ by up to `spread`, with zeros and subnormals."""
    low, high = EXPONENTS[kind]
    exponents = RNG.integers(max(low - MANTISSA[kind], -spread), min(high, spread), shape)
    exact = np.ldexp(1 + RNG.integers(0, 1 << MANTISSA[kind], shape) / (1 << MANTISSA[kind]), exponents)
    unit = np.ldexp(1.0, np.maximum(exponents, low) - MANTISSA[kind])
    signs = RNG.choice([-1.0, 1.0, 0.0], shape, p=[0.45, 0.45, 0.1])
    return (np.trunc(exact / unit) * unit * signs).astype(np.float32)


def exponent(value: Fraction, lowest: int) -> int:
    """Return the exponent of a value, at least `lowest`."""
    at = lowest
    while abs(value) >= Fraction(2) ** (at + 1):
        at += 1
    return at


def toward_zero(value: Fraction, unit: Fraction) -> Fraction:
    return unit * (abs(value) // unit) * (1 if value >= 0 else -1)


def stated(b: np.ndarray, a: np.ndarray, kind: ElementType, c: float) -> float:
    """Compute C + b . a: each step truncates its terms 25 bits below the largest exponent, their sum to 24 bits."""
    total, lowest = Fraction(float(c)), EXPONENTS[kind][0]
    for first in range(0, len(b), STEP[kind]):
        pairs = [(Fraction(float(x)), Fraction(float(y))) for x, y in zip(b, a, strict=True)][first:][: STEP[kind]]
        terms = [(x * y, exponent(x, lowest) + exponent(y, lowest)) for x, y in pairs if x * y]
        terms.append((total, exponent(total, -126)))
        unit = Fraction(2) ** (max(-126, *(e for _, e in terms)) - 25)
        exact = sum((toward_zero(value, unit) for value, _ in terms), Fraction(0))
        total = toward_zero(exact, Fraction(2) ** (exponent(exact, -126) - 23))
    return float(total)


@pytest.mark.parametrize("spread", [2, 12, 40])
@pytest.mark.parametrize("kind", STEP, ids=lambda k: k.name)
def test_every_bit_is_that_of_the_statement(kind: ElementType, spread: int) -> None:
    n, m, steps = 3, 4, 3
    b, a = draw(kind, (n, steps * STEP[kind]), spread), draw(kind, (steps * STEP[kind], m), spread)
    c = np.ldexp(RNG.standard_normal((n, m)), RNG.integers(-spread, spread, (n, m))).astype(np.float32)
    got = truncated_sum(b, a, (kind, kind), c, STEP[kind], False)
    expected = [[stated(b[i], a[:, j], kind, c[i, j]) for j in range(m)] for i in range(n)]
    np.testing.assert_array_equal(got, np.array(expected, np.float32))


def test_what_lies_below_25_bits_is_lost_one_term_at_a_time() -> None:
    b = np.ones((1, 16), np.float32)
    a = np.full((16, 1), 2.0**-26, np.float32)
    a[0] = 1
    assert truncated_sum(b, a, (BF16, BF16), None, 16, False).item() == 1
    a[1:] = 2.0**-25  # fifteen of them, of which twelve remain when the sum is truncated
    assert truncated_sum(b, a, (BF16, BF16), None, 16, False).item() == 1 + 3 * 2.0**-23
    a[0] = 0
    assert truncated_sum(b, a, (BF16, BF16), None, 16, False).item() == 15 * 2.0**-25


def test_infinities_and_nan() -> None:
    a = np.zeros((16, 4), np.float32)
    a[0] = [np.inf, np.inf, -np.inf, 2.0**127]
    a[1] = [1, -np.inf, 1, 2.0**127]
    b = np.ones((1, 16), np.float32)
    got = truncated_sum(b, a, (BF16, BF16), None, 16, False)
    assert got.view(np.uint32).tolist() == [[0x7F80_0000, 0x7FFF_FFFF, 0xFF80_0000, 0x7F80_0000]]


def test_a_sum_of_f16_is_rounded_to_the_nearest_once() -> None:
    b = np.ones((1, 16), np.float32)
    a = np.zeros((16, 1), np.float32)
    a[:3, 0] = [1, 2.0**-11, 2.0**-24]
    assert truncated_sum(b, a, (F16, F16), None, 16, True).item() == 1 + 2.0**-10


def test_a_launch_rounds_so_if_asked() -> None:
    b, a = draw(BF16, (32, 16), 9), draw(BF16, (16, 128), 9)
    text = (Path(__file__).parent / "pairs/gemm.ptx").read_text()
    out = np.zeros((128, 32), np.float32)
    launch(text, (core_matrices(a.T), core_matrices(b), out), block=(192, 1, 1), numerics="tc")
    expected = truncated_sum(b, a, (BF16, BF16), None, 16, False).T
    np.testing.assert_array_equal(out, expected)
    assert (out != (b @ a).T).any()
