"""The command `blame`: find which instructions and inputs made an element of an output wrong."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..findings import titled
from .scripts import InvalidInput, add_completion, add_script, prepare

if TYPE_CHECKING:
    from ..debug.recording import Recording


def add_command(commands: Any) -> None:
    """Add the command to those of the command line."""
    blame = commands.add_parser(
        "blame",
        allow_abbrev=False,
        help="find what made an element of an output wrong",
        description="Run SCRIPT, record its launches, and print which instructions and inputs made one element of an "
        "output. An error of SCRIPT itself, like a failed comparison, is printed, and the report follows. "
        "docs/howto/find-a-wrong-value.md shows how to read it. Options come before SCRIPT.",
    )
    blame.add_argument("--output", required=True, metavar="NAME", help="the variable of SCRIPT that holds the output")
    blame.add_argument("--expected", type=Path, metavar="FILE.npy", help="the expected output, saved by numpy")
    blame.add_argument("--against", type=Path, metavar="RIGHT", help="a script with a right version of the kernel")
    blame.add_argument(
        "--element",
        type=_index,
        metavar="I,J,...",
        help="the element to explain (default: the one with the largest error)",
    )
    blame.add_argument(
        "--rtol", type=float, help="relative difference that is not wrong (default: 8 units of the type)"
    )
    blame.add_argument(
        "--atol", type=float, help="absolute difference that is not wrong (default: by the output's size)"
    )
    blame.add_argument("--launch", type=int, metavar="N", help="record only the N-th launch, from 1")
    add_completion(blame)
    add_script(blame)
    blame.set_defaults(do=_blame)


def _index(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; give an index like 3,17")
    return tuple(int(part) for part in parts)


def _blame(options: argparse.Namespace) -> int:
    if options.expected is None and options.against is None and options.element is None:
        raise InvalidInput("blame needs --expected, --against or --element, to know which element is wrong")
    prepare(options.script, options.args)
    from ..debug.report import Question, report

    wrong = _recorded(options.script, options)
    right = None if options.against is None else _recorded(options.against, options)
    try:
        expected = None if options.expected is None else np.load(options.expected)
        asked = Question(options.output, expected, options.element, options.rtol, options.atol, options.launch)
        for line in report(wrong, asked, right):
            print(line)
    except (ValueError, OSError) as why:
        raise InvalidInput(f"blame: {why}") from why
    return 0


def _recorded(script: Path, options: argparse.Namespace) -> dict[int, Recording]:
    """Run a script and return the recordings of its launches. Its errors are printed."""
    from ..host.session import emulated_gpu

    with emulated_gpu(completion=options.completion, seed=options.seed) as device:
        recorder = device.record(None if options.launch is None else {options.launch})
        try:
            runpy.run_path(str(script), run_name="__main__")
        except (Exception, SystemExit) as error:
            if not isinstance(error, SystemExit) or error.code:
                print(f"{script} ended with {titled(error)}", file=sys.stderr)
        sys.stdout.flush()
    return recorder.recordings
