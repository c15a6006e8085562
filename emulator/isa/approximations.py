"""Approximate functions.

ex2, lg2 and rcp are bit-exact to an H200. tanh, sin and cos are more accurate than .approx requires.
"""

from __future__ import annotations

import math

from ..native.vector import Vec, helper
from . import interpolation
from .floats import as_bits, divide, fused, is_nan, magnitude, narrow

LN2 = math.log(2.0)
_MANTISSA = (1 << 23) - 1


def _series(x: Vec, coefficients: list[float]) -> Vec:
    """Evaluate a polynomial by Horner's rule. coefficients: the constant first."""
    total = x.code.constant(coefficients[-1], x.kind)
    for coefficient in reversed(coefficients[:-1]):
        total = fused(total, x, x.code.constant(coefficient, x.kind))
    return total


def _clamp(x: Vec, low: float, high: float) -> Vec:
    """Clamp to [low, high]; NaN becomes `low`."""
    x = x.compare("ogt", low).select(x, x.code.constant(low, x.kind))
    return x.compare("olt", high).select(x, x.code.constant(high, x.kind))


@helper("float", "float")
def exp2(x: Vec) -> Vec:
    """Compute 2^x bit-exactly to an H200, except subnormal results.

    x is truncated to 23 fractional bits toward -infinity.
    """
    inside = _clamp(x, -151.0, 129.0)
    places = (magnitude(inside) * float(1 << 23)).convert("fptosi", "i32")
    cut = (places & _MANTISSA).compare("ne", 0).zext("i32")
    fixed = inside.compare("olt", 0.0).select(-places - cut, places)
    n = fixed.sar(23)
    power = (interpolation.power(fixed & _MANTISSA) + (126 << 23)).bitcast("float")
    half = n.sar(1)
    first = (half + 127).shl(23).bitcast("float")
    second = (n - half + 127).shl(23).bitcast("float")
    return is_nan(x).select(x.code.bits(0x7FFF_FFFF, "float"), power * first * second)


@helper("double", "double")
def exp2_double(x: Vec) -> Vec:
    """Compute 2^x for |x| < 1000 to about 1e-15 by a Taylor series of degree 13."""
    inside = _clamp(x, -1000.0, 1000.0)
    whole = x.code.intrinsic("rint", inside)
    power = _series(inside - whole, [LN2**k / math.factorial(k) for k in range(14)])
    n = x.code.intrinsic("fptosi.sat", whole, result="i64")
    return power * (n + 1023).shl(52).bitcast("double")


@helper("float", "float")
def log2(x: Vec) -> Vec:
    """Compute log2(x) bit-exactly to an H200 for normal x outside [1/2, 2).

    For other x the result is correctly rounded except for rare ties.
    """
    bits = as_bits(x)
    exponent = bits.sar(23) - 127
    fraction = interpolation.logarithm(bits & _MANTISSA) - (1 << 23)
    above = exponent.shl(23) + fraction
    fixed = exponent.compare("slt", 0).select(above + 1, above)
    cut = narrow(fixed.convert("sitofp", "double") * 2.0**-23, "rz")
    normal = exponent.compare("sge", -126) & exponent.compare("sle", 127)  # both false for negative numbers
    near = exponent.compare("eq", 0) | exponent.compare("eq", -1)
    return (normal & ~near).select(cut, _nearest_log2(x))


@helper("float", "float")
def reciprocal(x: Vec) -> Vec:
    """Compute 1/x bit-exactly to an H200 where x and 1/x are normal, and correctly rounded elsewhere."""
    bits = as_bits(x)
    exponent = bits.shr(23) & 0xFF
    found = interpolation.reciprocal(bits & _MANTISSA).convert("sitofp", "float") * 2.0**-24
    scale = ((-exponent + 254).shl(23) | bits & 0x8000_0000).bitcast("float")
    normal = exponent.compare("sge", 1) & exponent.compare("sle", 252)
    return normal.select(found * scale, divide(x.code.constant(1.0, "float"), x))


@helper("float", "float")
def _nearest_log2(x: Vec) -> Vec:
    """Compute log2(x) by the atanh series in double: correctly rounded except for rare ties."""
    wide = as_bits(x.convert("fpext", "double"))
    shifted = wide - 0x3FE6_A09E_667F_3BCD  # sqrt(1/2)
    exponent = shifted.sar(52)
    mantissa = (wide - exponent.shl(52)).bitcast("double")
    one = x.code.constant(1.0, "double")
    t = (mantissa - one) / (mantissa + one)
    series = _series(t * t, [2.0 / LN2 / (2 * k + 1) for k in range(9)])
    value = (exponent.convert("sitofp", "double") + t * series).convert("fptrunc", "float")
    infinity = x.code.bits(0x7F80_0000, "float")
    value = x.compare("oeq", infinity).select(infinity, value)
    value = x.compare("oeq", 0.0).select(-infinity, value)
    outside = is_nan(x) | x.compare("olt", 0.0)
    return outside.select(x.code.bits(0x7FFF_FFFF, "float"), value)


@helper("float", "float")
def tanh(x: Vec) -> Vec:
    """Compute tanh(x) = (e - 1) / (e + 1) with e = exp(2x) in double; return x where |x| is small."""
    wide = _clamp(x.convert("fpext", "double"), -20.0, 20.0)
    power = exp2_double(wide * (2.0 / LN2))
    one = x.code.constant(1.0, "double")
    value = ((power - one) / (power + one)).convert("fptrunc", "float")
    small = magnitude(x).compare("olt", 1e-4)
    return is_nan(x).select(x.code.bits(0x7FFF_FFFF, "float"), small.select(x, value))


@helper("float", "float")
def sine(x: Vec) -> Vec:
    """Compute sin(x): reduce by multiples of pi in double, then use a Taylor series of degree 19."""
    return x.compare("oeq", 0.0).select(x, _circular(x, 0.0))


@helper("float", "float")
def cosine(x: Vec) -> Vec:
    """Compute cos(x) = sin(x + pi/2)."""
    return _circular(x, 0.5)


def _circular(x: Vec, quarter_turns: float) -> Vec:
    turns = x.convert("fpext", "double") * (1.0 / math.pi) + quarter_turns
    whole = x.code.intrinsic("rint", turns)
    angle = (turns - whole) * math.pi
    series = _series(angle * angle, [(-1.0) ** k / math.factorial(2 * k + 1) for k in range(10)])
    odd = x.code.intrinsic("fptosi.sat", whole, result="i64") & 1
    value = angle * series
    value = odd.compare("eq", 1).select(-value, value).convert("fptrunc", "float")
    endless = magnitude(x).compare("oeq", math.inf) | is_nan(x)
    return endless.select(x.code.bits(0x7FFF_FFFF, "float"), value)


@helper("float", "float")
def reciprocal_root(x: Vec) -> Vec:
    """Compute 1/sqrt(x) in double."""
    root = x.code.intrinsic("sqrt", x.convert("fpext", "double"))
    value = (x.code.constant(1.0, "double") / root).convert("fptrunc", "float")
    return (is_nan(x) | x.compare("olt", 0.0)).select(x.code.bits(0x7FFF_FFFF, "float"), value)
