"""The command line of the emulator: `run` a script written for a GPU, `isa` shows what is covered."""

from __future__ import annotations

import argparse
import atexit
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .bridge.device import EmulatedDevice
from .bridge.patches import GIVEN
from .chip import DEVICE, DEVICES, VARIABLE
from .findings import asked_for, listed, told
from .host.children.sitecustomize import SESSION

if TYPE_CHECKING:
    from .bridge.result import LaunchResult

REPORT_EXIT: Final = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Do what `argv` (without the program's name, None for the process's own) asks. Answers the exit code."""
    options = _parser().parse_args(argv)
    code: int = options.do(options)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description="A functional emulator of the B200.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser(
        "run",
        allow_abbrev=False,
        help="run a Python script or a CUDA program, unmodified, on the emulated device",
        description="Run SCRIPT as __main__ with the emulated B200 as its only GPU, or a program that `nvcc -cudart "
        "shared` linked. Options stand before SCRIPT; what follows it is the script's own. "
        f"Exit code {REPORT_EXIT}: the emulator refused something, or found something of the level that is asked for; "
        "what is formal and was not asked for is listed only.",
    )
    run.add_argument(
        "--completion",
        choices=("eager", "lazy", "random"),
        default="lazy",
        help="asynchronous work completes at once, as late as PTX allows, or at random (default: %(default)s)",
    )
    run.add_argument("--seed", type=int, default=0, help="of --completion random (default: %(default)s)")
    run.add_argument(
        "--level",
        choices=("fault", "formal", "pedantic"),
        default="fault",
        help="what is asked of a program: that no legal timing breaks it, that it keeps to what PTX allows, or habits "
        "too (tcgen05.fence); what is formal is listed at the end in any case (default: %(default)s)",
    )
    run.add_argument(
        "--numerics",
        choices=("fp32", "tc"),
        default="fp32",
        help="tcgen05.mma adds in float32, or rounds as the tensor core does (default: %(default)s)",
    )
    run.add_argument(
        "--diagnostics",
        choices=("stop", "report"),
        default="stop",
        help="end at the first thing found wrong, or go on after a missing wait or fence and list what was found "
        "at the end (default: %(default)s)",
    )
    run.add_argument(
        "--device",
        choices=tuple(DEVICES),
        default=os.environ.get(VARIABLE, "b200"),
        help=f"the chip that is emulated, as {VARIABLE} says it to programs of your own (default: %(default)s)",
    )
    run.add_argument("--budget", type=int, metavar="N", help="end a launch when a warp has executed N instructions")
    run.add_argument(
        "--processes",
        type=_positive,
        metavar="N",
        help="share the CTAs (clusters) of a launch between N processes, with the results of one; a kernel whose "
        "clusters meet in global memory stays in one (default: as many as pay)",
    )
    run.add_argument("script", type=Path, metavar="SCRIPT")
    run.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS")
    run.set_defaults(do=_run)

    timed = commands.add_parser(
        "time",
        allow_abbrev=False,
        help="predict what the launches of a Python script or a CUDA program would take on a chip",
        description="Run SCRIPT as __main__, or a program as `run` does, under the clock of a chip: each launch is "
        "predicted, and none computes its outputs. Options stand before SCRIPT; what follows it is the script's own. "
        "docs/clock.md says what is modelled and how wrong it is.",
    )
    timed.add_argument("--chip", default="b200", help="whose time (default: %(default)s)")
    timed.add_argument("--trace", type=Path, metavar="FOLDER", help="write a trace of each launch, for ui.perfetto.dev")
    timed.add_argument("script", type=Path, metavar="SCRIPT")
    timed.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS")
    timed.set_defaults(do=_time)

    isa = commands.add_parser(
        "isa",
        help="print the instruction coverage as Markdown",
        description="Ask the emulator about every instruction form that it lists and print a table of the answers.",
    )
    isa.set_defaults(do=_isa)
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: a number from 1")
    return int(text)


def _isa(_options: argparse.Namespace) -> int:
    from .coverage import families, markdown, read_forms

    print(markdown(families(read_forms())), end="")
    return 0


def _enter(script: Path, args: Sequence[str]) -> bool:
    """Make a script's arguments and folder this process's; whether there is such a script."""
    if not script.is_file():
        print(f"SCRIPT: no file {str(script)!r}", file=sys.stderr)
        return False
    if find_spec("torch") is None:
        print("SCRIPT runs with torch's device as its GPU: install torch", file=sys.stderr)
        return False
    os.environ.pop(SESSION, None)  # of the process that started this one: what is asked for here counts
    sys.argv = [str(script), *args]
    sys.path.insert(0, str(script.resolve().parent))
    return True


def _time(options: argparse.Namespace) -> int:
    if not _enter(options.script, options.args):
        return 2
    from . import emulate
    from .clock.chips import chip
    from .host.executable import is_executable, run_main
    from .host.session import emulated_host

    try:
        chip(options.chip)
    except ValueError as why:
        print(f"--chip: {why}", file=sys.stderr)
        return 2
    with emulated_host(), emulate(clock=options.chip, trace=options.trace is not None) as device:
        if is_executable(options.script):
            run_main(options.script, options.args, partial(_predicted, device, options.trace))
        try:
            runpy.run_path(str(options.script), run_name="__main__")
        finally:
            _predicted(device, options.trace, 0)
    return 0


def _predicted(device: EmulatedDevice, traces: Path | None, code: int) -> int:
    """Print what is predicted of each launch, and write its trace into a folder; answers the exit code, which stays."""
    sys.stdout.flush()
    for number, launch in enumerate(device.launches, 1):
        print(launch.prediction)
        if traces is not None:
            _write_trace(traces / f"{number}.json", launch)
    return code


def _write_trace(path: Path, launch: LaunchResult) -> None:
    assert launch.prediction is not None and launch.prediction.trace is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(launch.prediction.trace.json())
    print(f"  trace: {path}")


def _run(options: argparse.Namespace) -> int:
    script: Path = options.script
    if DEVICES[options.device] is not DEVICE:  # which is chosen when this package is imported
        return subprocess.call([sys.executable, *sys.orig_argv[1:]], env=GIVEN | {VARIABLE: options.device})
    if not _enter(script, options.args):
        return 2
    from . import EmulatorError
    from .host.executable import is_executable, run_main
    from .host.session import emulated_gpu

    names = ("completion", "seed", "budget", "level", "numerics", "diagnostics", "processes")
    with emulated_gpu(**{name: getattr(options, name) for name in names}) as device:
        try:
            if is_executable(script):
                run_main(script, options.args, lambda code: _ended(device) or code)
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as ended:
            code = _ended(device)
            if ended.code or not code:
                raise
            return code
        except Exception as error:
            if not isinstance(error, EmulatorError) and device.error is None:
                _ended(device)
                raise
            device.error = error if isinstance(error, EmulatorError) else device.error
        return _ended(device)


def join(options: Mapping[str, Any]) -> None:
    """Give this process, which one with an emulated GPU started, one of its own, to its end. options: of `emulate`."""
    from .host.session import emulated_gpu

    stack = ExitStack()
    device = stack.enter_context(emulated_gpu(**options))
    atexit.register(stack.close)
    atexit.register(_ended, device)  # which comes first


def _ended(device: EmulatedDevice) -> int:
    """Say what was found, a report that the program saw only as CUDA's error first. Answers the exit code for it."""
    sys.stdout.flush()
    error = device.error
    if error is not None:
        print("\n".join([told(error), *getattr(error, "__notes__", ())]), file=sys.stderr)
    print(*listed(device.launches), sep="", end="", file=sys.stderr)
    return REPORT_EXIT if error is not None or asked_for(device) else 0
