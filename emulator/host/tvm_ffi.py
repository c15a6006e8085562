"""TVM-FFI on the emulated host: CuTeDSL functions compiled with --enable-tvm-ffi, and CUDA C++ modules.

Object files of such functions contain machine code, which the emulator cannot run, so their kernels' PTX is appended.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from ..bridge import ffi
from ..bridge.device import current_device
from ..modules import LoadedModule, load
from ..patching import Patches
from .errors import not_emulated


def install(patches: Patches) -> None:
    """Patch TVM-FFI and CuTeDSL when they are imported."""
    patches.set(ffi.Host, "on_device", staticmethod(_on_device))
    patches.set(ffi.Host, "stream", staticmethod(_stream))

    def library(tvm_ffi: ModuleType) -> None:
        patches.set(tvm_ffi, "from_dlpack", _from_dlpack(tvm_ffi.from_dlpack))
        patches.set(tvm_ffi.Module, "get_function", _of_module(tvm_ffi.Module.get_function))

    def compiler(provider: ModuleType) -> None:
        kind = provider.TVMFFIJitCompiledFunctionBase
        patches.set(kind, "_create_tvm_ffi_function", _create)
        patches.set(kind, "export_to_c", _exporting(kind.export_to_c))

    def loading(cutlass: ModuleType) -> None:
        for module in (cutlass.runtime, cutlass.cute.runtime):
            patches.set(module, "load_module", _load_module)

    patches.when_imported("tvm_ffi", library)
    patches.when_imported(ffi.PROVIDER, compiler)
    patches.when_imported("cutlass", loading)


def _on_device(tensor: Any) -> bool:
    """Return True for tensors of the emulated device, and for all on a device that a script enters itself."""
    from .tensors import is_emulated

    return is_emulated(tensor) or current_device().nested


def _stream() -> AbstractContextManager[object]:
    """Return a context in which TVM-FFI's stream is torch's current one."""
    import tvm_ffi

    from .streams import Current

    context: AbstractContextManager[object] = tvm_ffi.use_raw_stream(
        tvm_ffi.device("cuda", 0), Current.stream.cuda_stream
    )
    return context


def _create(compiled: Any) -> Any:
    """Make the tvm_ffi.Function of a compiled function from its object code; None if it has no host code."""
    if compiled.engine is None:
        return None
    return ffi.function_in(ffi.linked(ffi.ffi_object_code(compiled)), compiled.function_name)


def _of_module(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return Module.get_function whose functions get and return tensors of the emulated device as CUDA tensors."""

    def get_function(module: Any, name: str, query_imports: bool = False) -> Any:
        from . import ffi_outputs

        function = original(module, name, query_imports)

        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            with ffi_outputs.allocated() as as_torch:
                return as_torch(ffi.on_stream(function, args, kwargs))

        return called

    return get_function


def _from_dlpack(original: Callable[..., Any]) -> Callable[..., Any]:
    from .tensors import is_emulated

    def from_dlpack(tensor: Any, **options: Any) -> Any:
        return original(ffi.Capsule(tensor) if is_emulated(tensor) else tensor, **options)

    return from_dlpack


_MAGIC: Final = b"PTX of this code"
_END: Final = struct.Struct(f"<Q{len(_MAGIC)}s")
"""The end of a file: the size of the PTX before it and a magic string. Linkers ignore what follows an ELF file."""
_NO_OBJECTS: Final = (".ll", ".bc")


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
        self._engine = ffi.linked(content)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = ffi.function_in(self._engine, name)
        if function is None:
            raise AttributeError(f"{self._what}: the file has no function {name!r}")
        return lambda *args, **kwargs: ffi.call(self._module, function, args, kwargs)

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
