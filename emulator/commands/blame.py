"""The command `blame`: find which instructions and inputs made an element of an output wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..findings import titled
from .scripts import InvalidInput, add_completion, add_script, is_program, prepare, run_script

if TYPE_CHECKING:
    from ..debug.recording import Recording


def add_command(commands: Any) -> None:
    """Add this subcommand to the parser."""
    blame = commands.add_parser(
        "blame",
        allow_abbrev=False,
        help="find what made an element of an output wrong",
        description="Run SCRIPT, record its launches, and print which instructions and inputs made one element of an "
        "output. An error of SCRIPT itself, like a failed comparison, is printed, and the report follows. "
        "docs/howto/find-a-wrong-value.md shows how to read it. Options come before SCRIPT.",
    )
    blame.add_argument(
        "--output",
        required=True,
        metavar="NAME",
        help="the variable of SCRIPT that holds the output; of a CUDA program the parameter, args[0] for the first",
    )
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
    _check_file("against", options.against)
    if options.expected is not None and options.expected.name.encode() not in options.script.read_bytes():
        _check_file("expected", options.expected)  # if the script names the file, it may be about to write it
    if options.against is not None and (is_program(options.script) or is_program(options.against)):
        raise InvalidInput("--against compares Python scripts: for a program save the right output for --expected")
    right = None if options.against is None else _recorded(options.against, options, lambda recordings: None)
    _recorded(options.script, options, lambda recordings: _print_report(recordings, options, right))
    return 0


def _check_file(option: str, file: Path | None) -> None:
    if file is not None and not file.is_file():
        raise InvalidInput(f"--{option}: there is no file {str(file)!r}")


def _print_report(
    recordings: Mapping[int, Recording], options: argparse.Namespace, right: Mapping[int, Recording] | None
) -> None:
    from ..debug.report import Question, report

    try:
        expected = None if options.expected is None else np.load(options.expected)
        asked = Question(options.output, expected, options.element, options.rtol, options.atol, options.launch)
        for line in report(recordings, asked, right):
            print(line)
    except (ValueError, OSError) as why:
        raise InvalidInput(f"blame: {why}") from why


def _recorded(
    script: Path, options: argparse.Namespace, use: Callable[[Mapping[int, Recording]], None]
) -> Mapping[int, Recording]:
    """Run a script or program, record its launches, and use the recordings before its end. Its errors are printed."""
    from ..host.session import emulated_gpu

    with emulated_gpu(completion=options.completion, seed=options.seed) as device:
        recorder = device.record(None if options.launch is None else {options.launch})

        def end(_code: int) -> int:  # of a program, whose exit ends this process
            try:
                use(recorder.recordings)
            except InvalidInput as why:
                print(why, file=sys.stderr)
                return 2
            finally:
                sys.stdout.flush()
            return 0

        try:
            run_script(script, options.args, end)
        except (Exception, SystemExit) as error:
            if not isinstance(error, SystemExit) or error.code:
                print(f"{script} ended with {titled(error)}", file=sys.stderr)
        sys.stdout.flush()
        use(recorder.recordings)
    return recorder.recordings
