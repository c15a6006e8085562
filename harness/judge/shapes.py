"""Import of the package `kernel` without its host code: the stages need its shapes, choices and references only.

The names that `kernel/__init__.py` imports are imported when they are first used. A judge uses none that imports
CuTeDSL, so its process starts sooner, and host code that is not used is not run.
"""

from __future__ import annotations

import ast
import importlib
import sys
from types import ModuleType
from typing import Any

from harness.paths import ROOT

PACKAGE = "kernel"


class _OnDemand(ModuleType):
    """The package, whose names are imported when they are used."""

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__["_names"].get(name)
        if module is None:
            raise AttributeError(f"module {PACKAGE!r} has no attribute {name!r}")
        found = importlib.import_module(module)
        return found if module == f"{PACKAGE}.{name}" and not hasattr(found, name) else getattr(found, name)


def import_on_demand() -> None:
    """Put the package into `sys.modules`. Does nothing if it was imported already."""
    if PACKAGE in sys.modules:
        return
    folder = ROOT / PACKAGE
    package = _OnDemand(PACKAGE)
    names: dict[str, str] = {}
    for node in ast.parse((folder / "__init__.py").read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            names |= {alias.name: f"{PACKAGE}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {alias.asname or alias.name: node.module for alias in node.names}
    package.__dict__.update(_names=names, __path__=[str(folder)], __file__=str(folder / "__init__.py"))
    sys.modules[PACKAGE] = package
