"""Programs in C++ and CUDA: an executable's `main`, called in this process, where CUDA's libraries are ours."""

from __future__ import annotations

import atexit
import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from .c_library import FOLDER
from .refusal import not_emulated

_MAGIC: Final = b"\x7fELF\x02\x01"
_SHARED, _X86_64 = 3, 62
_DYNAMIC, _TLS = 2, 7
_FLAGS_1, _PIE = 0x6FFFFFFB, 0x08000000
_SYMBOLS: Final = 2
_TO_MAIN: Final = b"\x48\x8d\x3d"
"""`lea main(%rip), %rdi`, before the entry point calls __libc_start_main."""


def is_executable(path: Path) -> bool:
    """Whether a file is a 64-bit ELF file."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def run_main(path: Path, arguments: Sequence[str], at_exit: Callable[[int], int]) -> int:
    """Call the executable's `main`, and answer what `at_exit` makes of its exit code.

    Where the program calls exit(), `at_exit` is called there, and the process ends with what it answers. Raises
    NotEmulated for a program that cannot be loaded so.
    """
    what, image = f"running {path}", bytearray(path.read_bytes())
    kind, machine = struct.unpack_from("<HH", image, 16)
    if (kind, machine) != (_SHARED, _X86_64):
        raise not_emulated(what, "only executables for x86-64 that can be placed anywhere (-pie) are loaded")
    if b"libcudart.so" not in image and b"libcuda.so" not in image:
        raise not_emulated(what, "CUDA's runtime is within it, or it needs none: link with `nvcc -cudart shared`")
    if any(segment == _TLS for segment, *_ in _segments(image)):
        raise not_emulated(what, "it has thread-local variables")
    start = _main(image)
    for at, tag, value in _dynamic(image):
        if tag == _FLAGS_1:  # a library, so far as the loader is concerned
            struct.pack_into("<QQ", image, at, tag, value & ~_PIE)
    copy = FOLDER / path.name
    copy.write_bytes(image)
    program, libc = ctypes.CDLL(str(copy), ctypes.RTLD_GLOBAL), ctypes.CDLL(None)
    base = ctypes.c_uint64.from_address(program._handle).value
    ended = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(lambda code, _: _end(libc, at_exit(code)))
    libc.on_exit(ended, None)
    main = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(base + start)
    argv = (ctypes.c_char_p * (len(arguments) + 2))(str(path).encode(), *(a.encode() for a in arguments), None)
    code = main(len(arguments) + 1, ctypes.addressof(argv))
    libc.exit(code)
    raise AssertionError("exit() came back")


def _end(libc: Any, code: int) -> None:
    libc.fflush(None)
    atexit._run_exitfuncs()  # this process does not come to Python's own end: its temporary folders go here
    libc._exit(code)


def _segments(image: bytearray) -> Iterator[tuple[int, int, int]]:
    """Kind, offset and bytes of each segment."""
    at = struct.unpack_from("<Q", image, 0x20)[0]
    size, count = struct.unpack_from("<HH", image, 0x36)
    for i in range(count):
        kind, _, offset, _, _, in_file = struct.unpack_from("<IIQQQQ", image, at + i * size)
        yield kind, offset, in_file


def _dynamic(image: bytearray) -> Iterator[tuple[int, int, int]]:
    """Where each entry for the loader stands, its tag and its value."""
    for kind, offset, size in _segments(image):
        if kind == _DYNAMIC:
            for at in range(offset, offset + size, 16):
                yield at, *struct.unpack_from("<QQ", image, at)


def _main(image: bytearray) -> int:
    """The address of `main`: by its symbol, or where it was stripped by the code that calls it."""
    sections_at = struct.unpack_from("<Q", image, 0x28)[0]
    entry_size, count = struct.unpack_from("<HH", image, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, sections_at + i * entry_size) for i in range(count)]
    for section in sections:
        if section[1] == _SYMBOLS:
            strings_at = sections[section[6]][4]
            for at in range(section[4], section[4] + section[5], 24):
                name_at, _, _, _, value = struct.unpack_from("<IBBHQ", image, at)
                if image.startswith(b"main\0", strings_at + name_at):
                    return int(value)
    entry: int = struct.unpack_from("<Q", image, 0x18)[0]
    at = image.find(_TO_MAIN, entry, entry + 64)
    if at < 0:
        raise not_emulated("this program", "its `main` was not found")
    return at + 7 + int(struct.unpack_from("<i", image, at + 3)[0])
