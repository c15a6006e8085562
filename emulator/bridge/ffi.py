"""Calls of TVM-FFI functions: CuTeDSL functions compiled with --enable-tvm-ffi, linked to the emulated device.

A compiled function checks its arguments itself and loads its kernels at its first call. For that it needs some
functions of CuTeDSL's runtime, which are defined here.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import llvmlite.binding as llvm

from ..modules import LoadedModule
from . import hostcode
from .allocations import Allocation, Memory, argument_memory
from .device import current_device

_POINTER, _INT = ctypes.c_void_p, ctypes.c_int
_Init, _Load = ctypes.CFUNCTYPE(_INT, _POINTER), ctypes.CFUNCTYPE(_INT, _POINTER, _INT)
DL_CUDA: Final = 2
PROVIDER: Final = "cutlass.cutlass_dsl.tvm_ffi_provider"
"""The part of CuTeDSL that compiles with --enable-tvm-ffi."""
SYMBOL: Final = "__tvm_ffi_"
"""Prefix of the function in an object file."""
_functions: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_object_code: weakref.WeakKeyDictionary[Any, bytes] = weakref.WeakKeyDictionary()


class Host:
    """The memory and stream of the host that calls. An emulated host replaces both methods."""

    @staticmethod
    def on_device(tensor: Any) -> bool:
        """Return True if a tensor is in the device's memory. Without an emulated host every tensor is."""
        return True

    @staticmethod
    def stream() -> AbstractContextManager[object]:
        """Return a context in which TVM-FFI's stream is the host's current one."""
        return nullcontext()


def ffi_object_code(compiled: Any) -> bytes:
    """Return the object file of a compiled or restored function."""
    if (saved := getattr(compiled, "saved", None)) is not None:
        return bytes(saved.host)
    if compiled not in _object_code:
        from cutlass._mlir._mlir_libs._cutlass_ir import _aot_support  # type: ignore[attr-defined]

        made = _aot_support.export_module_to_bytes(compiled.ir_module, format="o", opt_level=3, enable_pic=True)
        _object_code[compiled] = made
    return _object_code[compiled]


def linked(code: bytes) -> Any:
    """Load an object file into an llvmlite engine, linked to TVM-FFI and the emulated device's entry points."""
    import tvm_ffi

    llvm.load_library_permanently(tvm_ffi.libinfo.find_libtvm_ffi())
    for name, function in _ENTRY_POINTS.items():
        llvm.add_symbol(name, ctypes.cast(function, _POINTER).value)
    return hostcode.linked(code)


def function_in(engine: Any, name: str) -> Any:
    """Return the tvm_ffi.Function of that name in an engine, None if it has none."""
    import tvm_ffi

    address = engine.get_function_address(SYMBOL + name)
    return tvm_ffi.Function.__from_extern_c__(address, keep_alive_object=engine) if address else None


def call_compiled(compiled: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a compiled CuTeDSL function on the current device."""
    module = current_device().module_of(compiled)
    function = _functions.get(compiled)
    if function is None:
        function = _functions[compiled] = function_in(linked(ffi_object_code(compiled)), compiled.function_name)
    return call(module, function, args, kwargs)


def call(module: LoadedModule | None, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a function whose kernels are in `module`. Tensors of the emulated device are passed as CUDA tensors."""
    closed = argument_memory(args, kwargs).closed
    memory = Memory(tuple(extents((args, kwargs))), closed)
    with current_device().calling(module, memory):
        return on_stream(function, args, kwargs)


def on_stream(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a function on the host's current stream. Tensors of the emulated device are passed as CUDA tensors."""
    with Host.stream():
        return function(*map(argument, args), **{key: argument(value) for key, value in kwargs.items()})


def argument(value: Any) -> Any:
    """Convert tensors of the emulated device, in containers too, to CUDA tensors of TVM-FFI; keep others."""
    if is_tensor(value):
        return cuda_tensor(value) if Host.on_device(value) else value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(argument, value))
    if type(value) in (list, tuple):
        return type(value)(map(argument, value))
    return value


def extents(value: Any, name: str = "argument") -> Iterator[Allocation]:
    """Yield the memory of the tensors in (nested) arguments, from their first to their last element."""
    if is_tensor(value):
        if value.numel() and value.device.type != "meta":
            last = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
            yield value.data_ptr(), (last + 1) * value.element_size(), name
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from extents(each, str(key))
    elif isinstance(value, list | tuple):
        names = getattr(value, "_fields", None) or (f"{name} {i}" for i in range(len(value)))
        for of_part, each in zip(names, value, strict=True):
            yield from extents(each, of_part)


def is_tensor(value: object) -> bool:
    """Return True for a torch tensor."""
    return callable(getattr(value, "untyped_storage", None))


def cuda_tensor(tensor: Any) -> Any:
    """Return a TVM-FFI tensor of the device (CUDA, 0) over the memory of a torch tensor."""
    import tvm_ffi

    return tvm_ffi.from_dlpack(Capsule(tensor))


def cuda_capsule(capsule: Any) -> Any:
    """Set the device of an unversioned DLPack capsule to (CUDA, 0), in place. The memory does not move."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    device = ctypes.cast(get(capsule, b"dltensor") + 8, ctypes.POINTER(ctypes.c_int32))
    device[0], device[1] = DL_CUDA, 0
    return capsule


class Capsule:
    """A tensor wrapper that hides torch's fast path, which would expose the CPU memory."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __dlpack__(self, **_: Any) -> Any:
        import torch

        with torch._C.DisableTorchFunction():
            return cuda_capsule(torch.utils.dlpack.to_dlpack(self._tensor.detach()))

    def __dlpack_device__(self) -> tuple[int, int]:
        return DL_CUDA, 0


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
