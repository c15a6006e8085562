"""The parameters of a launch as CUDA passes them: an array of pointers to their values."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence


class Arguments:
    """Copies of a launch's parameters. address: of the array of pointers to them, as long as this object lives."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self._copies = [ctypes.create_string_buffer(value, len(value)) for value in values]
        self._array = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, self._copies))
        self.address = ctypes.addressof(self._array)


def values_at(address: int, sizes: Sequence[int]) -> list[bytes]:
    """Read the parameters of these sizes in bytes from the array of pointers at an address."""
    pointers = (ctypes.c_void_p * len(sizes)).from_address(address) if sizes else ()
    return [ctypes.string_at(pointer, size) for pointer, size in zip(pointers, sizes, strict=True)]
