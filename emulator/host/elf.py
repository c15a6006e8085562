"""Read 64-bit ELF files: program headers, the dynamic section, and the libraries that a file is linked to."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

MAGIC: Final = b"\x7fELF\x02\x01"
LOAD, TLS = 1, 7
"""Kinds of segments."""
_DYNAMIC: Final = 2
_STRINGS, _STRINGS_SIZE = 5, 10
"""Tags of the dynamic section."""

Image: TypeAlias = bytearray | mmap.mmap


class Segment(NamedTuple):
    """A program header: its kind, the place in the file, the address, and the size in the file."""

    kind: int
    offset: int
    address: int
    size: int


def segments(image: Image) -> Iterator[Segment]:
    """Yield the program headers."""
    at = struct.unpack_from("<Q", image, 0x20)[0]
    size, count = struct.unpack_from("<HH", image, 0x36)
    for i in range(count):
        kind, _, offset, address, _, in_file = struct.unpack_from("<IIQQQQ", image, at + i * size)
        yield Segment(kind, offset, address, in_file)


def dynamic(image: Image) -> Iterator[tuple[int, int, int]]:
    """Yield the entries of the dynamic section: file offset, tag and value."""
    for segment in segments(image):
        if segment.kind == _DYNAMIC:
            for at in range(segment.offset, segment.offset + segment.size, 16):
                yield at, *struct.unpack_from("<QQ", image, at)


def is_linked_to(path: Path, library: bytes) -> bool:
    """Return True if the file is an ELF file and its dynamic strings have a name that begins with `library`."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
            values = {tag: value for _, tag, value in dynamic(image)}
            address, size = values.get(_STRINGS, 0), values.get(_STRINGS_SIZE, 0)
            for each in segments(image):
                if each.kind == LOAD and each.address <= address < each.address + each.size:
                    at = address - each.address + each.offset
                    return b"\0" + library in image[at : at + size]
    return False
