"""The coverage table: one row per instruction family."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from .forms import Form


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
