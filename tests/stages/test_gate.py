"""The cases that the gate takes from milestones that were accepted before."""

import pytest

from harness.paths import ROOT
from stages.catalog import CATALOG, GATE, Milestone, find
from stages.listing import OTHERS as CHOSEN
from stages.listing import gate
from stages.proofs import asked

OTHERS = [each for each in CATALOG if each is not GATE]
TAKEN = GATE.beside([each.id for each in OTHERS])
ALWAYS, DRAWN = gate()
EVERY = [case for each in OTHERS for case in each.load().CASES if case.head_dim == 64]


def test_the_gate_has_all_cases_of_its_configurations_and_one_of_the_others_is_drawn() -> None:
    assert TAKEN == ALWAYS and {case.config for case in GATE.load().CASES} <= {case.config for case in TAKEN}
    assert sorted(map(repr, [*ALWAYS, *(case for group in DRAWN for case in group)])) == sorted(map(repr, EVERY))
    for group in DRAWN:
        assert len({case.config for case in group}) == 1 and group[0].config not in {case.config for case in ALWAYS}
        assert GATE.beside([GATE.name_of(case) for case in group]) == group


@pytest.mark.parametrize("name", CHOSEN)
def test_the_cases_with_other_configurations_are_there(name: str) -> None:
    assert list(map(GATE.name_of, TAKEN)).count(name) == 1


def test_the_gate_takes_cases_of_head_dim_64_with_more_keys_than_a_tile() -> None:
    assert {case.head_dim for case in TAKEN} == {64}
    assert sum(case.keys > case.kv_tile for case in TAKEN) >= 30
    assert len({case.config for case in TAKEN}) <= 6, "each configuration costs the gate two CPU seconds"


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


def test_the_documentation_says_what_it_leaves_out() -> None:
    page = " ".join((ROOT / "docs/explanation/judge.md").read_text().split())
    taken, configurations = len({case.config for case in TAKEN}), len({case.config for case in EVERY})
    assert f"These are {len(TAKEN)} of {len(EVERY)} cases, with {taken} of {configurations} configurations." in page
    assert {feature.name for case in TAKEN for feature in asked(case)} == {
        "both products in one launch",
        "P in shared memory",
        "P in tensor memory",
        "split keys",
        "two Q tiles",
        "CTAs up to sms",
        "whole keys",
        "keys by TMA",
    }
    for special in ("shared_kv", "compressed"):
        assert not any(getattr(case, special) for case in TAKEN), special
