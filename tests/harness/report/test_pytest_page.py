"""The report of a milestone: what it shows of a record, in a real browser, and that nothing in a record runs there."""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness.report import pytest_page as page
from harness.report.record import (
    Case,
    Compile,
    Figure,
    Launch,
    NegativeControl,
    Phase,
    Prediction,
    Record,
    Role,
    Tree,
    Wait,
)
from tests.browser import Browser
from tests.tiers import tier

RUNS = "window.ran = true; location = 'http://127.0.0.1:9/stolen'"
EVIL = f'</td></pre></script></template>\'"><script>{RUNS}</script><img src=x onerror="{RUNS}">\\u0000{{{{7*7}}}}'


def png() -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.zeros((4, 600, 3), np.uint8)).save(stream, "png")
    return stream.getvalue()


def make(text: str, verdict: str = "REJECT_GATE") -> Record:
    """Return a record that has `text` wherever a host may write one."""
    figures = [Figure("O", "cosine", 0.5, "at least", 0.9, False), Figure(text, text, 1e-3, "at most", 1.0, True)]
    cases = [
        Case(text, "failed", 1.25, 7, True, [Launch(text, 0.5, text)], figures, text, "errors-1.png"),
        Case("hd=64 n=128", "passed", 2.5, 1, False, [Launch("eager", 0.5)], figures[:1], "", "../outside.png"),
        Case("hd=64 n=256", "running", 0.0),
    ]
    record = Record(text, text, text, text, Tree(text, [text]), {text: text}, [Phase(text, text)], cases=cases)
    record.compiles = [Compile(text, 1.0, ["javascript:alert(1)", text])]
    record.negative_controls = [NegativeControl(text, True, text), NegativeControl("O: scaled by 2", False)]
    waits = [Wait(text, text, 0.5, 3.0)]
    record.prediction = Prediction(
        text, text, 9e3, 5e-6, 9.5e3, text, {text: 0.5}, [Role(text, 0.5, waits)], [text], text
    )
    record.verdict, record.reason = verdict, text
    return record


def shown(opened: Browser, folder: Path, record: Record) -> str:
    """Write and open the report, and return its text."""
    (folder / "errors-1.png").write_bytes(png())
    opened.open(page.write(folder, record))
    return str(opened.ask("document.body.innerText"))


@pytest.mark.browser
def test_nothing_in_a_record_runs_in_a_browser(opened: Browser, tmp_path: Path) -> None:
    text = shown(opened, tmp_path, make(EVIL))
    assert opened.ask("window.ran === undefined && location.protocol === 'file:'") and not opened.errors
    assert opened.ask("document.scripts.length") == 1
    assert text.count("<script>window.ran") >= 10, "it is shown as text"
    links = opened.ask("[...document.querySelectorAll('a, img[src], link')].map(e => e.href || e.src)")
    assert links and all(link.startswith(("file:", "data:image/png;base64,")) for link in links if link)


@pytest.mark.browser
@pytest.mark.parametrize(
    ("dark", "width"),
    [
        pytest.param(dark, width, marks=tier((dark, width) in ((True, 360), (False, 1400)), True))
        for dark in (False, True)
        for width in (360, 1400, 2000)
    ],
)
def test_the_report_is_read_at_any_width_and_in_the_dark(
    opened: Browser, tmp_path: Path, width: int, dark: bool
) -> None:
    opened.look(width, dark)
    text = shown(opened, tmp_path, make("D1.1"))
    assert opened.ask("document.documentElement.scrollWidth") <= width and not opened.errors
    lightness = "(e => getComputedStyle(e)[{!r}].match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0) / 765)"
    paper = opened.ask(f"{lightness.format('backgroundColor')}(document.body)")
    for part in ("#verdict", "h1", "#results-table td", ".case td", ".message", "summary", "#environment td"):
        ink = opened.ask(f"{lightness.format('color')}(document.querySelector({part!r}))")
        assert abs(ink - paper) > 0.35, f"{part}: {ink:.2f} on {paper:.2f}"
    assert (paper < 0.2) is dark
    assert ("invert" in opened.ask("getComputedStyle(document.querySelector('.case img')).filter")) is dark
    assert "REJECT_GATE the hd=64 gate does not hold" in text and "1 of 2 negative controls rejected" in text


@pytest.mark.browser
def test_every_case_is_shown_with_its_figures_and_picture(opened: Browser, tmp_path: Path) -> None:
    text = shown(opened, tmp_path, make("D1.1"))
    heads = opened.ask("[...document.querySelectorAll('#results-table-head th')].map(e => e.innerText.trim())")
    assert heads == ["Result", "Test", "cosine", "lse error", "z", "z of a key", "seconds"]
    pictures = opened.ask("[...document.querySelectorAll('.case img')].map(e => e.naturalWidth)")
    assert pictures == [600], "a picture outside the folder is not read"
    assert "hd=64 n=128 seed=1" in text and "0.5000000" in text and "at least 0.9" in text
    assert "the run did not end here" in text


def test_a_record_without_a_verdict_or_cases_has_a_report(tmp_path: Path) -> None:
    record = Record("run", "D1.1", "sim", "2026-11-21T09:00:00Z", Tree("0" * 40, []))
    assert "No verdict" in page.write(tmp_path, record).read_text()


def test_options_of_the_user_and_odd_folders_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k nothing --no-such-option")
    folder = tmp_path / "$HOME's é"
    folder.mkdir()
    page.write(folder, make("D1.1"))
    assert "the run did not end here" in (folder / "report.html").read_text()
    assert os.environ["PYTEST_ADDOPTS"] == "-k nothing --no-such-option"
