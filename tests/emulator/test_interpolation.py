"""ex2, rcp and lg2 have the bits of an H200: digests of its results, and results that show how they are computed."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from tests.emulator.one_instruction import over
from tests.emulator.ptx_launch import launch

SEEN = {
    ("ex2", 1.0): "25f89f8a78649ad1",
    ("ex2", -1.0): "4e0066db7d112cdf",
    ("ex2", -0.015625): "6064ee62daaf07cd",
    ("rcp", 1.0): "ba3fc5529df27b5e",
    ("lg2", 0.25): "d4bbeddd9ce65996",
    ("lg2", 2.0): "89b853305df243fe",
    ("lg2", 16.0): "4cd91e28e60b8854",
}
"""The first 16 digits of the SHA-256 of an H200's results for every 256th float of a binade, by its first number.

All 2^23 results of each binade had the emulator's bits.
"""


def bits(op: str, x: np.ndarray) -> np.ndarray:
    return over(f"{op}.approx.ftz.f32 %r0, %r1;", r1=x.astype(np.float32))["r0"].view(np.uint32)


@pytest.mark.parametrize(("op", "start"), SEEN)
def test_bits_of_an_h200(op: str, start: float) -> None:
    x = (np.arange(0, 1 << 23, 256, dtype=np.uint32) + np.float32(start).view(np.uint32)).view(np.float32)
    assert hashlib.sha256(bits(op, x).tobytes()).hexdigest()[:16] == SEEN[op, start]


def test_ex2_takes_23_fractional_bits_towards_minus_infinity() -> None:
    """Except for integers, which are exact."""
    step = 2.0**-24
    x = np.array([-0.25, -0.25 - step, -0.25 - 2 * step, -0.25 - 3 * step, -3.0, -2.0, -1.0, 1.0] * 4)
    seen = [0x3F5744FC, 0x3F5744FC, 0x3F5744FA, 0x3F5744FA, 0x3E000000, 0x3E800000, 0x3F000000, 0x40000000]
    assert bits("ex2", x)[:8].tolist() == seen


OPERANDS, UNROLLED, BLOCK = 1 << 16, 64, 256
"""Operands per thread, per round of its loop; threads per CTA."""
QUARTERS = range(4)
STEP = """mov.b32 %f0, %r0; OP.approx.ftz.f32 %f1, %f0; mov.b32 %r1, %f1;
mad.lo.u32 %r2, %r2, 0x9E3779B1, %r1; add.u32 %r0, %r0, 1;
"""
SWEEP = f""".version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 first)
{{
.reg .b32 %r<8>; .reg .f32 %f<2>; .reg .b64 %d<2>; .reg .pred %p0;
mov.u32 %r3, %ctaid.x; mov.u32 %r4, %tid.x; mad.lo.u32 %r3, %r3, {BLOCK}, %r4;
ld.param.u32 %r5, [first]; mad.lo.u32 %r0, %r3, {OPERANDS}, %r5; mov.u32 %r2, 0; mov.u32 %r6, {OPERANDS // UNROLLED};
ROUND: {STEP * UNROLLED}
sub.u32 %r6, %r6, 1; setp.ne.u32 %p0, %r6, 0; @%p0 bra ROUND;
ld.param.u64 %d0, [out]; mad.wide.u32 %d0, %r3, 4, %d0; st.global.u32 [%d0], %r2; ret;
}}
"""


def sweep(op: str, quarter: int) -> np.ndarray:
    """Return one word for each 2^16 consecutive operands, computed from their results, over a quarter of all."""
    words = np.zeros((1 << 30) // OPERANDS, np.uint32)
    launch(SWEEP.replace("OP", op), [words, quarter << 30], grid=(words.size // BLOCK, 1, 1), block=(BLOCK, 1, 1))
    return words


@pytest.mark.thorough
def test_ex2_of_every_operand() -> None:
    """An H200 gave the same words."""
    words = np.concatenate([sweep("ex2", quarter) for quarter in QUARTERS])
    assert hashlib.sha256(words.tobytes()).hexdigest()[:16] == "332639b6f4f75a13"
