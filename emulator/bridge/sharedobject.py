"""Write a shared library whose functions jump through a table, which the loading process fills with addresses.

C programs thus find `libcuda.so.1` on machines without a compiler or linker. x86-64 only.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

TABLE: Final = "emulator_table"
"""The data symbol of the table: one 8-byte address per function, in the order given."""
RETURN_ZERO: Final = "emulator_nothing"
"""An additional function that returns 0."""
_PAGE: Final = 4096
_HEADER, _SEGMENT, _SECTION, _SYMBOL = 64, 56, 64, 24
_STUB: Final = 8
_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551
_READ, _WRITE, _EXECUTE = 4, 2, 1
_FUNCTION, _OBJECT = 0x12, 0x11
"""A symbol's info byte: global binding, and its type."""
_GLOBAL_VERSION: Final = 2


def shared_object(soname: str, functions: Sequence[str], version: str = "") -> bytes:
    """Return the content of a shared library. soname: its DT_SONAME. version: its symbol version, "" for none."""
    strings = _Strings()
    named = (*functions, RETURN_ZERO, TABLE)
    names = [strings.add(name) for name in named]
    soname_at = strings.add(soname)
    versions = _versions(strings, soname, version) if version else b""
    count = 1 + len(names)
    slots, codes = len(functions), len(functions) + 1
    hashed = _hash_table(named)
    symbol_versions = struct.pack(f"<{count}H", 0, *[_GLOBAL_VERSION if version else 1] * len(names))
    # The parts in file order: read-only data, the stubs, then on a new page the writable data.
    sizes = (count * _SYMBOL, len(strings.text), len(hashed), len(symbol_versions), len(versions), codes * _STUB)
    places = _places(_HEADER + 4 * _SEGMENT, sizes)
    symbols_at, strings_at, hash_at, symbol_versions_at, versions_at, stubs_at = places
    end = stubs_at + codes * _STUB
    dynamic_at = -(-end // _PAGE) * _PAGE
    entries = [(14, soname_at), (4, hash_at), (5, strings_at), (6, symbols_at), (10, len(strings.text)), (11, _SYMBOL)]
    if version:
        entries += [(0x6FFFFFF0, symbol_versions_at), (0x6FFFFFFC, versions_at), (0x6FFFFFFD, 2)]
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in (*entries, (0, 0)))
    slots_at = dynamic_at + len(dynamic)
    written = len(dynamic) + 8 * slots
    # `jmp *slot(%rip)` and two bytes of padding for each function; `xor %eax, %eax; ret` for RETURN_ZERO
    stubs = b"".join(
        b"\xff\x25" + struct.pack("<i", slots_at + 8 * i - (stubs_at + _STUB * i + 6)) + b"\x90\x90"
        for i in range(slots)
    )
    stubs += b"\x31\xc0\xc3".ljust(_STUB, b"\x90")
    symbols = bytes(_SYMBOL) + b"".join(
        struct.pack("<IBBHQQ", name, _FUNCTION, 0, 6, stubs_at + _STUB * i, _STUB) for i, name in enumerate(names[:-1])
    )
    symbols += struct.pack("<IBBHQQ", names[-1], _OBJECT, 0, 7, slots_at, 8 * slots)
    sections, section_names = _sections(places, sizes, dynamic_at, len(dynamic), written)
    image = bytearray(dynamic_at + written)
    segments = [
        (_LOAD, _READ | _EXECUTE, 0, end, _PAGE),
        (_LOAD, _READ | _WRITE, dynamic_at, written, _PAGE),
        (_DYNAMIC, _READ | _WRITE, dynamic_at, len(dynamic), 8),
        (_STACK, _READ | _WRITE, 0, 0, 16),
    ]
    head = _file_header(len(image) + len(section_names), len(sections) // _SECTION)
    head += b"".join(struct.pack("<IIQQQQQQ", k, flags, at, at, at, n, n, align) for k, flags, at, n, align in segments)
    parts = (symbols, strings.text, hashed, symbol_versions, versions, stubs)
    for at, part in ((0, head), *zip(places, parts, strict=True), (dynamic_at, dynamic)):
        image[at : at + len(part)] = part
    return bytes(image) + section_names + sections


class _Strings:
    """A string table under construction."""

    def __init__(self) -> None:
        self.text = b"\0"

    def add(self, name: str) -> int:
        """Append a name and return its offset."""
        at = len(self.text)
        self.text += name.encode() + b"\0"
        return at


def _places(start: int, sizes: Sequence[int]) -> list[int]:
    """Return the offsets of consecutive parts of these sizes, each aligned to 8 bytes."""
    found = []
    for size in sizes:
        start = -(-start // 8) * 8
        found.append(start)
        start += size
    return found


def _versions(strings: _Strings, soname: str, version: str) -> bytes:
    """Return the version definitions: the library's base version (1) and that of its symbols (2)."""
    found = b""
    for flags, index, name, following in ((1, 1, soname, 28), (0, _GLOBAL_VERSION, version, 0)):
        found += struct.pack("<HHHHIII", 1, flags, index, 1, _hash(name), 20, following)
        found += struct.pack("<II", strings.add(name), 0)
    return found


def _hash_table(names: Sequence[str]) -> bytes:
    """Return the table of symbols by hash (System V ABI, 5.11). With one bucket torch's import takes twice as long."""
    count = 1 + len(names)
    buckets, chains = [0] * count, [0] * count
    for number, name in enumerate(names, 1):
        bucket = _hash(name) % count
        chains[number], buckets[bucket] = buckets[bucket], number
    return struct.pack(f"<{2 + 2 * count}I", count, count, *buckets, *chains)


def _hash(name: str) -> int:
    """Return the ELF hash of a name."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF000_0000
        value = (value ^ high >> 24) & ~high
    return value


def _sections(
    places: Sequence[int], sizes: Sequence[int], dynamic_at: int, dynamic_bytes: int, written: int
) -> tuple[bytes, bytes]:
    """Return the section headers, which linkers need, and the table of their names."""
    names = _Strings()
    alloc, write, execute = 2, 1, 4
    kinds = (
        (".dynsym", 11, alloc, 2, 1, _SYMBOL),
        (".dynstr", 3, alloc, 0, 0, 0),
        (".hash", 5, alloc, 1, 0, 4),
        (".gnu.version", 0x6FFFFFFF, alloc, 1, 0, 2),
        (".gnu.version_d", 0x6FFFFFFD, alloc, 2, 2 if sizes[4] else 0, 0),
        (".text", 1, alloc | execute, 0, 0, 0),
        (".data", 1, alloc | write, 0, 0, 0),
        (".dynamic", 6, alloc | write, 2, 0, 16),
    )
    found = bytes(_SECTION)
    places = (*places, dynamic_at + dynamic_bytes, dynamic_at)
    sizes = (*sizes, written - dynamic_bytes, dynamic_bytes)
    for (name, kind, flags, link, info, each), at, size in zip(kinds, places, sizes, strict=True):
        found += struct.pack("<IIQQQQIIQQ", names.add(name), kind, flags, at, at, size, link, info, 8, each)
    at = names.add(".shstrtab")
    text = names.text + bytes(-len(names.text) % 8)
    return found + struct.pack("<IIQQQQIIQQ", at, 3, 0, 0, dynamic_at + written, len(text), 0, 0, 1, 0), text


def _file_header(sections_at: int, sections: int) -> bytes:
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    shared, machine = 3, 62
    numbers = (shared, machine, 1, 0, _HEADER, sections_at, 0, _HEADER, _SEGMENT, 4, _SECTION, sections, sections - 1)
    return identity + struct.pack("<HHIQQQIHHHHHH", *numbers)
