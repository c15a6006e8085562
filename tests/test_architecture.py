"""Imports point in one direction, and no two files import each other, not even for annotations."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ARROWS: dict[str, set[str]] = {
    "kernel": set(),
    "flash_mla": {"kernel"},
    "stages": {"kernel"},
    "emulator": set(),
    "remote": {"emulator"},
    "harness": {"remote", "stages", "kernel", "emulator"},
    "lab": {"harness", "remote", "stages", "kernel", "flash_mla", "emulator", "examples"},
    "examples": {"kernel", "emulator", "flash_mla"},
}
"""The modules that files of a folder may import, besides each other."""
PARTS: dict[str, tuple[set[str], ...]] = {
    "emulator": (
        {"chip", "garbage", "html", "children", "leniency", "progress"},
        {"ptx", "errors", "patching"},
        {"machine_code"},
        {"native"},
        {"machine"},
        {"isa"},
        {"engine"},
        {"lowering", "program", "tensors"},
        {"modules"},
        {"clock"},
        {"debug"},
        {"exploration"},
        {"viewer"},
        {"bridge"},
        {"findings"},
        {"baseline"},
        {"emulation"},
        {"recordings"},
        {"host"},
        {"coverage"},
        {"launching", "options"},
        {"commands"},
        {"", "__main__", "pytest_plugin"},
    ),
    "emulator.machine": (
        {"launch"},
        {"formats"},
        {"order"},
        {"synchronisation"},
        {"reports"},
        {"memory"},
        {"topology", "convergence"},
        {"compiled"},
        {"agents"},
        {"execution"},
        {""},
    ),
    "harness": (
        {"host", "paths"},
        {"report"},
        {"judge"},
        {"client"},
        {"tools"},
        {"", "cli", "__main__"},
    ),
}
"""The parts of a folder from lowest to highest. Each may import those before it. "" is the package itself."""

Graph = Mapping[str, set[str]]


def imports(root: Path, *folders: str) -> Graph:
    """Return the modules of `folders` that each file imports, anywhere in it, by module name."""
    files = {module(path, root): path for folder in folders for path in (root / folder).rglob("*.py")}
    return {name: set(_named(path, name, files)) - {name} for name, path in files.items()}


def module(path: Path, root: Path) -> str:
    """Return the dotted name of a file."""
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _named(path: Path, name: str, known: Mapping[str, Path]) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            source = resolve_name("." * node.level + (node.module or ""), package)
            names = [f"{source}.{alias.name}" for alias in node.names]
            yield from (name for name in names if name in known)
            if source in known and not all(name in known for name in names):
                yield source


@pytest.fixture(scope="module")
def project() -> Graph:
    return imports(ROOT, *ARROWS, "tests")


def test_no_circle_of_imports(project: Graph) -> None:
    TopologicalSorter(project).prepare()


def test_folders_import_those_below(project: Graph) -> None:
    wrong = [
        f"{name} -> {other}"
        for name, others in project.items()
        for other in others
        if (top := name.split(".")[0]) in ARROWS and other.split(".")[0] not in {top, *ARROWS[top]}
    ]
    assert not wrong


def test_kernels_of_chips_import_nothing_from_each_other(project: Graph) -> None:
    """Code that both need is in kernel/device; only kernel/chips.py imports both."""
    chips = {"kernel.sm90", "kernel.sm100"}
    wrong = [
        f"{name} -> {other}"
        for name, others in project.items()
        for other in others
        if name.startswith("kernel.") and name != "kernel.chips" and _chip(other) in chips - {_chip(name)}
    ]
    assert not wrong


def _chip(name: str) -> str:
    """Return the first two parts of a module's name: those of a chip's kernel name its folder."""
    return ".".join(name.split(".")[:2])


@pytest.mark.parametrize("folder", PARTS)
def test_parts_of_a_folder_import_those_below(folder: str, project: Graph) -> None:
    height = {part: i for i, parts in enumerate(PARTS[folder]) for part in parts}

    def part(name: str) -> str:
        return name.removeprefix(folder).lstrip(".").partition(".")[0]

    modules = {name for name in project if f"{name}.".startswith(f"{folder}.")}
    own = {name: project[name] & modules for name in modules}
    assert {part(name) for name in own} == set(height)
    wrong = [f"{a} -> {b}" for a, others in own.items() for b in others if height[part(b)] > height[part(a)]]
    assert not wrong


def test_imports_for_annotations_count(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p/a.py").write_text("from p import b\n")
    (tmp_path / "p/b.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import A\n")
    with pytest.raises(CycleError):
        TopologicalSorter(imports(tmp_path, "p")).prepare()


def test_relative_imports_count(tmp_path: Path) -> None:
    (tmp_path / "p/q").mkdir(parents=True)
    (tmp_path / "p/a.py").write_text("from .q import b\n")
    (tmp_path / "p/q/b.py").write_text("from ..a import A\n")
    assert imports(tmp_path, "p") == {"p.a": {"p.q.b"}, "p.q.b": {"p.a"}}


def test_the_emulator_does_not_say_its_own_name_in_imports() -> None:
    """The emulator can be installed under another name, because `emulator` is too general among other packages."""
    lines = [line for path in (ROOT / "emulator").rglob("*.py") for line in path.read_text().splitlines()]
    assert not [line for line in lines if line.lstrip().startswith(("from emulator", "import emulator"))]


def test_a_function_of_the_kernel_fits_on_a_screen() -> None:
    """Count the lines of its body without the docstring; ruff bounds its branches."""
    long = []
    for file in (ROOT / "kernel").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                lines = node.end_lineno - body[0].lineno + 1 if body and node.end_lineno else 0
                long += [f"{file.relative_to(ROOT)} {node.name}: {lines}"] * (lines > 60)
    assert not long
