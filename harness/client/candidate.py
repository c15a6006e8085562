"""Candidates: commits of the working tree that leave the user's branch, index and files unchanged."""

from __future__ import annotations

import ast
import getpass
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.host.protected import PROTECTION, Protection, under
from harness.host.repository import ACCEPTED, GitError, Repository

CANDIDATES = "refs/candidates"
#: The folders whose code a run executes.
PACKAGES = ("emulator", "harness", "kernel", "remote", "stages")

#: The attributes by which git converts files in a checkout, and the values that do so.
CONVERTING: dict[str, Callable[[str], bool]] = {
    "eol": lambda value: value == "crlf",
    "ident": lambda value: value == "set",
    "working-tree-encoding": lambda value: value not in ("unspecified", "unset", "UTF-8"),
}


class CandidateError(ValueError):
    """No candidate can be made. The message says why, and the fix."""


@dataclass(frozen=True)
class Candidate:
    """A commit to judge.

    `parent` is the tip of `branch` when the candidate was made. It equals `commit` if the working tree had no changes.
    `left_out` are the untracked files that the candidate does not contain.
    """

    ref: str
    commit: str
    tree: str
    parent: str
    branch: str
    left_out: tuple[str, ...] = ()


def user_name() -> str:
    """Return the name of the user, without characters that are not allowed in a ref."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:32] or "nobody"


def candidate_ref(run: str) -> str:
    """Return the ref of a run's candidate."""
    return f"{CANDIDATES}/{user_name()}/{run}"


def find(folder: Path) -> Repository:
    """Return the repository whose working tree contains `folder`. Raises CandidateError if there is none."""
    try:
        top = Repository(folder).git("rev-parse", "--show-toplevel")
    except GitError as error:
        if "not installed" in str(error):
            raise CandidateError(str(error)) from error
        raise CandidateError(f"{folder}: not a git working tree; run the command in a clone of the project") from error
    return Repository(Path(top))


def current_branch(repository: Repository) -> tuple[str, str]:
    """Return the checked-out branch (full ref) and its tip. Raises CandidateError if no candidate can be made here."""
    tip = repository.resolve("HEAD")
    branch = repository.git("rev-parse", "--symbolic-full-name", "HEAD") if tip else ""
    if tip is None or not branch:
        raise CandidateError("no commit yet: make one first (git add, git commit)")
    if branch == "HEAD":
        raise CandidateError("HEAD is detached: make a branch first (git switch -c my-work)")
    if repository.git("config", "--type=bool", "--default=false", "--get", "core.sparseCheckout") == "true":
        raise CandidateError("a sparse checkout lacks files of the project: disable it (git sparse-checkout disable)")
    listed = repository.git("worktree", "list", "--porcelain").splitlines()
    if f"branch {ACCEPTED}" in listed:
        raise CandidateError("`accepted` is checked out, but only the harness may move it: git switch -c my-work there")
    return branch, tip


def write_tree(repository: Repository, tip: str, wanted: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Write the working tree as a tree object. Return it, and the untracked files that it does not contain.

    It contains all tracked files, and the untracked files under `wanted`, but no ignored files. It is made with a fresh
    index, so flags of the user's index such as assume-unchanged do not hide an edit.
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


def check_files(repository: Repository, tip: str, tree: str) -> None:
    """Check that a checkout of `tree` has the bytes of the commit, and that no merge was left unresolved.

    Raises CandidateError, which names the files.
    """
    names = [entry.path for entry in repository.tree(tree)]
    if odd := [name for name in names if _has_other_bytes(name)]:
        shown = ", ".join(ascii(os.fsencode(name))[2:-1] for name in odd[:4])
        raise CandidateError(f"{shown}: the name is not UTF-8; rename it (git mv), or remove it from git (git rm)")
    if converted := _converted(repository, tree, names):
        raise CandidateError(
            f"{', '.join(converted[:4])}: a checkout would have other bytes; remove these attributes (.gitattributes)"
        )
    base = repository.resolve(ACCEPTED) or tip
    changed = [f":(literal){entry.path}" for entry in repository.changed(base, tree)]
    if marked := _matching(repository, tree, changed, "^<<<<<<< ", "^>>>>>>> "):
        raise CandidateError(f"{', '.join(marked[:4])}: conflict markers of a merge; resolve them first")
    for entry in repository.changed(base, tree):
        if entry.path.endswith(".py") and entry.mode.startswith("100"):
            _check_python(entry.path, text := repository.git("cat-file", "blob", entry.blob))
            _check_imports(entry.path, text, names)


def _check_python(path: str, text: str) -> None:
    """Raise CandidateError for syntax errors and names that nothing defines. A run would need half a minute to say so.

    Ruff reads the text and runs none of it.
    """
    options = ["--isolated", "--no-cache", "--quiet", "--output-format=concise", "--target-version=py311"]
    command = [sys.executable, "-m", "ruff", "check", *options, "--select=E9,F7,F82", "--stdin-filename", path, "-"]
    done = subprocess.run(command, input=text.encode(errors="surrogateescape"), capture_output=True, check=False)
    if done.returncode == 1:
        raise CandidateError(f"{done.stdout.decode(errors='replace').splitlines()[0]}; correct it, then run again")


def _check_imports(path: str, text: str, files: Sequence[str]) -> None:
    """Raise CandidateError for an import of a module of kernel/ that the tree does not have."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("kernel."):
            file = node.module.replace(".", "/")
            if not {f"{file}.py", f"{file}/__init__.py"} & set(files):
                where = f"{path}:{node.lineno}"
                raise CandidateError(f"{where}: there is no module {node.module}; correct it, then run again")


def _has_other_bytes(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return True
    return False


def _converted(repository: Repository, tree: str, names: Sequence[str]) -> list[str]:
    """Return the files, with the attribute, whose bytes git converts in every checkout."""
    if not _matching(repository, tree, [":(glob)**/.gitattributes"], "eol=crlf|ident|working-tree-encoding="):
        return []
    with tempfile.TemporaryDirectory(prefix="fmha-index-") as folder:
        env = {"GIT_INDEX_FILE": str(Path(folder, "index")), "GIT_ATTR_NOSYSTEM": "1"}
        repository.git("read-tree", tree, env=env)
        plain = ("-c", "core.attributesFile=/dev/null")
        said = repository.git(
            *plain, "check-attr", "-z", "--cached", "--stdin", *CONVERTING, env=env, stdin="\0".join(names)
        ).split("\0")
    found = zip(said[0::3], said[1::3], said[2::3], strict=False)
    return [f"{name} ({attribute}={value})" for name, attribute, value in found if CONVERTING[attribute](value)]


def _matching(repository: Repository, tree: str, paths: Sequence[str], *patterns: str) -> list[str]:
    """Return the files of `tree` among `paths` that match all patterns."""
    options = [each for pattern in patterns for each in ("-e", pattern)]
    command = ("grep", "-I", "-z", "--all-match", "--name-only", "-E", *options, tree, "--", *paths)
    if not paths or not repository.succeeds(*command):
        return []
    return [name.removeprefix(f"{tree}:") for name in repository.git(*command).split("\0") if name]


def identity(repository: Repository) -> dict[str, str]:
    """Return variables that name an author, or {} if the user has configured one."""
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

    It contains every tracked file, and the untracked files under the allowed paths and under `also`. The user's branch,
    index and files do not change. Raises CandidateError or GitError.
    """
    branch, tip = current_branch(repository)
    tree, left_out = write_tree(repository, tip, (*protection.allowed, *also))
    check_files(repository, tip, tree)
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
    """Merge a candidate with a newer `accepted`, as the candidate of a new run.

    Raises CandidateError if the two conflict.
    """
    try:
        tree = repository.git("merge-tree", "--write-tree", "--name-only", "--no-messages", old.commit, base)
    except GitError as error:
        raise CandidateError(
            f"accepted moved to {base[:12]} and conflicts with your change: git merge accepted, then run again"
        ) from error
    message = f"Merge accepted {base[:12]} into {old.commit[:12]}\n\nRun: {run}\n"
    commit = repository.git("commit-tree", tree, "-p", old.commit, "-p", base, stdin=message, env=identity(repository))
    ref = candidate_ref(run)
    repository.move(ref, commit, None, f"candidate of {run}")
    return Candidate(ref, commit, tree, old.parent, old.branch, old.left_out)
