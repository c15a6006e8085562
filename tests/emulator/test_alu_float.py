"""Floating-point arithmetic against exact rational numbers rounded once."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emulator.one_instruction import Instructions, over

FEW = settings(max_examples=25)
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0**-149,
    -(2.0**-149),
    2.0**-126,
    3.4028234663852886e38,
    math.inf,
    -math.inf,
    math.nan,
]
ONES = 0xFFFF_FFFF
LARGEST = np.float32(3.4028234663852886e38)


def f32(values: object) -> np.ndarray:
    return np.asarray(values, np.float32)


def patterns() -> st.SearchStrategy[np.ndarray]:
    """Return 32 f32 values of any bit pattern, or of similar magnitude so that sums cancel."""
    wild = st.integers(0, ONES)
    near = st.integers(0x3F00_0000, 0x4080_0000) | st.integers(0xBF00_0000, 0xC080_0000)
    tiny = st.integers(0, 0x0180_0000)
    special = st.sampled_from(f32(SPECIAL).view(np.uint32).tolist())
    bits = st.lists(wild | near | tiny | special, min_size=32, max_size=32)
    return bits.map(lambda b: np.array(b, np.uint32).view(np.float32))


def rounded(exact: Fraction, mode: str) -> np.float32:
    """Round an exact nonzero number to f32: to nearest even, toward zero, down or up."""
    size = abs(exact)
    exponent = max(math.floor(math.log2(size.numerator) - math.log2(size.denominator)) - 1, -126)
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    quantum = Fraction(2) ** (exponent - 23)
    low = size // quantum
    rest = size / quantum - low
    away = {"rz": False, "rm": exact < 0, "rp": exact > 0}.get(mode)
    nearest_up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1)
    up = nearest_up if away is None else away and rest > 0
    value = (low + up) * quantum
    if value > Fraction(float(LARGEST)):
        overflow = math.inf if mode == "rn" or away else float(LARGEST)
        return np.float32(math.copysign(overflow, exact))
    return np.float32(math.copysign(float(value), exact))


def expected(a: float, b: float, c: float, mode: str) -> float | None:
    """Return a*b+c rounded once; None if it is not finite or a zero whose sign the value does not determine."""
    if not all(map(math.isfinite, (a, b, c))):
        return None
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return float(rounded(exact, mode)) if exact else None


def same(got: np.ndarray, wanted: np.ndarray) -> None:
    """Compare bits; all NaNs are equal."""
    got, wanted = f32(got), f32(wanted)
    nan = np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(got), nan)
    np.testing.assert_array_equal(got[~nan].view(np.uint32), wanted[~nan].view(np.uint32))


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_fma_add_mul_round_once(mode: str) -> None:
    program = Instructions(
        f"fma.{mode}.f32 %r0, %r3, %r4, %r5; add.{mode}.f32 %r1, %r3, %r5; mul.{mode}.f32 %r2, %r3, %r4;"
        f"sub.{mode}.f32 %r6, %r3, %r5;"
    )

    @FEW
    @given(patterns(), patterns(), patterns())
    def check(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        got = {name: v.view(np.float32) for name, v in program(r3=a, r4=b, r5=c).items()}
        for i, (x, y, z) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
            for name, terms in {"r0": (x, y, z), "r1": (x, 1.0, z), "r2": (x, y, 0.0), "r6": (x, 1.0, -z)}.items():
                wanted = expected(*terms, mode)
                if wanted is not None:
                    assert got[name][i] == wanted, (mode, name, *terms)

    check()


@pytest.mark.parametrize("mode", ["rn", "rz", "rp", "rm"])
def test_the_sign_of_zero_sums(mode: str) -> None:
    text = f"add.{mode}.f32 %r0, %r1, %r2; mul.{mode}.f32 %r3, %r1, %r4; fma.{mode}.f32 %r5, %r1, %r4, %r6;"
    got = Instructions(text)(r1=f32([1.0] * 32), r2=f32([-1.0] * 32), r4=f32([-0.0] * 32), r6=f32([0.0] * 32))
    negative = mode == "rm"
    assert (np.signbit(got["r0"].view(np.float32)) == negative).all()
    assert np.signbit(got["r3"].view(np.float32)).all()
    assert (np.signbit(got["r5"].view(np.float32)) == negative).all()


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_infinities_and_nan_follow_ieee(op: str) -> None:
    a, b = (v.ravel() for v in np.meshgrid(f32(SPECIAL), f32(SPECIAL)))
    spelled = "div.rn" if op == "div" else op
    got = over(f"{spelled}.f32 %r0, %r1, %r2;", r1=a, r2=b)["r0"].view(np.float32)
    with np.errstate(all="ignore"):
        same(got, {"add": a + b, "sub": a - b, "mul": a * b, "div": a / b}[op])


def test_division_and_roots_are_correctly_rounded() -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(0, 0x7F80_0000, 2048, np.uint32).view(np.float32) for _ in range(2))
    got = over(
        "div.rn.f32 %r0, %r8, %r9; rcp.rn.f32 %r1, %r9; sqrt.rn.f32 %r2, %r8; div.full.f32 %r3, %r8, %r9;", r8=a, r9=b
    )
    with np.errstate(all="ignore"):
        same(got["r0"].view(np.float32), a / b)
        same(got["r1"].view(np.float32), np.float32(1) / b)
        same(got["r2"].view(np.float32), np.sqrt(a))


def test_packed_f32x2_is_two_independent_results() -> None:
    rng = np.random.default_rng(5)
    words = rng.normal(size=(3, 64)).astype(np.float32)
    a, b, c = (w.view(np.uint64) for w in words)
    got = Instructions(
        "fma.rn.f32x2 %q0, %q5, %q6, %q7; add.rn.f32x2 %q1, %q5, %q6; mul.f32x2 %q2, %q5, %q6; mov.b64 {%r0, %r1}, %q0;"
    )(q5=a, q6=b, q7=c)
    x, y, z = words.astype(np.float64)
    np.testing.assert_array_equal(got["q0"].view(np.float32), (x * y + z).astype(np.float32))
    np.testing.assert_array_equal(got["q1"].view(np.float32), words[0] + words[1])
    np.testing.assert_array_equal(got["q2"].view(np.float32), words[0] * words[1])
    np.testing.assert_array_equal(got["r1"].view(np.float32), got["q0"].view(np.float32)[1::2])


def test_ftz_flushes_inputs_and_results() -> None:
    tiny = f32([2.0**-130, -(2.0**-130)] * 16)
    got = Instructions("add.ftz.f32 %r0, %r1, %r2; mul.ftz.f32 %r3, %r4, %r5; add.f32 %r6, %r1, %r2;")(
        r1=tiny, r2=f32([0.0] * 32), r4=f32([2.0**-100] * 32), r5=f32([-(2.0**-30)] * 32)
    )
    assert got["r0"].view(np.float32).tolist() == [0.0] * 32
    assert hex(got["r3"][0]) == "0x80000000"
    same(got["r6"].view(np.float32), tiny)


def test_sat_clamps_to_the_unit_interval() -> None:
    values = f32([-1.0, -0.0, 0.25, 1.0, 7.0, math.inf, -math.inf, math.nan] * 4)
    got = Instructions("add.sat.f32 %r0, %r1, %r2;")(r1=values, r2=f32([0.0] * 32))["r0"].view(np.float32)
    assert got[:8].tolist() == [0.0, 0.0, 0.25, 1.0, 1.0, 1.0, 0.0, 0.0]
    assert not np.signbit(got).any()


@pytest.mark.parametrize("op", ["min", "max"])
def test_extremes_of_all_pairs(op: str) -> None:
    """Against the rules written out: a number beats NaN (unless .NaN), -0 < +0."""
    a, b = (v.ravel() for v in np.meshgrid(f32(SPECIAL), f32(SPECIAL)))
    got = over(f"{op}.f32 %r0, %r2, %r3; {op}.NaN.f32 %r1, %r2, %r3;", r2=a, r3=b)

    def rank(value: float) -> tuple[float, float]:
        return value, math.copysign(1.0, value)

    for i, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        numbers = [v for v in (x, y) if not math.isnan(v)]
        plain, propagating = (got[name].view(np.float32)[i] for name in ("r0", "r1"))
        if len(numbers) < 2:
            assert got["r1"][i] == 0x7FFF_FFFF
        if not numbers:
            assert got["r0"][i] == 0x7FFF_FFFF
            continue
        wanted = (min if op == "min" else max)(numbers, key=rank)
        assert rank(float(plain)) == rank(wanted)
        assert len(numbers) < 2 or rank(float(propagating)) == rank(wanted)


def test_extremes_of_three_and_by_magnitude() -> None:
    a, b, c = f32([3.0, -9.0] * 16), f32([5.0, 2.0] * 16), f32([4.0, math.nan] * 16)
    text = (
        "max.f32 %r0, %r7, %r8, %r9; max.NaN.f32 %r1, %r7, %r8, %r9;"
        "min.xorsign.abs.f32 %r2, %r7, %r8; max.abs.f32 %r3, %r7, %r8;"
    )
    got = {n: v.view(np.float32) for n, v in Instructions(text)(r7=a, r8=b, r9=c).items()}
    assert got["r0"][:2].tolist() == [5.0, 2.0]
    assert got["r1"][0] == 5.0 and np.isnan(got["r1"][1])
    assert got["r2"][:2].tolist() == [3.0, -2.0]
    assert got["r3"][:2].tolist() == [5.0, 9.0]


def test_abs_neg_copysign_touch_only_the_sign() -> None:
    rng = np.random.default_rng(9)
    a, b = (rng.integers(0, 2**32, 32, np.uint32) for _ in range(2))
    got = Instructions("abs.f32 %r0, %r8; neg.f32 %r1, %r8; copysign.f32 %r2, %r8, %r9;")(r8=a, r9=b)
    np.testing.assert_array_equal(got["r0"], a & 0x7FFF_FFFF)
    np.testing.assert_array_equal(got["r1"], a ^ 0x8000_0000)
    np.testing.assert_array_equal(got["r2"], (b & 0x7FFF_FFFF) | (a & 0x8000_0000))


def test_f64_arithmetic() -> None:
    rng = np.random.default_rng(11)
    a, b, c = rng.normal(size=(3, 32)) * 10.0 ** rng.integers(-30, 30, (3, 32))
    text = (
        "fma.rn.f64 %q0, %q7, %q8, %q9; add.rn.f64 %q1, %q7, %q8; div.rn.f64 %q2, %q7, %q8;"
        "max.f64 %q3, %q7, %q8; sqrt.rn.f64 %q4, %q6;"
    )
    got = {n: v.view(np.float64) for n, v in Instructions(text)(q7=a, q8=b, q9=c, q6=np.abs(a)).items()}
    exact = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c, strict=True)]
    assert got["q0"].tolist() == exact
    np.testing.assert_array_equal(got["q1"], a + b)
    np.testing.assert_array_equal(got["q2"], a / b)
    np.testing.assert_array_equal(got["q3"], np.maximum(a, b))
    np.testing.assert_array_equal(got["q4"], np.sqrt(np.abs(a)))


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_directed_quotients(mode: str) -> None:
    program = Instructions(f"div.{mode}.f32 %r0, %r1, %r2; rcp.{mode}.f32 %r3, %r2;")

    @FEW
    @given(patterns(), patterns())
    def check(a: np.ndarray, b: np.ndarray) -> None:
        got = program(r1=a, r2=b)
        for lane, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
            for register, over_y in (("r0", x), ("r3", 1.0)):
                if over_y and y and math.isfinite(over_y) and math.isfinite(y):
                    wanted = rounded(Fraction(over_y) / Fraction(y), mode)
                    assert got[register][lane] == wanted.view(np.uint32), (over_y, y)

    check()


def test_directed_roots_are_just_below_and_just_above() -> None:
    program = Instructions("sqrt.rm.f32 %r0, %r1; sqrt.rp.f32 %r2, %r1; sqrt.rz.f32 %r3, %r1;")

    @FEW
    @given(patterns())
    def check(a: np.ndarray) -> None:
        a = np.abs(np.nan_to_num(a, posinf=4.0, neginf=9.0))
        got = program(r1=a)
        below, above = (got[r].view(np.float32) for r in ("r0", "r2"))
        np.testing.assert_array_equal(got["r3"], got["r0"])
        for x, low, high in zip(a.tolist(), below, above, strict=True):
            assert Fraction(float(low)) ** 2 <= Fraction(x) <= Fraction(float(high)) ** 2
            assert high == low or high == np.nextafter(low, np.float32(math.inf))
            assert (high == low) == (Fraction(float(low)) ** 2 == Fraction(x))

    check()


@pytest.mark.parametrize("type_name", ["u64", "s64"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_long_integers_to_f32_round_once(mode: str, type_name: str) -> None:
    random = np.random.default_rng(5)
    numbers = random.integers(0, 1 << 64, 480, np.uint64) >> random.integers(0, 64, 480).astype(np.uint64)
    ties = (np.uint64(1) << random.integers(30, 63, 32).astype(np.uint64)) + np.uint64(1)
    given = np.concatenate([numbers, ties, ~ties])
    got = over(f"cvt.{mode}.f32.{type_name} %r0, %q1;", q1=given)["r0"]
    exact = (given.view(np.int64) if type_name == "s64" else given).tolist()
    wanted = [rounded(Fraction(n), mode).view(np.uint32) if n else 0 for n in exact]
    assert got.tolist() == [int(w) for w in wanted]
