"""The command line, and the Makefile in front of it."""

import os
import re
import runpy
import signal
import subprocess
import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

from harness import cli
from stages.catalog import CATALOG

ROOT = Path(__file__).parents[2]


def call(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command as typed in a shell, without the variables of a `make` that runs these tests."""
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False, env=env)


def harness(*arguments: str) -> subprocess.CompletedProcess[str]:
    return call(sys.executable, "-m", "harness", *arguments)


def test_an_unknown_milestone_ends_with_2_and_names_those_that_exist() -> None:
    done = harness("stage", "D99")
    assert done.returncode == 2
    assert done.stderr.startswith("no milestone 'D99'; there are D1.1, D1.2, ")
    assert done.stdout == ""


@pytest.mark.parametrize(
    "module", ["harness.judge.run", "harness.judge.record_calls", "harness.judge.sweep", "lab.layout"]
)
def test_the_modules_behind_refuse_it_as_well(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [module, "D99"])
    with pytest.raises(SystemExit) as ended:
        import_module(module).main()
    assert ended.value.code == 2
    assert (
        capsys.readouterr()
        .err.splitlines()[-1]
        .startswith(f"python -m {module}: error: argument milestone: no milestone 'D99'; there are D1.1, ")
    )


def test_an_unknown_target_ends_with_2() -> None:
    done = harness("stage", "D1.1", "--target", "b9")
    assert done.returncode == 2
    assert "'b9'" in done.stderr


COMMANDS = (
    *("stage", "stages", "gate", "ratchet", "runs", "resume", "cancel", "doctor", "trust", "provision"),
    *("clean-runs", "dashboard", "milestones", "report", "notes", "perf"),
)


def test_help_lists_every_command() -> None:
    done = harness("--help")
    assert done.returncode == 0
    assert "usage: python -m harness" in done.stdout
    assert all(re.search(rf"^ +{command}\s", done.stdout, re.M) for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_each_command_does(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main([command, "--help"])
    usage, says = capsys.readouterr().out.split("\n\n")[:2]
    assert usage.startswith(f"usage: python -m harness {command} ") and says.strip().endswith(".")


@pytest.mark.parametrize("arguments", [[], ["sweep", "D1.1", "--seeds", "-3"], ["stag"]], ids=" ".join)
def test_a_command_line_with_a_mistake_ends_with_2_and_the_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(arguments)
    assert capsys.readouterr().err.startswith("usage: python -m harness")


def test_the_list_of_milestones_says_which_are_built() -> None:
    lines = [line.split() for line in harness("milestones").stdout.splitlines()]
    assert [words[:2] for words in lines] == [[milestone.id, "built"] for milestone in CATALOG]


def test_the_parent_process_stays_lean() -> None:
    """torch, which only the child needs, takes seconds to import; paramiko, which only SSH links need, 0.1 s."""
    heavy = "{'torch', 'cutlass', 'numpy', 'matplotlib', 'pytest', 'paramiko', 'fabric', 'jinja2'}"
    done = call(sys.executable, "-c", f"import harness.cli, sys; print(sorted({heavy} & set(sys.modules)))")
    assert done.stdout == "[]\n", done.stderr


def test_make_alone_lists_the_targets() -> None:
    done = call("make")
    assert done.returncode == 0
    listed = [line.split(maxsplit=1) for line in done.stdout.splitlines() if line.startswith("  ")]
    assert all(len(each) == 2 for each in listed), "one line each says what it does"
    assert {"help", "setup", "stage", "stages", "gate", "resume", "doctor", "report", "test"} <= {
        each[0] for each in listed
    }


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["stage", "D99"], "no milestone 'D99'; there are D1.1"),
        (["stage"], "no milestone was given; there are D1.1"),
        (["perf", "D1.1", "TARGET=sim"], "target 'sim' has no GPU to measure on; to predict instead: make perf D1.1"),
        (["perf", "TARGET=sim"], "target 'sim' has no GPU to measure on; to predict instead: make perf\n"),
        (["perf", "SHAPE=serve-*", "TARGET=sim"], "SHAPE is for predictions: leave out TARGET. "),
        (["resume"], "no run was named (RUN=id); "),
        (["stage", "D1.1", "TARGET=no where"], "target 'no where': there are sim"),
        (["stage", "D1.1", "UNPIN=stages", "BECAUSE= "], 'unpin stages: give a reason, UNPIN="stages" BECAUSE="why"'),
        (["stage", "D1.1", "TARGET=it's"], 'target "it\'s": there are sim'),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_make_passes_on_what_is_typed(words: list[str], says: str) -> None:
    done = call("make", *words)
    assert done.returncode == 2
    assert done.stderr.startswith(says), done.stderr
    assert done.stdout == ""


def test_ctrl_c_while_modules_are_imported_ends_the_process(tmp_path: Path) -> None:
    """An exception is no use there: in a callback of the import system Python prints and forgets it."""
    (tmp_path / "msgspec.py").write_text(
        "import os, signal, weakref\nclass Lock: pass\nlock = Lock()\n"
        "reference = weakref.ref(lock, lambda _: os.kill(os.getpid(), signal.SIGINT))\ndel lock\n"
        "raise SystemExit('still there')\n"
    )
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    reacts = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # nohup and background jobs ignore it
    command = [sys.executable, "-m", "harness", "runs"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=env, preexec_fn=reacts, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_ctrl_c_before_a_run_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "main", interrupted)
    with pytest.raises(SystemExit, match="130"):
        runpy.run_module("harness", run_name="__main__")
    assert capsys.readouterr().err == "interrupted; `make runs` lists the runs that were started\n"
