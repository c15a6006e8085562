"""Exact conversions between f32 and the formats below 32 bits: bf16, f16, tf32, fp8, fp6 and fp4."""

from __future__ import annotations

from ..machine.formats.numbers import MINIFLOATS
from ..native.vector import Vec, helper
from .floats import as_bits, is_nan, magnitude

TF32_NAN = 0x7FFF_E000


@helper("i32", "float")
def encode(a: Vec, name: str) -> Vec:
    """Convert f32 to the nearest value of a format (ties to even), saturating to the largest finite one, as i32."""
    fmt, code = MINIFLOATS[name], a.code
    sign = as_bits(a).shr(31).shl(fmt.exponent + fmt.mantissa)
    limit = code.constant(fmt.value(fmt.largest), "float")
    size = magnitude(a)
    size = size.compare("ogt", limit).select(limit, size)
    lowest = 127 + 1 - fmt.bias
    exponent = as_bits(size).shr(23)
    exponent = exponent.compare("ult", lowest).select(code.constant(lowest, "i32"), exponent)
    # Adding and taking away 1.5 * 2^(23 - mantissa) quanta rounds to a multiple of the quantum.
    magic = ((exponent + (23 - fmt.mantissa)).shl(23) | (1 << 22)).bitcast("float")
    rounded = (size + magic) - magic
    normal = as_bits(rounded).shr(23 - fmt.mantissa) - ((127 - fmt.bias) << fmt.mantissa)
    quanta = rounded * code.constant(2.0 ** (fmt.bias - 1 + fmt.mantissa), "float")
    small = code.intrinsic("fptoui.sat", quanta, result="i32")
    below = as_bits(rounded).shr(23).compare("ult", lowest)
    result = below.select(small, normal) | sign
    if fmt.nan is not None:
        return is_nan(a).select(code.constant(fmt.nan, "i32"), result)
    return is_nan(a).select(code.constant(fmt.largest, "i32"), result)


@helper("float", "i32")
def decode(code: Vec, name: str) -> Vec:
    """Convert the code of a format in the low bits of an i32 to f32, exactly."""
    fmt = MINIFLOATS[name]
    size = code & (fmt.sign - 1)
    quanta = size.convert("uitofp", "float") * 2.0 ** (1 - fmt.bias - fmt.mantissa)
    normal = (size.shl(23 - fmt.mantissa) + ((127 - fmt.bias) << 23)).bitcast("float")
    value = as_bits(size.compare("ult", 1 << fmt.mantissa).select(quanta, normal))
    if fmt.infinity is not None:
        infinite = size.compare("eq", fmt.infinity)
        value = infinite.select(code.code.constant(0x7F80_0000, "i32"), value)
    value = value | (code & fmt.sign).shl(31 - fmt.exponent - fmt.mantissa)
    if fmt.nan is not None:
        nan = size.compare("ugt", fmt.largest if fmt.infinity is None else fmt.infinity)
        value = nan.select(code.code.constant(0x7FFF_FFFF, "i32"), value)
    return value.bitcast("float")


@helper("i32", "float")
def to_bf16(a: Vec) -> Vec:
    """Convert f32 to bf16, to nearest even; NaN becomes 0x7fff."""
    bits = as_bits(a)
    rounded = (bits + (bits.shr(16) & 1) + 0x7FFF).shr(16)
    return is_nan(a).select(a.code.constant(0x7FFF, "i32"), rounded)


@helper("i32", "float")
def to_bf16_rz(a: Vec) -> Vec:
    """Convert f32 to bf16, toward zero; NaN becomes 0x7fff."""
    return is_nan(a).select(a.code.constant(0x7FFF, "i32"), as_bits(a).shr(16))


def from_bf16(code: Vec) -> Vec:
    """Convert bf16 in the low bits of an i32 to f32."""
    return code.shl(16).bitcast("float")


@helper("i32", "float")
def to_f16(a: Vec) -> Vec:
    """Convert f32 to f16, to nearest even; NaN becomes 0x7fff."""
    bits = as_bits(a)
    sign = bits & 0x8000_0000
    size = bits ^ sign
    subnormal_magic = 126 << 23
    small = as_bits(size.bitcast("float") + a.code.bits(subnormal_magic, "float")) - subnormal_magic
    normal = (size + (size.shr(13) & 1) + 0xFFF - (112 << 23)).shr(13)
    code = size.compare("ult", 113 << 23).select(small, normal)
    code = size.compare("uge", 143 << 23).select(a.code.constant(0x7C00, "i32"), code)
    code = code | sign.shr(16)
    return is_nan(a).select(a.code.constant(0x7FFF, "i32"), code)


@helper("i32", "float")
def to_f16_rz(a: Vec) -> Vec:
    """Convert f32 to f16, toward zero; NaN becomes 0x7fff, overflow the largest finite value."""
    bits = as_bits(a)
    size = bits & 0x7FFF_FFFF
    code = a.code
    normal = size.shr(13) - (112 << 10)
    distance = code.constant(126, "i32") - size.shr(23)
    distance = distance.compare("ult", 24).select(distance, code.constant(31, "i32"))
    small = ((size & 0x7F_FFFF) | 0x80_0000).shr(distance)
    value = size.compare("ult", 113 << 23).select(small, normal)
    finite = size.compare("ult", 143 << 23)
    value = finite.select(value, code.constant(0x7BFF, "i32"))
    value = size.compare("eq", 0x7F80_0000).select(code.constant(0x7C00, "i32"), value)
    value = value | bits.shr(31).shl(15)
    return is_nan(a).select(code.constant(0x7FFF, "i32"), value)


@helper("float", "i32")
def from_f16(code: Vec) -> Vec:
    """Convert f16 in the low bits of an i32 to f32."""
    size = (code & 0x7FFF).shl(13)
    value = as_bits(size.bitcast("float") * 2.0**112)
    special = size.compare("uge", 31 << 23)
    value = special.select(size | 0x7F80_0000, value)
    return (value | (code & 0x8000).shl(16)).bitcast("float")


@helper("float", "float")
def to_tf32_rna(a: Vec) -> Vec:
    """Convert f32 to tf32 in an f32, to nearest with ties away from zero; NaN keeps its upper bits."""
    finite = as_bits(magnitude(a)).compare("ult", 0x7F80_0000)
    kept = as_bits(a) & 0xFFFF_E000
    return finite.select((as_bits(a) + 0x1000) & 0xFFFF_E000, kept).bitcast("float")


@helper("float", "float")
def to_tf32_rn(a: Vec) -> Vec:
    """Convert f32 to tf32 in an f32, to nearest even; NaN becomes 0x7fffe000."""
    bits = as_bits(a)
    rounded = (bits + (bits.shr(13) & 1) + 0xFFF) & 0xFFFF_E000
    return is_nan(a).select(a.code.constant(TF32_NAN, "i32"), rounded).bitcast("float")


@helper("float", "float")
def to_tf32_rz(a: Vec) -> Vec:
    """Convert f32 to tf32 in an f32, toward zero; NaN becomes 0x7fffe000."""
    return is_nan(a).select(a.code.constant(TF32_NAN, "i32"), as_bits(a) & 0xFFFF_E000).bitcast("float")
