"""What a supervisor is asked to do, and the folders it does it in."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.host import subject as subjects
from harness.host.subject import Subject

KERNELS = "FMHA_KERNELS"
"""The variable that tells a phase where compiled kernels are kept; empty for nowhere."""
RUN_ID = re.compile(r"\d{8}-\d{6}-[A-Za-z0-9.+]{1,24}-[0-9a-f]{6}")


class JobError(ValueError):
    """A job file that is absent or damaged, or a run id that is none."""


@dataclass(frozen=True)
class Step:
    """One phase: a command run in the checkout, and what its ends mean.

    It is ended after `budget_s` seconds with the verdict named `hung`; an exit code other than 0 gives `failed`,
    unless the code is that of a more exact verdict. It writes its record to `record`, a folder of the results
    ("." for their root): with `milestone` that must accept it too; each configuration that a phase of the record
    named "compile" compiles may take `compile_s`.
    """

    name: str
    argv: list[str]
    budget_s: float
    failed: str = "INFRA"
    hung: str = "INFRA"
    record: str = ""
    milestone: str = ""
    compile_s: float = 0.0


@dataclass(frozen=True)
class Job:
    """The work of one supervisor.

    `fingerprint` runs first and last. `canary`, if there is one, runs before the steps and after a hang. At most
    `slots` runs hold the lock named `lock` at a time ("" if a scheduler takes care of that). The run named `after`, on
    the same commit, must end with ACCEPT before this one starts. `grace_s` is the time between SIGTERM and SIGKILL.
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

    @property
    def run(self) -> str:
        return self.subject.run

    def encode(self) -> str:
        """Return the job as JSON."""
        return json.dumps(asdict(self), indent=1)


def decode(text: str) -> Job:
    """Read a job. Raises JobError."""
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
    """The run id itself. Raises JobError for a text that is none (it would become a path)."""
    if not RUN_ID.fullmatch(run):
        raise JobError(f"run {run[:64]!r}: not a run id such as 20261121-093012-D1.1-ab12cd (see: runs)")
    return run


@dataclass(frozen=True)
class Workplace:
    """The work folder of a target: everything the harness writes there lies in it."""

    root: Path

    @property
    def repository(self) -> Path:
        return self.root / "repo.git"

    @property
    def kernels(self) -> Path:
        """What was compiled, for the emulated device."""
        return self.root / "kernels"

    @property
    def locks(self) -> Path:
        return self.root / "locks"

    def broken(self, lock: str) -> Path:
        """Exists while what `lock` stands for is marked broken, and says why."""
        return self.locks / f"{lock}.broken"

    def run(self, run: str) -> RunFolder:
        """The folder of a run. Raises JobError for what is no run id."""
        return RunFolder(self.root / "runs" / check_run_id(run))


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run: `tree` the checkout, `out` the results, `engine` the supervisor's code."""

    path: Path

    @property
    def workplace(self) -> Workplace:
        return Workplace(self.path.parent.parent)

    @property
    def job_file(self) -> Path:
        return self.path / "job.json"

    @property
    def journal(self) -> Path:
        return self.path / "journal.jsonl"

    @property
    def log(self) -> Path:
        """What the supervisor itself says."""
        return self.path / "supervisor.log"

    @property
    def heartbeat(self) -> Path:
        return self.path / "heartbeat"

    @property
    def alive(self) -> Path:
        """Locked by the supervisor for as long as it lives."""
        return self.path / "alive"

    @property
    def attempt(self) -> Path:
        """Names the newest attempt, where a scheduler may begin a run again."""
        return self.path / "attempt"

    @property
    def cancel(self) -> Path:
        """Appears when a person wants the run to end; holds who."""
        return self.path / "cancel"

    @property
    def engine(self) -> Path:
        return self.path / "engine"

    @property
    def tree(self) -> Path:
        return self.path / "tree"

    @property
    def out(self) -> Path:
        """The results; named as the run, for the records in it take their run id from there."""
        return self.path / "out" / self.path.name

    @property
    def home(self) -> Path:
        """HOME and TMPDIR of the phases: what they leave there goes with the run."""
        return self.path / "home"

    @property
    def logs(self) -> Path:
        return self.out / "logs"

    def job(self) -> Job:
        """Read the job. Raises JobError."""
        try:
            return decode(self.job_file.read_text())
        except OSError as error:
            raise JobError(f"{self.job_file}: {error.strerror}") from error
