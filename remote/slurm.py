"""Slurm clusters as targets. Each run is a batch job, submitted from a login node over SSH or from this machine.

Slurm alone decides when and where a job runs. This module queries it (squeue) and gives it commands (sbatch, scancel).
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
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
from remote.target import End, Run

SUBMITTER = Path(__file__).parent / "submitter.py"
#: Interval between queries of a job, and of one that is over; time limit of Slurm's commands.
LOOK_S, LOOK_AGAIN_S = 5.0, 1.0
ANSWER_S = 20
#: After its job has ended, a verdict may take this long to appear: a shared file system caches names for a minute.
VISIBLE_S = 75.0
#: The supervisor of a cancelled job may have been about to write its verdict, which makes little difference.
CANCELLED_S = 3.0
#: The state of a job that Slurm has purged, minutes after its end.
PURGED = "PURGED"
ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", PURGED,
    "REVOKED", "TIMEOUT",
}  # fmt: skip
FIXES = {
    "TIMEOUT": "raise time_limit of the target",
    "OUT_OF_MEMORY": "request more in options of the target, such as --mem=16G",
}
#: Why a pending job may never start, and the fix. Slurm's reason begins with one of these words.
STUCK = {
    "AssocGrp": "your account is at a limit of its group: sacctmgr show assoc",
    "AssocMax": "your account is at a limit: sacctmgr show assoc",
    "AssociationTimeLimit": "lower time_limit of the target: your account allows less",
    "BadConstraints": "no node can ever meet gres and options of the target",
    "DependencyNeverSatisfied": "make cancel, and take the dependency out of options of the target",
    "InvalidAccount": "set account of the target: sacctmgr show assoc",
    "InvalidQOS": "name another --qos in options of the target: sacctmgr show qos",
    "JobHeldAdmin": "an administrator holds it: ask them",
    "JobHeldUser": "it is held: scontrol release",
    "MaxMemPerLimit": "request less memory in options of the target",
    "PartitionConfig": "request less in gres and options of the target, or set another partition: sinfo",
    "PartitionDown": "the partition is down: set another partition of the target, or wait",
    "PartitionInactive": "the partition is closed: set another partition of the target, or wait",
    "PartitionNodeLimit": "request fewer nodes in options of the target",
    "PartitionTimeLimit": "lower time_limit of the target: the partition allows less (sinfo --format='%P %l')",
    "QOSMax": "your QOS is at a limit: sacctmgr show qos",
    "QOSTimeLimit": "lower time_limit of the target: your QOS allows less",
    "ReqNodeNotAvail": "the nodes that it may use are down, drained or reserved: sinfo --list-reasons",
    "ReservationDeleted": "take the reservation out of options of the target",
}
#: Slurm's messages when it rejects a job, and the fix for each.
REFUSED = {
    "Invalid job array": "its MaxArraySize allows fewer tasks than {tasks}: judge fewer milestones at once",
    "temporarily unable to accept job": "its queue is full (MaxJobCount): make resume, when jobs have ended",
    "time limit": "lower time_limit of the target: sinfo --format='%P %l' lists the limits",
    "invalid partition": "set partition of the target: sinfo lists them",
    "Invalid account": "set account of the target: sacctmgr show assoc lists yours",
    "generic resource": "set gres of the target: sinfo --format='%P %G' lists them",
    "node configuration is not available": "no node can ever meet gres and options of the target",
    "Job violates accounting/QOS policy": "your account is at a limit: make resume, when jobs of yours have ended",
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

    def end(self, number: str) -> End:
        """Return the end of job `number`, which is over. One that was cancelled before it had a node left nothing."""
        if self.state == PURGED:
            forgotten = f"Slurm has forgotten job {number}, which left no verdict; sacct --jobs={number} may know more"
            return End(forgotten, False, VISIBLE_S)
        fix = f"; {FIXES[self.state]}" if self.state in FIXES else ""
        cancelled = self.state == "CANCELLED"
        visible_s = VISIBLE_S if not cancelled else CANCELLED_S if self.nodes else 0.0
        return End(f"Slurm ended job {number}: {self.state}{fix}", cancelled, visible_s)

    @property
    def advice(self) -> str:
        """The fix if Slurm's reason says that the job may never start."""
        return next((f"; {fix}" for word, fix in STUCK.items() if self.reason.startswith(word)), "")


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
    base_python: str = ""
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
        try:
            send(self, link, SUBMITTER, "submit", asked)
        except Refused as error:
            fixes = (f"; {fix.format(tasks=len(runs))}" for words, fix in REFUSED.items() if words in str(error))
            raise Refused(f"{error}{next(fixes, '')}") from error

    def ended(self, link: Link, runs: Sequence[Run]) -> dict[str, End]:
        numbers = self._numbers(link, runs)
        jobs = _ask(link, numbers)
        found = {run.name: (number, jobs[number]) for run, number in zip(runs, numbers, strict=True)}
        return {name: job.end(number) for name, (number, job) in found.items() if job.is_over}

    def status(self, link: Link, run: Run, offset: int) -> Iterator[dict[str, Any]]:
        """Follow a run, as `Target.status` says, and yield Slurm's state of its job as {"queue": text}.

        Heartbeats have no age, because Slurm notices dead jobs.
        """
        (number,) = self._numbers(link, [run])
        asked = over_since = 0.0
        with closing(link.open([*run.follow, str(offset), "watched"], run.cwd)) as stream:
            stream.end_input()
            for said in json_lines(stream, self.name):
                said.pop("age_s", None)
                yield said
                if time.monotonic() - asked < (LOOK_AGAIN_S if over_since else LOOK_S):
                    continue
                asked = time.monotonic()
                job = _ask(link, [number])[number]
                over_since = over_since or asked if job.is_over else 0.0
                end = job.end(number)
                if over_since and asked - over_since >= end.visible_s:
                    yield {"dead": True, "why": end.why, "cancelled": end.cancelled}
                    return
                yield {"queue": _in_words(link, job, number)}

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
    other = Job(PURGED) if forgotten else Job("", "no answer")
    return {number: known.get(number, other) for number in numbers}


def _in_words(link: Link, job: Job, number: str) -> str:
    if job.state == "PENDING":
        return f"pending: {job.reason}{job.advice or _ahead(link, job, number)}"
    return f"Slurm: {' '.join(filter(None, (job.state.lower() or job.reason, job.nodes and f'on {job.nodes}')))}"


def _ahead(link: Link, job: Job, number: str) -> str:
    """Return the number of pending jobs of the partition that are ahead of it, in words."""
    command = ["timeout", str(ANSWER_S), "squeue", "--noheader", "--array", "--states=PENDING", "--sort=-p,i"]
    reply = links.run(link, [*command, f"--partition={job.partition}", "--format=%i"])
    waiting = reply.out.decode(errors="replace").split()
    return f", {waiting.index(number)} ahead" if number in waiting else ""
