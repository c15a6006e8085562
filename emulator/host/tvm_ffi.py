"""TVM-FFI on the emulated device: CuTeDSL functions compiled with --enable-tvm-ffi, and CUDA C++ modules.

A compiled CuTeDSL function is linked to the emulated device instead of CUDA. It checks its arguments itself and loads
its kernels at its first call. For that it needs some functions of CuTeDSL's runtime, which are defined here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial, wraps
from types import ModuleType
from typing import Any, Final

import llvmlite.binding as llvm

from ..bridge.allocations import argument_memory
from ..bridge.device import module_of
from ..bridge.hostcode import linked
from ..bridge.patches import current_device
from ..modules import LoadedModule
from ..patching import Patches
from .streams import Current
from .tensors import is_emulated

_POINTER, _INT = ctypes.c_void_p, ctypes.c_int
_Init, _Load = ctypes.CFUNCTYPE(_INT, _POINTER), ctypes.CFUNCTYPE(_INT, _POINTER, _INT)
PROVIDER: Final = "cutlass.cutlass_dsl.tvm_ffi_provider"
"""The part of CuTeDSL that compiles with --enable-tvm-ffi."""


def install(patches: Patches) -> None:
    """Patch TVM-FFI and CuTeDSL when they are imported."""

    def library(tvm_ffi: ModuleType) -> None:
        patches.set(tvm_ffi, "from_dlpack", _from_dlpack(tvm_ffi.from_dlpack))
        patches.set(tvm_ffi.Module, "get_function", _of_module(tvm_ffi.Module.get_function))

    def compiler(provider: ModuleType) -> None:
        import tvm_ffi

        llvm.load_library_permanently(tvm_ffi.libinfo.find_libtvm_ffi())
        for name, function in _ENTRY_POINTS.items():
            llvm.add_symbol(name, ctypes.cast(function, _POINTER).value)
        patches.set(provider.TVMFFIJitCompiledFunctionBase, "_create_tvm_ffi_function", _create)
        for kind in (provider.TVMFFIJitCompiledFunction, provider.TVMFFIJitCompiledFunctionWithKwargs):
            patches.set(kind, "__call__", _calling(kind.__call__))

    patches.when_imported("tvm_ffi", library)
    patches.when_imported(PROVIDER, compiler)


def _create(compiled: Any) -> Any:
    """Make the tvm_ffi.Function of a compiled function from its object code; None if it has no host code."""
    import tvm_ffi
    from cutlass._mlir._mlir_libs._cutlass_ir import _aot_support  # type: ignore[attr-defined]

    if compiled.engine is None:
        return None
    code = _aot_support.export_module_to_bytes(compiled.ir_module, format="o", opt_level=3, enable_pic=True)
    engine = linked(code)
    address = engine.get_function_address(f"__tvm_ffi_{compiled.function_name}")
    return tvm_ffi.Function.__from_extern_c__(address, keep_alive_object=engine)


def call(module: LoadedModule | None, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a function whose kernels are in `module`. Tensors of the emulated device are passed as CUDA tensors."""
    with current_device().calling(module, argument_memory(args, kwargs)):
        return _as_on_a_gpu(function, args, kwargs)


def _as_on_a_gpu(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a function on torch's current stream. Tensors of the emulated device are passed as CUDA tensors."""
    import tvm_ffi

    with tvm_ffi.use_raw_stream(tvm_ffi.device("cuda", 0), Current.stream.cuda_stream):
        return function(*map(_argument, args), **{key: _argument(value) for key, value in kwargs.items()})


def _of_module(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return Module.get_function whose functions get tensors of the emulated device as CUDA tensors."""

    def get_function(module: Any, name: str, query_imports: bool = False) -> Any:
        function = original(module, name, query_imports)

        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            return _as_on_a_gpu(function, args, kwargs)

        return called

    return get_function


def _calling(original: Callable[..., Any]) -> Callable[..., Any]:
    def called(compiled: Any, *args: Any, **kwargs: Any) -> Any:
        return call(module_of(compiled), partial(original, compiled), args, kwargs)

    return called


def _from_dlpack(original: Callable[..., Any]) -> Callable[..., Any]:
    def from_dlpack(tensor: Any, **options: Any) -> Any:
        return original(_Capsule(tensor) if is_emulated(tensor) else tensor, **options)

    return from_dlpack


def _argument(value: Any) -> Any:
    """Convert tensors of the emulated device, in containers too, to CUDA tensors of TVM-FFI; keep others."""
    if is_emulated(value):
        import tvm_ffi

        return tvm_ffi.from_dlpack(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_argument, value))
    if type(value) in (list, tuple):
        return type(value)(map(_argument, value))
    return value


class _Capsule:
    """A tensor wrapper that hides torch's fast path, which would expose the CPU memory."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __dlpack__(self, **_: Any) -> Any:
        return self._tensor.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self._tensor.__dlpack_device__()


def _load_once(state: int, init: int, load_to_device: int, _set_error: int) -> int:
    """Load a function's kernels at its first call. state: the address of its library handle, zero until then."""
    loaded = ctypes.c_size_t.from_address(state)
    if loaded.value:
        return 0
    library = ctypes.c_size_t()
    code: int = _Init(init)(ctypes.addressof(library)) or _Load(load_to_device)(ctypes.addressof(library), 0)
    if code == 0:
        loaded.value = library.value
    return code


def _raise_cuda_error(_where: int, code: int) -> None:
    """Report a failed call to TVM-FFI. The emulator's own exception replaces the one that TVM-FFI raises."""
    from tvm_ffi import libinfo

    library = ctypes.CDLL(libinfo.find_libtvm_ffi())
    library.TVMFFIErrorSetRaisedFromCStr(b"RuntimeError", f"CUDA error {code}".encode())


_ENTRY_POINTS: Final = {
    "cuda_dialect_assert_success": ctypes.CFUNCTYPE(None, _INT)(lambda code: None),
    "_cudaSetDevice": ctypes.CFUNCTYPE(_INT, _INT)(lambda ordinal: 0 if ordinal == 0 else 101),
    "cuda_dialect_init_library_once": ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _POINTER, _POINTER)(_load_once),
    "cuda_dialect_unload_library_once": ctypes.CFUNCTYPE(None, _POINTER)(lambda state: None),
    "CuteDSLRT_TVMFFISetRaisedCudaError": ctypes.CFUNCTYPE(None, _POINTER, _INT)(_raise_cuda_error),
}
