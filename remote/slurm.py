"""Slurm clusters as targets. Each run is a batch job, submitted from a login node over SSH or from this machine.

Slurm alone decides when and where a job runs. This module queries it (squeue) and gives it commands (sbatch, scancel).
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from remote import link as links
from remote.detached import json_lines
from remote.errors import Refused
from remote.link import Link
from remote.local import LocalLink
from remote.program import send
from remote.ssh import Ssh
from remote.target import Run

SUBMITTER = Path(__file__).parent / "submitter.py"
#: Interval between queries of a job, and time limit of Slurm's commands.
LOOK_S = 5.0
ANSWER_S = 20
#: After its job has ended, a verdict may take this long to appear: a shared file system caches names for a minute.
VISIBLE_S = 75.0
ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",
    "TIMEOUT",
}  # fmt: skip
FIXES = {
    "TIMEOUT": "raise time_limit of the target",
    "OUT_OF_MEMORY": "request more in options of the target, such as --mem=16G",
}


@dataclass(frozen=True)
class Job:
    """The state of a job according to Slurm: state, reason for it, partition and nodes."""

    state: str
    reason: str = ""
    partition: str = ""
    nodes: str = ""

    @property
    def is_over(self) -> bool:
        return self.state in ENDED

    @property
    def fix(self) -> str:
        return f"; {FIXES[self.state]}" if self.state in FIXES else ""


@dataclass(frozen=True)
class Slurm:
    """Target of `kind = "slurm"`. `host` is the login node as given to ssh ("": this machine).

    `workdir` is on a file system that login node and compute nodes share. `partition`, `account`, `gres` and
    `time_limit` are options of sbatch ("": the cluster's default); `options` are further options of sbatch.
    """

    name: str
    workdir: str
    host: str = ""
    partition: str = ""
    account: str = ""
    gres: str = ""
    time_limit: str = ""
    options: str = ""
    python: str = ""
    device: str = "cuda"
    arch: str = "sm_100a"
    sync: str = "push"
    disk_mb: int = 2048
    shared: bool = True
    gpu: ClassVar[int] = 0
    lock: ClassVar[str] = ""
    at_once: ClassVar[int] = 0
    provisionable: ClassVar[bool] = True
    why_not_from_here: ClassVar[str] = ""

    @property
    def environment(self) -> dict[str, str]:
        return {"CUTE_DSL_ARCH": self.arch}

    @property
    def node_prefix(self) -> list[str]:
        """The prefix that runs a command on a node, if one is free now."""
        return ["srun", "--quiet", f"--immediate={ANSWER_S}", "--time=5", *self._request_options]

    def connect(self) -> Link:
        """Open a link to the login node. Raises Unreachable."""
        return Ssh(self.name, self.host, self.workdir).connect() if self.host else LocalLink()

    def submit(self, link: Link, runs: Sequence[Run]) -> None:
        """Submit a batch job; several runs become the tasks of one job array. See `Target.submit`."""
        tasks = (
            f"{task}) cd {shlex.quote(run.cwd)} && exec {shlex.join(run.supervise)} >>{shlex.quote(run.log)} 2>&1 ;;\n"
            for task, run in enumerate(runs)
        )
        array = [f"--array=0-{len(runs) - 1}"] if len(runs) > 1 else []
        asked = {
            "name": runs[0].name,
            "options": ["--requeue", "--ntasks=1", "--output=/dev/null", *array, *self._request_options],
            "script": f"#!/bin/sh\ncase {'$SLURM_ARRAY_TASK_ID' if array else 0} in\n{''.join(tasks)}esac\n",
            "folders": [run.folder for run in runs],
            "workdir": self.workdir,
        }
        send(self, link, SUBMITTER, asked)

    def ended(self, link: Link, runs: Sequence[Run]) -> dict[str, str]:
        numbers = self._numbers(link, runs)
        jobs = _ask(link, numbers)
        found = {run.name: (number, jobs[number]) for run, number in zip(runs, numbers, strict=True)}
        return {
            name: f"Slurm ended job {number}: {job.state}{job.fix}"
            for name, (number, job) in found.items()
            if job.is_over
        }

    def status(self, link: Link, run: Run, offset: int) -> Iterator[dict[str, Any]]:
        """Follow a run, as `Target.status` says, and yield Slurm's state of its job as {"queue": text}.

        Heartbeats have no age, because Slurm notices dead jobs.
        """
        (number,) = self._numbers(link, [run])
        stream = link.open([*run.follow, str(offset), "watched"], run.cwd)
        asked = over_since = 0.0
        try:
            stream.end_input()
            for said in json_lines(stream, self.name):
                said.pop("age_s", None)
                yield said
                if time.monotonic() - asked < LOOK_S:
                    continue
                asked = time.monotonic()
                job = _ask(link, [number])[number]
                over_since = over_since or asked if job.is_over else 0.0
                if over_since and asked - over_since >= VISIBLE_S:
                    why = f"Slurm ended job {number}: {job.state}{job.fix}"
                    yield {"dead": True, "why": why, "cancelled": job.state == "CANCELLED"}
                    return
                yield {"queue": _in_words(link, job, number)}
        finally:
            stream.close()

    def cancel(self, link: Link, run: Run, who: str) -> None:
        (number,) = self._numbers(link, [run])
        links.run(link, [*run.cancel, who], cwd=run.cwd)
        reply = links.run(link, ["timeout", str(ANSWER_S), "scancel", number])
        if reply.code != 0:
            raise Refused(f"{self.name}: scancel {number}: {reply.errors.strip()}")

    @property
    def _request_options(self) -> list[str]:
        asked = {
            "partition": self.partition,
            "account": self.account,
            "gres": self.gres,
            "time": self.time_limit,
        }
        return [*(f"--{name}={value}" for name, value in asked.items() if value), *shlex.split(self.options)]

    def _numbers(self, link: Link, runs: Sequence[Run]) -> list[str]:
        """Return the numbers of jobs, which the submitter wrote down. Raises Refused."""
        reply = links.run(link, ["cat", *(f"{run.folder}/slurm" for run in runs)])
        if reply.code != 0:
            raise Refused(f"{self.name}: there is no such run")
        return reply.out.decode(errors="replace").split()


def _ask(link: Link, numbers: Sequence[str]) -> dict[str, Job]:
    """Return the state of jobs. Slurm forgets a job minutes after its end; if it does not answer, the state is ""."""
    command = ["timeout", str(ANSWER_S), "squeue", "--noheader", "--array", "--states=all", "--format=%i|%T|%r|%P|%N"]
    reply = links.run(link, [*command, f"--jobs={','.join(numbers)}"])
    lines = (line.split("|") for line in reply.out.decode(errors="replace").splitlines())
    known = {number: Job(*fields) for number, *fields in lines if len(fields) == 4}
    forgotten = reply.code == 0 or "Invalid job id" in reply.errors
    other = Job("REVOKED", "Slurm has forgotten it") if forgotten else Job("", "no answer")
    return {number: known.get(number, other) for number in numbers}


def _in_words(link: Link, job: Job, number: str) -> str:
    if job.state == "PENDING":
        return f"pending: {job.reason}{_ahead(link, job, number)}"
    return f"Slurm: {' '.join(filter(None, (job.state.lower() or job.reason, job.nodes and f'on {job.nodes}')))}"


def _ahead(link: Link, job: Job, number: str) -> str:
    """Return how many pending jobs of the partition are ahead of it, in words."""
    command = ["timeout", str(ANSWER_S), "squeue", "--noheader", "--array", "--states=PENDING", "--sort=-p,i"]
    reply = links.run(link, [*command, f"--partition={job.partition}", "--format=%i"])
    waiting = reply.out.decode(errors="replace").split()
    return f", {waiting.index(number)} ahead" if number in waiting else ""
