"""The cases that the gate takes from milestones that were accepted before."""

import pytest

from harness.paths import ROOT
from stages import gate
from stages.catalog import CATALOG, GATE, Milestone, find
from stages.gate import in_gate, like_gate
from stages.proofs import asked

OTHERS = [each for each in CATALOG if each is not GATE]
TAKEN = GATE.beside([each.id for each in OTHERS])


def test_cases_like_the_gates_have_its_configuration() -> None:
    """So nothing is compiled for them. The rule names fields, for a judge cannot ask for a configuration."""
    own = {case.config for case in GATE.load().CASES}
    assert len(own) == 1
    assert {case.config for case in TAKEN if like_gate(case)} == own


@pytest.mark.parametrize(("milestone", "name"), [(each, name) for each, names in gate.OTHERS.items() for name in names])
def test_the_cases_with_other_configurations_are_there(milestone: str, name: str) -> None:
    assert [(each.milestone, each.name) for each in TAKEN].count((milestone, name)) == 1


def test_the_gate_takes_cases_of_head_dim_64_with_more_keys_than_a_tile() -> None:
    assert {case.head_dim for case in TAKEN} == {64}
    assert sum(case.keys > case.kv_tile for case in TAKEN) >= 15
    assert len({case.config for case in TAKEN}) <= 5, "each configuration costs the gate two CPU seconds"


@pytest.mark.parametrize("milestone", OTHERS, ids=lambda each: each.id)
def test_other_milestones_take_cases_of_all_that_they_build_on(milestone: Milestone) -> None:
    """All of the one that they need, and the first of the others."""
    needed, *further = milestone.prerequisites()
    assert needed == milestone.needs and (further[-1:] or [needed]) == [GATE.id]
    names = list(map(milestone.name_of, milestone.beside([needed, *further])))
    firsts = [find(each).load().CASES[0] for each in further]
    assert names == [f"{case.milestone} {case}" for case in (*find(needed).load().CASES, *firsts)]
    assert not set(names) & {case.name for case in milestone.launched()}
    assert list(map(milestone.name_of, milestone.beside(further))) == [f"{case.milestone} {case}" for case in firsts]


def test_it_takes_nothing_else() -> None:
    every = [case for each in OTHERS for case in each.load().CASES]
    assert [case for case in every if in_gate(case)] == TAKEN


def test_the_documentation_says_what_it_leaves_out() -> None:
    every = [case for each in OTHERS for case in each.load().CASES if case.head_dim == 64]
    configurations = len({case.config for case in every})
    page = " ".join((ROOT / "docs/explanation/judge.md").read_text().split())
    taken = len({case.config for case in TAKEN})
    assert f"These are {len(TAKEN)} of {len(every)} cases, with {taken} of {configurations} configurations." in page
    assert {feature.name for case in TAKEN for feature in asked(case)} == {
        "both products in one launch",
        "P in shared memory",
        "split keys",
        "two Q tiles",
        "CTAs up to sms",
        "whole keys",
        "keys by TMA",
    }
    for special in ("shared_kv", "compressed"):
        assert not any(getattr(case, special) for case in TAKEN), special
