"""Accept moves `accepted` by compare-and-swap, and the user's branch where that is safe; reject only notes.

Nothing is ever reset, and no file of the working tree is written.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.client import candidate as candidates
from harness.client.candidate import Candidate
from harness.host.protected import PROTECTION
from harness.host.repository import ACCEPTED, NOTES, GitError, Repository
from harness.host.ruling import Ruling
from harness.host.verdict import Verdict


class StaleBase(RuntimeError):
    """`accepted` is no longer what the candidate was tested on; it has to be tested again."""


@dataclass(frozen=True)
class Accepted:
    """What accepting did. `branch_moved` is False with the reason in `why_not`."""

    branch_moved: bool
    why_not: str = ""


def accept(
    repository: Repository,
    candidate: Candidate,
    ruling: Ruling,
    share: Callable[[], None] = lambda: None,
) -> Accepted:
    """Move `accepted`, from something that the candidate holds, to it; note it, and bring the branch along.

    `share` moves the `accepted` that other people see, and raises StaleBase where it is not the base; it is
    called first, with this repository's `accepted` held still. Repeating an acceptance changes nothing.
    Raises StaleBase, or ValueError for a ruling that accepts nothing or another commit.
    """
    if ruling.verdict is not Verdict.ACCEPT or ruling.subject.commit != candidate.commit:
        raise ValueError(f"ruling: {ruling.verdict.name} on {ruling.subject.commit}, not ACCEPT on {candidate.commit}")
    with _held(repository):
        now = repository.resolve(ACCEPTED)
        done = now is not None and repository.is_ancestor(candidate.commit, now)
        if not done:
            if now is not None and not repository.is_ancestor(now, candidate.commit):
                raise StaleBase(f"accepted is {now[:12]}, tested on {ruling.subject.base[:12] or 'none'}")
            share()
            try:
                repository.move(ACCEPTED, candidate.commit, now, f"accepted by {ruling.subject.run}")
            except GitError as error:
                raise StaleBase(str(error)) from error
        note(repository, ruling)
        return _bring_branch(repository, candidate, ruling.subject.run)


def note(repository: Repository, ruling: Ruling) -> None:
    """Add the ruling to the git notes of its commit, once."""
    subject = ruling.subject
    line = {
        "run": subject.run,
        "milestone": subject.milestone,
        "target": subject.target,
        "verdict": ruling.verdict.name,
        "reason": ruling.reason,
        "base": subject.base,
        "pins": subject.pins,
        "unpinned": subject.unpinned,
        "because": subject.because,
        "ended": ruling.ended,
    }
    if any(known["run"] == subject.run for known in notes(repository, subject.commit)):
        return
    repository.git(
        "notes",
        f"--ref={NOTES}",
        "append",
        "-F",
        "-",
        subject.commit,
        stdin=json.dumps(line),
        env=candidates.identity(repository),
    )


def notes(repository: Repository, commit: str) -> list[dict[str, Any]]:
    """The notes of a commit, oldest first."""
    try:
        text = repository.git("notes", f"--ref={NOTES}", "show", commit)
    except GitError:
        return []
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def accepted_milestones(repository: Repository) -> dict[str, list[str]]:
    """Every milestone that was accepted in the history of `accepted`, with the targets it was accepted on."""
    tip = repository.resolve(ACCEPTED)
    found: dict[str, list[str]] = {}
    if tip is None or repository.resolve(NOTES) is None:
        return found
    for row in repository.git("notes", f"--ref={NOTES}", "list").splitlines():
        commit = row.split()[1]
        for known in notes(repository, commit):
            if known["verdict"] == Verdict.ACCEPT.name and repository.is_ancestor(commit, tip):
                for milestone in known["milestone"].split("+"):
                    targets = found.setdefault(milestone, [])
                    if known["target"] not in targets:
                        targets.append(known["target"])
    return found


@contextmanager
def _held(repository: Repository) -> Iterator[None]:
    """Only one acceptance at a time in this repository."""
    folder = repository.git("rev-parse", "--path-format=absolute", "--git-common-dir")
    with open(Path(folder, "fmha-accept.lock"), "w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _bring_branch(repository: Repository, candidate: Candidate, run: str) -> Accepted:
    """Fast-forward the branch and its index to the candidate, where nobody could lose anything by it."""
    if repository.resolve(candidate.branch) == candidate.commit:
        return Accepted(True)
    why_not = _unsafe(repository, candidate)
    if why_not:
        return Accepted(False, why_not)
    move = repository.prepared_move(candidate.branch, candidate.commit, candidate.parent, f"fmha: accepted by {run}")
    try:
        with move:
            repository.git("read-tree", candidate.commit)
    except GitError as error:
        return Accepted(False, f"git would not move it ({error}); to follow: git commit -a, git merge accepted")
    repository.succeeds("update-index", "-q", "--refresh")
    return Accepted(True)


def _unsafe(repository: Repository, candidate: Candidate) -> str:
    """Why the branch should stay where it is, or ""."""
    tip = repository.resolve("HEAD")
    branch = repository.git("rev-parse", "--symbolic-full-name", "HEAD")
    short = candidate.branch.removeprefix("refs/heads/")
    if branch != candidate.branch:
        return f"another branch is checked out; to follow: git switch {short}, git merge accepted"
    if tip != candidate.parent:
        return "it moved on since the candidate was made; to follow: git merge accepted"
    if repository.resolve(f"{candidate.commit}^") != candidate.parent:
        return "your change was accepted merged with newer work; to follow: git commit -a, git merge accepted"
    if any(repository.resolve(name) for name in ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")):
        return "a merge or pick is under way; when it is done: git merge accepted"
    flagged = [r[2:] for r in repository.git("ls-files", "-v", "-z").split("\0") if r and not r.startswith("H ")]
    if flagged:
        return (
            f"the index marks {flagged[0]} (assume-unchanged, skip-worktree or unmerged); without the mark: git commit "
            f"-a, git merge accepted"
        )
    if _index_tree(repository) not in (candidate.tree, repository.git("rev-parse", f"{tip}^{{tree}}")):
        return "something else is staged; to follow: git commit, git merge accepted"
    unpinned = [entry.path for entry in repository.changed(candidate.parent, candidate.commit)]
    tree, _ = candidates.write_tree(repository, candidate.parent, (*PROTECTION.allowed, *unpinned))
    if tree != candidate.tree:
        return "the working tree was edited since the candidate was made; to follow: git commit -a, git merge accepted"
    return ""


def _index_tree(repository: Repository) -> str:
    """The tree of the user's index, written from a copy of it."""
    index = Path(repository.git("rev-parse", "--path-format=absolute", "--git-path", "index"))
    with tempfile.TemporaryDirectory(prefix="fmha-index-") as folder:
        copy = Path(folder, "index")
        if os.path.exists(index):
            shutil.copyfile(index, copy)
        return repository.git("write-tree", env={"GIT_INDEX_FILE": str(copy)})
