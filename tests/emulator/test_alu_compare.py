"""setp, set and testp against numpy's comparisons."""

from __future__ import annotations

import numpy as np

from tests.emulator.one_instruction import Instructions, over
from tests.emulator.test_alu_float import ONES, SPECIAL, f32


def test_comparisons_with_nan() -> None:
    a, b = (v.ravel() for v in np.meshgrid(f32(SPECIAL), f32(SPECIAL)))
    relations = ("eq", "ne", "lt", "le", "gt", "ge")
    text = "".join(f"setp.{r}.f32 %p{i}, %r1, %r2; setp.{r}u.f32 %p{i + 6}, %r1, %r2;" for i, r in enumerate(relations))
    got = over(text + "setp.num.f32 %p12, %r1, %r2; setp.nan.f32 %p13, %r1, %r2;", r1=a, r2=b)
    unordered = np.isnan(a) | np.isnan(b)
    with np.errstate(all="ignore"):
        ordered = [a == b, a != b, a < b, a <= b, a > b, a >= b]
    for i, holds in enumerate(ordered):
        np.testing.assert_array_equal(got[f"p{i}"], holds & ~unordered)
        np.testing.assert_array_equal(got[f"p{i + 6}"], holds | unordered)
    np.testing.assert_array_equal(got["p12"], ~unordered)
    np.testing.assert_array_equal(got["p13"], unordered)


def test_setp_combines_and_negates() -> None:
    a, c = np.arange(32, dtype=np.uint32), np.array([True, False] * 16)
    text = (
        "setp.lt.and.u32 %p0|%p1, %r1, 16, %p5; setp.ge.or.s32 %p2, %r1, 16, !%p5;"
        "set.lt.f32.u32 %r2, %r1, 16; set.lt.u32.u32 %r3, %r1, 16;"
    )
    got = Instructions(text)(r1=a, p5=c)
    less = a < 16
    np.testing.assert_array_equal(got["p0"], less & c)
    np.testing.assert_array_equal(got["p1"], ~less & c)
    np.testing.assert_array_equal(got["p2"], ~less | ~c)
    np.testing.assert_array_equal(got["r2"].view(np.float32), less.astype(np.float32))
    np.testing.assert_array_equal(got["r3"], np.where(less, ONES, 0))


def test_testp() -> None:
    classes = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    text = "".join(f"testp.{name}.f32 %p{i}, %r1;" for i, name in enumerate(classes))
    values = np.resize(f32(SPECIAL), 32)
    got = Instructions(text)(r1=values)
    subnormal = (np.abs(values) < 2.0**-126) & (values != 0)
    wanted = (
        np.isfinite(values),
        np.isinf(values),
        ~np.isnan(values),
        np.isnan(values),
        np.isfinite(values) & ~subnormal,
        subnormal,
    )
    for i, answer in enumerate(wanted):
        np.testing.assert_array_equal(got[f"p{i}"], answer, err_msg=classes[i])
