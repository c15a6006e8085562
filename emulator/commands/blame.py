"""The command `blame`: find which instructions and inputs made an element of an output wrong."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..bridge.elf import is_program
from ..findings import titled
from .rejected import Rejected
from .scripts import InvalidInput, add_completion, add_script, prepare, run_script

if TYPE_CHECKING:
    from ..debug.recording import Recording

NOTHING_COMPARED: Final = (
    "no function of torch or numpy rejected a tensor of a launch, and torch subtracted none: give --output NAME with "
    "--expected FILE, --against RIGHT or --element I,J"
)


def add_command(commands: Any) -> None:
    """Add this subcommand to the parser."""
    blame = commands.add_parser(
        "blame",
        allow_abbrev=False,
        help="find what made an element of an output wrong",
        description="Run SCRIPT, record its launches, and print which instructions and inputs made one element of an "
        "output. An error of SCRIPT itself, like a failed comparison, is printed, and the report follows. Without "
        "options it explains the tensor that a comparison of torch or numpy in SCRIPT rejected, or a part of it. "
        "docs/howto/find-a-wrong-value.md shows how to read it. Options come before SCRIPT.",
    )
    blame.add_argument(
        "--output",
        metavar="NAME",
        help="the variable of SCRIPT that holds the output; of a CUDA program the parameter, args[0] for the first "
        "(default: the tensor that was compared, or the only one of its size that a launch wrote)",
    )
    blame.add_argument(
        "--expected",
        type=Path,
        metavar="FILE",
        help="the expected output, saved by numpy as .npy; in another file, numbers of 4 or 8 bytes, in the output's "
        "order (default: what SCRIPT compared the output with)",
    )
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
    prepare(options.script, options.args)
    if options.expected is options.against is options.element is None and is_program(options.script):
        raise InvalidInput("blame of a program needs --expected FILE or --element, to know which element is wrong")
    _check_file("against", options.against)
    if options.expected is not None and options.expected.name.encode() not in options.script.read_bytes():
        _check_file("expected", options.expected)  # if the script names the file, it may be about to write it
    if options.against is not None and (is_program(options.script) or is_program(options.against)):
        raise InvalidInput("--against compares Python scripts: for a program save the right output for --expected")
    right = None if options.against is None else _recorded(options.against, options, lambda recordings: None)
    with Rejected() as rejected:
        _recorded(options.script, options, lambda recordings: _print_report(recordings, options, right, rejected))
    return 0


def _check_file(option: str, file: Path | None) -> None:
    if file is not None and not file.is_file():
        raise InvalidInput(f"--{option}: there is no file {str(file)!r}")


def _print_report(
    recordings: Mapping[int, Recording],
    options: argparse.Namespace,
    right: Mapping[int, Recording] | None,
    rejected: Rejected,
) -> None:
    from ..debug.report import Question, report

    tolerances: dict[str, Any] = {"rtol": options.rtol, "atol": options.atol}
    output, launch = options.output, options.launch
    try:
        expected = None if options.expected is None else _expected(options.expected, recordings, options)
        if expected is options.against is options.element is None:
            found = rejected.output(recordings)
            if found is None:
                raise ValueError(NOTHING_COMPARED)
            tensor, expected = found
            output = output or tensor.name
            tolerances = rejected.tolerances | {name: each for name, each in tolerances.items() if each is not None}
        explains = options.expected is None or options.rtol is not options.atol
        asked = Question(output, expected, options.element, launch=launch, explains=explains, **tolerances)
        for line in report(recordings, asked, right):
            print(line)
    except (ValueError, OSError) as why:
        raise InvalidInput(f"blame: {why}") from why


def _expected(file: Path, recordings: Mapping[int, Recording], options: argparse.Namespace) -> np.ndarray:
    """Read the expected output. A file that numpy did not write has the shape of the output. Raises ValueError."""
    if file.suffix == ".npy":
        loaded: np.ndarray = np.load(file)
        return loaded
    from ..debug.blame import find

    sized = {file.stat().st_size // width: kind for width, kind in ((8, np.float64), (4, np.float32))}
    for size, kind in sized.items():
        with suppress(ValueError):
            tensor = find(recordings, options.output, options.launch, size)[1]
            if math.prod(tensor.shape) == size:
                return np.fromfile(file, kind).reshape(tensor.shape)
    raise ValueError(f"{file}: no launch wrote an output of as many numbers of 4 or 8 bytes")


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
