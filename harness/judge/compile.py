"""The compile phase alone, on a machine without a GPU: `python -m harness.judge.compile D1.4 --out FOLDER`."""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import traceback
from pathlib import Path

from harness.host.verdict import Verdict
from harness.judge import arguments
from harness.judge.kept import KeptKernels, use
from harness.judge.provenance import toolchain, working_tree
from harness.judge.recorder import Recorder
from harness.report import record
from harness.report.record import Record, now
from stages.catalog import Milestone

#: Terminal colours in CuTeDSL's error messages.
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
LONGEST = 100  # characters of a file's name without its ending


def main() -> int:
    """Compile every configuration of a milestone. Return the exit code of COMPILE_ERROR if one does not compile."""
    parser = argparse.ArgumentParser(prog="python -m harness.judge.compile", description=__doc__)
    parser.add_argument("milestone", type=arguments.milestone)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    args = parser.parse_args()
    milestone: Milestone = args.milestone
    args.out.mkdir(parents=True, exist_ok=True)
    opened = Record(args.out.name, milestone.id, "compile", now(), working_tree(), toolchain())
    recorder = Recorder(args.out, opened, 0)
    try:
        with recorder.phase("compile"):
            compile_cases(milestone, recorder)
    except Exception as error:
        traceback.print_exc()
        recorder.judge(Verdict.COMPILE_ERROR, f"{type(error).__name__}: {COLOURS.sub('', str(error))}")
        return Verdict.COMPILE_ERROR.exit_code
    return 0


def stem_of(case: str) -> str:
    """Return a name of files for a case: its own with dashes, and a digest in place of what exceeds LONGEST."""
    stem = re.sub(r"[^a-z0-9]+", "-", case)
    return stem if len(stem) <= LONGEST else f"{stem[: LONGEST - 9]}-{hashlib.sha256(case.encode()).hexdigest()[:8]}"


def compile_cases(milestone: Milestone, recorder: Recorder, kept: KeptKernels | None = None) -> None:
    """Compile every configuration of the milestone, or take it from the cache; record its PTX and traced layouts."""
    import kernel
    from kernel.cubin import resources

    if kept is not None:
        use(kept)
    for config, case in {each.config: each for each in reversed(milestone.load().CASES)}.items():
        print(f"compiling {case}", flush=True)
        compiled = kernel.compile(config)
        stem = stem_of(case.name)
        key, found = ("", False) if kept is None else (kept.key(config), config in kept.found)
        registers, files = resources(compiled.cubin).registers, [f"{stem}.ptx", f"{stem}.layouts.txt"]
        what = record.Compile(case.name, compiled.compile_s, files, registers, key, found)
        recorder.compiled(what, [compiled.ptx, "\n".join(compiled.layouts) + "\n"])


if __name__ == "__main__":
    sys.exit(main())
