"""The page of a run: text from records is escaped, and the page has no links to other sites."""

import re
import shutil
from pathlib import Path

import pytest

from harness.host.repository import Repository
from harness.host.subject import Subject
from harness.report import page
from harness.report.page import Run
from harness.report.record import (
    Case,
    Compile,
    LineTime,
    NegativeControl,
    Prediction,
    Record,
    Role,
    Tree,
    Wait,
)
from tests.browser import Browser
from tests.system import ROOT

EVIL = "<script>alert(1)</script>"


def about(*milestones: str) -> Subject:
    named = list(milestones or ("D1.1",))
    return Subject(run="run", commit="0" * 40, milestones=named, target="sim", user="ada", pins="")


def make(folder: Path, record: Record, *milestones: str, verdict: str = "REJECT_GATE", reason: str = "") -> str:
    folder.mkdir(exist_ok=True)
    record.save(folder)
    run = Run(about(*milestones), "2026-11-22", verdict, reason, folder)
    return page.write(run, Repository(ROOT)).read_text()


def recorded(*cases: Case) -> Record:
    return Record("run", "D1.1", "sim", "2026-11-21T09:00:00Z", Tree("0" * 40, []), cases=list(cases))


def test_text_of_a_run_is_escaped_and_leads_nowhere(tmp_path: Path) -> None:
    record = recorded(Case(EVIL, "failed", 1.0, message=EVIL, picture="https://somewhere.invalid/x.png"))
    record.negative_controls = [NegativeControl(EVIL, True, EVIL), NegativeControl("O: scaled by 2", False)]
    record.compiles = [Compile(EVIL, 1.0, ["javascript:alert(1)"])]
    text = make(tmp_path, record, reason=EVIL)
    assert "<script" not in text and "&lt;script&gt;" in text
    assert all(re.match(r"\./|#|data:,", link) for link in re.findall(r'(?:src|href)="([^"]*)"', text))
    assert "default-src 'none'" in text
    assert "1 of 2" in text


def test_no_text_of_a_run_turns_the_text_around_it(tmp_path: Path) -> None:
    """A mark of direction in a source line, a role or a message would show other text than there is."""
    turned = "x\u202ey\u2066z\x1b[2J"
    record = recorded(Case(turned, "failed", 1.0, message=turned))
    roles = [Role(turned, 0.5, [Wait(turned, turned, 0.5, 1)])]
    record.prediction = Prediction(turned, "B200", 2.0, 1e-6, 1.0, "latency", {}, roles, [turned], "", [])
    text = make(tmp_path, record, reason=turned)
    assert "x y z" in text and not re.search("[\u202e\u2066\x1b]", text)


def test_milestones_that_were_not_run_and_those_that_did_not_end_are_named(tmp_path: Path) -> None:
    text = make(tmp_path, recorded(Case("n=128", "running", 0.0)), "D1.1", "D1.2", verdict="INFRA", reason="it died")
    assert "2 milestones" in text and "it died" in text
    assert re.search(r"D1\.1</a></td>\s*<td[^>]*>did not end", text) and re.search(
        r"D1\.2</td>\s*<td[^>]*>not run", text
    )


def test_cases_that_failed_alike_are_said_once(tmp_path: Path) -> None:
    cases = [
        Case(f"n={n}", "failed", 1.0, seed, message=f"n={n} seed={seed}: O.diff = {seed}e-3")
        for n in (1, 129)
        for seed in (1, 2)
    ]
    other = Case("n=1", "failed", 1.0, 3, message="Deadlock")
    text = make(tmp_path, recorded(*cases, other))
    assert text.count('<details class="failure"') == 2 and text.count('<pre class="message">') == 2
    assert "D1.1 n=1 seed=1 and 3 more like it" in text


def test_a_failure_in_one_line_has_its_source_line_or_the_pattern_of_its_errors() -> None:
    finding = "DataRace: a reads b\n  at  PTX line 3: ld\n      kernel/a.py:7 in gemm: x\n"
    assert page.summary(finding) == "DataRace: a reads b (kernel/a.py:7)"
    figures = "D1.1 n=1: outside its pins\nU.z = 9, at most 7: FAILS\nU is worst in 2\nlse is worst in 1\n  high"
    assert page.summary(figures) == "U.z = 9, at most 7; lse: high"
    assert page.summary(figures.rpartition("\n")[0]) == "U.z = 9, at most 7"


def test_every_record_of_the_past_can_be_shown(tmp_path: Path) -> None:
    sample = ROOT / "results/sample"
    run = Run(about(), "2026-11-22", "ACCEPT", "", sample)
    text = page.render(run, Repository(ROOT))
    assert "71 of 71" in text and 'src="./timeline.png"' in text


def predicted(cycles: float, waits: float, line: str) -> Prediction:
    role = Role("mma: warp 4", 0.25, [Wait("p_full", line, waits, 3)])
    lines = [LineTime(line, "wait(p_full)", waits)]
    return Prediction("n=128", "B200", cycles, 6e-6, 1000.0, "latency", {}, [role], [], "clock.png", lines)


def test_a_slower_candidate_is_shown_beside_the_accepted_one(tmp_path: Path) -> None:
    """The reason stands before all else; waits and source lines are compared, also if the line has moved."""
    before, after = recorded(Case("n=128", "passed", 1.0)), recorded(Case("n=128", "passed", 1.0))
    before.run, before.prediction = "earlier", predicted(1000.0, 0.5, "kernel/m.py:10 in gemm")
    after.prediction = predicted(1200.0, 0.6, "kernel/m.py:14 in gemm")
    for record, folder in ((before, "earlier"), (after, "run")):
        (tmp_path / folder).mkdir()
        record.save(tmp_path / folder)
    accepted = {"D1.1": tmp_path / "earlier"}
    run = Run(about(), "2026-11-22", "REJECT_GATE", "slower: D1.1 and so on", tmp_path / "run", accepted)
    text = page.write(run, Repository(ROOT)).read_text()
    assert text.index("slower: D1.1 and so on") < text.index("D1.1 is slower") < text.index("Milestones")
    assert "the hd=64 gate does not hold" in text and "change is wrong" not in text, "its figures are right"
    assert "200 cycles (20.0%) more than its pin allows" in text
    assert text.index('src="./../earlier/clock.png"') < text.index('src="./clock.png"')
    assert re.findall(r'style="width: ([\d.]+)%"', text) == ["83.33", "100.00"], "both have one scale"
    rows = re.findall(r"<tr><td class=\"text\">(.*?)</tr>", text)
    assert len(rows) == 3 and all("500" in row and "720" in row and "+220, +44.0%" in row for row in (rows[0], rows[2]))
    assert "kernel/m.py:10 in gemm -&gt; kernel/m.py:14 in gemm" in rows[2] and "wait(p_full)" in rows[2]


@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_both_timelines_have_one_scale_and_follow_the_mode(opened: Browser, tmp_path: Path, dark: bool) -> None:
    """As a browser draws them: widths as cycles, and white paper as dark as the page in dark mode."""
    for folder, cycles in (("earlier", 1000.0), ("run", 1200.0)):
        record = recorded(Case("n=128", "passed", 1.0))
        record.run, record.prediction = folder, predicted(cycles, 0.5, "kernel/m.py:10 in gemm")
        (tmp_path / folder).mkdir()
        record.save(tmp_path / folder)
        shutil.copy(ROOT / "docs/images/timeline.png", tmp_path / folder / "clock.png")
    accepted = {"D1.1": tmp_path / "earlier"}
    run = Run(about(), "2026-11-22", "REJECT_GATE", "slower: D1.1", tmp_path / "run", accepted)
    opened.look(1000, dark)
    opened.open(page.write(run, Repository(ROOT)))
    pictures = "[...document.querySelectorAll('.scaled img')]"
    widths = opened.ask(f"{pictures}.map(each => each.getBoundingClientRect().width)")
    assert widths[0] / widths[1] == pytest.approx(1000 / 1200, rel=0.01)
    assert opened.ask(f"{pictures}.every(each => each.naturalWidth > 0)"), "both are loaded"
    filters = set(opened.ask(f"{pictures}.map(each => getComputedStyle(each).filter)"))
    assert filters == ({"invert(0.91) hue-rotate(180deg)"} if dark else {"none"})
    assert opened.errors == []


def test_a_slower_candidate_without_an_accepted_run(tmp_path: Path) -> None:
    record = recorded(Case("n=128", "passed", 1.0))
    record.prediction = predicted(1200.0, 0.6, "kernel/m.py:14 in gemm")
    text = make(tmp_path, record)
    assert "D1.1 is slower" in text and "nothing to compare with" in text
