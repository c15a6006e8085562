"""Arithmetic for every type: add, sub, mul, mad, fma, div, rem, min, max, abs, neg and functions of one argument.

Extended-precision add, sub and mad have the condition code in a register of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ..native.builder import Builder, Cell
from ..native.vector import Vec
from ..ptx.syntax import Dual, Imm, Instr, Operand, Reg
from . import approximations, floats, integer
from . import floats as small
from .registry import Modifiers, Timing, if_sources_uniform, lowers, rewrites

INTEGERS = {f"{sign}{bits}": (f"i{bits}", sign == "s") for sign in "usb" for bits in (8, 16, 32, 64)}
WIDE_FLOATS = {"f32": "float", "f64": "double"}
HALF_FLOATS = {"f16": (small.from_f16, small.to_f16), "bf16": (small.from_bf16, small.to_bf16)}
ROUNDINGS = ("rn", "rz", "rm", "rp")
FLUSHED = ("f32", "f32x2", "f16", "f16x2")
"""Types that have .ftz. ex2 also has it for the bf16 types."""
Compute = Callable[..., Vec]


@lowers("add", "sub", timing=Timing.ADD, uniform=if_sources_uniform)
@lowers("mul", "mad", "fma", timing=Timing.MULTIPLY, uniform=if_sources_uniform)
def arithmetic(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower the ring operations: d = a op b, or d = a*b + c."""
    type_name = m.last()
    if type_name in INTEGERS:
        _integer_ring(builder, ins, m, *INTEGERS[type_name])
    elif type_name in HALF_FLOATS and m.flag("f32"):
        _mixed_ring(builder, ins, m, type_name)
    elif type_name in ("s16x2", "u16x2"):
        m.done()
        op = {"add": Vec.__add__, "sub": Vec.__sub__}.get(ins.opcode)
        if op is None:
            raise m.unsupported(f"{ins.opcode} of {type_name}")
        _by_halves(builder, ins.operands, "b16", "i16", op)
    else:
        _float_ring(builder, ins, m, type_name)


def _integer_ring(builder: Builder, ins: Instr, m: Modifiers, kind: str, signed: bool) -> None:
    to, *sources = ins.operands
    saturate = m.flag("sat")
    part = m.choice("lo", "hi", "wide") if ins.opcode in ("mul", "mad") else ""
    m.done()
    may_saturate = kind == "i32" and signed and (ins.opcode in ("add", "sub") or (ins.opcode, part) == ("mad", "hi"))
    if ins.opcode == "fma" or (saturate and not may_saturate):
        raise m.unsupported(f"{ins.opcode} of this integer type")
    a, b = (builder.read(source, kind) for source in sources[:2])
    if ins.opcode == "add":
        builder.write(to, integer.add_saturating(a, b) if saturate else a + b)
        return
    if ins.opcode == "sub":
        builder.write(to, integer.subtract_saturating(a, b) if saturate else a - b)
        return
    if part == "wide":
        product = integer.multiply_wide(a, b, signed)
    else:
        product = integer.multiply_high(a, b, signed) if part == "hi" else a * b
    if ins.opcode == "mad":
        c = builder.read(sources[2], product.kind)
        product = integer.add_saturating(product, c) if saturate else product + c
    builder.write(to, product)


@lowers("mul24", "mad24", uniform=if_sources_uniform)
def ring24(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower mul24 and mad24: bits 0-31 (.lo) or 16-47 (.hi) of a 48-bit product, plus c for mad24."""
    type_name, part = m.last(), m.choice("lo", "hi")
    saturate = m.flag("sat")
    m.done()
    if type_name not in ("u32", "s32") or (saturate and (ins.opcode, type_name, part) != ("mad24", "s32", "hi")):
        raise m.unsupported(f"{ins.opcode} of this integer type")
    to, *sources = ins.operands
    low, high = (builder.read(source, "i32").shl(8) for source in sources[:2])
    signed = type_name == "s32"
    a, b = (v.sar(8).sext("i64") if signed else v.shr(8).zext("i64") for v in (low, high))
    product = ((a * b).shr(16) if part == "hi" else a * b).zext("i32")
    if ins.opcode == "mad24":
        c = builder.read(sources[2], "i32")
        product = integer.add_saturating(product, c) if saturate else product + c
    builder.write(to, product)


def _float_ring(builder: Builder, ins: Instr, m: Modifiers, type_name: str) -> None:
    rounding = m.choice(*ROUNDINGS) if ins.opcode == "fma" else m.choice(*ROUNDINGS, default="rn")
    relu = ins.opcode == "fma" and type_name.removesuffix("x2") in HALF_FLOATS and m.flag("relu")
    saturate = type_name in ("f32", "f16", "f16x2") and m.flag("sat")
    step = _ring(ins.opcode, rounding, type_name, m)
    rounds_up = "ftz" in ins.modifiers and ins.opcode in ("mul", "fma", "mad") and not type_name.startswith("f16")

    def compute(*values: Vec) -> Vec:
        result = step(*values)
        if rounds_up:
            factors = (*values, _signed_zero(*values)) if ins.opcode == "mul" else values
            result = floats.flush_inexact(result, *factors)
        return floats.relu(result) if relu else result

    floating(builder, ins, m, type_name, compute, saturate)


def _mixed_ring(builder: Builder, ins: Instr, m: Modifiers, half: str) -> None:
    """Lower mixed precision such as fma.f32.bf16: all sources but the last are halves, widened exactly."""
    step = _ring(ins.opcode, m.choice(*ROUNDINGS, default="rn"), "f32", m)
    saturate = m.flag("sat")
    m.done()
    to, *halves, last = ins.operands
    result = step(*(read_float(builder, o, half) for o in halves), builder.read(last, "float"))
    builder.write(to, floats.saturate(result) if saturate else result)


def read_float(builder: Builder, operand: Operand, type_name: str) -> Vec:
    """Return a source of a scalar floating-point type, as f32 if it is narrower."""
    if type_name in WIDE_FLOATS:
        return builder.read(operand, WIDE_FLOATS[type_name])
    return HALF_FLOATS[type_name][0](builder.read(operand, "i16").zext("i32"))


def _ring(opcode: str, rounding: str, type_name: str, m: Modifiers) -> Compute:
    """Return the operation in float or double. A half-precision result is exact enough that one rounding follows."""
    if rounding != "rn" and type_name not in ("f32", "f32x2"):
        raise m.unsupported(f".{rounding} of {type_name}")
    if rounding == "rn":
        if opcode in ("fma", "mad"):
            return _fused_half if type_name.startswith(("f16", "bf16")) else floats.multiply_add
        return {"add": floats.add, "sub": floats.subtract, "mul": floats.multiply}[opcode]

    def directed(a: Vec, b: Vec, c: Vec) -> Vec:
        return floats.fused_directed(a, b, c, rounding)

    of_two: dict[str, Compute] = {
        "add": lambda a, b: directed(a, a.code.constant(1.0, "float"), b),
        "sub": lambda a, b: directed(a, a.code.constant(1.0, "float"), -b),
        "mul": lambda a, b: directed(a, b, _signed_zero(a, b)),
    }
    return of_two.get(opcode, directed)


def _signed_zero(a: Vec, b: Vec) -> Vec:
    """Return the zero whose addition leaves a*b unchanged, also if a*b is -0."""
    return ((floats.as_bits(a) ^ floats.as_bits(b)) & 0x8000_0000).bitcast("float")


def _fused_half(a: Vec, b: Vec, c: Vec) -> Vec:
    """Compute fma of half-precision values as an f32 that rounds to the correct half: the sum is rounded to odd."""
    wide_a, wide_b, wide_c = (v.convert("fpext", "double") for v in (a, b, c))
    return floats.narrow_to_odd(floats.sum_to_odd(wide_a * wide_b, wide_c))


def floating(
    builder: Builder, ins: Instr, m: Modifiers, type_name: str, compute: Compute, saturate: bool = False
) -> None:
    """Lower d = compute(sources) for a floating-point type, scalar or packed, with .ftz and optional .sat."""
    flushes = (type_name in FLUSHED or ins.opcode == "ex2") and m.flag("ftz")
    m.done()
    single = type_name.removesuffix("x2")
    flush = floats.flush16 if single == "f16" else floats.flush

    def whole(*values: Vec) -> Vec:
        if flushes:
            values = tuple(flush(v) for v in values)
        result = compute(*values)
        if flushes:
            result = flush(result)
        return floats.saturate(result) if saturate else result

    if single in WIDE_FLOATS:
        kind = WIDE_FLOATS[single]
        if type_name == "f32x2":
            _by_halves(builder, ins.operands, "b32", kind, whole)
        else:
            builder.write(ins.operands[0], whole(*(builder.read(o, kind) for o in ins.operands[1:])))
        return
    if single not in HALF_FLOATS:
        raise m.unsupported(f"type .{type_name}")
    widen, round_to = HALF_FLOATS[single]

    def half(*values: Vec) -> Vec:
        return round_to(whole(*(widen(v.zext("i32")) for v in values))).zext("i16")

    if type_name.endswith("x2"):
        _by_halves(builder, ins.operands, "b16", "i16", half)
    else:
        builder.write(ins.operands[0], half(*(builder.read(o, "i16") for o in ins.operands[1:])))


def _by_halves(builder: Builder, operands: tuple[Operand, ...], half: str, kind: str, compute: Compute) -> None:
    """Apply `compute` to the low halves and to the high halves of wide registers."""
    to, *sources = operands
    pairs = [_halves(builder, source, half, kind) for source in sources]
    low, high = (compute(*(pair[i] for pair in pairs)) for i in range(2))
    wide = {"b16": "b32", "b32": "b64"}[half]
    builder.alias(to, Cell(wide, halves=(Cell(half, {kind: low}), Cell(half, {kind: high}))))


def _halves(builder: Builder, source: Operand, half: str, kind: str) -> tuple[Vec, Vec]:
    from ..ptx.syntax import Reg

    if isinstance(source, Reg):
        low, high = builder.cell(source).split()
        return low.vector(kind), high.vector(kind)
    wide, narrow = {"b16": ("i32", "i16"), "b32": ("i64", "i32")}[half]
    value = builder.read(source, wide)
    return value.zext(narrow).bitcast(kind), value.shr(value.width // 2).zext(narrow).bitcast(kind)


@lowers("div", timing=Timing.SPECIAL, uniform=if_sources_uniform)
def div(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower div. Every floating-point form, also .full and .approx, is correctly rounded."""
    type_name = m.last()
    if type_name in INTEGERS:
        _integer_quotient(builder, ins, m, *INTEGERS[type_name], remainder=False)
        return
    rounding = m.choice(*ROUNDINGS, "full", "approx")
    floating(builder, ins, m, type_name, _divided(rounding, type_name, m))


@lowers("rem", uniform=if_sources_uniform)
def rem(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower rem; the result has the dividend's sign."""
    _integer_quotient(builder, ins, m, *INTEGERS[m.last()], remainder=True)


def _integer_quotient(builder: Builder, ins: Instr, m: Modifiers, kind: str, signed: bool, remainder: bool) -> None:
    m.done()
    to, a, b = ins.operands
    builder.write(to, integer.divide(builder.read(a, kind), builder.read(b, kind), signed, remainder))


def _three_operands(ins: Instr) -> tuple[str, ...]:
    """Return the opcode that ptxas merges an f32 min or max with (FMNMX3)."""
    return (ins.opcode,) if "f32" in ins.modifiers and len(ins.operands) == 3 else ()


@lowers("min", "max", merges=_three_operands, uniform=if_sources_uniform)
def extreme(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower min and max of two operands, for f32 also of three.

    .NaN propagates a NaN, .relu clamps to zero from below.
    """
    type_name = m.last()
    lowest = ins.opcode == "min"
    relu = m.flag("relu")
    if relu and type_name not in ("s32", "s16x2"):
        raise m.unsupported(f".relu of {type_name}")
    if type_name in INTEGERS:
        kind, signed = INTEGERS[type_name]
        m.done()
        pick = integer.smaller if lowest else integer.larger
        to, a, b = ins.operands
        result = pick(builder.read(a, kind), builder.read(b, kind), signed)
        builder.write(to, integer.larger(result, builder.code.constant(0, kind), True) if relu else result)
        return
    if type_name in ("s16x2", "u16x2"):
        m.done()
        choose = integer.smaller if lowest else integer.larger

        def half(a: Vec, b: Vec) -> Vec:
            result = choose(a, b, type_name[0] == "s")
            return integer.larger(result, a.code.constant(0, "i16"), True) if relu else result

        _by_halves(builder, ins.operands, "b16", "i16", half)
        return
    propagate, by_magnitude = m.flag("NaN"), m.flag("xorsign")
    if by_magnitude and not m.flag("abs"):
        raise m.unsupported(".xorsign without .abs")
    absolute = not by_magnitude and m.flag("abs")
    floating(builder, ins, m, type_name, _extreme_of(lowest, propagate, by_magnitude, absolute))


def _extreme_of(lowest: bool, propagate: bool, by_magnitude: bool, absolute: bool) -> Compute:
    pick = floats.smaller if lowest else floats.larger

    def compute(*values: Vec) -> Vec:
        sizes = [floats.magnitude(v) for v in values] if by_magnitude or absolute else list(values)
        result = sizes[0]
        for value in sizes[1:]:
            result = pick(result, value)
        if propagate:
            for value in values:
                nan = value.code.bits(floats.NAN[value.kind], value.kind)
                result = floats.is_nan(value).select(nan, result)
        if by_magnitude:
            sign = (floats.as_bits(values[0]) ^ floats.as_bits(values[1])) & floats.SIGN[result.kind]
            result = floats.canonical_nan((floats.as_bits(result) | sign).bitcast(result.kind))
        return result

    return compute


@lowers("abs", "neg", uniform=if_sources_uniform)
def sign(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower |a| and -a."""
    type_name = m.last()
    if type_name in INTEGERS:
        m.done()
        a = builder.read(ins.operands[1], INTEGERS[type_name][0])
        builder.write(ins.operands[0], -a if ins.opcode == "neg" else integer.absolute(a))
        return
    floating(builder, ins, m, type_name, floats.negative if ins.opcode == "neg" else floats.absolute)


@lowers("copysign", uniform=if_sources_uniform)
def copysign(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower copysign: b with the sign of a."""
    type_name = m.last()

    def compute(a: Vec, b: Vec) -> Vec:
        taken = floats.as_bits(a) & floats.SIGN[a.kind]
        return (floats.as_bits(floats.magnitude(b)) | taken).bitcast(a.kind)

    floating(builder, ins, m, type_name, compute)


def _divided(rounding: str, type_name: str, m: Modifiers) -> Compute:
    if rounding not in ("rz", "rm", "rp"):
        return floats.divide
    if type_name != "f32":
        raise m.unsupported(f".{rounding} of {type_name}")
    return lambda a, b: floats.canonical_nan(floats.narrow(floats.quotient_to_odd(a, b), rounding))


def _reciprocal(a: Vec) -> Vec:
    return floats.divide(a.code.constant(1.0, a.kind), a)


def _root(a: Vec) -> Vec:
    root = a.code.intrinsic("sqrt", a)
    return floats.canonical_nan(root) if a.kind == "float" else root


def _reciprocal_root(a: Vec) -> Vec:
    return _reciprocal(_root(a)) if a.kind == "double" else approximations.reciprocal_root(a)


def _upper_half(a: Vec) -> Vec:
    """Truncate a double to its upper 32 bits; a subnormal becomes zero."""
    bits = floats.as_bits(a)
    tiny = (bits & floats.SIGN["double"] - 1).compare("ult", 1 << 52)
    return tiny.select(bits & floats.SIGN["double"], bits & 0xFFFF_FFFF << 32).bitcast("double")


_FUNCTIONS: dict[str, Compute] = {
    "ex2": approximations.exp2,
    "lg2": approximations.log2,
    "tanh": approximations.tanh,
    "sin": approximations.sine,
    "cos": approximations.cosine,
    "rsqrt": _reciprocal_root,
    "rcp": _reciprocal,
    "sqrt": _root,
}
_EXACT = ("rcp", "sqrt")
_OF_DOUBLE = (*_EXACT, "rsqrt")


@lowers(*_FUNCTIONS, timing=Timing.SPECIAL, uniform=if_sources_uniform)
def function(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower the functions of one argument. .approx and .rn are the same here: within an ulp of the exact result.

    The exception is .approx.ftz.f64, which reads and writes only the upper 32 bits, as PTX specifies.
    """
    type_name = m.last()
    rounding = m.choice("approx", *(ROUNDINGS if ins.opcode in _EXACT else ()))
    if type_name == "f64" and ins.opcode not in _OF_DOUBLE:
        raise m.unsupported(f"{ins.opcode} of f64")
    floating(builder, ins, m, type_name, _rounded(ins.opcode, rounding, type_name, m))


def _rounded(opcode: str, rounding: str, type_name: str, m: Modifiers) -> Compute:
    if rounding == "approx" and opcode == "rcp" and type_name == "f32":
        return approximations.reciprocal
    if rounding == "approx" and type_name == "f64" and m.flag("ftz"):
        return lambda a: _upper_half(_FUNCTIONS[opcode](_upper_half(a)))
    if rounding in ("approx", "rn"):
        return _FUNCTIONS[opcode]
    if opcode == "sqrt" and type_name == "f32":
        return lambda a: floats.canonical_nan(floats.narrow(floats.root_to_odd(a), rounding))
    divided = _divided(rounding, type_name, m)
    return lambda a: divided(a.code.constant(1.0, a.kind), a)


CARRY: Final = Reg("@carry", "pred")
"""CC.CF of a thread: the carry of a sum, the borrow of a difference."""
_FAMILIES: Final = {"add": "addc", "sub": "subc", "mad": "madc"}


@rewrites(*_FAMILIES, *_FAMILIES.values())
def _with_carry(instr: Instr) -> Instr:
    """Make CC.CF an operand of add.cc, addc, ...

    The destination is d|CARRY if the instruction writes it. The last source is CARRY if it reads it, else 0.
    """
    takes = instr.opcode in _FAMILIES.values()
    if not takes and "cc" not in instr.modifiers:
        return instr
    to, *sources = instr.operands
    to = Dual(to, CARRY) if "cc" in instr.modifiers else to
    return replace(
        instr, opcode=_FAMILIES.get(instr.opcode, instr.opcode), operands=(to, *sources, CARRY if takes else Imm(0))
    )


@lowers("addc", "subc", "madc", uniform=if_sources_uniform)
def extended(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower addc, subc and madc.

    Computes a + b + carry, a - b - borrow, or half of a*b + c + carry; .cc writes the carry.
    """
    type_name = m.last()
    if type_name not in ("u32", "s32", "u64", "s64"):
        raise m.unsupported(f"type .{type_name}")
    kind, signed = INTEGERS[type_name]
    m.flag("cc")
    part = m.choice("lo", "hi") if ins.opcode == "madc" else ""
    to, *sources, incoming = ins.operands
    a, b, *c = (builder.read(source, kind) for source in sources)
    if part:
        a, b = integer.multiply_high(a, b, signed) if part == "hi" else a * b, c[0]
    result, carry = (_difference if ins.opcode == "subc" else _sum)(a, b, builder.read(incoming, "i1").zext(kind))
    if isinstance(to, Dual):
        builder.write(to.p, carry)
        to = to.d
    builder.write(to, result)


def _sum(a: Vec, b: Vec, carry: Vec) -> tuple[Vec, Vec]:
    partial = a + b
    total = partial + carry
    return total, partial.compare("ult", a) | total.compare("ult", partial)


def _difference(a: Vec, b: Vec, borrow: Vec) -> tuple[Vec, Vec]:
    partial = a - b
    return partial - borrow, a.compare("ult", b) | partial.compare("ult", borrow)
