"""A process that judges has the protected references of the kernel, and no other code of it."""

from __future__ import annotations

import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

from tests.system import ROOT


def run(tree: Path, code: str) -> str:
    """Return what a process prints that judges in `tree`."""
    code = f"from harness.judge import reference_only as r; r.install(); {code}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tree, capture_output=True, text=True, timeout=600)
    return done.stdout + done.stderr


def copy(tree: Path) -> Path:
    """Copy harness and kernel, with a package of the kernel that says when it runs."""
    for name in ("harness", "kernel"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "kernel/__init__.py").write_text("print('woke')")
    return tree


def test_it_has_the_references_and_nothing_else(tmp_path: Path) -> None:
    tree = copy(tmp_path)
    said = run(tree, "import kernel.reference, kernel.oracle, kernel; print(kernel.Attention)\nimport kernel.host")
    assert said.splitlines()[1].startswith("Traceback"), said
    assert "imports kernel.reference, kernel.oracle of the kernel, not kernel.host" in said


def test_nothing_takes_the_place_of_a_reference(tmp_path: Path) -> None:
    """Python prefers a package to a module of its name, and bytecode that need not match to a source."""
    tree = copy(tmp_path)
    (tree / "kernel/reference").mkdir()
    (tree / "kernel/reference/__init__.py").write_text("print('package')")
    (tree / "evil.py").write_text("print('bytecode')")
    cached = tree / f"kernel/__pycache__/oracle.{sys.implementation.cache_tag}.pyc"
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(tree / "evil.py"), str(cached), invalidation_mode=unchecked)
    said = run(tree, "import kernel.reference, kernel.oracle; print(kernel.reference.branch.__module__)")
    assert said == "kernel.reference\n"
