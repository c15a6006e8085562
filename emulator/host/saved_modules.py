"""Save and load object files of functions compiled with --enable-tvm-ffi, with their kernels' PTX appended.

The object code itself contains machine code for the B200, which cannot be emulated.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from ..bridge.ffi import PROVIDER, call, function_in, linked
from ..modules import LoadedModule, load
from ..patching import Patches
from .errors import not_emulated

_MAGIC: Final = b"PTX of this code"
_END: Final = struct.Struct(f"<Q{len(_MAGIC)}s")
"""The end of a file: the size of the PTX before it and a magic string. Linkers ignore what follows an ELF file."""
_NO_OBJECTS: Final = (".ll", ".bc")


def install(patches: Patches) -> None:
    """Patch CuTeDSL's functions that write and load object files when it is imported."""

    def exporting(provider: ModuleType) -> None:
        kind = provider.TVMFFIJitCompiledFunctionBase
        patches.set(kind, "export_to_c", _exporting(kind.export_to_c))

    def loading(cutlass: ModuleType) -> None:
        for module in (cutlass.runtime, cutlass.cute.runtime):
            patches.set(module, "load_module", _load_module)

    patches.when_imported(PROVIDER, exporting)
    patches.when_imported("cutlass", loading)


def _exporting(original: Callable[..., None]) -> Callable[..., None]:
    def export_to_c(compiled: Any, object_file_path: str, *args: Any, **kwargs: Any) -> None:
        original(compiled, object_file_path, *args, **kwargs)
        path = Path(object_file_path)
        ptx = compiled.artifacts.PTX if compiled.has_gpu_module and compiled.artifacts is not None else ""
        if ptx is not None and path.suffix not in _NO_OBJECTS:
            text = ptx.encode()
            with path.open("ab") as file:
                file.write(text + _END.pack(len(text), _MAGIC))

    return export_to_c


def _load_module(file_path: str, *, enable_tvm_ffi: bool = False) -> SavedModule:
    what = f"loading {file_path!r}"
    if not enable_tvm_ffi:
        raise not_emulated(what, "only functions compiled with --enable-tvm-ffi can be loaded")
    return SavedModule(what, Path(file_path).read_bytes())


class SavedModule:
    """A loaded object file. Its functions are available as attributes and as items."""

    def __init__(self, what: str, content: bytes) -> None:
        self._what, self._module = what, _embedded_ptx(what, content)
        self._engine = linked(content)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = function_in(self._engine, name)
        if function is None:
            raise AttributeError(f"{self._what}: the file has no function {name!r}")
        return lambda *args, **kwargs: call(self._module, function, args, kwargs)

    __getitem__ = __getattr__


def _embedded_ptx(what: str, content: bytes) -> LoadedModule | None:
    """Load the PTX at the end of a file, None if it is empty: no kernels. Raises NotEmulated if the file has no PTX."""
    size, magic = _END.unpack(content[-_END.size :]) if len(content) >= _END.size else (0, b"")
    if magic != _MAGIC:
        raise not_emulated(
            what,
            "it contains machine code and no PTX, so it was not written under the emulated device; "
            "compile it here, or turn off the cache that it comes from",
        )
    text = content[-_END.size - size : -_END.size].decode()
    return load(text) if text else None
