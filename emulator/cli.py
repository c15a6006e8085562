"""The emulator's command line: `run` a GPU script, predict its `time`, print the `isa` coverage."""

from __future__ import annotations

import argparse
import atexit
import json
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, get_args

from . import annotate_cli, mcp_cli, replay_cli, resources_cli, time_cli
from .bridge.device import EmulatedDevice
from .bridge.result import worst
from .chip import DEVICES, NAME, VARIABLE
from .debug_cli import add_commands
from .findings import Verdict, report_lines
from .machine.order.completion import Completion
from .sarif import as_text
from .scripts import elsewhere, prepare

REPORT_EXIT: Final = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code. argv: without the program's name; None: the process's own."""
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
        description="Run SCRIPT, a Python script or a program linked by `nvcc -cudart shared`, with the emulated B200 "
        "as its only GPU. Options come before SCRIPT; what follows SCRIPT is passed to it. "
        f"Exit code {REPORT_EXIT} means that SCRIPT uses an unsupported feature or that a finding has the level given "
        "by --level, even if SCRIPT or a child process caught the error. Formal findings are always listed.",
    )
    run.add_argument(
        "--completion",
        choices=get_args(Completion),
        default="lazy",
        help="asynchronous work completes immediately, as late as PTX allows, or at random; all: run each launch in "
        "every order of its synchronisation events that can have another effect (default: %(default)s)",
    )
    run.add_argument("--schedule", default="", help="the one order to run with --completion all, as an error notes it")
    run.add_argument("--seed", type=int, default=0, help="seed of --completion random (default: %(default)s)")
    run.add_argument(
        "--level",
        choices=("fault", "formal", "pedantic"),
        default="fault",
        help="which findings are errors. fault: some legal timing breaks the program; formal: also violations of PTX "
        "that no known hardware shows; pedantic: also recommended habits, such as tcgen05.fence (default: %(default)s)",
    )
    run.add_argument(
        "--numerics",
        choices=("fp32", "tc"),
        default="fp32",
        help="tcgen05.mma accumulates in float32 or rounds as the tensor core does (default: %(default)s)",
    )
    run.add_argument(
        "--diagnostics",
        choices=("stop", "report"),
        default="stop",
        help="stop at the first error, or continue after a missing wait or fence and list the errors at the end "
        "(default: %(default)s)",
    )
    run.add_argument(
        "--device",
        choices=tuple(DEVICES),
        default=NAME,
        help=f"the emulated chip (default: %(default)s). Outside this command the variable {VARIABLE} chooses it",
    )
    run.add_argument("--budget", type=int, metavar="N", help="stop a launch when a warp has executed N instructions")
    run.add_argument(
        "--processes",
        type=_positive,
        metavar="N",
        help="split the clusters of a launch between N processes; the results do not depend on N. A kernel whose "
        "clusters communicate through global memory runs in one process (default: chosen per launch)",
    )
    run.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write the verdict and all findings to FILE: as SARIF if it ends in .sarif, else as JSON",
    )
    run.add_argument(
        "--explain", action="store_true", help="say under each finding why it has its level, and the evidence for that"
    )
    run.add_argument(
        "--html",
        type=_folder,
        metavar="FOLDER",
        help="write a page of each launch to FOLDER: its predicted timeline, what bounds it, its accesses by source "
        "line, its memory over time, its findings. Such a launch takes some 50 times as long",
    )
    run.add_argument("script", type=Path, metavar="SCRIPT")
    run.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS")
    run.set_defaults(do=_run)

    time_cli.add_command(commands)
    add_commands(commands)

    replay_cli.add_command(commands)
    resources_cli.add_command(commands)
    annotate_cli.add_command(commands)
    mcp_cli.add_command(commands)

    isa = commands.add_parser(
        "isa",
        help="print the instruction coverage as Markdown",
        description="Check every listed instruction form for support and print the results as a table.",
    )
    isa.set_defaults(do=_isa)
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; give an integer from 1")
    return int(text)


def _folder(text: str) -> Path:
    if text.endswith(".html"):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; give a folder, each launch gets a page in it")
    return Path(text)


def _isa(_options: argparse.Namespace) -> int:
    from .coverage import families, markdown, read_forms

    print(markdown(families(read_forms())), end="")
    return 0


def _run(options: argparse.Namespace) -> int:
    script: Path = options.script
    if (code := elsewhere(options.device)) is not None:
        return code
    if not prepare(script, options.args):
        return 2
    from .host.session import emulated_gpu

    names = ("completion", "schedule", "seed", "budget", "level", "numerics", "diagnostics", "processes")
    with (
        TemporaryDirectory(prefix="emulator-reports-") as folder,
        emulated_gpu(Path(folder), **{name: getattr(options, name) for name in names}) as device,
    ):
        if options.html is not None:
            device.view(options.html)
        end = partial(_end_run, device, Path(folder), options.report, explain=options.explain)
        raised = _run_script(device, script, options.args, end)
        code = end(_exit_code(raised))
        if raised is None or code == REPORT_EXIT:
            if isinstance(raised, Exception):
                _print_traceback(raised)
            return code
        raise raised


def _run_script(
    device: EmulatedDevice, script: Path, arguments: Sequence[str], end: Callable[[int], int]
) -> BaseException | None:
    """Run a Python script and return what ended it: SystemExit or its own error. None if the device's error did.

    A linked program ends this process with what `end` makes of its exit code, unless it cannot be loaded.
    """
    from . import EmulatorError
    from .host.executable import is_executable, run_main

    try:
        if is_executable(script):
            run_main(script, arguments, end)
        runpy.run_path(str(script), run_name="__main__")
    except EmulatorError as error:
        device.error = device.error or error
    except (Exception, SystemExit) as error:
        return error if isinstance(error, SystemExit) or device.error is None else None
    return None


def _exit_code(raised: BaseException | None) -> int:
    """Return the exit code with which Python ends after an exception."""
    if isinstance(raised, SystemExit):
        return raised.code if isinstance(raised.code, int) else int(raised.code is not None)
    return int(raised is not None)


def _print_traceback(error: Exception) -> None:
    """Print the traceback of a script's own error, from the script's first frame on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
        trace = trace.tb_next
    traceback.print_exception(error.with_traceback(trace))


def attach(options: Mapping[str, Any], reports: str | None) -> None:
    """Give this child process its own emulated GPU until it ends. options: those of `emulate`.

    reports: the folder into which its verdict is written, for the process that started it; None for none.
    """
    from .host.session import emulated_gpu

    folder = None if reports is None else Path(reports)
    report = None if folder is None else folder / f"{os.getpid()}.json"
    stack = ExitStack()
    device = stack.enter_context(emulated_gpu(folder, **options))
    atexit.register(stack.close)
    atexit.register(_end_run, device, None, report, 0)  # runs before stack.close


def _end_run(
    device: EmulatedDevice, children: Path | None, report: Path | None, code: int, explain: bool = False
) -> int:
    """Print the findings, write the verdict to `report` if given, and return the exit code.

    children: the folder with the verdicts of child processes. code: the exit code if nothing was found. explain: print
    why each finding has its level.
    """
    sys.stdout.flush()
    print(*report_lines(device, explain), sep="", end="", file=sys.stderr)
    for path in () if device.pages is None else device.pages.written:
        print(f"page: {path}", file=sys.stderr)
    verdict = Verdict.of(device).as_json()
    verdict["children"] = [json.loads(path.read_text()) for path in sorted(children.glob("*.json"))] if children else []
    everyone = [verdict, *verdict["children"]]
    code = REPORT_EXIT if any(one["errors"] for one in everyone) else code
    if report is not None:
        verdict["verdict"] = worst(one["verdict"] for one in everyone)
        verdict["exit_code"] = code
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(as_text(verdict, report))
    device.error = None
    return code
