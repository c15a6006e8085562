"""The catalog of milestones."""

import pytest

from stages import catalog
from stages.catalog import CATALOG, GATE, Milestone, NotBuilt, UnknownMilestone, find, runnable

PLANNED = ["D1.1", "D1.2", "D1.3", "D1.4", "D1.5", "D2", "D3", "D4", "D5a", "D5b", "D5c", "D5d"]


def test_the_milestones_each_need_the_one_below() -> None:
    assert [milestone.id for milestone in CATALOG] == PLANNED
    assert [milestone.needs for milestone in CATALOG] == [None, *PLANNED[:-1]]


def test_the_gate_is_built() -> None:
    assert GATE.id == "D1.1"
    assert runnable("d1.1") is GATE


def test_an_unknown_milestone_names_those_that_exist() -> None:
    with pytest.raises(UnknownMilestone) as caught:
        find("D9")
    assert all(name in str(caught.value) for name in ["'D9'", *PLANNED])


def test_all_are_built() -> None:
    assert all(milestone.built for milestone in CATALOG)


def test_a_milestone_without_a_module_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "CATALOG", (*CATALOG, Milestone("D6", "D5d", "what comes next")))
    with pytest.raises(NotBuilt, match=r"D6 is not built yet \(what comes next\); built so far: D1.1, .*, D5d$"):
        runnable("D6")
