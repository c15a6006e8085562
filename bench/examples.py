"""CUTLASS's examples, run as they are."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from unittest import mock

FOLDER: Final = "examples/python/CuTeDSL"


def run_example(cutlass: Path, script: str, given: Sequence[str]) -> None:
    """Run a script of a checkout of NVIDIA/cutlass, below its folder of examples, with these arguments."""
    examples = cutlass / FOLDER
    path = examples / script
    roots = [str(path.parent), str(examples)]
    argv = mock.patch.object(sys, "argv", [str(path), *given])
    with argv, mock.patch.object(sys, "path", roots + sys.path):
        runpy.run_path(str(path), run_name="__main__")
