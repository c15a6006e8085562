"""The commands that judge, and those about runs and targets: stage, gate, ratchet, runs, doctor, trust and so on."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
import typer
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from harness.client import acceptance, candidate, cleaning, doctor
from harness.client.candidate import CandidateError
from harness.client.driver import Driver, NothingToDo
from harness.client.gather import gather
from harness.client.host import PROBE, PROVISION
from harness.client.run_store import Entry, RunStore, RunStoreError
from harness.client.watch import Gone, Terminal
from harness.host.job import JobError
from harness.host.journal import one_line
from harness.host.protected import ProtectedError, Unpin
from harness.host.repository import GitError
from harness.host.verdict import EXIT_BAD_INPUT, Verdict
from harness.paths import RESULTS, ROOT
from harness.report import page, terminal
from harness.report.page import Run
from harness.report.record import Record, RecordError, Tree, load
from remote import targets
from remote.errors import RemoteError, TargetError
from remote.program import send
from remote.target import Target
from stages.catalog import CATALOG, GATE, NotBuilt, UnknownMilestone, runnable

BAD_INPUT = (
    CandidateError,
    GitError,
    JobError,
    RunStoreError,
    NotBuilt,
    NothingToDo,
    ProtectedError,
    TargetError,
    UnknownMilestone,
)

#: How long the download of a large package may go without a word.
DOWNLOAD_S = 3600.0

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
console = Console()

TargetName = Annotated[str, typer.Option("--target", help="a name of remote/targets.toml, or its default")]
Paths = Annotated[list[str], typer.Option("--unpin", metavar="PATH", help="a pinned path that is meant to change")]
Because = Annotated[str, typer.Option("--because", help="why it is unpinned; kept with the verdict")]
Again = Annotated[bool, typer.Option("--again", help="judge once more what is accepted already")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="compile the kernel even where that was done before")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="a run id; `runs` lists them")]


@app.command()
def stage(
    milestone: Annotated[str, typer.Argument(help="D1.1 and so on; `milestones` lists them")],
    target: TargetName = "",
    unpin: Paths = [],  # noqa: B006  Typer reads it, and makes a new list each time
    because: Because = "",
    again: Again = False,
    no_cache: NoCache = False,
) -> None:
    """Take the working tree to a verdict on one milestone, the hd=64 gate first. Ends with 0 only on ACCEPT."""
    with refusals():
        _judge([runnable(milestone).id], target, unpin, because, again, no_cache)


@app.command()
def stages(target: TargetName = "", unpin: Paths = [], because: Because = "", no_cache: NoCache = False) -> None:  # noqa: B006
    """Take the working tree through every milestone that is built, in one run with one report."""
    with refusals():
        _judge([milestone.id for milestone in CATALOG if milestone.built], target, unpin, because, True, no_cache)


@app.command()
def gate(target: TargetName = "", unpin: Paths = [], because: Because = "", again: Again = False) -> None:  # noqa: B006
    """Take the working tree through the hd=64 gate alone."""
    with refusals():
        _judge([GATE.id], target, unpin, because, again)


@app.command()
def ratchet(target: TargetName = "", unpin: Paths = [], because: Because = "") -> None:  # noqa: B006
    """Rerun every milestone that was ever accepted, in one run."""
    with refusals():
        held = acceptance.accepted_milestones(candidate.find(ROOT))
        wanted = [milestone.id for milestone in CATALOG if milestone.id in held]
        if not wanted:
            raise NothingToDo("nothing was accepted yet: make stage D1.1 comes first")
        console.print(f"rerunning {', '.join(wanted)}", highlight=False)
        _judge(wanted, target, unpin, because, again=True)


@app.command()
def resume(run: RunId) -> None:
    """Fetch the verdict of a run that was left or lost, and accept or reject as it says."""
    with refusals():
        entry = _store().find(run)
        with driving() as driver:
            entry = driver.resume(run, targets.load().find(entry.target))
        if not entry.judges:
            again = f"make sweep {entry.milestone} prints what is known" if entry.seeds else str(RESULTS / entry.run)
            console.print(f"{entry.verdict}  {again}", highlight=False)
            raise typer.Exit(Verdict[entry.verdict].exit_code)
        _show_end(entry)


@app.command()
def cancel(run: RunId) -> None:
    """Ask the supervisor of a run to end it."""
    with refusals():
        entry = _store().find(run)
        with driving() as driver:
            driver.cancel(run, targets.load().find(entry.target))
        console.print(f"asked; its end: make resume RUN={run}", highlight=False)


@app.command()
def runs(target: TargetName = "") -> None:
    """List the runs of this clone, newest first; with a target, everybody's there."""
    with refusals():
        rows = [[one_line(cell, 60) for cell in row] for row in (_runs_there(target) if target else _runs_here())]
        if not rows:
            console.print("no runs yet: make stage D1.1")
        for row in [["run", "milestone", "target", "commit", "verdict", "age", "who"], *rows] if rows else []:
            widths = (30, 10, 8, 12, 12, 7, 0)
            console.print(Text("  ".join(map(str.ljust, row, widths)).rstrip()), soft_wrap=True)


@app.command("dashboard")
def write_dashboard(target: TargetName = "") -> None:
    """Write this clone's history as pages: milestones over accepted commits, and runs; with a target, all there."""
    from harness.report import dashboard

    with refusals():
        runs = {entry.run: page_of(entry, RESULTS / entry.run) for entry in _store().newest_first() if entry.judges}
        for run in gather(targets.load().find(target), RESULTS) if target else ():
            runs.setdefault(run.id, run)
        if not runs:
            raise NothingToDo("no runs yet: make stage D1.1")
        print(dashboard.write(RESULTS, [runs[run] for run in sorted(runs, reverse=True)], candidate.find(ROOT)))


@app.command("clean-runs")
def clean_runs(
    keep: Annotated[int, typer.Option(min=0, help="how many of the newest runs stay whatever became of them")] = 50,
) -> None:
    """Remove old runs, their candidates, and their folders on their targets; results of accepted ones stay."""
    with refusals():
        for line in cleaning.clean(candidate.find(ROOT), _store(), targets.load(), keep):
            console.print(one_line(line), highlight=False, soft_wrap=True)


@app.command("doctor")
def check(
    target: TargetName = "",
    clear_broken: Annotated[bool, typer.Option(help="take the mark of a broken device away; look at it first")] = False,
) -> None:
    """Check each need of a target, one line each: what was found, and the mend. Ends with 0 where all hold."""
    with refusals():
        chosen = targets.load().find(target)
        if clear_broken:
            _ask(chosen, "clear", lock=chosen.lock)
        holds = True
        for finding in doctor.examine(chosen, candidate.find(ROOT)):
            holds &= finding.holds
            mark = ("ok  ", "green") if finding.holds else ("MEND", "bold red")
            line = Text.assemble(mark, f"  {finding.need:12} {one_line(finding.found)}")
            console.print(line, soft_wrap=True)
            if not finding.holds and finding.mend:
                console.print(Text(f"      {'':12} {finding.mend}"), soft_wrap=True)
        raise typer.Exit(0 if holds else Verdict.INFRA.exit_code)


@app.command()
def trust(target: TargetName = "") -> None:
    """Show the key that a target's host offers, and pin it on your yes."""
    with refusals():
        chosen = targets.load().find(target)
        if not chosen.host:
            raise TargetError(f"target {chosen.name!r} is this machine: there is no host key to pin")
        from remote import trust as keys

        while not (found := keys.offered(chosen.host)).pinned:
            if found.changed:
                console.print(
                    f"{found.name} had ANOTHER key until now. Ask who runs it before you say yes.", style="red"
                )
            console.print(f"{found.name} offers {found.key.get_name()} {found.fingerprint}", highlight=False)
            if not typer.confirm("Is it the one that its administrator gave you?"):
                raise typer.Exit(EXIT_BAD_INPUT)
            keys.pin(found)
        console.print(f"{found.name} is pinned: {found.fingerprint}", highlight=False)


@app.command()
def provision(target: TargetName = "") -> None:
    """Make the environment of a target in its work folder, from requirements.lock; stopped, run it again."""
    with refusals():
        chosen = targets.load().find(target)
        if not chosen.provisionable:
            raise TargetError(f"target {chosen.name!r} is this machine: make setup")
        link = chosen.connect()
        try:
            lock = (ROOT / "requirements.lock").read_text()
            with console.status("asking") as status:
                show = Terminal(console, status)
                request = {"workdir": chosen.workdir, "lock": lock}
                made = send(chosen, link, PROVISION, request, show.doing, DOWNLOAD_S)
        finally:
            link.close()
        console.print(
            f"{chosen.name} has the environment of the lock for {one_line(str(made.get('machine')), 20)}: "
            f"make doctor TARGET={chosen.name}",
            highlight=False,
        )


def _judge(
    milestones: Sequence[str], name: str, unpin: list[str], because: str, again: bool = False, no_cache: bool = False
) -> None:
    """Take the working tree to its verdict, show the end, and leave with its exit code."""
    chosen = targets.load().find(name)
    if chosen.why_not_from_here:
        raise TargetError(chosen.why_not_from_here)
    with driving() as driver, ThreadPoolExecutor() as beside:
        beside.submit(page.template)  # read while the run goes on, not after it
        entry = driver.judge(milestones, chosen, Unpin(tuple(unpin), because), again, no_cache)
    _show_end(entry)


@contextmanager
def driving() -> Iterator[Driver]:
    """The driver of this clone, its progress shown in the terminal."""
    with console.status("starting") as status:
        yield Driver(candidate.find(ROOT), _store(), Terminal(console, status))


def _store() -> RunStore:
    return RunStore(RESULTS)


def _show_end(entry: Entry) -> NoReturn:
    """The figures that came in, the verdict, whose fault it is, and how to go on."""
    folder, verdict = RESULTS / entry.run, Verdict[entry.verdict]
    shown = Record(entry.run, entry.milestone, entry.target, entry.started, Tree(entry.candidate.commit, []))
    at, found = folder, []
    for each in (folder / "gate", *(folder / milestone for milestone in entry.milestones), folder):
        with suppress(RecordError):
            shown, at = _printable(load(each)), each
            found.append((each.name, shown))
    if len(entry.milestones) > 1:
        console.print(terminal.overview(record for _, record in found))
        if verdict is Verdict.ACCEPT:
            shown = replace(
                shown, milestone=f"{len(found)} milestones", cases=[], negative_controls=[], prediction=None
            )
    shown.verdict, shown.reason = verdict.name, one_line(entry.reason)
    page.write(page_of(entry, folder), candidate.find(ROOT))
    terminal.show_end(console, shown, at if len(entry.milestones) == 1 else folder)
    if verdict is not Verdict.ACCEPT:
        console.print(f"fault: {verdict.fault.value}", highlight=False)
    if entry.stays:
        console.print(one_line(entry.stays), highlight=False, soft_wrap=True)
    if not entry.closed:
        console.print(f"make resume RUN={entry.run} looks again", highlight=False)
    raise typer.Exit(verdict.exit_code)


def page_of(entry: Entry, folder: Path) -> Run:
    """A run of this clone as its page shows it."""
    base = entry.job.base if entry.job else ""
    return Run(
        entry.run,
        entry.milestones,
        entry.target,
        entry.candidate.commit,
        base or entry.candidate.parent,
        entry.user,
        entry.started,
        entry.verdict,
        entry.reason,
        folder,
        entry.unpinned,
        entry.because,
    )


def _printable(record: Record) -> Record:
    """A record from a host without what a terminal could take for a command."""

    def clean(value: object) -> object:
        if isinstance(value, str):
            return "".join(c if c.isprintable() or c == "\n" else " " for c in value[:20_000])
        if isinstance(value, list):
            return [clean(each) for each in value]
        return {clean(k): clean(v) for k, v in value.items()} if isinstance(value, dict) else value

    return msgspec.convert(clean(msgspec.to_builtins(record)), Record)


def _runs_here() -> Iterator[tuple[str, ...]]:
    for each in _store().newest_first():
        verdict = each.verdict or "going"
        commit = each.candidate.commit[:12]
        milestone = each.milestone if len(each.milestones) == 1 else f"{len(each.milestones)} of them"
        yield each.run, milestone, each.target, commit, verdict, _age(each.run), each.user


def _runs_there(name: str) -> Iterator[tuple[str, ...]]:
    for row in _ask(targets.load().find(name), "runs").get("runs", []):
        each = {key: str(value) for key, value in row.items()}
        verdict = each["verdict"] or ("going" if each["alive"] == "True" else "died")
        yield (
            each["run"], each["milestone"], each["target"], each["commit"][:12], verdict, _age(each["run"]),
            each["owner"],
        )  # fmt: skip


def _ask(target: Target, verb: str, **request: object) -> dict[str, Any]:
    link = target.connect()
    try:
        return send(target, link, PROBE, {"verb": verb, "workdir": target.workdir, **request})
    finally:
        link.close()


def _age(run: str) -> str:
    """How long ago a run began, by its id."""
    try:
        began = datetime.strptime(run[:15], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return "?"
    seconds = (datetime.now(UTC) - began).total_seconds()
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


@contextmanager
def refusals() -> Iterator[None]:
    """Errors that are a sentence to the user: bad input ends with 2, an unreachable target as INFRA does."""
    try:
        yield
    except BAD_INPUT as error:
        _refuse(error, EXIT_BAD_INPUT)
    except (RemoteError, Gone) as error:
        _refuse(error, Verdict.INFRA.exit_code)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _refuse(f"the disk of this machine is full ({error.filename or RESULTS}): make room", Verdict.INFRA.exit_code)


def _refuse(why: object, code: int) -> NoReturn:
    typer.echo(one_line(str(why), 1000), err=True)
    raise typer.Exit(code)
