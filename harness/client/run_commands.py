"""The commands that judge the working tree, and those about runs and targets.

Each function is one command: its docstring is the help text, its parameters are the options, and it returns the exit
code. `harness.cli` parses the options and reports errors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from harness.client import acceptance, candidate, cleaning, vouched, wheels
from harness.client.doctor import examine
from harness.client.driver import Driver, NothingToDo
from harness.client.gather import gather
from harness.client.host import PROBE, PROVISION
from harness.client.run_store import Entry, RunStore
from harness.client.watch import Terminal
from harness.host.journal import one_line, printable
from harness.host.protected import Unpin
from harness.host.verdict import EXIT_BAD_INPUT, Verdict
from harness.paths import RESULTS, ROOT
from harness.report import page, terminal
from harness.report.page import Run
from harness.report.record import REPORT_NAME, Record, Tree, load_all
from remote import targets
from remote.errors import TargetError
from remote.program import send
from remote.target import Target
from stages.catalog import CATALOG, GATE, runnable

#: Seconds without output that the download of a large package may take.
DOWNLOAD_S = 3600.0
#: Variables of pip here that `provision` passes on, for hosts behind a mirror.
MIRRORS = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST")

console = Console()


def stage(milestone: str, target: str, unpin: list[str], because: str, again: bool, no_cache: bool) -> int:
    """Judge the working tree on one milestone, after the hd=64 gate. Exits with 0 only on ACCEPT."""
    return _drive_and_show([milestone], target, unpin, because, again, no_cache)


def stages(target: str, unpin: list[str], because: str, no_cache: bool) -> int:
    """Judge the working tree on every milestone, in one run with one report."""
    built = [each.id for each in CATALOG if each.built]
    return _drive_and_show(built, target, unpin, because, True, no_cache)


def gate(target: str, unpin: list[str], because: str, again: bool) -> int:
    """Judge the working tree on the hd=64 gate alone."""
    return _drive_and_show([GATE.id], target, unpin, because, again)


def ratchet(target: str, unpin: list[str], because: str) -> int:
    """Judge the working tree on every milestone that was ever accepted, in one run."""
    held = acceptance.accepted_milestones(candidate.find(ROOT))
    wanted = [milestone.id for milestone in CATALOG if milestone.id in held]
    if not wanted:
        raise NothingToDo("nothing was accepted yet: make stage D1.1 comes first")
    console.print(f"rerunning {', '.join(wanted)}", highlight=False)
    return _drive_and_show(wanted, target, unpin, because, again=True)


def resume(run: str) -> int:
    """Fetch the verdict of a run that was left or lost, and accept or reject the change accordingly."""
    entry = _store().find(run)
    with driving() as driver:
        entry = driver.resume(run, targets.load().find(entry.subject.target))
    if entry.judges:
        return _show_end(entry)
    again = f"make sweep {entry.subject.milestone} prints its figures" if entry.seeds else str(RESULTS / entry.run)
    console.print(f"{entry.verdict}  {again}", highlight=False)
    return Verdict[entry.verdict].exit_code


def cancel(run: str) -> int:
    """Ask the supervisor of a run to end it."""
    entry = _store().find(run)
    with driving() as driver:
        driver.cancel(run, targets.load().find(entry.subject.target))
    console.print(f"asked to end; for its verdict: make resume RUN={run}", highlight=False)
    return 0


def revoke(run: str, because: str) -> int:
    """Take the acceptance of a run back, with the reason that --because gives."""
    if not because.strip():
        raise NothingToDo(f'give the reason: make revoke RUN={run} BECAUSE="why"')
    entry = _store().find(run)
    repository = candidate.find(ROOT)
    said = vouched.revoke(repository, run, entry.candidate.commit, candidate.user_name(), because)
    console.print(f"revoked {run}: {said}", highlight=False, soft_wrap=True)
    return 0


def runs(target: str) -> int:
    """List the runs of this clone, newest first; with a target, the runs of everybody there."""
    rows = [[one_line(cell, 200) for cell in row] for row in (_runs_there(target) if target else _runs_here())]
    if not rows:
        console.print("no runs yet: make stage D1.1")
    shown = [["run", "milestone", "target", "commit", "verdict", "age", "who"], *rows] if rows else []
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        console.print(Text("  ".join(map(str.ljust, row, widths)).rstrip()), soft_wrap=True)
    return 0


def dashboard(target: str) -> int:
    """Write the history of this clone as HTML pages; with a target, also the runs of everybody there."""
    from harness.report.dashboard import write

    runs = {entry.run: page_of(entry, RESULTS / entry.run) for entry in _store().newest_first() if entry.judges}
    for run in gather(targets.load().find(target), RESULTS) if target else ():
        runs.setdefault(run.id, run)
    if not runs:
        raise NothingToDo("no runs yet: make stage D1.1")
    repository = candidate.find(ROOT)
    stale = acceptance.not_judged_on_tip(repository)
    print(write(RESULTS, [runs[run] for run in sorted(runs, reverse=True)], repository, stale))
    return 0


def diff(run: str, other: str) -> int:
    """Print what differs between two runs of this clone, and write it as a page among the results of the second."""
    from harness.report import compare

    entries = [_store().find(each) for each in (run, other)]
    before, after = (page_of(entry, RESULTS / entry.run) for entry in entries)
    found = compare.compare(before, after, candidate.find(ROOT))
    for line in compare.lines(found):
        console.print(Text(one_line(line, 200)), soft_wrap=True)
    console.print(Text(str(compare.write(found))), soft_wrap=True)
    return 0


def clean_runs(keep: int) -> int:
    """Remove old runs, their candidates, and their folders on targets; the results of accepted runs stay."""
    for line in cleaning.clean(candidate.find(ROOT), _store(), targets.load(), keep):
        console.print(one_line(line), highlight=False, soft_wrap=True)
    return 0


def doctor(target: str, clear_broken: bool) -> int:
    """Check each requirement of a target, and print how to fix what is not met. Exits with 0 if all are met."""
    chosen = targets.load().find(target)
    if clear_broken:
        _ask(chosen, "clear", lock=chosen.lock)
    holds = True
    for finding in examine(chosen, candidate.find(ROOT)):
        holds &= finding.holds
        mark = ("ok  ", "green") if finding.holds else ("FIX ", "bold red")
        line = Text.assemble(mark, f"  {finding.need:12} {one_line(finding.found)}")
        console.print(line, soft_wrap=True)
        if not finding.holds and finding.fix:
            console.print(Text(f"      {'':12} {finding.fix}"), soft_wrap=True)
    return 0 if holds else Verdict.INFRA.exit_code


def trust(target: str) -> int:
    """Show the host key that a target offers, and pin it after you confirm it."""
    chosen = targets.load().find(target)
    if not chosen.host:
        raise TargetError(f"target {chosen.name!r} is this machine: there is no host key to pin")
    from remote import trust as keys

    while not (found := keys.offered(chosen.host)).pinned:
        if found.changed:
            warning = f"The key of {found.name} has CHANGED. Ask its administrator why before you confirm."
            console.print(warning, style="red")
        offer = f"{found.name} offers {found.key.get_name()} {found.fingerprint}"
        console.print(offer, highlight=False, soft_wrap=True)
        if not _confirmed("Is this the key that its administrator gave you?"):
            return EXIT_BAD_INPUT
        keys.pin(found)
    console.print(f"{found.name} is pinned: {found.fingerprint}", highlight=False)
    return 0


def _confirmed(question: str) -> bool:
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def provision(target: str, carried: str) -> int:
    """Install the packages of requirements.lock in the work folder of a target; if interrupted, run it again."""
    chosen = targets.load().find(target)
    if not chosen.provisionable:
        raise TargetError(f"target {chosen.name!r} is this machine: make setup installs its packages")
    if chosen.python:
        raise TargetError(f"target {chosen.name!r} has its own python, {chosen.python}: set base_python in its place")
    lock, place = ROOT / "requirements.lock", {"workdir": chosen.workdir}
    pip = {name: os.environ[name] for name in MIRRORS if name in os.environ and not carried}
    with closing(chosen.connect()) as link, console.status("connecting") as status:
        doing = Terminal(console, status).doing
        if carried:
            there = send(chosen, link, PROVISION, "needs", place, doing)
            wheels.download(lock, Path(carried), there, doing)
            wheels.carry(chosen, link, Path(carried), there, doing)
        asked = place | {"lock": lock.read_text(), "pip": pip, "carried": bool(carried)}
        made = send(chosen, link, PROVISION, "provision", asked, doing, DOWNLOAD_S)
    machine = one_line(str(made.get("machine")), 20)
    done = f"{chosen.name} has the packages of requirements.lock for {machine}; next: make doctor TARGET={chosen.name}"
    console.print(done, highlight=False, soft_wrap=True)
    return 0


def _drive_and_show(
    milestones: Sequence[str], name: str, unpin: list[str], because: str, again: bool = False, no_cache: bool = False
) -> int:
    """Judge the working tree on `milestones`, show how that ended, and return the verdict's exit code."""
    chosen = targets.load().find(name)
    milestones = [runnable(each).id for each in milestones]
    if chosen.why_not_from_here:
        raise TargetError(chosen.why_not_from_here)
    with driving() as driver, ThreadPoolExecutor() as pool:
        pool.submit(page.prepare)  # loaded while the run is under way, not after it
        entry = driver.judge(milestones, chosen, Unpin(tuple(unpin), because), again, no_cache)
    return _show_end(entry)


@contextmanager
def driving() -> Iterator[Driver]:
    """Yield the driver of this clone, which shows its progress in the terminal."""
    with console.status("starting") as status:
        yield Driver(candidate.find(ROOT), _store(), Terminal(console, status))


def _store() -> RunStore:
    return RunStore(RESULTS)


def _show_end(entry: Entry) -> int:
    """Print the figures, the verdict, who has to act, and the next step. Return the verdict's exit code."""
    folder, verdict = RESULTS / entry.run, Verdict[entry.verdict]
    about = entry.subject
    shown = Record(entry.run, about.milestone, about.target, entry.started, Tree(about.commit, []))
    at, found = folder, []
    for name, record in load_all(folder, about.milestones):
        shown, at = _printable(record), folder / name
        found.append(shown)
    if len(about.milestones) > 1:
        console.print(terminal.overview(found))
        if verdict is Verdict.ACCEPT:
            shown = msgspec.structs.replace(
                shown, milestone=f"{len(found)} milestones", cases=[], negative_controls=[], prediction=None
            )
    shown.verdict, shown.reason = verdict.name, one_line(entry.reason)
    run = page_of(entry, folder)
    made, report = page.write(run, candidate.find(ROOT)), at / REPORT_NAME
    alone = verdict is Verdict.ACCEPT and len(about.milestones) == 1
    terminal.show_end(console, shown, report if alone and report.exists() else made)
    for remark in about.remarks if entry.judges else ():
        style = "bold yellow" if about.base else "dim"  # before the first acceptance a remark is expected
        console.print(one_line(remark, 200), style=style, highlight=False, markup=False, soft_wrap=True)
    if verdict is not Verdict.ACCEPT:
        console.print(f"fault: {verdict.fault.value}", highlight=False)
    if entry.stays:
        console.print(one_line(entry.stays), highlight=False, soft_wrap=True)
    if not entry.closed:
        console.print(f"make resume RUN={entry.run} tries again", highlight=False)
    elif run.next_step:
        console.print(Text(f"next: {one_line(run.next_step, 500)}"), soft_wrap=True)
    return verdict.exit_code


def page_of(entry: Entry, folder: Path) -> Run:
    """Return a run of this clone as its page shows it."""
    base = entry.subject.base or entry.candidate.parent
    rejected = bool(entry.verdict) and Verdict[entry.verdict].rejects
    accepted = _store().accepted_before(entry) if rejected else {}
    known = targets.load().by_name.get(entry.subject.target)
    about, arch = replace(entry.subject, base=base), known.arch if known else "sm_100a"
    return Run(about, entry.started, entry.verdict, entry.reason, folder, accepted, arch)


def _printable(record: Record) -> Record:
    """Return a record from a host without control characters, which a terminal could obey."""

    def clean(value: object) -> object:
        if isinstance(value, str):
            return printable(value[:20_000])
        if isinstance(value, list):
            return [clean(each) for each in value]
        return {clean(k): clean(v) for k, v in value.items()} if isinstance(value, dict) else value

    return msgspec.convert(clean(msgspec.to_builtins(record)), Record)


def _runs_here() -> Iterator[tuple[str, ...]]:
    for each in _store().newest_first():
        verdict = each.verdict or "going"
        about = each.subject
        milestone = about.milestone if len(about.milestones) == 1 else f"{len(about.milestones)} of them"
        remarks = "; ".join(("", *about.remarks)) if each.judges else ""
        yield about.run, milestone, about.target, about.commit[:12], verdict, _age(about.run), about.user + remarks


def _runs_there(name: str) -> Iterator[tuple[str, ...]]:
    for row in _ask(targets.load().find(name), "runs").get("runs", []):
        each = {key: str(value) for key, value in row.items()}
        ended = Verdict.CANCELLED.name if each.get("cancelled") == "True" else "died"
        verdict = each["verdict"] or ("going" if each["alive"] == "True" else ended)
        yield (
            each["run"], each["milestone"], each["target"], each["commit"][:12], verdict, _age(each["run"]),
            each["user"],
        )  # fmt: skip


def _ask(target: Target, verb: str, **request: object) -> dict[str, Any]:
    with closing(target.connect()) as link:
        return send(target, link, PROBE, verb, {"workdir": target.workdir, **request})


def _age(run: str) -> str:
    """Return the age of a run, from its id."""
    try:
        began = datetime.strptime(run[:15], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return "?"
    seconds = (datetime.now(UTC) - began).total_seconds()
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
