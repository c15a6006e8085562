"""The pins are complete, few, and those of every milestone."""

import tomllib
from copy import deepcopy

import pytest

from stages.case import Case
from stages.catalog import CATALOG
from stages.catalog import FILE as CASES_FILE
from stages.listing import listing
from stages.metrics import METRICS
from stages.tolerances import FILE, PinError, added_up, check, most_cycles, pins

MOST_LINES = 200


def test_every_milestone_has_pins_of_every_metric() -> None:
    for milestone in CATALOG:
        for gpu in (False, True):
            found = pins(milestone.id, gpu)
            assert {tensor: set(bounds) for tensor, bounds in found.items()} == {
                tensor: {metric.name for metric in metrics} for tensor, metrics in METRICS.items()
            }


def test_the_pins_are_few() -> None:
    assert len(FILE.read_text().splitlines()) <= MOST_LINES


def test_a_milestone_may_only_tighten_a_bound_of_the_model() -> None:
    """The bounds in standard deviations are universal; floors of a milestone name other figures."""
    of_model = {"z", "z_square", "z_factor", "z_row", "z_key", "limit", "masks"}
    table = tomllib.loads(FILE.read_text())
    for milestone in CATALOG:
        for tensor, bounds in table.get(milestone.id, {}).items():
            names = set(bounds) if tensor != "gpu" else {name for each in bounds.values() for name in each}
            assert not names & of_model, f"{milestone.id} {tensor}"


def test_a_gpu_may_only_loosen_errors_of_statistics() -> None:
    """Its tensor core truncates the sums of logits."""
    for milestone in CATALOG:
        emulated, on_gpu = pins(milestone.id), pins(milestone.id, gpu=True)
        assert (on_gpu["O"], on_gpu["U"]) == (emulated["O"], emulated["U"])
        assert on_gpu["lse"]["error"] >= emulated["lse"]["error"]


def test_a_milestone_without_a_table_has_the_pins_of_every_one() -> None:
    assert pins("D99")["O"]["z"] == 8.5
    assert added_up() > 5


def test_every_table_is_of_a_milestone() -> None:
    assert tomllib.loads(FILE.read_text()).keys() - {"every", "every_seed"} <= {each.id for each in CATALOG}


def test_a_metric_without_a_pin_and_an_unknown_one_are_rejected() -> None:
    table = deepcopy(pins("D1.1"))
    del table["O"]["z_key"]
    with pytest.raises(PinError, match=r"here: O must pin .*z_key"):
        check(table, "here")
    with pytest.raises(PinError, match="there are O, U, lse, m, but pins of P"):
        check({"P": {}}, "here")


def test_the_listing_of_cases_is_up_to_date() -> None:
    """`python -m stages.listing` writes it."""
    assert CASES_FILE.read_text() == listing()


def test_no_case_is_in_a_milestone_twice() -> None:
    for milestone in CATALOG:
        cases: list[Case] = list(milestone.load().CASES)
        assert len({case.name for case in cases}) == len(cases)


@pytest.mark.parametrize("chip", ["b200", "h200"])
def test_milestones_pin_their_cycles(chip: str) -> None:
    for milestone in CATALOG:
        cases = milestone.load().CASES
        pinned = most_cycles(milestone.id, cases, 0.5, chip)
        assert list(pinned) == [case.name for case in cases[: len(pinned)]]
        assert min(pinned.values()) > 1000


def test_a_margin_is_a_share_of_the_pin_and_every_pin_has_a_case() -> None:
    first, other = CATALOG[0].load().CASES
    pinned = most_cycles("D1.1", [first, other], 0.0)
    assert most_cycles("D1.1", [first, other], 0.5) == {case: 1.5 * cycles for case, cycles in pinned.items()}
    for milestone, cases, there in (("D1.1", [first], "2"), ("D99", [first], "0")):
        with pytest.raises(PinError, match=f"cycles of {there} cases of {milestone}, which has 1: make pin-cycles"):
            most_cycles(milestone, cases, 0.0)
