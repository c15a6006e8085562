"""The command line of the corpus, see the package."""

from __future__ import annotations

import sys
import time

from .corpus import MODES, Bug, bugs, run


def main() -> int:
    """Run the bugs that the arguments name, or all, and print a row for each.

    Return 1 if a mode misses a bug that it has to find, or reports something in a correct program.
    """
    chosen = [bug for bug in bugs() if not sys.argv[1:] or {bug.program, bug.name} & set(sys.argv[1:])]
    if not chosen:
        names = ", ".join(dict.fromkeys(bug.program for bug in bugs()))
        print(f"no such bug: {' '.join(sys.argv[1:])}; there are {names}", file=sys.stderr)
        return 2
    print(f"{'bug':34}{''.join(f'{mode:11}' for mode in MODES)}{'seconds':>8}  reports")
    found = {bug: _row(bug) for bug in chosen}
    stopped = [program for program in dict.fromkeys(bug.program for bug in chosen) if not _is_clean(program)]
    for program in stopped:
        print(f"{program}: the correct program is not clean")
    print(f"found {sum(found.values())} of {len(found)}")
    return int(bool(stopped) or any(bug.modes and not seen for bug, seen in found.items()))


def _row(bug: Bug) -> bool:
    """Run a bug in every mode, and print the row. Return whether all modes that have to find it do."""
    began = time.perf_counter()
    levels = {mode: run(bug.program, bug.name, mode).word for mode in MODES}
    seconds = time.perf_counter() - began
    shown = "".join(f"{word if word != 'clean' else '-':11}" for word in levels.values())
    print(f"{bug.program + ' ' + bug.name:34}{shown}{seconds:8.2f}  {', '.join(bug.reports)}", flush=True)
    return bool(bug.modes) and all(levels[mode] == bug.level for mode in bug.modes)


def _is_clean(program: str) -> bool:
    return all(run(program, None, mode).right for mode in MODES)


if __name__ == "__main__":
    sys.exit(main())
