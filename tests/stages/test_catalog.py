"""The catalog of milestones."""

from pathlib import Path

import pytest

from stages import catalog
from stages.catalog import CATALOG, GATE, Milestone, NotBuilt, UnknownMilestone, find, runnable

IDS = [milestone.id for milestone in CATALOG]


def test_the_milestones_each_need_the_one_below() -> None:
    assert len(set(IDS)) == len(IDS)
    assert [milestone.needs for milestone in CATALOG] == [None, *IDS[:-1]]


def test_the_example_of_the_page_needs_the_last_one() -> None:
    page = (Path(catalog.__file__).parents[1] / "docs/howto/milestone.md").read_text()
    assert f'Milestone("D9", "{IDS[-1]}", ' in page


def test_the_gate_is_built() -> None:
    assert GATE.id == "D1.1"
    assert runnable("d1.1") is GATE


def test_an_unknown_milestone_names_those_that_exist() -> None:
    with pytest.raises(UnknownMilestone) as caught:
        find("D99")
    assert all(name in str(caught.value) for name in ["'D99'", *IDS])


def test_all_are_built() -> None:
    assert all(milestone.built for milestone in CATALOG)


def test_a_milestone_without_a_module_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "CATALOG", (*CATALOG, Milestone("D99", IDS[-1], "the next feature")))
    with pytest.raises(
        NotBuilt, match=rf"D99 is not built yet \(the next feature\); built so far: D1.1, .*, {IDS[-1]}$"
    ):
        runnable("D99")
