"""Handlers of the skeleton's operations in modelled time, by the part of the machine that performs them."""

import importlib
import pkgutil

from .registry import (
    ACCESS,
    AWAIT_LOAD,
    OUTCOME,
    PASS,
    SEGMENT,
    SPIN,
    find,
    is_global_store,
    operation,
    waits_at_first_use,
)

__all__ = [
    "ACCESS",
    "AWAIT_LOAD",
    "OUTCOME",
    "PASS",
    "SEGMENT",
    "SPIN",
    "find",
    "is_global_store",
    "operation",
    "waits_at_first_use",
]

for module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(module.name)
