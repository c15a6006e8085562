"""The clock's schedule from machine code: by hand-made code, and by the real ptxas of PyPI."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from emulator import cli
from emulator.clock.chips import chip
from emulator.clock.machine_places import loop_depths
from emulator.clock.registers import Registers
from emulator.clock.skeleton import Skeleton, skeleton
from emulator.machine_code import Resources
from emulator.ptx.parser import parse
from emulator.sass import MachineBlock, MachineInstr, MachineKernel, numbered
from lab import clock as bench

ROOT = Path(__file__).parents[2]
B200 = chip("b200")
NEEDS = Resources("k", 32, 0, 0, 0, 0, 0)


def instr(
    opcode: str, line: int, stall: int = 1, *, writes: int | None = None, waits: Sequence[int] = (), to: str = ""
) -> MachineInstr:
    """Return a machine instruction. to: the label that a conditional branch names."""
    return MachineInstr(opcode, opcode, line, bool(to), stall, writes, None, tuple(waits), to or None)


def block(*instrs: MachineInstr, label: str = "") -> MachineBlock:
    return MachineBlock(frozenset({label} if label else ()), instrs)


def scheduled(body: str, *blocks: MachineBlock) -> Skeleton:
    """Return the skeleton of a kernel with this body, whose first line is 7, and this machine code."""
    (kernel,) = parse(bench.entry("u32 n", body)).kernels.values()
    return skeleton(kernel, {}, B200, MachineKernel(NEEDS, blocks, "13.5"))


def stretches_before(made: Skeleton, line: int) -> list[float]:
    """Return the cycles of the stretches directly before the instruction of a PTX line."""
    found: list[float] = []
    for each in made.kernel.instrs:
        if each.opcode == "clock.stretch":
            found.append(made.stretches[each.operands[0].value].cycles)  # type: ignore[union-attr]
        elif each.line == line:
            return found
        else:
            found = []
    raise AssertionError(line)


ARRIVE = """.shared .align 8 .b8 bar[8]; mov.b32 %r1, bar;
fma.rn.f32 %r2, %r2, %r2, %r2;
ex2.approx.ftz.f32 %r3, %r2;
add.f32 %r4, %r3, %r3;
mbarrier.arrive.shared.b64 _, [%r1];
ret;"""


def test_stall_counts_and_scoreboards_take_their_time() -> None:
    """The sum waits for the exponential: 4 cycles of the product, 22 of the exponential, one of its own."""
    code = block(
        instr("FFMA", 8, 4),
        instr("MUFU", 9, writes=0),
        instr("FADD", 10, waits=[0]),
        instr("SYNCS", 11),
        instr("EXIT", 12),
    )
    made = scheduled(ARRIVE, code)
    assert stretches_before(made, 11) == [4 + B200.mufu_cycles + B200.mufu_latency + 1]
    assert made.schedule == "machine code of ptxas 13.5" and made.registers() == Registers(32, "machine code")


def test_an_instruction_is_charged_where_the_machine_code_has_it() -> None:
    """ptxas moved the exponential behind the arrival."""
    code = block(
        instr("FFMA", 8, 4),
        instr("SYNCS", 11),
        instr("MUFU", 9, writes=0),
        instr("FADD", 10, 5, waits=[0]),
        instr("EXIT", 12),
    )
    made = scheduled(ARRIVE, code)
    assert stretches_before(made, 11) == [4]
    assert sum(stretches_before(made, 12)) == B200.mufu_cycles + B200.mufu_latency + 5 + 1


SKIPPED = """.shared .align 8 .b8 bar[8]; mov.b32 %r1, bar; setp.ne.u32 %p1, %tid.x, 0;
fma.rn.f32 %r2, %r2, %r2, %r2;
@%p1 bra OVER;
mbarrier.arrive.shared.b64 _, [%r1];
OVER:
add.f32 %r3, %r2, %r2;
bar.sync 0;
ret;"""
WORK = [instr("FFMA", 8, 4)] * 10


def test_what_precedes_a_predicated_operation_is_charged_before_its_branch() -> None:
    made = scheduled(SKIPPED, block(*WORK, instr("SYNCS", 10), instr("FADD", 12), instr("BAR", 13), instr("EXIT", 14)))
    assert stretches_before(made, 9) == [40]
    assert stretches_before(made, 10) == []


def test_what_follows_a_branch_of_the_machine_code_is_charged_behind_it() -> None:
    made = scheduled(
        SKIPPED,
        block(*WORK, instr("BRA", 9, 5, to=".L1")),
        block(*[instr("MOV", 10, 2)] * 3, instr("SYNCS", 10)),
        block(instr("FADD", 12), instr("BAR", 13), instr("EXIT", 14), label=".L1"),
    )
    assert stretches_before(made, 9) == [45]
    assert stretches_before(made, 10) == [6]


def test_a_load_of_tensor_memory_is_waited_for_where_its_scoreboard_is() -> None:
    body = """mov.b32 %r1, 0;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r1];
tcgen05.wait::ld.sync.aligned;
fma.rn.f32 %r3, %r4, %r4, %r4;
add.f32 %r3, %r2, %r3;
ret;"""
    code = block(instr("LDTM", 8, writes=2), instr("FFMA", 10, 4), instr("FADD", 11, waits=[2]), instr("EXIT", 12))
    opcodes = [each.opcode for each in scheduled(body, code).kernel.instrs]
    assert opcodes[opcodes.index("tcgen05.ld") + 1 :][:3] == ["clock.stretch", "clock.loaded", "clock.stretch"]


def test_retries_out_of_line_are_no_loop_and_cost_nothing() -> None:
    body = """.shared .align 8 .b8 bar[8]; mov.b32 %r1, bar;
LAB_WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;
@%p1 bra DONE; bra LAB_WAIT;
DONE: ret;"""
    blocks = (
        block(instr("SYNCS", 8, 2), instr("BRA", 9, 5, to=".L2")),
        block(instr("EXIT", 10), label=".L1"),
        block(instr("SYNCS", 8, 2), *[instr("NANOSLEEP", 8, 15)] * 9, instr("BRA", 9, 5, to=".L2"), label=".L2"),
        block(instr("BRA", 9, 5, to=".L1")),
    )
    assert loop_depths(blocks) == [0, 0, 1, 0]
    assert sum(each.cycles for each in scheduled(body, *blocks).stretches) < 15


def test_machine_code_gets_the_lines_of_the_ptx() -> None:
    text = "\n".join(
        (
            ".version 8.8",
            ".address_size 64",
            '.file 1 "a.py"',
            ".entry k() {",
            ".loc 1 9 0",
            "A: add.u32 %r1, %r1,",
            "1;",
            "ret;",
            "}",
        )
    )
    assert numbered(text, {6, 8}).splitlines() == [
        ".version 8.8", ".address_size 64", '.file 1 "k.ptx"', ".entry k() {",
        ".loc 1 6 0", "A: add.u32 %r1, %r1,", "1;", ".loc 1 8 0", "ret;", "}",
    ]  # fmt: skip


def test_missing_tools_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if not any(Path(folder).glob("nvidia/*/bin"))])
    (tmp_path / "script.py").write_text("")
    assert cli.main(["time", "--code", "sass", str(tmp_path / "script.py")]) == 2
    assert "ptxas is not installed: pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm" in capsys.readouterr().err


SCRIPT = """
import numpy as np, emulator
emulator.launch({ptx!r}, None, [np.zeros(4096, np.float32)], grid=148, block=256)
"""


def spilling(most: str) -> str:
    """Return a kernel that multiplies 48 values in turns, with a directive on its registers."""
    values = range(48)
    loads = "\n".join(f"ld.volatile.global.f32 %f{i}, [%d1+{4 * i}];" for i in values)
    turns = "\n".join(f"fma.rn.f32 %f{i}, %f{i}, %f{i}, %f{(i + 1) % 48};" for i in values)
    stores = "\n".join(f"st.volatile.global.f32 [%d1+{4 * i}], %f{i};" for i in values)
    body = f".reg .f32 %f<48>;\nld.param.b64 %d1, [x];\n{loads}\n{turns}\n{turns}\n{stores}\nret;"
    return bench.entry("b64 x", body).replace("(.param .b64 x)", f"(.param .b64 x) {most}")


@pytest.mark.install
def test_the_schedule_of_the_assembler_of_pypi(tmp_path: Path) -> None:
    """Spilled registers cost loads and stores, and fewer registers let more CTAs onto an SM."""
    tools = tmp_path / "tools"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(tools)]
    subprocess.run([*pip, "nvidia-cuda-nvcc", "nvidia-cuda-nvdisasm"], check=True)
    found = {}
    for name, most in (("free", ""), ("spilled", ".maxnreg 24")):
        (tmp_path / "script.py").write_text(SCRIPT.format(ptx=spilling(most)))
        command = [sys.executable, "-m", "emulator", "time", "--code", "sass", "--json", "found.json", "script.py"]
        environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{tools}"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "instructions: machine code of ptxas 1" in done.stdout
        (found[name],) = json.loads((tmp_path / "found.json").read_text())
    free, spilled = found["free"], found["spilled"]
    assert spilled["registers"] <= 24 < 48 <= free["registers"]
    assert spilled["cycles"] > free["cycles"]
    assert free["limit"] == "registers" and spilled["limit"] == "threads"
