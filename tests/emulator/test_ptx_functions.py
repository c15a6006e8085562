"""Device functions, their calls, and indexed branches, against Python."""

from __future__ import annotations

import numpy as np
import pytest

import emulator
from emulator.errors import Fault, LaunchError, PtxSyntaxError
from emulator.ptx.parser import parse
from tests.emulator.ptx_kernel import launch, source

GCD = """
.func (.param .b32 result) gcd (.param .b32 first, .param .b32 second)
{
.reg .pred %p<3>; .reg .b32 %r<5>;
ld.param.b32 %r1, [first]; ld.param.b32 %r2, [second];
LOOP: setp.eq.s32 %p1, %r2, 0; @%p1 bra DONE;
rem.u32 %r3, %r1, %r2; mov.b32 %r1, %r2; mov.b32 %r2, %r3; bra LOOP;
DONE: st.param.b32 [result], %r1; ret;
}
.visible .func (.param .b32 result) wide_gcd (.param .b32 first, .param .b64 second)
{
.reg .b64 %d<2>; .reg .b32 %r<3>; .reg .pred %p<2>;
ld.param.b32 %r1, [first]; ld.param.b64 %d1, [second]; cvt.u32.u64 %r2, %d1;
setp.lt.u32 %p1, %r1, 40; @!%p1 bra OTHER; st.param.b32 [result], 1; ret;
OTHER: { .param .b32 a; .param .b32 b; .param .b32 back;
st.param.b32 [a], %r1; st.param.b32 [b], %r2; call.uni (back), gcd, (a, b); ld.param.b32 %r1, [back]; }
st.param.b32 [result], %r1;
ret;
}
"""


def called(body: str, outside: str = GCD) -> np.ndarray:
    """Run `body` in 64 threads, whose number is in %t, and return %r9 of each."""
    out = np.zeros(64, np.uint32)
    text = source(f"{body} add.u64 %q9, %a0, %b; st.global.b32 [%q9], %r9; ret;", outside=outside, block=64)
    launch(text, out, block=64)
    return out


def test_calls_of_calls_with_loops_that_differ_by_thread() -> None:
    call = "{ .param .b32 x; .param .b64 y; .param .b32 z; st.param.b32 [x], %r1; st.param.b64 [y], %q1;"
    call += "call (z), wide_gcd, (x, y); ld.param.b32 %r2, [z]; }"
    got = called(f"mul.lo.u32 %r1, %t, 6; mov.b64 %q1, 84; {call} mov.b32 %r1, 90; {call} mad.lo.u32 %r9, %r2, 0, %r2;")
    assert got.tolist() == [int(np.gcd(90, 84))] * 64
    got = called(f"mul.lo.u32 %r1, %t, 6; mov.b64 %q1, 84; {call} mov.b32 %r9, %r2;")
    assert got.tolist() == [1 if 6 * t < 40 else int(np.gcd(6 * t, 84)) for t in range(64)]


def test_a_guarded_call_is_made_by_some() -> None:
    call = "setp.ge.u32 %p1, %t, 9; mov.b32 %r8, %t; mov.b32 %r7, 12; {go} mov.b32 %r9, %r5;"
    go = "{ .param .b32 x; .param .b32 y; .param .b32 z; st.param.b32 [x], %r8; st.param.b32 [y], %r7; mov.b32 %r5, 5;"
    go += "@%p1 call (z), gcd, (x, y); ld.param.b32 %r6, [z]; @%p1 mov.b32 %r5, %r6; }"
    assert called(call.format(go=go)).tolist() == [5 if t < 9 else int(np.gcd(t, 12)) for t in range(64)]


RECURSIVE = ".func f (.param .b32 a) { { .param .b32 b; st.param.b32 [b], 1; call f, (b); } ret; }"


def test_recursion_is_refused_by_name() -> None:
    with pytest.raises(PtxSyntaxError, match="recursion of f"):
        called("{ .param .b32 b; st.param.b32 [b], 1; call f, (b); }", RECURSIVE)


def test_a_call_with_too_few_arguments_is_refused() -> None:
    with pytest.raises(PtxSyntaxError, match="1 arguments or results where 2 are declared, in a call of gcd"):
        called("{ .param .b32 b; call gcd, (b); }")


SUM = """
.func (.param .align 16 .b8 result[20]) total (.param .align 8 .b8 numbers[16], .param .b32 more)
{
.reg .b32 %r<9>; .reg .b64 %d<3>;
ld.param.v2.b32 {%r1, %r2}, [numbers]; ld.param.b64 %d1, [numbers+8]; ld.param.b32 %r5, [more];
cvt.u32.u64 %r3, %d1; add.u32 %r4, %r1, %r2; add.u32 %r4, %r4, %r3; add.u32 %r4, %r4, %r5;
st.param.v4.b32 [result], {%r1, %r2, %r3, %r5}; st.param.b32 [result+16], %r4;
ret;
}
.func (.param .align 16 .b8 result[20]) outer (.param .align 16 .b8 numbers[16])
{
.reg .b32 %r<9>; .reg .b64 %d<3>;
{ .param .align 16 .b8 a[16]; .param .b32 b; .param .align 16 .b8 c[20];
ld.param.v2.b64 {%d1, %d2}, [numbers]; st.param.v2.b64 [a], {%d1, %d2}; st.param.b32 [b], 100;
call.uni (c), total, (a, b); ld.param.b32 %r1, [c+16]; }
st.param.b32 [result+16], %r1; ret;
}
"""


def test_structures_go_in_and_come_out() -> None:
    body = """
    { .param .align 16 .b8 a[16]; .param .align 16 .b8 c[20];
    add.u32 %r1, %t, 1; st.param.v2.b32 [a], {%t, %r1}; mov.b64 %q1, 7; st.param.b64 [a+8], %q1;
    call.uni (c), outer, (a); ld.param.b32 %r9, [c+16]; }
    """
    assert called(body, SUM).tolist() == [2 * t + 1 + 7 + 100 for t in range(64)]


def test_a_number_for_a_structure_is_refused() -> None:
    with pytest.raises(PtxSyntaxError, match="'a' is not an array, in a call of outer"):
        called("{ .param .b64 a; .param .align 16 .b8 c[20]; call.uni (c), outer, (a); }", SUM)


POINTERS = """
.func (.param .b32 r) twice (.param .b32 x)
{ .reg.b32 i,s,t; ld.param.b32 i, [x]; add.u32 s, i, i; st.param.b32 [r], s; ret; }
.func (.param .b32 r) square (.param .b32 x)
{ .reg .b32 %r; ld.param.b32 %r, [x]; mul.lo.u32 %r, %r, %r; st.param.b32 [r], %r; ret; }
.func (.param .b32 r) other (.param .b64 x) { st.param.b32 [r], 1; ret; }
.global .align 8 .u64 table[3] = {twice, square, other};
"""
BY_ADDRESS = """
{ .param .b32 x; .param .b32 y; st.param.b32 [x], %t;
shape: .callprototype (.param .b32 _) _ (.param .b32 _);
call (y), %q1, (x), shape; ld.param.b32 %r9, [y]; }
"""


def by_address(index: str) -> np.ndarray:
    out = np.zeros(64, np.uint32)
    at = f"{index} mul.wide.u32 %q2, %r1, 8; mov.u64 %q3, table; add.u64 %q3, %q3, %q2; ld.global.u64 %q1, [%q3];"
    text = source(f"{at} {BY_ADDRESS} add.u64 %q9, %a0, %b; st.global.b32 [%q9], %r9; ret;", outside=POINTERS)
    emulator.launch(text, args=[out], block=32)
    return out[:32]


def test_functions_by_their_address() -> None:
    assert by_address("and.b32 %r1, %t, 1;").tolist() == [t * t if t % 2 else 2 * t for t in range(32)]


def test_an_address_of_another_shape_stops_the_kernel() -> None:
    with pytest.raises(Fault, match="the call address or branch index is not a known target"):
        by_address("mov.b32 %r1, 2;")


def test_one_kernel_is_refused_and_the_others_run() -> None:
    text = source("{ .param .b32 b; st.param.b32 [b], 1; call f, (b); } ret;", outside=RECURSIVE)
    text += (
        ".visible .entry plain(.param .u64 out) { .reg .b64 %a; ld.param.u64 %a, [out]; st.global.u32 [%a], 3; ret; }"
    )
    out = np.zeros(1, np.uint32)
    emulator.launch(text, "plain", [out])
    assert out[0] == 3
    with pytest.raises(PtxSyntaxError, match="recursion of f"):
        emulator.launch(text, "k", [out])
    with pytest.raises(LaunchError, match="the module has plain, k"):
        emulator.launch(text, "neither", [out])


@pytest.mark.parametrize("guard", ["", "@%p1 ", "@!%p1 "])
def test_indexed_branches(guard: str) -> None:
    got = called(
        f"""rem.u32 %r1, %t, 4; setp.lt.u32 %p1, %t, 20; mov.b32 %r9, 1000;
TABLE: .branchtargets ONE, TWO, THREE, ONE;
{guard}brx.idx %r1, TABLE;
bra END;
ONE: add.u32 %r9, %t, 1; bra END;
TWO: add.u32 %r9, %t, 2;
THREE: add.u32 %r9, %r9, 3;
END:""",
        "",
    )

    def wanted(t: int) -> int:
        if guard and (t < 20) == ("!" in guard):
            return 1000
        return {0: t + 1, 1: t + 5, 2: 1003, 3: t + 1}[t % 4]

    assert got.tolist() == [wanted(t) for t in range(64)]


def test_an_index_beyond_the_targets() -> None:
    body = "T: .branchtargets A, B; brx.idx %r1, T; A: mov.b32 %r9, 1; bra END; B: mov.b32 %r9, 2; END:"
    assert called(f"and.b32 %r1, %t, 1; {body}", "").tolist() == [1, 2] * 32
    with pytest.raises(Fault, match="the call address or branch index is not a known target"):
        called(f"and.b32 %r1, %t, 3; {body}", "")


def test_indexed_branches_of_functions_have_tables_of_their_own() -> None:
    text = """.func (.param .b32 out) f (.param .b32 in) {{ .reg .b32 %r<3>; ld.param.b32 %r1, [in];
T: .branchtargets A, B; brx.idx.uni %r1, T;
A: st.param.b32 [out], {0}; ret;
B: st.param.b32 [out], {1}; ret; }}
"""
    call = "{{ .param .b32 x; .param .b32 z; and.b32 %r1, %t, 1; st.param.b32 [x], %r1; call (z), {}, (x);"
    call += "ld.param.b32 %r{}, [z]; }}"
    both = text.format(10, 20) + text.format(3, 4).replace(" f ", " g ")
    got = called(f"{call.format('f', 2)} {call.format('g', 3)} add.u32 %r9, %r2, %r3;", both)
    assert got.tolist() == [13, 24] * 32


def test_an_unknown_table_is_named() -> None:
    with pytest.raises(PtxSyntaxError, match=r"no \.branchtargets called 'NOWHERE'"):
        parse(source("brx.idx %r1, NOWHERE; ret;"))
