"""Imports point down only, between the folders of the harness and to what lies beside it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: What each package may import of this project, beside itself.
BELOW = {
    "harness": {
        "harness.cli",
        "harness.client",
        "harness.tools",
        "harness.report",
        "harness.host",
        "harness.paths",
        "stages",
    },
    "harness.tools": {"harness.judge", "harness.report", "harness.host", "harness.paths", "remote", "stages", "kernel"},
    "harness.client": {"harness.judge", "harness.report", "harness.host", "harness.paths", "remote", "stages"},
    "harness.judge": {"harness.report", "harness.host", "harness.paths", "remote", "stages", "kernel"},
    "harness.report": {"harness.host", "stages"},
    "harness.host": set(),
    "remote": {"emulator"},
}


def packages(path: Path) -> set[str]:
    """The packages of this project that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "harness":
            names = [f"harness.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            top, *rest = name.split(".")
            if top == "harness":
                found.add(".".join([top, *rest[:1]]))
            elif top in ("remote", "stages", "kernel", "emulator", "bench", "tests"):
                found.add(top)
    return found


@pytest.mark.parametrize("package", BELOW)
def test_imports_point_down(package: str) -> None:
    folder = ROOT / package.replace(".", "/")
    for path in folder.glob("*.py"):
        assert packages(path) <= BELOW[package] | {package}, path.relative_to(ROOT)
