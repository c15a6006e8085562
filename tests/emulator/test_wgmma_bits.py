"""wgmma under numerics="tc" gives the bits of an H200 for random bits in A, B and D, NaN and infinities included.

Each digest comes from an H200. test_silicon.py compares the bits themselves on a machine with a GPU.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from wgmma_program import BITS, Form

SEEN = {
    ("f32", "f16"): ("4c7aefaa77b7eb69", "6da8e4a24b71f036"),
    ("f32", "bf16"): ("a26e536fa85b1d0c", "cf3275ca0a83c700"),
    ("f32", "tf32"): ("69d9e64703eafd08", "89f69e61854633bb"),
    ("f32", "e4m3"): ("e021272f438f7a56", "a79260ae3cf295e8"),
    ("f32", "e5m2"): ("2670cb6c6f0d4979", "c5a58302a98101f4"),
    ("f16", "f16"): ("2381d7f2695c8987", "d00897e46ac50cba"),
    ("f16", "e4m3"): ("f9868dd148293ed5", "95a1c484f999f0a9"),
    ("f16", "e5m2"): ("24db8eb0995919ea", "3bdee34f5b382df1"),
}
"""The first 16 digits of the SHA-256 of D's bits, row by row, by the types of D and of A and B: for finite numbers, for
any bits. The memory that A comes from makes no difference.
"""
UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32}
EXPONENT = {"f16": 0x7C00, "bf16": 0x7F80, "tf32": 0x7F800000, "f32": 0x7F800000, "e4m3": 0x78, "e5m2": 0x7C}


def random_bits(rng: np.random.Generator, shape: tuple[int, int], kind: str, finite: bool) -> np.ndarray:
    """Draw any bits of a type, or those of finite numbers."""
    bits = 32 if kind == "f32" else BITS[kind]
    raw = rng.integers(0, 1 << bits, shape, np.uint64).astype(UNSIGNED[bits])
    top = raw.dtype.type(EXPONENT[kind])
    return np.where(raw & top == top, raw & ~top, raw) if finite else raw


def result(form: Form, finite: bool) -> np.ndarray:
    """Return D after D = D + A B twice."""
    rng = np.random.default_rng(7)
    a, b = (random_bits(rng, (rows, form.k), form.a, finite) for rows in (64, form.n))
    return form.run(a, b, random_bits(rng, (64, form.n), form.to, finite), True, "tc")


@pytest.mark.parametrize("finite", [True, False], ids=["finite", "any"])
@pytest.mark.parametrize("in_registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize("types", SEEN, ids="-".join)
def test_bits_of_an_h200(types: tuple[str, str], in_registers: bool, finite: bool) -> None:
    to, kind = types
    digest = hashlib.sha256(result(Form(64, to, kind, kind, in_registers), finite).tobytes()).hexdigest()
    assert digest[:16] == SEEN[types][0 if finite else 1]
