"""ex2, rcp and lg2 have the bits of an H200: digests that it gave, and where its ex2 and lg2 show how they are made."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from tests.emulator.one_instruction import over

SEEN = {
    ("ex2", 1.0): "25f89f8a78649ad1",
    ("ex2", -1.0): "4e0066db7d112cdf",
    ("ex2", -0.015625): "6064ee62daaf07cd",
    ("rcp", 1.0): "ba3fc5529df27b5e",
    ("lg2", 0.25): "d4bbeddd9ce65996",
    ("lg2", 2.0): "89b853305df243fe",
    ("lg2", 16.0): "4cd91e28e60b8854",
}
"""The first 16 digits of the SHA-256 of an H200's results of every 256th float of the binade that starts (away from
zero) with a number. Of all 2^23 of each the emulator's bits were the same."""


def bits(op: str, x: np.ndarray) -> np.ndarray:
    return over(f"{op}.approx.ftz.f32 %r0, %r1;", r1=x.astype(np.float32))["r0"].view(np.uint32)


@pytest.mark.parametrize(("op", "start"), SEEN)
def test_bits_of_an_h200(op: str, start: float) -> None:
    x = (np.arange(0, 1 << 23, 256, dtype=np.uint32) + np.float32(start).view(np.uint32)).view(np.float32)
    assert hashlib.sha256(bits(op, x).tobytes()).hexdigest()[:16] == SEEN[op, start]


def test_ex2_takes_23_fractional_bits_towards_minus_infinity() -> None:
    """But for integers, which are exact."""
    step = 2.0**-24
    x = np.array([-0.25, -0.25 - step, -0.25 - 2 * step, -0.25 - 3 * step, -3.0, -2.0, -1.0, 1.0] * 4)
    seen = [0x3F5744FC, 0x3F5744FC, 0x3F5744FA, 0x3F5744FA, 0x3E000000, 0x3E800000, 0x3F000000, 0x40000000]
    assert bits("ex2", x)[:8].tolist() == seen
