"""The problems whose time matters, and the table of what they would take."""

from __future__ import annotations

import pytest

from harness.judge.predict import predicted
from remote.device import Emulated
from stages.shapes import MORE, SHAPES, Shape, find


def test_names_are_their_own() -> None:
    assert len({shape.name for shape in SHAPES + MORE}) == len(SHAPES + MORE)
    assert [shape.head_dim for shape in find("plain-hd*")] == [64, 128, 256]


def test_a_name_that_is_none_lists_those_there_are() -> None:
    with pytest.raises(ValueError, match="no shape 'nothing'; there are prefill-128h-csa"):
        find("nothing")


def test_more_keys_take_longer_and_the_tensor_core_does_their_flops() -> None:
    device = Emulated()
    few, many = (Shape("", "plain", 148, 1, 128, 64, keys) for keys in (1024, 4096))
    (short,), (long,) = predicted(device, few.call), predicted(device, many.call)
    assert 2 < long.cycles / short.cycles < 4.5
    assert long.flops == pytest.approx(many.flops)
    assert long.clusters == 148
