"""Startup code of child processes: give a child its own emulated device when it imports torch.

Python finds this module through PYTHONPATH. It imports nothing of the emulator before torch is imported, so other
programs start as fast as without it. If it hides another sitecustomize, it runs that one afterwards.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from importlib import import_module, util
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any, Final

SESSION: Final = "EMULATOR_SESSION"
"""Environment variable with the device's options and the Python prefix they apply to. Other Pythons ignore it."""


class AfterImport:
    """An import hook that calls `then` with a module after it was imported."""

    def __init__(self, name: str, then: Callable[[Any], None]) -> None:
        self._name, self._then = name, then
        self._asks_others = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the module's spec from the other finders, with a loader that calls `then`; None for other modules.

        The hook stays until the module is imported, since programs also ask for a spec to see if a module is installed.
        """
        if name != self._name or self._asks_others:
            return None
        self._asks_others = True
        try:
            spec = util.find_spec(name)
        finally:
            self._asks_others = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                collecting = gc.isenabled()
                gc.disable()  # collections that traverse torch's objects, here and at the end, take half a second
                try:
                    execute(module)
                    self._then(module)
                finally:
                    gc.freeze()
                    if collecting:
                        gc.enable()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _attach(_torch: Any) -> None:
    session = json.loads(os.environ.get(SESSION, "{}"))
    if session.get("prefix") != sys.prefix:
        return
    package = Path(__file__).parents[1]
    sys.path.insert(0, str(package.parent))
    try:
        run = import_module(f"{package.name}.commands.run")
    finally:
        sys.path.remove(str(package.parent))
    run.attach(session["options"], session["reports"])


def _run_hidden() -> None:
    here = Path(__file__).parent
    spec = PathFinder.find_spec(__name__, [path for path in sys.path if Path(path) != here])
    if spec is not None and spec.loader is not None:
        sys.modules[__name__] = util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[__name__])


if __name__ == "sitecustomize":
    sys.meta_path.insert(0, AfterImport("torch", _attach))
    _run_hidden()
