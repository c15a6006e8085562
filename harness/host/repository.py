"""Git commands on one repository, with deadlines and readable errors."""

from __future__ import annotations

import errno
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ACCEPTED = "refs/heads/accepted"
NOTES = "refs/notes/verdicts"
ZERO = "0" * 40
OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
OPTIONS = ("-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "core.quotePath=false")
#: The variables that a git hook sets: those of `git rev-parse --local-env-vars`, and the index.
LOCAL_VARIABLES = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_OBJECT_DIRECTORY",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_REPLACE_REF_BASE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
)


class GitError(RuntimeError):
    """A git command failed or did not end in time, or git is not installed."""


def clean_environment() -> dict[str, str]:
    """Return the environment without variables that point git at another repository, and with prompts disabled."""
    kept = {name: value for name, value in os.environ.items() if name not in LOCAL_VARIABLES}
    return kept | {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "LC_ALL": "C",
    }


@dataclass(frozen=True)
class TreeEntry:
    """One file of a tree: git mode such as "100644", blob id, path from the root."""

    mode: str
    blob: str
    path: str


@dataclass(frozen=True)
class Repository:
    """The repository at `path`, a working tree or a bare repository.

    `plain` ignores the configuration of user and system; the harness's own repositories use it.
    """

    path: Path
    plain: bool = False

    def command(self, *arguments: str) -> list[str]:
        """Return the argument list that runs git in this repository, without hooks and automatic packing."""
        return ["git", "-C", str(self.path), *OPTIONS, *arguments]

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of git commands, with the variables `more`."""
        plain = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"} if self.plain else {}
        return clean_environment() | plain | more

    def git(
        self,
        *arguments: str,
        stdin: str = "",
        env: dict[str, str] | None = None,
        timeout_s: float = 120.0,
        pass_fds: Sequence[int] = (),
    ) -> str:
        """Run git and return its standard output without the last newline. Raises GitError with git's message."""
        done = self._run(arguments, stdin, env, timeout_s, pass_fds)
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            if any(os.strerror(errno.ENOSPC) in line for line in said):
                raise GitError(f"the disk is full: git {arguments[0]} could not write")
            raise GitError(f"git {arguments[0]}: {' / '.join(said[-3:]) or f'exit {done.returncode}'}")
        return done.stdout.removesuffix("\n")

    def succeeds(self, *arguments: str) -> bool:
        """Return True if git exits with 0."""
        return self._run(arguments).returncode == 0

    def _run(
        self,
        arguments: Sequence[str],
        stdin: str = "",
        env: dict[str, str] | None = None,
        timeout_s: float = 120.0,
        pass_fds: Sequence[int] = (),
    ) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                self.command(*arguments),
                input=stdin,
                env=self.environment(**(env or {})),
                capture_output=True,
                encoding="utf-8",
                errors="surrogateescape",
                timeout=timeout_s,
                pass_fds=pass_fds,
                check=False,
            )
        except FileNotFoundError as error:
            raise GitError("git is not installed: install git 2.38 or newer") from error
        except subprocess.TimeoutExpired as error:
            raise GitError(f"git {arguments[0]}: did not end in {timeout_s:.0f} s") from error

    def resolve(self, name: str) -> str | None:
        """Return the object id of `name`, or None if there is no such object."""
        done = self._run(("rev-parse", "--verify", "--quiet", name))
        return done.stdout.strip() if done.returncode == 0 else None

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Return True if `newer` is `older` or descends from it."""
        return older == newer or self.succeeds("merge-base", "--is-ancestor", older, newer)

    def tree(self, commit: str) -> list[TreeEntry]:
        """Return every file of a commit."""
        listed = self._about((commit,), "ls-tree", "-r", "-z", "--full-tree")
        rows = (row.split("\t", 1) for row in listed.split("\0") if row)
        return [TreeEntry(fields.split()[0], fields.split()[2], path) for fields, path in rows]

    def changed(self, old: str, new: str) -> list[TreeEntry]:
        """Return the files that differ between two trees, as they are in `new` (mode "000000" if deleted there)."""
        listed = self._about((old, new), "diff-tree", "-r", "-z", "--no-renames").split("\0")
        pairs = zip(listed[0::2], listed[1::2], strict=False)
        return [TreeEntry(fields.split()[1], fields.split()[3], path) for fields, path in pairs]

    def _about(self, objects: Sequence[str], *arguments: str) -> str:
        """Run a command about objects, and only once for the same ids: its output stays the same. Raises GitError."""
        return (_output if all(map(OBJECT_ID.fullmatch, objects)) else Repository.git)(self, *arguments, *objects)

    def move(self, ref: str, new: str, old: str | None, why: str) -> None:
        """Move `ref` from `old` (None: absent) to `new`, atomically. Raises GitError if it is not at `old`."""
        self.git("update-ref", "--create-reflog", "-m", why, ref, new, old or ZERO)

    @contextmanager
    def prepared_move(self, ref: str, new: str, old: str, why: str) -> Iterator[None]:
        """Lock `ref`, which must be at `old`, while the body runs; then move it to `new`.

        If the body raises, `ref` does not move. Raises GitError if it is not at `old`.
        """
        process = subprocess.Popen(
            self.command("update-ref", "-m", why, "--stdin"),
            env=self.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        with process:
            process.stdin.write(f"start\nupdate {ref} {new} {old}\nprepare\n")
            process.stdin.flush()
            answers = [process.stdout.readline().strip(), process.stdout.readline().strip()]
            if answers != ["start: ok", "prepare: ok"]:
                raise GitError(f"git update-ref {ref}: {process.stderr.read().strip()}")
            try:
                yield
            except BaseException:
                process.stdin.write("abort\n")
                raise
            process.stdin.write("commit\n")
            process.stdin.close()
            if process.wait(timeout=60) != 0:
                raise GitError(f"git update-ref {ref}: {process.stderr.read().strip()}")


@cache
def _output(repository: Repository, *arguments: str) -> str:
    return repository.git(*arguments)
