"""Wrong versions of the kernel: what is generated, under which ids, and what becomes of one."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.paths import ROOT
from lab.mutants import pool, sources
from lab.mutants.operators import Mutant, mutants
from lab.mutants.results import equivalents
from lab.mutants.sources import FILES, generated, original

SOURCE = '''"""Doc."""

SCALE = 0.5


class Warp:
    """A warp."""

    def run(self, i: int, count: int) -> int:
        """Docstring with 1 < 2."""
        stage, phase = i % 2, i >> 1 & 1
        bars.wait("k_full", stage, phase)
        fence()
        if i < count and stage:
            self.total += larger(count - 1, 0)
        with cute.arch.elect_one():
            bars.commit("o_done", stage)
        return select_(i > 0, scale_log2 * LN2, 1.0)
'''


def changes(operator: str) -> set[str]:
    """Return the lines that an operator makes of SOURCE."""
    found = [each.diff(SOURCE) for each in mutants("a.py", SOURCE) if each.operator == operator]
    return {" / ".join(line[1:].strip() for line in diff.splitlines() if line[0] == "+") for diff in found}


@pytest.mark.parametrize(
    ("operator", "made"),
    [
        ("drop", "pass"),
        ("order", 'fence() / bars.wait("k_full", stage, phase)'),
        ("phase", 'bars.wait("k_full", stage, (phase) ^ 1)'),
        ("stage", 'bars.wait("k_full", (stage) + 1, phase)'),
        ("barrier", 'bars.wait("v_full", stage, phase)'),
        ("elect", "if True:"),
        ("update", "pass"),
        ("boundary", "if i <= count and stage:"),
        ("negate", "if i >= count and stage:"),
        ("operand", "if stage:"),
        ("clamp", "self.total += (count - 1)"),
        ("select", "return select_(i > 0, 1.0, scale_log2 * LN2)"),
        ("arithmetic", "return select_(i > 0, scale_log2, 1.0)"),
        ("arithmetic", "stage, phase = i % 2, i & 1"),
        ("integer", "self.total += larger(count - 2, 0)"),
        ("scale", "return select_(i > 0, scale_log2 * LOG2E, 1.0)"),
        ("scale", "return select_(i > 0, (scale_log2 * 1.01) * LN2, 1.0)"),
        ("real", "SCALE = 0.505"),
    ],
)
def test_an_operator_makes_its_edit(operator: str, made: str) -> None:
    assert made in changes(operator)


def test_docstrings_annotations_and_names_are_left_alone() -> None:
    for each in mutants("a.py", SOURCE):
        ast.parse(each.source(SOURCE))
        assert '"""' not in each.text and "def " not in each.text, each.id


def test_ids_stay_when_lines_shift() -> None:
    shifted = SOURCE.replace("class Warp", "X = some(thing)\n\n\nclass Warp")
    ids = {each.id for each in mutants("a.py", SOURCE)}
    assert len(ids) == len(mutants("a.py", SOURCE))
    assert ids <= {each.id for each in mutants("a.py", shifted)}


def test_a_result_lasts_until_its_own_function_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comments and other functions do not count; each place of the file has a digest of its own."""
    text = "LIMIT = 1\nclass Warp:\n    def run(self):\n        wait(0)\n    def end(self):\n        wait(1)\n"
    places = ("", "Warp", "Warp.run", "Warp.end")

    def digests(text: str) -> list[str]:
        monkeypatch.setattr(sources, "original", lambda path: text)
        sources.meaning.cache_clear()
        return [sources.meaning("kernel/x.py", place) for place in places]

    before = digests(text)
    assert len(set(before)) == len(places)
    assert digests(text.replace("wait(0)", "wait(0)  # for Q")) == before
    after = digests(text.replace("wait(1)", "wait(2)"))
    assert [place for place, x, y in zip(places, before, after, strict=True) if x != y] == ["Warp.end"]


@pytest.mark.thorough
@pytest.mark.parametrize("chip", FILES)
def test_every_mutant_of_the_kernel_is_a_program_and_has_an_id_of_its_own(chip: str) -> None:
    found = generated(chip=chip)
    assert len(found) >= 400 and len({each.id for each in found}) == len(found)
    assert {each.path for each in found} == set(FILES[chip])
    for each in found:
        ast.parse(each.source(original(each.path)))


@pytest.mark.parametrize("chip", FILES)
def test_every_synchronisation_call_of_the_device_can_be_left_out(chip: str) -> None:
    dropped = {(each.path, each.line) for each in generated(chip=chip) if each.operator == "drop"}
    words = (".wait(", "arrive", ".commit(", "fence", "sync_", ".barrier(", "wait_group", "commit_group")
    for path in FILES[chip]:
        for node in ast.walk(ast.parse(original(path))):
            if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
                continue
            if any(word in ast.unparse(node).partition("(")[0] + "(" for word in words):
                assert (path, node.lineno) in dropped, f"{path}:{node.lineno}"


def test_the_device_code_of_a_chip_is_mutated_and_judged_there() -> None:
    """Files of kernel/device are judged on both chips, and so are mutated lines of those of one chip on that one."""
    folders = {"b200": "sm100", "h200": "sm90"}
    for chip, folder in folders.items():
        listed = {path.removesuffix(".py") for path in FILES[chip]}
        device = {f"kernel/device/{path.stem}" for path in (ROOT / "kernel/device").glob("*.py")}
        own = {f"kernel/{folder}/{path.stem}" for path in (ROOT / "kernel" / folder).glob("*.py")}
        assert device - listed == {"kernel/device/__init__"}
        assert own - listed <= {f"kernel/{folder}/{name}" for name in ("__init__", "hardware", "budget")}


@pytest.mark.parametrize("chip", FILES)
def test_every_equivalent_is_generated_and_has_a_reason(chip: str) -> None:
    found = {each.id: each for each in (*generated(True, "b200"), *generated(True, chip))}
    for each in equivalents(chip).values():
        assert each.id in found, f"{each.id}: no such mutant; was the line changed? then reason again"
        assert each.line == found[each.id].text and each.reason, each.id


def _task(kind: str, report: pool.Report) -> None:
    report(kind)
    if kind == "raises":
        raise ValueError("no such case")
    if kind == "computes too long":
        os.kill(os.getpid(), signal.SIGXCPU)
    if kind == "is killed":
        os.kill(os.getpid(), signal.SIGTERM)


def test_each_task_has_a_process_whose_end_is_reported() -> None:
    ends = {"returns": "", "raises": "error", "computes too long": "timeout", "is killed": "SIGTERM"}
    done = {each.task: each for each in pool.run(list(ends), _task, 2)}
    assert {name: each.end for name, each in done.items()} == ends
    assert all(each.reports[0] == name for name, each in done.items())
    assert "no such case" in done["raises"].reports[1]["error"]


def ends_of(mutants: list[Mutant], folder: Path) -> list[str]:
    """Return the outcome of each mutant against D1.1."""
    program = (
        "import sys, json; sys.path.insert(0, '.')\n"
        "from pathlib import Path\n"
        "from lab.mutants import __main__ as program, baseline, pool, trial, plan\n"
        "from lab.mutants.sources import generated\n"
        "folder, *ids = sys.argv[1:]\n"
        "known = baseline.find(Path(folder), 1, print, ('D1.1',))\n"
        "mutants = {each.id: each for each in generated(True)}\n"
        "chosen = [mutants[id] for id in ids]\n"
        "tasks = [trial.Task(each, [], plan.using(each, known.cases), folder, False) for each in chosen]\n"
        "ends = {done.task.mutant.id: program.result_of(done, 0).how for done in pool.run(tasks, trial.run, 1)}\n"
        "print(json.dumps([ends[id] for id in ids]))\n"
    )
    command = [sys.executable, "-c", program, str(folder), *(mutant.id for mutant in mutants)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("line", "end"),
    [('wait("s_full"', "finding"), ("prefetch_descriptor", "")],
    ids=["a wrong kernel is killed", "an equal one survives"],
)
def test_a_mutant_against_a_milestone(line: str, end: str, tmp_path: Path) -> None:
    mutant = next(each for each in generated(everything=True) if each.operator == "drop" and line in each.text)
    assert ends_of([mutant], tmp_path) == [end]
