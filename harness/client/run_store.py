"""The store of this clone's runs: `results/<run>/run.json`, saved at every step."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness.client.candidate import Candidate
from harness.host.files import write_atomically
from harness.host.job import RUN_ID, Job, JobError, check_run_id
from harness.host.subject import Subject
from harness.host.verdict import Verdict
from harness.report.record import Record, load_all

NAME = "run.json"
SHORT = re.compile(r"[0-9a-f]{3,6}")
ACCEPT = Verdict.ACCEPT.name


class RunStoreError(ValueError):
    """A run that this clone does not know or cannot read."""


class Entry(msgspec.Struct):
    """One run of this clone.

    `job` is None until it was made for the target; `parts` are the jobs that the run was split into there. `verdict` is
    "" until one was seen. `seeds` are those that a sweep measures; `times` is set if the run only times its milestone
    on a GPU. `shared_base` is the shared `accepted` when the run was sent ("" if there was none). `closed` is set when
    nothing is left to do. `lacks` is the accepted commit that a stale candidate does not contain. `stays` says why an
    acceptance did not move the user's branch, and how the user moves it.
    """

    subject: Subject
    candidate: Candidate
    started: str
    job: Job | None = None
    parts: list[Job] = []
    seeds: list[int] = []
    times: bool = False
    no_cache: bool = False
    shared_base: str = ""
    lacks: str = ""
    sent: bool = False
    verdict: str = ""
    reason: str = ""
    closed: bool = False
    stays: str = ""

    @property
    def run(self) -> str:
        return self.subject.run

    @property
    def runs(self) -> list[str]:
        """The run ids on the target: its own, or those of its parts."""
        return [part.run for part in self.parts] or [self.run]

    @property
    def judges(self) -> bool:
        """True if the run accepts or rejects a change."""
        return not self.seeds and not self.times


class RunStore:
    """The runs in the folder `results`."""

    def __init__(self, results: Path) -> None:
        self.results = results

    def full(self, run: str) -> str:
        """Return the id of the only run here that ends with `run`, at least 3 of its digits; else `run` itself."""
        ends = self.results.glob(f"*-*{run}/{NAME}") if SHORT.fullmatch(run) else ()
        found = [path.parent.name for path in ends]
        return found[0] if len(found) == 1 else run

    def folder(self, run: str) -> Path:
        """Return the folder of a run's results."""
        return self.results / check_run_id(self.full(run))

    def save(self, entry: Entry) -> None:
        """Write an entry atomically."""
        folder = self.folder(entry.run)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / NAME, msgspec.json.format(msgspec.json.encode(entry), indent=1) + b"\n")

    def find(self, run: str) -> Entry:
        """Return the entry of a run. Raises RunStoreError, which names the newest runs."""
        try:
            return msgspec.json.decode((self.folder(run) / NAME).read_bytes(), type=Entry)
        except (OSError, JobError) as error:
            newest = ", ".join(entry.run for entry, _ in zip(self.newest_first(), range(3), strict=False))
            wrong = f"run {run[:64]!r} is not known here" if run else "no run was named (RUN=id)"
            runs = f"the newest are {newest}" if newest else "this clone has no runs"
            raise RunStoreError(f"{wrong}; {runs}") from error
        except msgspec.MsgspecError as error:
            raise RunStoreError(f"{self.folder(run) / NAME}: {error}") from error

    def newest_first(self) -> Iterator[Entry]:
        """Yield every run that can be read, newest first."""
        for path in sorted(self.results.glob(f"*/{NAME}"), reverse=True):
            try:
                if RUN_ID.fullmatch(path.parent.name):
                    yield msgspec.json.decode(path.read_bytes(), type=Entry)
            except (OSError, msgspec.MsgspecError):
                continue

    def accepted_before(self, run: Entry) -> dict[str, Path]:
        """Return the folders of records of the milestones accepted before a run on its target, by milestone.

        A record of the commit that the run's change is based on comes first, then the newest.
        """
        found: dict[str, Path] = {}
        earlier = [entry for entry in self.newest_first() if entry.started < run.started]
        same = [entry for entry in earlier if (entry.verdict, entry.subject.target) == (ACCEPT, run.subject.target)]
        for entry in sorted(same, key=lambda entry: entry.subject.commit != run.subject.base):
            for record, folder in self._records(entry):
                found.setdefault(record.milestone, folder)
        return found

    def accepted(self) -> list[Record]:
        """Return the records of accepted runs, oldest first."""
        accepted = (entry for entry in self.newest_first() if entry.verdict == ACCEPT)
        found = [record for entry in accepted for record, _ in self._records(entry)]
        return sorted(found, key=lambda record: record.started)

    def _records(self, run: Entry) -> Iterator[tuple[Record, Path]]:
        """Yield the records of a run, with their folders: the gate first."""
        folder = self.folder(run.run)
        for name, record in load_all(folder, run.subject.milestones):
            yield record, folder / name
