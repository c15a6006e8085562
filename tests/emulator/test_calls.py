"""printf, assertions, traps and exits of device code."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.errors import Fault, UnknownInstruction
from emulator.machine.execution.scheduler import RunOptions, run
from emulator.machine.launch.launch import Launch
from emulator.modules import load
from emulator.program import Program
from emulator.ptx.parser import parse
from tests.emulator.ptx_kernel import launch, source

VPRINTF = ".extern .func (.param .b32 func_retval0) vprintf (.param .b64 a, .param .b64 b);\n"
CALL = """
{ .param .b64 param0; .param .b64 param1; .param .b32 retval0;
st.param.b64 [param0], %q1; st.param.b64 [param1], %q2;
call.uni (retval0), vprintf, (param0, param1);
ld.param.b32 %r9, [retval0]; }
"""


def text_variable(text: str) -> str:
    values = ", ".join(str(b) for b in text.encode() + b"\0")
    return f"{VPRINTF}.global .align 1 .b8 format[{len(text.encode()) + 1}] = {{{values}}};"


def run_with_format(body: str, text: str) -> None:
    """Run a body of 64 threads that uses the string `format`."""
    module = load(source(body, 0, outside=text_variable(text), block=64))
    run(Launch(module.kernel("k"), (1, 1, 1), (64, 1, 1), 0), module.program("k"), RunOptions("eager"))


def test_printf_names_cta_and_thread_and_formats_like_c(capsys: pytest.CaptureFixture[str]) -> None:
    body = f"""
    .local .align 8 .b8 depot[32]; .reg .b64 %SP; .reg .b64 %SPL;
    mov.u64 %SPL, depot; cvta.local.u64 %SP, %SPL;
    st.local.u32 [%SPL], %t; mov.b64 %q5, 0d3FF8000000000000; st.local.f64 [%SPL+8], %q5;
    mov.b64 %q6, -5; st.local.u64 [%SPL+16], %q6; mov.b32 %r1, 90; st.local.u32 [%SPL+24], %r1;
    mov.u64 %q4, format; cvta.global.u64 %q1, %q4; mov.b64 %q2, %SP;
    setp.ge.u32 %p0, %t, 62; @!%p0 bra END; {CALL} END: ret;
    """
    run_with_format(body, "%03u|%.2f|%lld|%c|%%\n")
    assert capsys.readouterr().out.splitlines() == [
        "CTA (0,0,0) thread (62,0,0): 062|1.50|-5|Z|%",
        "CTA (0,0,0) thread (63,0,0): 063|1.50|-5|Z|%",
    ]


def test_a_line_that_is_printed_in_parts_has_one_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    """As by CuTeDSL's print_tensor, which calls vprintf for each number."""
    part, end = "mov.u64 %q4, format; cvta.global.u64 %q1, %q4; mov.b64 %q2, 0;", "add.u64 %q1, %q1, 3;"
    body = f"setp.eq.u32 %p0, %t, 0; @!%p0 bra END; {part} {CALL} {CALL} {end} {CALL} {part} {CALL} END: ret;"
    run_with_format(body, "ab\0c\n")
    assert capsys.readouterr().out == "CTA (0,0,0) thread (0,0,0): ababc\nCTA (0,0,0) thread (0,0,0): ab"


@pytest.mark.parametrize("stop", ["trap", "brkpt"])
def test_a_stop_ends_the_launch_naming_line_and_warp(stop: str) -> None:
    text = source(f"setp.eq.u32 %p0, %t, 40; @%p0 {stop}; ret;", block=64)
    with pytest.raises(Fault, match=rf"(?s)executed a {stop}.*PTX line 13.*warp 1 of CTA \(0,0,0\)"):
        launch(text, np.zeros(1, np.uint32), block=64)


def test_threads_that_exit_leave_the_others_running() -> None:
    out = np.zeros(64, np.uint32)
    text = source("""
    setp.lt.u32 %p0, %t, 20; add.u64 %q0, %a0, %b; mov.u32 %r0, 1; st.global.u32 [%q0], %r0;
    @%p0 exit; bar.sync 0; mov.u32 %r0, 2; st.global.u32 [%q0], %r0; exit;
    """, block=64)  # fmt: skip
    launch(text, out, block=64)
    assert out.tolist() == [1] * 20 + [2] * 44


def test_a_failed_assertion_tells_its_message() -> None:
    texts = {"what": "x > 0", "file": "kernel.py", "func": "body"}
    outside = "".join(
        f".global .align 1 .b8 {name}[{len(t) + 1}] = {{{', '.join(str(b) for b in t.encode() + bytes(1))}}};\n"
        for name, t in texts.items()
    )
    body = """
    { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;
    mov.u64 %q1, what; st.param.b64 [a], %q1; mov.u64 %q2, file; st.param.b64 [b], %q2;
    mov.b32 %r1, 77; st.param.b32 [c], %r1; mov.u64 %q3, func; st.param.b64 [d], %q3;
    mov.b64 %q4, 1; st.param.b64 [e], %q4; call.uni __assertfail, (a, b, c, d, e); } ret;
    """
    from emulator.machine.execution.scheduler import RunOptions, run
    from emulator.machine.launch.launch import Launch
    from emulator.modules import load

    module = load(source(body, 0, outside=outside))
    with pytest.raises(Fault, match=r"(?s)assertion failed: x > 0.*kernel.py:77, in body"):
        run(Launch(module.kernel("k"), (1, 1, 1), (32, 1, 1), 0), module.program("k"), RunOptions("eager"))


def test_other_functions_are_refused_by_name() -> None:
    text = source("{ .param .b64 param0; call.uni malloc, (param0); } ret;", 0)
    with pytest.raises(UnknownInstruction, match="a call of malloc"):
        Program(parse(text).kernels["k"])
