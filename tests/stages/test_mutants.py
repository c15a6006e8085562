"""The mutant suite: what it consists of, and that the comparison refuses each."""

import pytest

from stages.case import Case, draw, reference
from stages.check import compare, failing
from stages.d1_1 import CASES, SEEDS
from stages.metrics import DIFF, measure
from stages.mutants import Mutant, mutants, right

CASE = CASES[0]
TWO_TILES = Case("none", head_dim=64, keys=200)


@pytest.mark.parametrize("seed", [*SEEDS, 1234])
def test_the_rounded_reference_is_admitted(seed: int) -> None:
    inputs = draw(CASE, seed)
    assert not failing(compare(CASE, right(CASE, inputs), reference(CASE, inputs)))


@pytest.mark.parametrize("mutant", mutants(CASE), ids=str)
def test_every_mutant_is_refused(mutant: Mutant) -> None:
    inputs = draw(CASE, SEEDS[0])
    sound = right(CASE, inputs)
    assert failing(compare(CASE, mutant.make(inputs, sound), reference(CASE, inputs)))


def test_the_suite_has_every_kind_that_the_shape_allows() -> None:
    names = " / ".join(mutant.name for mutant in mutants(CASE))
    for kind in (
        "O: scaled by 2",
        "U: scaled by 1.01",
        "O: one row zeroed",
        "O: two rows swapped",
        "O: a 128x16 sub-tile swapped",
        "a key past the end let in",
        "lse: in base 2",
        "O: one element unwritten",
        "U: one row NaN",
    ):
        assert kind in names
    assert "tile read" not in names, "one tile has no other tile to be mistaken for"


@pytest.mark.parametrize("name", ["the first KV tile read for every tile", "the last KV tile dropped"])
def test_several_tiles_can_be_mistaken_for_each_other(name: str) -> None:
    inputs = draw(TWO_TILES, 0)
    mutant = next(each for each in mutants(TWO_TILES) if each.name == name)
    sound = right(TWO_TILES, inputs)
    wrong = mutant.make(inputs, sound)
    assert not DIFF.holds(measure(wrong["O"], sound["O"])["diff"], 5e-6)
