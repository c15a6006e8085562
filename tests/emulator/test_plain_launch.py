"""A launch without tools imports none of them, also under the emulated host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from ptx_launch import kernel

ROOT: Final = Path(__file__).parents[2]
PARTS: Final = {
    *("chip", "errors", "leniency", "garbage", "html", "patching", "children", "progress"),
    *("ptx", "native", "machine", "isa", "engine", "lowering", "program", "modules", "tensors"),
    *("bridge", "emulation", "launching", "findings", "baseline", "host"),
}
"""The modules and packages of the emulator that a launch may import."""
SCRIPT: Final = """
import sys
from emulator import launch
from emulator.host.session import emulated_gpu

with emulated_gpu() as device:
    launch({ptx!r})
assert device.launches[0].instructions
print(*{{name.split(".")[1] for name in sys.modules if name.startswith("emulator.")}})
"""


def test_a_launch_without_tools_imports_none() -> None:
    command = [sys.executable, "-c", SCRIPT.format(ptx=kernel("k", "", "ret;"))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == PARTS
