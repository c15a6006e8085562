"""The command line of the emulator: `run` a script written for a GPU, `isa` shows what is covered."""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from .findings import asked_for, listed, told

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
        help="run a CuTeDSL script, unmodified, on the emulated device",
        description="Run SCRIPT as __main__ with the emulated B200 as its only GPU. Options stand before "
        "SCRIPT; what follows it is the script's own. "
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
    run.add_argument("--budget", type=int, metavar="N", help="end a launch when a warp has executed N instructions")
    run.add_argument(
        "--processes",
        type=_positive,
        default=1,
        metavar="N",
        help="share the CTAs (clusters) of a launch between N processes, with the results of one; a kernel whose "
        "clusters meet in global memory stays in one (default: %(default)s)",
    )
    run.add_argument("script", type=Path, metavar="SCRIPT")
    run.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS")
    run.set_defaults(do=_run)

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


def _run(options: argparse.Namespace) -> int:
    script: Path = options.script
    if not script.is_file():
        print(f"SCRIPT: no file {str(script)!r}", file=sys.stderr)
        return 2
    if find_spec("torch") is None:
        print("SCRIPT runs with torch's device as its GPU: install torch", file=sys.stderr)
        return 2
    sys.argv = [str(script), *options.args]
    sys.path.insert(0, str(script.resolve().parent))
    from . import EmulatorError, emulate
    from .host.session import emulated_host

    launcher = emulate(
        options.completion,
        options.seed,
        budget=options.budget,
        level=options.level,
        numerics=options.numerics,
        diagnostics=options.diagnostics,
        processes=options.processes,
    )
    with emulated_host(), launcher as device:
        try:
            runpy.run_path(str(script), run_name="__main__")
        except EmulatorError as error:
            sys.stdout.flush()
            print("\n".join([told(error), *getattr(error, "__notes__", ())]), file=sys.stderr)
            return REPORT_EXIT
        except SystemExit as ended:
            if ended.code or not asked_for(device):
                raise
        finally:
            sys.stdout.flush()
            print(*listed(device.launches), sep="", end="", file=sys.stderr)
    return REPORT_EXIT if asked_for(device) else 0
