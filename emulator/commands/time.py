"""The command `time`: predict the launches of a script."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

from ..bridge.result import LaunchResult
from ..chip import NAME
from ..clock.chips import names
from ..clock.conditions import USUAL, Branches, Conditions, Data, L2State
from ..emulation import EmulatedDevice, emulate
from ..errors import EmulatorError
from ..findings import report_lines
from ..progress import doing
from .scripts import NO_OUTPUTS, InvalidInput, exit_code, new_file, prepare, run_script, write

FAILED: Final = 3
NOTHING: Final = (
    "nothing was launched on the emulated device before SCRIPT ended; launches of child processes and of functions "
    "that run at exit are not predicted"
)
SCRIPT_FAILED: Final = (
    f"SCRIPT failed with exit code {{}}; launches predicted above: {{}}. If a check of its results failed: {NO_OUTPUTS}"
)


def add_command(commands: Any) -> None:
    """Add this subcommand to the parser."""
    timed = commands.add_parser(
        "time",
        allow_abbrev=False,
        help="predict the time of a Python script's or CUDA program's launches on a chip",
        description="Run SCRIPT, a Python script or a CUDA program, and predict the time of each launch. Launches do "
        "not compute their outputs. Options come before SCRIPT; what follows SCRIPT is passed to it. "
        f"Exit code {FAILED} means that a launch could not be predicted. docs/explanation/clock.md describes the model "
        "and its errors.",
    )
    timed.add_argument(
        "--chip",
        dest="device",
        choices=names(),
        default=NAME,
        help="the chip to emulate and to predict for (default: %(default)s)",
    )
    timed.add_argument(
        "--l2",
        choices=get_args(L2State),
        default=USUAL.l2,
        help="cold: L2 holds nothing that the launch reads; warm: the same launch was made before it; dirty: L2 is "
        "full of other data that goes to HBM first, as after a flush that writes (default: %(default)s)",
    )
    timed.add_argument(
        "--data",
        choices=get_args(Data),
        default=USUAL.data,
        help="the operands of the tensor cores, which decide their power (default: %(default)s)",
    )
    timed.add_argument(
        "--ghz",
        type=float,
        help="a fixed clock rate (default: the rate that power allows; the time at the highest one is predicted too)",
    )
    timed.add_argument(
        "--branches",
        choices=get_args(Branches),
        default=USUAL.branches,
        help="how branches go that comparisons of data decide: as if all of these were false, or as in one cluster "
        "that is executed on the script's data (default: %(default)s)",
    )
    timed.add_argument(
        "--no-ranges",
        dest="ranges",
        action="store_false",
        help="leave out the ranges of the predictions",
    )
    timed.add_argument(
        "--trace",
        type=Path,
        metavar="FOLDER",
        help="write a trace of each launch to FOLDER, for ui.perfetto.dev, and its PTX",
    )
    timed.add_argument("--json", type=new_file, metavar="FILE", help="write the predictions to FILE as JSON")
    timed.add_argument(
        "--compare",
        nargs=2,
        metavar=("BASE", "HEAD"),
        help="predict SCRIPT at two commits of its repository, and print what differs. Each of BASE and HEAD is a "
        "commit or a script; SCRIPT is left out if one of them is a script",
    )
    timed.add_argument("--html", type=new_file, metavar="FILE", help="with --compare: write a page with both timelines")
    timed.add_argument("script", nargs="?", metavar="SCRIPT")
    timed.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS")
    timed.set_defaults(do=partial(_checked, timed))


def _checked(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Predict, or compare, after a check of which options belong together."""
    if options.compare is not None:
        if options.trace is not None:
            parser.error("--trace does not go with --compare: allowed are --json and --html")
        return _compare(options)
    if options.script is None:
        parser.error("the following arguments are required: SCRIPT")
    if options.html is not None:
        parser.error("--html needs --compare BASE HEAD; for a page of one version: run --html FOLDER SCRIPT")
    options.script = Path(options.script)
    return _time(options)


def _compare(options: argparse.Namespace) -> int:
    from .comparison.compare import compare
    from .comparison.page import page
    from .comparison.sides import ComparisonError, NotPredicted
    from .comparison.text import text

    names = ("l2", "data", "ghz", "branches")
    conditions = {"chip": options.device} | {name: getattr(options, name) for name in names}
    rest = [*([options.script] if options.script is not None else []), *options.args]
    _conditions(options)  # raises InvalidInput now
    try:
        with doing("predicting both versions"):
            found = compare(options.compare[0], options.compare[1], rest, conditions)
    except ComparisonError as why:
        print(f"time --compare: {why}", file=sys.stderr)
        return FAILED if isinstance(why, NotPredicted) else 2
    print(*text(found), sep="\n")
    if options.json is not None:
        write(options.json, json.dumps(found.as_json(), indent=2) + "\n")
    if options.html is not None:
        write(options.html, page(found))
        print(f"page: {options.html}")
    return 0


def _conditions(options: argparse.Namespace) -> Conditions:
    """Conditions of the launches. Raises InvalidInput for an invalid one."""
    try:
        return Conditions(options.l2, options.data, options.ghz, options.branches, ranges=options.ranges)
    except ValueError as why:
        raise InvalidInput(f"time: {why}") from why


def _time(options: argparse.Namespace) -> int:
    conditions = _conditions(options)
    prepare(options.script, options.args)
    return _predicted(options, conditions)


def _predicted(options: argparse.Namespace, conditions: Conditions) -> int:
    """Run the script, and print the predictions and the errors of its launches. Return the exit code."""
    from ..host.session import emulated_host

    trace, device = options.trace is not None, None
    try:
        with emulated_host(), emulate(clock=options.device, trace=trace, conditions=conditions) as device:
            end = partial(_end, device, options.trace, options.json)
            try:
                run_script(options.script, options.args, end)
            except EmulatorError as error:
                device.error = device.error or error
            except (Exception, SystemExit) as error:
                code = end(exit_code(error))
                if device.failures or device.error:
                    return code
                raise
            return end(0)
    except EmulatorError as error:
        if device is None or error is not device.error:
            raise
        return FAILED  # `end` has printed it


def _end(device: EmulatedDevice, traces: Path | None, file: Path | None, code: int) -> int:
    """Print the prediction of each launch and the errors of those that have none; return the exit code.

    traces: the folder for traces, file: that of JSON, None for none. code: that of the script, which is returned if
    all launches were predicted.
    """
    sys.stdout.flush()
    predictions = [launch.prediction for launch in device.launches if launch.prediction is not None]
    for number, launch in enumerate(device.launches, 1):
        if launch.prediction is not None:
            print(*launch.prediction.text(), sep="\n")
        if traces is not None:
            _write_trace(traces / f"{number}.json", launch)
    if assumed := dict.fromkeys(text for prediction in predictions for text in prediction.assumptions):
        print("assumed:", *assumed, sep="\n  ")
    if file is not None:
        write(file, json.dumps([prediction.as_json() for prediction in predictions], indent=2) + "\n")
    sys.stdout.flush()
    failed = bool(device.failures or device.error)
    if not device.launches and not failed:
        print(NOTHING, file=sys.stderr)
    if code and predictions and not failed:
        print(SCRIPT_FAILED.format(code, len(predictions)), file=sys.stderr)
    print(*report_lines(device), sep="", end="", file=sys.stderr)
    return FAILED if failed else code


def _write_trace(path: Path, launch: LaunchResult) -> None:
    assert launch.prediction is not None and launch.prediction.trace is not None
    write(path, launch.prediction.trace.json())
    ptx = path.with_suffix(".ptx")
    ptx.write_text(launch.ptx)
    print(f"  trace: {path}, of PTX lines in {ptx}")
