"""TVM-FFI on the emulated host: CuTeDSL functions compiled with --enable-tvm-ffi, and CUDA C++ modules."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from types import ModuleType
from typing import Any

from ..bridge import ffi
from ..bridge.device import current_device
from ..patching import Patches
from .streams import Current
from .tensors import is_emulated


def install(patches: Patches) -> None:
    """Patch TVM-FFI and CuTeDSL when they are imported."""
    patches.set(ffi.Host, "on_device", staticmethod(_on_device))
    patches.set(ffi.Host, "stream", staticmethod(_stream))

    def library(tvm_ffi: ModuleType) -> None:
        patches.set(tvm_ffi, "from_dlpack", _from_dlpack(tvm_ffi.from_dlpack))
        patches.set(tvm_ffi.Module, "get_function", _of_module(tvm_ffi.Module.get_function))

    def compiler(provider: ModuleType) -> None:
        patches.set(provider.TVMFFIJitCompiledFunctionBase, "_create_tvm_ffi_function", _create)

    patches.when_imported("tvm_ffi", library)
    patches.when_imported(ffi.PROVIDER, compiler)


def _on_device(tensor: Any) -> bool:
    """Return True for tensors of the emulated device, and for all on a device that a script enters itself."""
    return is_emulated(tensor) or current_device().nested


def _stream() -> AbstractContextManager[object]:
    """Return a context in which TVM-FFI's stream is torch's current one."""
    import tvm_ffi

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
    """Return Module.get_function whose functions get tensors of the emulated device as CUDA tensors."""

    def get_function(module: Any, name: str, query_imports: bool = False) -> Any:
        function = original(module, name, query_imports)

        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            return ffi.on_stream(function, args, kwargs)

        return called

    return get_function


def _from_dlpack(original: Callable[..., Any]) -> Callable[..., Any]:
    def from_dlpack(tensor: Any, **options: Any) -> Any:
        return original(ffi.Capsule(tensor) if is_emulated(tensor) else tensor, **options)

    return from_dlpack
