"""The accepted commit and the notes that vouch for it. `accepted` counts only if its tip has a note of an ACCEPT.

A candidate's process runs as the user, and could move the ref. Notes of this clone lie in `NOTES`, those that were
fetched with the `accepted` of a shared target or of a remote below `FETCHED`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from harness.client.candidate import CandidateError
from harness.host.repository import ACCEPTED, NOTES, GitError, Repository
from harness.host.verdict import Verdict

FETCHED = "refs/notes/from"
#: Options of a fetch that changes nothing but the refs that it names.
QUIETLY = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
MOST_LOOKED_AT = 1000


class NotVouchedError(CandidateError):
    """`accepted` is at a commit that no run accepted. The message names the fix."""


def fetched_notes(source: str) -> str:
    """Return the refspec that fetches the notes of `source`."""
    return f"+{NOTES}*:{FETCHED}/{source}/verdicts*"


def notes(repository: Repository, commit: str) -> list[dict[str, Any]]:
    """Return the notes of a commit, oldest first: those of this clone, then those of others about other runs."""
    found: dict[str, dict[str, Any]] = {}
    for ref in note_refs(repository):
        try:
            text = repository.git("notes", f"--ref={ref}", "show", commit)
        except GitError:
            continue
        for line in text.splitlines():
            if line.startswith("{"):
                known = json.loads(line)
                found.setdefault(known["run"], known)
    return list(found.values())


def noted(repository: Repository) -> set[str]:
    """Return the commits that have notes."""
    lists = (repository.git("notes", f"--ref={ref}", "list").splitlines() for ref in note_refs(repository))
    return {row.split()[1] for rows in lists for row in rows}


def note_refs(repository: Repository) -> list[str]:
    """Return the refs of notes, this clone's own first."""
    own = [NOTES] if repository.resolve(NOTES) else []
    return own + repository.git("for-each-ref", "--format=%(refname)", FETCHED).split()


def is_vouched(repository: Repository, commit: str) -> bool:
    """Return True if a run accepted the commit."""
    return any(known["verdict"] == Verdict.ACCEPT.name for known in notes(repository, commit))


def accepted(repository: Repository) -> str | None:
    """Return the accepted commit, None if there is none. Raises NotVouchedError if no run accepted it."""
    tip = repository.resolve(ACCEPTED)
    if tip is not None:
        check(repository, tip, "accepted")
    return tip


def check(repository: Repository, tip: str, name: str) -> None:
    """Raise NotVouchedError unless a run accepted `tip`, which `name` is at."""
    if is_vouched(repository, tip):
        return
    known = noted(repository)
    older = (each for each in _history(repository, tip) if each in known and is_vouched(repository, each))
    last = next(older, "")
    back = f"git update-ref {ACCEPTED} {last[:12]}" if last else f"git update-ref -d {ACCEPTED}"
    raise NotVouchedError(
        f"{name} is at {tip[:12]}, which has no note of an ACCEPT: no run of the harness moved it there. If others "
        f"accepted it, fetch their notes (git fetch REMOTE '{fetched_notes('REMOTE')}'); if not, look who moved it "
        f"(git reflog accepted) and take it back: {back}"
    )


def _history(repository: Repository, tip: str) -> Iterator[str]:
    yield from repository.git("rev-list", f"--max-count={MOST_LOOKED_AT}", tip).split()


def adopt(repository: Repository) -> str:
    """Make `accepted` from that of a remote, if this clone has none yet. Return a sentence about it, "" if not.

    A clone has the remote's `accepted` as a remote-tracking branch, and none of its notes: they are fetched.
    """
    if repository.resolve(ACCEPTED):
        return ""
    remotes = sorted(repository.git("remote").split(), key=lambda name: (name != "origin", name))
    for remote in remotes:
        tip = repository.resolve(f"refs/remotes/{remote}/accepted")
        if tip is None:
            continue
        repository.succeeds(*QUIETLY, remote, fetched_notes(remote))
        check(repository, tip, f"{remote}/accepted")
        repository.move(ACCEPTED, tip, None, f"taken from {remote}/accepted")
        return f"accepted starts at {remote}/accepted, {tip[:12]}"
    return ""
