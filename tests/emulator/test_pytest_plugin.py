"""The pytest plugin, in the tests of another repository."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import pathlib
import subprocess
import sys

import torch
from emulator import launch

MODULE = ".version 8.8\\n.target sm_100a\\n.address_size 64\\n.visible .entry k(.param .u64 out) {{ {} }}"
DOUBLE = MODULE.format(
    ".reg .b64 %a; .reg .b32 %t; .reg .b64 %b; ld.param.u64 %a, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %b, %t, 4;"
    "add.u64 %a, %a, %b; add.u32 %t, %t, %t; st.global.u32 [%a], %t; ret;"
)
UNWRITTEN = MODULE.format(
    ".shared .b32 s; .reg .b64 %a; .reg .b32 %r; ld.param.u64 %a, [out]; ld.shared.b32 %r, [s];"
    "st.global.b32 [%a], %r; ret;"
)
FORMAL = MODULE.format(".reg .b64 %a; .reg .b32 %r; ld.param.u64 %a, [out]; st.global.b32 [%a], %r; ret;")
OUT = torch.zeros(32, dtype=torch.int32)
CHILD = f'''
import torch
from emulator import launch
out = torch.full((4,), 26, dtype=torch.int32, device="cuda")
launch({FORMAL!r}, "k", [out])
print(int(out[1:].sum()))
'''


def test_right(emulated_device):
    out = torch.empty(32, dtype=torch.int32, device="cuda")
    launch(DOUBLE, "k", [out])
    assert out.tolist() == list(range(0, 64, 2))
    assert emulated_device.launches[-1].test.startswith("test_them.py::test_right")


def test_wrong(emulated_device):
    launch(UNWRITTEN, "k", [OUT])


def test_formal(emulated_device):
    launch(FORMAL, "k", [OUT])


def test_without_the_device():
    assert not torch.cuda.is_available()


def test_child(emulated_device):
    how = [] if emulated_device.completion == "lazy" else ["-m", "emulator", "run"]
    script = pathlib.Path(__file__).with_name("child.py")
    script.write_text(CHILD)
    done = subprocess.run([sys.executable, *how, script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "78\\n"), done.stderr
    assert done.stderr.startswith("formal: PTX forbids it") and done.stderr.count("found") == 1
"""


@pytest.fixture
def run(tmp_path: Path):
    """Return a function that runs TESTS with options and returns pytest's summary, without colours."""
    (tmp_path / "test_them.py").write_text(TESTS)

    def run(*options: str) -> str:
        command = [sys.executable, "-m", "pytest", "-p", "emulator.pytest_plugin", "-p", "no:cacheprovider", *options]
        env = os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
        return re.sub(r"\x1b\[\d+m", "", done.stdout)

    return run


def test_a_report_fails_the_test_and_what_is_formal_is_a_warning(run) -> None:
    said = run("--emulator-completion=lazy", "--emulator-completion=random")
    assert "2 failed, 7 passed, 2 warnings" in said, said
    report = "E       emulator.errors.UnwrittenRead: ld.shared reads shared memory 0x400 to 0x403"
    assert f'>       launch(UNWRITTEN, "k", [OUT])\n{report}' in said, said
    assert "emulator/machine" not in said
    assert "FAILED test_them.py::test_wrong[lazy] - emulator.errors.UnwrittenRead" in said
    assert "test_them.py::test_formal[lazy]\n" in said and "EmulatorWarning: formal: PTX forbids it" in said


def test_the_level_is_what_is_asked_for(run) -> None:
    said = run("--emulator-level=formal", "-k", "formal")
    assert "1 failed" in said and "warning" not in said, said
