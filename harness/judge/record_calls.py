"""The phase that runs a candidate's Python: it compiles a milestone's configurations and records each case's call.

`python -m harness.judge.record_calls D1.1 --device emulator --target sim --out FOLDER` opens FOLDER/record.json with
phase "compile", and writes FOLDER/recordings. No kernel is launched and nothing is judged here: `harness.judge.run`
does both, in a process that imports nothing of the candidate's host code. `--compile-only` records nothing either: so
a client compiles before it uses a target's GPU.
"""

from __future__ import annotations

import argparse
import datetime
import random
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.garbage import imports
from harness.host.verdict import Verdict
from harness.judge import arguments
from harness.judge.compile import COLOURS, compile_cases, processors
from harness.judge.kept import kept_kernels
from harness.judge.provenance import run_of, toolchain, working_tree
from harness.judge.record_writer import RecordWriter
from harness.report.record import RECORDINGS, Record, now
from remote.device import Emulated
from stages.catalog import GATE, Milestone

if TYPE_CHECKING:
    from stages.case import Case

#: The calendar of the process that repeats a recording is ahead by some days, and an odd number of seconds, minutes and
#: hours.
DAY_S, AHEAD_S = 86_400, 13 * 3600 + 61


def main() -> int:
    """Run the command line that the module's docstring describes."""
    parser = argparse.ArgumentParser(prog="python -m harness.judge.record_calls", description=__doc__)
    parser.add_argument("milestone", type=arguments.milestone)
    parser.add_argument("--device", required=True, help="where the recording will be replayed")
    parser.add_argument("--target", required=True, help="name of the target in the record")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--beside", nargs="*", default=[], metavar="MILESTONE", help=arguments.BESIDE)
    parser.add_argument("--compile-only", action="store_true", help="compile, and record nothing")
    parser.add_argument("--sample", type=int, metavar="SEED", help="record a few cases only")
    args = parser.parse_args()
    milestone: Milestone = args.milestone
    if args.sample is not None:
        be_at_another_time(AHEAD_S + DAY_S * random.Random(args.sample).randrange(365))
    device = Emulated()  # before the kernel, so that its PTX is kept; also a GPU's recordings are made without a GPU
    kept = kept_kernels(device)
    alone = milestone is GATE or args.device != "emulator"  # other milestones are emulated side by side
    processes = processors() if alone else 1
    args.out.mkdir(parents=True, exist_ok=True)
    opened = Record(run_of(args.out), milestone.id, args.target, now(), working_tree(), toolchain())
    recorder = RecordWriter(args.out, opened, 0)
    try:
        with recorder.phase("compile"):
            with imports():
                milestone.load()
            every = [*milestone.launched(), *milestone.beside(args.beside)]
            chosen = every if args.sample is None else milestone.sample(args.sample, args.beside)
            cases = {number: case for number, case in enumerate(every) if case in chosen}
            twins = set(milestone.launched()) - set(milestone.load().CASES)
            compile_cases([case for case in cases.values() if case not in twins], recorder, kept, processes)
            if not args.compile_only:
                record_cases(milestone, cases, args.out)
    except Exception as error:
        traceback.print_exc()
        recorder.finish(Verdict.COMPILE_ERROR, described(error))
        return Verdict.COMPILE_ERROR.exit_code
    return 0


def be_at_another_time(ahead_s: int) -> None:
    """Move this process's calendar: what depends on the time of day, or on the date, differs from the other process.

    It moves Python's clocks of the calendar. Nothing of Linux moves that clock for one process, so code that asks the
    system itself sees the same time.
    """
    now, now_ns, clock, local, universal = time.time, time.time_ns, datetime.datetime, time.localtime, time.gmtime

    class Later(clock):  # type: ignore[misc, valid-type]
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return cls.fromtimestamp(now() + ahead_s, tz)

    vars(time).update(
        time=lambda: now() + ahead_s,
        time_ns=lambda: now_ns() + ahead_s * 10**9,
        localtime=lambda seconds=None: local(now() + ahead_s if seconds is None else seconds),
        gmtime=lambda seconds=None: universal(now() + ahead_s if seconds is None else seconds),
    )
    vars(datetime).update(datetime=Later)


def described(error: BaseException) -> str:
    """Return the innermost line of the checkout's kernel with its error, and the error that the compiler made of it."""
    root, place = error, ""
    raised: BaseException | None = error
    while raised is not None:
        for file, line in _places(raised):
            path = Path(file)
            if path.is_relative_to(Path("kernel").resolve()):
                root, place = raised, f"{path.relative_to(Path.cwd())}:{line}: "
        raised = raised.__cause__ or raised.__context__
    return "\n".join(place + _text(root) if each is root else _text(each) for each in dict.fromkeys((root, error)))


def _places(error: BaseException) -> Iterator[tuple[str, str]]:
    """Yield the file and line of each frame of an error, outermost first, and of the text that is no Python."""
    for frame in traceback.extract_tb(error.__traceback__):
        yield frame.filename, f"{frame.lineno} in {frame.name}"
    if isinstance(error, SyntaxError) and error.filename:
        yield error.filename, str(error.lineno)


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {COLOURS.sub('', str(error)).strip()}"


def record_cases(milestone: Milestone, cases: Mapping[int, Case], out: Path) -> None:
    """Record the calls of numbered cases of a milestone's run. An error of a call is written in its place."""
    folder = out / RECORDINGS
    import kernel
    from harness.judge import recordings
    from stages import bad_arguments

    folder.mkdir(parents=True, exist_ok=True)
    index = recordings.Index()
    for number, case in cases.items():
        try:
            for buffers, key in zip((True, False), recordings.keys(case), strict=True):
                name = f"{number}.json" if buffers else f"{number}b.json"
                recordings.record_case(case, buffers).save(folder, name)
                index.files[key] = name
            index.compile_s[repr(case)] = kernel.compile(case.config).compile_s
        except Exception as error:
            traceback.print_exc()
            text = "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
            index.errors[repr(case)] = COLOURS.sub("", text)
    for table in getattr(milestone.load(), "BAD_ARGUMENTS", ()):
        index.accepted[table] = bad_arguments.accepted(table, "cpu")
    recordings.save(index, folder)


if __name__ == "__main__":
    sys.exit(main())
