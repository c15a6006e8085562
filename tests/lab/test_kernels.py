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
    """The last column counts the points inside ranges that follow from the other kernels alone."""
    times = ("a", 100.0, 90.0), ("b", 200.0, 80.0), ("c", 300.0, 280.0), ("d", 400.0, 390.0)
    some = [Point("set", point, "latency", "no", *each) for point, *each in times]
    near = [Point("other: a chip", point, "latency", "no", each, each) for point, each, _ in times]
    lines = [line.split() for line in table([*some, *near])]
    assert lines[1] == ["set", "no", "4", "20%", "-60%", "5", "of", "6", "3", "of", "4", "3", "of", "4"]
    assert lines[2][-6:] == ["4", "of", "4", "4", "of", "4"]


def test_points_of_one_deviation_have_its_range() -> None:
    near = [Point("set", str(i), "latency", "no", 100.0, 100.0) for i in range(kernels.FEWEST)]
    (low, high) = (line.split(" = ")[1] for line in ranges(near).splitlines()[-2:])
    assert float(low) * float(high) == pytest.approx(1, abs=0.02) and 1.1 < float(high) < 1.3
    assert "latency" not in ranges(near[1:])
