"""Launch kernels written as PTX text, with numpy arrays and integers as parameters."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from emulator.errors import Fault, Level
from emulator.machine.execution import scheduler
from emulator.machine.launch.launch import Launch
from emulator.machine.launch.statistics import Stats
from emulator.program import Program
from emulator.ptx.parser import parse


def source(body: str, arrays: int = 1, *, outside: str = "", block: int = 32) -> str:
    """Return a kernel whose parameters are addresses in %a0, %a1, ...; %t: thread number, %b: its 4-byte offset."""
    params = ", ".join(f".param .u64 p{i}" for i in range(arrays))
    loads = "\n".join(f"ld.param.u64 %a{i}, [p{i}];" for i in range(arrays))
    return f"""
.version 8.8
.target sm_100a
.address_size 64
{outside}
.visible .entry k({params})
.reqntid {block}, 1, 1
{{
.reg .pred %p<40>; .reg .b16 %h<40>; .reg .b32 %r<99>; .reg .b64 %q<40>; .reg .b64 %a<9>; .reg .b32 %t; .reg .b64 %b;
{loads}
mov.u32 %t, %tid.x;
mul.wide.u32 %b, %t, 4;
{body}
}}
"""


def launch(
    text: str,
    *arrays: np.ndarray,
    grid: int = 1,
    block: int = 32,
    completion: Any = "eager",
    budget: int | None = None,
    processes: int | None = 1,
    level: Level = Level.FAULT,
    findings: list[Fault] | None = None,
) -> Stats:
    """Run a kernel on arrays. findings: a list for errors that do not change memory; the launch then continues."""
    kernel = next(iter(parse(text).kernels.values()))
    params = ctypes.create_string_buffer(max(kernel.param_bytes, 1) + 64)
    address = -(-ctypes.addressof(params) // 64) * 64
    for param, array in zip(kernel.params, arrays, strict=True):
        ctypes.c_uint64.from_address(address + param.offset).value = array.ctypes.data
    asked = Launch(
        kernel=kernel,
        grid=(grid, 1, 1),
        block=(block, 1, 1),
        params=params,
        params_address=address,
        allocations=[(a.ctypes.data, a.nbytes, f"argument {i}") for i, a in enumerate(arrays)],
        level=level,
    )
    if findings is not None:
        asked.diagnostics, asked.findings = "report", findings
    return scheduler.run(asked, Program(kernel), scheduler.RunOptions(completion, 0, budget, processes))


def results(body: str, count: int = 1, block: int = 32) -> list[np.ndarray]:
    """Return %r0, %r1, ... of each thread after `body`, as `count` arrays."""
    stores = "".join(f"add.u64 %q39, %a{i}, %b; st.global.u32 [%q39], %r{i};" for i in range(count))
    arrays = [np.full(block, 0xDEADBEEF, np.uint32) for _ in range(count)]
    launch(source(body + stores + "ret;", count, block=block), *arrays, block=block)
    return arrays
