"""Whole kernels: the table of their errors, and the ranges that follow from those that were not fitted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.clock.chips import RANGES
from lab import kernels
from lab.kernels import Point, known, ranges, table


def test_the_ranges_follow_from_the_points_that_were_not_fitted() -> None:
    points = known()
    assert RANGES.read_text() == ranges(points)
    wrong = [replace(each, measured_us=1.0) if each.fitted == "yes" else each for each in points]
    assert ranges(wrong) == ranges(points)


def test_a_line_of_the_table() -> None:
    some = [Point("set", "a", "latency", "no", 100.0, 90.0), Point("set", "b", "latency", "no", 200.0, 80.0)]
    assert list(table(some))[1].split() == ["set", "no", "2", "35%", "-60%", "0", "of", "1", "1", "of", "2"]


def test_points_of_one_deviation_have_its_range() -> None:
    near = [Point("set", str(i), "latency", "no", 100.0, 100.0) for i in range(kernels.FEWEST)]
    (low, high) = (line.split(" = ")[1] for line in ranges(near).splitlines()[-2:])
    assert float(low) * float(high) == pytest.approx(1, abs=0.02) and 1.1 < float(high) < 1.3
    assert "latency" not in ranges(near[1:])
