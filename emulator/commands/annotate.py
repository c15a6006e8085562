"""The command `annotate`: show a report's findings on the lines of a pull request, and in one table."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..findings import findings_in, kernel_name
from .scripts import InvalidInput

LEVELS: Final = {"fault": "error", "incomplete": "error", "formal": "warning", "pedantic": "notice", "known": "notice"}
"""The command of a GitHub workflow by the level of a finding."""
Json = Mapping[str, Any]


def add_command(commands: Any) -> None:
    """Add this subcommand to the parser."""
    command = commands.add_parser(
        "annotate",
        help="print the findings of a report as annotations of a GitHub workflow",
        description="Read REPORT, which `run --report` or pytest's --emulator-report wrote as JSON. Print a command of "
        "a GitHub workflow for each finding, which shows it on its source line.",
    )
    command.add_argument("--summary", type=Path, metavar="FILE", help="append a table in Markdown to FILE")
    command.add_argument(
        "--resources", type=Path, metavar="FILE.json", help="a report of `resources`, for the table's registers"
    )
    command.add_argument(
        "--compare", type=Path, metavar="FILE.json", help="what `time --compare --json` wrote, for the table's cycles"
    )
    command.add_argument("report", type=Path, metavar="REPORT")
    command.set_defaults(do=_annotate)


def _annotate(options: argparse.Namespace) -> int:
    report = _read(options.report)
    if "findings" not in report and "tests" not in report:
        raise InvalidInput(
            f"annotate: {options.report} is no report in JSON of `run --report FILE.json`. SARIF needs no annotations: "
            "code hosts show its findings themselves"
        )
    needed, compared = (None if file is None else _read(file) for file in (options.resources, options.compare))
    for finding in findings(report):
        print(command_of(finding))
    if options.summary is not None:
        with options.summary.open("a") as file:
            file.writelines(f"{line}\n" for line in summary(report, needed, compared))
    return 0


def _read(file: Path) -> Any:
    """Read a JSON file."""
    try:
        return json.loads(file.read_text())
    except OSError as error:
        raise InvalidInput(f"annotate: {file}: {error.strerror}") from error
    except ValueError as error:
        hint = "write it with --report FILE.json or --json FILE.json"
        raise InvalidInput(f"annotate: {file} is not JSON ({error}): {hint}") from error


def findings(report: Json) -> list[Json]:
    """One finding of a report for each cause at a place."""
    every = findings_in(report)
    return list({(each["class"], each["message"], json.dumps(each.get("source"))): each for each in every}.values())


def command_of(finding: Json) -> str:
    """Workflow command that shows a finding; without a line if its source is not known."""
    properties = {"title": f"{finding['class']} in {kernel_name(finding)[:60]}"}
    source = finding.get("source")
    if source is not None:
        properties |= {"file": source["file"], "line": str(source["line"])}
    shown = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in properties.items())
    return f"::{LEVELS[finding['level']]} {shown}::{_escaped(finding['report'])}"


def _escaped(text: str, more: str = "") -> str:
    """Escape text for a workflow command. more: characters that separate properties."""
    return "".join(f"%{ord(each):02X}" if each in "%\r\n" + more else each for each in text)


def summary(report: Json, needed: Json | None = None, compared: Json | None = None) -> Iterator[str]:
    """Yield the lines of the summary: a table of kernels, and one of findings.

    needed: the report of `resources`. compared: that of `time --compare`.
    """
    found = findings(report)
    tests = report.get("tests", ())
    of = f" in {len(tests)} tests" if tests else ""
    yield f"### Emulated device: {report['verdict']}{of}"
    yield ""
    rows = list(_kernels(found, needed, compared))
    if rows:
        yield from _table(KERNEL_COLUMNS, rows)
        yield ""
    if compared is not None:
        yield f"Cycles are predicted for a {compared['chip']}, not measured. Base: {compared['base']}."
        yield f"Registers and spilled bytes of a thread: {compared['machine_code']}."
        yield ""
    if needed is not None and needed["over_budget"]:
        yield from (f"- {line}" for line in needed["over_budget"])
        yield ""
    if found:
        yield from _table(("level", "finding", "where", "times"), [_row(each) for each in found])
    else:
        yield "Nothing was found."


KERNEL_COLUMNS: Final = ("kernel", "findings", "cycles, base", "cycles, head", "change", "registers", "spilled bytes")


def _kernels(found: Sequence[Json], needed: Json | None, compared: Json | None) -> Iterator[Sequence[object]]:
    """Yield a row for each kernel of a comparison or of a report of resources; none without both."""
    launches = compared["launches"] if compared is not None else ()
    for kernel in dict.fromkeys(launch["head"] for launch in launches):
        same = [launch for launch in launches if launch["head"] == kernel]
        base, head = (sum(_figure(launch["figures"], "cycles", side) for launch in same) for side in ("base", "head"))
        registers, spilled = (_both(same[0]["resources"], name) for name in ("registers", "spilled"))
        cycles = f"{base:,.0f}", f"{head:,.0f}", f"{head / base - 1:+.1%}"
        yield kernel[:60], _count(found, kernel), *cycles, registers, spilled
    known = {launch["head"] for launch in launches}
    for each in needed["kernels"] if needed is not None else ():
        if each["kernel"] not in known:
            kernel = each["kernel"]
            yield kernel[:60], _count(found, kernel), "", "", "", each["registers"], each["spill_store_bytes"]


def _count(found: Sequence[Json], kernel: str) -> int:
    return sum(each["kernel"] == kernel for each in found)


def _figure(changes: Sequence[Json], name: str, side: str) -> float:
    return next(float(each[side]) for each in changes if each["name"] == name)


def _both(changes: Sequence[Json], name: str) -> str:
    """Value of base and head as text, "" if it is not known."""
    values = [str(each[side]) for each in changes if each["name"] == name for side in ("base", "head")]
    return " -> ".join(dict.fromkeys(values))


def _row(finding: Json) -> Sequence[object]:
    source = finding.get("source")
    where = f"{source['file']}:{source['line']}" if source else f"PTX line {finding.get('ptx_line')}"
    return finding["level"], f"{finding['class']}: {finding['message']}", where, finding["times"]


def _table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield "|---" * len(header) + "|"
    for row in rows:
        cells = (str(cell).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ") for cell in row)
        yield f"| {' | '.join(cells)} |"
