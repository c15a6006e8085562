"""Plans: the phases of a run on a device, such as fingerprint, canary, the hd=64 gate and the milestones."""

from __future__ import annotations

import secrets
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from harness.host.job import Step
from remote.device import DEVICES
from stages.catalog import COMPILE_S, GATE, find


@dataclass(frozen=True)
class TimeLimits:
    """Time limits of the phases, in seconds. `compile_s` limits the CPU time of each configuration."""

    compile_s: float = COMPILE_S
    gate_s: float = 600.0
    stage_s: float = 3600.0
    fingerprint_s: float = 60.0
    canary_s: float = 120.0


@dataclass(frozen=True)
class Plan:
    """The phases of one run, in order."""

    fingerprint: Step
    canary: Step | None
    steps: list[Step]


@dataclass(frozen=True)
class Planner:
    """Plans the runs of `milestones` with the id `run` and a target's interpreter `python`.

    accepted: milestones that were accepted before. judged: those that were judged on this tree, or will be in this run.
    listed: the text of the commit's stages/cases.toml. processors: of the target, if it is this machine.
    """

    milestones: Sequence[str]
    run: str
    python: str
    limits: TimeLimits
    accepted: Sequence[str] = ()
    judged: frozenset[str] = frozenset()
    listed: str = ""
    processors: int = 1

    def judging(self, target: str, device: str) -> Plan:
        """Return the phases of a verdict, gate first. Each of several milestones has its own folder of results."""
        rest = [milestone for milestone in self.milestones if milestone != GATE.id]
        several = len(rest) > 1
        steps = self._milestone_steps("gate", GATE.id, "gate" if rest else ".", target, device)
        for milestone in rest:
            name, record = (f"stage {milestone}", milestone) if several else ("stage", ".")
            steps += self._milestone_steps(name, milestone, record, target, device)
        canary = self._step("canary", "canary", [], self.limits.canary_s) if device == "cuda" else None
        return Plan(self._fingerprint(device), canary, steps)

    def compiling(self) -> Plan:
        """Return the phases that only compile, which need no GPU."""
        return Plan(self._fingerprint("emulator"), None, [self._compile(each) for each in self.milestones])

    def sweeping(self, seeds: Sequence[int], device: str) -> Plan:
        """Return the phases that measure one milestone for `seeds`."""
        (milestone,) = self.milestones
        arguments = [milestone, *map(str, seeds), "--device", device, "--out", self._out(".")]
        step = self._step("sweep", "sweep", arguments, self.limits.stage_s, failed="REJECT_STAGE", hung="GPU_HANG")
        return Plan(self._fingerprint(device), None, [step])

    def measuring(self) -> Plan:
        """Return the phases that time a milestone's cases on a GPU, or all problems if there is no milestone."""
        arguments = [*self.milestones, "--out", self._out(".")]
        step = self._step("measure", "measure", arguments, self.limits.stage_s, hung="GPU_HANG")
        return Plan(self._fingerprint("cuda"), self._step("canary", "canary", [], self.limits.canary_s), [step])

    def _milestone_steps(self, name: str, milestone: str, record: str, target: str, device: str) -> list[Step]:
        """Return the phases of one milestone: the candidate's Python is recorded, a sample of it again, then judged."""
        beside = self._beside(milestone, device)
        also = ["--beside", *beside] if beside else []
        arguments = [milestone, "--device", device, "--target", target, *also, "--out", self._out(record)]
        gate = name == "gate"
        failed, budget_s = ("REJECT_GATE", self.limits.gate_s) if gate else ("REJECT_STAGE", self.limits.stage_s)
        recorded = self._step(
            f"record {name}",
            "record_calls",
            arguments,
            budget_s,
            failed=failed,
            hung="COMPILE_HANG",
            record=record,
            compile_s=self.limits.compile_s,
        )
        again = f"record {name} again"
        home = f"../home/{again.replace(' ', '-')}"
        sample = ["--sample", str(secrets.randbelow(10**9))]
        repeated = replace(recorded, name=again, argv=[*recorded.argv[:-1], home, *sample], compile_s=0.0, again=True)
        judged = self._step(
            name,
            "run",
            [*arguments, "--again", home, *sample],
            budget_s,
            failed=failed,
            hung="GPU_HANG",
            record=record,
            milestone=milestone,
            modes=list(DEVICES[device].modes),
            beside=beside,
        )
        return [recorded, repeated, judged]

    def _beside(self, milestone: str, device: str) -> list[str]:
        """Return the milestones of which a run of this one launches cases too.

        The gate has cases of all that were accepted before, and those of as many drawn configurations as the processors
        compile in 10 s; a GPU's host is taken to have many. Others have those of the ones that they build on.
        """
        wanted = self.accepted if milestone == GATE.id else find(milestone).prerequisites()
        others = [each for each in wanted if each not in self.judged]
        if milestone != GATE.id:
            return others
        groups = tomllib.loads(self.listed).get(f"{GATE.id} drawn", {}).values()
        left = [some for group in groups if (some := [name for name in group if name.split()[0] in others])]
        most = len(left) if device == "cuda" else max(1, 3 * self.processors - 5)
        return [*others, *chain(*secrets.SystemRandom().sample(left, min(most, len(left))))]

    def _compile(self, milestone: str) -> Step:
        record = f"compile-{milestone}"
        return self._step(
            f"compile {milestone}",
            "record_calls",
            [milestone, "--device", "cuda", "--target", "compile", "--out", self._out(record), "--compile-only"],
            self.limits.stage_s,
            failed="COMPILE_ERROR",
            hung="COMPILE_HANG",
            record=record,
            compile_s=self.limits.compile_s,
        )

    def _fingerprint(self, device: str) -> Step:
        return self._step("fingerprint", "fingerprint", ["--device", device], self.limits.fingerprint_s)

    def _step(self, name: str, module: str, arguments: list[str], budget_s: float, **meaning: object) -> Step:
        return Step(name, [self.python, "-m", f"harness.judge.{module}", *arguments], budget_s, **meaning)  # type: ignore[arg-type]

    def _out(self, record: str) -> str:
        """Return the folder of results `record`, relative to the checkout."""
        return f"../out/{self.run}/{record}".removesuffix("/.")
