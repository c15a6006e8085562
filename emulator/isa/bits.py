"""Bit operations: logic, shifts, byte permutations and bit fields."""

from __future__ import annotations

from ..native.builder import Builder
from ..native.vector import Vec, helper
from ..ptx.syntax import Dual, Imm, Instr, Operand
from . import integer
from .registry import Modifiers, Timing, if_sources_uniform, lowers

_WORDS = {f"b{n}": f"i{n}" for n in (16, 32, 64)}
_WIDE_WORDS = {"b32": "i32", "b64": "i64"}
_INTEGERS = {f"{k}{n}": (f"i{n}", k == "s") for k in "us" for n in (16, 32, 64)}
_WIDE_INTEGERS = {f"{k}{n}": (f"i{n}", k == "s") for k in "us" for n in (32, 64)}
_LOGIC = {"and": Vec.__and__, "or": Vec.__or__, "xor": Vec.__xor__}


def _of_words(ins: Instr) -> bool:
    return not {"s32", "u32", "b32"}.isdisjoint(ins.modifiers)


def _any_logic(ins: Instr) -> tuple[str, ...]:
    """Return the opcodes that ptxas merges a logic operation on words with (LOP3)."""
    return tuple(_LOGIC) if _of_words(ins) else ()


def _scaled_add(ins: Instr) -> tuple[str, ...]:
    """Return the opcode that ptxas merges a constant shift of a word with (IMAD)."""
    return ("add",) if _of_words(ins) and isinstance(ins.operands[-1], Imm) else ()


@lowers(*_LOGIC, merges=_any_logic, uniform=if_sources_uniform)
def logic(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower bitwise operations, also on predicates."""
    kind = m.kind(_WORDS | {"pred": "i1"})
    to, a, b = ins.operands
    builder.write(to, _LOGIC[ins.opcode](builder.read(a, kind), builder.read(b, kind)))


@lowers("not", timing=Timing.FREE, uniform=if_sources_uniform)
@lowers("cnot", uniform=if_sources_uniform)
def invert(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower not (~a) and cnot (a == 0)."""
    kind = m.kind(_WORDS | {"pred": "i1"} if ins.opcode == "not" else _WORDS)
    a = builder.read(ins.operands[1], kind)
    builder.write(ins.operands[0], ~a if ins.opcode == "not" else a.compare("eq", 0).zext(kind))


@lowers("shl", merges=_scaled_add, uniform=if_sources_uniform)
@lowers("shr", uniform=if_sources_uniform)
def shift(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower shifts. A count of at least the width shifts all bits out."""
    words = {name: (kind, False) for name, kind in _WORDS.items()}
    kind, signed = m.kind(words | _INTEGERS if ins.opcode == "shr" else words)
    to, a, count = ins.operands
    value = builder.read(a, kind)
    if isinstance(count, Imm) and 0 <= count.value < value.width:
        n = count.value
        builder.write(to, value.shl(n) if ins.opcode == "shl" else value.sar(n) if signed else value.shr(n))
        return
    by = builder.read(count, "i32")
    builder.write(to, integer.shift_left(value, by) if ins.opcode == "shl" else integer.shift_right(value, by, signed))


@lowers("shf", uniform=if_sources_uniform)
def funnel(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower shf: the upper (.l) or lower (.r) word of {b, a} shifted by c, with c wrapped at or clamped to 32."""
    m.choice("b32")
    direction, mode = m.choice("l", "r"), m.choice("wrap", "clamp")
    to, low, high, count = ins.operands
    both = builder.read(low, "i32").zext("i64") | builder.read(high, "i32").zext("i64").shl(32)
    by = builder.read(count, "i32")
    by = by & 31 if mode == "wrap" else integer.smaller(by, builder.code.constant(32, "i32"), False)
    wide = by.zext("i64")
    builder.write(to, (both.shl(wide).shr(32) if direction == "l" else both.shr(wide)).zext("i32"))


@lowers("lop3", uniform=if_sources_uniform)
def lop3(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower lop3: the function of three bits given by a table of eight; for d|p, p combines d != 0 with q."""
    m.choice("b32")
    combine = m.choice("or", "and", default="")
    m.done()
    to, *sources = ins.operands
    a, b, c = (builder.read(source, "i32") for source in sources[:3])
    table = sources[3]
    if not isinstance(table, Imm):
        raise m.unsupported("the lookup table must be a literal")
    ones, zeros = _of_two(b, c, table.value >> 4), _of_two(b, c, table.value & 15)
    result = (a & ones) | (~a & zeros)
    if isinstance(to, Dual):
        builder.write(to.p, _LOGIC[combine](result.compare("ne", 0), builder.read(sources[4], "i1")))
        to = to.d
    builder.write(to, result)


def _of_two(b: Vec, c: Vec, table: int) -> Vec:
    """Apply the function of two bits that is given by a table of four (bit 2b+c)."""
    ones, zeros = _of_one(c, table >> 2), _of_one(c, table & 3)
    return (b & ones) | (~b & zeros)


def _of_one(c: Vec, table: int) -> Vec:
    return {0: c.code.constant(0, c.kind), 1: ~c, 2: c, 3: c.code.constant(-1, c.kind)}[table]


@lowers("prmt", uniform=if_sources_uniform)
def permute(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower prmt: select four of the eight bytes of {b, a}."""
    m.choice("b32")
    mode = m.choice("f4e", "b4e", "rc8", "ecl", "ecr", "rc16", default="")
    to, a, b, selector = ins.operands
    low, high = builder.read(a, "i32"), builder.read(b, "i32")
    if mode:
        builder.write(to, _permute_mode(low, high, builder.read(selector, "i32"), mode))
    elif isinstance(selector, Imm):
        builder.write(to, _permute_fixed(low, high, selector.value))
    else:
        builder.write(to, permute_any(low, high, builder.read(selector, "i32")))


def _permute_fixed(low: Vec, high: Vec, selector: int) -> Vec:
    """Permute bytes by a constant selector. Bytes that move by the same distance move together."""
    groups: dict[tuple[bool, int], int] = {}
    result: Vec | None = None
    for place in range(4):
        chosen = selector >> 4 * place & 15
        if chosen & 8:
            sign = (low if chosen & 4 == 0 else high).shl(24 - 8 * (chosen & 3)).sar(31) & 0xFF << 8 * place
            result = sign if result is None else result | sign
        else:
            key = (chosen >= 4, place - (chosen & 3))
            groups[key] = groups.get(key, 0) | 0xFF << 8 * place
    for (from_high, up), mask in groups.items():
        source = high if from_high else low
        moved = source.shl(8 * up) if up > 0 else source.shr(-8 * up) if up < 0 else source
        part = moved & mask
        result = part if result is None else result | part
    assert result is not None
    return result


@helper("i32", "i32", "i32", "i32")
def permute_any(low: Vec, high: Vec, selector: Vec) -> Vec:
    """Permute bytes by a selector that is known only at run time."""
    both = low.zext("i64") | high.zext("i64").shl(32)
    result = low.code.constant(0, "i32")
    for place in range(4):
        chosen = selector.shr(4 * place)
        byte = (both.shr((chosen & 7).shl(3).zext("i64")).zext("i32")) & 0xFF
        sign = byte.shl(24).sar(31) & 0xFF
        result = result | (chosen & 8).compare("ne", 0).select(sign, byte).shl(8 * place)
    return result


_MODES = {
    "f4e": ("3210", "4321", "5432", "6543"),
    "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"),
    "rc16": ("1010", "3232", "1010", "3232"),
}


def _permute_mode(low: Vec, high: Vec, selector: Vec, mode: str) -> Vec:
    """Permute bytes in a special mode: the selector's two low bits choose one of four fixed permutations."""
    choice = selector & 3
    result = _permute_fixed(low, high, int(_MODES[mode][0], 16))
    for i in (1, 2, 3):
        result = choice.compare("eq", i).select(_permute_fixed(low, high, int(_MODES[mode][i], 16)), result)
    return result


@lowers("popc", "clz", "brev", uniform=if_sources_uniform)
def count(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower popc, clz and brev."""
    kind = m.kind(_WIDE_WORDS)
    a = builder.read(ins.operands[1], kind)
    if ins.opcode == "brev":
        builder.write(ins.operands[0], builder.code.intrinsic("bitreverse", a))
    elif ins.opcode == "popc":
        builder.write(ins.operands[0], builder.code.intrinsic("ctpop", a).zext("i32"))
    else:
        builder.write(ins.operands[0], builder.code.intrinsic("ctlz", a, flags="i1 false").zext("i32"))


@lowers("bfind", uniform=if_sources_uniform)
def bfind(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower bfind: the highest bit that differs from the sign (unsigned: that is set), or -1."""
    kind, signed = m.kind(_WIDE_INTEGERS)
    from_top = m.flag("shiftamt")
    a = builder.read(ins.operands[1], kind)
    if signed:
        a = a ^ a.sar(a.width - 1)
    zeros = builder.code.intrinsic("ctlz", a, flags="i1 false").zext("i32")
    place = zeros if from_top else builder.code.constant(a.width - 1, "i32") - zeros
    builder.write(ins.operands[0], a.compare("eq", 0).select(builder.code.constant(-1, "i32"), place))


@lowers("bfe", uniform=if_sources_uniform)
def extract(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower bfe: `len` bits from `pos`, zero- or sign-extended. Bits above the top are copies of the sign."""
    kind, signed = m.kind(_WIDE_INTEGERS)
    to, source, position, length = ins.operands
    a = builder.read(source, kind)
    pos, size = _byte(builder, position, a.width), _byte(builder, length, a.width)
    moved = integer.shift_right(a, pos, signed)
    ones = ~integer.shift_left(builder.code.constant(-1, a.kind), size)
    field = moved & ones
    if signed:
        last = integer.smaller(pos + size - 1, builder.code.constant(a.width - 1, "i32"), False)
        sign = integer.shift_right(a, last, False) & 1
        field = (sign.compare("ne", 0) & size.compare("ne", 0)).select(field | ~ones, field)
    builder.write(to, field)


@lowers("bfi", uniform=if_sources_uniform)
def insert(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower bfi: b with `len` bits from `pos` replaced by the low bits of a."""
    kind = m.kind(_WIDE_WORDS)
    to, source, into, position, length = ins.operands
    a, b = builder.read(source, kind), builder.read(into, kind)
    pos, size = _byte(builder, position, a.width), _byte(builder, length, a.width)
    ones = integer.shift_left(~integer.shift_left(builder.code.constant(-1, kind), size), pos)
    builder.write(to, (b & ~ones) | (integer.shift_left(a, pos) & ones))


@lowers("bmsk", uniform=if_sources_uniform)
def mask(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower bmsk: b ones from bit a on; both are clamped to 32 or wrapped at it."""
    m.choice("b32")
    mode = m.choice("clamp", "wrap")
    to, start, length = ins.operands
    pos, size = builder.read(start, "i32"), builder.read(length, "i32")
    if mode == "wrap":
        pos, size = pos & 31, size & 31
    builder.write(to, integer.shift_left(~integer.shift_left(builder.code.constant(-1, "i32"), size), pos))


@lowers("szext", uniform=if_sources_uniform)
def sign_extend(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower szext: the low b bits of a, sign- or zero-extended."""
    signed = m.choice("s32", "u32") == "s32"
    mode = m.choice("clamp", "wrap")
    to, source, length = ins.operands
    a, size = builder.read(source, "i32"), builder.read(length, "i32")
    if mode == "wrap":
        size = size & 31
    gap = builder.code.constant(32, "i32") - integer.smaller(size, builder.code.constant(32, "i32"), False)
    builder.write(to, integer.shift_right(integer.shift_left(a, gap), gap, signed))


@lowers("sad", uniform=if_sources_uniform)
def absolute_difference(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower sad: c + |a - b|."""
    kind, signed = m.kind(_INTEGERS)
    to, x, y, z = ins.operands
    a, b, c = (builder.read(o, kind) for o in (x, y, z))
    less = a.compare("slt" if signed else "ult", b)
    builder.write(to, c + less.select(b - a, a - b))


@lowers("dp4a", timing=Timing.MULTIPLY, uniform=if_sources_uniform)
def dot4(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower dp4a: c plus the dot product of four bytes."""
    types = ins.modifiers
    if len(types) != 2 or not set(types) <= {"u32", "s32"}:
        raise m.unsupported(f"dp4a of {types}")
    second, first = m.last(), m.last()
    to, x, y, z = ins.operands
    total = builder.read(z, "i32")
    a, b = builder.read(x, "i32"), builder.read(y, "i32")
    for place in range(4):
        total = total + _extended(a, place, first) * _extended(b, place, second)
    builder.write(to, total)


@lowers("dp2a", uniform=if_sources_uniform)
def dot2(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower dp2a: c plus the products of a's two halves with the two low or two high bytes of b."""
    second, first = m.last(), m.last()
    part = m.choice("lo", "hi")
    m.done()
    if not {first, second} <= {"u32", "s32"}:
        raise m.unsupported(f"dp2a of {first} and {second}")
    to, x, y, z = ins.operands
    total, a, b = (builder.read(o, "i32") for o in (z, x, y))
    for place in range(2):
        half = a.shl(16 - 16 * place)
        half = half.sar(16) if first == "s32" else half.shr(16)
        total = total + half * _extended(b, place + 2 * (part == "hi"), second)
    builder.write(to, total)


def _extended(a: Vec, place: int, type_name: str) -> Vec:
    top = a.shl(24 - 8 * place)
    return top.sar(24) if type_name == "s32" else top.shr(24)


def _byte(builder: Builder, operand: Operand, width: int) -> Vec:
    """Return a position or length. PTX allows up to 255.

    Of larger values an H200 takes the low eight bits; in 64-bit forms it clamps to 255.
    """
    value = builder.read(operand, "i32")
    return value & 0xFF if width < 64 else integer.smaller(value, builder.code.constant(0xFF, "i32"), False)
