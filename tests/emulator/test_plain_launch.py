"""A launch without tools imports none of them, also under the emulated host. Imported objects are not collected."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Final

from ptx_launch import kernel

from emulator.garbage import imports

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


class Module:
    """An object in a cycle, as modules and their functions are."""

    def __init__(self) -> None:
        self.itself = self


def test_imported_objects_are_not_collected() -> None:
    with imports():
        assert not gc.isenabled()
        kept = weakref.ref(Module())
    assert gc.isenabled()
    later = weakref.ref(Module())
    gc.collect()
    assert kept() is not None and later() is None
