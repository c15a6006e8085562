"""Integer arithmetic on vectors of one type. `arithmetic` dispatches to these functions."""

from __future__ import annotations

from collections.abc import Callable

from ..native.vector import Vec, helper


def add_saturating(a: Vec, b: Vec) -> Vec:
    """Compute the signed sum, clamped to the type's range."""
    return a.code.intrinsic("sadd.sat", a, b)


def subtract_saturating(a: Vec, b: Vec) -> Vec:
    """Compute the signed difference, clamped to the type's range."""
    return a.code.intrinsic("ssub.sat", a, b)


def multiply_wide(a: Vec, b: Vec, signed: bool) -> Vec:
    """Compute the full product, twice as wide as the factors."""
    wide = f"i{2 * a.width}"
    return (a.sext(wide) * b.sext(wide)) if signed else (a.zext(wide) * b.zext(wide))


def multiply_high(a: Vec, b: Vec, signed: bool) -> Vec:
    """Compute the upper half of the product."""
    if a.width == 64:
        return signed_high64(a, b) if signed else unsigned_high64(a, b)
    return multiply_wide(a, b, signed).shr(a.width).zext(a.kind)


@helper("i64", "i64", "i64")
def unsigned_high64(a: Vec, b: Vec) -> Vec:
    """Compute bits 64 to 127 of the unsigned product from four 32-bit products."""
    low = 0xFFFF_FFFF
    a0, a1, b0, b1 = a & low, a.shr(32), b & low, b.shr(32)
    cross = a1 * b0 + (a0 * b0).shr(32)
    other = a0 * b1 + (cross & low)
    return a1 * b1 + cross.shr(32) + other.shr(32)


@helper("i64", "i64", "i64")
def signed_high64(a: Vec, b: Vec) -> Vec:
    """Compute bits 64 to 127 of the signed product."""
    return unsigned_high64(a, b) - (a.sar(63) & b) - (b.sar(63) & a)


def divide(a: Vec, b: Vec, signed: bool, remainder: bool) -> Vec:
    """Compute quotient or remainder, truncated toward zero.

    PTX leaves division by zero undefined; the result here is all ones, as on an H200.
    """
    if a.width < 64:
        return _divide_narrow(a, b, signed, remainder)
    return _divide_wide(a, b, ("s" if signed else "u") + ("rem" if remainder else "div"))


def _divide_narrow(a: Vec, b: Vec, signed: bool, remainder: bool) -> Vec:
    """Divide in double: the truncated quotient of two 32-bit integers is exact."""
    to, back = ("sitofp", "fptosi.sat") if signed else ("uitofp", "fptoui.sat")
    quotient = a.convert(to, "double") / b.convert(to, "double")
    exact = a.code.intrinsic(back, quotient, result="i64").zext(a.kind)
    result = a - exact * b if remainder else exact
    return b.compare("eq", 0).select(a.code.constant(-1, a.kind), result)


@helper("i64", "i64", "i64")
def _divide_wide(a: Vec, b: Vec, op: str) -> Vec:
    """Divide by LLVM's instruction `op`, whose undefined cases are replaced."""
    zero = b.compare("eq", 0)
    trap = zero | (b.compare("eq", -1) & a.compare("eq", 1 << 63)) if op[0] == "s" else zero
    safe = trap.select(a.code.constant(1, "i64"), b)
    return zero.select(a.code.constant(-1, "i64"), a.divide(op, safe))


def smaller(a: Vec, b: Vec, signed: bool) -> Vec:
    """Return the minimum."""
    return a.code.intrinsic("smin" if signed else "umin", a, b)


def larger(a: Vec, b: Vec, signed: bool) -> Vec:
    """Return the maximum."""
    return a.code.intrinsic("smax" if signed else "umax", a, b)


def absolute(a: Vec) -> Vec:
    """Return |a|; the most negative number stays as it is."""
    return a.compare("slt", 0).select(-a, a)


def shift_left(a: Vec, count: Vec) -> Vec:
    """Compute a << count; counts of at least the width give zero."""
    return _clamped(a, count, a.code.constant(0, a.kind), lambda n: a.shl(n))


def shift_right(a: Vec, count: Vec, signed: bool) -> Vec:
    """Compute a >> count, sign-filled if `signed`; counts of at least the width leave only the fill."""
    if signed:
        last = a.code.constant(a.width - 1, "i32")
        return a.sar(smaller(count, last, False).zext(a.kind))
    return _clamped(a, count, a.code.constant(0, a.kind), lambda n: a.shr(n))


def _clamped(a: Vec, count: Vec, beyond: Vec, shifted: Callable[[Vec], Vec]) -> Vec:
    inside = count.compare("ult", a.width)
    return inside.select(shifted((count & (a.width - 1)).zext(a.kind)), beyond)
