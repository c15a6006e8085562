"""The commands that look into a script's launches: `debug`."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .chip import DEVICES, VARIABLE
from .errors import EmulatorError
from .findings import titled
from .scripts import elsewhere, prepare

if TYPE_CHECKING:
    from .bridge.device import EmulatedDevice

FAILED = 3


def add_commands(commands: Any) -> None:
    """Add the commands to those of the command line."""
    debug = commands.add_parser(
        "debug",
        allow_abbrev=False,
        help="stop, step and look inside a script's launches",
        description="Run SCRIPT on the emulated device under a debugger. Each launch stops before its first "
        "instruction. `help` at the prompt lists the commands. Options come before SCRIPT.",
    )
    debug.add_argument(
        "--command",
        action="append",
        metavar="COMMAND",
        help="execute a command of the prompt instead of asking; repeat it for more. After the last one SCRIPT runs to "
        "its end",
    )
    debug.add_argument(
        "--launch", action="append", type=int, metavar="N", help="debug only the N-th launch, from 1 (default: all)"
    )
    _add_machine(debug)
    debug.set_defaults(do=_debug)


def _add_machine(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the machine, and the script."""
    parser.add_argument(
        "--completion",
        choices=("eager", "lazy", "random"),
        default="lazy",
        help="asynchronous work completes immediately, as late as PTX allows, or at random (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of --completion random (default: %(default)s)")
    parser.add_argument(
        "--device",
        choices=tuple(DEVICES),
        default=os.environ.get(VARIABLE, "b200"),
        help="the emulated chip (default: %(default)s)",
    )
    parser.add_argument("script", type=Path, metavar="SCRIPT")
    parser.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS")


def _debug(options: argparse.Namespace) -> int:
    if (code := elsewhere(options.device)) is not None:
        return code
    if not prepare(options.script, options.args):
        return 2
    from .host.session import emulated_gpu

    which = None if options.launch is None else frozenset(options.launch)
    with emulated_gpu(completion=options.completion, seed=options.seed) as device:
        device.debug(options.command, launches=which)
        return _run_script(options, device)


def _run_script(options: argparse.Namespace, device: EmulatedDevice) -> int:
    """Run the script or CUDA program. Return FAILED after an error of the emulator, which was printed."""
    from .host.executable import is_executable, run_main

    try:
        if is_executable(options.script):
            run_main(options.script, options.args, lambda code: code)
        runpy.run_path(str(options.script), run_name="__main__")
    except EmulatorError as error:
        print(titled(error), file=sys.stderr)
        return FAILED
    return 0
