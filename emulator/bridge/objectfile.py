"""Undefined symbols of ELF object files."""

from __future__ import annotations

import struct

_SYMBOL_TABLE, _UNDEFINED = 2, 0


def undefined_symbols(content: bytes) -> list[str]:
    """Return the names of the undefined symbols of a 64-bit little-endian ELF object, in symbol table order."""
    if content[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"not a 64-bit little-endian ELF file: it starts with {content[:6]!r}")
    sections_at = struct.unpack_from("<Q", content, 0x28)[0]
    entry_size, count = struct.unpack_from("<HH", content, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", content, sections_at + i * entry_size) for i in range(count)]
    names: list[str] = []
    for section in sections:
        if section[1] == _SYMBOL_TABLE:
            strings_at = sections[section[6]][4]
            for at in range(section[4], section[4] + section[5], 24):
                name_at, _, _, place = struct.unpack_from("<IBBH", content, at)
                if place == _UNDEFINED and name_at:
                    start = strings_at + name_at
                    names.append(content[start : content.index(b"\0", start)].decode())
    return names
