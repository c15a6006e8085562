"""Files, modules and milestones that the documentation names exist."""

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

from stages.catalog import CATALOG

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("remote/*.md")])
NOT_KEPT = ("results/", "remote/targets.toml")  # written by runs and users
PACKAGES = ("kernel", "stages", "harness", "remote", "emulator", "bench", "examples", "tests", "docs")


@pytest.fixture(scope="module")
def kept() -> set[str]:
    """Return every file that git tracks or does not ignore, and their folders."""
    listed = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.splitlines()
    return {str(path) for file in files for path in (Path(file), *Path(file).parents) if (ROOT / file).exists()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page: Path, kept: set[str]) -> None:
    named = re.findall(rf"\b(?:{'|'.join(PACKAGES)})/[\w./-]*\w", page.read_text())
    assert {name for name in named if not name.startswith(NOT_KEPT)} <= kept


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert (page.parent / link).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_module_that_a_page_runs_exists(page: Path) -> None:
    for module in re.findall(rf"-m ((?:{'|'.join(PACKAGES)})[.\w]*\w)", page.read_text()):
        assert importlib.util.find_spec(module), module


def test_every_page_of_the_project_that_the_code_names_is_there() -> None:
    for path in (path for name in PACKAGES for path in ROOT.glob(f"{name}/**/*.py")):
        for named in re.findall(r"[\w/]*\w\.md\b", path.read_text()):
            assert (ROOT / named).exists() or path.is_relative_to(ROOT / "tests"), f"{path}: {named}"


def test_the_page_of_the_milestones_has_the_milestones_of_the_catalog() -> None:
    rows = re.findall(r"^\| (D[\w.]+) \|", (ROOT / "docs/stages.md").read_text(), re.MULTILINE)
    assert rows == [milestone.id for milestone in CATALOG]
