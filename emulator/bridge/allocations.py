"""Memory that a call's arguments describe: the named allocations that a kernel may access."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

import numpy as np

Allocation = tuple[int, int, str]
"""Address, size in bytes, name."""
ADDRESSES_FROM: Final = 1 << 32
"""A 64-bit process has no memory below this address, so a smaller integer is not an address."""
_INTEGERS: Final = (0, 1)
_ADDRESS_BYTES: Final = (1, 8)
"""Sizes of integer elements that may be addresses or bytes of addresses."""
_CAPSULE_NAMES = (b"dltensor", b"used_dltensor")


@dataclass(frozen=True)
class Memory:
    """The allocations that a launch may access, as far as they are known. closed: it may access nothing else.

    freed_at: describes the freed allocation that contained an address; empty if none is known.
    """

    allocations: tuple[Allocation, ...] = ()
    closed: bool = False
    freed_at: Callable[[int], str] = lambda address: ""


class _DLTensor(ctypes.Structure):
    """DLTensor, laid out as in dlpack.h."""

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
    """Yield the memory of the tensors in (nested) arguments. Each is named after its position or field."""
    if isinstance(arguments, dict):
        for key, value in arguments.items():
            yield from allocations(value, str(key))
    elif isinstance(arguments, list | tuple):
        for i, value in enumerate(arguments):
            yield from allocations(value, f"{name} {i}")
    elif is_dataclass(arguments):
        yield from allocations({field.name: getattr(arguments, field.name) for field in fields(arguments)})
    elif isinstance(arguments, np.ndarray):
        low, high = np.lib.array_utils.byte_bounds(arguments)
        yield low, high - low, name
    elif callable(getattr(arguments, "untyped_storage", None)):
        storage = arguments.untyped_storage()
        yield storage.data_ptr(), storage.nbytes(), name
    elif (capsule := getattr(arguments, "_dlpack_data", None)) is not None:
        found = _of_capsule(capsule, name)
        if found is not None:
            yield found


def argument_memory(*arguments: Any) -> Memory:
    """Return the memory that a call's arguments describe.

    It is closed if no argument can contain another address. Tensors of bytes or 64-bit integers and large integers can.
    """
    return Memory(tuple(a for part in arguments for a in allocations(part)), all(map(_reveals_all_memory, arguments)))


def _reveals_all_memory(argument: Any) -> bool:
    match argument:
        case dict():
            return all(map(_reveals_all_memory, argument.values()))
        case list() | tuple():
            return all(map(_reveals_all_memory, argument))
        case int():
            return abs(argument) < ADDRESSES_FROM
        case np.ndarray():
            return argument.dtype.kind == "f" or argument.itemsize not in _ADDRESS_BYTES
        case float() | str() | bytes() | None:
            return True
    if callable(getattr(argument, "untyped_storage", None)):
        return argument.dtype.is_floating_point or argument.dtype.itemsize not in _ADDRESS_BYTES
    from cuda.bindings.driver import CUstream
    from cutlass.cutlass_dsl import Numeric

    if isinstance(argument, CUstream):
        return True
    if isinstance(argument, Numeric):
        return _reveals_all_memory(argument.value)
    if is_dataclass(argument):
        return all(_reveals_all_memory(getattr(argument, field.name)) for field in fields(argument))
    tensor = _tensor_of(getattr(argument, "_dlpack_data", None))
    return tensor is not None and (tensor.type_code not in _INTEGERS or tensor.type_bits // 8 not in _ADDRESS_BYTES)


def _of_capsule(capsule: Any, name: str) -> Allocation | None:
    """Return the memory of a DLPack capsule's tensor, from its first to its last element."""
    tensor = _tensor_of(capsule)
    return None if tensor is None else _extent(tensor, name)


def _tensor_of(capsule: Any) -> _DLTensor | None:
    """Return the tensor of a DLPack capsule, None if the object is not one."""
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.argtypes = api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    for kind in _CAPSULE_NAMES:
        if api.PyCapsule_IsValid(capsule, kind):
            return _DLTensor.from_address(api.PyCapsule_GetPointer(capsule, kind))
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
