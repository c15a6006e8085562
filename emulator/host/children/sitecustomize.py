"""What Python runs first where a process with an emulated device started it: with torch comes a device of its own.

Found through PYTHONPATH, it knows nothing of the rest until then: other programs start as fast as ever. A sitecustomize
that it hides runs behind it.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module, util
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

SESSION: Final = "EMULATOR_SESSION"
"""The variable with the options of the device, and which Python they are for: others may lack what it needs."""


class AfterImport:
    """A finder of modules that leaves one to the others, and calls `then` with it when it was imported."""

    def __init__(self, name: str, then: Callable[[Any], None]) -> None:
        self._name, self._then = name, then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The others' answer for the module, whose loader calls `then`; None for any other."""
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                self._then(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _join(_torch: Any) -> None:
    session = json.loads(os.environ.get(SESSION, "{}"))
    if session.get("prefix") != sys.prefix:
        return
    package = Path(__file__).parents[2]
    sys.path.insert(0, str(package.parent))
    try:
        cli = import_module(f"{package.name}.cli")
    finally:
        sys.path.remove(str(package.parent))
    cli.join(session["options"])


def _run_hidden() -> None:
    here = Path(__file__).parent
    spec = PathFinder.find_spec(__name__, [path for path in sys.path if Path(path) != here])
    if spec is not None and spec.loader is not None:
        sys.modules[__name__] = util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[__name__])


if __name__ == "sitecustomize":
    sys.meta_path.insert(0, AfterImport("torch", _join))
    _run_hidden()
