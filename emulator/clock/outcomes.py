"""Outcomes of the comparisons of data that decide branches, recorded while one cluster of a launch is executed.

A skeleton computes no data, so it cannot know them. All clusters get the outcomes of one: each warp those of the warp
with its place in the cluster, from the beginning again when they are used up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from ..chip import LANES
from ..errors import EmulatorError
from ..isa import registry
from ..isa.registry import Action, Handler, Lowering, never_communicates
from ..machine.execution.processes import in_child
from ..machine.execution.scheduler import RunOptions, run
from ..machine.launch.launch import Dim3, Launch
from ..program import Program
from ..ptx.syntax import Imm, Instr, Kernel, Reg

RECORD: Final = "clock.record"
BUDGET: Final = 100_000
"""The instructions that a warp executes at most: some 140 KV tiles of 128 keys in a softmax warp."""
LANE_BITS: Final = np.uint32(1) << np.arange(LANES, dtype=np.uint32)
Key = tuple[int, int, int]
"""The rank of a CTA in its cluster, a warp's index in the CTA, and the number of a predicate."""
Recorded = dict[Key, list[int]]
"""The values of predicates in the order of execution, a bit for each lane."""


@dataclass(frozen=True)
class Outcomes:
    """The recorded values of predicates. cluster: the index of the cluster that was executed."""

    recorded: Mapping[Key, Sequence[int]]
    cluster: Dim3 = (0, 0, 0)

    def value(self, key: Key, time: int) -> np.ndarray:
        """Return a predicate's value in each lane at its `time`-th computation; false if none was recorded."""
        known = self.recorded.get(key)
        lanes: np.ndarray = LANE_BITS & np.uint32(known[time % len(known)] if known else 0) != 0
        return lanes


@dataclass(frozen=True)
class Recording:
    """A kernel that is executed to record predicates.

    compared: the instructions whose predicates are recorded, by index, each with the registers that it writes.
    """

    kernel: Kernel
    compared: Mapping[int, Sequence[Reg]]
    variables: Mapping[str, int]

    def number(self, i: int, register: Reg) -> int:
        """Return the number of a predicate that instruction `i` writes."""
        before = sum(len(written) for at, written in self.compared.items() if at < i)
        return before + list(self.compared[i]).index(register)

    def instrumented(self) -> Kernel:
        """Return the kernel with an instruction behind each comparison that records its predicates."""
        instrs: list[Instr] = []
        moved: list[int] = []
        for i, instr in enumerate(self.kernel.instrs):
            moved.append(len(instrs))
            instrs.append(instr)
            for register in self.compared.get(i, ()):
                number = self.number(i, register)
                text = f"{RECORD} {number}"
                instrs.append(Instr(RECORD, (), (register, Imm(number)), None, instr.line, text))
        moved.append(len(instrs))
        labels = {name: moved[at] for name, at in self.kernel.labels.items()}
        return replace(self.kernel, instrs=tuple(instrs), labels=labels, locations=())

    def executed(self, launch: Launch, clusters: Sequence[Dim3]) -> list[Outcomes | None]:
        """Execute clusters of a launch in a forked process, so that memory stays as it is.

        Return None for one that computed none of the predicates, and for all if no process can be forked.
        """
        recorded = in_child(partial(self._record, launch, clusters)) or [{} for _ in clusters]
        return [Outcomes(found, index) if found else None for index, found in zip(clusters, recorded, strict=True)]

    def _record(self, launch: Launch, clusters: Sequence[Dim3]) -> list[Recorded]:
        """Execute clusters; keep what each has computed when it fails or has spent its budget."""
        kernel, found, recorded = self.instrumented(), list[Recorded](), Recorded()
        program = Program(kernel, self.variables, partial(_find, partial(_recording, recorded)))
        for index in clusters:
            with suppress(EmulatorError):
                alone = replace(launch, kernel=kernel, diagnostics="report")
                run(alone, program, RunOptions(budget=BUDGET), only=index)
            found.append({**recorded})
            recorded.clear()
        return found


def _find(make: Callable[[Instr], Action], instr: Instr) -> Handler | Lowering:
    recording = Handler(make=make, communicates=never_communicates)
    return recording if instr.opcode == RECORD else registry.find(instr)


def _recording(recorded: Recorded, ins: Instr) -> Action:
    def run(warp: Any, mask: np.ndarray | None, predicate: Any, number: int) -> None:
        lanes = np.broadcast_to(predicate, LANES) if mask is None else predicate & mask
        recorded.setdefault((warp.cta.rank, warp.index, number), []).append(int(LANE_BITS[lanes].sum()))

    return run
