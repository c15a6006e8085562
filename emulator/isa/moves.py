"""Data movement between registers: mov, cvta, isspacep, selections, and parameters at constant addresses."""

from __future__ import annotations

from dataclasses import replace

from ..chip import LOCAL_BASE, RANK_SHIFT, SHARED_BASE, WINDOW_BYTES
from ..native.builder import INTEGER_OF, Builder, Cell
from ..native.code import Body
from ..native.vector import Vec, helper
from ..ptx.kinds import FIXED_PARAMETER
from ..ptx.syntax import Address, Imm, Instr, Operand, Reg, Special, Vector
from . import floats
from .registry import Modifiers, Timing, if_sources_uniform, lowers, rewrites
from .special_registers import PARAMS

_BITS = {"pred": "i1"} | {f"{k}{n}": f"i{n}" for k in "bsuf" for n in (8, 16, 32, 64)}
_HALVES = {"b16": "b8", "b32": "b16", "b64": "b32", "b128": "b64"}


@lowers("mov", timing=Timing.FREE, uniform=if_sources_uniform)
def mov(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower mov as an alias of the source. {lo, hi} are joined only when the whole value is needed."""
    type_name = m.last()
    to, source = ins.operands
    if isinstance(source, Vector) and len(source.items) == 2 and isinstance(to, Reg):
        half = _HALVES[to.type]
        builder.alias(
            to, Cell(to.type, halves=(_half(builder, source.items[0], half), _half(builder, source.items[1], half)))
        )
    elif isinstance(to, Vector) and len(to.items) == 2 and isinstance(source, Reg):
        for item, half_cell in zip(to.items, builder.cell(source).split(), strict=True):
            builder.alias(item, half_cell)
    elif isinstance(source, Reg) and isinstance(to, Reg) and source.type == to.type:
        builder.alias(to, builder.cell(source))
    elif isinstance(source, Special) and type_name in ("u64", "b64", "s64") and builder.cell(source).type == "b32":
        builder.write(to, builder.read(source, "i32"))  # the address of a shared variable
    else:
        builder.write(to, builder.read(source, _BITS[type_name]))


def _half(builder: Builder, item: Operand, type_name: str) -> Cell:
    if isinstance(item, Reg) and item.type == type_name:
        return builder.cell(item)
    kind = INTEGER_OF[type_name]
    return Cell(type_name, {kind: builder.read(item, kind)})


@rewrites("ld")
def _with_fixed_parameter(instr: Instr) -> Instr:
    """Give ld.param of a constant address an opcode of its own; return any other load unchanged."""
    if "param" in instr.modifiers:
        address = instr.operands[1]
        if isinstance(address, Address) and isinstance(address.base, Imm):
            return replace(instr, opcode=FIXED_PARAMETER)
    return instr


def _parameters(ins: Instr) -> tuple[Special, ...]:
    """Return the register that holds the parameters' address if the instruction refers to their space."""
    return (PARAMS,) if any(part.startswith("param") for part in ins.modifiers) else ()


@lowers(FIXED_PARAMETER, timing=Timing.FREE, uniform=if_sources_uniform, implicit_reads=_parameters)
def parameter(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower a load of a parameter at a constant address."""
    type_name = m.last()
    count = int(m.choice("v2", "v4", "v8", default="v1")[1:])
    m.choice("param", "param::entry")
    m.done()
    to, address = ins.operands
    assert isinstance(address, Address) and isinstance(address.base, Imm)
    kind = _BITS[type_name]
    items = to.items if isinstance(to, Vector) else (to,)
    if len(items) != count:
        raise m.unsupported(f"{len(items)} registers for .v{count}")
    for place, item in enumerate(items):
        at = builder.read(PARAMS, "i64") + (address.base.value + place * int(kind[1:]) // 8)
        value = _load_parameter(at, kind)
        builder.write(
            item, value.sext(INTEGER_OF[item.type]) if type_name[0] == "s" and isinstance(item, Reg) else value
        )


def parameter_bytes(ins: Instr) -> int:
    """Return the bytes that an ld.param loads."""
    count = next((int(part[1:]) for part in ins.modifiers if part in ("v2", "v4", "v8")), 1)
    return count * int(_BITS[ins.modifiers[-1]][1:]) // 8


@helper(lambda address, kind: kind)
def _load_parameter(address: Vec, kind: str) -> Vec:
    code = address.code
    assert isinstance(code, Body)
    first = code.scalar(f"extractelement <32 x i64> {address.place}, i32 0")
    pointer = code.scalar(f"inttoptr i64 {first} to ptr")
    value = code.scalar(f"load {kind}, ptr {pointer}, align 1")
    return Vec(code, code.splat(kind, value), kind)


@lowers("cvta", timing=Timing.FREE, uniform=if_sources_uniform, implicit_reads=_parameters)
def cvta(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower cvta: convert between a state space and the generic address space."""
    kind = _BITS[m.choice("u32", "u64")]
    to_space = m.flag("to")
    space = m.choice("global", "const", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry")
    address = builder.read(ins.operands[1], kind)
    if space.startswith("shared") or space == "local":
        base: Vec | int = LOCAL_BASE if space == "local" else SHARED_BASE
    elif space.startswith("param"):
        base = builder.read(PARAMS, kind)
    else:
        base = 0
    builder.write(ins.operands[0], address - base if to_space else address + base)


@lowers("isspacep", uniform=if_sources_uniform)
def isspacep(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower isspacep: test whether a generic address lies in a state space."""
    space = m.choice("global", "const", "shared", "shared::cta", "shared::cluster", "local", "param")
    m.done()
    address = builder.read(ins.operands[1], "i64")
    if space.startswith("shared"):
        inside = (address - SHARED_BASE).compare("ult", WINDOW_BYTES)
    elif space == "local":
        inside = (address - LOCAL_BASE).compare("ult", WINDOW_BYTES)
    elif space == "global":
        inside = address.compare("ult", LOCAL_BASE)
    else:
        raise m.unsupported(f"isspacep of {space}")
    builder.write(ins.operands[0], inside)


@lowers("getctarank", uniform=if_sources_uniform)
def getctarank(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower getctarank: the cluster rank of the CTA whose shared memory contains an address."""
    m.choice("shared::cluster", default="")
    m.choice("u32", "u64")
    builder.write(ins.operands[0], builder.read(ins.operands[1], "i32").shr(RANK_SHIFT))


@lowers("selp", uniform=if_sources_uniform)
def selp(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower selp: d = p ? a : b."""
    kind = _BITS[m.last()]
    to, yes, no, predicate = ins.operands
    builder.write(to, builder.read(predicate, "i1").select(builder.read(yes, kind), builder.read(no, kind)))


@lowers("slct", uniform=if_sources_uniform)
def slct(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower slct: d = c >= 0 ? a : b."""
    by = m.last()
    kind = _BITS[m.last()]
    flush = m.flag("ftz")
    to, yes, no, what = ins.operands
    if by == "f32":
        number = builder.read(what, "float")
        sign = (floats.flush(number) if flush else number).compare("oge", 0.0)
    else:
        sign = builder.read(what, "i32").compare("sge", 0)
    builder.write(to, sign.select(builder.read(yes, kind), builder.read(no, kind)))
