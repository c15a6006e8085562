"""Import all instruction families, which fills the registry."""

import importlib
import pkgutil

from .. import isa

for module in pkgutil.iter_modules(isa.__path__, f"{isa.__name__}."):
    importlib.import_module(module.name)
