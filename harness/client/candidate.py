"""The candidate: the working tree as a commit, made beside the user's branch, index and files."""

from __future__ import annotations

import getpass
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.host.protected import PROTECTION, Protection, under
from harness.host.repository import ACCEPTED, GitError, Repository

#: The folders whose code a run executes.
PACKAGES = ("emulator", "harness", "kernel", "remote", "stages")


class CandidateError(ValueError):
    """No candidate can be made; the message says why and names the mend."""


@dataclass(frozen=True)
class Candidate:
    """A commit to judge.

    `parent` was the tip of `branch` when it was made; equal to `commit` where nothing differed from it.
    `left_out` are the untracked files that it does not hold.
    """

    ref: str
    commit: str
    tree: str
    parent: str
    branch: str
    left_out: tuple[str, ...] = ()


def user_name() -> str:
    """The name of the user, as far as it can stand in a ref."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:32] or "nobody"


def candidate_ref(run: str) -> str:
    """Where the candidate of a run is published."""
    return f"refs/candidates/{user_name()}/{run}"


def find(folder: Path) -> Repository:
    """The repository whose working tree holds `folder`. Raises CandidateError where there is none."""
    try:
        top = Repository(folder).git("rev-parse", "--show-toplevel")
    except GitError as error:
        if "not installed" in str(error):
            raise CandidateError(str(error)) from error
        raise CandidateError(f"{folder}: not a git working tree; run it in a clone of the project") from error
    return Repository(Path(top))


def current_branch(repository: Repository) -> tuple[str, str]:
    """The checked-out branch (full ref) and its tip. Raises CandidateError where no candidate can start."""
    branch = repository.git("rev-parse", "--symbolic-full-name", "HEAD") if repository.resolve("HEAD") else ""
    if not branch:
        raise CandidateError("no commit yet: make one first (git add, git commit)")
    if branch == "HEAD":
        raise CandidateError("HEAD is detached: name the work first (git switch -c my-work)")
    if repository.git("config", "--type=bool", "--default=false", "--get", "core.sparseCheckout") == "true":
        raise CandidateError("a sparse checkout lacks files of the project: git sparse-checkout disable")
    listed = repository.git("worktree", "list", "--porcelain").splitlines()
    if f"branch {ACCEPTED}" in listed:
        raise CandidateError("`accepted` is checked out; only the harness moves it: git switch -c my-work there")
    return branch, repository.git("rev-parse", "HEAD")


def write_tree(repository: Repository, tip: str, wanted: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The working tree as a tree object, and the untracked files left out of it.

    Taken are all tracked files (flags of the user's index such as assume-unchanged do not hide an edit: the
    index is a fresh one) and untracked files under `wanted`; ignored files never are.
    """
    with tempfile.TemporaryDirectory(prefix="fmha-index-") as folder:
        env = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
        repository.git("read-tree", tip, env=env)
        repository.git("add", "--update", ":/", env=env)
        others = repository.git("ls-files", "--others", "--exclude-standard", "-z", env=env).split("\0")
        untracked = [path for path in others if path]
        taken = [path for path in untracked if under(path, wanted)]
        repository.git("update-index", "--add", "-z", "--stdin", stdin="\0".join(taken), env=env)
        tree = repository.git("write-tree", env=env)
    return tree, tuple(path for path in untracked if path not in set(taken))


def identity(repository: Repository) -> dict[str, str]:
    """Variables that name an author where the user has configured none."""
    if repository.succeeds("config", "user.email"):
        return {}
    name, mail = user_name(), f"{user_name()}@localhost"
    return {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": mail,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": mail,
    }


def make(
    repository: Repository, run: str, title: str, also: Sequence[str] = (), protection: Protection = PROTECTION
) -> Candidate:
    """Make and publish the candidate of `run` from the working tree.

    It holds every tracked file, and the untracked files under the allowed paths and under `also`. Branch, index and
    files of the user stay as they are. Raises CandidateError or GitError.
    """
    branch, tip = current_branch(repository)
    tree, left_out = write_tree(repository, tip, (*protection.allowed, *also))
    commit = tip
    if tree != repository.git("rev-parse", f"{tip}^{{tree}}"):
        message = f"{title}\n\nRun: {run}\n"
        commit = repository.git("commit-tree", tree, "-p", tip, stdin=message, env=identity(repository))
    ref = candidate_ref(run)
    repository.move(ref, commit, None, f"candidate of {run}")
    return Candidate(ref, commit, tree, tip, branch, left_out)


def drop(repository: Repository, made: Candidate) -> None:
    """Remove the ref of a candidate."""
    repository.git("update-ref", "-d", made.ref)


def on_new_base(repository: Repository, run: str, old: Candidate, base: str) -> Candidate:
    """The same change merged with a newer `accepted`, as the candidate of a new run.

    Raises CandidateError naming the files where the two changes conflict.
    """
    try:
        tree = repository.git("merge-tree", "--write-tree", "--name-only", "--no-messages", old.commit, base)
    except GitError as error:
        raise CandidateError(
            f"accepted moved to {base[:12]} and conflicts with your change: git merge accepted, run again"
        ) from error
    message = f"Merge accepted {base[:12]} into {old.commit[:12]}\n\nRun: {run}\n"
    commit = repository.git("commit-tree", tree, "-p", old.commit, "-p", base, stdin=message, env=identity(repository))
    ref = candidate_ref(run)
    repository.move(ref, commit, None, f"candidate of {run}")
    return Candidate(ref, commit, tree, old.parent, old.branch, old.left_out)
