"""The names of each milestone's cases and of their results, `cases.toml`.

A supervisor, which imports nothing that it judges with, reads there which cases a record must have. The first table has
the milestone that each one needs. The last two have cases of head dim 64 that the gate takes from other milestones:
those of each run, and lists of which it draws one or more. `python -m stages.listing` writes the file.

Compiling a configuration takes 2 CPU seconds, a further case of it 0.1. So a list has the cases of a configuration, and
each run has all cases of D1.1's and of those of OTHERS. The configurations are a B200's: a process that judges has no
code of the kernel's, which knows them.
"""

from itertools import groupby

from stages.case import Case
from stages.catalog import CATALOG, FILE, GATE

HEAD = "# The cases of each milestone with their results; written by `python -m stages.listing`.\n"
#: One case of each configuration that the gate takes beside D1.1's: split keys, P in shared memory, two Q tiles
#: with and without sms and lengths, and a window.
OTHERS = (
    "D1.2 hd=64 n=700 growing splits=2",
    "D1.3 hd=64 n=128 P in smem",
    "D2 hd=64 n=580 B=3 T=3 H=64 growing sms=2",
    "D3 hd=64 n=330 B=3 T=3 H=64 lens=400,321,-3 sms=2 peak=32",
    "D4 hd=64 n=400 B=3 T=4 H=16 lens=300,128,2 W=128",
)


def listing() -> str:
    """Return the text of the file."""
    built = [each for each in CATALOG if each.built]
    lines = [HEAD, "\n[needs]\n", *(f'"{each.id}" = "{each.needs}"\n' for each in built if each.needs)]
    for milestone in built:
        lines.append(f'\n["{milestone.id}"]\n')
        lines += [f'"{case.name}" = "{" ".join(case.tensors)}"\n' for case in milestone.load().CASES]
    always, drawn = gate()
    lines.append(f'\n["{GATE.id} beside"]\n')
    for milestone_id, cases in groupby(always, key=lambda each: each.milestone):
        lines += [f'"{milestone_id}" = [\n', *(f'    "{case.name}",\n' for case in cases), "]\n"]
    lines.append(f'\n["{GATE.id} drawn"]\n')
    for number, group in enumerate(drawn, 1):
        lines += [f"{number} = [\n", *(f'    "{GATE.name_of(case)}",\n' for case in group), "]\n"]
    return "".join(lines)


def gate() -> tuple[list[Case], list[list[Case]]]:
    """Return the cases of head dim 64 that each run of the gate has, and the others by configuration."""
    every = [case for each in CATALOG if each is not GATE for case in each.load().CASES if case.head_dim == 64]
    by_config = {each.config: [case for case in every if case.config == each.config] for each in every}
    own = {case.config for case in (*GATE.load().CASES, *(each for each in every if GATE.name_of(each) in OTHERS))}
    return [each for each in every if each.config in own], [by_config[each] for each in by_config if each not in own]


def main() -> None:
    """Write the file."""
    FILE.write_text(listing())


if __name__ == "__main__":
    main()
