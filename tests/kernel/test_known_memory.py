"""The emulator sees what memory the kernel's arguments show, so that an access outside of it is found."""

from __future__ import annotations

import pytest
import torch

import emulator  # before CuTeDSL, so that PTX is kept
import kernel
from emulator.bridge.allocations import Memory
from emulator.bridge.device import LaunchingDevice


def test_a_launch_shows_all_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Memory] = []
    launch = LaunchingDevice.launch

    def noting(device: LaunchingDevice, *arguments: object) -> None:
        seen.append(device.memory())
        launch(device, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(LaunchingDevice, "launch", noting)
    q, k, v = (torch.zeros(shape, dtype=torch.bfloat16) for shape in ((1, 1, 128, 64), (1, 128, 64), (1, 128, 64)))
    with emulator.emulate():
        kernel.fmha(q, k, v)
    names = {name for memory in seen for _, _, name in memory.allocations}
    assert all(memory.closed for memory in seen) and {"q", "k", "v", "o", "lse"} <= names, seen
