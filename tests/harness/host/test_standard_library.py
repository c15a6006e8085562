"""A host may have nothing but Python and git: what runs there needs no package, and nothing else of this project."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "harness/host"
MODULES = sorted(path.stem for path in FOLDER.glob("*.py"))
#: Sent as text, to where nothing of this project need be.
ALONE = ("harness/host/bootstrap.py", "harness/host/probe.py", "harness/host/provision.py", "remote/starter.py")


def imported(path: Path) -> set[str]:
    """Every module that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module
            found.add(node.module)
    return found


def foreign(path: Path) -> set[str]:
    """Those of them that Python does not bring."""
    return {name for name in imported(path) if name.split(".")[0] not in sys.stdlib_module_names}


@pytest.mark.parametrize("module", MODULES)
def test_imports_the_standard_library_and_its_neighbours(module: str) -> None:
    assert {name for name in foreign(FOLDER / f"{module}.py") if not name.startswith("harness.host")} == set()


@pytest.mark.parametrize("path", ALONE)
def test_program_that_is_sent_stands_alone(path: str) -> None:
    assert foreign(ROOT / path) == set()


def test_runs_where_nothing_else_is(tmp_path: Path) -> None:
    """In an interpreter without packages, beside no more of this project than the package's own file."""
    shutil.copytree(FOLDER, tmp_path / "harness/host", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(FOLDER.parent / "__init__.py", tmp_path / "harness")
    imports = "; ".join(f"import harness.host.{module}" for module in MODULES)
    subprocess.run([sys.executable, "-SsE", "-c", imports], cwd=tmp_path, check=True)
