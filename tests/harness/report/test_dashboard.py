"""The dashboard in a real browser: its pages link to each other, fold, load quickly, and log no errors."""

import random
from pathlib import Path

import pytest

from harness.host.repository import Repository
from harness.host.subject import Subject
from harness.host.verdict import Verdict
from harness.report import dashboard
from harness.report.page import Run
from harness.report.record import Case, Compile, Figure, Launch, Prediction, Record, Tree
from tests.browser import browser
from tests.system import ROOT

MESSAGE = "D1.1 hd=64 n=128 seed={}: outside its pins\nO.cosine = 0.3\nat kernel/config.py:12 of it"


def make(results: Path, i: int, milestone: str = "D1.1") -> Run:
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
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the dashboard of 500 runs into a folder with an odd name."""
    results = tmp_path_factory.mktemp("history") / "Ada's results, é"
    runs = [make(results, i) for i in range(500)]
    return dashboard.write(results, runs[::-1], Repository(ROOT))


@pytest.mark.browser
def test_five_hundred_runs_open_soon_and_lead_to_each_other(pages: Path) -> None:
    with browser() as opened:
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
def test_the_list_shows_what_was_accepted_or_the_rest(pages: Path) -> None:
    shown = "[...document.querySelectorAll('.runs tbody tr')].filter(row => row.checkVisibility()).length"
    with browser() as opened:
        opened.open(pages)
        for choice, count in (("accepted", 400), ("others", 100), ("every", 500)):
            opened.ask(f"document.getElementById('{choice}').click()")
            assert opened.ask(shown) == count


@pytest.mark.browser
def test_what_failed_comes_first_and_once_with_its_source(pages: Path) -> None:
    with browser() as opened:
        opened.open(sorted(pages.parent.glob("2*.html"))[4])
        assert opened.ask("document.querySelectorAll('.failure').length") == 1
        assert opened.ask("document.querySelector('.failure').open") is True
        assert "n=128 seed=1 and 1 more like it" in opened.ask(
            "document.querySelector('.failure > summary').textContent"
        )
        assert opened.ask("document.querySelector('.source mark').textContent").split()[0] == "12"
        assert opened.ask("document.querySelectorAll('details details')[0].open") is False
        opened.ask("document.querySelector('.failure > summary').click()")
        assert opened.ask("document.querySelector('.message').checkVisibility()") is False
        assert opened.errors == []


@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_a_milestone_is_drawn_on_any_screen(pages: Path, width: int, dark: bool) -> None:
    with browser() as opened:
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
