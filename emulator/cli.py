"""The command line of the emulator: `run` a script written for a GPU, `isa` shows what is covered."""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .errors import Level

if TYPE_CHECKING:
    from .bridge.device import EmulatedDevice
    from .bridge.result import LaunchResult
    from .errors import Fault

REPORT_EXIT: Final = 3
GROUPS: Final = {
    Level.FAULT: "",
    Level.FORMAL: "formal: PTX forbids it, and no known hardware shows it",
    Level.PEDANTIC: "pedantic: a habit that PTX asks for",
}


def main(argv: Sequence[str]) -> int:
    """Do what `argv` (without the program's name) asks. Answers the exit code."""
    options = _parser().parse_args(argv)
    code: int = options.do(options)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m emulator", description="A functional emulator of the B200.")
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
            print("\n".join([_told(error), *getattr(error, "__notes__", ())]), file=sys.stderr)
            return REPORT_EXIT
        except SystemExit as ended:
            if ended.code or not _asked_for(device):
                raise
        finally:
            sys.stdout.flush()
            print(*listed(device.launches), sep="", end="", file=sys.stderr)
    return REPORT_EXIT if _asked_for(device) else 0


def _asked_for(device: EmulatedDevice) -> bool:
    """Whether something was found that the level asks for."""
    asked = Level[device.level.upper()]
    return any(fault.level <= asked for launch in device.launches for fault in launch.findings)


def listed(launches: Sequence[LaunchResult]) -> Iterator[str]:
    """What launches went on after, each cause once, by level; then what they did that is no fault but seldom meant."""
    causes: list[tuple[LaunchResult, Fault, int]] = []
    for launch in launches:
        for fault in launch.findings:
            known = next((i for i, (_, first, _) in enumerate(causes) if first.same_cause(fault)), None)
            if known is None:
                causes.append((launch, fault, fault.times))
            else:
                first, told, times = causes[known]
                causes[known] = first, told, times + fault.times
    for level, which in GROUPS.items():
        here = [cause for cause in causes if cause[1].level == level]
        if here and which:
            yield f"{which}\n"
        for launch, fault, times in here:
            yield f"found {_told(fault)}\n"
            yield f"  {times} times\n" if times > 1 else ""
            yield f"  in {launch.test}\n" if launch.test else ""
    yield from dict.fromkeys(counted(launch) for launch in launches)


def counted(launch: LaunchResult) -> str:
    """What a launch did that is no fault but seldom meant, a line; empty if nothing."""
    stats = launch.stats
    if not stats.swizzle_mismatches:
        return ""
    return (
        f"counted {stats.swizzle_mismatches} pieces of shared memory read by another swizzle than their writer's, "
        f"in {launch.kernel}: {stats.first_swizzle_mismatch}\n"
    )


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
