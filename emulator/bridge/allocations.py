"""The memory that a call's arguments show: what a kernel may touch, by name, for reports of accesses outside."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

Allocation = tuple[int, int, str]
"""Address, bytes, name."""
_CAPSULE_NAMES = (b"dltensor", b"used_dltensor")


class _DLTensor(ctypes.Structure):
    """DLPack's tensor, as its header lays it out."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("type_code", ctypes.c_uint8),
        ("type_bits", ctypes.c_uint8),
        ("type_lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def allocations(arguments: Any, name: str = "argument") -> Iterator[Allocation]:
    """The memory of the tensors among (nested) arguments, each named by its place."""
    if isinstance(arguments, dict):
        for key, value in arguments.items():
            yield from allocations(value, str(key))
    elif isinstance(arguments, list | tuple):
        for i, value in enumerate(arguments):
            yield from allocations(value, f"{name} {i}")
    elif callable(getattr(arguments, "untyped_storage", None)):
        storage = arguments.untyped_storage()
        yield storage.data_ptr(), storage.nbytes(), name
    elif (capsule := getattr(arguments, "_dlpack_data", None)) is not None:
        found = _of_capsule(capsule, name)
        if found is not None:
            yield found


def _of_capsule(capsule: Any, name: str) -> Allocation | None:
    """The memory that a DLPack capsule describes, from its first to its last element."""
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.argtypes = api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    for kind in _CAPSULE_NAMES:
        if api.PyCapsule_IsValid(capsule, kind):
            tensor = _DLTensor.from_address(api.PyCapsule_GetPointer(capsule, kind))
            return _extent(tensor, name)
    return None


def _extent(tensor: _DLTensor, name: str) -> Allocation | None:
    sizes = [tensor.shape[i] for i in range(tensor.ndim)]
    if tensor.data is None or 0 in sizes:
        return None
    if tensor.strides:
        last = sum((size - 1) * tensor.strides[i] for i, size in enumerate(sizes))
    else:
        last = 1
        for size in sizes:
            last *= size
        last -= 1
    bits = tensor.type_bits * tensor.type_lanes
    return tensor.data + tensor.byte_offset, -(-(last + 1) * bits // 8), name
