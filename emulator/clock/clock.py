"""The clock of a device: it predicts launches instead of running them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, Final

from ..errors import AssemblerError, EmulatorError
from ..machine.execution.scheduler import RunOptions
from ..machine.launch.launch import Launch
from ..machine_code import resources
from ..modules import LoadedKernel, Runner
from ..program import Program
from ..ptx.kinds import Kind
from ..ptx.syntax import Instr
from .accesses import Load
from .chips import Chip, chip
from .conditions import USUAL, Conditions
from .operations import find, operation
from .predict import predict
from .registers import Registers
from .segment import FLOATS
from .skeleton import Analysis, Skeleton, skeleton
from .trace import Trace

MOST_THREADS: Final = 1 << 15
"""The most threads of a launch that is executed although the clock runs."""
BUDGET: Final = 10_000
"""The most instructions of each of its warps."""
EXCLUDED: Final = frozenset({Kind.ATOMIC, Kind.REDUCTION, Kind.WARP_MMA})
"""Counters keep their values, so that a repeated launch has the same prediction."""


class Clock:
    """Predicts launches on a chip. Raises ValueError for the name of an unknown one.

    runner: executes the launches whose integers later launches may depend on. conditions: None for the usual ones.
    """

    def __init__(self, name: str, runner: Runner, conditions: Conditions | None, traces: bool) -> None:
        self.chip = chip(name)
        self.runner = runner
        self.trace: Trace | None = None
        """The trace of the newest launch, even if the launch failed."""
        self._conditions, self._traces = conditions or USUAL, traces

    def run(self, launch: Launch, kernel: LoadedKernel, options: RunOptions) -> dict[str, Any]:
        """Predict a launch. Errors of one that is also executed are not reported."""
        self.trace = Trace() if self._traces else None
        prediction = predict(self.chip, launch, partial(skeleton_of, kernel), self.trace, self._conditions)
        if computes_integers(launch):
            with suppress(EmulatorError):
                self.runner(replace(launch), kernel, replace(options, budget=BUDGET, processes=1))
        return {"prediction": prediction}


def skeleton_of(kernel: LoadedKernel, chip: Chip, loads: Mapping[int, Load] | None = None) -> tuple[Skeleton, Program]:
    """Make the part of a kernel that a chip's clock executes, and its lowered program, once for all launches.

    loads: what its loads request; None for a skeleton that records that, if it has any.
    """
    known = None if loads is None else frozenset(loads.items())
    module, key = kernel.module, (skeleton_of, kernel.name, chip, known)
    if key not in module.registry:
        left = skeleton(_analysis(kernel), chip, loads)
        left = replace(left, registers=partial(_registers, kernel, left.registers))
        module.registry[key] = left, Program(left.kernel, module.variables, find)
    found: tuple[Skeleton, Program] = module.registry[key]
    return found


def _analysis(kernel: LoadedKernel) -> Analysis:
    module, key = kernel.module, (_analysis, kernel.name)
    if key not in module.registry:
        module.registry[key] = Analysis(kernel.syntax, module.variables)
    analysis: Analysis = module.registry[key]
    return analysis


def _registers(kernel: LoadedKernel, estimated: Callable[[], Registers]) -> Registers:
    """Ask ptxas for the registers of a thread; use an estimate if it is missing or rejects the module."""
    module = kernel.module
    if _registers not in module.registry:
        module.registry[_registers] = {}
        with suppress(AssemblerError):
            module.registry[_registers] = resources(module.ptx, module.syntax.target)
    asked = module.registry[_registers].get(kernel.name)
    return estimated() if asked is None else Registers(asked.registers, "by ptxas")


def computes_integers(launch: Launch) -> bool:
    """Return True for a small launch that only computes integers: tensor maps, a schedule of tiles, or offsets."""
    if prod(launch.grid) * prod(launch.block) > MOST_THREADS:
        return False
    return all(map(_is_plain, launch.kernel.instrs))


def _is_plain(instr: Instr) -> bool:
    """Return True for integer arithmetic, branches, barriers, ordinary accesses, and changes of tensor maps."""
    if instr.kind in EXCLUDED or not FLOATS.isdisjoint(instr.modifiers):
        return False
    waits = instr.kind.is_barrier or instr.kind.is_mbarrier
    accesses = instr.kind in (Kind.LOAD, Kind.STORE) or instr.opcode.startswith("tensormap.")
    return waits or accesses or operation(instr) is None
