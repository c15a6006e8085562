"""The list of instruction forms, and the test whether the emulator supports a form."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import EmulatorError
from ..program import Program
from ..ptx.families import split
from ..ptx.parser import parse

LIST = Path(__file__).with_name("forms.ptx")
_HEADING = re.compile(r"==\s*([\d.]+)\s*\|\s*(.+)")
_KERNEL = """.version 9.1
.target sm_100a
.address_size 64
.visible .entry coverage() {{
.reg .pred %p<16>; .reg .b8 %b<16>; .reg .b16 %h<16>; .reg .b32 %r<16>; .reg .b64 %d<16>; .reg .b128 %q<16>;
{text}
LABEL:
ret;
}}
"""


@dataclass(frozen=True)
class Form:
    """One instruction form in PTX syntax, with the PTX ISA section that describes it."""

    section: str
    title: str
    text: str

    @property
    def spelling(self) -> str:
        """The opcode and modifiers, without guard and operands."""
        words = self.text.rstrip(";").split()
        return words[1] if words[0].startswith("@") else words[0]

    @property
    def family(self) -> str:
        """The opcode under which the emulator's registry has it."""
        return split(self.spelling)[0]

    def error(self) -> str | None:
        """Return None if the emulator supports the form, else the first line of its error message."""
        try:
            (kernel,) = parse(_KERNEL.format(text=self.text)).kernels.values()
            Program(kernel)
        except EmulatorError as error:
            return str(error).splitlines()[0]
        return None


def read_forms(path: Path = LIST) -> Iterator[Form]:
    """Yield the forms of a list with choices expanded. Raises ValueError for a form before the first heading."""
    section: tuple[str, str] | None = None
    for line in path.read_text().splitlines():
        line = line.partition("//")[0].strip()
        if heading := _HEADING.match(line):
            section = (heading[1], heading[2])
        elif line:
            if section is None:
                raise ValueError(f"{path.name}: {line!r} stands before the first heading")
            yield from (Form(*section, text) for text in expand(line))


def expand(line: str) -> Iterator[str]:
    """Yield the line for every choice of one alternative per `{a,b}`. Braces with ", %" in them are PTX vectors."""
    parts = re.split(r"(\{[^{}]*\})", line)
    options = [_options(part) for part in parts]
    yield from ("".join(choice) for choice in itertools.product(*options))


def _options(part: str) -> list[str]:
    is_vector = part.startswith("{") and (", %" in part or "," not in part)
    return part[1:-1].split(",") if part.startswith("{") and not is_vector else [part]
