"""The additions to pytest-html's `report.html`: columns, summary, figures of each case, verdict."""

import re
from base64 import b64encode
from html import escape
from pathlib import Path

from harness.host.files import write_atomically
from harness.host.verdict import Verdict
from harness.report.record import REPORT_NAME, Case, Figure, Record

CSS = Path(__file__).with_name("report.css")

#: The columns of the report: title, and the tensor and metric shown.
COLUMNS = {
    "cosine": ("O", "cosine"),
    "diff": ("O", "diff"),
    "worst row": ("O", "worst_row"),
    "lse error": ("lse", "error"),
}

_ADMITTED = '<span class="ADMITTED">ADMITTED</span>'
_MADE_BY = re.compile(r'<a href="http[^"]*">(pytest-html)</a>')  # the page must not link to other sites
#: pytest-html rewrites the page's address with this; if the path is not ASCII, the browser fails and shows nothing.
_ADDRESS = "unescape(url.href)"
_OPEN, _CLOSE = '<p id="verdict">', "</p>"
PENDING = f"{_OPEN}No verdict yet: the run had not ended when this was written.{_CLOSE}"


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


def message(case: Case) -> str:
    """Return the error message of a case as HTML."""
    return f'<pre class="message">{escape(case.message)}</pre>'


def case_details(case: Case, picture: bytes) -> str:
    """Return a case's figures with pins, the seconds of its launches, and a picture of its error (PNG or b"")."""
    rows = "".join(
        f'<tr class="{_mark(figure)}"><td>{figure.tensor}</td><td>{figure.metric}</td><td>{figure.shown}</td>'
        f"<td>{figure.bound} {figure.pin:.7g}</td><td>{_mark(figure)}</td></tr>"
        for figure in case.figures
    )
    launches = "<br>".join(f"{launch.mode}: {launch.seconds:.2f} s" for launch in case.launches)
    head = "<tr><th>tensor</th><th>metric</th><th>value</th><th>pin</th><th></th></tr>"
    data = b64encode(picture).decode()
    image = f'<img alt="map of the error" src="data:image/png;base64,{data}">' if picture else ""
    return f'<div class="case"><div><table>{head}{rows}</table><p>{launches}</p></div>{image}</div>'


def summary(record: Record) -> str:
    """Return a placeholder of the verdict, the compiled configurations, and the results of the negative controls."""
    compiled = "".join(
        f"<li>{escape(each.name)}: compiled {'before, ' if each.found else ''}in {each.seconds:.1f} s ("
        + ", ".join(f'<a href="{escape(file)}">{escape(file)}</a>' for file in each.files)
        + ")</li>"
        for each in record.compiles
    )
    controls = "".join(
        f"<tr><td>{escape(each.name)}</td><td>{'rejected' if each.refused else _ADMITTED}</td>"
        f"<td>{escape(each.by)}</td></tr>"
        for each in record.negative_controls
    )
    rejected = f"{sum(each.refused for each in record.negative_controls)} of {len(record.negative_controls)}"
    return (
        f"{PENDING}<ul>{compiled}</ul><details><summary>{rejected} negative controls rejected</summary>"
        f"<table>{controls}</table></details>"
    )


def prediction(record: Record, folder: Path) -> str:
    """Return the prediction of the first case: its bound, the waits of each role, and a picture of its warps."""
    said = record.prediction
    if said is None:
        return ""
    busy = ", ".join(f"{part} {share:.1%}" for part, share in said.busy.items())
    roles = "".join(
        f"<tr><td>{escape(role.name)}</td><td>runs</td><td></td><td>{role.running:.0%}</td></tr>"
        + "".join(
            f"<tr><td></td><td>waits for {escape(wait.what)}</td><td>{escape(wait.where)}</td>"
            f"<td>{wait.share:.0%}</td></tr>"
            for wait in role.waits
        )
        for role in said.roles
    )
    assumed = "".join(f"<li>{escape(text)}</li>" for text in said.assumptions)
    data = b64encode((folder / said.picture).read_bytes()).decode()
    return (
        f"<details><summary>predicted, not measured: {escape(str(said))}</summary><p>busy: {escape(busy)}</p>"
        f'<div class="case"><table>{roles}</table><img alt="warps and barriers over time" '
        f'src="data:image/png;base64,{data}"></div><p>assumed:</p><ul>{assumed}</ul></details>'
    )


def stamp(folder: Path, record: Record) -> None:
    """Write verdict and prediction into the report of a run. Remove pytest-html's link, and fix non-ASCII paths."""
    path = folder / REPORT_NAME
    if path.exists():
        meaning = Verdict[record.verdict].meaning
        name = f'<strong class="{record.verdict}">{record.verdict}</strong>'
        said = f"{_OPEN}{name} {meaning}. {escape(record.reason)}{_CLOSE}{prediction(record, folder)}"
        text = _MADE_BY.sub(r"\1", path.read_text(), count=1).replace(PENDING, said, 1)
        text = text.replace(_ADDRESS, "url.href")
        write_atomically(path, text.encode())


def _mark(figure: Figure) -> str:
    return "pass" if figure.holds else "FAIL"


def _slug(title: str) -> str:
    return title.replace(" ", "_")
