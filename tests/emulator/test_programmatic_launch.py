"""Programmatic dependent launch of CuTeDSL functions inside `emulate()`, without a host that knows streams."""

from __future__ import annotations

from functools import cache
from typing import Any

import cutlass
import pytest
import torch
from cutlass import cute
from cutlass.cute import arch

import emulator
from emulator.errors import DataRace


@cute.kernel
def produce(x: cute.Tensor) -> None:
    thread, _, _ = arch.thread_idx()
    arch.griddepcontrol_launch_dependents()
    x[thread] = 2.0


@cute.kernel
def consume(x: cute.Tensor, y: cute.Tensor, waits: cutlass.Constexpr[bool]) -> None:
    thread, _, _ = arch.thread_idx()
    if cutlass.const_expr(waits):
        arch.griddepcontrol_wait()
    y[thread] = x[thread]


@cute.jit
def launch(
    x: cute.Tensor, y: cute.Tensor, waits: cutlass.Constexpr[bool], programmatic: cutlass.Constexpr[bool]
) -> None:
    produce(x).launch(grid=(1, 1, 1), block=(32, 1, 1))
    consume(x, y, waits).launch(grid=(1, 1, 1), block=(32, 1, 1), use_pdl=programmatic)


@cache
def compiled(waits: bool, programmatic: bool) -> Any:
    x, y = (cute.runtime.from_dlpack(torch.zeros(32)) for _ in range(2))
    return cute.compile(launch, x, y, waits, programmatic)


@pytest.mark.parametrize(("waits", "programmatic"), [(True, True), (False, True), (False, False)])
def test_a_dependent_launch(waits: bool, programmatic: bool) -> None:
    x, y = torch.zeros(32), torch.zeros(32)
    given = cute.runtime.from_dlpack(x), cute.runtime.from_dlpack(y)
    with emulator.emulate() as device:
        if waits or not programmatic:
            compiled(waits, programmatic)(*given)
            assert y.tolist() == [2] * 32
        else:
            with pytest.raises(DataRace, match=r"griddepcontrol\.wait before"):
                compiled(waits, programmatic)(*given)
        device.error = None
