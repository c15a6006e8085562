"""setp, set and testp against numpy's comparisons."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.errors import UnknownInstruction
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


def test_subnormal_halves_are_zeros_with_ftz() -> None:
    """0x0001 and 0x83ff are subnormal, 0x0400 is the least normal."""
    a = np.resize(np.array([0x0001, 0x83FF, 0x0400, 0x0000], np.uint16), 32)
    text = (
        "setp.eq.ftz.f16 %p0, %h1, 0x0000; setp.eq.f16 %p1, %h1, 0x0000; set.gt.ftz.u32.f16 %r1, %h1, 0x0000;"
        "mov.b32 %r2, {%h1, %h1}; setp.eq.ftz.f16x2 %p2|%p3, %r2, 0;"
    )
    got = Instructions(text)(h1=a)
    np.testing.assert_array_equal(got["p0"], a != 0x0400)
    np.testing.assert_array_equal(got["p1"], a == 0)
    np.testing.assert_array_equal(got["p2"], a != 0x0400)
    np.testing.assert_array_equal(got["p3"], a != 0x0400)
    np.testing.assert_array_equal(got["r1"], np.where(a == 0x0400, ONES, 0))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_comparisons_of_halves(kind: str) -> None:
    a, b = (np.resize(np.array(v, np.uint16), 32) for v in ([0x3C00, 0xBC00, 0x7FFF], [0x3C00, 0x3C00]))
    text = "".join(f"setp.{r}.{kind} %p{i}, %h1, %h2;" for i, r in enumerate(("gt", "le", "ltu", "num")))
    got = Instructions(text)(h1=a, h2=b)
    nan, less = a == 0x7FFF, a == 0xBC00
    for i, holds in enumerate((np.zeros(32, bool), ~nan, less | nan, ~nan)):
        np.testing.assert_array_equal(got[f"p{i}"], holds)


@pytest.mark.parametrize("form", ["lo.f32", "num.u32", "ls.s32", "lt.b32", "eq.ftz.f64", "eq.ftz.u32", "lo.f16"])
def test_what_has_no_ptx_is_refused_by_name(form: str) -> None:
    relation, *between, kind = form.split(".")
    a, b = ("%d1, %d2" if kind.endswith("64") else "%h1, %h2" if kind.endswith("16") else "%r1, %r2").split(", ")
    with pytest.raises(UnknownInstruction, match="modifier"):
        Instructions(f"setp.{'.'.join([relation, *between, kind])} %p0, {a}, {b};")


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
