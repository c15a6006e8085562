"""The command `run`: run a script or CUDA program on the emulated device."""

from __future__ import annotations

import argparse
import atexit
import json
import os
import runpy
import shlex
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, get_args

from ..baseline import Baseline
from ..bridge.elf import is_program
from ..bridge.result import worst
from ..chip import NAME, VARIABLE
from ..emulation import EmulatedDevice
from ..errors import EmulatorError
from ..findings import Verdict, report_lines
from ..garbage import imports
from ..machine.order.completion import Completion
from ..options import SHARED, add_options
from . import scripts
from .sarif import as_text

REPORT_EXIT: Final = 3
NEXT: Final = (
    "no fault found. next, if a result is wrong: {}\n"
    "  It explains the tensor that a comparison of torch or numpy rejected, or that torch subtracted. For another one "
    "add --output NAME --expected FILE.npy: the variable that holds it, and the right result, saved by numpy."
)
NEXT_OF_PROGRAM: Final = (
    "no fault found. next, if a result is wrong: {}\n"
    "  FILE: the right result, in a file of numbers of 4 or 8 bytes. If a kernel has several outputs of that size, "
    "add --output 'args[N]': the kernel's parameter, counted from 0."
)
OPTIONS: Final = ("completion", "schedule", "processes", *SHARED)
"""The options that are those of `emulate`."""


def add_command(commands: Any) -> None:
    """Add this subcommand to the parser."""
    command = commands.add_parser(
        "run",
        allow_abbrev=False,
        help="run a Python script or a CUDA program, unmodified, on the emulated device",
        description="Run SCRIPT, a Python script or a program that nvcc linked, with the emulated B200 "
        "as its only GPU. Options come before SCRIPT; what follows SCRIPT is passed to it. "
        f"Exit code {REPORT_EXIT} means that SCRIPT uses an unsupported feature or that a finding has the level given "
        "by --level, even if SCRIPT or a child process caught the error. Formal findings are always listed.",
    )
    command.add_argument(
        "--completion",
        choices=get_args(Completion),
        default="lazy",
        help="asynchronous work completes immediately, as late as PTX allows, or at random; all: run each launch in "
        "every order of its synchronisation events that can have another effect (default: %(default)s)",
    )
    command.add_argument(
        "--schedule", default="", help="the one order to run with --completion all, from the note of an error"
    )
    add_options(command.add_argument, "--")
    command.add_argument(
        "--processes",
        type=_positive,
        metavar="N",
        help="split the clusters of a launch between N processes; the results do not depend on N. A kernel whose "
        "clusters communicate through global memory runs in one process (default: chosen per launch)",
    )
    command.add_argument(
        "--report",
        type=scripts.new_file,
        metavar="FILE",
        help="write the verdict and all findings to FILE: as SARIF if it ends in .sarif, else as JSON",
    )
    command.add_argument(
        "--explain", action="store_true", help="say under each finding why it has its level, and the evidence for that"
    )
    command.add_argument(
        "--html",
        type=_folder,
        metavar="FOLDER",
        help="write a page of each launch to FOLDER: its predicted timeline, what bounds it, its accesses by source "
        "line, its memory over time, its findings. Such a launch takes much longer",
    )
    chip = f"the emulated chip (default: %(default)s). Outside this command the variable {VARIABLE} chooses it"
    scripts.add_script(command, chip)
    command.set_defaults(do=_run)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; give an integer from 1")
    return int(text)


def _folder(text: str) -> Path:
    if text.endswith(".html"):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; give a folder, each launch gets a page in it")
    return Path(text)


def _run(options: argparse.Namespace) -> int:
    scripts.prepare(options.script, options.args)
    from ..host.front_ends import not_run
    from ..host.session import emulated_gpu

    with (
        TemporaryDirectory(prefix="emulator-reports-") as folder,
        emulated_gpu(Path(folder), **{name: getattr(options, name) for name in OPTIONS}) as device,
    ):
        if options.html is not None:
            device.view(options.html)
        end = partial(_end_run, device, Path(folder), options.report, explain=options.explain)
        raised = _run_script(device, options.script, options.args, lambda code: _with_next(end(code), options))
        code = end(scripts.exit_code(raised))
        if isinstance(raised, Exception):
            _print_traceback(raised)
        if not device.launches and (why := not_run()):
            print(why, file=sys.stderr)
        if isinstance(raised, SystemExit) and code != REPORT_EXIT:
            raise raised
        return _with_next(code, options) if device.launches else code


def _run_script(
    device: EmulatedDevice, script: Path, arguments: Sequence[str], end: Callable[[int], int]
) -> BaseException | None:
    """Run a script. Return the exception that ended it, SystemExit or its own error; None for the device's error.

    A CUDA program ends this process, unless it cannot be loaded. `end` maps its exit code to that of the process.
    """
    try:
        scripts.run_script(script, arguments, end)
    except EmulatorError as error:
        device.error = device.error or error
    except (Exception, SystemExit) as error:
        return error if isinstance(error, SystemExit) or device.error is None else None
    return None


def _with_next(code: int, options: argparse.Namespace) -> int:
    """Print what to do next after a script that failed without a finding. Return its exit code."""
    if code not in (0, REPORT_EXIT):
        usual = {"device": (NAME,), "completion": ("lazy", "all"), "seed": (0,)}
        words = [f"--{name}={given}" for name in usual if (given := getattr(options, name)) not in usual[name]]
        program = is_program(options.script)
        words = ["ptx-emulator", "blame", *words, *(("--expected", "FILE") if program else ())]
        command = shlex.join([*words, str(options.script), *options.args])
        print((NEXT_OF_PROGRAM if program else NEXT).format(command), file=sys.stderr)
    return code


def _print_traceback(error: Exception) -> None:
    """Print the traceback of a script's own error, from the script's first frame on."""
    own = (__file__, scripts.__file__, runpy.__file__, "<frozen runpy>")
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in own:
        trace = trace.tb_next
    traceback.print_exception(error.with_traceback(trace))


def attach(options: Mapping[str, Any], reports: str | None) -> None:
    """Give this child process its own emulated GPU until it ends. options: those of `emulate`.

    reports: the folder into which its verdict is written, for the process that started it; None for none.
    """
    with imports():
        from ..host.session import emulated_gpu

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
    if children is not None:
        print(*Baseline(device.baseline).stale(everyone), sep="", end="", file=sys.stderr)
    code = REPORT_EXIT if any(one["errors"] for one in everyone) else code
    if report is not None:
        verdict["verdict"] = worst(one["verdict"] for one in everyone)
        verdict["exit_code"] = code
        scripts.write(report, as_text(verdict, report))
    device.error = None
    return code
