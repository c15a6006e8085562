"""The command `debug`: run a script under the debugger."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ..errors import EmulatorError
from ..findings import titled
from .scripts import add_completion, add_script, prepare, run_script

FAILED = 3


def add_command(commands: Any) -> None:
    """Add this subcommand to the parser."""
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
    add_completion(debug)
    add_script(debug)
    debug.set_defaults(do=_debug)


def _debug(options: argparse.Namespace) -> int:
    """Run the script under the debugger. Return FAILED after an error of the emulator, which was printed."""
    prepare(options.script, options.args)
    from ..host.session import emulated_gpu

    which = None if options.launch is None else frozenset(options.launch)
    with emulated_gpu(completion=options.completion, seed=options.seed) as device:
        device.debug(options.command, launches=which)
        try:
            run_script(options.script, options.args, lambda code: code)
        except EmulatorError as error:
            print(titled(error), file=sys.stderr)
            return FAILED
    return 0
