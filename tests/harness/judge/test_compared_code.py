"""Machine code of two processes is compared without the debug information, which names the folder of the sources."""

import struct
from pathlib import Path

import pytest

from emulator.recordings.format import RecordingError
from harness.judge.recordings import machine_code

HEADER_BYTES = SECTION_BYTES = 64


def cubin(path: Path, sections: dict[str, bytes]) -> Path:
    """Write an ELF file with the sections and a table of their names."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in (*sections, ".shstrtab"))
    body, headers = b"", b""
    for name, data in (*sections.items(), (".shstrtab", names)):
        at = names.index(name.encode() + b"\0")
        headers += struct.pack("<IIQQQQIIQQ", at, 1, 0, 0, HEADER_BYTES + len(body), len(data), 0, 0, 0, 0)
        body += data
    count = len(sections) + 1
    fixed = b"\x7fELF\x02\x01".ljust(0x28, b"\0") + struct.pack("<Q", HEADER_BYTES + len(body))
    path.write_bytes(fixed.ljust(0x3A, b"\0") + struct.pack("<HHH", SECTION_BYTES, count, count - 1) + body + headers)
    return path


def test_only_debug_information_may_differ(tmp_path: Path) -> None:
    one = cubin(tmp_path / "one", {".text.f": b"code", ".debug_line": b"/here/f.py", ".nv.merc.rela.debug_line": b"1"})
    elsewhere = cubin(tmp_path / "two", {".text.f": b"code", ".debug_line": b"/f.py", ".nv.merc.rela.debug_line": b"2"})
    other = cubin(tmp_path / "three", {".text.f": b"cope", ".debug_line": b"/here/f.py"})
    assert machine_code(one) == machine_code(elsewhere) != machine_code(other)


def test_code_of_a_kernel_is_compared_whatever_its_name(tmp_path: Path) -> None:
    name = ".text.debug_"
    assert machine_code(cubin(tmp_path / "one", {name: b"1"})) != machine_code(cubin(tmp_path / "two", {name: b"2"}))


@pytest.mark.parametrize("data", [b"", b"text", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + b"\xff" * 90], ids=len)
def test_a_damaged_file_is_rejected(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "damaged"
    path.write_bytes(data)
    with pytest.raises(RecordingError, match="damaged is no machine code"):
        machine_code(path)
