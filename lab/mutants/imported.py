"""Import the kernel with one file changed, in a process that has not imported it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import linecache
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType

from harness.paths import ROOT


class MutatedFile(importlib.abc.MetaPathFinder):
    """An import hook that gives one module another text; `inspect` and CuTeDSL read that text too."""

    def __init__(self, path: str, source: str) -> None:
        self._name = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        self._file, self._source = str(ROOT / path), source

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        lines = self._source.splitlines(keepends=True)
        linecache.cache[self._file] = (len(self._source), None, lines, self._file)
        loader = _Loader(name, self._file, self._source)
        return importlib.machinery.ModuleSpec(name, loader, origin=self._file)


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec", dont_inherit=True)

    def get_source(self, fullname: str) -> str:
        return self._source

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = self.path
        super().exec_module(module)


def install(path: str, source: str) -> None:
    """Have the next import of `path` take `source`. Raises RuntimeError where the kernel is imported already."""
    if any(name == "kernel" or name.startswith(("kernel.", "stages.")) for name in sys.modules):
        raise RuntimeError("the kernel or the stages are imported already: import a mutant in a process of its own")
    sys.meta_path.insert(0, MutatedFile(path, source))
