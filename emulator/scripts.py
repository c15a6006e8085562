"""Scripts of users that the command line runs."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .bridge.patches import ORIGINAL_ENVIRONMENT
from .children.sitecustomize import SESSION
from .chip import DEVICE, DEVICES, VARIABLE

if TYPE_CHECKING:
    from .bridge.result import LaunchResult

NO_OUTPUTS: Final = "under a clock launches compute no outputs: leave comparisons of results out of the script"


def elsewhere(device: str) -> int | None:
    """Run this command line again for another chip and return its exit code; None if this process emulates `device`.

    The chip is chosen when this package is imported.
    """
    if DEVICES[device] is DEVICE:
        return None
    return subprocess.call([sys.executable, *sys.orig_argv[1:]], env=ORIGINAL_ENVIRONMENT | {VARIABLE: device})


def launches_of(script: Path) -> list[LaunchResult]:
    """Run a prepared script on an emulated device and return its launches. Its errors are printed.

    Raises ValueError for a CUDA program, which ends the process.
    """
    from .host.executable import is_executable
    from .host.session import emulated_gpu

    if is_executable(script):
        raise ValueError(f"{script} is a CUDA program; allowed is a Python script. For a program use nvcc's -Xptxas -v")

    with emulated_gpu(diagnostics="report") as device:
        try:
            runpy.run_path(str(script), run_name="__main__")
        except (Exception, SystemExit) as error:
            print(f"{script} ended with {type(error).__name__}: {error}", file=sys.stderr)
    return device.launches


def has_torch() -> bool:
    """Return True if torch is installed, which the emulated host needs."""
    return find_spec("torch") is not None


def prepare(script: Path, args: Sequence[str], needs_host: bool = True) -> bool:
    """Set sys.argv and sys.path for a script. Print an error and return False if it cannot run.

    needs_host: whether the script needs the emulated host.
    """
    if not script.is_file():
        print(f"SCRIPT: there is no file {str(script)!r}", file=sys.stderr)
        return False
    if needs_host and not has_torch():
        print("SCRIPT needs torch, which is not installed: install torch", file=sys.stderr)
        return False
    os.environ.pop(SESSION, None)  # options of a parent's emulated device: this command line overrides them
    sys.argv = [str(script), *args]
    sys.path.insert(0, str(script.resolve().parent))
    return True
