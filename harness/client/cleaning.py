"""Removal of old runs: results, candidates, and folders on targets. The results of accepted runs stay."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from itertools import groupby

from harness.client import candidate
from harness.client.host import reach
from harness.client.run_store import Entry, RunStore
from harness.host.repository import Repository
from harness.host.verdict import Verdict
from remote import targets
from remote.errors import RemoteError
from remote.target import Target
from remote.targets import Targets


def clean(repository: Repository, store: RunStore, known: Targets, keep: int) -> Iterator[str]:
    """Remove all but the newest `keep` runs of a clone, and yield a line for each target.

    Runs that have not ended stay, and so do the runs of a target that cannot be reached.
    """
    old = [each for each in list(store.newest_first())[keep:] if each.closed]
    for name, group in groupby(sorted(old, key=_target), key=_target):
        runs = list(group)
        try:
            target = known.find(name)
            _forget(target, runs)
            if target.device == "cuda":
                _forget(targets.here(store.results.resolve() / ".here", target.arch), runs)
        except RemoteError as error:
            yield f"{name}: {len(runs)} old runs stay: {error}"
            continue
        gone = [each for each in runs if each.verdict != Verdict.ACCEPT.name]
        for each in gone:
            shutil.rmtree(store.folder(each.run))
            candidate.drop(repository, each.candidate)
        yield f"{name}: {len(gone)} runs removed"


def _target(entry: Entry) -> str:
    return entry.subject.target


def _forget(target: Target, runs: Sequence[Entry]) -> None:
    with reach(target) as host:
        host.forget([run for each in runs for run in {each.run, *each.runs}])
