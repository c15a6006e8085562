"""The compile phase alone, on a machine without a GPU: `python -m harness.judge.compile D1.4 --out FOLDER`."""

from __future__ import annotations

import argparse
import sys
import traceback
from pathlib import Path

from harness.host.verdict import Verdict
from harness.judge import arguments
from harness.judge.provenance import toolchain, working_tree
from harness.judge.recorder import Recorder
from harness.judge.run import COLOURS, compile_cases
from harness.report.record import Record, now
from stages.catalog import Milestone


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


if __name__ == "__main__":
    sys.exit(main())
