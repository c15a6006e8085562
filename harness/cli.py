"""The command line: `python -m harness COMMAND`, which the Makefile's targets call."""

from __future__ import annotations

import argparse
import errno
import inspect
import os
import sys
from collections.abc import Callable, Sequence

from harness.client import run_commands
from harness.client.acceptance import judged_on
from harness.client.candidate import CandidateError, find
from harness.client.driver import NothingToDo
from harness.client.run_store import RunStore, RunStoreError
from harness.client.vouched import accepted
from harness.client.watch import Gone
from harness.host.job import JobError
from harness.host.journal import one_line
from harness.host.protected import ProtectedError
from harness.host.repository import GitError
from harness.host.verdict import EXIT_BAD_INPUT, Verdict
from harness.judge import measure
from harness.paths import RESULTS, ROOT
from harness.report import notes
from harness.report.record import PAGE_NAME, REPORT_NAME
from remote import targets
from remote.errors import RemoteError, TargetError
from stages.catalog import CATALOG, NotBuilt, UnknownMilestone, runnable

NOTES = ROOT / "STAGE_NOTES.md"
MOST_FAILURES = 5
#: Errors of what the user asked for. The message is one sentence and says how to fix it.
BAD_INPUT = (
    CandidateError,
    GitError,
    JobError,
    notes.NotesError,
    RunStoreError,
    NotBuilt,
    NothingToDo,
    ProtectedError,
    TargetError,
    UnknownMilestone,
)
FULL, READ_ONLY = (errno.ENOSPC, errno.EDQUOT), (errno.EACCES, errno.EPERM, errno.EROFS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Return its exit code: 2 for invalid input, INFRA's for a target that cannot be reached."""
    options = vars(parser().parse_args(arguments))
    command = options.pop("command")
    options |= {name: RunStore(RESULTS).full(options[name]) for name in ("run", "other") if name in options}
    try:
        return int(command(**options))
    except BAD_INPUT as error:
        return _fail(error, EXIT_BAD_INPUT)
    except (RemoteError, Gone) as error:
        return _fail(error, Verdict.INFRA.exit_code)
    except OSError as error:
        place = error.filename or RESULTS
        if error.errno in FULL:
            return _fail(f"the disk of this machine is full ({place}): free some space", Verdict.INFRA.exit_code)
        if error.errno in READ_ONLY:
            said = f"{place} is not writable ({error.strerror}): change its owner or mode"
            return _fail(said, Verdict.INFRA.exit_code)
        raise


def _fail(why: object, code: int) -> int:
    print(one_line(str(why), 1000), file=sys.stderr)
    return code


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line: one subparser for each command."""
    milestone = _option("milestone", help="D1.1, for example; `milestones` lists them")
    target = _option("--target", default="", help="a name from remote/targets.toml (default: the file's own default)")
    unpin = _option("--unpin", action="append", default=[], metavar="PATH", help="a pinned path that may change")
    because = _option("--because", default="", metavar="WHY", help="the reason, which the verdict or the note records")
    again = _option("--again", action="store_true", help="judge an accepted commit once more")
    no_cache = _option("--no-cache", action="store_true", help="compile the kernel even if it was compiled before")
    seeds = _option("--seeds", type=_count, default=40, help="seeds besides the milestone's own (default: 40)")
    run = _option("run", metavar="RUN", help="a run id, or its last digits; `runs` lists them")
    other = _option("other", metavar="OTHER", help="the run to compare it with")
    keep = _option("--keep", type=_count, default=50, help="the number of newest runs that stay (default: 50)")
    clear = _option(
        "--clear-broken",
        action="store_true",
        help="remove the mark that says that the device is broken; check the device first",
    )
    carried = _option("--wheels", dest="carried", default="", metavar="FOLDER", help="copy the packages from here")
    judging = (target, unpin, because)

    top = argparse.ArgumentParser(
        prog="python -m harness", description="Judge changes of the kernel, and manage runs and targets."
    )
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, command: Callable[..., int], *options: argparse.ArgumentParser) -> None:
        text = inspect.getdoc(command) or ""
        added = commands.add_parser(name, parents=options, help=text.splitlines()[0], description=text)
        added.set_defaults(command=command)

    add("stage", run_commands.stage, milestone, *judging, again, no_cache)
    add("stages", run_commands.stages, *judging, no_cache)
    add("gate", run_commands.gate, *judging, again)
    add("ratchet", run_commands.ratchet, *judging)
    add("sweep", sweep, milestone, seeds, target)
    add("perf", perf, milestone, target)
    add("runs", run_commands.runs, target)
    add("resume", run_commands.resume, run)
    add("cancel", run_commands.cancel, run)
    add("revoke", run_commands.revoke, run, because)
    add("dashboard", run_commands.dashboard, target)
    add("diff", run_commands.diff, run, other)
    add("clean-runs", run_commands.clean_runs, keep)
    add("doctor", run_commands.doctor, target, clear)
    add("trust", run_commands.trust, target)
    add("provision", run_commands.provision, target, carried)
    add("milestones", milestones)
    add("report", report)
    add("notes", update_notes)
    return top


def _option(*names: str, **how: object) -> argparse.ArgumentParser:
    """Return a parser of one option, as a parent of the commands that have it."""
    found = argparse.ArgumentParser(add_help=False)
    found.add_argument(*names, **how)  # type: ignore[arg-type]
    return found


def _count(text: str) -> int:
    """Parse a number of things. Raises ArgumentTypeError for anything else, which argparse reports."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return int(text)


def milestones() -> int:
    """List the milestones: which of them are built, and which were judged on the tree of `accepted`."""
    repository = find(ROOT)
    tip = accepted(repository)
    judged = judged_on(repository, tip) if tip else {}
    for each in CATALOG:
        commit, same = judged.get(each.id, ("", True))
        said = "" if not commit else "; accepted" if same else f"; not judged since {commit[:12]}"
        print(f"{each.id:5} {'built  ' if each.built else 'planned'}  {each.summary}{said}")
    return 0


def report() -> int:
    """Print the path of the newest report, and open it if there is a browser."""
    made = [path for name in (REPORT_NAME, PAGE_NAME) for path in RESULTS.glob(f"*/{name}")]
    if not made:
        raise NothingToDo(f"no report under {RESULTS}; make stage D1.1 writes one")
    newest = max(made, key=lambda path: (path.parent.name != "sample", path.stat().st_mtime)).parent
    shown = next(newest / name for name in (REPORT_NAME, PAGE_NAME) if (newest / name).exists())
    print(shown)
    if sys.stdout.isatty() and _has_display():
        import webbrowser

        webbrowser.open(shown.as_uri())
    return 0


def update_notes() -> int:
    """Update the table in STAGE_NOTES.md from the records of accepted runs."""
    changed = notes.update(NOTES, RunStore(RESULTS).accepted())
    print(f"{NOTES}: {'updated' if changed else 'already up to date'}")
    return 0


def sweep(milestone: str, seeds: int, target: str) -> int:
    """Measure a milestone for many seeds in every completion mode, and print the largest value of each figure."""
    place = targets.load().find(target)
    chosen = runnable(milestone)
    from harness.tools.measure import largest
    from harness.tools.measure import sweep as measured_for_seeds

    with run_commands.driving() as driver:
        entry, known = measured_for_seeds(driver, chosen, seeds, place)
    for line in largest(known):
        print(line)
    failed = [each for each in known if each.error]
    for each in failed[:MOST_FAILURES]:
        print(f"{each.case} seed={each.seed}: {each.error.splitlines()[0]}")
    print(f"{len({each.seed for each in known})} seeds of {chosen.id} measured, {len(failed)} launches failed")
    if entry and Verdict[entry.verdict] is not Verdict.ACCEPT:
        more = "" if entry.closed else f"; to continue: make resume RUN={entry.run}, or the same sweep again"
        print(f"{entry.verdict}  {one_line(entry.reason)}{more}")
        return Verdict[entry.verdict].exit_code
    return Verdict.REJECT_STAGE.exit_code if failed else 0


def perf(milestone: str, target: str) -> int:
    """Time a milestone's cases on the GPU of a target, and other attention kernels that are installed there.

    Without a milestone, it times the problems of harness/judge/problems.py.
    """
    place = targets.load().find(target)
    chosen = [runnable(milestone).id] if milestone else []
    if place.device != "cuda":
        predict = " ".join(["make perf", *chosen])
        raise TargetError(f"target {place.name!r} has no GPU to measure on; to predict instead: {predict}")
    with run_commands.driving() as driver:
        entry = driver.time(chosen, place)
    for line in measure.in_words(RESULTS / entry.run):
        print(line)
    if entry.verdict != Verdict.ACCEPT.name:
        print(f"{entry.verdict}  {one_line(entry.reason)}")
    return Verdict[entry.verdict].exit_code


def _has_display() -> bool:
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
