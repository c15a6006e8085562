"""Tests for CI on a machine without a GPU: `pytest --emulator-completion=lazy --emulator-completion=random`."""

from typing import Any

import cutlass
import torch
from cutlass.cute.runtime import from_dlpack
from scaled_add import scaled_add


def test_scaled_add(emulated_device: Any) -> None:
    x, y = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")
    expected = y + 0.5 * x
    scaled_add(from_dlpack(x), from_dlpack(y), cutlass.Float32(0.5))
    torch.testing.assert_close(y, expected)
    assert emulated_device.launches[-1].grid == (8, 1, 1)
