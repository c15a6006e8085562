"""Read 64-bit little-endian ELF files: sections, symbols, program headers, the dynamic section, linked libraries."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

MAGIC: Final = b"\x7fELF\x02\x01"
LOAD, TLS, EXCEPTIONS = 1, 7, 0x6474E550
"""Kinds of segments."""
EXECUTE: Final = 1
"""A segment's flag."""
_DYNAMIC: Final = 2
_SYMBOL_TABLE, _NO_BYTES, UNDEFINED = 2, 8, 0
"""Kinds of sections, and the section of an undefined symbol."""
_STRINGS, _STRINGS_SIZE = 5, 10
"""Tags of the dynamic section."""

Image: TypeAlias = bytes | bytearray | mmap.mmap


class Segment(NamedTuple):
    """A program header: its kind, the place in the file, the address, the size in the file, and access flags."""

    kind: int
    offset: int
    address: int
    size: int
    flags: int


class Symbol(NamedTuple):
    """An entry of the symbol table: its name, kind, section and address."""

    name: str
    kind: int
    section: int
    address: int


class Section(NamedTuple):
    """A section header: where the name lies, the kind, the place and the size in the file, the section it links to."""

    name_at: int
    kind: int
    offset: int
    size: int
    link: int


def _sections(image: bytes | bytearray) -> list[Section]:
    if image[: len(MAGIC)] != MAGIC:
        raise ValueError(f"not a 64-bit little-endian ELF file: it starts with {bytes(image[:6])!r}")
    at = struct.unpack_from("<Q", image, 0x28)[0]
    entry_size, count = struct.unpack_from("<HH", image, 0x3A)
    headers = (struct.unpack_from("<IIQQQQIIQQ", image, at + i * entry_size) for i in range(count))
    return [Section(name, kind, offset, size, link) for name, kind, _, _, offset, size, link, *_ in headers]


def sections(image: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of every section that has bytes in the file. Raises ValueError for another kind of file."""
    headers = _sections(image)
    names = headers[struct.unpack_from("<H", image, 0x3E)[0]].offset
    for each in headers:
        if each.kind != _NO_BYTES:
            yield _string(image, names + each.name_at), image[each.offset : each.offset + each.size]


def symbols(image: bytes | bytearray) -> Iterator[Symbol]:
    """Yield the symbol table; nothing if it was stripped. Raises ValueError for another kind of file."""
    headers = _sections(image)
    for table in headers:
        if table.kind == _SYMBOL_TABLE:
            strings_at = headers[table.link].offset
            for at in range(table.offset, table.offset + table.size, 24):
                name_at, info, _, place, value = struct.unpack_from("<IBBHQ", image, at)
                yield Symbol(_string(image, strings_at + name_at), info & 15, place, value)


def _string(image: bytes | bytearray, at: int) -> str:
    return image[at : image.index(0, at)].decode()


def undefined_symbols(image: bytes) -> list[str]:
    """List the names of the undefined symbols, in the order of the symbol table."""
    return [symbol.name for symbol in symbols(image) if symbol.section == UNDEFINED and symbol.name]


def segments(image: Image) -> Iterator[Segment]:
    """Yield the program headers."""
    at = struct.unpack_from("<Q", image, 0x20)[0]
    size, count = struct.unpack_from("<HH", image, 0x36)
    for i in range(count):
        kind, flags, offset, address, _, in_file = struct.unpack_from("<IIQQQQ", image, at + i * size)
        yield Segment(kind, offset, address, in_file, flags)


def dynamic(image: Image) -> Iterator[tuple[int, int, int]]:
    """Yield the entries of the dynamic section: file offset, tag and value."""
    for segment in segments(image):
        if segment.kind == _DYNAMIC:
            for at in range(segment.offset, segment.offset + segment.size, 16):
                yield at, *struct.unpack_from("<QQ", image, at)


def is_program(path: Path) -> bool:
    """Return True if the file is a 64-bit ELF file."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


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
