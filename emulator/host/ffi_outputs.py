"""Tensors that functions called through TVM-FFI allocate for their results: torch's, on the emulated device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch

from ..bridge.ffi import DL_CUDA


class _DLTensor(ctypes.Structure):
    """The beginning of DLPack's DLTensor. dtype: code, bits and lanes."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
    )


_Error: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
_Allocator: Final = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(_DLTensor), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, _Error
)
_OWNED, _TAKEN = b"dltensor_versioned", b"used_dltensor_versioned"
_DEVICE: Final = 40
"""Offset of the device in DLManagedTensorVersioned."""
_made: Final[dict[int, torch.Tensor]] = {}
"""The tensors that the current call allocated, by address."""


@contextmanager
def allocated() -> Iterator[Callable[[Any], Any]]:
    """Let functions allocate on the emulated device. Yield what turns the tensors in their result into torch's."""
    import tvm_ffi

    library = ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi())
    before = ctypes.c_void_p()
    library.TVMFFIEnvSetDLPackManagedTensorAllocator(_ALLOCATE, 0, ctypes.byref(before))
    try:
        yield _as_torch
    finally:
        library.TVMFFIEnvSetDLPackManagedTensorAllocator(before, 0, None)
        _made.clear()


def _allocate(prototype: Any, out: Any, context: int, set_error: Any) -> int:
    """Allocate a tensor like a prototype, and pass its ownership on as a DLManagedTensorVersioned."""
    try:
        out[0] = _managed(prototype.contents)
    except Exception as error:  # it cannot pass through the C++ code that calls
        set_error(context, b"RuntimeError", str(error).encode())
        return -1
    return 0


_ALLOCATE: Final = _Allocator(_allocate)


def _managed(like: _DLTensor) -> int:
    """Return the address of a new DLManagedTensorVersioned, which its user frees."""
    import tvm_ffi

    name = str(tvm_ffi.dtype.from_dlpack_data_type((like.code, like.bits, like.lanes)))
    device = "cuda" if like.device[0] == DL_CUDA else "cpu"
    tensor = torch.empty([like.shape[i] for i in range(like.ndim)], dtype=getattr(torch, name), device=device)
    _made[tensor.data_ptr()] = tensor
    with torch._C.DisableTorchFunction():
        capsule = torch.Tensor.__dlpack__(tensor.detach(), max_version=(1, 0))
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = _address(capsule, _OWNED)
    rename(capsule, _TAKEN)
    (ctypes.c_int32 * 2).from_address(address + _DEVICE)[:] = list(like.device)
    return address


def _address(capsule: Any, name: bytes) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address: int = get(capsule, name)
    return address


def _as_torch(value: Any) -> Any:
    import tvm_ffi

    if isinstance(value, tvm_ffi.Tensor):
        capsule = value.__dlpack__()
        return _made.get(_DLTensor.from_address(_address(capsule, b"dltensor")).data or 0, value)
    return [_as_torch(each) for each in value] if isinstance(value, list | tuple | tvm_ffi.Array) else value
