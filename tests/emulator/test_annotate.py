"""Annotations of a GitHub workflow, and the scripts of action.yml in a project of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path

import pytest

from emulator.commands.annotate import command_of, findings, summary
from emulator.commands.main import main

ROOT = Path(__file__).parents[2]
FOUND = {
    "class": "MissingWait",
    "level": "formal",
    "message": "st uses %r30 | early",
    "report": "MissingWait: 100%\n  at PTX line 7",
    "kernel": "k",
    "times": 2,
    "ptx_line": 7,
    "source": {"file": "a,b.py", "line": 3, "function": "f"},
}
REPORT = {"verdict": "formal", "tests": [{"findings": [FOUND]}, {"findings": [FOUND]}]}


def test_a_finding_is_a_command_on_its_line() -> None:
    """Characters that end a property or a command are escaped, and a cause is shown once."""
    (found,) = findings(REPORT)
    assert command_of(found) == (
        "::warning title=MissingWait in k,file=a%2Cb.py,line=3::MissingWait: 100%25%0A  at PTX line 7"
    )


def test_a_finding_without_a_source_has_no_line() -> None:
    assert command_of(FOUND | {"source": None, "level": "fault"}).startswith("::error title=MissingWait in k::")


def test_a_kernel_has_its_name_in_the_source() -> None:
    found = FOUND | {"kernel": "kernel_cutlass_f_tensorptrf32gmemo1281_0"}
    assert command_of(found).startswith("::warning title=MissingWait in f,")
    assert command_of(FOUND | {"kernel": "_Z3dotPKfi"}).startswith(
        "::warning title=MissingWait in dot(float const*%2C int)"
    )


@pytest.mark.parametrize(
    ("contents", "says"),
    [
        ('{"runs": [], "version": "2.1.0"}', "SARIF needs no annotations"),
        (None, "No such file"),
        ("{", "is not JSON"),
        ("{", "--report FILE"),
    ],
)
def test_a_report_that_cannot_be_read(
    contents: str | None, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    if contents is not None:
        report.write_text(contents)
    assert main(["annotate", str(report)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"annotate: {report}") and says in said


def test_the_table() -> None:
    kernel = {"kernel": "k", "registers": 168, "stack_bytes": 0, "spill_store_bytes": 4}
    text = "\n".join(summary(REPORT, {"kernels": [kernel], "over_budget": ["over budget: k"]}))
    assert "### Emulated device: formal in 2 tests" in text
    assert "| formal | MissingWait: st uses %r30 \\| early | a,b.py:3 | 2 |" in text
    assert "| k | 1 |  |  |  | 168 | 4 |" in text and "- over budget: k" in text
    assert "Nothing was found." in "\n".join(summary({"verdict": "clean", "findings": []}, None))


def test_the_table_of_a_pull_request() -> None:
    """A kernel that is launched twice is one row; registers that stay are said once."""
    launch = {
        "head": "k",
        "figures": [{"name": "cycles", "base": 1000.0, "head": 1100.0}],
        "resources": [{"name": "registers", "base": 128, "head": 168}, {"name": "spilled", "base": 0, "head": 0}],
    }
    compared = {"launches": [launch, launch], "chip": "B200", "base": "main (123)", "machine_code": "ptxas 13.5"}
    text = "\n".join(summary(REPORT, None, compared))
    assert "| k | 1 | 2,000 | 2,200 | +10.0% | 128 -> 168 | 0 |" in text
    assert "predicted for a B200, not measured. Base: main (123)." in text


TEST = """
import numpy as np, ptx_emulator

PTX = '''.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 x) {
.reg .b64 %a; .reg .b32 %t;
.shared .b32 s;
ld.param.u64 %a, [x]; ld.shared.b32 %t, [s];
st.global.u32 [%a], %t; ret; }'''

def test_it(emulated_device):
    ptx_emulator.launch(PTX, args=[np.zeros(32, np.uint32)])
"""

BENCH = """
import numpy as np, ptx_emulator
body = "ex2.approx.f32 %f, %f;" * ROUNDS
ptx_emulator.launch(f'''.version 8.8
.target sm_100a
.address_size 64
.visible .entry timed(.param .u64 x) {{
.reg .b64 %a; .reg .f32 %f;
ld.param.u64 %a, [x]; ld.global.f32 %f, [%a]; {body}
st.global.f32 [%a], %f; ret; }}''', args=[np.zeros(32, np.float32)])
"""


@pytest.mark.long
def test_the_scripts_of_the_action(tmp_path: Path) -> None:
    """They install the package, run a project's tests, fail as these do, compare base and head, annotate, summarise."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "test_it.py").write_text(TEST)
    git = ("git", "-C", project, "-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", "init", "--quiet", project], check=True)
    for rounds in (8, 64):
        (project / "bench.py").write_text(BENCH.replace("ROUNDS", str(rounds)))
        subprocess.run([*git, "add", "--all"], check=True)
        subprocess.run([*git, "commit", "--quiet", "--message=a"], check=True)
    base = subprocess.run([*git, "rev-parse", "HEAD~1"], capture_output=True, text=True, check=True).stdout.strip()
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (site / "its_own.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    environment = {
        "PATH": f"{tmp_path / 'venv/bin'}{os.pathsep}{os.environ['PATH']}",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "EMULATOR": str(ROOT),
        "REQUIREMENTS": "",
        "TESTS": "test_it.py",
        "LEVEL": "fault",
        "SCRIPT": "bench.py",
        "BASE": base,
        "PULL": "",
        "COMMENT": "false",
    }
    scripts = re.findall(r"run: \|\n((?: {8}.*\n|\n)+)", (ROOT / "action.yml").read_text())
    assert len(scripts) == 2
    ended = [
        subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", textwrap.dedent(script)],
            cwd=project,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        for script in scripts
    ]
    assert [one.returncode for one in ended] == [0, 1], "".join(one.stdout + one.stderr for one in ended)
    assert "::error title=UnwrittenRead in k::UnwrittenRead: " in ended[1].stdout
    summary = (tmp_path / "summary.md").read_text()
    assert "| fault | UnwrittenRead: " in summary
    row = re.search(r"\| timed \| 0 \| ([\d,]+) \| ([\d,]+) \| \+\d+\.\d% \| \d+(?: -> \d+)? \| 0 \|", summary)
    assert row and row[1] < row[2], summary
