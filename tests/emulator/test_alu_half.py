"""Half-precision arithmetic against exact rational numbers rounded once."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from tests.emulator.one_instruction import Instructions, over


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("op", ["add", "mul", "fma"])
def test_half_precision_rounds_once(name: str, op: str) -> None:
    rng = np.random.default_rng(13)
    dtype = torch.float16 if name == "f16" else torch.bfloat16
    raw = [torch.from_numpy(rng.integers(0, 2**16, 4096, np.uint16).view(np.int16)).view(dtype) for _ in range(3)]
    operands = ", ".join(f"%h{i + 1}" for i in range(3 if op == "fma" else 2))
    bits = {
        f"h{i + 1}": v.view(torch.int16).numpy().view(np.uint16) for i, v in enumerate(raw[: 3 if op == "fma" else 2])
    }
    got = over(f"{op}.rn.{name} %h0, {operands};", **bits)["h0"]
    result = torch.from_numpy(got.view(np.int16)).view(dtype).double().numpy()
    a, b, c = (v.double().numpy() for v in raw)
    for i in range(4096):
        terms = {"add": (a[i], 1.0, b[i]), "mul": (a[i], b[i], 0.0), "fma": (a[i], b[i], c[i])}[op]
        if all(map(math.isfinite, terms)):
            exact = Fraction(terms[0]) * Fraction(terms[1]) + Fraction(terms[2])
            assert nearest(exact, dtype) == result[i], terms


def nearest(exact: Fraction, dtype: object) -> float:
    """Round an exact number to a half format by comparing it with its neighbours."""
    mantissa, lowest, top = (10, -14, 65504.0) if dtype == torch.float16 else (7, -126, 3.3895313892515355e38)
    if exact == 0:
        return 0.0
    size = abs(exact)
    exponent = max(math.floor(math.log2(size.numerator) - math.log2(size.denominator)) - 1, lowest)
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    quantum = Fraction(2) ** (exponent - mantissa)
    value = round(size / quantum) * quantum
    return math.copysign(math.inf if value > Fraction(top) else float(value), exact)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_mixed_precision_widens_exactly_and_rounds_once(name: str) -> None:
    rng = np.random.default_rng(29)
    dtype = torch.float16 if name == "f16" else torch.bfloat16
    a, b = (torch.from_numpy(rng.normal(size=32)).to(dtype) for _ in range(2))
    c = rng.normal(size=32).astype(np.float32)
    bits = {f"h{i}": v.view(torch.int16).numpy().view(np.uint16) for i, v in enumerate((a, b), 1)}
    text = (
        f"fma.rn.f32.{name} %r0, %h1, %h2, %r9; add.rn.f32.{name} %r1, %h1, %r9;"
        f"sub.f32.{name} %r2, %h1, %r9; add.rz.sat.f32.{name} %r3, %h1, %r9;"
    )
    got = {n: v.view(np.float32) for n, v in Instructions(text)(r9=c, **bits).items() if n[0] == "r"}
    x, y, z = a.double().numpy(), b.double().numpy(), c.astype(np.float64)
    np.testing.assert_array_equal(got["r0"], (x * y + z).astype(np.float32))
    np.testing.assert_array_equal(got["r1"], (x + z).astype(np.float32))
    np.testing.assert_array_equal(got["r2"], (x - z).astype(np.float32))
    near = np.clip((x + z).astype(np.float32), 0, 1)
    toward_zero = np.where(near.astype(np.float64) > np.clip(x + z, 0, 1), np.nextafter(near, np.float32(0)), near)
    np.testing.assert_array_equal(got["r3"], toward_zero)
