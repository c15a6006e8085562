"""Conversions (cvt) between integers, floats of all widths and packed pairs of small formats."""

from __future__ import annotations

from collections.abc import Callable

from ..machine.formats.numbers import MINIFLOATS
from ..native.builder import Builder
from ..native.vector import Vec
from ..ptx.syntax import Instr, Operand
from . import floats, integer
from . import floats as small
from .arithmetic import HALF_FLOATS, INTEGERS, WIDE_FLOATS, read_float
from .registry import Modifiers, Timing, if_sources_uniform, lowers

_TO_INTEGRAL = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_PAIRS = {"f16x2": "f16", "bf16x2": "bf16"} | {f"{name}x2": name for name in MINIFLOATS} | {"ue8m0x2": "ue8m0"}
_TYPES = (*INTEGERS, *WIDE_FLOATS, *HALF_FLOATS, *_PAIRS, "tf32")
_LARGEST = {"f16": 65504.0, "bf16": 3.3895313892515355e38}


@lowers("cvt", timing=Timing.CONVERT, uniform=if_sources_uniform)
def cvt(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower cvt by destination and source type."""
    if m.flag("pack"):
        _packed(builder, ins, m)
        return
    source = m.last()
    result = m.last()
    if source not in _TYPES or result not in _TYPES:
        raise m.unsupported(f"conversion from .{source} to .{result}")
    if result in _PAIRS or source in _PAIRS:
        _pairs(builder, ins, m, result, source)
    elif source in INTEGERS and result in INTEGERS:
        _integers(builder, ins, m, result, source)
    elif source in INTEGERS:
        _from_integer(builder, ins, m, result, source)
    elif result in INTEGERS:
        _to_integer(builder, ins, m, result, source)
    else:
        _floats(builder, ins, m, result, source)


def _integers(builder: Builder, ins: Instr, m: Modifiers, result: str, source: str) -> None:
    saturate = m.flag("sat")
    m.done()
    kind, signed = INTEGERS[source]
    wanted, wanted_signed = INTEGERS[result]
    a = builder.read(ins.operands[1], kind)
    if saturate:
        a = _clamped(a, signed, wanted_signed, int(result[1:]))
    value = a.sext(wanted) if signed else a.zext(wanted)
    _write_integer(builder, ins.operands[0], value, wanted_signed)


def _packed(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower cvt.pack: a and b, clamped to fewer bits and joined (a upper), in the low bits of d; c shifted above."""
    if len(ins.operands) == 4:
        m.choice("b32")
    source, result = m.last(), m.last()
    m.choice("sat")
    m.done()
    bits = int(result[1:])
    if source != "s32" or result[0] not in "us" or (bits not in (2, 4, 8) if len(ins.operands) == 4 else bits != 16):
        raise m.unsupported(f"cvt.pack from .{source} to .{result}")
    to, *sources = ins.operands
    high, low = (_clamped(builder.read(o, "i32"), True, result[0] == "s", bits) & (1 << bits) - 1 for o in sources[:2])
    packed = high.shl(bits) | low
    builder.write(to, packed | builder.read(sources[2], "i32").shl(2 * bits) if len(sources) == 3 else packed)


def _write_integer(builder: Builder, to: Operand, value: Vec, signed: bool) -> None:
    """Write a result, extended to its register's width according to its type."""
    width = {"b8": 8, "b16": 16, "b32": 32, "b64": 64}[to.type]  # type: ignore[union-attr]
    if value.width < width:
        value = value.sext(f"i{width}") if signed else value.zext(f"i{width}")
    builder.write(to, value)


def _clamped(a: Vec, signed: bool, wanted_signed: bool, bits: int) -> Vec:
    """Clamp to the range of the wanted type; the result keeps a's kind."""
    code = a.code
    if signed and not wanted_signed:
        a = integer.larger(a, code.constant(0, a.kind), True)
    top = (1 << bits - 1) - 1 if wanted_signed else (1 << bits) - 1
    if top < (1 << a.width - signed) - 1:
        a = integer.smaller(a, code.constant(top, a.kind), signed)
    if signed and wanted_signed and bits < a.width:
        a = integer.larger(a, code.constant(-top - 1, a.kind), True)
    return a


def _from_integer(builder: Builder, ins: Instr, m: Modifiers, result: str, source: str) -> None:
    rounding = m.choice("rn", "rz", "rm", "rp")
    m.done()
    kind, signed = INTEGERS[source]
    a = builder.read(ins.operands[1], kind)
    op = "sitofp" if signed else "uitofp"
    if rounding == "rn" and result in WIDE_FLOATS:
        builder.write(ins.operands[0], a.convert(op, WIDE_FLOATS[result]))
        return
    if result == "f64":
        value = a.convert(op, "double") if a.width <= 32 else _long_directed(a, op, rounding)
        builder.write(ins.operands[0], value)
        return
    exact = a.convert(op, "double") if a.width <= 32 else floats.sum_to_odd(*_halves(a, op))
    if result == "f32":
        builder.write(ins.operands[0], floats.narrow(exact, rounding))
    else:
        builder.write(ins.operands[0], _to_half(floats.narrow_to_odd(exact), result, rounding, False, m).zext("i16"))


def _long_directed(a: Vec, op: str, rounding: str) -> Vec:
    """Convert 64 bits to a double, toward zero (rz), minus (rm) or plus infinity (rp)."""
    upper, lower = _halves(a, op)
    near = upper + lower
    error = lower - (near - upper)  # exact: the upper half is 0 or the larger one
    bits = floats.as_bits(near)
    negative = bits.compare("slt", 0)
    outward = {"rz": a.code.constant(0, "i1"), "rm": negative, "rp": ~negative}[rounding]
    beyond = (floats.as_bits(error) ^ bits).compare("sge", 0)  # the integer is farther from zero than `near`
    one, none, minus_one = (a.code.constant(each, "i64") for each in (1, 0, -1))
    step = (outward & beyond).select(one, (outward | beyond).select(none, minus_one))
    return error.compare("one", 0.0).select(bits + step, bits).bitcast("double")


def _halves(a: Vec, op: str) -> tuple[Vec, Vec]:
    """Return two doubles whose exact sum is a 64-bit integer: a multiple of 2^32, and the lower 32 bits."""
    upper = (a.sar(32) if op == "sitofp" else a.shr(32)).convert(op, "double") * 2.0**32
    return upper, (a & 0xFFFF_FFFF).convert("uitofp", "double")


def _to_integer(builder: Builder, ins: Instr, m: Modifiers, result: str, source: str) -> None:
    """Round to an integral value and clamp to the type's range.

    NaN becomes 0, or the highest bit in forms with f64 or 64 bits.
    """
    rounding = m.choice(*_TO_INTEGRAL)
    flush = m.flag("ftz")
    m.flag("sat")
    m.done()
    kind, signed = INTEGERS[result]
    a = read_float(builder, ins.operands[1], source)
    a = floats.flush(a) if flush else a
    whole = builder.code.intrinsic(_TO_INTEGRAL[rounding], a)
    value = builder.code.intrinsic("fptosi.sat" if signed else "fptoui.sat", whole, result=kind)
    if source == "f64" or value.width == 64:
        value = floats.is_nan(a).select(builder.code.constant(1 << value.width - 1, kind), value)
    _write_integer(builder, ins.operands[0], value, signed)


def _floats(builder: Builder, ins: Instr, m: Modifiers, result: str, source: str) -> None:
    if result == "tf32":
        _to_tf32(builder, ins, m)
        return
    rounding = m.choice("rn", "rz", "rm", "rp", *_TO_INTEGRAL, default="")
    flush, saturate, finite, relu = (m.flag(name) for name in ("ftz", "sat", "satfinite", "relu"))
    m.done()
    a = read_float(builder, ins.operands[1], source)
    a = floats.flush(a) if flush else a
    if source != "f64" and (flush or (result == "f32" and source != "bf16")):
        a = floats.canonical_nan(a)
    if rounding in _TO_INTEGRAL:
        a = builder.code.intrinsic(_TO_INTEGRAL[rounding], a)
    if relu:
        a = floats.relu(a)
    if saturate:
        a = floats.saturate(a)
    if result in HALF_FLOATS:
        mode = "rn" if rounding in _TO_INTEGRAL else rounding or "rn"
        code = _to_half(floats.narrow_to_odd(a) if a.kind == "double" else a, result, mode, finite, m).zext("i16")
        builder.write(
            ins.operands[0], floats.is_nan(a).select(_nan_of(a, result), code) if a.kind == "double" else code
        )
        return
    if finite:
        raise m.unsupported(f".satfinite to .{result}")
    wanted = WIDE_FLOATS[result]
    if a.kind != wanted:
        directed = rounding if rounding in ("rz", "rm", "rp") else "rn"
        a = a.convert("fpext", wanted) if wanted == "double" else floats.narrow(a, directed)
    builder.write(ins.operands[0], floats.flush(a) if flush else a)


def _to_tf32(builder: Builder, ins: Instr, m: Modifiers) -> None:
    rounding = m.choice("rn", "rna", "rz")
    relu = m.flag("relu")
    m.done()
    a = builder.read(ins.operands[1], "float")
    to = {"rn": small.to_tf32_rn, "rna": small.to_tf32_rna, "rz": small.to_tf32_rz}[rounding]
    builder.write(ins.operands[0], to(floats.relu(a) if relu else a))


def _nan_of(a: Vec, result: str) -> Vec:
    """Convert the NaN of a double to 16 bits: quiet, with its sign and the upper bits of its payload."""
    bits, mantissa = floats.as_bits(a), 10 if result == "f16" else 7
    kept = bits.shr(52 - mantissa).zext("i16") & (1 << mantissa) - 1
    return kept | bits.shr(63).shl(15).zext("i16") | (0x7FFF ^ (1 << mantissa - 1) - 1)


def _to_half(a: Vec, result: str, rounding: str, finite: bool, m: Modifiers) -> Vec:
    """Convert f32 to the bits of f16 or bf16, in an i32."""
    if finite:
        limit = a.code.constant(_LARGEST[result], "float")
        a = a.compare("ogt", limit).select(limit, a)
        a = a.compare("olt", -limit).select(-limit, a)
    if result == "f16" and rounding in ("rm", "rp"):
        return _to_f16_directed(a, rounding)
    to: dict[tuple[str, str], Callable[[Vec], Vec]] = {
        ("f16", "rn"): small.to_f16,
        ("f16", "rz"): small.to_f16_rz,
        ("bf16", "rn"): small.to_bf16,
        ("bf16", "rz"): small.to_bf16_rz,
    }
    if (result, rounding) not in to:
        raise m.unsupported(f".{rounding} to .{result}")
    return to[result, rounding](a)


def _to_f16_directed(a: Vec, rounding: str) -> Vec:
    """Convert f32 to the bits of f16 toward minus (rm) or plus (rp) infinity: truncate, then step away from zero."""
    truncated = small.to_f16_rz(a)
    inexact = small.from_f16(truncated).compare("one", a)
    away = floats.as_bits(a).compare("slt" if rounding == "rm" else "sge", 0)
    one, zero = a.code.constant(1, "i32"), a.code.constant(0, "i32")
    return truncated + inexact.select(away.select(one, zero), zero)


def _pairs(builder: Builder, ins: Instr, m: Modifiers, result: str, source: str) -> None:
    """Lower packed conversions: `cvt d, a, b` puts a into the upper half and b into the lower half.

    With .scaled::n2::ue8m0 a further operand has a scale for each half, in the same order.
    """
    rounding = m.choice("rn", "rz", "rp", default="rn")
    relu, finite, scaled = (m.flag(name) for name in ("relu", "satfinite", "scaled::n2::ue8m0"))
    m.done()
    small_source = source in _PAIRS and _PAIRS[source] in MINIFLOATS
    if scaled and not (small_source and result == "bf16x2" and len(ins.operands) == 3):
        raise m.unsupported(f".scaled::n2::ue8m0 from .{source} to .{result} with {len(ins.operands)} operands")
    if small_source and rounding != "rn":
        raise m.unsupported(f".{rounding} from .{source}")
    if source in _PAIRS:
        high, low = _unpacked(builder, ins.operands[1], _PAIRS[source])
        if scaled:  # products are exact in f32, or too large for bf16 too
            scales = _unpacked(builder, ins.operands[2], "ue8m0")
            high, low = high * scales[0], low * scales[1]
    elif source == "f32" and len(ins.operands) == 3:
        high, low = (builder.read(o, "float") for o in ins.operands[1:])
    else:
        raise m.unsupported(f"conversion from .{source} to .{result}")
    if relu:
        high, low = floats.relu(high), floats.relu(low)
    wanted = _PAIRS.get(result)
    if wanted is None:
        raise m.unsupported(f"conversion from .{source} to .{result}")
    if wanted in HALF_FLOATS:
        codes = [_to_half(v, wanted, rounding, finite, m) for v in (high, low)]
        builder.write(ins.operands[0], codes[0].shl(16) | codes[1])
        return
    if wanted == "ue8m0":
        if rounding not in ("rp", "rz") or relu:
            raise m.unsupported("conversion to .ue8m0x2 without .rp or .rz")
        codes = [_exponent(v, rounding == "rp", finite) for v in (high, low)]
        builder.write(ins.operands[0], (codes[0].shl(8) | codes[1]).zext("i16"))
        return
    if not finite or rounding != "rn":
        raise m.unsupported(f"conversion to .{result} without .rn.satfinite")
    width = 4 if wanted == "e2m1" else 8
    packed = small.encode(high, wanted).shl(width) | small.encode(low, wanted)
    builder.write(ins.operands[0], packed.zext(f"i{2 * width}"))


def _unpacked(builder: Builder, operand: Operand, name: str) -> tuple[Vec, Vec]:
    """Return the upper and the lower value of a packed pair as f32."""
    if name in HALF_FLOATS:
        both = builder.read(operand, "i32")
        widen = HALF_FLOATS[name][0]
        return widen(both.shr(16)), widen(both & 0xFFFF)
    if name == "ue8m0":
        both = builder.read(operand, "i16").zext("i32")
        return _power(both.shr(8)), _power(both & 0xFF)
    width = 4 if name == "e2m1" else 8
    both = builder.read(operand, f"i{2 * width}").zext("i32")
    return small.decode(both.shr(width), name), small.decode(both & (1 << width) - 1, name)


def _exponent(a: Vec, up: bool, finite: bool) -> Vec:
    """Return the ue8m0 code of |a| rounded up or down to a power of two, in an i32; 255 for NaN and overflow."""
    constant = a.code.constant
    bits = floats.as_bits(a) & 0x7FFF_FFFF
    code = bits.shr(23)
    if up:
        least = code.compare("eq", 0).select(constant(0x0040_0000, "i32"), constant(0, "i32"))
        code = (bits & 0x007F_FFFF).compare("ugt", least).select(code + 1, code)
    limit = 254 if finite else 255
    code = code.compare("ugt", limit).select(constant(limit, "i32"), code)
    return floats.is_nan(a).select(constant(255, "i32"), code)


def _power(code: Vec) -> Vec:
    """Return the value of a ue8m0 code: 2^(code - 127); 255 is NaN."""
    value = code.compare("eq", 0).select(code.code.constant(0x0040_0000, "i32"), code.shl(23))
    return code.compare("eq", 255).select(code.code.constant(0x7FFF_FFFF, "i32"), value).bitcast("float")
