"""A small project to run the gate on: a repository like this one, with a milestone command that ends soon."""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import emulator  # noqa: F401 - before a test imports CuTeDSL, which is asked for the source's lines then
from harness.judge import kept  # here, before a test imports the kernel, whose sources it looks at
from remote.device import Emulated

settings.register_profile("patient", deadline=None)  # how long an example takes depends on what else the machine does
settings.load_profile("patient")

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


@dataclass(frozen=True)
class Project:
    """A clone with one commit. `kernel/fmha.py` holds the settings that the milestone command obeys."""

    path: Path

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.path), *arguments], capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout.strip()

    def write(self, path: str, text: str) -> None:
        (self.path / path).parent.mkdir(parents=True, exist_ok=True)
        (self.path / path).write_text(text)

    def kernel(self, **settings: object) -> None:
        """Edit the kernel: each setting is one line of it."""
        self.write("kernel/fmha.py", "".join(f"{name} = {value!r}\n" for name, value in settings.items()))

    def state(self) -> dict[str, Any]:
        """Branch, tip, index (as git reads it, flags included) and every file's bytes."""
        files = {
            str(p.relative_to(self.path)): p.read_bytes()
            for p in sorted(self.path.rglob("*"))
            if p.is_file() and not {".git", "results", "__pycache__"} & set(p.relative_to(self.path).parts)
        }
        return {
            "branch": self.git("rev-parse", "--symbolic-full-name", "HEAD"),
            "tip": self.git("rev-parse", "HEAD"),
            "index": (self.path / ".git/index").read_bytes(),
            "staged": self.git("ls-files", "--stage", "-v"),
            "files": files,
        }


def make_project(path: Path) -> Project:
    """Write the project and commit it on branch `work`."""
    path.mkdir(parents=True)
    project = Project(path)
    project.git("init", "--quiet", "--initial-branch=work")
    project.git("config", "user.name", "Ada")
    project.git("config", "user.email", "ada@example.org")
    for folder in ("harness", "remote"):
        shutil.copytree(ROOT / folder, path / folder, ignore=shutil.ignore_patterns("__pycache__", "*.toml"))
    for module in ("run", "compile"):
        shutil.copyfile(HERE / "fake_phases.py", path / f"harness/judge/{module}.py")
    project.kernel(cosine=0.9999985)
    for name in ("__init__", "catalog"):
        project.write(f"stages/{name}.py", (ROOT / f"stages/{name}.py").read_text())
    for name in ("d1_1", "d1_2", "d1_3"):
        project.write(f"stages/{name}.py", '"""Built."""\n')
    project.write("kernel/reference.py", "EXACT = True\n")
    project.write("stages/tolerances.toml", "cosine = 0.999997\n")
    project.write("STAGE_NOTES.md", "# Notes\n")
    project.write("requirements.lock", "pytest==" + pytest.__version__ + "\n")
    project.write(".gitignore", "__pycache__/\n/results/\n*.log\n/remote/targets.toml\n/remote/known_hosts\n")
    project.git("add", "--all")
    project.git("commit", "--quiet", "--message", "First")
    return project


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all processes of this run of the tests keep the configurations of the kernel that they compiled."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "kernels"


@pytest.fixture(scope="session")
def kept_kernels(kernels: Path) -> None:
    """Compile no configuration that another process of this run has compiled."""
    kept.use(kept.KeptKernels(kernels, Emulated()))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "clone")


@pytest.fixture(scope="session")
def new_project() -> Callable[[Path], Project]:
    """Makes another project."""
    return make_project


@pytest.fixture
def other_clone(project: Project, tmp_path: Path) -> Project:
    """A second user's clone of the project."""
    other = Project(tmp_path / "other")
    project.git("clone", "--quiet", str(project.path), str(other.path))
    other.git("config", "user.name", "Bob")
    other.git("config", "user.email", "bob@example.org")
    return other
