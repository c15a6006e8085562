"""Registers and spills of kernels: what ptxas prints, budgets, and the command with the real ptxas of PyPI."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ptx_launch import kernel

from emulator.commands.resources import as_budget, excesses, read_budget
from emulator.machine_code import Resources, parsed

ROOT = Path(__file__).parents[2]
SAID = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'heavy' for 'sm_100a'
ptxas info    : Function properties for helper
    16 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Function properties for heavy
    4400 bytes stack frame, 55 bytes spill stores, 73 bytes spill loads
ptxas info    : Used 80 registers, used 3 barriers, 4400 bytes cumulative stack size, 2048 bytes smem
ptxas info    : Compile time = 1.779 ms
ptxas info    : Compiling entry function 'light' for 'sm_100a'
ptxas info    : Function properties for light
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers
"""
HEAVY = Resources("heavy", 80, 4400, 55, 73, 3, 2048, {"FFMA": 10, "STL": 3})
LIGHT = Resources("light", 8, 0, 0, 0, 0, 0)


def test_it_reads_what_ptxas_prints() -> None:
    assert list(parsed(SAID, {"heavy": {"FFMA": 10, "STL": 3}})) == [HEAVY, LIGHT]


def test_budgets(tmp_path: Path) -> None:
    budget = tmp_path / "budget.toml"
    budget.write_text('["hea*"]\nregisters = 80\nspill_store_bytes = 0\ninstructions = 12\n[gone]\nregisters = 1\n')
    assert list(excesses([HEAVY, LIGHT], read_budget(budget))) == [
        "over budget: heavy needs spill_store_bytes 55; the budget is 0",
        "over budget: heavy needs instructions 13; the budget is 12",
        "over budget: [gone] matches no kernel that was launched; remove it, or launch the kernel",
    ]


def test_a_written_budget_holds(tmp_path: Path) -> None:
    budget = tmp_path / "budget.toml"
    budget.write_text(as_budget([HEAVY, LIGHT], "13.5.37"))
    assert list(excesses([HEAVY, LIGHT], read_budget(budget))) == []


@pytest.mark.parametrize("text", ["[k]\nregister = 3\n", "[k]\nregisters = 'few'\n", "k = 3\n"])
def test_a_budget_of_something_else_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "budget.toml").write_text(text)
    with pytest.raises(ValueError, match=r"\[k\] has .*; allowed are whole numbers for registers, "):
        read_budget(tmp_path / "budget.toml")


SCRIPT = """
import numpy as np, emulator
emulator.launch({ptx!r}, None, [np.zeros(4096, np.float32)], block=32)
"""


def spilling(values: int) -> str:
    """Return a kernel that holds many values of which all are needed at its end, with .maxnreg 32."""
    loads = " ".join(f"ld.volatile.global.f32 %f{i}, [%rd1+{4 * i}];" for i in range(values))
    stores = " ".join(f"st.volatile.global.f32 [%rd1+{4 * i}], %f{values - 1 - i};" for i in range(values))
    registers = f".reg .b64 %rd<2>; .reg .f32 %f<{values}>;"
    ptx = kernel("spills", ".param .u64 x", f"{registers}\nld.param.b64 %rd1, [x];\n{loads}\n{stores}\nret;")
    head, brace, body = ptx.partition("{")
    return f"{head.rstrip()} .maxnreg 32 {brace}{body}"


@pytest.mark.long
def test_the_command_with_the_assembler_of_pypi(tmp_path: Path) -> None:
    """A kernel that has more live values than registers spills, and is over a budget without spills."""
    tools = tmp_path / "tools"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(tools)]
    subprocess.run([*pip, "nvidia-cuda-nvcc", "nvidia-cuda-nvdisasm"], check=True)
    (tmp_path / "script.py").write_text(SCRIPT.format(ptx=spilling(64)))
    (tmp_path / "budget.toml").write_text("[spills]\nregisters = 32\nspill_store_bytes = 0\n")
    command = [sys.executable, "-m", "emulator", "resources", "--budget", "budget.toml", "--report", "new/found.json"]
    done = subprocess.run(
        [*command, "script.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{tools}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert "over budget: spills needs spill_store_bytes" in done.stdout
    (found,) = json.loads((tmp_path / "new/found.json").read_text())["kernels"]
    assert found["registers"] <= 32 and found["spill_store_bytes"] >= 4 * (64 - 32)
    assert found["instructions"]["STL"] > 0 and "NOP" not in found["instructions"]
