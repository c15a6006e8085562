"""The provenance of a run: its commit, uncommitted changes, and the versions of the toolchain."""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness.host.job import RUN_ID
from harness.host.repository import Repository
from harness.paths import ROOT
from harness.report.record import Tree

PACKAGES = ("nvidia-cutlass-dsl", "cuda-bindings", "torch", "numpy", "llvmlite")


def working_tree() -> Tree:
    """Return the commit that is checked out, and the paths that differ from it. Raises GitError."""
    repository = Repository(ROOT)
    changed = repository.git("status", "--porcelain", "--no-renames", "-z").split("\0")
    return Tree(repository.git("rev-parse", "HEAD"), [entry[3:] for entry in changed if entry])


def run_of(out: Path) -> str:
    """Return the run of the results in `out`: the name of the folder or of its parent, whichever is a run id."""
    return next((folder.name for folder in (out, out.parent) if RUN_ID.fullmatch(folder.name)), out.name)


def toolchain() -> dict[str, str]:
    """Return the versions of Python and of the packages that affect results; "none" if one is not installed."""
    return {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
