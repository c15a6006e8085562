"""Warp collectives without waiting: elect, shuffles, votes, matches, reductions, and bar.warp.sync."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add, and_, or_, xor
from typing import Any

import numpy as np

from ..chip import ALL_LANES, LANES
from ..errors import UnknownInstruction
from ..machine.convergence import lane_bits
from ..machine.topology import Warp
from ..native.builder import Builder
from ..native.code import Body
from ..native.vector import Vec, helper, template
from ..ptx.syntax import Dual, Imm, Instr, Operand
from .lane_values import active_lanes, per_lane
from .registry import (
    Modifiers,
    Timing,
    always_uniform,
    if_sources_uniform,
    lowers,
    never_communicates,
    never_uniform,
    performs,
)

_MODES = ("idx", "up", "down", "bfly")


@lowers("activemask", uniform=always_uniform)
def activemask(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower activemask: the lanes that execute this instruction."""
    m.choice("b32")
    builder.write(ins.operands[0], ballot(builder.taking_part))


@performs("bar.warp.sync", membermask=True, joins_lanes=True, timing=Timing.FREE, communicates=never_communicates)
def _warp_sync(ins: Instr, warp: Warp, mask: Any, members: Any) -> None:
    """Order the lanes' accesses. There is nothing to wait for, since the lanes of a warp run together."""
    if mask is None and type(members) is int and members & ALL_LANES == ALL_LANES:
        warp.sync_lanes()
        return
    here = lane_bits(mask)
    named = per_lane(members, np.uint32)
    for those in set(named[list(active_lanes(mask))].tolist()):
        meeting = those & here & lane_bits(named == those)
        # A lane that has ended counts as one that came if the mask names it.
        if meeting | those & warp.ended | warp.absent == ALL_LANES:
            warp.sync_lanes()
        else:
            warp.sync_some_lanes(meeting)


def if_members_uniform(ins: Instr) -> Sequence[Operand]:
    """Return the operands that decide uniformity: the membermask, besides the active lanes."""
    return ins.operands[-1:]


def _participants(builder: Builder, members: Operand) -> Vec:
    """Return the lanes that participate with each lane.

    A membermask in a register may form several groups within one instruction. A lane that executes the instruction but
    is
    not in a constant membermask is reported (`convergence.report_nonmembers`) and participates, as on an H200.
    """
    present = ballot(builder.taking_part)
    return present if isinstance(members, Imm) else present & builder.read(members, "i32")


@lowers("elect.sync", membermask=True, uniform=(if_members_uniform, never_uniform))
def elect(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower elect.sync: the lowest participating lane, and whether it is this one."""
    to, members = ins.operands
    present = _participants(builder, members)
    leader = builder.code.intrinsic("cttz", present, flags="i1 false")
    if isinstance(to, Dual):
        builder.write(to.p, leader.compare("eq", lane_ids(builder)))
        to = to.d
    builder.write(to, leader)


def if_one_source_lane(ins: Instr) -> Sequence[Operand] | None:
    """Return the operands that decide uniformity of a shuffle: uniform if all lanes read one lane of one segment."""
    match ins.operands:
        case (_, _, lane, Imm(clamp), _) if "idx" in ins.modifiers and clamp & 0x1F1F == 31:
            return (lane,)
    return None


@lowers("shfl.sync", membermask=True, timing=Timing.SHUFFLE, uniform=if_one_source_lane)
def shuffle(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower shfl.sync: d = a of another lane; p = whether that lane is in range."""
    mode = m.choice(*_MODES)
    m.choice("b32")
    to, source, distance, clamp, _ = ins.operands
    a, b, c = builder.read(source, "i32"), builder.read(distance, "i32") & 31, builder.read(clamp, "i32")
    segment = c.shr(8) & 31
    lane = lane_ids(builder)
    lowest = lane & segment
    highest = lowest | (c & 31 & ~segment)
    if mode == "idx":
        chosen = lowest | (b & ~segment)
    else:
        chosen = {"up": Vec.__sub__, "down": Vec.__add__, "bfly": Vec.__xor__}[mode](lane, b)
    inside = chosen.compare("sge", highest) if mode == "up" else chosen.compare("sle", highest)
    from_lane = inside.select(chosen, lane)
    if isinstance(to, Dual):
        builder.write(to.p, inside)
        to = to.d
    builder.write(to, permute_lanes(a, from_lane))


@helper("i32", "i32", "i32")
def permute_lanes(a: Vec, from_lane: Vec) -> Vec:
    """Return each lane's value taken from the lane that it names (below 32)."""
    code = _body(a)
    memory = code.scalar("alloca <32 x i32>, align 128")
    code.do(f"store <32 x i32> {a.place}, ptr {memory}, align 128")
    result = "poison"
    for lane in range(LANES):
        index = code.scalar(f"extractelement <32 x i32> {from_lane.place}, i32 {lane}")
        inside = code.scalar(f"and i32 {index}, 31")
        place = code.scalar(f"getelementptr i32, ptr {memory}, i32 {inside}")
        value = code.scalar(f"load i32, ptr {place}, align 4")
        result = code.scalar(f"insertelement <32 x i32> {result}, i32 {value}, i32 {lane}")
    return Vec(code, result, "i32")


@lowers("vote.sync", membermask=True, uniform=if_members_uniform)
def vote(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower vote.sync: all, any, uni over the participating lanes, or their ballot."""
    mode = m.choice("all", "any", "uni", "ballot")
    m.choice("pred", "b32")
    to, predicate, members = ins.operands
    present = _participants(builder, members)
    heard = ballot(builder.read(predicate, "i1")) & present
    if mode == "ballot":
        builder.write(to, heard)
        return
    every, none = heard.compare("eq", present), heard.compare("eq", 0)
    builder.write(to, {"all": every, "any": ~none, "uni": every | none}[mode])


@lowers("match.any.sync", "match.all.sync", membermask=True, uniform=if_sources_uniform)
def match(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower match.sync: the lanes with the same value.

    match.all gives every participating lane or none, and whether they agree.
    """
    wide = m.choice("b32", "b64") == "b64"
    to, source, members = ins.operands
    a = builder.read(source, "i64") if wide else builder.read(source, "i32").zext("i64")
    present = _participants(builder, members)
    same = equal_lanes(a) & present
    if ins.opcode == "match.all.sync":
        agreed = ballot(same.compare("eq", present)) & present
        everyone = agreed.compare("eq", present)
        same = everyone.select(present, builder.code.constant(0, "i32"))
        if isinstance(to, Dual):
            builder.write(to.p, everyone)
            to = to.d
    builder.write(to, same)


@helper("i32", "i64")
def equal_lanes(a: Vec) -> Vec:
    """Return in bit n of each lane whether lane n holds the same value."""
    result = a.code.constant(0, "i32")
    for lane in range(LANES):
        other = _splat(a, lane)
        bit = a.code.constant(1 << lane, "i32")
        result = result | a.compare("eq", other).select(bit, a.code.constant(0, "i32"))
    return result


def _splat(a: Vec, lane: int) -> Vec:
    kind = f"<32 x {a.kind}>"
    text = f"shufflevector {kind} {{0}}, {kind} poison, <32 x i32> splat (i32 {lane})"
    return a.code.new(template(text, a.kind), (a,))


_IDENTITY = {"add": 0, "and": -1, "or": 0, "xor": 0, "umin": -1, "umax": 0, "smin": 0x7FFF_FFFF, "smax": 0x8000_0000}


@lowers("redux.sync", membermask=True, uniform=if_members_uniform)
def reduce(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower redux.sync: reduce the participating lanes, or each group of them."""
    type_name = m.last()
    op = m.choice("add", "and", "or", "xor", "min", "max")
    if type_name == "f32" and op in ("min", "max"):
        _reduce_floats(builder, ins, op, m.flag("abs"), m.flag("NaN"))
        m.done()
        return
    m.done()
    if type_name not in (("b32",) if op in ("and", "or", "xor") else ("u32", "s32")):
        raise UnknownInstruction(ins, f".{op}.{type_name}")
    name = ("s" if type_name == "s32" else "u") + op if op in ("min", "max") else op
    to, source, members = ins.operands
    builder.write(to, _reduced(builder, name, builder.read(source, "i32"), members))


def _reduced(builder: Builder, name: str, values: Vec, members: Operand) -> Vec:
    if not isinstance(members, Imm):
        return _reduce_groups(values, _participants(builder, members), name)
    return _reduce_warp(builder.taking_part.select(values, builder.code.constant(_IDENTITY[name], "i32")), name)


def _reduce_floats(builder: Builder, ins: Instr, op: str, absolute: bool, propagate: bool) -> None:
    """Reduce floats by min or max as integers in the same order. NaN wins if it propagates, else loses."""
    to, source, members = ins.operands
    constant = builder.code.constant
    name, other = ("smin", "smax") if op == "min" else ("smax", "smin")
    bits = builder.read(source, "i32")
    bits = bits & 0x7FFF_FFFF if absolute else bits
    nan = constant(_IDENTITY[other if propagate else name], "i32")
    keys = _is_nan(bits).select(nan, _in_order(bits))
    result = _in_order(_reduced(builder, name, keys, members))
    builder.write(to, _is_nan(result).select(constant(0x7FFF_FFFF, "i32"), result))


def _in_order(bits: Vec) -> Vec:
    """Map float bits to signed integers of the same order, and back."""
    return bits ^ (bits.sar(31) & 0x7FFF_FFFF)


def _is_nan(bits: Vec) -> Vec:
    return (bits & 0x7FFF_FFFF).compare("ugt", 0x7F80_0000)


@helper("i32", "i32")
def _reduce_warp(a: Vec, name: str) -> Vec:
    code = _body(a)
    function = f"i32 @llvm.vector.reduce.{name}.v32i32"
    code.declarations.add(f"declare {function}(<32 x i32>)")
    return _spread(code, code.scalar(f"call {function}(<32 x i32> {a.place})"))


_FOLDS: dict[str, Callable[[Vec, Vec], Vec]] = {"add": add, "and": and_, "or": or_, "xor": xor}


@helper("i32", "i32", "i32")
def _reduce_groups(a: Vec, present: Vec, name: str) -> Vec:
    nothing = result = a.code.constant(_IDENTITY[name], "i32")
    for lane in range(LANES):
        one = (present & (1 << lane)).compare("ne", 0).select(_splat(a, lane), nothing)
        result = _FOLDS[name](result, one) if name in _FOLDS else a.code.intrinsic(name, result, one)
    return result


def lane_ids(builder: Builder) -> Vec:
    """Return 0, 1, ... 31."""
    ids = ", ".join(f"i32 {lane}" for lane in range(LANES))
    return builder.code.new(template(f"freeze <32 x i32> <{ids}>", "i32"), ())


@helper("i32", "i1")
def ballot(predicate: Vec) -> Vec:
    """Return a predicate as one word, the same in every lane."""
    code = _body(predicate)
    return _spread(code, code.scalar(f"bitcast <32 x i1> {predicate.place} to i32"))


def _spread(code: Body, word: str) -> Vec:
    return Vec(code, code.splat("i32", word), "i32")


def _body(value: Vec) -> Body:
    """Return the IR function that a helper's argument belongs to."""
    assert isinstance(value.code, Body)
    return value.code
