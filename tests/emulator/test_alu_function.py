"""ex2, lg2 and similar functions against 60-digit references, and at their edges."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from tests.emulator.one_instruction import over
from tests.emulator.test_alu_float import f32, same


def ulps(got: np.ndarray, x: np.ndarray, function: object) -> float:
    """Return the largest error in units of the last place of the exact result."""
    worst = 0.0
    with mpmath.workdps(60):
        for value, argument in zip(got.tolist(), x.tolist(), strict=True):
            exact = function(mpmath.mpf(argument))  # type: ignore[operator]
            unit = math.ulp(float(exact)) * 2**29 if abs(exact) >= 2.0**-126 else 2.0**-149
            worst = max(worst, float(abs(value - exact)) / unit)
    return worst


RANGES = {
    "ex2": (np.linspace(-149, 128, 3001), lambda x: mpmath.power(2, x), 2.0),
    "lg2": (np.geomspace(1e-44, 3e38, 3001), lambda x: mpmath.log(x, 2), 2.0),
    "tanh": (np.concatenate([np.linspace(-9, 9, 2001), np.geomspace(1e-30, 1, 999)]), mpmath.tanh, 1.0),
    "rsqrt": (np.geomspace(1e-44, 3e38, 2001), lambda x: 1 / mpmath.sqrt(x), 1.0),
    "rcp": (np.geomspace(1e-38, 3e38, 2001), lambda x: 1 / x, 1.0),
}


@pytest.mark.parametrize("op", RANGES)
def test_approximations_are_far_within_what_ptx_allows(op: str) -> None:
    x, function, limit = RANGES[op]
    x = f32(x)[: len(x) // 32 * 32]
    got = over(f"{op}.approx.f32 %r0, %r1;", r1=x)["r0"].view(np.float32)
    assert ulps(got, x, function) <= limit


@pytest.mark.parametrize("op", ["sin", "cos"])
def test_sine_and_cosine(op: str) -> None:
    x = np.linspace(-100, 100, 3200, dtype=np.float32)
    got = over(f"{op}.approx.f32 %r0, %r1;", r1=x)["r0"].view(np.float32)
    np.testing.assert_allclose(got, getattr(np, op)(x.astype(np.float64)), atol=1e-7)


EDGES = {
    "ex2.approx.ftz": "-inf 0, inf inf, 0 1, -0.0 1, -3 0.125, 127 1.7014118346046923e38, 129 inf, -127 0, 7e-43 1",
    "ex2.approx": "-149 1.401298464324817e-45, -127 5.877471754111438e-39, -151 0, 128 inf, -inf 0",
    "lg2.approx": "0 -inf, -0.0 -inf, inf inf, 1 0, 8 3, 1.401298464324817e-45 -149, -1 nan",
    "lg2.approx.ftz": "1.401298464324817e-45 -inf",
    "rcp.approx.ftz": "0 inf, -0.0 -inf, inf 0, 4 0.25, 7e-43 inf",
    "rsqrt.approx": "0 inf, -0.0 -inf, inf 0, 4 0.5, -1 nan",
    "sqrt.approx": "0 0, -0.0 -0.0, 4 2, inf inf, -1 nan",
    "tanh.approx": "0 0, -0.0 -0.0, inf 1, -inf -1",
    "sin.approx": "0 0, -0.0 -0.0, inf nan",
    "sin.approx.ftz": "-0.0 -0.0, -7e-43 -0.0",
    "cos.approx": "0 1, -inf nan",
}


@pytest.mark.parametrize("op", EDGES)
def test_edges_of_functions(op: str) -> None:
    """Pairs of argument and result. NaN always gives NaN."""
    table = [[float(v) for v in pair.split()] for pair in (EDGES[op] + ", nan nan").split(",")]
    x, wanted = f32(table).T
    got = over(f"{op}.f32 %r0, %r1;", r1=x)["r0"].view(np.float32)
    same(got, wanted)


def test_a_root_s_nan_is_ptxs() -> None:
    got = over("rsqrt.approx.f32 %r0, %r1;", r1=np.array([0xFFC0_0001, 0xBF80_0000] * 16, np.uint32))["r0"]
    assert set(got.tolist()) == {0x7FFF_FFFF}


@pytest.mark.parametrize("op", ["rcp", "rsqrt"])
def test_gross_approximations_of_doubles_are_of_their_upper_halves(op: str) -> None:
    x = np.concatenate([np.geomspace(1e-300, 1e300, 30), [5e-324, 0.0]])
    exact = 1 / (x[:30] if op == "rcp" else np.sqrt(x[:30]))
    got = over(f"{op}.approx.ftz.f64 %q0, %q1;", q1=x.view(np.uint64))["q0"]
    assert not (got & np.uint64(0xFFFF_FFFF)).any()
    np.testing.assert_allclose(got.view(np.float64)[:30], exact, rtol=2.0**-18)
    assert np.isinf(got.view(np.float64)[30:]).all()


def test_a_reciprocal_below_the_normal_doubles_is_zero() -> None:
    x = np.array([1.7e308, -1.7e308] * 16)
    got = over("rcp.approx.ftz.f64 %q0, %q1;", q1=x.view(np.uint64))["q0"]
    assert got.tolist() == [0, 1 << 63] * 16
