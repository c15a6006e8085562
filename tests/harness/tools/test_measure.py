"""The largest figures of a sweep."""

from harness.judge.sweep import Measured
from harness.tools.measure import largest


def test_the_figure_that_is_furthest_from_right_is_named_with_its_seed() -> None:
    measured = [
        Measured("hd=64", 1, {"O cosine": 0.9999, "O z": 3.0}),
        Measured("hd=64", 2, {"O cosine": 0.9998, "O z": -4.5}),
    ]
    cosine, z = largest(measured)
    assert "0.9998" in cosine and "seed=2" in cosine
    assert "4.5" in z and "seed=2" in z
