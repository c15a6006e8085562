"""Predict versions of this project's kernel that differ in one step each: does the step help, and why?

`python -m lab.ladder` and `make clock` print one line per version. Each version is compiled in its own process, with
one part of the kernel replaced.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import emulator
from emulator.clock.conditions import Conditions

HEAD_DIM, HEADS, KEYS = 128, 128, 8192
BATCH = 74  # CTAs: on half of the SMs, so that HBM is not the limit


@dataclass(frozen=True)
class Version:
    """A version. depth: KV pipeline stages. early_s: issue S[i+1] before P[i] V[i]. p_path: the memory that holds P."""

    name: str
    depth: int
    early_s: bool
    p_path: Literal["tmem", "smem"] = "tmem"


LADDER = (
    Version("one KV tile at a time, S[i+1] after P[i] V[i]", 1, False),
    Version("four KV tiles", 4, False),
    Version("S[i+1] before P[i] V[i]", 4, True),
    Version("P through shared memory", 4, True, "smem"),
)


@dataclass(frozen=True)
class Outcome:
    """The prediction for a version: cycles, the busiest unit, and each role's waiting cycles per kind of barrier."""

    cycles: float
    bound: str
    busy: float
    waits: dict[str, float]


def main() -> None:
    """Print the ladder, or with --version the outcome of one version as JSON."""
    parser = argparse.ArgumentParser(prog="python -m lab.ladder", description=__doc__)
    parser.add_argument("--version", type=int, choices=range(len(LADDER)), help="predict this version alone")
    chosen = parser.parse_args().version
    if chosen is not None:
        print(json.dumps(asdict(outcome(LADDER[chosen]))))
        return
    for line in steps():
        print(line, flush=True)


def outcomes() -> Iterator[Outcome]:
    """Yield the outcome of each version of the ladder."""
    for number in range(len(LADDER)):
        command = [sys.executable, "-m", "lab.ladder", "--version", str(number)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
        yield Outcome(**json.loads(done.stdout.splitlines()[-1]))


def steps() -> Iterator[str]:
    """Yield the ladder's lines: each version's cycles, and the wait that changed most."""
    yield f"{'a step of our kernel, hd=128, V=K':<50}{'cycles':>9}{'change':>9}   bound, and the wait that moved most"
    before: Outcome | None = None
    for version, found in zip(LADDER, outcomes(), strict=True):
        change = f"{found.cycles / before.cycles - 1:+.0%}" if before else ""
        why = f"; {reason(before, found)}" if before else ""
        yield f"{version.name:<50}{found.cycles:>9,.0f}{change:>9}   {found.bound} {found.busy:.0%}{why}"
        before = found


def reason(before: Outcome, now: Outcome) -> str:
    """Return the wait that changed most in the direction of the step."""
    faster = now.cycles < before.cycles
    moved = {key: now.waits.get(key, 0.0) - before.waits.get(key, 0.0) for key in before.waits | now.waits}
    key = min(moved, key=lambda each: moved[each] if faster else -moved[each])
    return f"{key} {before.waits.get(key, 0.0):,.0f} -> {now.waits.get(key, 0.0):,.0f}"


def outcome(version: Version) -> Outcome:
    """Predict a launch of a version, one Q tile on each SM that it uses."""
    import torch

    import kernel
    from kernel.sm100 import memory

    memory.MAX_DEPTH = version.depth  # type: ignore[attr-defined]  # not its own
    if not version.early_s:
        kernel.FmhaConfig.product_order = "pv_first"  # type: ignore[method-assign, assignment]
    problem = kernel.Problem(
        head_dim=HEAD_DIM,
        heads=HEADS,
        batch=BATCH,
        keys=KEYS,
        shared_kv=True,
        partials=False,
        p_path=version.p_path,
        splits=1,
    )
    config = kernel.configuration(problem)
    names = {warp: name for name, warps in vars(config.roles).items() for warp in warps}
    q = torch.empty(BATCH, 1, HEADS, HEAD_DIM, dtype=torch.bfloat16)
    k = torch.empty(BATCH, KEYS, HEAD_DIM, dtype=torch.bfloat16)
    conditions = Conditions(ranges=False)
    with emulator.emulate(clock="b200", names=lambda _kernel: config.mbarriers, conditions=conditions) as device:
        kernel.fmha(q, k, None, p_path=version.p_path, splits=1, partials=False)
    (launched,) = device.launches
    prediction = launched.prediction
    assert prediction is not None
    waits: dict[str, float] = {}
    for role in prediction.roles:
        for wait in role.waits:
            key = f"{names[role.warps[0]]} waits for {wait.what.split('[')[0]}"
            waits[key] = waits.get(key, 0.0) + wait.cycles
    return Outcome(prediction.cycles, prediction.bound, max(prediction.busy.values()), waits)


if __name__ == "__main__":
    main()
