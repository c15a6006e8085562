"""The list of instruction forms, the test whether the emulator supports a form, and a table by family."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import EmulatorError
from ..program import Program
from ..ptx.kinds import split
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
        """The opcode of its entry in the emulator's registry."""
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


@dataclass(frozen=True)
class Family:
    """The forms of one opcode in one section, each with the emulator's error message or None."""

    name: str
    section: str
    title: str
    forms: tuple[tuple[Form, str | None], ...]

    @property
    def rejected(self) -> tuple[Form, ...]:
        """The unsupported forms."""
        return tuple(form for form, reason in self.forms if reason is not None)

    @property
    def state(self) -> str:
        """ "supported", "partly" or "rejected"."""
        if not self.rejected:
            return "supported"
        return "rejected" if len(self.rejected) == len(self.forms) else "partly"


def families(forms: Iterable[Form]) -> list[Family]:
    """Test every form; return the families in the order of their first form."""
    found: dict[tuple[str, str, str], list[tuple[Form, str | None]]] = defaultdict(list)
    for form in forms:
        found[form.family, form.section, form.title].append((form, form.error()))
    return [Family(*key, tuple(answers)) for key, answers in found.items()]


def markdown(rows: Iterable[Family]) -> str:
    """Return the table as GitHub Markdown, one chapter per section, with totals."""
    rows = list(rows)
    lines = ["# PTX that the emulator runs", "", _totals(rows)]
    chapter = None
    for row in rows:
        if (row.section, row.title) != chapter:
            chapter = row.section, row.title
            lines += ["", f"## {row.title} [PTX ISA {row.section}]", ""]
            lines += ["| family | state | forms | rejected |", "|---|---|---|---|"]
        rejected = ", ".join(f"`{name}`" for name in dict.fromkeys(form.spelling for form in row.rejected))
        accepted = len(row.forms) - len(row.rejected)
        lines.append(f"| `{row.name}` | {row.state} | {accepted} of {len(row.forms)} | {rejected} |")
    return "\n".join(lines) + "\n"


def _totals(rows: list[Family]) -> str:
    count = {state: sum(row.state == state for row in rows) for state in ("supported", "partly", "rejected")}
    forms = sum(len(row.forms) for row in rows)
    rejected = sum(len(row.rejected) for row in rows)
    families_said = ", ".join(f"{number} {state}" for state, number in count.items())
    return f"{forms - rejected} of {forms} forms run. Families: {families_said}."
