"""Comparisons: setp writes predicates, set writes numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..native.builder import Builder
from ..native.vector import Vec
from ..ptx.syntax import Dual, Instr, Operand
from . import floats
from .arithmetic import HALF_FLOATS, INTEGERS, WIDE_FLOATS, read_float
from .registry import Modifiers, if_sources_uniform, lowers

_SPELLED = {"eq": "eq", "ne": "ne", "lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}
_EQUALS = ("eq", "ne")
_ORDERS = (*_EQUALS, "lt", "le", "gt", "ge")
_OF_FLOATS = (*_ORDERS, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
_OF_INTEGERS = {"b": _EQUALS, "s": _ORDERS, "u": (*_SPELLED, "lt", "le", "gt", "ge")}
"""The relations of an integer type, by its first letter (PTX ISA 9.1, 9.7.6)."""
_FLUSHED = ("f16", "f16x2", "f32")
_COMBINE = {"and": Vec.__and__, "or": Vec.__or__, "xor": Vec.__xor__}


@lowers("setp", uniform=if_sources_uniform)
def setp(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower setp: p|q = (a rel b) op c, (not a rel b) op c. On packed halves p is the low result, q the high one."""
    type_name = m.last()
    relation = m.choice(*_relations(type_name))
    combine = m.choice(*_COMBINE, default="")
    flush = type_name in _FLUSHED and m.flag("ftz")
    m.done()
    to, a, b, *rest = ins.operands
    first, second = (to.d, to.p) if isinstance(to, Dual) else (to, None)
    if type_name.endswith("x2"):
        single = type_name.removesuffix("x2")
        widen, words = HALF_FLOATS[single][0], [builder.read(o, "i32") for o in (a, b)]
        halves = ([widen(word.shr(16 * i) & 0xFFFF) for word in words] for i in range(2))
        low, high = (_of_floats(each, relation, single, flush) for each in halves)
    else:
        low = _compare(builder, a, b, relation, type_name, flush, m)
        high = ~low
    if combine:
        other = builder.read(rest[0], "i1")
        low, high = _COMBINE[combine](low, other), _COMBINE[combine](high, other)
    builder.write(first, low)
    if second is not None:
        builder.write(second, high)


@lowers("set", uniform=if_sources_uniform)
def set_number(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower set: d = (a rel b) op c as all ones or, for f32, as 1.0."""
    type_name, result = m.last(), m.last()
    relation = m.choice(*_relations(type_name))
    combine = m.choice(*_COMBINE, default="")
    flush = type_name in _FLUSHED and m.flag("ftz")
    m.done()
    to, a, b, *rest = ins.operands
    holds = _compare(builder, a, b, relation, type_name, flush, m)
    if combine:
        holds = _COMBINE[combine](holds, builder.read(rest[0], "i1"))
    if result not in ("u32", "s32", "f32"):
        raise m.unsupported(f"set into .{result}")
    yes = 0x3F80_0000 if result == "f32" else 0xFFFF_FFFF
    builder.write(to, holds.select(builder.code.constant(yes, "i32"), builder.code.constant(0, "i32")))


def _relations(type_name: str) -> Collection[str]:
    return _OF_INTEGERS[type_name[0]] if type_name in INTEGERS else _OF_FLOATS


def _compare(builder: Builder, a: Operand, b: Operand, relation: str, type_name: str, flush: bool, m: Modifiers) -> Vec:
    if type_name in INTEGERS:
        kind, signed = INTEGERS[type_name]
        spelled = _SPELLED.get(relation) or ("s" if signed else "u") + relation
        return builder.read(a, kind).compare(spelled, builder.read(b, kind))
    if type_name not in (*WIDE_FLOATS, *HALF_FLOATS):
        raise m.unsupported(f"type .{type_name}")
    return _of_floats((read_float(builder, o, type_name) for o in (a, b)), relation, type_name, flush)


def _of_floats(values: Iterable[Vec], relation: str, type_name: str, flush: bool) -> Vec:
    x, y = values
    if flush:
        x, y = ((floats.flush16 if type_name == "f16" else floats.flush)(value) for value in (x, y))
    return floats.compare(x, y, relation)


@lowers("testp", uniform=if_sources_uniform)
def testp(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower testp: classify a floating-point number."""
    kind = {"f32": "float", "f64": "double"}[m.last()]
    question = m.choice("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    a = builder.read(ins.operands[1], kind)
    size = floats.as_bits(floats.magnitude(a))
    infinity = 0x7F80_0000 if kind == "float" else 0x7FF0_0000_0000_0000
    smallest = floats.SMALLEST_NORMAL[kind]
    answers = {
        "finite": lambda: size.compare("ult", infinity),
        "infinite": lambda: size.compare("eq", infinity),
        "number": lambda: size.compare("ule", infinity),
        "notanumber": lambda: size.compare("ugt", infinity),
        "normal": lambda: (size.compare("uge", smallest) & size.compare("ult", infinity)) | size.compare("eq", 0),
        "subnormal": lambda: size.compare("ne", 0) & size.compare("ult", smallest),
    }
    builder.write(ins.operands[0], answers[question]())
