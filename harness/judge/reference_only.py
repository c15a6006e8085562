"""The kernel package of a process that judges: the protected references, and no other code of the kernel's.

A candidate may change all other files of kernel/. Code that does no harm in the run that accepts it would run in the
processes that judge every later candidate.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from harness.host.protected import PROTECTION
from harness.paths import ROOT

if TYPE_CHECKING:
    import torch

PACKAGE = "kernel"


@dataclass(frozen=True)
class Attention:
    """The results of a call, with the fields of `kernel.Attention`."""

    o: torch.Tensor
    lse: torch.Tensor
    u: torch.Tensor | None = None
    m: torch.Tensor | None = None


def install() -> None:
    """Install this package as `kernel`, before anything imports the real one."""
    package = ModuleType(PACKAGE)
    package.__path__ = []
    vars(package).update(Attention=Attention)
    sys.modules[PACKAGE] = package
    sys.meta_path.insert(0, _References())


class _References(MetaPathFinder):
    """Finds the protected modules of the kernel. Raises ImportError for its others."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith(f"{PACKAGE}."):
            return None
        files = {file.removesuffix(".py").replace("/", "."): file for file in PROTECTION.protected}
        if name not in files:
            raise ImportError(f"a process that judges imports {', '.join(files)} of the kernel, not {name}")
        return spec_from_loader(name, _Source(ROOT / files[name]))


class _Source(SourceLoader):
    """Loads a module from this file. Bytecode, and packages or extensions of the same name, would come first."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def get_filename(self, name: str) -> str:
        return str(self._file)

    def get_data(self, path: str) -> bytes:
        return Path(path).read_bytes()
