"""Launch small PTX programs on the emulated device, without CuTeDSL and torch."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np

from emulator.errors import Fault, Level
from emulator.machine.execution import scheduler
from emulator.machine.launch.launch import Diagnostics, Dim3, Launch, Numerics
from emulator.machine.launch.statistics import Stats
from emulator.machine.order.completion import Completion
from emulator.modules import LoadedModule

Argument = np.ndarray | int | bytes


def launch(
    text: str,
    arguments: Sequence[Argument],
    *,
    grid: Dim3 = (1, 1, 1),
    block: Dim3 = (32, 1, 1),
    cluster: Dim3 = (1, 1, 1),
    shared: int = 0,
    completion: Completion = "lazy",
    seed: int = 0,
    level: Level = Level.FAULT,
    budget: int | None = None,
    numerics: Numerics = "fp32",
    diagnostics: Diagnostics = "stop",
    findings: list[Fault] | None = None,
    names: Mapping[int, str] | None = None,
    cooperative: bool = False,
) -> Stats:
    """Run the only kernel of a PTX text. Arrays are passed by address, integers by value, bytes as they are.

    findings: receives the errors that the launch continued after. names: of mbarriers, by offset in dynamic shared
    memory.
    """
    module = LoadedModule(text)
    (kernel,) = module.syntax.kernels.values()
    params = np.zeros(kernel.param_bytes + 64, np.uint8)
    start = -params.ctypes.data % 64
    for param, argument in zip(kernel.params, arguments, strict=True):
        raw = _bytes(argument, param.size)
        params[start + param.offset : start + param.offset + param.size] = np.frombuffer(raw, np.uint8)
    run = Launch(
        kernel,
        grid,
        block,
        params.ctypes.data + start,
        params,
        cluster,
        shared,
        [(a.ctypes.data, a.nbytes, f"argument {i}") for i, a in enumerate(arguments) if isinstance(a, np.ndarray)]
        + module.allocations,
        level,
        numerics,
        diagnostics,
        names=names or {},
        cooperative=cooperative,
    )
    if findings is not None:
        run.findings = findings
    return scheduler.run(run, module.program(kernel.name), scheduler.RunOptions(completion, seed, budget))


def aligned(array: np.ndarray, to: int = 64) -> np.ndarray:
    """Return a copy whose address is a multiple of `to`."""
    raw = np.empty(array.nbytes + to, np.uint8)
    start = -raw.ctypes.data % to
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _bytes(argument: Argument, size: int) -> bytes:
    if isinstance(argument, np.ndarray):
        return struct.pack("<Q", argument.ctypes.data)
    return argument.to_bytes(size, "little") if isinstance(argument, int) else argument


def kernel(name: str, params: str, body: str) -> str:
    """Return a PTX module with one kernel of this body."""
    return f""".version 8.8
.target sm_100a
.address_size 64
.visible .entry {name}({params})
{{
{body}
}}
"""
