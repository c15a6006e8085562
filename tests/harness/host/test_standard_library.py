"""A host may have nothing but Python and git: what runs there needs no package, and nothing else of this project."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "harness/host"
MODULES = sorted(path.stem for path in FOLDER.glob("*.py"))
#: Sent as text, before anything of this project is there.
ALONE = ("bootstrap", "probe", "provision")


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


@pytest.mark.parametrize("module", MODULES)
def test_imports_the_standard_library_and_its_neighbours(module: str) -> None:
    others = {name for name in imported(FOLDER / f"{module}.py") if name.split(".")[0] not in sys.stdlib_module_names}
    assert {name for name in others if module in ALONE or not name.startswith("harness.host")} == set()


def test_runs_where_nothing_else_is(tmp_path: Path) -> None:
    """In an interpreter without packages, beside no more of this project than the package's own file."""
    shutil.copytree(FOLDER, tmp_path / "harness/host", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(FOLDER.parent / "__init__.py", tmp_path / "harness")
    imports = "; ".join(f"import harness.host.{module}" for module in MODULES)
    subprocess.run([sys.executable, "-SsE", "-c", imports], cwd=tmp_path, check=True)
