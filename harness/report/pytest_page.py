"""The report of a milestone, `report.html`: pytest-html shows every case of a record with its pins.

The client writes it, from the record and the pictures in its folder. So the host of a run cannot put anything into it
that a browser runs: text is escaped, and the page's policy admits no network, and only pytest-html's own script, by its
digest.
"""

from __future__ import annotations

import os
import re
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

import pytest
from pytest_html import extras
from pytest_metadata.plugin import metadata_key

from harness.host.files import open_plain, write_atomically
from harness.host.verdict import Verdict
from harness.report.record import REPORT_NAME, Case, Record
from harness.report.templating import environment

CSS = Path(__file__).with_name("report.css")

#: The columns of the report: title, and the tensor and metric shown.
COLUMNS = {
    "cosine": ("O", "cosine"),
    "lse error": ("lse", "error"),
    "z": ("O", "z"),
    "z of a key": ("O", "z_key"),
}
MAX_PICTURE_BYTES = 4 << 20
#: pytest runs nothing here, so it needs neither the project's settings, nor tests, nor a terminal.
OPTIONS = (
    *("-c", os.devnull, "--noconftest", "--self-contained-html", "-o", "render_collapsed=skipped"),
    *(each for name in ("terminal", "cacheprovider", "faulthandler", "capture") for each in ("-p", f"no:{name}")),
    *("-p", "pytest_metadata.plugin", "-p", "pytest_html.plugin"),
)
PLAIN = {"PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

_MADE_BY = re.compile(r'<a href="http[^"]*">(pytest-html)</a>')  # the page must not link to other sites
#: pytest-html rewrites the page's address with this; if the path is not ASCII, the browser fails and shows nothing.
_ADDRESS = "unescape(url.href)"
#: The action of a button for running tests. The button is hidden, and the page's policy admits no such action.
_RELOAD = ' onclick="location.reload()"'
_SCRIPT = re.compile(r"<script>(.*)</script>", re.S)
_HEAD = (
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; style-src '
    "'unsafe-inline'; script-src 'sha256-{digest}'; form-action 'none'; base-uri 'none'\">"
)


def write(folder: Path, record: Record) -> Path:
    """Write the report of the record in `folder`, and return its path. Raises OSError."""
    with _plain_environment(), tempfile.TemporaryDirectory() as place:  # pytest expands a $ in the path of a page
        made = Path(place, REPORT_NAME)
        pytest.main([*OPTIONS, f"--rootdir={place}", f"--html={made}"], [_Session(folder, record)])
        text = made.read_text()
    text = _MADE_BY.sub(r"\1", text, count=1).replace(_ADDRESS, "url.href").replace(_RELOAD, "")
    text = text.replace("</style>", f"{CSS.read_text()}</style>", 1)
    script = _SCRIPT.search(text)
    digest = b64encode(sha256(script[1].encode() if script else b"").digest()).decode()
    text = text.replace("<head>", f"<head>{_HEAD.format(digest=digest)}", 1)
    write_atomically(folder / REPORT_NAME, text.encode("utf-8", "replace"))
    return folder / REPORT_NAME


class _Session:
    """The pytest plugin that reports the cases of a record as if they had been run."""

    def __init__(self, folder: Path, record: Record) -> None:
        self._folder = folder
        self._record = record

    def pytest_collection(self) -> bool:
        """Collect nothing."""
        return True

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Report every case."""
        for i, case in enumerate(self._record.cases):
            outcome: Any = "passed" if case.outcome == "passed" else "failed"
            for when in ("call", "teardown"):
                place = (REPORT_NAME, None, case.label)
                report = pytest.TestReport(f"case {i}", place, {}, outcome, None, when, duration=case.seconds)
                if when == "call":
                    shown = _part("details", case, _picture(self._folder, case.picture))
                    vars(report).update(case=case, extras=[extras.html(shown)] if shown.strip() else [])
                session.config.hook.pytest_runtest_logreport(report=report)
                outcome = "passed"
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Fill the table "Environment" with run, commit and toolchain. pytest-html shows its values as HTML."""
        about = {"Run": self._record.run, "Commit": str(self._record.tree)} | self._record.toolchain
        session.config.stash[metadata_key] = {name: escape(value) for name, value in about.items()}

    def pytest_html_report_title(self, report: Any) -> None:
        """Set the title of the page."""
        report.title = f"{self._record.milestone} on {self._record.target}"

    def pytest_html_results_summary(self, prefix: list[str]) -> None:
        """Show the verdict, the compiled configurations, the negative controls and the prediction."""
        prefix[:] = [_part("summary", self._record, Verdict.__members__)]
        if said := self._record.prediction:
            prefix.append(_part("prediction", said, _picture(self._folder, said.picture)))

    def pytest_html_results_table_header(self, cells: list[str]) -> None:
        """Set the columns of the table."""
        cells[2:] = header_cells()

    def pytest_html_results_table_row(self, report: pytest.TestReport, cells: list[str]) -> None:
        """Set the cells of one case."""
        case = getattr(report, "case", None)
        if case is not None:
            cells[1:] = row_cells(case)

    def pytest_html_results_table_html(self, data: list[str]) -> None:
        """Omit the log: the message of a case is among its details."""
        data.clear()


@contextmanager
def _plain_environment() -> Iterator[None]:
    """Hide the user's options of pytest, and installed plugins, from the pytest that the body runs."""
    before = {name: os.environ.get(name) for name in PLAIN}
    os.environ.update(PLAIN)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def header_cells() -> list[str]:
    """Return the header cells after the one of the case's name."""
    sortable = [f'<th class="sortable" data-column-type="{_slug(title)}">{title}</th>' for title in COLUMNS]
    return [*sortable, '<th class="sortable" data-column-type="seconds">seconds</th>']


def row_cells(case: Case) -> list[str]:
    """Return the cells of one case, starting with its name."""
    shown = {(figure.tensor, figure.metric): figure for figure in case.figures}
    cells = [f'<td class="col-testId">{escape(case.label)}</td>']
    for title, key in COLUMNS.items():
        cells.append(f'<td class="col-{_slug(title)}">{shown[key].shown if key in shown else ""}</td>')
    return [*cells, f'<td class="col-seconds">{case.seconds:.2f}</td>']


def _part(name: str, *about: object) -> str:
    """Return a part of the page as HTML, by the macro of templates/report.html of that name."""
    return str(getattr(environment().get_template("report.html").module, name)(*about))


def _picture(folder: Path, name: str) -> str:
    """Return a PNG of the folder in base64; "" if there is none that can be shown."""
    if not name or Path(name).name != name:
        return ""
    try:
        with open_plain(folder / name) as stream:
            return b64encode(stream.read(MAX_PICTURE_BYTES)).decode()
    except OSError:
        return ""


def _slug(title: str) -> str:
    return title.replace(" ", "_")
