"""Declared properties of instruction families: varying results, inter-cluster communication; defaults are safe."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from emulator.coverage import read_forms
from emulator.engine.effects import effects
from emulator.engine.registers import Liveness, varying
from emulator.errors import UnknownInstruction
from emulator.isa import registry
from emulator.isa.lane_values import per_lane
from emulator.isa.registry import Modifiers, executes, lowers
from emulator.isa.warp_collectives import lane_ids
from emulator.native.builder import Builder
from emulator.program import Program
from emulator.ptx.flow import Flow
from emulator.ptx.kinds import KINDS, Kind, split
from emulator.ptx.parser import parse
from emulator.ptx.syntax import Instr, Kernel
from tests.emulator.one_instruction import Instructions
from tests.emulator.ptx_kernel import launch, source
from tests.tiers import shortened

LANES = np.arange(32)
PAIRS = [
    "setp.lt.u32 {to}, %r1, %r2;",
    "setp.ne.or.s32 {to}, %r1, %r2, %p9;",
    "setp.gt.f32 {to}, %r1, %r2;",
    "setp.le.f16x2 {to}, %r1, %r2;",
    "lop3.or.b32 {to}, %r1, %r2, %r1, 0x6c, %p9;",
    "elect.sync {to}, -1;",
    "shfl.sync.idx.b32 {to}, %r1, %r2, 31, -1;",
    "shfl.sync.idx.b32 {to}, %r1, 3, 0x1c07, -1;",
    "shfl.sync.up.b32 {to}, %r1, 1, 0, -1;",
    "shfl.sync.down.b32 {to}, %r1, %r2, 31, -1;",
    "shfl.sync.bfly.b32 {to}, %r1, 17, 15, -1;",
    "match.all.sync.b32 {to}, %r1, -1;",
    "add.cc.u32 {to}, %r1, %r2; addc.u32 %r9, 0, 0;",
    "sub.cc.s32 {to}, %r1, %r2; subc.cc.u32 %r9, %r2, 0;",
    "mad.lo.cc.u32 {to}, %r1, %r2, %r1; madc.hi.u32 %r9, %r1, %r2, 0;",
]
COLUMNS: list[Any] = [7, LANES, LANES // 16 * 0xFFFF_FFF0, np.r_[[5] * 31, 6]]


def kernel_of(body: str) -> Kernel:
    return parse(source(body + "ret;")).kernels["k"]


def varying_names(body: str) -> set[str]:
    kernel = kernel_of(body)
    found, flow = effects(kernel, {}), Flow(kernel, lambda instr: False)
    return {register.name for register in varying(flow, found, Liveness(flow, found))}


def destinations(form: str) -> list[str]:
    """Return a pair of destinations, and variants with a sink for either. A carry has no name and no sink."""
    if ".cc" in form:
        return ["%r0", "_"]
    first = "%p1" if form.startswith("setp") else "%r0"
    return [f"{first}|%p0", "_|%p0", f"{first}|_"]


def seen_by_branches(form: str, to: str, first: Any, second: Any) -> list[list[int]]:
    """Run `form` in a kernel that stores numbers and branches on predicates. Return %r0, %r9, %p0, %p1 by thread."""
    columns = [np.resize(np.asarray(column, np.int64), 32) % (1 << 32) for column in (first, second)]
    same = [len(set(column.tolist())) == 1 for column in columns]
    loads = "".join(
        f"mov.b32 %r{i}, {column[0]};" if one else f"add.u64 %q0, %a{i}, %b; ld.global.u32 %r{i}, [%q0];"
        for i, (column, one) in enumerate(zip(columns, same, strict=True), 1)
    )
    asks = "".join(f"mov.b32 %r{30 + i}, 0; @!%p{i} bra S{i}; mov.b32 %r{30 + i}, 1; S{i}:" for i in (0, 1))
    stores = "add.u64 %q1, %a0, %b;" + "".join(
        f"st.global.u32 [%q1+{128 * i}], {register};" for i, register in enumerate(("%r0", "%r9", "%r30", "%r31"))
    )
    start = "mov.b32 %r0, 99; mov.b32 %r9, 99; setp.ne.u32 %p0, %r0, %r0; mov.pred %p1, %p0; setp.eq.u32 %p9, %t, 3;"
    out = np.zeros((4, 32), np.uint32)
    body = start + loads + form.format(to=to) + asks + stores + "ret;"
    launch(source(body, 3), out, *(c.astype(np.uint32) for c in columns))
    return out.tolist()


@pytest.mark.parametrize("form", shortened(5, PAIRS))
def test_each_of_two_results_is_the_same_with_and_without_the_other(form: str) -> None:
    """In a kernel, where a result that is proved uniform is computed once, as in each lane by itself."""
    for to, first, second in itertools.product(destinations(form), COLUMNS, COLUMNS):
        alone = Instructions(form.format(to=to) + "mov.pred %p1, %p1; mov.pred %p0, %p0; mov.b32 %r0, %r0;")
        given = {"r0": 99, "r1": first, "r2": second, "r9": 99, "p0": False, "p1": False, "p9": LANES == 3}
        wanted = alone(**{name: value for name, value in given.items() if name in alone.names})
        got = dict(zip(("r0", "r9", "p0", "p1"), seen_by_branches(form, to, first, second), strict=True))
        for name in wanted.keys() & got.keys():
            assert got[name] == wanted[name].tolist(), (name, to, first, second)


def test_every_family_with_two_results_is_among_them() -> None:
    """d|p, or .cc for d and the carry."""
    families = {form.family for form in read_forms() if "|" in form.text or ".cc" in form.spelling}
    assert families == {split(text.split()[0])[0] for form in PAIRS for text in form.split(";") if text}


@pytest.mark.parametrize("form", PAIRS)
def test_a_sink_changes_nothing_about_the_other_result(form: str) -> None:
    start = "mov.b32 %r1, 1; mov.b32 %r2, %t; mov.pred %p9, 1;"
    both, *others = destinations(form)
    vary = varying_names(start + form.format(to=both))
    for to in others:
        kept = {name for name in both.split("|") if name in to}
        assert varying_names(start + form.format(to=to)) & kept == vary & kept


@pytest.fixture
def unsaid() -> Iterator[None]:
    """Two instructions without declarations: `wibble` acts on the machine, `wobble` computes.

    Both add the lane's number to their operand.
    """

    @executes("wibble", dst=1)
    def wibble(ins: Instr) -> registry.Action:
        return lambda warp, mask, value: per_lane(value, np.uint32) + LANES.astype(np.uint32)

    @lowers("wobble")
    def wobble(builder: Builder, ins: Instr, m: Modifiers) -> None:
        assert m.last() == "u32"
        builder.write(ins.operands[0], builder.read(ins.operands[1], "i32") + lane_ids(builder))

    yield
    del registry.HANDLERS["wibble"], registry.LOWERINGS["wobble"]


@pytest.mark.usefixtures("unsaid")
@pytest.mark.parametrize("opcode", ["wibble", "wobble"])
def test_results_of_which_nothing_is_said_may_vary(opcode: str) -> None:
    body = f"{opcode}.u32 %r0, 0;"
    assert "%r0" in varying_names(body)
    out = np.zeros(32, np.uint32)
    stop = "setp.lt.u32 %p0, %r0, 5; @%p0 bra E; add.u64 %q0, %a0, %b; st.global.u32 [%q0], %r0; E: ret;"
    launch(source(body + stop), out)
    assert out.tolist() == [0] * 5 + list(range(5, 32))


@pytest.mark.usefixtures("unsaid")
def test_clusters_may_meet_by_what_acts_on_the_machine_and_by_nothing_that_computes() -> None:
    assert not Program(kernel_of("wibble.u32 %r0, 0;")).independent
    assert Program(kernel_of("wobble.u32 %r0, 0;")).independent


@pytest.mark.parametrize("guard", ["", "@%p0 "])
def test_an_unexpected_exception_of_a_handler_names_its_instruction(guard: str) -> None:
    """Also for the second of two handlers in one block, and if its result does not fit the destination."""

    @executes("wibble", dst=1)
    def wibble(ins: Instr) -> registry.Action:
        return lambda warp, mask, value: np.zeros(7) if "u64" in ins.modifiers else 1 // np.asarray(value).item(0)

    body = "mov.pred %p0, 1; {0}wibble.u32 %r0, 1;\n{0}wibble.{1}, {2};\nret;"
    try:
        for form, zero, message in (("u32 %r1", 0, "ZeroDivisionError"), ("u64 %q1", 1, "ValueError")):
            text = source(body.format(guard, form, zero))
            with pytest.raises(UnknownInstruction, match=rf"this form of wibble \({message}") as caught:
                launch(text, np.zeros(1, np.uint32))
            assert f"wibble.{form}, {zero}" in caught.value.instr.text
    finally:
        del registry.HANDLERS["wibble"]


def test_special_registers_of_which_nothing_is_said_may_vary() -> None:
    assert "%r0" in varying_names("mov.u32 %r0, %wibble;")
    assert "%r0" not in varying_names("mov.u32 %r0, %ctaid.x;")


def test_every_kind_is_of_a_registered_instruction_or_control_flow() -> None:
    control_flow = {"bra", "ret", "exit"}
    assert set(KINDS) - control_flow <= {*registry.HANDLERS, *registry.LOWERINGS}
    assert set(KINDS.values()) == set(Kind) - {Kind.OTHER}
