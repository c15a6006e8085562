"""The cases that the gate takes from milestones that were accepted before."""

import pytest

from stages.catalog import CATALOG, GATE, Milestone
from stages.gate import MASKED, in_gate, like_gate

OTHERS = [each for each in CATALOG if each is not GATE]
TAKEN = GATE.beside([each.id for each in OTHERS])


def test_cases_like_the_gates_have_its_configuration() -> None:
    """So nothing is compiled for them. The rule names fields, for a judge cannot ask for a configuration."""
    own = {case.config for case in GATE.load().CASES}
    assert len(own) == 1
    assert {case.config for case in TAKEN if like_gate(case)} == own


@pytest.mark.parametrize(("milestone", "name"), [(each, name) for each, names in MASKED.items() for name in names])
def test_the_cases_with_masks_are_there(milestone: str, name: str) -> None:
    assert [(each.milestone, each.name) for each in TAKEN].count((milestone, name)) == 1


def test_the_gate_takes_cases_of_head_dim_64_with_more_keys_than_a_tile() -> None:
    assert {case.head_dim for case in TAKEN} == {64}
    assert sum(case.keys > case.kv_tile for case in TAKEN) >= 15
    assert len({case.config for case in TAKEN}) <= 3, "each configuration costs the gate two seconds"


@pytest.mark.parametrize("milestone", OTHERS, ids=lambda each: each.id)
def test_other_milestones_take_all_cases_of_the_one_that_they_need(milestone: Milestone) -> None:
    needed = milestone.needs
    assert needed is not None
    names = list(map(milestone.name_of, milestone.beside([needed])))
    assert names == [f"{needed} {case}" for case in next(each for each in CATALOG if each.id == needed).load().CASES]
    assert not set(names) & {case.name for case in milestone.launched()}


def test_it_takes_nothing_else() -> None:
    every = [case for each in OTHERS for case in each.load().CASES]
    assert [case for case in every if in_gate(case)] == TAKEN
