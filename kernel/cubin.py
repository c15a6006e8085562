"""The registers and stack that the assembler gave a kernel's threads, read from the cubin's ELF sections.

Sections and attributes have the names that `cuobjdump -elf` prints: .nv.info holds EIATTR_REGCOUNT and
EIATTR_FRAME_SIZE of each function, after the symbol number of the kernel.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little-endian
SIZED = 0x04  # an attribute whose second half-word counts the bytes that follow
REGISTERS, FRAME = 0x2F, 0x11
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")


class CubinError(ValueError):
    """The bytes are not the cubin of one kernel."""


@dataclass(frozen=True)
class Resources:
    """Resources per thread: registers, and the bytes of local memory that hold spilled registers."""

    registers: int
    stack_bytes: int


def resources(cubin: bytes) -> Resources:
    """Return the resources of the only kernel of `cubin`. Raises CubinError."""
    if not cubin.startswith(MAGIC):
        raise CubinError(f"cubin begins with {cubin[:6]!r}; allowed: a 64-bit ELF file, {MAGIC!r}")
    sections = dict(_sections(cubin))
    names = [name.removeprefix(".text.") for name in sections if name.startswith(".text.")]
    if len(names) != 1 or ".nv.info" not in sections:
        raise CubinError(f"cubin holds the kernels {names} in sections {sorted(sections)}; allowed: one, and .nv.info")
    symbol = _symbols(sections).index(names[0])
    found = {attribute: value for attribute, of, value in _attributes(sections[".nv.info"]) if of == symbol}
    if REGISTERS not in found:
        raise CubinError(f".nv.info has no register count of {names[0]}")
    return Resources(found[REGISTERS], found.get(FRAME, 0))


def _sections(elf: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of every section that has bytes in the file."""
    (table,) = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<HHH", elf, 58)
    headers = [SECTION.unpack_from(elf, table + i * size) for i in range(count)]
    names_at = headers[names][4]
    for name, _, _, _, offset, length, *_ in headers:
        yield _text(elf, names_at + name), elf[offset : offset + length]


def _symbols(sections: dict[str, bytes]) -> list[str]:
    return [_text(sections[".strtab"], name) for name, *_ in SYMBOL.iter_unpack(sections[".symtab"])]


def _attributes(info: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield attribute, symbol and value of every attribute of a symbol."""
    at = 0
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == SIZED:
            if size == 8:
                yield attribute, *struct.unpack_from("<II", info, at)
            at += size


def _text(table: bytes, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode()
