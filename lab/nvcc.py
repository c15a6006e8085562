"""CUDA C++ programs: the compiler, and predictions of their launches by the emulator's clock."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

MISSING: Final = "there is no nvcc in CUDA_HOME or PATH: install PyPI's nvidia-cuda-nvcc, -crt, -cccl and -runtime"


def compiler() -> Path | None:
    """Return the path of nvcc, None if there is none."""
    home = os.environ.get("CUDA_HOME")
    found = shutil.which("nvcc", path=f"{home}/bin" if home else None)
    return None if found is None else Path(found).resolve()


def predicted(program: Path, chip: str, *arguments: str, options: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Return the prediction of each launch of a program, as parsed JSON. Raises CalledProcessError.

    options: of `time`.
    """
    found = program.with_suffix(".json")
    time = (sys.executable, "-m", "emulator", "time", "--chip", chip, *options, "--json")
    subprocess.run([*time, found, program, *arguments], check=True, stdout=subprocess.DEVNULL)
    predictions: list[dict[str, Any]] = json.loads(found.read_text())
    return predictions
