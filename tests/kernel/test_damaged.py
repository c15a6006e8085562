"""Damaged copies of the kernel's PTX, launched as it is: each runs, or ends in a report that names its line."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import emulator  # before CuTeDSL, so that PTX is kept
import kernel
from emulator.errors import CollectorError, EmulatorError, Fault, PtxError
from emulator.machine.execution import scheduler
from emulator.machine.launch.launch import Launch
from emulator.machine.order.completion import Completion
from emulator.program import Program
from emulator.ptx.parser import parse
from stages.d6h import few, fp8
from stages.inputs import draw
from stages.launch import launch
from tests.emulator.damage import copies
from tests.tiers import shortened

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

        def runner(launch: Launch, *_: object) -> dict[str, object]:
            launches.append(launch)
            return {}

        monkeypatch.setattr(emulated, "runner", runner)
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


COLLECTORS = {
    "PV takes P' of the step before": ("b1::use", "b0::use", "b0 finds another operand there"),
    "PV keeps P' of the step after": ("b1::fill", "b2::fill", "b1 finds it empty"),
    "PV does not keep P'": ("b3::fill", "b3::discard", "b3 finds it empty"),
    "the second slice of PV is the last to take P'": ("b2::use", "b2::lastuse", "b2 finds it empty"),
}


@pytest.mark.long  # tests/emulator/test_collectors.py has it for small programs
@pytest.mark.parametrize("mode", shortened(0, MODES, in_ci=1))
@pytest.mark.parametrize("damage", COLLECTORS)
def test_a_collector_buffer_without_the_right_part_of_p(
    damage: str, mode: Completion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel for 64 heads, whose PV keeps P' in collector buffers."""
    case = few(64, 1, 1, fp8(1, 256, 128))
    inputs, (old, new, says) = draw(case, 1), COLLECTORS[damage]
    with emulator.emulate(mode, seed=1) as emulated:
        launch(case, inputs, "cpu")
        ptx = emulated.launches[0].ptx
        damaged = ptx.replace(f".collector::{old}", f".collector::{new}", 1)
        monkeypatch.setattr(emulated, "runner", lambda found, *_: run(found, damaged, mode, 1))
        with pytest.raises(CollectorError, match=rf"{says}(?s:.*)at +PTX line \d+: .*\n +\S*swapped_mma.py:\d+"):
            launch(case, inputs, "cpu")
    assert damaged != ptx
