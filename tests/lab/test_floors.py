"""Pins of the figures that people know: no right kernel exceeds them by the error model, and they leave little room."""

import pytest

from lab.floors import of_milestone, pinned
from stages.error_model import ROUNDS, TRUNCATES, TensorCore

#: Figures of D1.1, whose pins are at most this many times what the model implies.
ROOM = 1.5
TIGHT = {("O", "cosine"), ("O", "diff"), ("U", "cosine"), ("U", "diff"), ("lse", "error"), ("m", "error")}


@pytest.mark.parametrize("core", [ROUNDS, TRUNCATES], ids=lambda core: core.name)
def test_pins_of_the_gate_are_what_the_model_implies(core: TensorCore) -> None:
    right = pinned("D1.1", core)
    found = of_milestone("D1.1", core)
    assert all(value <= right[key] for key, value in found.items())
    assert all(right[key] <= ROOM * found[key] for key in TIGHT), {key: (found[key], right[key]) for key in TIGHT}
