"""Jobs of supervisors, and the layout of the folders on a host."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.host import subject as subjects
from harness.host.subject import Subject

KERNELS = "FMHA_KERNELS"
"""The environment variable with the folder of cached compiled kernels; empty if nothing is cached."""
COMPILED = "FMHA_COMPILED"
"""The environment variable with the folder to which compiled kernels are written; by default that of KERNELS."""
RUN_ID = re.compile(r"\d{8}-\d{6}-[A-Za-z0-9.+]{1,24}-[0-9a-f]{6}")


class JobError(ValueError):
    """A job file that is missing or damaged, or text that is not a run id."""


@dataclass(frozen=True)
class Step:
    """One phase: a command that runs in the checkout, and the verdicts that its ends imply.

    After `budget_s` seconds it is killed with the verdict named `hung`. An exit code other than 0 gives `failed`,
    unless it is the code of a more specific verdict. `record` is the folder of its record, relative to the results ("."
    is their root). Each configuration may compile for `compile_s` seconds of CPU time.

    If `milestone` is set, the phase judges: it runs with the accepted tree's code and a seed that the supervisor draws,
    and its record must show that the milestone holds, with every case launched in each of the completion `modes`. The
    record must also show that cases of the milestones `beside` it hold, launched once.

    If `again` is set, the phase repeats the previous one in a different environment, and writes to its own home only.
    """

    name: str
    argv: list[str]
    budget_s: float
    failed: str = "INFRA"
    hung: str = "INFRA"
    record: str = ""
    milestone: str = ""
    modes: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    compile_s: float = 0.0
    again: bool = False

    @property
    def records(self) -> bool:
        """True if the phase runs the candidate's Python, whose exit code says nothing about the machine."""
        return bool(self.compile_s) or self.again


@dataclass(frozen=True)
class Job:
    """The work of one supervisor.

    `fingerprint` runs first and last. `canary`, if there is one, runs before the steps and after a hang. At most
    `slots` runs hold the lock named `lock` at a time ("" if a scheduler takes care of that). The run named `after`, on
    the same commit, must end with ACCEPT before this one starts; of several that wait for it, that with the least
    `turn` starts first. `hidden` are folders of the client's, whose files no phase may see if they are on the same
    host. `grace_s` is the time between SIGTERM and SIGKILL.
    """

    subject: Subject
    fingerprint: Step
    steps: list[Step]
    canary: Step | None = None
    lock: str = "gpu0"
    env: dict[str, str] = field(default_factory=dict)
    disk_bytes: int = 1 << 30
    grace_s: float = 5.0
    slots: int = 1
    after: str = ""
    turn: int = 0
    hidden: list[str] = field(default_factory=list)

    @property
    def run(self) -> str:
        return self.subject.run

    def encode(self) -> str:
        """Return the job as JSON."""
        return json.dumps(asdict(self), indent=1)


def decode(text: str) -> Job:
    """Parse a job. Raises JobError."""
    try:
        fields: dict[str, Any] = json.loads(text)
        fields["subject"] = subjects.decode(fields["subject"])
        check_run_id(fields["subject"].run)
        fields["fingerprint"] = Step(**fields["fingerprint"])
        fields["steps"] = [Step(**step) for step in fields["steps"]]
        fields["canary"] = Step(**fields["canary"]) if fields["canary"] else None
        return Job(**fields)
    except (ValueError, KeyError, TypeError) as error:
        raise JobError(f"job file: {type(error).__name__}: {error}") from error


def check_run_id(run: str) -> str:
    """Return `run` if it is a run id, which is safe as a file name. Raises JobError if not."""
    if not RUN_ID.fullmatch(run):
        raise JobError(f"run {run[:64]!r}: not a run id such as 20261121-093012-D1.1-ab12cd; `make runs` lists them")
    return run


class Workplace:
    """The work folder of a target; the harness writes nothing outside it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repository = root / "repo.git"
        self.kernels = root / "kernels"  # cache of compiled kernels, for the emulated device
        self.compiled = root / "compiled"  # kernels that the processes of each commit compiled; see `kernel_cache`
        self.locks = root / "locks"

    def broken(self, lock: str) -> Path:
        """Return the file that marks the device of `lock` as broken; its text says why."""
        return self.locks / f"{lock}.broken"

    def run(self, run: str) -> RunFolder:
        """Return the folder of a run. Raises JobError if `run` is not a run id."""
        return RunFolder(self.root / "runs" / check_run_id(run))


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.workplace = Workplace(path.parent.parent)
        self.job_file = path / "job.json"
        self.journal = path / "journal.jsonl"
        self.log = path / "supervisor.log"  # output of the supervisor itself
        self.heartbeat = path / "heartbeat"
        self.alive = path / "alive"  # the supervisor keeps this file locked while it is alive
        self.attempt = path / "attempt"  # identifies the newest attempt, because a scheduler may start a run again
        self.cancel = path / "cancel"  # exists once somebody asked to cancel the run; its text is the name
        self.engine = path / "engine"  # the supervisor's code
        self.tree = path / "tree"  # the checkout of the commit
        self.accepted_tree = path / "judge"  # the checkout of the accepted commit, whose code judges
        self.out = path / "out" / path.name  # the results; the records in it take their run id from the name
        self.logs = self.out / "logs"
        self.home = path / "home"  # HOME and TMPDIR of each phase; removed at the end of the run

    def log_of(self, step: Step) -> Path:
        """Return the file with the output of a phase."""
        return self.logs / (step.name.replace(" ", "-") + ".log")

    def job(self) -> Job:
        """Read the job file. Raises JobError."""
        try:
            return decode(self.job_file.read_text())
        except OSError as error:
            raise JobError(f"{self.job_file}: {error.strerror}") from error
