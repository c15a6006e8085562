"""Published bugs are found in every completion mode that they ask for. The programs without them are clean."""

from __future__ import annotations

import pytest

from emulator.machine.order.completion import Completion
from lab.bugs.corpus import MODES, Bug, bugs, run
from lab.bugs.programs import HERE, PROGRAMS, bugs_of

FOUND = [(bug, mode) for bug in bugs() for mode in bug.modes]


@pytest.mark.parametrize(("bug", "mode"), FOUND, ids=[f"{bug.program}-{bug.name}-{mode}" for bug, mode in FOUND])
def test_every_mode_finds_it(bug: Bug, mode: Completion) -> None:
    outcome = run(bug.program, bug.name, mode)
    assert outcome.word == bug.level, outcome.report


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_correct_program_is_clean(program: str, mode: Completion) -> None:
    outcome = run(program, None, mode, level="formal")
    assert outcome.right, outcome.report


def test_each_program_and_bug_is_listed() -> None:
    assert {path.stem for path in HERE.glob("*.ptx")} == set(PROGRAMS)
    listed = [(bug.program, bug.name) for bug in bugs()]
    assert sorted(listed) == sorted((program, bug) for program in PROGRAMS for bug in bugs_of(program))


def test_the_arrival_of_too_narrow_a_scope_is_named() -> None:
    assert (
        "missing     scope .cluster in place of .cta in mbarrier.arrive" in run("pair_operands", "scope", "lazy").report
    )
