"""Results of the mutants, one line of JSON each, and the mutants that no input can tell from the kernel."""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from emulator.chip import NAME as CHIP
from harness.host.files import write_atomically

EQUIVALENT = Path(__file__).with_name("equivalent.toml")
KEPT = Path(__file__).with_name("kept.csv" if CHIP == "b200" else f"kept.{CHIP}.csv")
"""Results that last: of mutants that are killed or compile to the same code, while their function stays as it is."""
LASTING = ("killed", "same code")  # a kept result is the second if it has no `how`
COLUMNS = ("id", "how", "case", "function")


class Result(msgspec.Struct):
    """The outcome of one mutant. outcome: "killed", "same code", "hole", or "suspect" while cases are left to run.

    how: the observed difference from the right kernel. case: the case that showed it; of a kept result, its milestone
    or test. function, stages: digests of the mutant's function without comments, and of kernel and stages. The result
    of a killed mutant is valid while its function is unchanged; that of a hole while kernel and stages are. rounds:
    rounds of configurations that a suspect survived. affected: milestones whose code or results it changed in them.
    """

    id: str
    outcome: str
    how: str = ""
    case: str = ""
    says: str = ""
    seconds: float = 0.0
    cases: int = 0
    function: str = ""
    stages: str = ""
    rounds: int = 0
    affected: list[str] = []


class Equivalent(msgspec.Struct, frozen=True):
    """A mutant that is not run: its id, the text of its line, and why no case can tell it from the kernel.

    limit: what the emulator does not model, where a GPU could tell; empty where the mutant computes the same. chip: the
    only one for which that holds; empty for all.
    """

    id: str
    line: str
    reason: str
    limit: str = ""
    chip: str = ""


def load(path: Path) -> dict[str, Result]:
    """Return the newest result of each mutant: those kept in the tree, then those of `path`."""
    kept = csv.DictReader(KEPT.read_text().splitlines())
    found = {row["id"]: msgspec.convert(row | {"outcome": LASTING[not row["how"]]}, Result) for row in kept}
    if path.exists():
        lines = [msgspec.json.decode(line, type=Result) for line in path.read_bytes().splitlines() if line]
        found |= {each.id: each for each in lines}
    return found


def keep(results: Iterable[Result]) -> None:
    """Write the results that last into the tree."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    lasting = sorted((each for each in results if each.outcome in LASTING), key=lambda each: each.id)
    short = (replace(each, case=each.case.partition("[" if each.how == "test" else " ")[0]) for each in lasting)
    table.writerows([getattr(each, name) for name in COLUMNS] for each in short)
    write_atomically(KEPT, text.getvalue().encode())


def append(path: Path, results: Iterable[Result]) -> None:
    """Add results to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        for each in results:
            file.write(msgspec.json.encode(each) + b"\n")


def equivalents(chip: str = CHIP) -> dict[str, Equivalent]:
    """Return the mutants that are listed as equivalent on a chip."""
    listed = msgspec.convert(tomllib.loads(EQUIVALENT.read_text())["equivalent"], list[Equivalent])
    return {each.id: each for each in listed if each.chip in ("", chip)}
