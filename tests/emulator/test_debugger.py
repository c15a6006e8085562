"""The debugger: stops, steps, going back, and what it shows."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import pytest
from debug_programs import GEMM, bf16, core_matrices, operands
from ptx_launch import kernel

import emulator
from emulator.debug.console import Console
from emulator.errors import Deadlock
from emulator.machine.formats.cute_layouts import parse

ROOT = Path(__file__).parents[2]


def debugged(*commands: str, ptx: str = GEMM, completion: str = "lazy") -> str:
    """Return what the debugger says to commands on the product, whose result stays right."""
    a, b = operands()
    left, right, d = core_matrices(bf16(a)), core_matrices(bf16(b)), np.zeros((128, 32), np.float32)
    out = io.StringIO()
    with emulator.emulate(completion=completion) as device:  # type: ignore[arg-type]
        device.debug(commands, out)
        emulator.launch(ptx, None, [left, right, d], block=192)
    np.testing.assert_array_equal(d, a @ b.T)
    return out.getvalue()


def line(text: str) -> int:
    """Return the number of the only PTX line that holds `text`."""
    (found,) = (i for i, one in enumerate(GEMM.splitlines(), 1) if text in one)
    return found


def test_it_stops_before_the_first_instruction_and_at_lines() -> None:
    said = debugged(f"break ptx:{line('@load')} -w 2", "continue", "where")
    assert "launch 1: gemm, grid (1, 1, 1), block (192, 1, 1)" in said
    assert re.search(r"\[\d+\] breakpoint 1: warp 2 of CTA \(0,0,0\)\nPTX line \d+: tcgen05.ld", said)


def test_a_kernel_without_source_lines_takes_ptx_lines() -> None:
    assert "breakpoint 1" in debugged(f"break {line('@load')}", "continue")


def test_a_breakpoint_passes_hits() -> None:
    said = debugged(f"break {line('@load')} --after 2", "continue")
    assert "breakpoint 1: warp 2 of" in said, "warps 0 and 1 pass"


def test_a_line_without_instructions_names_its_neighbours() -> None:
    said = debugged("break ptx:81")
    assert "error: PTX line 81 has no instruction of gemm; lines that have: " in said
    assert "breakpoint" not in said


@pytest.mark.parametrize("text", ["x", "softmax.py:12", "ptx:0"])
def test_lines_that_are_none(text: str) -> None:
    assert "error: " in debugged(f"break {text}")


def test_it_stops_at_an_arrival() -> None:
    said = debugged("break mbarrier done", "continue", "barriers")
    assert "stop 1: arrival 1 at done (mbarrier #1" in said
    assert "by asynchronous work of warp 4 of CTA (0,0,0)\nPTX line" in said
    assert "mbarrier done (#1 at 0x1808): phase 1" in said


@pytest.mark.parametrize(
    ("watched", "by"),
    [
        ("smem address", "tcgen05.alloc"),
        ("smem sB", "cp.async.bulk"),
        ("tmem 5 7", "tcgen05.mma"),
        ("global d[40, 3]", "st.global"),
        ("mbarrier full", "cp.async.bulk"),
        ("reg %r22 -w 3", "add.s32 %r22"),
    ],
)
def test_it_watches(watched: str, by: str) -> None:
    said = debugged(f"watch {watched}", "continue", "where")
    assert re.search(r"\[\d+\] stop 1: .*changes.*\nby .*\nPTX line .*" + re.escape(by), said), said


def test_a_watch_says_the_values() -> None:
    a, b = operands()
    wanted = int((a @ b.T)[7, 5])
    assert f"({wanted}); 1 cells" in debugged("watch tmem 5 7", "continue")


def test_steps() -> None:
    said = debugged("stepi", "stepi 2", "step", "print %r1")
    at = [int(number) for number in re.findall(r"^\[(\d+)\]", said, re.MULTILINE)]
    assert at == [0, 1, 3, 4]
    assert "lanes  0 to  7: 0x0  0x1  0x2" in said


def test_it_goes_on_until_another_warp_waits() -> None:
    assert re.search(r"\[\d+\] warp 1 of CTA \(0,0,0\) waits\nPTX line \d+: bar.sync", debugged("block"))


def test_it_goes_back() -> None:
    stop = f"break {line('@load')} -w 0"
    said = debugged(stop, "continue", "back 3", "where", "continue", "goto 5", "where")
    first, back, again, early = re.findall(r"^\[(\d+)\] (?:breakpoint|back)", said, re.MULTILINE)
    assert int(back) < int(first) == int(again)
    assert early == "5"
    assert "global d" not in said


def test_going_back_restores_global_memory() -> None:
    said = debugged("watch global d[0, 0]", "continue", "back 1", "global d[0, 0:2]")
    assert re.search(r"\n +0 +0 +0\n$", said)


def test_too_far_back() -> None:
    assert "error: back 3: warp 0 of CTA (0,0,0) has executed 0 instructions" in debugged("back 3")


def test_memory_through_a_layout(tmp_path: Path) -> None:
    a, _ = operands()
    np.save(tmp_path / "a.npy", a)
    wrong = a.copy()
    wrong[100, 9] += 1
    np.save(tmp_path / "wrong.npy", wrong)
    there = f"break {line('@mma')}"
    shown = "smem sA '((8,16),(8,2)):((8,128),(1,64))' -t bf16 --diff"
    said = debugged(there, "continue", f"{shown} {tmp_path}/a.npy", f"{shown} {tmp_path}/wrong.npy")
    assert "equal to the reference" in said
    assert f"1 of 2048 elements differ (marked *), first at (100, 9): {a[100, 9]:.4g}, expected" in said
    assert f"{a[100, 9]:.5g}*" in said


def test_unwritten_memory_is_shown_as_such() -> None:
    assert re.search(r"\n +0( +\?)+\n", debugged("smem sA -t bf16", f"break {line('@load')}", "continue"))


def test_tensor_memory(tmp_path: Path) -> None:
    a, b = operands()
    np.save(tmp_path / "d.npy", a @ b.T)
    said = debugged(
        f"break {line('@load')}", "continue", f"tmem 0:32 -t f32 --diff {tmp_path}/d.npy --save {tmp_path}/x"
    )
    assert "equal to the reference" in said
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), a @ b.T)


def test_what_waits_for_what() -> None:
    said = debugged(f"break {line('@mma')}", "continue", "warps", "pending", "stepi", "pending")
    assert "  warp 3 of CTA (0,0,0): waits for parity 0 (phase 0) of done (mbarrier #1 at 0x1808)" in said
    assert "completed at" in said and "cp.async.bulk" in said
    assert re.search(r"in flight since \d+: warp 4 of .* tcgen05.mma", said)


def test_a_deadlock_ends_in_the_debugger() -> None:
    out = io.StringIO()
    ptx = GEMM.replace("_, [%r5], 5120", "_, [%r5], 5136")
    operands_ = [core_matrices(bf16(each)) for each in operands()]
    with emulator.emulate() as device, pytest.raises(Deadlock):
        device.debug(["continue", "warps", "barriers", "back 5", "where"], out)
        emulator.launch(ptx, None, [*operands_, np.zeros((128, 32), np.float32)], block=192)
    said = out.getvalue()
    assert "stopped by an error\nDeadlock: deadlock" in said
    assert "warp 4 of CTA (0,0,0): waits for " in said
    assert "16 bytes outstanding, waiting: warp 4" in said
    assert "back: warp" in said


def test_the_list_of_commands_and_unknown_ones() -> None:
    said = debugged("help", "help smem", "frobnicate")
    assert "barriers" in said and "CuTe layout" in said
    assert "error: unknown command 'frobnicate'; known: " in said


@pytest.mark.parametrize(
    "command",
    [
        "print %r999", "print", "stepi x", "back x", "goto x", "warp 99", "warp x", "smem nothing", "smem sA (2,3",
        "smem sA -t f99", "smem sA --swizzle 7", "tmem 0:4", "tmem x", "watch smem nothing", "watch global x",
        "delete 7",
        "watch other x", "global d[1,2,3]", "smem sA --diff /nowhere.npy", "break", "smem sA -c 7",
    ],
)  # fmt: skip
def test_wrong_commands_say_so(command: str) -> None:
    said = debugged(command, "stepi")
    assert "error: " in said and "[1] warp 0" in said, "the prompt goes on"


@pytest.mark.parametrize("completion", ["eager", "lazy", "random"])
def test_a_stepped_launch_finds_what_others_find(completion: str) -> None:
    """A suspect load, whose value is used, is reported alike."""
    ptx = GEMM.replace("tcgen05.wait::ld.sync.aligned;", "")
    a, b = (core_matrices(bf16(each)) for each in operands())
    reports = []
    for commands in (None, ["continue"]):
        with emulator.emulate(completion=completion) as device:  # type: ignore[arg-type]
            if commands is not None:
                device.debug(commands, io.StringIO())
            result = emulator.launch(ptx, None, [a, b, np.zeros((128, 32), np.float32)], block=192)
        reports.append(([str(fault) for fault in result.findings], result.instructions, result.by_warp))
    assert reports[0] == reports[1]


def test_only_chosen_launches_stop() -> None:
    ptx = kernel("one", ".param .u64 x", ".reg .b64 %rd<2>;\nld.param.b64 %rd1, [x];\nst.global.b32 [%rd1], 7;\nret;")
    out, x = io.StringIO(), np.zeros(1, np.int32)
    with emulator.emulate() as device:
        device.debug(["where"], out, launches=[2])
        for _ in range(3):
            emulator.launch(ptx, None, [x])
    assert out.getvalue().count("launch ") == 1 and "launch 2: one" in out.getvalue()


def test_the_command_line(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np, emulator, sys\n"
        "x = np.zeros(32, np.int32)\n"
        "ptx = '''.version 8.8\\n.target sm_100a\\n.address_size 64\\n.visible .entry one(.param .u64 x)\\n{\\n"
        ".reg .b64 %rd<2>;\\nld.param.b64 %rd1, [x];\\nst.global.b32 [%rd1], 7;\\nret;\\n}\\n'''\n"
        "emulator.launch(ptx, 'one', [x])\n"
        "print('x', x[0], sys.argv[1])\n"
    )
    command = [sys.executable, "-m", "emulator", "debug", "--command", "watch global x[0]", "--command", "continue"]
    done = subprocess.run([*command, str(script), "last"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "stop 1: x[0] of CTA (0,0,0) changes: 0 to 7" in done.stdout and done.stdout.endswith("x 7 last\n")


def test_the_prompt_reads_commands() -> None:
    source = (
        "import sys; sys.path.insert(0, 'tests/emulator')\nimport numpy as np, emulator\nfrom debug_programs import *\n"
        "with emulator.emulate() as device:\n    device.debug()\n    a, b = operands()\n"
        "    emulator.launch(GEMM, None, [core_matrices(bf16(a)), core_matrices(bf16(b)), np.zeros((128, 32), 'f4')],"
        " block=192)\nprint('over')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source],
        cwd=ROOT,
        input="stepi\n\nwhere\nquit\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert "[2] warp 0" in done.stdout, "an empty line repeats the step"
    assert done.stdout.endswith("over\n")


class Terminal:
    """The debugger's prompt at a terminal, on a kernel that never ends by itself."""

    def __init__(self, home: Path) -> None:
        source = (
            "import sys; sys.path.insert(0, 'tests/emulator')\nimport numpy as np, emulator\n"
            "from ptx_launch import kernel\nx = np.zeros(1, np.int32)\n"
            "body = '.reg .b64 %rd1; .reg .b32 %count; .shared .b8 buffer[16];\\nld.param.b64 %rd1, [x];\\n"
            "mov.b32 %count, 0;\\nL: add.s32 %count, %count, 1;\\nst.shared.b32 [buffer], %count;\\nbra L;'\n"
            "with emulator.emulate() as device:\n    device.debug()\n"
            "    emulator.launch(kernel('spin', '.param .u64 x', body), None, [x])\n"
        )
        self._fd, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", source],
            cwd=ROOT,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=os.environ | {"HOME": str(home), "TERM": "xterm"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)

    def until(self, text: str) -> str:
        """Return what is shown up to `text`."""
        seen, end = "", time.monotonic() + 600
        while text not in seen:
            assert time.monotonic() < end, f"{text!r} is not shown: {seen!r}"
            if select.select([self._fd], [], [], 1)[0]:
                seen += os.read(self._fd, 4096).decode()
        return seen

    def type(self, keys: str, text: str = "(emulator) ") -> str:
        """Press keys; return what is shown up to `text`."""
        os.write(self._fd, keys.encode())
        return self.until(text)

    def interrupt_line(self) -> str:
        """Press Ctrl-C until the prompt answers. Python overlooks one that comes before readline waits for a key."""
        for _ in range(10):
            os.write(self._fd, b"\x03")
            if select.select([self._fd], [], [], 5)[0]:
                break
        return self.until("(emulator) ")

    def interrupt_launch(self) -> str:
        """Continue and press Ctrl-C until that stops the launch. One that comes before it goes on clears the line."""
        shown = ""
        for _ in range(10):
            self.type("continue\n", "continue\r\n")
            shown = self.type("\x03")
            if "interrupted" in shown:
                break
        return shown

    def close(self) -> None:
        """End the debugger if it still runs."""
        self.process.kill()
        self.process.wait()
        os.close(self._fd)


def test_the_prompt_at_a_terminal(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    up = "\x1b[A"
    try:
        terminal.until("(emulator) ")
        terminal.type("whe\t", "where ")
        assert "PTX line" in terminal.type("\n")
        assert "PTX line" in terminal.type(f"{up}\n"), "the history repeats `where`"
        terminal.type("watch s\t", "smem")
        terminal.type(" b\t", "buffer")
        assert "stop 1: watch shared memory buffer" in terminal.type("\n")
        terminal.type("delete\n")
        terminal.type("print %c\t", "%count")
        assert "^C" in terminal.interrupt_line(), "Ctrl-C drops the line"
        terminal.type("stepi 3\n")
        assert "interrupted: warp 0 of CTA (0,0,0)" in terminal.interrupt_launch(), "Ctrl-C stops a running launch"
        assert "lanes  0 to  7: 0x" in terminal.type("print %count\n")
        assert "Commands (help NAME" in terminal.type("help\n")
        os.write(terminal._fd, b"kill\n")
        assert terminal.process.wait(timeout=600) == 0
    finally:
        terminal.close()
    assert (tmp_path / ".ptx-emulator-history").read_text().splitlines()[:2] == ["where ", "watch smem buffer"]


@pytest.mark.long
def test_the_end_of_input_runs_the_script_to_its_end(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\nimport emulator\n"
        "from ptx_launch import kernel\nemulator.launch(kernel('k', '', 'ret;'), None, [])\nprint('over')\n"
    )
    command = [sys.executable, "-m", "emulator", "debug", str(script)]
    done = subprocess.run(command, cwd=ROOT, input="where\n", capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout.endswith("(emulator) quit\nover\n")


@pytest.mark.parametrize(
    ("text", "at", "offset"),
    [
        ("(8,4):(1,8)", (3, 2), 19),
        ("((8,16),(8,2)):((8,128),(1,64))", (11, 9), 3 * 8 + 128 + 64 + 1),
        ("S<3,4,3> o 0 o (64,256):(256,1)", (3, 17), (3 * 256 + 17) ^ (((3 * 256 + 17) >> 3) & 0x70)),
        ("Sw<1,0,1> o 4 o 8:1", (3,), 6),
    ],
)
def test_layouts(text: str, at: tuple[int, ...], offset: int) -> None:
    assert parse(text).offsets()[at] == offset


@pytest.mark.parametrize("text", ["", "8", "(8,4)", "(8,4):1:2", "(8,(2,2)):(1,2)", "(8,4):(1,x)", "S<3,4> o 8:1"])
def test_layouts_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="layout"):
        parse(text)


def test_the_page_of_the_commands_has_all_of_them() -> None:
    page = (ROOT / "docs/reference/debugger.md").read_text()
    names = {name[3:] for name in Console().get_names() if name.startswith("do_") and name != "do_help"}
    assert set(re.findall(r"^\| `(\w+)", page, re.MULTILINE)) == names


def test_off_it_costs_nothing() -> None:
    """A launch imports nothing of the debugger."""
    source = (
        "import sys, emulator; emulator.emulate; print([m for m in sys.modules if m.startswith('emulator.debug.')])"
    )
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
