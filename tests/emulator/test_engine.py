"""Divergence, uniformity and register placement: small kernels against the result of each thread alone."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.engine.effects import effects
from emulator.engine.registers import Liveness, varying
from emulator.errors import BudgetExceeded, UnknownInstruction
from emulator.program import Program
from emulator.ptx.flow import Flow
from emulator.ptx.parser import parse
from tests.emulator.ptx_kernel import launch, results, source

LANES = np.arange(32)


def test_if_else() -> None:
    (got,) = results("setp.lt.u32 %p0, %t, 10; @%p0 bra A; mov.b32 %r0, 5; bra B; A: add.s32 %r0, %t, 100; B:")
    np.testing.assert_array_equal(got, np.where(LANES < 10, LANES + 100, 5))


def test_nested_branches() -> None:
    body = """
    mov.b32 %r0, 0;
    setp.lt.u32 %p0, %t, 16; and.b32 %r9, %t, 1; setp.eq.u32 %p1, %r9, 0; setp.lt.u32 %p2, %t, 8;
    @!%p0 bra OUT;
      @!%p1 bra ODD;
        add.s32 %r0, %r0, 1;
        @%p2 bra EVEN;
          add.s32 %r0, %r0, 10;
        EVEN: add.s32 %r0, %r0, 100;
        bra JOIN;
      ODD: add.s32 %r0, %r0, 1000;
      JOIN: add.s32 %r0, %r0, 10000;
    OUT: add.s32 %r0, %r0, 100000;
    """
    (got,) = results(body)

    def thread(t: int) -> int:
        r = 0
        if t < 16:
            if t % 2 == 0:
                r += 1
                if t >= 8:
                    r += 10
                r += 100
            else:
                r += 1000
            r += 10000
        return r + 100000

    assert got.tolist() == [thread(t) for t in range(32)]


def test_loops_that_each_thread_leaves_at_its_own_time() -> None:
    body = """
    mov.b32 %r0, 0; mov.b32 %r1, 0;
    LOOP: add.s32 %r0, %r0, %t; add.s32 %r1, %r1, 1; mul.lo.s32 %r2, %r1, 3;
    setp.lt.u32 %p0, %r1, %t; @%p0 bra LOOP;
    """
    got = results(body, 3)
    rounds = np.maximum(LANES, 1)
    np.testing.assert_array_equal(got[0], LANES * rounds)
    np.testing.assert_array_equal(got[1], rounds)
    np.testing.assert_array_equal(got[2], rounds * 3)


def test_break_and_continue() -> None:
    body = """
    mov.b32 %r0, 0; mov.b32 %r1, 0;
    HEAD: setp.eq.u32 %p0, %r1, %t; @%p0 bra BREAK;
    add.s32 %r1, %r1, 1;
    and.b32 %r9, %r1, 3; setp.eq.u32 %p1, %r9, 0; @%p1 bra HEAD;
    add.s32 %r0, %r0, %r1;
    setp.lt.u32 %p2, %r1, 20; @%p2 bra HEAD;
    BREAK:
    """
    got = results(body, 2)

    def thread(t: int) -> tuple[int, int]:
        total = i = 0
        while i != t:
            i += 1
            if i % 4 == 0:
                continue
            total += i
            if i >= 20:
                break
        return total, i

    assert list(zip(got[0].tolist(), got[1].tolist(), strict=True)) == [thread(t) for t in range(32)]


def test_threads_that_return_early_are_gone() -> None:
    out = np.zeros(32, np.uint32)
    body = """
    add.u64 %q0, %a0, %b; and.b32 %r1, %t, 3; setp.eq.u32 %p0, %r1, 1; @%p0 ret;
    setp.lt.u32 %p1, %t, 16; @%p1 bra LOW; mov.b32 %r0, 7; st.global.u32 [%q0], %r0; ret;
    LOW: activemask.b32 %r0; st.global.u32 [%q0], %r0; ret;
    """
    launch(source(body), out)
    low = sum(1 << t for t in range(16) if t % 4 != 1)
    assert out.tolist() == [0 if t % 4 == 1 else low if t < 16 else 7 for t in range(32)]


def test_guarded_memory_instructions_touch_only_their_lanes() -> None:
    out = np.full(32, 9, np.uint32)
    body = (
        "add.u64 %q0, %a0, %b; setp.lt.u32 %p0, %t, 4; @%p0 st.global.u32 [%q0], %t; @!%p0 st.global.u32 [%q0], 5; ret;"
    )
    launch(source(body), out)
    assert out.tolist() == [0, 1, 2, 3] + [5] * 28


def test_a_guarded_load_leaves_other_lanes_alone() -> None:
    out, table = np.zeros(32, np.uint32), np.arange(100, 132, dtype=np.uint32)
    body = """
    add.u64 %q0, %a0, %b; add.u64 %q1, %a1, %b; mov.b32 %r0, 1; setp.ge.u32 %p0, %t, 30;
    @%p0 ld.global.u32 %r0, [%q1]; st.global.u32 [%q0], %r0; ret;
    """
    launch(source(body, 2), out, table)
    assert out.tolist() == [1] * 30 + [130, 131]


def test_the_last_warp_of_an_odd_block_has_fewer_threads() -> None:
    (got,) = results("activemask.b32 %r0;", block=40)
    assert got.tolist() == [0xFFFF_FFFF] * 32 + [0xFF] * 8


def test_one_elected_thread_runs_a_loop() -> None:
    out = np.zeros(32, np.uint32)
    body = """
    elect.sync %r9|%p0, -1; @!%p0 bra END; mov.b32 %r1, 0; mov.b64 %q1, %a0;
    LOOP: st.global.u32 [%q1], %r1; add.u64 %q1, %q1, 4; add.s32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 8; @%p1 bra LOOP; END: ret;
    """
    launch(source(body), out)
    assert out.tolist() == [*range(8), *[0] * 24]


def test_halves_and_wholes_of_registers_that_cross_blocks() -> None:
    body = """
    mov.b64 %q0, {%t, 77}; mov.b32 %r5, {3, 4}; bra NEXT;
    NEXT: mov.b64 {%r0, %r1}, %q0; mov.b32 {%h1, %h2}, %r5; cvt.u32.u16 %r2, %h2; mov.b64 %q2, {%r1, %r0}; bra LAST;
    LAST: shr.u64 %q3, %q2, 32; cvt.u32.u64 %r3, %q3;
    """
    got = results(body, 4)
    assert got[0].tolist() == got[3].tolist() == LANES.tolist()
    assert set(got[1]) == {77} and set(got[2]) == {4}


def varying_names(body: str, row: bool = False) -> set[str]:
    kernel = parse(source(body)).kernels["k"]
    found = effects(kernel, {})
    flow = Flow(kernel, lambda instr: False)
    return {register.name for register in varying(flow, found, Liveness(flow, found), row)}


@pytest.mark.parametrize(
    ("body", "vary", "same"),
    [
        ("add.s32 %r0, %t, 1; mov.u32 %r1, %ctaid.x; add.s32 %r2, %r1, 3;", {"%t", "%r0"}, {"%r1", "%r2"}),
        ("shfl.sync.idx.b32 %r0, %t, 0, 31, -1; shfl.sync.bfly.b32 %r1, %t, 1, 31, -1;", {"%r1"}, {"%r0"}),
        ("elect.sync %r0|%p0, -1; vote.sync.any.pred %p1, %p0, -1;", {"%p0"}, {"%r0", "%p1"}),
        ("ld.param.u32 %r0, [p0]; ld.global.u32 %r1, [%a0]; ld.global.u32 %r2, [%q0];", set(), {"%r0", "%r1"}),
        # The loop counter of one elected thread is uniform over all counting threads; nothing reads it after the loop.
        (
            "elect.sync %r9|%p0, -1; @!%p0 bra E; mov.b32 %r1, 0; L: add.s32 %r1, %r1, 1;"
            "setp.lt.u32 %p1, %r1, 8; @%p1 bra L; E: ret;",
            {"%p0"},
            {"%r1", "%p1"},
        ),
        # Written on one side of a divergent branch and read where the sides reconverge.
        (
            "mov.b32 %r1, 0; setp.lt.u32 %p0, %t, 3; @%p0 bra E; mov.b32 %r1, 1; E: add.s32 %r2, %r1, 1;",
            {"%r1", "%r2"},
            set(),
        ),
        # Threads leave the loop at different times, with different counts.
        (
            "mov.b32 %r1, 0; L: add.s32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, %t; @%p0 bra L; add.s32 %r2, %r1, 1;",
            {"%r1", "%r2"},
            set(),
        ),
        ("setp.lt.u32 %p0, %t, 3; @%p0 mov.b32 %r1, 4; selp.b32 %r2, 1, 2, %p0;", {"%r1", "%r2"}, set()),
    ],
)
def test_uniformity(body: str, vary: set[str], same: set[str]) -> None:
    found = varying_names(body + "ret;")
    assert vary <= found
    assert not same & found


@pytest.mark.parametrize(
    ("body", "same"),
    [
        ("mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5;", True),
        ("mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 6;", True),
        ("mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 4;", False),
        ("mov.u32 %r0, %tid.y; shr.u32 %r1, %r0, 5;", False),
        ("mov.u32 %r0, %tid.x; add.u32 %r0, %r0, 1; shr.u32 %r1, %r0, 5;", False),
        ("mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 3; @%p0 shr.u32 %r1, %r0, 5;", False),
    ],
)
def test_the_number_of_a_warp_is_uniform_in_a_row_of_threads(body: str, same: bool) -> None:
    assert "%r1" in varying_names(body + "ret;")
    assert ("%r1" not in varying_names(body + "ret;", row=True)) == same


def test_what_is_not_implemented_is_refused_before_anything_runs() -> None:
    kernel = parse(source("bra END; wibble.s32 %r0, %r1; END: ret;")).kernels["k"]
    with pytest.raises(UnknownInstruction, match=r"opcode 'wibble'\n    wibble.s32 %r0, %r1;?\n    in kernel k$"):
        Program(kernel)


@pytest.mark.parametrize(
    "body",
    [
        *("add.weird.s32 %r0, %r1, %r2;", "mov.b32 %r0, nowhere;", "fma.rn.f32 %r0, %r1;"),
        *("mov.b64 {%r0, %q0}, %q1;", "mov.b64 {%h0, %r0}, %q1;", "mov.b64 {%r0, %r1}, %r2;"),
    ],
)
def test_forms_that_are_not_implemented_name_their_line(body: str) -> None:
    kernel = parse(source(body + "ret;")).kernels["k"]
    with pytest.raises(UnknownInstruction, match="PTX line 13: not implemented"):
        Program(kernel)


def test_a_form_that_is_not_implemented_is_named_in_ptx() -> None:
    kernel = parse(source("add.s32 %r0, [%r1+4], %r2; ret;")).kernels["k"]
    with pytest.raises(UnknownInstruction, match=r"\[%r1\+4\] is not a register\)"):
        Program(kernel)


def test_an_unknown_special_register() -> None:
    with pytest.raises(UnknownInstruction, match="%envreg3"):
        launch(source("mov.u32 %r0, %envreg3; st.global.u32 [%a0], %r0; ret;"), np.zeros(32, np.uint32))


def test_the_instruction_budget_ends_an_endless_loop() -> None:
    with pytest.raises(BudgetExceeded):
        launch(source("L: add.s32 %r0, %r0, 1; bra L;"), np.zeros(1, np.uint32), budget=1000)


def test_instructions_are_counted_as_executed() -> None:
    stats = launch(
        source("mov.b32 %r0, 0; L: add.s32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, 10; @%p0 bra L; ret;"), np.zeros(1)
    )
    prologue = 3
    assert stats.instructions == prologue + 1 + 10 * 3 + 1


def test_module_variables_and_symbols() -> None:
    from emulator.modules import load

    text = source(
        "mov.u64 %q0, table; st.global.u64 [%a0], %q0; ret;", outside=".global .align 8 .b8 table[4] = {1, 2, 3, 4};"
    )
    module = load(text)
    assert module.allocations == [(module.variables["table"], 4, "table")]
    assert module.variables["table"] % 8 == 0
    assert module.program("k") is module.program("k")
