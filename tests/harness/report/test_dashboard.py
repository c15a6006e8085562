"""The dashboard in a real browser: its pages link to each other, fold, load quickly, and log no errors."""

import csv
import io
import json
import random
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from markupsafe import Markup

from harness.host.repository import Repository
from harness.host.subject import Subject
from harness.host.verdict import Verdict
from harness.report import compare, dashboard, history
from harness.report.page import Run
from harness.report.record import Case, Compile, Figure, Launch, Phase, Prediction, Record, Tree, load
from stages.catalog import CATALOG
from tests.browser import Browser
from tests.conftest import MadeOnce
from tests.system import ROOT

MESSAGE = "D1.1 hd=64 n=128 seed={}: outside its pins\nO.cosine = 0.3\nat kernel/reference.py:12 of it"


def make(results: Path, i: int, milestone: str = "D1.1", busy: float | None = None) -> Run:
    """Make a run with random figures. Every fifth run fails, with the same error for two seeds."""
    drawn = random.Random(i)
    name = f"20261122-{i // 3600:02}{i // 60 % 60:02}{i % 60:02}-{milestone}-{i:06x}"
    fails, folder = i % 5 == 4, results / name
    figures = [
        Figure("O", "cosine", 1 - 2e-6 * drawn.uniform(0.4, 0.9), "at least", 1 - 2e-6, True),
        Figure("lse", "error", 5e-7 * drawn.uniform(0.5, 1.0), "at most", 1e-6, True),
        Figure("lse", "masks", 0.0, "at most", 0.0, True),
    ]
    cases = [
        Case("n=128", "failed" if fails else "passed", 0.5, seed, launches=[Launch("eager", 0.4)], figures=figures)
        for seed in (1, 2)
    ]
    for case in cases:
        case.message = MESSAGE.format(case.seed) if fails else ""
    record = Record(name, milestone, "sim", "2026-11-22T01:00:00Z", Tree(f"{i:040x}", []), cases=cases)
    record.phases = [Phase("stage", record.started, "passed", 1.0, busy)]
    record.compiles = [Compile("n=128", drawn.uniform(2, 3), [], 200 + i % 3)]
    cycles = 8000.0 + 100 * (i % 3)
    record.prediction = Prediction("n=128", "B200", cycles, 6e-6, 9000.0, ("TMA", "latency")[i % 2], {}, [], [])
    record.verdict = (Verdict.REJECT_GATE if fails else Verdict.ACCEPT).name
    folder.mkdir(parents=True)
    record.save(folder)
    head = Repository(ROOT).git("rev-parse", "HEAD")
    about = Subject(run=name, commit=head, base=head, milestones=[milestone], target="sim", user="ada", pins="")
    return Run(about, record.started, record.verdict, "it says <b>", folder)


@pytest.fixture(scope="module")
def pages(made_once: MadeOnce) -> Path:
    """Write the dashboard of 500 runs into a folder with an odd name."""
    name = "Ada's results, é"

    def write(folder: Path) -> None:
        runs = [make(folder / name, i) for i in range(500)]
        assert dashboard.write(folder / name, runs[::-1], Repository(ROOT)) == folder / name / "dashboard/index.html"

    return made_once("history", write) / name / "dashboard/index.html"


@pytest.mark.long  # the next test opens the same page
@pytest.mark.browser
def test_five_hundred_runs_open_soon_and_lead_to_each_other(opened: Browser, pages: Path) -> None:
    took = min(opened.open(pages) for _ in range(3))
    assert took < 2.0, f"{took:.2f} s"
    assert opened.ask("document.querySelectorAll('.runs tbody tr').length") == 500
    hrefs = opened.ask("[...document.links].map(each => decodeURIComponent(each.pathname))")
    assert len(hrefs) > 500 and [each for each in set(hrefs) if not Path(each).exists()] == []
    newest = opened.click(".runs tbody a")
    assert opened.ask("document.querySelector('[rel=next]')") is None
    before = opened.click("[rel=prev]")
    assert opened.click("[rel=next]") == newest and opened.back() == before and opened.back() == newest
    assert opened.click("nav a").endswith("/index.html")
    assert opened.errors == []


@pytest.mark.browser
def test_the_list_shows_what_was_accepted_or_the_rest(opened: Browser, pages: Path) -> None:
    shown = "[...document.querySelectorAll('.runs tbody tr')].filter(row => row.checkVisibility()).length"
    opened.open(pages)
    for choice, count in (("accepted", 400), ("others", 100), ("every", 500)):
        opened.ask(f"document.getElementById('{choice}').click()")
        assert opened.ask(shown) == count


@pytest.mark.browser
def test_what_failed_comes_first_and_once_with_its_source(opened: Browser, pages: Path) -> None:
    opened.open(sorted(pages.parent.glob("2*.html"))[4])
    assert opened.ask("document.querySelectorAll('.failure').length") == 1
    assert opened.ask("document.querySelector('.failure').open") is True
    assert "n=128 seed=1 and 1 more like it" in opened.ask("document.querySelector('.failure > summary').textContent")
    assert opened.ask("document.querySelector('.source mark').textContent").split()[0] == "12"
    assert opened.ask("document.querySelectorAll('details details')[0].open") is False
    opened.ask("document.querySelector('.failure > summary').click()")
    assert opened.ask("document.querySelector('.message').checkVisibility()") is False
    assert opened.errors == []


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_a_milestone_is_drawn_on_any_screen(opened: Browser, pages: Path, width: int, dark: bool) -> None:
    opened.look(width, dark)
    opened.open(pages.parent / "D1.1.html")
    assert opened.ask("document.documentElement.scrollWidth") <= width
    charts = opened.ask("[...document.querySelectorAll('.charts svg')].map(each => each.clientWidth)")
    assert len(charts) == 6 and all(250 < each <= width for each in charts), charts
    ink, paper = (
        opened.ask(f"getComputedStyle(document.querySelector('{where}')).{what}")
        for where, what in ((".charts svg text", "fill"), ("body", "backgroundColor"))
    )
    bright = [sum(map(int, each.strip("rgb()").split(","))) for each in (ink, paper)]
    assert (bright[0] > 600 > 150 > bright[1]) if dark else (bright[1] > 600 > 150 > bright[0]), (ink, paper)
    assert opened.click(".charts a").endswith(".html")
    assert opened.errors == []


@pytest.mark.long
@pytest.mark.browser
def test_no_table_of_the_first_page_is_cut_off(opened: Browser, pages: Path) -> None:
    """On a phone a table scrolls, and its first column stays."""
    for width in (360, 1400, 2000):
        opened.look(width, dark=width == 1400)
        for name in ("index.html", "matrix.html", "D1.1.html"):
            opened.open(pages.parent / name)
            hidden = opened.ask("[...document.querySelectorAll('.wide')].map(e => e.scrollWidth - e.clientWidth)")
            assert max(hidden) <= 0 or width == 360, (name, width, hidden)
            assert opened.ask("document.documentElement.scrollWidth") <= width
    opened.look(360, dark=False)
    opened.open(pages)
    opened.ask("document.querySelector('.wide').scrollLeft = 200")
    assert opened.ask("document.querySelector('.wide td').getBoundingClientRect().left") < 20
    assert opened.errors == []


def test_milestones_by_commit_and_those_that_were_not_accepted(pages: Path) -> None:
    subject = Repository(ROOT).git("log", "-1", "--format=%s")
    escaped = str(Markup.escape(subject))
    matrix, first, one = ((pages.parent / name).read_text() for name in ("matrix.html", "index.html", "D1.1.html"))
    assert matrix.count("<tr>") == 2 and 'title="REJECT_GATE"' in matrix and escaped in matrix
    assert escaped[:90] in first and escaped in one
    assert one.count('<td class="verdict CHANGE">REJECT_GATE</td>') == 100
    assert first.count(">O.cosine = 0.3<") == one.count(">O.cosine = 0.3<") == 100, "why: what was found"
    headings = re.findall(r"<th[^>]*>([^<]+)", first.partition("<h1>Runs")[0])
    assert len(headings) == len(set(headings)) == 12


@pytest.mark.parametrize("verdict", [*Verdict.__members__, ""])
def test_a_run_with_any_verdict_is_in_the_matrix(tmp_path: Path, verdict: str) -> None:
    run = make(tmp_path, 0)
    record = load(run.folder)
    record.verdict = ""  # as of a run that was cancelled, or is going on
    record.save(run.folder)
    dashboard.write(tmp_path, [replace(run, verdict=verdict)], Repository(ROOT))
    assert f'title="{verdict or "going"}"' in (tmp_path / "dashboard/matrix.html").read_text()


def test_the_matrix_marks_runs_whose_reader_must_know_more(tmp_path: Path) -> None:
    run = make(tmp_path, 0)
    about = replace(run.subject, unpinned=["stages"], because='a "new" pin')
    dashboard.write(tmp_path, [replace(run, subject=about)], Repository(ROOT))
    matrix = (tmp_path / "dashboard/matrix.html").read_text()
    said = "ACCEPT; unpinned stages because a &#34;new&#34; pin; the candidate&#39;s own code judged (stages)"
    assert f'title="{said}"' in matrix and "✓*</a>" in matrix


def test_a_step_is_found_and_busy_runs_are_drawn_apart(tmp_path: Path) -> None:
    runs = [make(tmp_path, 5 * (i // 3) + i % 3, busy=3.0 if i % 4 == 1 else 0.5) for i in range(24)]
    for i, run in enumerate(runs):
        record = load(run.folder)
        assert record.prediction is not None
        record.prediction = msgspec.structs.replace(record.prediction, cycles=9000.0 if i >= 12 else 8000.0)
        found = i % 4 == 2  # compiled by the busy run before
        seconds = 30.0 if found or i % 4 == 1 else random.Random(i).uniform(2.0, 2.2)
        record.compiles = [Compile("n=128", seconds, [], 200, found=found)]
        record.save(run.folder)
    points = list(history.points(runs, {}))
    standing = dashboard.Standing(CATALOG[0], points, [])
    (step,) = standing.steps()
    assert (step.figure, step.before, step.after) == ("predicted cycles of the first case", "8,000", "9,000")
    assert step.point is points[12]
    assert [(level.start, level.end) for level in standing.levels["slowest compile, s"]] == [(0, 24)]
    compiles = next(svg for svg in standing.charts() if "slowest compile, s (hollow: the machine was busy)" in svg)
    assert len(re.findall(r"<use [^>]*fill: none", compiles)) == 6 or compiles.count("fill: none; stroke: #3b82d6") >= 6


def test_cycles_of_every_case_are_compared_with_the_run_before(tmp_path: Path) -> None:
    points = list(history.points([make(tmp_path, i) for i in range(2)], {}))
    for point, cycles in zip(points, ({"a": 100.0, "b": 200.0}, {"a": 110.0, "b": 200.0, "c": 1.0}), strict=True):
        vars(point)["cycles_by_case"] = cycles
    standing = dashboard.Standing(CATALOG[0], points, [])
    rows = [(row.figure, row.before, row.after, row.change) for row in standing.case_cycles()]
    assert rows == [("a", "100", "110", "+10.0%"), ("b", "200", "200", ""), ("c", "", "1", "")]
    assert history.relative_cycles(points) == [pytest.approx((100 / 110) ** 0.5), 1.0]
    assert any("predicted cycles of all cases" in svg for svg in standing.charts())


def test_the_history_is_exported(pages: Path) -> None:
    rows = list(csv.DictReader(io.StringIO((pages.parent / "history.csv").read_text())))
    same = json.loads((pages.parent / "history.json").read_text())
    assert len(rows) == len(same) == 500
    assert rows[0]["run"] == same[0]["run"] and float(rows[0]["lse_error"]) == same[0]["lse_error"]
    assert same[0]["cycles_by_case"] == {"n=128": same[0]["predicted_cycles"]}
    assert {row["verdict"] for row in rows} == {"ACCEPT", "REJECT_GATE"}


def test_a_formula_in_a_subject_stays_text(tmp_path: Path) -> None:
    (point,) = history.points([make(tmp_path, 0)], {Repository(ROOT).git("rev-parse", "HEAD"): "=1+1"})
    assert "'=1+1" in history.as_csv([point])


def test_two_runs_are_compared(tmp_path: Path) -> None:
    before, after = make(tmp_path, 3), make(tmp_path, 4)
    found = compare.compare(before, after, Repository(ROOT))
    text = "\n".join(compare.lines(found))
    assert re.search(r"verdict +ACCEPT +REJECT_GATE", text)
    assert re.search(r"predicted cycles, n=128 +8,000 +8,100 +\+1\.2%", text), text
    assert "emulated launches" not in text, "it is equal"
    page = compare.write(found)
    assert page.parent == after.folder and "REJECT_GATE" in page.read_text() and "<b>" not in page.read_text()


def test_runs_without_a_common_milestone_or_commit_are_compared(tmp_path: Path) -> None:
    before, after = make(tmp_path, 0), make(tmp_path, 1, "D1.2")
    elsewhere = replace(before, subject=replace(before.subject, commit="1" * 40))
    text = "\n".join(compare.lines(compare.compare(elsewhere, after, Repository(ROOT))))
    assert text.count("not run") == 2 and "git diff" not in text


def test_a_commit_that_moved_a_figure_is_named(tmp_path: Path) -> None:
    runs = [make(tmp_path, i) for i in range(2)]
    dashboard.write(tmp_path, runs[::-1], Repository(ROOT))
    text = (tmp_path / "dashboard/D1.1.html").read_text()
    assert "predicted cycles 8,000 → 8,100, bound by latency, before by TMA" in text
    assert "registers 200 → 201" in text and "O cosine 0" in text and "lse error 0" in text


def test_text_of_a_run_stays_text_and_pages_of_removed_runs_go(tmp_path: Path) -> None:
    runs = [make(tmp_path, i) for i in range(5)]
    first = dashboard.write(tmp_path, runs[::-1], Repository(ROOT))
    assert "it says &lt;b&gt;" in first.read_text() and "<b>" not in first.read_text()
    dashboard.write(tmp_path, runs[:3], Repository(ROOT))
    assert len(list(first.parent.glob("2*.html"))) == 3
