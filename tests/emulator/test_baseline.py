"""Known findings: those of a baseline, and those that a comment names, are listed and are no errors."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import chdir
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest

import emulator
from emulator import Verdict
from emulator.baseline import Baseline, _is_same
from emulator.bridge.result import LaunchResult
from emulator.commands.main import main
from emulator.errors import DataRace

ROOT = Path(__file__).parents[2]
PTX = """
.version 8.7
.target sm_100a
.address_size 64
.file 1 "{folder}/kernel.py"
.visible .entry work(.param .u64 x)
{{
.reg .f32 %f<2>; .reg .b64 %rd<2>;
ld.param.b64 %rd1, [x];
.loc 1 {load} 5
ld.global.f32 %f1, [%rd1];
add.f32 %f1, %f1, %f1;
.loc 1 {store} 5
st.global.f32 [%rd1], %f1;
ret;
}}
"""
SOURCE = ["def work(x):", "    y = x[0]", "    x[0] = 2 * y"]
SCRIPT = (
    "import numpy as np\nimport emulator\nemulator.launch({ptx!r}, None, [np.ones(4, np.float32)], grid=2, block=1)\n"
)


def found(folder: Path, source: list[str], *, above: int = 0, **options: str) -> tuple[LaunchResult, dict[str, Any]]:
    """Run a race of two CTAs, whose source lines stand below `above` others. Return the launch and the verdict.

    Each call has a folder of its own, because a process reads a source file once.
    """
    there = Path(mkdtemp(dir=folder))
    (there / "kernel.py").write_text("\n".join([*[""] * above, *source]))
    ptx = PTX.format(folder=there, load=above + 2, store=above + 3)
    with chdir(there), emulator.emulate(**options) as device:  # type: ignore[arg-type]
        emulator.launch(ptx, None, [np.ones(4, np.float32)], grid=2, block=1)
        return device.launches[-1], Verdict.of(device).as_json()


@pytest.fixture
def baseline(tmp_path: Path) -> str:
    """Return a file that has the race."""
    file = tmp_path / "findings.json"
    file.write_text(json.dumps(found(tmp_path, SOURCE, diagnostics="report")[1]))
    return str(file)


def test_what_a_baseline_has_is_no_error_at_other_line_numbers_too(tmp_path: Path, baseline: str) -> None:
    launch, verdict = found(tmp_path, SOURCE, above=5, baseline=baseline)
    assert not launch.findings and len(launch.known) == 1
    assert (verdict["verdict"], verdict["errors"], verdict["findings"][0]["level"]) == ("clean", False, "known")
    assert list(Baseline(baseline).stale([verdict])) == []


def test_a_new_finding_is_an_error_and_an_old_entry_is_said(tmp_path: Path, baseline: str) -> None:
    other = [*SOURCE[:2], "    x[0] = y + y"]
    with pytest.raises(DataRace):
        found(tmp_path, other, baseline=baseline)
    _, verdict = found(tmp_path, other, baseline=baseline, diagnostics="report")
    assert verdict["errors"]
    (said,) = Baseline(baseline).stale([verdict | {"test": verdict["findings"][0]["test"]}])
    assert "DataRace at kernel.py:" in said and "was not found: remove it" in said


def test_a_place_that_was_not_known_yet_is_no_difference() -> None:
    """The store after an unwritten read is known at the launch's end; whether the read is known is asked before."""
    entry = "UnwrittenRead", ("kernel.py", "work", "y = x[0]"), ("kernel.py", "work", "x[0] = 1")
    assert _is_same(entry, entry) and _is_same(entry, entry[:2])
    assert not _is_same(entry[:2], entry) and not _is_same(entry, ("DataRace", *entry[1:]))


def test_a_comment_at_the_line_makes_its_class_known(tmp_path: Path) -> None:
    commented = [*SOURCE[:2], f"{SOURCE[2]}  # ptx-emulator: known DataRace"]
    assert len(found(tmp_path, commented)[0].known) == 1
    with pytest.raises(DataRace):
        found(tmp_path, [*SOURCE[:2], f"{SOURCE[2]}  # ptx-emulator: known MissingWait"])


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`run` writes the baseline that `run` and pytest read. What is none is said before the run."""
    (tmp_path / "kernel.py").write_text("\n".join(SOURCE))
    script, baseline = tmp_path / "script.py", tmp_path / "findings.json"
    script.write_text(SCRIPT.format(ptx=PTX.format(folder=tmp_path, load=2, store=3)))
    assert main(["run", "--diagnostics", "report", "--report", str(baseline), str(script)]) == 3
    capsys.readouterr()
    assert main(["run", "--baseline", str(baseline), str(script)]) == 0
    assert "known: DataRace at " in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["run", "--baseline", str(script), str(script)])
    assert "is no report in JSON" in capsys.readouterr().err


@pytest.mark.long
def test_pytest(tmp_path: Path) -> None:
    """An entry of a test that did not run is not stale."""
    (tmp_path / "kernel.py").write_text("\n".join(SOURCE))
    ptx = PTX.format(folder=tmp_path, load=2, store=3)
    tests = f"import emulator, numpy as np\nPTX = {ptx!r}\n"
    for name in ("one", "other"):
        tests += (
            f"def test_{name}(emulated_device):\n    emulator.launch(PTX, None, [np.ones(4, np.float32)], grid=2)\n"
        )
    (tmp_path / "test_it.py").write_text(tests)

    def run(*options: str) -> str:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "emulator.pytest_plugin", "-p", "no:cacheprovider"]
        command += [f"--rootdir={tmp_path}", "-c", "/dev/null", *options, str(tmp_path / "test_it.py")]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout

    file = tmp_path / "findings.json"
    assert "2 failed" in run()
    assert "2 passed" in run(f"--emulator-report={file}", "--emulator-diagnostics=report")
    said = run(f"--emulator-baseline={file}", "-k", "one")
    assert "1 passed" in said and "was not found" not in said
    written = json.loads(file.read_text())
    written["tests"][0]["findings"][0]["class"] = "MissingWait"
    file.write_text(json.dumps(written))
    assert "MissingWait at" in run(f"--emulator-baseline={file}")
