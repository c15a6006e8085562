"""Damaged PTX runs or ends in a report that names its line: never in another exception, never in a hang."""

from __future__ import annotations

import lzma
import random
from pathlib import Path

import numpy as np
import pytest
from damage import copies, damaged
from test_pairs import HERE, PROGRAMS

from emulator.coverage.forms import read_forms
from emulator.errors import EmulatorError, Fault, PtxError, UnknownInstruction
from emulator.machine.execution import scheduler
from emulator.machine.launch.launch import Launch
from emulator.program import Program
from emulator.ptx.parser import parse
from emulator.ptx.syntax import Kernel

KERNEL = Path(__file__).parents[2] / "results/sample/hd-64-n-128.ptx.xz"
HEAD = """.version 9.1
.target sm_100a
.address_size 64
.visible .entry k() {
.reg .pred %p<16>; .reg .b16 %h<16>; .reg .b32 %r<16>; .reg .b64 %d<16>; .reg .b128 %q<16>;"""
BUDGET = 2000


def kernels(text: str) -> list[Kernel]:
    """Return the lowered kernels of a module; none if it is rejected with a line."""
    try:
        found = list(parse(text).kernels.values())
        for kernel in found:
            Program(kernel)
    except PtxError as error:
        assert "PTX line " in str(error)
        return []
    return found


def test_forms_are_lowered_or_refused() -> None:
    lines = [form.text for form in read_forms()]
    for number in range(0, len(lines), 10):
        kernels(f"{HEAD}\n{damaged(lines, [number], random.Random(number))}\nLABEL: ret; }}")


@pytest.mark.long
def test_our_kernel_is_lowered_or_refused() -> None:
    for text in copies(lzma.decompress(KERNEL.read_bytes()).decode(), 6, seed=1):
        kernels(text)


@pytest.mark.parametrize(
    "line",
    [
        "mov.b32 4, %r1;",
        "mov.b64 {%r0, 7}, %d0;",
        "ld.global.v2.u32 {5, %r1}, [%d0];",
        "shfl.sync.idx.b32 %r0|3, %r1, 0, 31, -1;",
    ],
)
def test_a_destination_that_is_no_register_is_refused(line: str) -> None:
    """Also in a vector, and before anything runs."""
    (found,) = parse(f"{HEAD} {line} ret; }}").kernels.values()
    with pytest.raises(UnknownInstruction, match=r"PTX line 5: .*a destination that is no register"):
        Program(found)


def run(kernel: Kernel, arguments: tuple[np.ndarray, ...], threads: int, ctas: int) -> None:
    """Run with the arguments as the only accessible memory."""
    params = np.zeros(kernel.param_bytes + 64, np.uint8)
    start = -params.ctypes.data % 64
    addresses = np.array([a.ctypes.data for a in arguments], np.uint64).view(np.uint8)
    params[start : start + min(addresses.size, kernel.param_bytes)] = addresses[: kernel.param_bytes]
    shape = (ctas, 1, 1)
    asked = Launch(
        kernel, shape, (threads, 1, 1), params.ctypes.data + start, params, shape,
        allocations=[(a.ctypes.data, a.nbytes, f"argument {i}") for i, a in enumerate(arguments)], closed=True,
    )  # fmt: skip
    scheduler.run(asked, Program(kernel), scheduler.RunOptions("random", 0, BUDGET))


@pytest.mark.parametrize("name", PROGRAMS)
def test_executed(name: str) -> None:
    program = PROGRAMS[name]
    for text in copies((HERE / f"{name}.ptx").read_text(), 30, seed=2):
        for kernel in kernels(text):
            out = np.zeros_like(program.expected)
            try:
                run(kernel, (*program.inputs, out), program.threads, program.ctas)
            except Fault as fault:
                assert "PTX line " in str(fault)
            except EmulatorError as error:
                assert str(error)
