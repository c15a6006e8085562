"""The device's memory: its live allocations, and their names in reports."""

import pytest
import torch

from emulator.host.launches import named_ranges
from emulator.host.memory import ALIGNMENT, Allocations, address_of


def test_pieces_live_as_long_as_their_owner():
    memory = Allocations()
    kept = memory.allocate(100)
    storage = torch.from_numpy(memory.storage(7)).untyped_storage()
    assert sorted(memory.ranges()) == sorted([(kept, 100), (storage.data_ptr(), 7)])
    assert storage.nbytes() == 7
    assert storage.data_ptr() % ALIGNMENT == kept % ALIGNMENT == 0
    del storage
    assert memory.ranges() == [(kept, 100)]
    assert memory.free(kept)
    assert memory.ranges() == []
    assert not memory.free(kept)
    assert memory.free(0)


def test_a_view_keeps_its_piece():
    memory = Allocations()
    tensor = torch.empty(0, dtype=torch.uint8).set_(
        torch.from_numpy(memory.storage(64)).untyped_storage(), 0, (64,), (1,)
    )
    view = tensor[8:]
    del tensor
    assert len(memory.ranges()) == 1
    del view
    assert memory.ranges() == []


@pytest.mark.parametrize("pointer", [4096, b"x" * 8, bytearray(8), torch.zeros(2).numpy()])
def test_addresses(pointer):
    assert address_of(pointer) > 0


def test_pieces_are_called_after_the_arguments_in_them():
    pieces = [(1000, 100), (2000, 50)]
    visible = [(1010, 20, "argument 0"), (5000, 8, "argument 1"), (2050, 4, "argument 2")]
    assert named_ranges(pieces, visible) == [
        (1000, 100, "argument 0"),
        (2000, 50, "device memory"),
        (5000, 8, "argument 1"),
        (2050, 4, "argument 2"),
    ]
