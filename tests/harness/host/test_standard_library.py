"""Imports of the code that runs on hosts: standard library only, because a host may have just Python and git."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "harness/host"
MODULES = sorted(path.stem for path in FOLDER.glob("*.py"))
#: Programs that are sent as text, to hosts that have nothing of this project.
ALONE = (
    *("harness/host/bootstrap.py", "harness/host/probe.py", "harness/host/provision.py"),
    *("remote/starter.py", "remote/submitter.py", "remote/answer.py"),
)


def imported(path: Path) -> set[str]:
    """Return every module that a file imports, at any level."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module
            found.add(node.module)
    return found


def foreign(path: Path) -> set[str]:
    """Return the modules that are not part of the standard library."""
    return {name for name in imported(path) if name.split(".")[0] not in sys.stdlib_module_names}


@pytest.mark.parametrize("module", MODULES)
def test_imports_the_standard_library_and_its_neighbours(module: str) -> None:
    assert {name for name in foreign(FOLDER / f"{module}.py") if not name.startswith("harness.host")} == set()


@pytest.mark.parametrize("path", ALONE)
def test_program_that_is_sent_stands_alone(path: str) -> None:
    assert foreign(ROOT / path) == set()


def test_runs_where_nothing_else_is(tmp_path: Path) -> None:
    """The interpreter has no packages, and of this project only the package `harness.host`."""
    shutil.copytree(FOLDER, tmp_path / "harness/host", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(FOLDER.parent / "__init__.py", tmp_path / "harness")
    imports = "; ".join(f"import harness.host.{module}" for module in MODULES)
    subprocess.run([sys.executable, "-SsE", "-c", imports], cwd=tmp_path, check=True)
