"""What a run stood on: the commit and the changes beside it, and the versions of the toolchain."""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness.record import Tree
from harness.repository import Repository

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PACKAGES = ("nvidia-cutlass-dsl", "cuda-bindings", "torch", "numpy", "llvmlite")


def working_tree() -> Tree:
    """The commit that is checked out, and the paths that differ from it. Raises GitError."""
    repository = Repository(ROOT)
    changed = repository.git("status", "--porcelain", "--no-renames", "-z").split("\0")
    return Tree(repository.git("rev-parse", "HEAD"), [entry[3:] for entry in changed if entry])


def toolchain() -> dict[str, str]:
    """The version of Python and of every package that a result can depend on; "none" where not installed."""
    return {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
