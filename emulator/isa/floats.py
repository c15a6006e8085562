"""Floating-point arithmetic on vectors: IEEE with PTX's rounding, NaN and flushing rules.

Conversions between f32 and the formats below 32 bits (bf16, f16, tf32, fp8, fp6 and fp4) are exact.
"""

from __future__ import annotations

from ..machine.formats.numbers import MINIFLOATS
from ..native.vector import Vec, helper

SMALLEST_NORMAL = {"float": 0x0080_0000, "double": 0x0010_0000_0000_0000}
NAN = {"float": 0x7FFF_FFFF, "double": 0x7FFF_FFFF_FFFF_FFFF}
QUIET = {"float": 1 << 22, "double": 1 << 51}
SIGN = {"float": 1 << 31, "double": 1 << 63}


def as_bits(a: Vec) -> Vec:
    """Return the bit pattern as an integer."""
    return a.bitcast(f"i{a.width}")


def magnitude(a: Vec) -> Vec:
    """Return |a|: a with the sign bit cleared."""
    return (as_bits(a) & (SIGN[a.kind] - 1)).bitcast(a.kind)


def is_nan(a: Vec) -> Vec:
    """Return true where a is NaN."""
    return a.compare("uno", a)


def canonical_nan(a: Vec) -> Vec:
    """Replace every NaN by PTX's canonical NaN."""
    return is_nan(a).select(a.code.bits(NAN[a.kind], a.kind), a)


def relu(a: Vec) -> Vec:
    """Replace negative numbers by +0 and keep NaN (.relu)."""
    bits = as_bits(a)
    below = bits.compare("slt", 0) & ~is_nan(a)
    return below.select(a.code.constant(0, bits.kind), bits).bitcast(a.kind)


def flush(a: Vec) -> Vec:
    """Replace subnormals by zeros of the same sign (.ftz)."""
    return _zero_below(a, SMALLEST_NORMAL["float"]) if a.kind == "float" else a


def flush16(a: Vec) -> Vec:
    """Flush subnormals of an f16, held as f32, to zero."""
    return _zero_below(a, 0x3880_0000)


@helper("float", "float")
def _zero_below(a: Vec, smallest: int) -> Vec:
    bits = as_bits(a)
    tiny = (bits & 0x7FFF_FFFF).compare("ult", smallest)
    return tiny.select(bits & 0x8000_0000, bits).bitcast("float")


def saturate(a: Vec) -> Vec:
    """Clamp to [0, 1] and NaN to +0 (.sat)."""
    above = a.compare("ogt", 0.0).select(a, a.code.constant(0.0, a.kind))
    return above.compare("olt", 1.0).select(above, a.code.constant(1.0, a.kind))


def fused(a: Vec, b: Vec, c: Vec) -> Vec:
    """Compute a*b+c with one rounding to nearest even. A NaN has the host's payload."""
    return a.code.intrinsic("fma", a, b, c)


@helper()
def add(a: Vec, b: Vec) -> Vec:
    """Compute a+b, to nearest even. In f32 a NaN result is canonical; in f64 it is that of b, else of a."""
    return _with_nan(a + b, b)


@helper()
def subtract(a: Vec, b: Vec) -> Vec:
    """Compute a-b, with the NaN rule of `add`."""
    return _with_nan(a - b, b)


@helper()
def multiply(a: Vec, b: Vec) -> Vec:
    """Compute a*b, with the NaN rule of `add`."""
    return _with_nan(a * b, b)


@helper()
def multiply_add(a: Vec, b: Vec, c: Vec) -> Vec:
    """Compute a*b+c with one rounding.

    In f32 a NaN result is canonical; in f64 it is that of b, else of c, else of a.
    """
    return _with_nan(fused(a, b, c), b, c)


def divide(a: Vec, b: Vec) -> Vec:
    """Compute a/b. In f32 a NaN result is canonical; in f64 it is that of a, else of b."""
    return _with_nan(a / b, a)


def negative(a: Vec) -> Vec:
    """Compute -a. A NaN becomes canonical in f32 and stays in f64."""
    return _with_nan(-a, a)


def absolute(a: Vec) -> Vec:
    """Compute |a|, with the NaN rule of `negative`."""
    return _with_nan(magnitude(a), a)


def _with_nan(result: Vec, *sources: Vec) -> Vec:
    """Return a result with PTX's NaN: the canonical one in f32, in f64 that of the first source that is NaN."""
    if result.kind == "float":
        return canonical_nan(result)
    for source in reversed(sources):
        result = _nan_of(source, result)
    return result


def _nan_of(a: Vec, result: Vec) -> Vec:
    """Return the result, or a as a quiet NaN where a is NaN."""
    return is_nan(a).select((as_bits(a) | QUIET[a.kind]).bitcast(a.kind), result)


@helper("float", "float", "float", "float", "float")
def flush_inexact(result: Vec, a: Vec, b: Vec, c: Vec) -> Vec:
    """Return `result`, the rounded a*b+c, but a signed zero where the exact value is below the normal numbers."""
    exact = as_bits(_fused_to_odd(a, b, c)) & SIGN["double"] - 1
    bits = as_bits(result)
    return exact.compare("ult", 0x3810 << 48).select(bits & SIGN["float"], bits).bitcast("float")


@helper("double", "double", "double")
def sum_to_odd(p: Vec, c: Vec) -> Vec:
    """Compute p+c rounded to odd. Rounding it again to 51 bits or fewer, in any direction, equals rounding once.

    Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd".
    """
    total = p + c
    back = total - p
    return _toward(total, (p - (total - back)) + (c - back))


def _toward(value: Vec, error: Vec) -> Vec:
    """Round a double to odd, given the sign of its error (exact value minus `value`)."""
    bits = as_bits(value)
    inexact = error.compare("one", 0.0) & (bits & 1).compare("eq", 0)
    away = (as_bits(error) ^ bits).compare("sge", 0)
    moved = bits + away.select(value.code.constant(1, "i64"), value.code.constant(-1, "i64"))
    return inexact.select(moved, bits).bitcast("double")


@helper("double", "float", "float")
def quotient_to_odd(a: Vec, b: Vec) -> Vec:
    """Compute a/b as a double rounded to odd."""
    x, y = a.convert("fpext", "double"), b.convert("fpext", "double")
    quotient = x / y
    left = fused(-quotient, y, x)
    error = ((as_bits(left) ^ as_bits(y)) & SIGN["double"] | as_bits(magnitude(left))).bitcast("double")
    return _toward(quotient, error)


@helper("double", "float")
def root_to_odd(a: Vec) -> Vec:
    """Compute the square root as a double rounded to odd."""
    x = a.convert("fpext", "double")
    root = x.code.intrinsic("sqrt", x)
    return _toward(root, fused(-root, root, x))


def narrow(value: Vec, mode: str) -> Vec:
    """Convert a double (exact or rounded to odd) to float with rounding `mode`: rn, rz, rm or rp."""
    if mode == "rn":
        return value.convert("fptrunc", "float")
    return {"rz": narrow_rz, "rm": narrow_rm, "rp": narrow_rp}[mode](value)


@helper("float", "double")
def narrow_rm(value: Vec) -> Vec:
    """Convert to float, toward minus infinity."""
    near = value.convert("fptrunc", "float")
    bits = as_bits(near)
    one = bits.code.constant(1, "i32")
    minus_one = bits.code.constant(-1, "i32")
    lower = bits + bits.compare("slt", 0).select(one, minus_one)
    lower = near.compare("oeq", 0.0).select(bits.code.constant(0x8000_0001, "i32"), lower)
    return near.convert("fpext", "double").compare("ogt", value).select(lower.bitcast("float"), near)


@helper("float", "double")
def narrow_rp(value: Vec) -> Vec:
    """Convert to float, toward plus infinity."""
    return -narrow_rm(-value)


@helper("float", "double")
def narrow_rz(value: Vec) -> Vec:
    """Convert to float, toward zero."""
    return as_bits(value).compare("slt", 0).select(narrow_rp(value), narrow_rm(value))


@helper("float", "float", "float", "float")
def fused_directed(a: Vec, b: Vec, c: Vec, mode: str) -> Vec:
    """Compute fma with rounding `mode`: rz, rm or rp. With rm an exactly zero sum of two opposite terms is -0."""
    exact = _fused_to_odd(a, b, c)
    result = narrow(exact, mode)
    if mode == "rm":
        signs = (as_bits(a) ^ as_bits(b) ^ as_bits(c)).compare("slt", 0)
        zero = exact.compare("oeq", 0.0) & signs
        result = zero.select(a.code.bits(1 << 31, "float"), result)
    return canonical_nan(result)


def _fused_to_odd(a: Vec, b: Vec, c: Vec) -> Vec:
    wide_a, wide_b, wide_c = (v.convert("fpext", "double") for v in (a, b, c))
    return sum_to_odd(wide_a * wide_b, wide_c)


@helper()
def smaller(a: Vec, b: Vec) -> Vec:
    """Return the minimum. A number wins over a NaN; -0 is below +0."""
    return _extreme(a, b, "olt", "or")


@helper()
def larger(a: Vec, b: Vec) -> Vec:
    """Return the maximum. A number wins over a NaN; +0 is above -0."""
    return _extreme(a, b, "ogt", "and")


def _extreme(a: Vec, b: Vec, order: str, on_equal: str) -> Vec:
    """Return a where `a order b`, else b; equal values (two zeros) combine by their bits.

    Of two NaNs the result is the canonical NaN in f32 and the second in f64.
    """
    first = a.compare(order, b) | is_nan(b)
    chosen = as_bits(first.select(a, b))
    x, y = as_bits(a), as_bits(b)
    merged = (x | y) if on_equal == "or" else (x & y)
    result = a.compare("oeq", b).select(merged, chosen).bitcast(a.kind)
    return canonical_nan(result) if a.kind == "float" else (is_nan(a) & is_nan(b)).select(_nan_of(b, b), result)


def narrow_to_odd(value: Vec) -> Vec:
    """Convert a double to float, rounded to odd."""
    toward_zero = narrow_rz(value)
    inexact = toward_zero.convert("fpext", "double").compare("une", value) & ~is_nan(value)
    return (as_bits(toward_zero) | inexact.zext("i32")).bitcast("float")


def compare(a: Vec, b: Vec, relation: str) -> Vec:
    """Compare by a PTX float relation.

    With a NaN, eq ... ge are false and equ ... geu true; num and nan test for it.
    """
    spelled = {"num": "ord", "nan": "uno", "ne": "one", "neu": "une"}.get(relation)
    if spelled is None:
        unordered = len(relation) == 3
        spelled = ("u" if unordered else "o") + relation[:2]
    return a.compare(spelled, b)


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
