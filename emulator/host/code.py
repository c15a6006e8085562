"""Modules and kernels by the handles that programs hold, from the PTX in a module image: text, or a fat binary of nvcc.

Handles stay valid until the process ends.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

from .. import chip
from ..bridge.device import LaunchingDevice
from ..bridge.driver import NotEmulated, current
from ..bridge.launchconfig import LaunchConfig
from ..modules import LoadedModule, load
from ..ptx.syntax import Kernel
from .captures import new_handle
from .errors import not_emulated
from .properties import PROPERTIES

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


_REGISTERS_A_THREAD = 255
_modules: dict[int, LoadedModule] = {}
_kernels: dict[int, tuple[LoadedModule, str]] = {}
_handles: dict[tuple[int, str], int] = {}
_names: dict[int, ctypes.c_char_p] = {}
_machine_code: set[int] = set()
"""Handles of cubin libraries and of their kernels: they serve occupancy queries and cannot be launched."""


def load_module(image: int) -> int:
    """Load the module image at an address and return its handle. The module has variables of its own.

    Raises NotEmulated if the image holds no PTX.
    """
    handle, loaded = new_handle(), load(ptx_at(image))
    _modules[handle] = LoadedModule(loaded.ptx) if loaded.syntax.variables else loaded
    return handle


def load_library(image: int) -> int:
    """Load a library and return its handle. A cubin is accepted here and raises NotEmulated when its code is needed."""
    if not is_machine_code(image):
        return load_module(image)
    handle = new_handle()
    _machine_code.add(handle)
    return handle


def module(handle: int) -> LoadedModule:
    """Return a module by its handle. Raises NotEmulated for a cubin."""
    if handle in _machine_code:
        raise machine_code()
    return _modules[handle]


def variable(handle: int, name: str) -> tuple[int, int] | None:
    """Return address and size in bytes of a module's variable, None if it has none of that name."""
    return next(((at, size) for at, size, called in module(handle).allocations if called == name), None)


def variable_around(address: int) -> tuple[int, int] | None:
    """Return address and size in bytes of the module variable that contains an address, None if there is none."""
    variables = (one for loaded in _modules.values() for one in loaded.allocations)
    return next(((at, size) for at, size, _ in variables if at <= address < at + size), None)


def unload(handle: int) -> None:
    """Forget the handle of a module."""
    _modules.pop(handle, None)


def kernel_handle(loaded: LoadedModule, name: str) -> int | None:
    """Return a handle of a kernel, None if the module has none of that name."""
    if name not in loaded.syntax.kernels and name not in loaded.syntax.rejected:
        return None
    key = (id(loaded), name)
    if key not in _handles:
        _handles[key] = device().handle(loaded, name)
        _kernels[_handles[key]] = (loaded, name)
    return _handles[key]


def kernel_handles(module_handle: int, count: int) -> list[int]:
    """Return handles of the first `count` kernels of a module."""
    if module_handle in _machine_code:
        handles = [new_handle() for _ in range(count)]
        _machine_code.update(handles)
        return handles
    loaded = module(module_handle)
    return [kernel_handle(loaded, name) or 0 for name in list(loaded.syntax.kernels)[:count]]


def kernel(handle: int) -> Kernel:
    """Return a kernel by its handle. Raises NotEmulated for a kernel of a cubin."""
    if handle in _machine_code:
        raise machine_code()
    loaded, name = _kernels[handle]
    return loaded.kernel(name)


def name_at(handle: int) -> int:
    """Return the address of a kernel's name."""
    if handle not in _names:
        _names[handle] = ctypes.c_char_p(kernel(handle).name.encode())
    return ctypes.cast(_names[handle], ctypes.c_void_p).value or 0


def is_kernel(handle: int) -> bool:
    """Return True if a handle is a kernel's."""
    return handle in _kernels


def module_of(handle: int) -> int:
    """Return a handle of the module that a kernel belongs to."""
    loaded, _ = _kernels[handle]
    return next(known for known, other in _modules.items() if other is loaded)


def device() -> LaunchingDevice:
    """Return the current device. Raises NotEmulated outside of `emulate`."""
    found = current()
    if not isinstance(found, LaunchingDevice):
        raise not_emulated("a launch", "no emulated device is current; launch inside `with emulate():`")
    return found


def launch(handle: int, config: LaunchConfig, arguments: int, extra: int = 0) -> None:
    """Launch a kernel. Its parameters come in one of two forms.

    arguments: the address of an array of pointers to the parameters. extra: the address of cuLaunchKernel's options,
    which name one buffer with all parameters.
    """
    syntax = kernel(handle)
    pointers = _from_buffer(syntax, extra) if extra and not arguments else None
    device().launch(handle, config, arguments if pointers is None else ctypes.addressof(pointers))


def _from_buffer(syntax: Kernel, extra: int) -> Any:
    end, pointer, _size = 0, 1, 2
    words = ctypes.cast(extra, ctypes.POINTER(ctypes.c_size_t))
    at = 0
    while words[at] != end:
        if words[at] == pointer:
            start = words[at + 1]
            return (ctypes.c_void_p * len(syntax.params))(*(start + param.offset for param in syntax.params))
        at += 2
    raise not_emulated("cuLaunchKernel's `extra`", "it names no buffer")


def attribute(handle: int, which: int) -> int:
    """Return a CUfunction_attribute. The register count is the most that the block size allows, not what code uses."""
    syntax = kernel(handle)
    x, y, z = syntax.reqntid or syntax.maxntid or (chip.MAX_THREADS_A_CTA, 1, 1)
    threads = x * y * z
    left = PROPERTIES.regs_per_multiprocessor // (-(-threads // chip.LANES) * chip.LANES) // 8 * 8
    known = {
        0: threads,
        1: syntax.static_shared_bytes - chip.RESERVED_SHARED_BYTES,
        3: syntax.local_bytes,
        4: syntax.maxnreg or min(_REGISTERS_A_THREAD, left),
        5: 10 * PROPERTIES.major + PROPERTIES.minor,
        6: 10 * PROPERTIES.major + PROPERTIES.minor,
        8: PROPERTIES.shared_memory_per_block,
    }
    return known.get(which, 0)


def active_blocks(handle: int, threads: int, dynamic_shared_bytes: int) -> int:
    """Return how many CTAs of a kernel fit on an SM, by threads and shared memory; 1 for a kernel of a cubin."""
    if handle in _machine_code:
        return 1
    shared = kernel(handle).dynamic_shared_offset + dynamic_shared_bytes
    by_threads = PROPERTIES.max_threads_per_multi_processor // max(-(-threads // chip.LANES) * chip.LANES, 1)
    return min(chip.CTAS_AN_SM, by_threads, chip.SHARED_BYTES_AN_SM // shared)
