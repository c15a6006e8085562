"""The table of docs/reference/mutants.md: the outcomes of the mutants of each file, between two markers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from emulator.chip import NAME as CHIP
from harness.host.files import write_atomically
from lab.mutants.operators import Mutant
from lab.mutants.results import Equivalent, Result

BEGIN = f"<!-- mutants of {CHIP}: begin, written by `make mutants` -->"
END = f"<!-- mutants of {CHIP}: end -->"
#: Columns of the table, and what killed a mutant that counts there.
KILLED = {
    "wrong result": ("figure", "bits", "guard", "test", "error"),
    "emulator's finding": ("finding", "deadlock"),
    "rejected arguments": ("refused",),
    "does not compile": ("import", "compile"),
    "does not end": ("timeout",),
    "too slow": ("clock",),
}
HEAD = ("file", "mutants", *KILLED, "same code", "equivalent", "beyond the emulator", "unfinished", "holes")


def render(mutants: Sequence[Mutant], had: Mapping[str, Result], listed: Mapping[str, Equivalent]) -> str:
    """Return the table, a row a file and one for all."""
    rows: dict[str, Counter[str]] = {}
    for each in mutants:
        for row in (each.path, "all"):
            rows.setdefault(row, Counter()).update(["mutants", column(had.get(each.id), listed.get(each.id))])
    whole = rows.pop("all", Counter())
    lines = [HEAD, ("---", *["---:"] * (len(HEAD) - 1))]
    lines += [(f"`{path}`", *(str(row[name]) for name in HEAD[1:])) for path, row in rows.items()]
    lines += [("all", *(str(whole[name]) for name in HEAD[1:]))]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def column(result: Result | None, listed: Equivalent | None) -> str:
    """Return the column that a mutant counts in."""
    if listed is not None:
        return "beyond the emulator" if listed.limit else "equivalent"
    if result is None or result.outcome == "suspect":
        return "unfinished"
    if result.outcome != "killed":
        return "same code" if result.outcome == "same code" else "holes"
    return next((name for name, hows in KILLED.items() if result.how in hows), "wrong result")


def update(page: Path, table: str) -> None:
    """Rewrite the table of a page. Raises ValueError for a page without the markers."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} needs the lines {BEGIN} and {END}, in that order")
    write_atomically(page, f"{before}{BEGIN}\n{table}{END}{after}".encode())
