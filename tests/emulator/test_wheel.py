"""The emulator as pip installs it elsewhere: in an empty environment, and beside a small kernel project."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), ROOT / "emulator/README.md"]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
SCRIPT = """
import numpy as np, ptx_emulator
ptx = '''.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 x) {
.reg .b64 %a, %b; .reg .b32 %t; ld.param.u64 %a, [x]; mov.u32 %t, %tid.x; mul.wide.u32 %b, %t, 4;
add.u64 %a, %a, %b; st.global.u32 [%a], %t; ret; }'''
x = np.zeros(32, np.uint32)
ptx_emulator.launch(ptx, args=[x])
assert (x == range(32)).all()
"""

pytestmark = pytest.mark.long


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_empty_environment(tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    run(sys.executable, "-m", "pip", "--python", environment / "bin/python", "install", "--quiet", ROOT)
    run(environment / "bin/python", "-c", SCRIPT, cwd=tmp_path)
    assert "[PTX ISA 9.7.1]" in run(environment / "bin/ptx-emulator", "isa", cwd=tmp_path)
    commands = set(re.findall(r"ptx-emulator ([a-z]+)", "".join(page.read_text() for page in PAGES)))
    assert {"run", "blame", "debug", "time"} <= commands
    for command in commands:
        assert f"usage: ptx-emulator {command}" in run(environment / "bin/ptx-emulator", command, "--help")
    assert run(environment / "bin/ptx-emulator", "--version") == f"ptx-emulator {VERSION}\n"
    others = ("kernel", "stages", "harness", "remote", "tests", "emulator")
    (site,) = environment.glob("lib/python*/site-packages")
    assert not [name for name in others if (site / name).exists()]


@pytest.mark.thorough
def test_a_kernel_project_beside_its_own_packages(installed: Path, tmp_path: Path) -> None:
    project = shutil.copytree(ROOT / "examples/own_repository", tmp_path / "project")
    both = ("--emulator-completion=lazy", "--emulator-completion=random")
    said = run(installed / "bin/python", "-m", "pytest", *both, cwd=project)
    assert "2 passed" in said and "warning" not in said
