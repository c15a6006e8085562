"""The command line: `python -m harness COMMAND`, which the Makefile's targets call."""

from __future__ import annotations

import os
import sys
import webbrowser
from typing import Annotated, NoReturn

import typer

from harness.client import run_commands
from harness.client.run_store import RunStore
from harness.host.journal import one_line
from harness.host.verdict import EXIT_BAD_INPUT, Verdict
from harness.paths import RESULTS, ROOT
from harness.report import notes
from harness.report.record import PAGE_NAME, REPORT_NAME
from harness.tools.bench import BenchError, measure
from harness.tools.times import measured
from remote import targets
from remote.errors import TargetError
from stages.catalog import CATALOG, runnable

NOTES = ROOT / "STAGE_NOTES.md"
MOST_FELL = 5

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(run_commands.app)


@app.command()
def milestones() -> None:
    """List the milestones, and which are built."""
    for each in CATALOG:
        print(f"{each.id:5} {'built  ' if each.built else 'planned'}  {each.shows}")


@app.command()
def report() -> None:
    """Name the newest report, and open it where there is a browser to open it in."""
    made = [path for name in (REPORT_NAME, PAGE_NAME) for path in RESULTS.glob(f"*/{name}")]
    if not made:
        _refuse(f"no report under {RESULTS}; make stage D1.1 writes one")
    newest = max(made, key=lambda path: (path.parent.name != "sample", path.stat().st_mtime)).parent
    shown = next(newest / name for name in (REPORT_NAME, PAGE_NAME) if (newest / name).exists())
    print(shown)
    if sys.stdout.isatty() and _has_display():
        webbrowser.open(shown.as_uri())


@app.command("notes")
def update_notes() -> None:
    """Bring the table of STAGE_NOTES.md up to the accepted records."""
    try:
        changed = notes.update(NOTES, RunStore(RESULTS).accepted())
    except notes.NotesError as error:
        _refuse(error)
    print(f"{NOTES}: {'updated' if changed else 'already up to date'}")


@app.command("sweep")
def sweep_milestone(
    milestone: Annotated[str, typer.Argument(help="D1.1 and so on; `milestones` lists them")],
    seeds: Annotated[int, typer.Option(min=0, help="how many, besides the milestone's own")] = 40,
    target: run_commands.TargetName = "",
) -> None:
    """Measure a milestone for many seeds under every order of completion, and print the pins that follow."""
    with run_commands.refusals():
        chosen, place = runnable(milestone), targets.load().find(target)
        from harness.tools.measure import pins, sweep

        with run_commands.driving() as driver:
            entry, known = sweep(driver, chosen, seeds, place)
        for line in pins(chosen, known):
            print(line)
        fell = [each for each in known if each.error]
        for each in fell[:MOST_FELL]:
            print(f"{each.case} seed={each.seed}: {each.error.splitlines()[0]}")
        print(f"{len({each.seed for each in known})} seeds of {chosen.id} measured, {len(fell)} launches fell")
        if entry and Verdict[entry.verdict] is not Verdict.ACCEPT:
            goes_on = "" if entry.closed else f"; make resume RUN={entry.run}, or the same sweep again, goes on"
            print(f"{entry.verdict}  {one_line(entry.reason)}{goes_on}")
            raise typer.Exit(Verdict[entry.verdict].exit_code)
        raise typer.Exit(Verdict.REJECT_STAGE.exit_code if fell else 0)


@app.command("perf")
def measure_times(
    milestone: Annotated[str, typer.Argument(help="D1.1 and so on; `milestones` lists them")],
    target: run_commands.TargetName = "",
) -> None:
    """Time a milestone's cases on the GPU of a target, and beside them what else is installed there."""
    with run_commands.refusals():
        chosen, place = runnable(milestone), targets.load().find(target)
        if place.device != "cuda":
            raise TargetError(f"target {place.name!r} has no GPU to measure on; make perf {chosen.id} predicts")
        with run_commands.driving() as driver:
            entry = driver.time(chosen.id, place)
        for line in measured(RESULTS / entry.run):
            print(line)
        if entry.verdict != Verdict.ACCEPT.name:
            print(f"{entry.verdict}  {one_line(entry.reason)}")
        raise typer.Exit(Verdict[entry.verdict].exit_code)


@app.command()
def bench() -> None:
    """Measure how long compiling, launching and a whole run take here, beside the goals."""
    try:
        for line in measure():
            print(line, flush=True)
    except BenchError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from error


def _has_display() -> bool:
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _refuse(why: object) -> NoReturn:
    print(why, file=sys.stderr)
    raise typer.Exit(EXIT_BAD_INPUT)
