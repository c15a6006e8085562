"""The two versions that are compared: scripts, or a script in checkouts of two commits."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

BASE, HEAD = "BASE", "HEAD"


class ComparisonError(ValueError):
    """A version does not exist, or the two cannot be compared."""


class NotPredicted(ComparisonError):
    """A version did not run to its end, or has a launch that could not be predicted."""


@dataclass(frozen=True)
class Side:
    """One version.

    label: its name in the command. commit: its full name, "" for files of the working tree. script: its file. folder:
    the working folder of its run. copied: the repository of which `checkout` is a copy, None for files as they are.
    """

    label: str
    commit: str
    script: Path
    folder: Path
    copied: Path | None = None
    checkout: Path | None = None


def sides(base: str, head: str, rest: Sequence[str], folder: Path) -> tuple[Side, Side, list[str]]:
    """Return both versions and the script's arguments. Commits are checked out below `folder`.

    base, head: each a script or a commit. rest: SCRIPT and its arguments; SCRIPT is left out if base or head names it.
    Raises ComparisonError.
    """
    files = [Path(each) for each in (base, head) if Path(each).is_file()]
    arguments = list(rest)
    if not files:
        if not arguments:
            raise ComparisonError(
                f"there is no file {base!r}, and no SCRIPT for two commits: --compare BASE HEAD SCRIPT"
            )
        files = [Path(arguments.pop(0))]
    script = files[-1]
    made = [_side(label, where, script, folder / where) for label, where in ((base, BASE), (head, HEAD))]
    return made[0], made[1], arguments


def _side(label: str, where: str, script: Path, folder: Path) -> Side:
    if Path(label).is_file():
        return Side(label, "", Path(label).resolve(), Path.cwd())
    parent = script.parent if script.parent.is_dir() else Path()
    top = Path(_git(parent, "rev-parse", "--show-toplevel") or "")
    if not top.is_absolute():
        what = f"{where} is {label!r}, which is no file, and {script} is in no git repository"
        raise ComparisonError(f"{what}: name two scripts, or a script of a repository")
    commit = _git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{label}^{{commit}}")
    if commit is None:
        what = f"{where} is {label!r}, which is neither a file nor a commit of {top}"
        raise ComparisonError(f"{what}: name a script, a commit, a branch or a tag")
    path = script.resolve().relative_to(top).as_posix() if script.resolve().is_relative_to(top) else str(script)
    if _git(top, "cat-file", "-e", f"{commit}:{path}") is None:
        raise ComparisonError(f"{where} {label} ({commit[:10]}) has no {path}: name a script that both commits have")
    _check_out(top, commit, folder)
    inside = os.path.relpath(Path.cwd(), top)
    here = folder if inside.startswith("..") else folder / inside
    return Side(label, commit, folder / path, here if here.is_dir() else folder, top, folder)


def _check_out(top: Path, commit: str, folder: Path) -> None:
    """Write the files of a commit into a folder. The repository's index and working tree stay as they are."""
    folder.mkdir(parents=True)
    index = os.environ | {"GIT_INDEX_FILE": str(folder.with_suffix(".index"))}
    for command in (("read-tree", commit), ("checkout-index", "--all", f"--prefix={folder}/")):
        done = subprocess.run(["git", "-C", top, *command], env=index, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ComparisonError(f"git {command[0]} of {commit[:10]} failed: {done.stderr.strip()}")


def _git(folder: Path, *command: str) -> str | None:
    """Run a git command and return its output, None if it fails."""
    done = subprocess.run(["git", "-C", folder, *command], capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout.strip()
