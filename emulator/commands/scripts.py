"""Scripts and programs of users, which most commands run: their arguments, their preparation, their run."""

from __future__ import annotations

import argparse
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ..bridge.elf import is_program
from ..bridge.patches import ORIGINAL_ENVIRONMENT
from ..children.sitecustomize import SESSION
from ..chip import DEVICE, DEVICES, NAME, VARIABLE
from ..garbage import imports

NO_OUTPUTS: Final = "under a clock launches compute no outputs: leave comparisons of results out of the script"


SOURCES: Final = frozenset({".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx"})
"""The endings of programs that a compiler must translate first."""


class InvalidInput(Exception):
    """Input that a command rejects. The command line prints the message and exits with status 2."""


def add_completion(parser: argparse.ArgumentParser, seeded: str = "--completion random") -> None:
    """Add the options that order asynchronous work. seeded: everything that depends on the seed."""
    parser.add_argument(
        "--completion",
        choices=("eager", "lazy", "random"),
        default="lazy",
        help="asynchronous work completes immediately, as late as PTX allows, or at random (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, help=f"seed of {seeded} (default: %(default)s)")


def add_script(parser: argparse.ArgumentParser, device: str = "the emulated chip (default: %(default)s)") -> None:
    """Add the option for the chip, the script and its arguments. device: the help of the option."""
    parser.add_argument("--device", choices=tuple(DEVICES), default=NAME, help=device)
    parser.add_argument("script", type=Path, metavar="SCRIPT")
    parser.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS")


def new_file(text: str) -> Path:
    """Return a file that a command will write, for argparse. `write` makes its folder."""
    path = Path(text)
    parent = next(each for each in path.absolute().parents if each.exists())
    if path.is_dir() or not parent.is_dir() or not os.access(path if path.exists() else parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written; give a file in a folder that you may write")
    return path


def write(path: Path, text: str) -> None:
    """Write a file that `new_file` returned, and make its folder if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def run_on_another_chip(device: str) -> int | None:
    """Run this command line again for another chip and return its exit code; None if this process emulates `device`.

    The chip is chosen when this package is imported.
    """
    if DEVICES[device] is DEVICE:
        return None
    return subprocess.call([sys.executable, *sys.orig_argv[1:]], env=ORIGINAL_ENVIRONMENT | {VARIABLE: device})


def prepare(script: Path, args: Sequence[str]) -> None:
    """Set sys.argv and sys.path for a script. Raises InvalidInput if it cannot run."""
    if not script.is_file():
        raise InvalidInput(f"SCRIPT: there is no file {str(script)!r}")
    if script.suffix in SOURCES:
        architecture = DEVICE.target.removeprefix("sm_")
        raise InvalidInput(
            f"SCRIPT: {script} is source text: compile it first, nvcc -gencode arch=compute_{architecture},"
            f"code=compute_{architecture} -o {script.stem} {script}, and run ./{script.stem}"
        )
    # Options of a parent's emulated device, which torch's import would enter: this command line overrides them.
    os.environ.pop(SESSION, None)
    sys.meta_path[:] = [each for each in sys.meta_path if type(each).__module__ != "sitecustomize"]
    with imports():
        from ..host import session  # noqa: F401 - the caller enters it
    sys.argv = [str(script), *args]
    sys.path.insert(0, str(script.resolve().parent))


def run_script(script: Path, arguments: Sequence[str], at_exit: Callable[[int], int]) -> None:
    """Run a prepared Python script or CUDA program.

    A program that can be loaded ends this process with what `at_exit` returns for its exit code.
    """
    if is_program(script):
        from ..host.executable import run_main

        run_main(script, arguments, at_exit)
    runpy.run_path(str(script), run_name="__main__")


def exit_code(raised: BaseException | None) -> int:
    """Exit code with which Python ends after an exception."""
    if isinstance(raised, SystemExit):
        return raised.code if isinstance(raised.code, int) else int(raised.code is not None)
    return int(raised is not None)
