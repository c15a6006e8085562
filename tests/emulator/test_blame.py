"""The search for a wrong value: ten planted bugs, each found by the report on one element."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from debug_programs import GEMM, bf16, core_matrices, operands
from planted import PLANTED, PROBLEMS, PRODUCT, SOFTMAX, Planted, Problem
from ptx_launch import kernel

import emulator
from emulator.commands.main import main
from emulator.commands.rejected import places_of
from emulator.debug.blame import pattern
from emulator.debug.recording import Recording
from emulator.debug.report import Question, report
from emulator.errors import OutOfBounds
from tests.tiers import shortened

ROOT = Path(__file__).parents[2]


def recorded(ptx: str, problem: Problem, completion: str = "lazy") -> Mapping[int, Recording]:
    """Run a program and return its recording. Its tensors are called a and b, or s and v, and d."""
    a, b = problem.inputs.values()
    d = problem.output
    with emulator.emulate(completion=completion) as device:  # type: ignore[arg-type]
        recorder = device.record()
        result = emulator.launch(ptx, None, [a, b, d], block=problem.block)
    assert not result.findings, "no check of the emulator finds the bug"
    return recorder.recordings


@cache
def explained(name: str) -> tuple[str, str]:
    """Return the reports on a planted bug: from the expected output alone, and beside the right version."""
    bug, problem = PLANTED[name], PROBLEMS[PLANTED[name].program]()
    wrong = recorded(bug.ptx, problem)
    right = recorded(bug.program, PROBLEMS[bug.program]())
    alone = "\n".join(report(wrong, Question("d", problem.expected)))
    return alone, "\n".join(report(wrong, Question("d"), right))


@pytest.mark.parametrize("program", PROBLEMS, ids=["product", "softmax"])
@pytest.mark.parametrize("completion", ["eager", "lazy", "random"])
def test_the_right_programs_are_right(program: str, completion: str) -> None:
    problem = PROBLEMS[program]()
    recordings = recorded(program, problem, completion)
    (said,) = report(recordings, Question("d", problem.expected))
    assert said.startswith("d is as expected")
    if "within the tolerance" in said:
        (index,) = re.findall(r"the largest error is that of (d\[\d+, \d+\]), \d", said)
        explained = list(report(recordings, Question("d", problem.expected, explains=True)))
        assert explained[0] == said and explained[1].startswith(f"{index} is ")


def test_an_element_that_no_store_reached_is_explained_by_what_was_written() -> None:
    body = (
        ".reg .b64 %rd<3>; .reg .b32 %r<2>; .reg .pred %p1;\nld.param.b64 %rd1, [x]; ld.param.b64 %rd2, [y];\n"
        "mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 30; @%p1 bra out; mad.wide.u32 %rd2, %r1, 4, %rd2;\n"
        "st.global.u32 [%rd2], %r1;\nout: ret;"
    )
    x, y = np.zeros(1, np.float32), np.zeros(32, np.float32)
    with emulator.emulate() as device:
        device.record()
        result = emulator.launch(kernel("part", ".param .u64 x, .param .u64 y", body), None, [x, y], block=32)
    said = result.blame("y", np.arange(32.0), (31,)).splitlines()
    assert said[-2] == "  it wrote y[0:30], by" and "st.global.u32 [%rd2], %r1" in said[-1]


LOCATED = {
    "wrong index": r"B row (\d+) is b\[(?!\1,)\d+, 192:256\]",
    "wrong swizzle": r"A row (\d+) is a\[\1, 224:256\], a\[\1, 192:224\]; B row (\d+) is b\[\2, 192:256\]",
    "wrong descriptor": r"A row (\d+) is a\[(?!\1,)\d+, 192:256\].*\n|with LBO 16, SBO 512",
    "lost rescale": r"mul\.f32 %f2, %f2, 0f3F800000\n",
    "wrong scale": r"mul\.f32 %f7, %f7, 0f3E000000\n",
    "off-by-one tile": r"inputs that reach it\n(?:  .*\n)*  a\[\d+, 0:192\]",
    "stale stage": r"A row (\d+) is a\[\1, 0:64\].*\n.*A row \1 is a\[\1, 0:64\]",
    "wrong mask": r"conditions that selected values\n  PTX line \d+: setp\.le\.u32 %p1, %r2, %r1\n",
    "wrong lane mapping": r"to d\[(\d+), \d+\], (?s:.)*tensor memory column \d+ lane (?!\1\b)\d+",
    "bf16 where fp32 was meant": r"so rounding made the difference; without the rounding of\n.*cvt\.rn\.bf16\.f32",
}
"""The part of the report that names the bug, from the expected output alone."""


@pytest.mark.parametrize("bug", shortened(4, PLANTED.values()), ids=lambda bug: bug.name)
def test_the_report_on_one_element_shows_the_bug(bug: Planted) -> None:
    alone, _ = explained(bug.name)
    assert re.search(LOCATED[bug.name], alone), alone


@pytest.mark.parametrize("bug", PLANTED.values(), ids=lambda bug: bug.name)
def test_no_other_program_shows_it(bug: Planted) -> None:
    """Reports on other bugs do not match, so that what is looked for says something."""
    others = [explained(other)[0] for other in PLANTED if other != bug.name]
    assert not any(re.search(LOCATED[bug.name], other) for other in others)


@pytest.mark.parametrize("bug", PLANTED.values(), ids=lambda bug: bug.name)
def test_beside_the_right_version_the_line_is_named(bug: Planted) -> None:
    """The first instruction that is named is of the changed line, or the trip count shows the loop."""
    _, beside = explained(bug.name)
    named = re.findall(r"^  PTX line (\d+): ", beside.partition("computed by")[0], re.MULTILINE)
    if bug.name == "off-by-one tile":
        assert re.search(r"tcgen05.mma.*: 3 values, where the right version has 4", beside)
    elif bug.name == "wrong lane mapping":
        assert re.search(r"it writes d\[\d+, \d+\], where the right version writes d\[\d+, \d+\]", beside)
    else:
        assert int(named[0]) in bug.lines(), beside


def test_the_first_nan_is_named() -> None:
    """The mask hides every key of the first rows: the maximum is -inf, and so is the difference's other operand."""
    ptx = SOFTMAX.replace("setp.le.u32 %p1, %r2, %r3;", "setp.lt.u32 %p1, %r2, %r3;")
    problem = PROBLEMS[SOFTMAX]()
    said = "\n".join(report(recorded(ptx, problem), Question("d", problem.expected, (0, 0))))
    line = next(i for i, text in enumerate(ptx.splitlines(), 1) if "sub.f32 %f23" in text)
    assert f"the first value that is NaN\n  PTX line {line}: sub.f32 %f23, %f10, %f22\n      of -inf, -inf" in said


def test_a_right_element_is_explained_too() -> None:
    problem = PROBLEMS[PRODUCT]()
    said = "\n".join(report(recorded(PRODUCT, problem), Question("d", problem.expected, (7, 5))))
    assert "d[7, 5] is " in said and "a[7, 0:256]" in said and "b[5, 0:256]" in said


def test_what_an_unwritten_element_says() -> None:
    ptx = kernel("one", ".param .u64 x", ".reg .b64 %rd<2>;\nld.param.b64 %rd1, [x];\nst.global.b32 [%rd1], 7;\nret;")
    x = np.zeros(4, np.int32)
    with emulator.emulate() as device:
        device.record()
        result = emulator.launch(ptx, None, [x], block=32)
    assert "did not write it" in result.blame("x", [7, 7, 7, 7])
    assert "7 to x[0]" in result.blame(x, element=[0]) or "7 to output[0]" in result.blame(x, element=[0])


def test_a_launch_result_explains_its_output() -> None:
    a, b = operands()
    left, right, d = core_matrices(bf16(a)), core_matrices(bf16(b)), np.zeros((128, 32), np.float32)
    with emulator.emulate() as device:
        device.record()
        result = emulator.launch(GEMM, None, [left, right, d], block=192)
    said = result.blame("d", a @ b.T + np.eye(128, 32)[::-1])
    assert "32 of 4096 elements of d are wrong: d[96:128, :]" in said
    assert "cp.async.bulk" in said and "tcgen05.mma" in said


def test_a_recorded_launch_reports_what_others_report() -> None:
    """An operand that no instruction may have is the instruction's fault, not the recording's."""
    one = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 4096, [%r5];"
    several = one.replace("bytes [", "bytes.multicast::cluster [").replace("[%r5];", "[%r5], %h1;")
    ptx = GEMM.replace(f"@%p2 {one}", f"mov.b16 %h1, 2; @%p2 {several}").replace(
        ".reg .pred", ".reg .b16 %h<2>; .reg .pred"
    )
    with emulator.emulate() as device, pytest.raises(OutOfBounds, match="to CTA rank 1 of a cluster of 1"):
        device.record()
        arguments = [np.zeros(2048, "u2"), np.zeros(512, "u2"), np.zeros((128, 32), "f4")]
        emulator.launch(ptx, None, arguments, block=192)


def test_a_launch_that_was_not_recorded_says_so() -> None:
    with emulator.emulate():
        result = emulator.launch(
            GEMM, None, [np.zeros(2048, "u2"), np.zeros(512, "u2"), np.zeros((128, 32), "f4")], block=192
        )
    with pytest.raises(ValueError, match=r"device\.record"):
        result.blame("d", np.zeros((128, 32)))


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (Question("o", np.zeros(1)), "no launch had a tensor of that name; there were "),
        (Question("d", np.zeros(3)), "expected has shape"),
        (Question("d", None, (1, 2, 3)), "has the shape"),
        (Question("d"), "which element"),
        (Question("d", np.zeros((128, 32)), launch=2), "launch 2 was not recorded"),
    ],
)
def test_questions_that_have_no_answer(question: Question, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        list(report(recorded(PRODUCT, PROBLEMS[PRODUCT]()), question))


@pytest.mark.parametrize(
    ("indices", "size", "text"),
    [
        (range(8), 8, ":"),
        ([3], 8, "3"),
        (range(2, 5), 8, "2:5"),
        (range(1, 64, 4), 64, "1 of every 4"),
        ([4, 5, 12, 13, 20, 21, 28, 29], 32, "4:6 of every 8"),
        ([1, 5, 6], 8, "{1, 5:7}"),
        ([0, 2, 5, 7, 11], 12, "{0, 2, 5, 7, ...}"),
    ],
)
def test_patterns_of_indices(indices: range | list[int], size: int, text: str) -> None:
    assert pattern(np.array(indices), size) == text


@pytest.mark.long
def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Two scripts, a right one and a wrong one that fails its own check, in this process."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    bug = PLANTED["wrong scale"]
    for name, ptx in (("right", bug.program), ("wrong", bug.ptx)):
        (tmp_path / f"{name}.py").write_text(
            f"import sys; sys.path.insert(0, {str(ROOT / 'tests/emulator')!r})\n"
            f"import emulator, numpy as np\nfrom planted import product\nptx = {ptx!r}\n"
            "def main():\n    problem = product()\n    a, b = problem.inputs.values()\n    o = problem.output\n"
            "    emulator.launch(ptx, None, [a, b, o], block=128)\n"
            f"    np.save({str(tmp_path / 'ref.npy')!r}, problem.expected)\n"
            "    np.testing.assert_allclose(o, problem.expected, rtol=1e-5)\nmain()\n"
        )
    command = ["blame", "--output", "o"]
    right, wrong = str(tmp_path / "right.py"), str(tmp_path / "wrong.py")
    assert main([*command, "--against", right, wrong]) == 0
    said = capsys.readouterr()
    assert "wrong.py ended with AssertionError" in said.err
    assert "128 of 4096 elements of o are wrong: o[:, 7]" in said.out
    assert "the right version has: mul.f32 %f7, %f7, 0f3D800000" in said.out
    assert main([*command, "--expected", str(tmp_path / "ref.npy"), "--element", "3,7", wrong]) == 0
    said = capsys.readouterr()
    assert "o[3, 7] is " in said.out and "b[7, 0:256]" in said.out
    for asked in (command, ["blame"]):  # without what was expected: the values of the failed comparison
        assert main([*asked, wrong]) == 0
        first, *_ = capsys.readouterr().out.splitlines()
        assert first == "128 of 4096 elements of o are wrong: o[:, 7], each about 2 times what is expected"
    (tmp_path / "raw.bin").write_bytes(np.load(tmp_path / "ref.npy").tobytes())
    assert main(["blame", "--expected", str(tmp_path / "raw.bin"), wrong]) == 0
    assert "elements of o are wrong: o[:, 7]" in capsys.readouterr().out
    assert main(["blame", right]) == 2
    assert "no function of torch or numpy rejected a tensor" in capsys.readouterr().err


CUTEDSL = """
import cutlass, cutlass.cute as cute, numpy as np, torch
from cutlass.cute.runtime import from_dlpack

@cute.kernel
def rows_kernel(x: cute.Tensor, w: cute.Tensor, y: cute.Tensor) -> None:
    i = cute.arch.block_idx()[0] * 128 + cute.arch.thread_idx()[0]
    column = (i + 1) % 32
    y[i] = x[i] * w[column] + cutlass.Float32(1.0)

@cute.jit
def rows(x: cute.Tensor, w: cute.Tensor, y: cute.Tensor) -> None:
    rows_kernel(x, w, y).launch(grid=(8, 1, 1), block=(128, 1, 1))

x, w = torch.arange(1024.0, device="cuda"), torch.arange(32.0, device="cuda") + 1
y = torch.zeros(1024, device="cuda")
rows(from_dlpack(x), from_dlpack(w), from_dlpack(y))
np.save("expected.npy", (x * w[torch.arange(1024, device="cuda") % 32] + 1).cpu().numpy())
"""


@pytest.mark.long
def test_source_lines_of_cutedsl(tmp_path: Path) -> None:
    """A report names the kernel's own lines and the script's own tensors, and so does the debugger."""
    (tmp_path / "script.py").write_text(CUTEDSL)
    module = [sys.executable, "-m", "emulator"]
    options = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(ROOT)}, "text": True, "capture_output": True}
    line = CUTEDSL.splitlines().index("    y[i] = x[i] * w[column] + cutlass.Float32(1.0)") + 1
    stop = [*module, "debug", "--command", f"break {line} -w 2", "--command", "continue", "--command", "regs"]
    said = subprocess.run([*stop, "script.py"], check=True, **options).stdout  # type: ignore[call-overload]
    assert f"script.py:{line} in rows_kernel: y[i] = " in said and "# column = (i + 1) % 32" in said
    asked = ["blame", "--output", "y", "--expected", "expected.npy", "--element", "645", "script.py"]
    said = subprocess.run([*module, *asked], check=True, **options).stdout  # type: ignore[call-overload]
    assert "y[645] is 4516, expected 3871" in said
    assert "ld: 7 from w[6]" in said and f"script.py:{line - 1} in rows_kernel: column = (i + 1) % 32" in said


def test_a_sum_of_two_types_takes_each_operand_by_its_own() -> None:
    """The first operand of add.f32.bf16 is bf16, the last and the result are f32."""
    body = (
        ".reg .b64 %rd<3>; .reg .b16 %h<2>; .reg .f32 %f<3>;\nld.param.b64 %rd1, [x]; ld.param.b64 %rd2, [y];\n"
        "ld.global.f32 %f1, [%rd1]; cvt.rn.bf16.f32 %h1, %f1; add.rn.f32.bf16 %f2, %h1, %f1;\n"
        "st.global.f32 [%rd2], %f2; ret;"
    )
    x, y = np.full(1, 1.001, np.float32), np.zeros(1, np.float32)
    with emulator.emulate() as device:
        device.record()
        result = emulator.launch(kernel("mixed", ".param .u64 x, .param .u64 y", body), None, [x, y], block=32)
    said = result.blame("y", 2 * x.astype(np.float64))
    assert re.search(r"without the rounding of\n  PTX line \d+: cvt\.rn\.bf16\.f32 .*\n +it would be 2\.00200009", said)


HELD = np.random.default_rng(0).standard_normal((6, 8, 10)).round(2)
"""Some values occur twice."""


@pytest.mark.parametrize(
    "part",
    [HELD, HELD[:, :5], HELD.transpose(2, 0, 1), HELD[1], HELD[..., ::3], HELD.reshape(48, 10)[5:20].T],
    ids=["all", "slice", "transposed", "row", "stride", "reshaped"],
)
def test_a_compared_part_of_a_tensor_is_found(part: np.ndarray) -> None:
    places = places_of(part, HELD)
    assert places is not None and np.array_equal(HELD.ravel()[places], part)


@pytest.mark.parametrize(
    "other", [HELD + 1, np.zeros((6, 8, 10)), np.full(8, HELD[0, 0, 0]), HELD[2, 3, 4], HELD[:, :5] + 1e-3]
)
def test_no_part_is_found_where_there_is_none(other: np.ndarray) -> None:
    assert places_of(other, HELD) is None
