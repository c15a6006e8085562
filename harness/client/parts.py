"""Runs split into parts that run in parallel, one for each milestone or for some seeds; their combined verdict."""

from __future__ import annotations

import math
import shutil
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.client.host import Host
from harness.client.plan import Planner
from harness.client.watch import Died, Progress
from harness.host.job import Job
from harness.host.journal import one_line
from harness.host.ruling import RULING_NAME, Ruling, RulingError, decode
from harness.host.verdict import Verdict
from remote.errors import Untrusted
from remote.target import End, Target
from stages.catalog import FOLDER, GATE

LOOK_S = 1.0
BAR = 32
#: Most parts of a sweep, and fewest seeds in a part: starting a part costs seconds.
SWEEP_PARTS, SWEEP_SEEDS = 32, 5
#: The combined verdict is the first of these that one of the parts has.
FIRST = (
    Verdict.TAMPERED,
    Verdict.STALE,
    Verdict.PIN,
    Verdict.REJECT_GATE,
    Verdict.COMPILE_ERROR,
    Verdict.COMPILE_HANG,
    Verdict.GPU_HANG,
    Verdict.REJECT_STAGE,
    Verdict.INFRA,
    Verdict.CANCELLED,
    Verdict.ACCEPT,
)


def share_out(job: Job, planner: Planner, target: Target) -> list[Job]:
    """Return the parts that `job` is split into on `target`; [] if one run takes all milestones one after the other.

    Under a scheduler each part runs the gate first, because each may be on another node. On one machine the gate is a
    part of its own, and the others wait for it; the longest starts first.
    """
    if len(planner.milestones) < 2 or target.at_once == 1:
        return []
    if not target.at_once:
        return [_part(job, planner, milestone, target) for milestone in planner.milestones]
    name = GATE.id if GATE.id in planner.milestones else "gate"
    gate = replace(_part(job, planner, GATE.id, target, name), lock="cores", slots=target.at_once)
    rest = (milestone for milestone in planner.milestones if milestone != GATE.id)
    others = []
    for turn, milestone in enumerate(sorted(rest, key=lambda each: _cycles(each, target.arch), reverse=True)):
        part = _part(job, planner, milestone, target)
        steps = [step for step in part.steps if step.record != "gate"]
        others.append(replace(part, steps=steps, lock="cores", slots=gate.slots, after=gate.run, turn=turn))
    return [gate, *others]


def _cycles(milestone: str, arch: str) -> float:
    """Return the predicted cycles of a milestone's first case, with which its time grows; infinity without a pin.

    The file is read here because `stages.tolerances` imports numpy.
    """
    file = FOLDER / ("cycles.h200.toml" if arch.startswith("sm_90") else "cycles.toml")
    pinned = tomllib.loads(file.read_text()) if file.exists() else {}
    return float(pinned.get(milestone, [math.inf])[0])


def share_out_seeds(job: Job, planner: Planner, target: Target, seeds: Sequence[int]) -> list[Job]:
    """Return the parts of a sweep; each measures some of the seeds."""
    size = max(SWEEP_SEEDS, math.ceil(len(seeds) / SWEEP_PARTS))
    found = []
    for number, first in enumerate(range(0, len(seeds), size)):
        run = job.run.replace("-sweep.", f"-{number:02}.")
        plan = replace(planner, run=run).sweeping(seeds[first : first + size], target.device)
        lock = "cores" if target.at_once > 1 else job.lock
        subject = replace(job.subject, run=run)
        found.append(replace(job, subject=subject, steps=plan.steps, lock=lock, slots=max(1, target.at_once)))
    return found


def _part(job: Job, planner: Planner, milestone: str, target: Target, name: str = "") -> Job:
    subject = replace(job.subject, run=job.run.replace("-stages-", f"-{name or milestone}-"), milestones=[milestone])
    plan = replace(planner, milestones=[milestone], run=subject.run).judging(target.name, target.device)
    return replace(job, subject=subject, steps=plan.steps)


def gather(parts: Sequence[Job], host: Host, folder: Path, progress: Progress) -> list[Ruling]:
    """Wait until every part has ended, and fetch its results into a subfolder of `folder`. Return the verdicts.

    Raises Died if a part died without a verdict, after all others have ended; Untrusted; LinkLost.
    """
    rulings: dict[str, Ruling] = {}
    dead_at: dict[str, float] = {}
    while True:
        missing = [part for part in parts if part.run not in rulings]
        stands = dict(zip((part.run for part in missing), host.survey([part.run for part in missing]), strict=True))
        queue = host.ended([part.run for part in missing])
        for part in missing:
            if stands[part.run].get("ended"):
                name = part.run.split("-")[2]
                rulings[part.run] = ruling = _bring(part, host, folder / name, progress)
                progress.say(f"  {name:5} {ruling.verdict.name} {one_line(ruling.reason)}".rstrip())
            elif part.run in queue or not (stands[part.run].get("alive") or host.target.at_once == 0):
                visible_s = queue[part.run].visible_s if part.run in queue else 0.0
                dead_at.setdefault(part.run, time.monotonic() + visible_s)
        dead = {run for run, at in dead_at.items() if run not in rulings and time.monotonic() >= at}
        if len(rulings) + len(dead) == len(parts):
            break
        progress.doing(_in_words(len(rulings), len(parts), [each.get("beat") for each in stands.values()]))
        time.sleep(LOOK_S)
    for part in parts:
        if part.run in dead:
            end = queue.get(part.run, End("its supervisor died without a verdict", cancelled=False, visible_s=0.0))
            verdict = Verdict.CANCELLED if end.cancelled else Verdict.INFRA
            raise Died(f"{part.subject.milestone}: {end.why}", verdict)
    return [rulings[part.run] for part in parts]


def _bring(part: Job, host: Host, folder: Path, progress: Progress) -> Ruling:
    """Return the verdict of a part that has ended. Fetch it and the results, unless they were fetched before."""
    try:
        return decode((folder / RULING_NAME).read_bytes(), part.run, part.subject.commit)
    except (OSError, RulingError):
        ruling = host.ruling(part.run, part.subject.commit)
    if ruling is None:
        raise Died(f"{part.subject.milestone}: its verdict file has disappeared")
    if wrong := part.subject.differences(ruling.subject):
        raise Untrusted(f"the verdict file differs from the job in: {wrong}")
    folder.mkdir(parents=True, exist_ok=True)
    host.fetch(ruling, folder, progress.say)
    ruling.write(folder)
    if ruling.verdict is Verdict.REJECT_GATE and (folder / "gate").exists():
        shutil.copytree(folder / "gate", folder.parent / "gate", dirs_exist_ok=True)
    return ruling


def _in_words(ended: int, of: int, beats: Sequence[object]) -> str:
    phases = Counter(one_line(str(beat["phase"]), 40) for beat in beats if isinstance(beat, dict) and "phase" in beat)
    going = ", ".join(name if count == 1 else f"{count} {name}" for name, count in phases.items())
    return f"{'━' * (BAR * ended // of):·<{BAR}}  {ended} of {of} ended  {going}"


def together(job: Job, rulings: Sequence[Ruling]) -> Ruling:
    """Combine the verdicts of all parts into the verdict of `job`."""
    worst = min(rulings, key=lambda each: FIRST.index(each.verdict))
    also = sum(each.verdict is worst.verdict for each in rulings) - 1
    reason = f"{worst.subject.milestone}: {worst.reason}" + (f" (and {also} more)" if also else "")
    return replace(
        worst,
        subject=job.subject,
        reason="" if worst.verdict is Verdict.ACCEPT else reason,
        started=min(each.started for each in rulings),
        ended=max(each.ended for each in rulings),
        seconds={f"{each.subject.milestone} {name}": s for each in rulings for name, s in each.seconds.items()},
        files={},
    )
