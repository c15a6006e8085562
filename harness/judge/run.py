"""The phase that judges one milestone by recordings. It may be killed at any time, and its record remains.

`python -m harness.judge.run D1.1 --device emulator --target sim --out FOLDER --seed 7 --commit ID` reads what
`harness.judge.record_calls` left in FOLDER, runs the milestone's module on replays of it (phase "stage" of
FOLDER/record.json), predicts the time of its cases (phase "clock", on the emulated device only), writes the
verdict into the record and exits with the verdict's code. Of the kernel this process imports the references only.
With --wait the process imports its modules and then reads the seed from its input, so that it can be started while the
candidate's process records. With neither it first records what is in this checkout, and draws the seed.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import random
import secrets
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.garbage import imports
from harness.host.files import is_plain
from harness.host.journal import one_line
from harness.host.verdict import Verdict
from harness.judge import arguments, reference_only
from harness.judge.provenance import run_of, toolchain, working_tree
from harness.judge.record_writer import RecordWriter
from harness.paths import ROOT
from harness.report import record
from remote.device import DEVICES, Emulated
from stages.catalog import GATE, Milestone
from stages.device import Device
from stages.tolerances import added_up, most_cycles

if TYPE_CHECKING:
    from harness.judge.recordings import Replayed
    from stages.case import Case

#: Share of the time of the stage that predictions of other cases than the first may take.
OTHERS = 0.25
#: Modules that are imported where they are used.
USED = (
    "pytest",
    "PIL.PngImagePlugin",
    "emulator.clock.predict",
    "emulator.clock.skeleton",
    "harness.judge.plugin",
    "harness.judge.recordings",
    "harness.judge.replay_on",
    "harness.judge.shown",
    "stages.every",
)
QUIET = ("-W", "ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning")
# Paths are passed to pytest relative to here: it expands a $ in a path, and the path of a checkout may have one.
OPTIONS = (
    *("-p", "no:cacheprovider"),
    *("-p", "no:unraisableexception"),  # it collects garbage five times, for 3% of the time of D6d
    "-v",
    "--no-header",
    "--tb=short",
    "-o",
    "addopts=",
    "-o",
    "empty_parameter_set_mark=fail_at_collect",
    f"--rootdir={os.path.relpath(ROOT)}",
)


def main() -> int:
    """Run the command line that the module's docstring describes."""
    parser = argparse.ArgumentParser(prog="python -m harness.judge.run", description=__doc__)
    parser.add_argument("milestone", type=arguments.milestone)
    parser.add_argument("--device", choices=sorted(DEVICES), required=True)
    parser.add_argument("--target", required=True, help="name of the target in the record")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder of results; its name, or its parent's, is the run id",
    )
    parser.add_argument("--seed", type=int, help="the fresh seed; FOLDER has the recordings")
    parser.add_argument("--wait", action="store_true", help="read the fresh seed from the first line of the input")
    parser.add_argument("--commit", default="", help="the commit that was recorded")
    parser.add_argument("--beside", nargs="*", default=[], metavar="MILESTONE", help=arguments.BESIDE)
    parser.add_argument("--again", type=Path, metavar="FOLDER", help="what a second process recorded of a sample of it")
    parser.add_argument("--sample", type=int, default=0, metavar="SEED", help="the seed of that sample")
    args = parser.parse_args()
    milestone: Milestone = args.milestone
    args.out.mkdir(parents=True, exist_ok=True)
    with imports():
        device = DEVICES[args.device]()
        import_all(milestone)
        beside = milestone.beside(args.beside)
    if args.wait:
        args.seed = int(sys.stdin.readline())
    if args.seed is None:
        code = record_here(milestone, args.device, args.target, args.out, args.beside)
        if code:
            return code
    tree = record.Tree(args.commit, []) if args.commit else working_tree()
    opened = record.Record(run_of(args.out), milestone.id, args.target, record.now(), tree, toolchain())
    try:
        opened.phases, opened.compiles = said_of_compiling(args.out)
    except record.RecordError as error:
        (args.out / record.RECORD_NAME).unlink(missing_ok=True)
        opened.reason = f"the candidate's process left no record of compiling: {error}"
    recorder = RecordWriter(args.out, opened, secrets.randbelow(10**9) if args.seed is None else args.seed)
    if args.again and not opened.reason:
        opened.reason = unlike(args.out, args.again, milestone.sample(args.sample, args.beside))
    if opened.reason:
        verdict, reason = rejected(milestone), opened.reason
    else:
        verdict, reason = run(milestone, device, recorder, beside)
    recorder.finish(verdict, reason)
    return verdict.exit_code


def import_all(milestone: Milestone) -> None:
    """Import the modules that judging a milestone needs. Nothing of the candidate's is read."""
    for name in USED:
        importlib.import_module(name)
    milestone.load()


def record_here(milestone: Milestone, device: str, target: str, out: Path, beside: Sequence[str]) -> int:
    """Record what is in this checkout, in a process of its own. Return that process's exit code."""
    arguments = [milestone.id, "--device", device, "--target", target, "--out", str(out), "--beside", *beside]
    return subprocess.run([sys.executable, "-m", "harness.judge.record_calls", *arguments], check=False).returncode


def said_of_compiling(out: Path) -> tuple[list[record.Phase], list[record.Compile]]:
    """Return the phases and compiles that the candidate's process recorded. Its files must be in `out`."""
    said = record.load(out)
    said.phases = said.phases[:1]  # a replay has the whole record of a run
    if any(each.name != "compile" for each in said.phases):  # by their names the judge finds its own
        raise record.RecordError(f"{out}: its phase is {said.phases[0].name}, not compile")
    for each in said.compiles:
        if not all("/" not in name and is_plain(name) for name in each.files):
            raise record.RecordError(f"{out}: the files of {each.name!r} do not lie beside the record")
    return said.phases, said.compiles


def unlike(out: Path, again: Path, sample: Sequence[Case]) -> str:
    """Return why two processes of the candidate did not record a sample of cases alike, or ""."""
    from emulator.recordings.format import RecordingError
    from harness.judge.recordings import difference

    try:
        found = difference(out / record.RECORDINGS, again / record.RECORDINGS, sample)
    except (RecordingError, OSError) as error:
        return str(error)
    return f"not reproducible: in another process, with another environment, {found}" if found else ""


def run(
    milestone: Milestone, device: Device, recorder: RecordWriter, beside: Sequence[Case] = ()
) -> tuple[Verdict, str]:
    """Run the milestone's module on replays of what was recorded, and cases of others. Return verdict and reason."""
    from emulator.recordings.format import RecordingError
    from harness.judge.recordings import Replayed
    from harness.judge.replay_on import launcher
    from stages.calls import callers

    try:
        replayed = Replayed(recorder.folder / record.RECORDINGS, launcher(device))
    except RecordingError as error:
        return rejected(milestone), str(error)
    callers.append(replayed)
    with recorder.phase("stage") as phase:
        every = [*milestone.launched(), *beside]
        if reason := unproven(milestone, replayed, recorder, every):
            phase.outcome = "failed"
            return rejected(milestone), reason
        code = run_cases(milestone, device, recorder, beside)
        phase.outcome = "failed" if code else "passed"
    verdict, reason = verdict_of(milestone, recorder.record, code)
    if verdict is Verdict.ACCEPT and isinstance(device, Emulated):
        if reason := unproven(milestone, replayed, recorder, every):
            return rejected(milestone), f"{reason}; only instructions that the judged launch executed count"
        return time_cases(milestone, device, recorder)
    return verdict, reason


def unproven(milestone: Milestone, replayed: Replayed, recorder: RecordWriter, cases: Sequence[Case]) -> str:
    """Record the features that the recordings of cases show. Return which one is missing, or "".

    Of a case that was launched, only the executed instructions count, if it has keys. Calls that were not recorded are
    left to the tests, which fail with the error of each.
    """
    from emulator.recordings import NotRecordable, RecordingError
    from harness.judge.shown import shown
    from stages.proofs import Unproven, proven

    missing, done = [], recorder.record
    for case in cases:
        name = milestone.name_of(case)
        attends = case.keys or case.compressed or case.served
        acted = recorder.launched[name].acted if attends and name in recorder.launched else None
        try:
            done.proven[name], reasons = proven(case, *shown(replayed.recording(case), acted))
            done.not_asked |= reasons
        except Unproven as error:
            missing.append(one_line(str(error)))
        except (NotRecordable, RecordingError):
            continue
    return f"{missing[0]}{f' (and {len(missing) - 1} more cases)' if missing[1:] else ''}" if missing else ""


def time_cases(milestone: Milestone, device: Emulated, recorder: RecordWriter) -> tuple[Verdict, str]:
    """Predict the time of the cases of an accepted module, and return the verdict on it.

    The first case is predicted in every run, and each case whose launch shows that it may be slow. Others follow in an
    order that the fresh seed draws, as long as that takes no more than OTHERS of the stage.
    """
    from emulator.clock.uncertainty import mean_error
    from harness.judge.predict import UnseenWork, may_be_slow, predict, same_work, timed

    seed, launched = recorder.fresh_seed, recorder.launched
    try:
        with recorder.phase("clock"):
            first, *others = milestone.load().CASES
            for case in (first, *others):
                same_work(case, launched[str(case)].work, recorder.unguarded[str(case)])
            most = most_cycles(milestone.id, [first, *others], mean_error(device.chip), device.chip)
            recorder.record.most_cycles = most
            recorder.predicted(*predict(first, device, seed, launched[str(first)], most[str(first)]))
            slow = [case for case in others if may_be_slow(launched[str(case)].work, most.get(str(case), math.inf))]
            rest = [case for case in random.Random(seed).sample(others, len(others)) if case not in slow]
            for case in chain(slow, in_time(rest, recorder)):
                recorder.cycles(case.name, timed(case, device, seed, launched[str(case)]))
    except UnseenWork as error:
        return rejected(milestone), str(error)
    except Exception as error:
        traceback.print_exc()
        return Verdict.INFRA, f"the clock: {type(error).__name__}: {error}"
    return hold(milestone, recorder.record)


def in_time(cases: Sequence[Case], recorder: RecordWriter) -> Iterator[Case]:
    """Yield cases until their predictions would take more than OTHERS of the time of the stage."""
    limit_s = OTHERS * next(each.seconds for each in recorder.record.phases if each.name == "stage")
    started = now = time.perf_counter()
    for case in cases:
        before, now = now, time.perf_counter()
        if 2 * now - before - started > limit_s:
            return
        yield case


def run_cases(milestone: Milestone, device: Device, recorder: RecordWriter, beside: Sequence[Case]) -> int:
    """Run `stages.every`, the milestone's module, and `stages.codes` and `stages.beside` if there are cases for them.

    They run in pytest, without the user's options. Return pytest's exit code.
    """
    import pytest

    from harness.judge.plugin import MilestonePlugin
    from stages import beside as others
    from stages import codes, every

    os.environ.pop("PYTEST_ADDOPTS", None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    needed = {codes.__file__: hasattr(milestone.load(), "EVERY_CODE"), others.__file__: bool(beside)}
    files = [every.__file__, str(milestone.module), *(file for file, asked in needed.items() if asked)]
    options = [*QUIET, *OPTIONS, *files]
    return int(pytest.main(options, [MilestonePlugin(milestone, recorder, device, beside)]))


def verdict_of(milestone: Milestone, done: record.Record, code: int) -> tuple[Verdict, str]:
    """Return the verdict on a module after pytest exited with `code`. ACCEPT requires both the code and the record."""
    failed = [case.label for case in done.cases if case.outcome != "passed"]
    admitted = [each.name for each in done.negative_controls if not each.refused]
    figures = [figure for case in done.cases for figure in case.figures]
    factors = {key: z for key, z in done.added_up().items() if abs(z) > added_up()}
    if code == 0 and figures and done.negative_controls and not failed and not admitted and not factors:
        return Verdict.ACCEPT, ""
    if failed:
        return rejected(milestone), f"failed: {', '.join(failed)}"
    if factors:
        shown = (f"{tensor} of {case} by {z:.1f} sigma" for (case, tensor), z in factors.items())
        return rejected(milestone), f"a factor shows in the sum over seeds: {', '.join(shown)}"
    return Verdict.INFRA, f"pytest exited with {code}, but no case in the record failed"


def hold(milestone: Milestone, done: record.Record) -> tuple[Verdict, str]:
    """Return the verdict on the predicted times of an accepted module, which must not exceed their pins."""
    slower = [
        f"{case}: {cycles:,.0f} cycles (at most {done.most_cycles[case]:,.0f})"
        for case, cycles in done.cycles.items()
        if cycles > done.most_cycles.get(case, math.inf)
    ]
    if not slower:
        return Verdict.ACCEPT, ""
    assert done.prediction is not None
    said = slower[0] if done.prediction.holds else done.prediction
    more = f" (and {len(slower) - 1} more cases)" if slower[1:] else ""
    fix = f'if that is intended: make pin-cycles {milestone.id}, then UNPIN=stages BECAUSE="..."'
    return rejected(milestone), f"slower: {milestone.id} {said}{more}; {fix}"


def rejected(milestone: Milestone) -> Verdict:
    """Return the verdict on a milestone that does not hold."""
    return Verdict.REJECT_GATE if milestone is GATE else Verdict.REJECT_STAGE


if __name__ == "__main__":
    reference_only.install()
    sys.exit(main())
