"""Which phases a run has on a device: fingerprint, canary, the hd=64 gate, then the milestones asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.job import Step

GATE = "D1.1"


@dataclass(frozen=True)
class Budgets:
    """Seconds a phase may take before it is ended."""

    compile_s: float = 60.0
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


def plan(
    milestones: Sequence[str],
    run: str,
    target: str,
    device: str,
    python: str,
    budgets: Budgets,
) -> Plan:
    """The phases that take `milestones` to a verdict with the interpreter `python` of the target.

    The gate comes first and leaves its record in `gate/`; the results of a single milestone lie at the root,
    those of several in a folder each. A milestone that is the gate is run once.
    """
    fingerprint = Step("fingerprint", [python, "-m", "harness.fingerprint", "--device", device], budgets.fingerprint_s)
    canary = Step("canary", [python, "-m", "harness.canary"], budgets.canary_s) if device == "cuda" else None
    rest = [milestone for milestone in milestones if milestone != GATE]
    steps = [("gate", GATE, "gate" if rest else ".")]
    steps += [("stage " + m if len(rest) > 1 else "stage", m, m if len(rest) > 1 else ".") for m in rest]
    return Plan(
        fingerprint,
        canary,
        [
            Step(
                name,
                [
                    python,
                    "-m",
                    "harness.run",
                    milestone,
                    "--device",
                    device,
                    "--target",
                    target,
                    "--out",
                    f"../out/{run}/{record}".removesuffix("/."),
                ],
                budgets.gate_s if name == "gate" else budgets.stage_s,
                failed="REJECT_GATE" if name == "gate" else "REJECT_STAGE",
                hung="GPU_HANG",
                record=record,
                milestone=milestone,
                compile_s=budgets.compile_s,
            )
            for name, milestone, record in steps
        ],
    )
