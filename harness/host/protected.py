"""The paths that a change may touch: an allow-list relative to `accepted`. All other paths are protected by a hash."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache

from harness.host.repository import Repository, TreeEntry

FILE_MODES = ("100644", "100755")
DELETED = "000000"
#: Python runs bytecode in a folder of this name in place of the source.
BYTECODE = "__pycache__"
#: Nor do these show what runs: Python prefers an extension to a source of its name, and attributes may hide a diff.
OPAQUE = (".so", ".pyd", ".pyc", ".gitattributes")


class ProtectedError(ValueError):
    """The change touches a protected path. The message names the paths and the fix."""


def under(path: str, prefixes: Iterable[str]) -> bool:
    """Return True if `path` is one of `prefixes` or lies in a folder of that name."""
    return any(path == p.rstrip("/") or path.startswith(p.rstrip("/") + "/") for p in prefixes)


@dataclass(frozen=True)
class Protection:
    """Only `allowed` paths may differ from `accepted`, except those in `protected` and files in `protected_names`.

    `judging` and `protected` hold the code that judges.
    """

    allowed: tuple[str, ...] = ("kernel", "STAGE_NOTES.md")
    protected: tuple[str, ...] = ("kernel/reference.py", "kernel/oracle.py")
    protected_names: tuple[str, ...] = ("conftest.py",)
    judging: tuple[str, ...] = ("emulator", "harness", "remote", "stages")

    def covers(self, path: str) -> bool:
        """Return True if `path` is protected."""
        *folders, name = path.split("/")
        if under(path, self.protected) or name in self.protected_names or BYTECODE in folders or name.endswith(OPAQUE):
            return True
        return not under(path, self.allowed)

    def judges(self, path: str) -> bool:
        """Return True if a file has code that judges."""
        return under(path, (*self.judging, *self.protected)) or path.rsplit("/", 1)[-1] in self.protected_names

    def digest(self, tree: Sequence[TreeEntry]) -> str:
        """Return the SHA-256 over mode, blob and path of every protected file of a tree."""
        rows = sorted(f"{e.path}\0{e.mode}\0{e.blob}\n" for e in tree if self.covers(e.path))
        return hashlib.sha256("".join(rows).encode("utf-8", "surrogateescape")).hexdigest()


PROTECTION = Protection()
FILE = "harness/host/protected.py"


@cache
def rules(repository: Repository, commit: str) -> Protection:
    """Return the rules of a commit id, so that an edit of this file cannot decide about itself.

    A commit without this file, or without a commit (""), has those of this process. Raises ProtectedError if the rules
    are not literals.
    """
    if not commit or not repository.resolve(f"{commit}:{FILE}"):
        return PROTECTION
    names = {field.name for field in fields(Protection)}
    try:
        (found,) = (
            node
            for node in ast.parse(repository.git("show", f"{commit}:{FILE}")).body
            if isinstance(node, ast.ClassDef) and node.name == Protection.__name__
        )
        given = {
            node.target.id: ast.literal_eval(node.value)
            for node in found.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value
        }
        return Protection(**{name: tuple(given[name]) for name in names})
    except (ValueError, KeyError, SyntaxError) as error:
        raise ProtectedError(f"{FILE} of {commit[:12]} has no readable rules: {error}") from error


@dataclass(frozen=True)
class Unpin:
    """Protected paths that a change is meant to touch, and the reason."""

    paths: tuple[str, ...] = ()
    because: str = ""

    def __post_init__(self) -> None:
        if self.paths and not self.because.strip():
            raise ProtectedError(f"unpin {', '.join(self.paths)}: give a reason, {as_typed(self.paths)}")
        if self.because and not self.paths:
            raise ProtectedError(f"because {self.because!r}: name the path to unpin, {as_typed(['PATH'])}")


def check(repository: Repository, base: str, commit: str, unpin: Unpin) -> str:
    """Check that a commit differs from `base` in allowed and unpinned paths only, and only in plain files.

    The rules are those of `base`. Return the digest of the commit's protected paths. Raises ProtectedError with the
    paths, or with an unneeded unpin.
    """
    protection = rules(repository, base)
    changed = repository.changed(base, commit)
    odd = [e.path for e in changed if e.mode not in (*FILE_MODES, DELETED)]
    if odd:
        raise ProtectedError(f"{_some(odd)}: symbolic links and submodules are not allowed; make them plain files")
    touched = [e.path for e in changed if protection.covers(e.path)]
    unused = [p for p in unpin.paths if not any(under(path, [p]) for path in touched)]
    if unused:
        raise ProtectedError(f"unpin {_some(unused)}: no pinned path there differs from accepted; omit it")
    refused = [path for path in touched if not under(path, unpin.paths)]
    if refused:
        raise ProtectedError(
            f"pinned, but different from {base[:12]}: {_some(refused)}. "
            f"Undo the change; if you mean it, or pulled it, unpin: {as_typed(_roots(refused))}"
        )
    return protection.digest(repository.tree(commit))


def as_typed(paths: Sequence[str]) -> str:
    """Return the options that unpin `paths`, for make and for `python -m harness`."""
    said = " ".join(f"--unpin {path}" for path in paths)
    return f"""UNPIN="{" ".join(paths)}" BECAUSE="why" (without make: {said} --because "why")"""


def _some(paths: Sequence[str], most: int = 8) -> str:
    rest = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(paths[:most]) + rest


def _roots(paths: Sequence[str], most: int = 4) -> list[str]:
    """Return the paths, or their top folders if there are more than `most` paths."""
    return list(paths) if len(paths) <= most else sorted({p.split("/", 1)[0] for p in paths})
