"""Extract PTX from a module image: PTX text, or a fat binary made by nvcc."""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable, Iterator
from typing import Final

from .. import chip
from ..bridge.driver import NotEmulated
from .errors import not_emulated

_WRAPPER, _FAT, _ELF = 0x466243B1, 0xBA55ED50, 0x464C457F
_FAT_HEADER: Final = struct.Struct("<IHHQ")
_ENTRY: Final = struct.Struct("<HHIQIIHHIIIQQQ")
_PTX: Final = 1
_LZ4, _ZSTD = 0x2000, 0x8000
"""Compression flags of a fat binary's entry."""
_TARGET: Final = re.compile(rb"\.target\s+(sm_(\d+)([af]?))")


def is_machine_code(address: int) -> bool:
    """Return True if a module image is a cubin."""
    return ctypes.c_uint32.from_address(address).value == _ELF


def machine_code() -> NotEmulated:
    """Return the error for a module that has machine code and no PTX."""
    return not_emulated("a module of machine code", "compile to PTX, or to a fat binary that holds PTX")


def ptx_at(address: int) -> str:
    """Return the PTX of the module image at an address. Raises NotEmulated if it has none that a B200 can run."""
    magic = ctypes.c_uint32.from_address(address).value
    if magic == _WRAPPER:
        return ptx_at(ctypes.c_uint64.from_address(address + 8).value)
    if magic == _FAT:
        return _nearest_ptx(list(_ptx_entries(address))).decode()
    if is_machine_code(address):
        raise machine_code()
    return ctypes.string_at(address).decode()


def _nearest_ptx(texts: list[bytes]) -> bytes:
    """Return the PTX whose target is nearest to the device, among those that the device can run."""
    found = {}
    for text in texts:
        target = _TARGET.search(text)
        if target is not None and chip.runs_here(target[1].decode()):
            found[int(target[2]), target[3] == b"a"] = text
    if not found:
        fix = "compile with -gencode arch=compute_100a,code=compute_100a"
        raise not_emulated("a fat binary without PTX for sm_100a", fix)
    return found[max(found)]


def _ptx_entries(address: int) -> Iterator[bytes]:
    """Yield the PTX texts of the fat binary at an address."""
    _, _, header, size = _FAT_HEADER.unpack(ctypes.string_at(address, _FAT_HEADER.size))
    at, end = address + header, address + header + size
    while at < end:
        entry = _ENTRY.unpack(ctypes.string_at(at, _ENTRY.size))
        kind, header, size, packed_size, flags, unpacked_size = (entry[i] for i in (0, 2, 3, 4, 11, 13))
        if kind == _PTX and flags & _ZSTD:
            content = _decompressed("zstd", _zstd, at + header, packed_size, unpacked_size)
        elif kind == _PTX and flags & _LZ4:
            content = _decompressed("lz4", _lz4, at + header, packed_size, unpacked_size)
        elif kind == _PTX:
            content = ctypes.string_at(at + header, size)
        else:
            content = b""
        if content:
            yield content.rstrip(b"\0")
        at += header + size


def _decompressed(name: str, unpack: Callable[..., int], address: int, packed_size: int, unpacked_size: int) -> bytes:
    """Decompress a PTX text with a system library. Raises NotEmulated if the library is missing or fails."""
    try:
        library = ctypes.CDLL(f"lib{name}.so.1")
    except OSError:
        what = f"PTX that is compressed with {name}"
        why = f"there is no lib{name}.so.1; install it, or compile without compression (nvcc -no-compress)"
        raise not_emulated(what, why) from None
    target = ctypes.create_string_buffer(unpacked_size)
    if unpack(library, target, ctypes.string_at(address, packed_size)) != unpacked_size:
        raise not_emulated("a fat binary", f"lib{name} cannot decompress its PTX")
    return target.raw


def _zstd(library: ctypes.CDLL, target: ctypes.Array[ctypes.c_char], packed: bytes) -> int:
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
    written: int = library.ZSTD_decompress(target, len(target), packed, len(packed))
    return written


def _lz4(library: ctypes.CDLL, target: ctypes.Array[ctypes.c_char], packed: bytes) -> int:
    written: int = library.LZ4_decompress_safe(packed, target, len(packed), len(target))
    return written
