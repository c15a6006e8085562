"""Acceptance of a candidate: move `accepted` by compare-and-swap, and the user's branch if that is safe.

A rejection only adds a git note. Nothing is ever reset, and no file of the working tree is written.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.client import candidate as candidates
from harness.client import vouched
from harness.client.candidate import Candidate
from harness.host.protected import PROTECTION
from harness.host.repository import ACCEPTED, GitError, Repository
from harness.host.ruling import Ruling
from harness.host.verdict import Verdict
from stages.catalog import GATE


class StaleBase(RuntimeError):
    """`accepted` moved since the candidate was tested, so the change must be tested again."""


@dataclass(frozen=True)
class Accepted:
    """The effect of an acceptance. If `branch_moved` is False, `why_not` is the reason."""

    branch_moved: bool
    why_not: str = ""


def accept(
    repository: Repository,
    candidate: Candidate,
    ruling: Ruling,
    share: Callable[[], None] = lambda: None,
) -> Accepted:
    """Move `accepted` to the candidate, add a git note, and move the user's branch if that is safe.

    `share` is called first, while this repository's `accepted` is locked. It moves the shared `accepted`, and raises
    StaleBase if that is not at the candidate's base. Repeating an acceptance changes nothing. Raises StaleBase if
    `accepted` is not an ancestor of the candidate, and ValueError if the ruling does not accept this candidate.
    """
    if ruling.verdict is not Verdict.ACCEPT or ruling.subject.commit != candidate.commit:
        raise ValueError(f"ruling: {ruling.verdict.name} on {ruling.subject.commit}, not ACCEPT on {candidate.commit}")
    with _held(repository):
        now = vouched.accepted(repository)
        done = now is not None and repository.is_ancestor(candidate.commit, now)
        if not done:
            if now is not None and not repository.is_ancestor(now, candidate.commit):
                tested = ruling.subject.base[:12] or "no accepted commit"
                raise StaleBase(f"accepted is {now[:12]}, but the change was tested on {tested}")
            add_note(repository, ruling)  # first, so that `accepted` is never at a commit without its note
            share()
            try:
                repository.move(ACCEPTED, candidate.commit, now, f"accepted by {ruling.subject.run}")
            except GitError as error:
                raise StaleBase(str(error)) from error
        add_note(repository, ruling)
        return _bring_branch(repository, candidate, ruling.subject.run)


def add_note(repository: Repository, ruling: Ruling) -> None:
    """Add the ruling to the git notes of its commit, unless it is there already."""
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
        "rejected": subject.rejected,
        "ended": ruling.ended,
    }
    if any(known["run"] == subject.run for known in vouched.notes(repository, subject.commit)):
        return
    vouched.append(repository, subject.commit, line)


def accepted_milestones(repository: Repository) -> dict[str, list[str]]:
    """Return each milestone accepted in the history of `accepted`, with the targets on which it was accepted."""
    tip = vouched.accepted(repository)
    found: dict[str, list[str]] = {}
    for commit in sorted(vouched.commits_with_notes(repository)) if tip else []:
        for known in vouched.notes(repository, commit):
            if known["verdict"] == Verdict.ACCEPT.name and repository.is_ancestor(commit, str(tip)):
                for milestone in known["milestone"].split("+"):
                    targets = found.setdefault(milestone, [])
                    if known["target"] not in targets:
                        targets.append(known["target"])
    return found


def judged_on(repository: Repository, tip: str, target: str = "") -> dict[str, tuple[str, bool]]:
    """Return the newest commit up to `tip` that each milestone was accepted on, and whether its tree is that of `tip`.

    Every run judges the gate first. target: the only one whose runs count; "" for all.
    """
    known = vouched.commits_with_notes(repository)
    history = repository.git("log", f"--max-count={vouched.MOST_LOOKED_AT}", "--format=%H %T", tip).splitlines()
    here, found = history[0].split()[1], dict[str, tuple[str, bool]]()
    for commit, tree in (row.split() for row in history if row.split()[0] in known):
        for note in vouched.notes(repository, commit):
            counts = note["verdict"] == Verdict.ACCEPT.name and target in ("", note["target"])
            for each in (*note["milestone"].split("+"), GATE.id) if counts else ():
                found.setdefault(each, (commit, tree == here))
    return found


def not_judged_on_tip(repository: Repository) -> dict[str, str]:
    """Return the accepted milestones that were not judged on the tree of `accepted`, with the last commit they were."""
    tip = vouched.accepted(repository)
    found = judged_on(repository, tip) if tip else {}
    return {milestone: commit for milestone, (commit, same) in found.items() if not same}


@contextmanager
def _held(repository: Repository) -> Iterator[None]:
    """Lock this repository, so that only one acceptance runs at a time."""
    folder = repository.git("rev-parse", "--path-format=absolute", "--git-common-dir")
    with open(Path(folder, "fmha-accept.lock"), "w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _bring_branch(repository: Repository, candidate: Candidate, run: str) -> Accepted:
    """Fast-forward the branch and its index to the candidate, if no work can be lost by that."""
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
        return Accepted(False, f"git could not move it ({error}); to catch up: git commit -a, git merge accepted")
    repository.succeeds("update-index", "-q", "--refresh")
    return Accepted(True)


def _unsafe(repository: Repository, candidate: Candidate) -> str:
    """Return why the branch must stay where it is, or ""."""
    tip = repository.resolve("HEAD")
    branch = repository.git("rev-parse", "--symbolic-full-name", "HEAD")
    short = candidate.branch.removeprefix("refs/heads/")
    if branch != candidate.branch:
        return f"another branch is checked out; to catch up: git switch {short}, git merge accepted"
    if tip != candidate.parent:
        return "it moved since the candidate was made; to catch up: git merge accepted"
    if repository.resolve(f"{candidate.commit}^") != candidate.parent:
        return "your change was accepted merged with newer work; to catch up: git commit -a, git merge accepted"
    if any(repository.resolve(name) for name in ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")):
        return "a merge or cherry-pick is in progress; when it is done: git merge accepted"
    flagged = [r[2:] for r in repository.git("ls-files", "-v", "-z").split("\0") if r and not r.startswith("H ")]
    if flagged:
        return (
            f"the index marks {flagged[0]} (assume-unchanged, skip-worktree or unmerged); to catch up: remove it, "
            f"git commit -a, git merge accepted"
        )
    if _index_tree(repository) not in (candidate.tree, repository.git("rev-parse", f"{tip}^{{tree}}")):
        return "other changes are staged; to catch up: git commit, git merge accepted"
    unpinned = [entry.path for entry in repository.changed(candidate.parent, candidate.commit)]
    tree, _ = candidates.write_tree(repository, candidate.parent, (*PROTECTION.allowed, *unpinned))
    if tree != candidate.tree:
        return "the working tree changed since the candidate was made; to catch up: git commit -a, git merge accepted"
    return ""


def _index_tree(repository: Repository) -> str:
    """Return the tree of the user's index, made from a copy of the index."""
    index = Path(repository.git("rev-parse", "--path-format=absolute", "--git-path", "index"))
    with tempfile.TemporaryDirectory(prefix="fmha-index-") as folder:
        copy = Path(folder, "index")
        if os.path.exists(index):
            shutil.copyfile(index, copy)
        return repository.git("write-tree", env={"GIT_INDEX_FILE": str(copy)})
