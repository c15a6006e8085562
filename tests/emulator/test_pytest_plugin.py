"""The pytest plugin, in the tests of another repository."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import ctypes
import pathlib
import subprocess
import sys

import pytest
import torch
from emulator import EmulatorError, launch

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


def ask_the_driver():
    # as a C program does; returns CUDA's error code
    cuda, module, kernel = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64(), ctypes.c_uint64()
    assert cuda.cuModuleLoadData(ctypes.byref(module), UNWRITTEN.encode()) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"k") == 0
    out = ctypes.c_uint64(torch.zeros(32, device="cuda").data_ptr())
    given = (ctypes.c_void_p * 1)(ctypes.addressof(out))
    return cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, given, None)


def test_c_host_that_ignores_the_error(emulated_device):
    ask_the_driver()


def test_c_host_that_fails(emulated_device):
    assert ask_the_driver() == 0


def test_an_expected_error(emulated_device):
    with pytest.raises(EmulatorError):
        launch(UNWRITTEN, "k", [OUT])


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


WRITES = ("--emulator-report=report.json", "--junit-xml=junit.xml")


def run(folder: Path, *options: str, tests: str = TESTS) -> str:
    """Run tests with options in a folder. Return what pytest printed, without colours."""
    (folder / "test_them.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-p", "emulator.pytest_plugin", "-p", "no:cacheprovider", *options]
    env = os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600)
    return re.sub(r"\x1b\[\d+m", "", done.stdout + done.stderr)


def test_a_report_fails_the_test_and_what_is_formal_is_a_warning(tmp_path: Path) -> None:
    said = run(tmp_path, "--emulator-completion=lazy", "--emulator-completion=random", *WRITES)
    assert "6 failed, 9 passed, 2 warnings" in said, said
    for name in ("test_c_host_that_ignores_the_error", "test_c_host_that_fails"):
        assert f"FAILED test_them.py::{name}[lazy] - emulator.err" in said, said
    report = "E       emulator.errors.UnwrittenRead: ld.shared reads shared memory 0x400 to 0x403"
    assert f'>       launch(UNWRITTEN, "k", [OUT])\n{report}' in said, said
    assert "emulator/machine" not in said
    assert "FAILED test_them.py::test_wrong[lazy] - emulator.errors.UnwrittenRead" in said
    assert "test_them.py::test_formal[lazy]\n" in said and "EmulatorWarning: formal: PTX forbids it" in said
    verdicts_are_written(tmp_path)


@pytest.mark.long
def test_the_level_is_what_is_asked_for(tmp_path: Path) -> None:
    said = run(tmp_path, "--emulator-level=formal", "-k", "formal")
    assert "1 failed" in said and "warning" not in said, said


@pytest.mark.long  # test_a_report_fails_the_test has it without xdist
def test_the_verdicts_of_xdists_workers_are_written(tmp_path: Path) -> None:
    said = run(tmp_path, *WRITES, "-k", "right or wrong or formal", "-p", "xdist", "-n", "1")
    assert "1 failed, 2 passed" in said, said
    verdicts_are_written(tmp_path)


def verdicts_are_written(folder: Path) -> None:
    """Check the verdict of each test in the files that WRITES names."""
    report = json.loads((folder / "report.json").read_text())
    tests = {test["test"].partition("::")[2]: test for test in report["tests"]}
    expected = {
        "test_right[lazy]": ("clean", "passed"),
        "test_wrong[lazy]": ("fault", "failed"),
        "test_formal[lazy]": ("formal", "passed"),
    }
    assert {name: (tests[name]["verdict"], tests[name]["outcome"]) for name in expected} == expected
    assert report["verdict"] == "fault"
    (found,) = tests["test_wrong[lazy]"]["findings"]
    assert (found["class"], found["kernel"]) == ("UnwrittenRead", "k")
    assert '<property name="emulator_verdict" value="formal"' in (folder / "junit.xml").read_text()


MARKED = """
import pytest
import torch
from emulator import launch

PTX = ".version 8.8\\n.target sm_100a\\n.address_size 64\\n.visible .entry k(.param .u64 out) {"
PTX += ".reg .b64 %a; ld.param.u64 %a, [out]; st.global.b32 [%a], 7; ret; }"


@pytest.mark.emulator(clock="b200")
def test_time(emulated_device):
    launch(PTX, "k", [torch.zeros(1, dtype=torch.int32, device="cuda")])
    assert 0 < emulated_device.launches[-1].prediction.cycles < 5000


@pytest.mark.emulator(completion="random", seed=3, numerics="tc")
class TestAll:
    @pytest.mark.emulator(seed=4)
    def test_options(self, emulated_device):
        device = emulated_device
        assert (device.completion, device.seed, device.numerics) == ("random", 4, "tc")
        assert (device.diagnostics, device.budget) == ("report", 9)


@pytest.mark.emulator("random")
def test_positional(emulated_device):
    pass
"""


def test_options_and_the_marker(tmp_path):
    """The closest marker goes before others, and markers go before the command line."""
    options = ["--emulator-diagnostics", "report", "--emulator-budget", "9", "--emulator-seed", "1", "--strict-markers"]
    assert "give options of emulate() by name" in run(tmp_path, *options, "-k", "positional", tests=MARKED)
    right = MARKED.partition('@pytest.mark.emulator("random")')[0]
    assert "2 passed" in (said := run(tmp_path, *options, tests=right)), said
