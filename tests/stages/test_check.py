"""A figure says enough digits to tell it from its pin."""

import math

import pytest

from stages.check import Figure


@pytest.mark.parametrize(
    ("value", "pin", "text"),
    [
        (0.999996999, 0.999997, "O.cosine = 0.999996999, at least 0.999997: FAILS"),
        (0.99999699999999, 0.999997, "O.cosine = 0.99999699999999, at least 0.999997: FAILS"),
        (0.9999975, 0.999997, "O.cosine = 0.9999975, at least 0.999997: holds"),
        (0.999997, 0.999997, "O.cosine = 0.999997, at least 0.999997: holds"),
        (math.nan, 0.999997, "O.cosine = nan, at least 0.999997: FAILS"),
    ],
)
def test_a_figure_never_reads_as_its_pin_and_fails(value: float, pin: float, text: str) -> None:
    assert str(Figure("O", "cosine", value, "at least", pin, value >= pin)) == text
