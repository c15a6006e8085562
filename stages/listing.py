"""The names of each milestone's cases and of their results, `cases.toml`.

A supervisor, which imports nothing that it judges with, reads there which cases a record must have. The first table has
the milestone that each one needs, the last those that the gate takes from other milestones.
`python -m stages.listing` writes the file.
"""

from pathlib import Path

from stages.catalog import CATALOG, FOLDER, GATE
from stages.gate import in_gate

FILE = FOLDER / "cases.toml"
HEAD = "# The cases of each milestone with their results; written by `python -m stages.listing`.\n"


def listing() -> str:
    """Return the text of the file."""
    built = [each for each in CATALOG if each.built]
    lines = [HEAD, "\n[needs]\n", *(f'"{each.id}" = "{each.needs}"\n' for each in built if each.needs)]
    for milestone in built:
        lines.append(f'\n["{milestone.id}"]\n')
        lines += [f'"{case.name}" = "{" ".join(case.tensors)}"\n' for case in milestone.load().CASES]
    lines.append(f'\n["{GATE.id} beside"]\n')
    for milestone in built[1:]:
        if names := [case.name for case in milestone.load().CASES if in_gate(case)]:
            lines += [f'"{milestone.id}" = [\n', *(f'    "{name}",\n' for name in names), "]\n"]
    return "".join(lines)


def main(file: Path = FILE) -> None:
    """Write the file."""
    file.write_text(listing())


if __name__ == "__main__":
    main()
