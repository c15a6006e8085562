"""The problems whose time matters, and the table of what they would take."""

from __future__ import annotations

import pytest

from harness.judge.predict import predicted
from remote.device import Emulated
from stages.shapes import DENSE, MORE, SERVED, SHAPES, DenseShape, ServedShape, Shape, find


def test_names_are_their_own() -> None:
    assert len(find("*")) == len(SHAPES + MORE) + len(SERVED) + len(DENSE)
    assert [shape.name[8:] for shape in find("plain-hd*")] == ["64", "128", "256"]
    assert {shape.name for shape in SERVED} == {shape.name for shape in find("serve-*")}


def test_a_name_that_is_none_lists_those_there_are() -> None:
    with pytest.raises(ValueError, match="no shape 'nothing'; there are prefill-128h-csa"):
        find("nothing")


@pytest.mark.long
def test_more_keys_take_longer_and_the_tensor_core_does_their_flops() -> None:
    device = Emulated()
    few, many = (Shape("", "plain", 148, 1, 128, 64, keys) for keys in (1024, 4096))
    (short,), (long,) = predicted(device, few.call), predicted(device, many.call)
    assert 2 < long.cycles / short.cycles < 4.5
    assert long.flops == pytest.approx(many.flops)
    assert long.clusters == 148


def test_a_call_over_two_caches_is_a_shape() -> None:
    shape = ServedShape("", 64, 2, 1, ("v41", "v41_fp4"), (128, 64), (64, 2))
    (found,) = predicted(Emulated(), shape.call)
    assert "v41_v41_fp4" in found.kernel
    assert found.flops >= shape.flops  # row tiles that are not full count whole


def test_a_call_over_a_block_table_is_a_shape() -> None:
    shape = DenseShape("", 16, 2, 2, 128)
    (found,) = predicted(Emulated(), shape.call)
    assert found.flops >= shape.flops
