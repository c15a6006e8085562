"""Damaged copies of the kernel's PTX, launched as it is: each runs, or ends in a report that names its line."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import emulator  # before CuTeDSL, so that PTX is kept
import kernel
from emulator.errors import EmulatorError, Fault, PtxError
from emulator.machine.execution import scheduler
from emulator.machine.launch.launch import Launch
from emulator.machine.order.completion import Completion
from emulator.program import Program
from emulator.ptx.parser import parse
from tests.emulator.damage import copies

MODES: tuple[Completion, ...] = ("eager", "lazy", "random")
BUDGET = 20_000
"""Warp-instructions of a warp, of which the kernel takes 8,000 at most."""


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 3), *(pytest.param(seed, 12, marks=pytest.mark.thorough) for seed in range(2, 12))]
)
def test_executed(seed: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (torch.randn(shape).bfloat16() for shape in ((1, 1, 128, 64), (1, 128, 64), (1, 128, 64)))
    launches: list[Launch] = []
    with emulator.emulate() as emulated:
        expected = kernel.fmha(q, k, v)
        monkeypatch.setattr(emulated, "runner", lambda launch, *_: launches.append(launch))
        out = kernel.fmha(q, k, v)
    run(launches[0], emulated.launches[0].ptx, "eager", seed)
    assert torch.equal(out.o, expected.o)
    for number, text in enumerate(copies(emulated.launches[0].ptx, count, seed)):
        try:
            run(launches[0], text, MODES[number % len(MODES)], seed)
        except (Fault, PtxError) as error:
            assert "PTX line " in str(error)
        except EmulatorError as error:
            assert str(error)


def run(launch: Launch, ptx: str, completion: Completion, seed: int) -> None:
    """Run a launch with the kernel of another text."""
    (named,) = parse(ptx).kernels.values()
    scheduler.run(replace(launch, kernel=named), Program(named), scheduler.RunOptions(completion, seed, BUDGET))
