"""Functions of a module and their calls, and indexed branches, against Python."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.errors import PtxSyntaxError
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
    """What `body` leaves in %r9 of each of 64 threads, whose number is in %t."""
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


def test_recursion_is_refused_by_name() -> None:
    text = ".func f (.param .b32 a) { { .param .b32 b; st.param.b32 [b], 1; call f, (b); } ret; }"
    with pytest.raises(PtxSyntaxError, match="recursion of f"):
        called("{ .param .b32 b; st.param.b32 [b], 1; call f, (b); }", text)


def test_a_call_with_too_few_arguments_is_refused() -> None:
    with pytest.raises(PtxSyntaxError, match="1 arguments and results; gcd has 3"):
        called("{ .param .b32 b; call gcd, (b); }")


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
