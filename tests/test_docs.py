"""The pages name what exists, their examples run, and their generated blocks are up to date."""

import ast
import importlib.util
import inspect
import math
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import emulator
from emulator import errors
from emulator.chip import SMS
from emulator.commands import mcp
from emulator.debug.report import ROUNDING
from emulator.exploration import explorer
from emulator.isa.wgmma import FRACTION_BITS_OF_8
from emulator.machine.execution.scheduler import QUANTUM
from emulator.machine.formats.truncation import FRACTION_BITS, SIGNIFICAND_BITS
from harness.host import phase
from harness.host.verdict import Verdict
from harness.judge.predict import FEW, LEAST_SEEN, MOST_LONGER
from harness.report.record import load
from kernel import disk
from lab import flashmla, pages
from stages.catalog import CATALOG, COMPILE_S
from stages.listing import gate
from tests.tiers import tier

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("remote/*.md"), *ROOT.glob("emulator/*.md")])
NOT_KEPT = ("results/", "remote/targets.toml", "site/")  # written by runs and users
PACKAGES = ("kernel", "stages", "harness", "remote", "emulator", "lab", "examples", "tests", "docs")
LINES = 150
"""The most lines of a page that are hand-written, not empty and not code."""
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def hand_written(page: Path) -> str:
    """Return a page without its generated blocks."""
    return pages.MARK.sub("", re.sub(r"(?s)<!-- (status|mutants of \w+): begin.*?: end -->", "", page.read_text()))


@pytest.fixture(scope="module")
def kept() -> set[str]:
    """Return every file that git tracks or does not ignore, and their folders."""
    listed = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.splitlines()
    return {str(path) for file in files for path in (Path(file), *Path(file).parents) if (ROOT / file).exists()}


def test_pages_have_one_name_for_the_command() -> None:
    """The command of the installed package, which a clone's environment has too."""
    assert not [page for page in PAGES if "python -m emulator" in page.read_text()]


@every_page
def test_every_file_that_a_page_names_exists(page: Path, kept: set[str]) -> None:
    named = re.findall(rf"(?<![\w./-])(?:{'|'.join(PACKAGES)})/[\w./-]*\w", page.read_text())
    assert {name for name in named if not name.startswith(NOT_KEPT)} <= kept


@every_page
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert (page.parent / link).exists(), link


@every_page
def test_every_module_that_a_page_runs_exists(page: Path) -> None:
    for module in re.findall(rf"-m ((?:{'|'.join(PACKAGES)})[.\w]*\w)", page.read_text()):
        assert importlib.util.find_spec(module), module


@every_page
def test_every_make_target_that_a_page_runs_exists(page: Path) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"(?:`|^ {4}|^)make ([a-z-]+)", page.read_text(), re.MULTILINE)) <= set(targets)


@every_page
def test_a_page_is_short_and_tells_no_history(page: Path) -> None:
    """A decision is the only place for the commit and the day on which something was measured."""
    text = hand_written(page)
    assert len(re.findall(r"(?m)^.*\S", re.sub(r"(?s)```.*?```", "", text))) <= LINES
    if "decisions" not in page.parts:
        assert not re.findall(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b", text), "a commit"
        assert not re.findall(r"(?i)\b(?:today|nowadays|as of now|up to now|no longer)\b", text), "a day"


@every_page
def test_nothing_on_a_page_is_taken_for_html(page: Path) -> None:
    """A renderer drops `<q, k>` if it does not stand in code."""
    text = re.sub(r"(?s)```.*?```|<!--.*?-->|`[^`\n]*`|^ {4}.*?$", "", page.read_text(), flags=re.MULTILINE)
    assert not re.findall(r"<[a-zA-Z/][^\n]*", text)


def test_every_page_of_the_project_that_the_code_names_is_there() -> None:
    for path in (path for name in PACKAGES for path in ROOT.glob(f"{name}/**/*.py")):
        for named in re.findall(r"[\w/-]*\w\.md\b", path.read_text()):
            assert (ROOT / named).exists() or path.is_relative_to(ROOT / "tests") or named == "report.md", (path, named)


def test_a_docstring_begins_with_a_noun_or_an_imperative() -> None:
    """ruff's D401 looks at functions only, and takes a clause such as "Where a value comes from" for an imperative."""
    clause = re.compile(r"(What|Whether|How|Which|Where|Who|Whose|Of)\b")
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for path in (path for name in PACKAGES for path in ROOT.glob(f"{name}/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            text = ast.get_docstring(node) if isinstance(node, kinds) else None
            assert not clause.match(text or ""), f"{path}: {text}"


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    named = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert named == {str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")}


#: Tables whose lines are printed by programs that they run.
RUN = {"litmus", "coverage"}


def generated() -> list[tuple[Path, str]]:
    return [(page, name) for page in PAGES for _, name, _ in pages.MARK.findall(page.read_text())]


@pytest.mark.long
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere() -> None:
    command = ["make", "docs", f"PYTHON={sys.executable}"]
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    built = list((ROOT / "site").rglob("*.html"))
    assert len(built) >= len(list(ROOT.glob("docs/**/*.md")))
    for page in built:
        assert not re.findall(r"""(?:src|href)=["']?https?://[^"'>]+""", page.read_text()), page


def test_every_generated_block_has_one_place() -> None:
    assert sorted(name for _, name in generated()) == sorted(pages.BLOCKS)


@pytest.mark.parametrize(
    ("page", "name"),
    [pytest.param(page, name, id=name, marks=tier(name not in RUN, True)) for page, name in generated()],
)
def test_a_generated_block_is_what_its_data_gives(page: Path, name: str) -> None:
    assert f"-->\n{pages.block(name)}<!-- end {name} -->" in page.read_text(), "run `python -m lab.pages`"


FINDINGS = (ROOT / "docs/reference/findings.md").read_text()
EXAMPLES = re.findall(r"<!-- raises (\w+): block=(\d+) -->\n```ptx\n(.*?)```", FINDINGS, re.DOTALL)


@pytest.mark.parametrize("completion", ["eager", "lazy", "random"])
@pytest.mark.parametrize(("error", "block", "body"), EXAMPLES, ids=[error for error, *_ in EXAMPLES])
def test_an_example_of_a_finding_raises_it(error: str, block: str, body: str, completion: str) -> None:
    (prologue,) = re.findall(r"<!-- prologue -->\n```ptx\n(.*?)```", FINDINGS, re.DOTALL)
    out = np.zeros(1024, np.float32)
    budget = 1000 if error == "BudgetExceeded" else None
    with (
        pytest.raises(getattr(errors, error)) as raised,
        emulator.emulate(completion, level="formal", budget=budget),  # type: ignore[arg-type]
    ):
        emulator.launch(f"{prologue}{body}ret;\n}}\n", args=[out], block=int(block))
    assert raised.type.__name__ == error


def test_every_section_of_findings_has_an_example() -> None:
    sections = set(re.findall(r"^## (\w+)$", FINDINGS, re.MULTILINE))
    assert sections - {error for error, *_ in EXAMPLES} == {
        *("Incomplete", "Interrupted", "LaunchError"),
        *("StreamRace", "UseAfterFree"),  # more than one operation
    }


def test_the_page_of_the_milestones_has_the_milestones_of_the_catalog() -> None:
    rows = re.findall(r"^\| (D[\w.]+) \|", (ROOT / "docs/reference/milestones.md").read_text(), re.MULTILINE)
    assert rows == [milestone.id for milestone in CATALOG]


def test_the_page_of_the_verdicts_has_all_of_them_with_their_exit_status() -> None:
    rows = re.findall(r"^\| ([A-Z_]+) \| (\d+) \|", (ROOT / "docs/reference/verdicts.md").read_text(), re.MULTILINE)
    assert [(name, int(status)) for name, status in rows] == [(each.name, each.exit_code) for each in Verdict]


def test_the_counts_of_the_survey_fit_together() -> None:
    for each in pages.toml(pages.DATA / "survey.toml")["set"]:
        assert each["agree"] + each["fault"] <= each["cases"], each["set"]
        assert each["agree"] + each["fault"] == each["cases"] or each["rest"], each["set"]


def test_the_page_of_the_options_has_the_options_of_emulate() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/reference/options.md").read_text(), re.MULTILINE)
    assert rows[: rows.index("schedule") + 1] == list(inspect.signature(emulator.emulate).parameters)


LATER = [case for each in CATALOG[1:] for case in each.load().CASES if case.head_dim == 64]
"""The cases of head dim 64 after those of the gate."""
DIFFER = Counter(
    (row["mask"], row["head"], row["row"]) for row in pages.rows(ROOT / "results/sample/silicon-h200/attention.csv")
)
"""The values of an H200's O at head dim 256 that differ, by row."""
LOST = sum(
    int(row["run"]) - int(row["pass"]) for row in pages.rows(pages.DATA / "flashmla.csv") if "FlashMLA" not in row["on"]
)
COEFFICIENTS = pages.rows(ROOT / "emulator/isa/interpolation.csv")
BITS = [max(int(row[name]).bit_length() for row in COEFFICIENTS) for name in ("c0", "c1", "c2")]
(TIMES,) = re.findall(r"^TIMES = (\d+)$", (ROOT / "tests/emulator/test_silicon_races.py").read_text(), re.MULTILINE)
INTERVALS = Counter(row["function"] for row in COEFFICIENTS)
LIMITS = (
    ("docs/howto/coding-assistants.md", f"(default {mcp.PATIENCE_S})"),
    ("docs/howto/flash-mla.md", f"Cases with more than {flashmla.TILES} KV tiles are skipped"),
    ("docs/howto/flash-mla.md", f"{LOST} cases of the prefill fail on the H100"),
    ("docs/explanation/silicon.md", f"{sum(DIFFER.values())} of 2 x 131,072"),
    ("docs/explanation/silicon.md", f"{sum(n for _, n in DIFFER.most_common(3))} of them are in three rows"),
    ("docs/explanation/silicon.md", f"in one of {INTERVALS['ex2']} (rcp: {INTERVALS['rcp']}) intervals"),
    ("docs/explanation/silicon.md", f"coefficients of at most {BITS[0]}, {BITS[1]} and {BITS[2]} bits"),
    (
        "docs/explanation/silicon.md",
        f"| {FRACTION_BITS} fractional bits | exact | toward zero, {SIGNIFICAND_BITS} frac",
    ),
    ("docs/explanation/silicon.md", f"| {FRACTION_BITS_OF_8} fractional bits | exact |"),
    ("docs/explanation/silicon.md", f"right results in {TIMES} of {TIMES} launches"),
    ("docs/howto/engines.md", f"At most {disk.MOST} configurations are kept"),
    ("docs/howto/find-a-wrong-value.md", f"(default 2^{math.log2(ROUNDING):.0f})"),
    ("docs/explanation/memory-model.md", f"2^{math.log2(QUANTUM):.0f} instructions"),
    ("docs/explanation/memory-model.md", f"the shared memory of {SMS}"),
    ("docs/explanation/judge.md", f"takes more than {MOST_LONGER} times as long"),
    ("docs/explanation/judge.md", f"has more than {phase.MOST_PROCESSES} processes or {phase.MOST_SHARE:.0%} of the"),
    ("docs/explanation/judge.md", f"less than {LEAST_SEEN} of one of them"),
    ("docs/explanation/judge.md", f"up to {FEW:.1%} of the instructions"),
    ("docs/explanation/judge.md", f"These are {len(gate()[0])} of {len(LATER)} cases"),
    ("docs/reference/milestones.md", f"may take {COMPILE_S:.0f} s of CPU time"),
    ("docs/reference/options.md", f"if {explorer.RUNS:,} runs or {explorer.SECONDS:.0f} s do not suffice"),
    ("README.md", "accepted on all twenty milestones"),
)
"""Pages, and what they say with a constant of the code in it."""


@pytest.mark.parametrize(("page", "said"), LIMITS)
def test_a_limit_that_a_page_names_is_that_of_the_code(page: str, said: str) -> None:
    assert said in " ".join((ROOT / page).read_text().split()) and len(CATALOG) == 20


def test_the_shares_of_the_broken_programs_are_those_of_the_table() -> None:
    """More than half of the faults give no error on an H200, and more than a third have no visible effect."""
    *_, wrong, right = counts = [int(line.split(" | ")[1].strip(" |")) for line in [*pages.silicon_outcomes()][2:]]
    assert 2 * (wrong + right) > sum(counts) and 3 * right > sum(counts)


def test_the_run_that_the_readme_shows_is_the_sample() -> None:
    """Its figures are those of results/sample, and its predicted cycles are pinned."""
    record, shown = load(ROOT / "results/sample"), (ROOT / "README.md").read_text()
    rejected = sum(control.refused for control in record.negative_controls)
    assert f"negative controls: {rejected} of {len(record.negative_controls)} rejected" in shown
    assert record.prediction is not None and f"predicted, not measured: {record.prediction}" in shown
    pinned = tomllib.loads((ROOT / "stages/cycles.toml").read_text())["D1.1"][0]
    assert f"{pinned:,} cycles" in shown


def test_the_variables_of_make_are_listed() -> None:
    makefile, page = (ROOT / "Makefile").read_text(), (ROOT / "docs/reference/make-variables.md").read_text()
    listed = set(re.findall(r"([A-Z_]+)=", page))
    named = set(re.findall(r"\b([A-Z_]+)=", "\n".join(re.findall("##(.*)", makefile))))
    assert named <= listed
    assert {name for name in listed if f"$({name})" not in makefile} == set()


@pytest.mark.parametrize("page", ["clock-accuracy", "clock", "silicon-times", "kernel-on-h200"])
def test_percentages_of_measurements_are_generated(page: str) -> None:
    """A goal, and the share that a range holds by definition, do not change with the data."""
    (path,) = (ROOT / "docs").rglob(f"{page}.md")
    text = re.sub(r"```.*?```", "", hand_written(path), flags=re.DOTALL)
    allowed = ("The goal is 10% in the mean", "worst error of 25%, and 25% for", "differ by 10%", "holds 90% of")
    for line in text.splitlines():
        assert not re.search(r"\d%", line) or any(words in line for words in allowed), line
