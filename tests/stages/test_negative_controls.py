"""The suite of negative controls: its contents, and that the comparison rejects each."""

import numpy as np
import pytest

from stages.case import Case
from stages.catalog import CATALOG, Milestone
from stages.check import compare, failing
from stages.d1_1 import CASES, SEEDS
from stages.error_model import ErrorModel
from stages.expected import reference
from stages.inputs import draw
from stages.metrics import DIFF, measure
from stages.negative_controls import EDITS, EDITS_OF_ROWS, NegativeControl, negative_controls, right

CASE = CASES[0]
TWO_TILES = Case("none", head_dim=64, keys=200)


@pytest.mark.parametrize("seed", [*SEEDS, 1234])
def test_the_rounded_reference_is_accepted(seed: int) -> None:
    inputs = draw(CASE, seed)
    assert not failing(compare(CASE, right(CASE, inputs), reference(CASE, inputs), ErrorModel(CASE, inputs)))


@pytest.mark.parametrize("control", negative_controls(CASE), ids=str)
def test_every_one_is_rejected(control: NegativeControl) -> None:
    inputs = draw(CASE, SEEDS[0])
    sound = right(CASE, inputs)
    model = ErrorModel(CASE, inputs)
    assert failing(compare(CASE, control.make(inputs, sound), reference(CASE, inputs), model))


def test_the_suite_has_every_kind_that_the_shape_allows() -> None:
    names = " / ".join(control.name for control in negative_controls(CASE))
    for kind in (
        "O: scaled by 2",
        "U: scaled by 1.01",
        "O: one row zeroed",
        "O: two rows swapped",
        "O: a 128x16 sub-tile swapped",
        "a key past the end attended",
        "lse: in base 2",
        "O: one element unwritten",
        "U: one row NaN",
    ):
        assert kind in names
    assert "tile read" not in names, "a case with one KV tile has no other tile to read instead"


@pytest.mark.parametrize("name", ["the first KV tile read for every tile", "the last KV tile dropped"])
def test_several_tiles_can_be_mistaken_for_each_other(name: str) -> None:
    inputs = draw(TWO_TILES, 0)
    control = next(each for each in negative_controls(TWO_TILES) if each.name == name)
    sound = right(TWO_TILES, inputs)
    wrong = control.make(inputs, sound)
    assert not DIFF.holds(measure(wrong["O"], sound["O"])["diff"], 5e-6)


OF_MILESTONES = {
    "D1.2": {"the first KV tile read for every tile", "the last KV tile dropped", "a key past the end attended"},
    "D2": {"the first sequence's keys read for every one"},
    "D3": {"one masked key attended", "no mask"},
    "D4": {"one masked key attended", "one future key attended", "one key before the window attended"},
    "D5b": {"sink scaled by scale", "lse: with the sink", "no compressed keys", "no window"},
    "D5c": {"an incomplete block attended", "-1 read as key 0", "a repeated index counted once"},
    "D5d": {"sink scaled by scale", "sink in base 2", "lse: in base 2", "an incomplete block attended"},
}


#: Their references take longest. `make test-all` judges every milestone, controls included.
LONG = ("D5d", "D6c", "D6d", "D6e", "D6f", "D6g", "D6h")


@pytest.mark.parametrize(
    "milestone",
    [pytest.param(each, id=each.id, marks=[pytest.mark.thorough] if each.id in LONG else []) for each in CATALOG],
)
def test_every_milestone_has_its_negative_controls(milestone: Milestone) -> None:
    """An edit may leave one shape as it is (a window that covers every key, two equal rows), but not most of them."""
    changing = set()
    for case in milestone.load().CASES:
        inputs = draw(case, SEEDS[0])
        sound = right(case, inputs)
        made = {control.name: control.make(inputs, sound) for control in negative_controls(case)}
        idle = {name for name, wrong in made.items() if all(np.array_equal(wrong[x], sound[x]) for x in sound)}
        assert len(idle) <= 3 or case.keys == 0, f"{case}: {idle} change nothing"
        changing |= made.keys() - idle
    assert changing >= OF_MILESTONES.get(milestone.id, set())
    assert changing >= {f"O: {name}" for name in EDITS | EDITS_OF_ROWS}
