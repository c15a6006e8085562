"""Selection and order of the cases that a mutant is run against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from lab.mutants.baseline import Known, KnownTest
from lab.mutants.operators import Mutant

ROUNDS = (3, 12, 1000)
"""Number of configurations in each round. Every mutant gets the first round, survivors of a round get the next one."""


Runs = TypeVar("Runs", Known, KnownTest)
Group = TypeVar("Group")


def using(mutant: Mutant, known: Sequence[Runs]) -> list[Runs]:
    """Return the cases or tests that run a line of a mutant; all where it is a module's or a class's own line."""
    if not _in_function(mutant):
        return list(known)
    lines = set(range(mutant.line, mutant.last_line + 1))
    return [each for each in known if lines & set(each.lines.get(mutant.path, ()))]


def ordered(cases: Sequence[Known], killer: str = "") -> list[list[Known]]:
    """Return the cases by configuration: the fastest, then those that bring most of what is new for their time.

    killer: the case or the milestone that killed the mutant in an earlier run; it comes first, each case alone.
    """
    groups: dict[str, list[Known]] = {}
    found = []
    for case in sorted(cases, key=lambda each: each.seconds):
        if killer in (case.key, case.milestone):
            found.append([case])
        else:
            groups.setdefault(case.config, []).append(case)
    left, seen = dict(groups), set[str]()
    while left:
        new = {name: len(_features(group) - seen) + 0.1 if seen else 1.0 for name, group in left.items()}
        best = max(left, key=lambda name: new[name] / _seconds(left[name]))
        seen |= _features(left[best])
        found.append(left.pop(best))
    return found


def _features(group: Sequence[Known]) -> set[str]:
    """Return the features of a configuration's cases: the words of its name, and of its cases' names."""
    words = " ".join(case.name for case in group).split()
    return {*group[0].config.split("_"), *(word.partition("=")[0] for word in words)}


def _seconds(group: Sequence[Known]) -> float:
    """Return about how long a configuration takes: to compile, alike for all, and to launch three times."""
    return 2.0 + 3 * sum(case.seconds for case in group)


def _in_function(mutant: Mutant) -> bool:
    return mutant.function.rpartition(".")[2][:1].islower() or mutant.function.rpartition(".")[2].startswith("_")


def in_round(number: int, groups: Sequence[Group]) -> Sequence[Group]:
    """Return the groups of a round, counted from 0."""
    begin = sum(ROUNDS[:number])
    return groups[begin : begin + ROUNDS[number]]


def is_last(number: int, groups: Sequence[Group]) -> bool:
    """Return True if no group is left after a round."""
    return sum(ROUNDS[: number + 1]) >= len(groups)
