"""Damaged PTX runs, or ends in a report that names its line: never in another exception, never in a hang."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest
from test_pairs import HERE, PROGRAMS

from emulator.coverage.forms import read_forms
from emulator.errors import EmulatorError, Fault, PtxError
from emulator.machine import scheduler
from emulator.machine.launch import Launch
from emulator.program import Program
from emulator.ptx.parser import parse
from emulator.ptx.syntax import Kernel

TOKEN = re.compile(r"[\w$%.:]+|[^\w\s]")
KERNEL = Path(__file__).parents[2] / "results/sample/hd-64-n-128.ptx"
HEAD = """.version 9.1
.target sm_100a
.address_size 64
.visible .entry k() {
.reg .pred %p<16>; .reg .b16 %h<16>; .reg .b32 %r<16>; .reg .b64 %d<16>; .reg .b128 %q<16>;"""
BUDGET = 2000
SIZES = ("8", "16", "32", "64", "128")
NUMBERS = ("0", "1", "-1", "7", "4294967296", "100000")


def damaged(lines: list[str], places: list[int], rng: random.Random) -> str:
    """The text with one line in which something is dropped, doubled, exchanged, or of another width or number."""
    at = rng.choice(places)
    line = lines[at].split("//")[0]
    tokens = list(TOKEN.finditer(line))
    one, other = rng.choice(tokens), rng.choice(TOKEN.findall(lines[rng.choice(places)].split("//")[0]))
    first, second = sorted((one, rng.choice(tokens)), key=lambda t: t.start())
    exchanged = line if first is second else (
        line[: first.start()] + second[0] + line[first.end() : second.start()] + first[0] + line[second.end() :]
    )  # fmt: skip
    new = rng.choice(
        (
            "",
            f"{line} {line}",
            line[: one.start()] + line[one.end() :],
            line[: one.end()] + " " + line[one.start() :],
            line[: one.start()] + other + line[one.end() :],
            exchanged,
            re.sub(r"(?<=[bsuf])(8|16|32|64|128)\b", lambda _: rng.choice(SIZES), line),
            re.sub(r"\b\d+\b", lambda _: rng.choice(NUMBERS), line),
            re.sub(r"%\w+", lambda _: rng.choice(re.findall(r"%\w+", "\n".join(lines))), line, count=1),
        )
    )
    return "\n".join([*lines[:at], new, *lines[at + 1 :]])


def copies(text: str, count: int, seed: int) -> list[str]:
    """Damaged copies of a module. What comes before its first kernel stays."""
    lines, rng = text.splitlines(), random.Random(seed)
    start = next(i for i, line in enumerate(lines) if ".entry" in line)
    places = [i for i, line in enumerate(lines) if i > start and ";" in line.split("//")[0]]
    return [damaged(lines, places, rng) for _ in range(count)]


def kernels(text: str) -> list[Kernel]:
    """Those of a module, lowered; none if a report with a line says why."""
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


def test_our_kernel_is_lowered_or_refused() -> None:
    for text in copies(KERNEL.read_text(), 6, seed=1):
        kernels(text)


def run(kernel: Kernel, arguments: tuple[np.ndarray, ...], threads: int, ctas: int) -> None:
    """Run with nothing but the arguments in reach."""
    params = np.zeros(kernel.param_bytes + 64, np.uint8)
    start = -params.ctypes.data % 64
    addresses = np.array([a.ctypes.data for a in arguments], np.uint64).view(np.uint8)
    params[start : start + min(addresses.size, kernel.param_bytes)] = addresses[: kernel.param_bytes]
    shape = (ctas, 1, 1)
    asked = Launch(
        kernel, shape, (threads, 1, 1), params.ctypes.data + start, params, shape,
        allocations=[(a.ctypes.data, a.nbytes, f"argument {i}") for i, a in enumerate(arguments)], closed=True,
    )  # fmt: skip
    scheduler.run(asked, Program(kernel), "random", 0, BUDGET)


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
