"""A small project to run the gate on: a repository like this one, with a milestone command that ends quickly."""

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import emulator  # noqa: F401 - before a test imports CuTeDSL, which is asked for the source's lines then
from harness.host.job import Workplace
from harness.judge import kept  # imported before a test imports the kernel, because it reads the kernel's sources
from remote.device import Emulated
from tests.browser import Browser, browser

settings.register_profile("patient", deadline=None)  # an example's duration depends on the machine's load
settings.load_profile("patient")

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


MadeOnce = Callable[[str, Callable[[Path], None]], Path]
"""(name, make): the folder that `make` fills."""


@dataclass(frozen=True)
class Project:
    """A clone with one commit. `kernel/fmha.py` contains the settings that the fake milestone command reads."""

    path: Path

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.path), *arguments], capture_output=True, text=True, check=True, timeout=600
        )
        return done.stdout.strip()

    def write(self, path: str, text: str) -> None:
        (self.path / path).parent.mkdir(parents=True, exist_ok=True)
        (self.path / path).write_text(text)

    def kernel(self, **settings: object) -> None:
        """Edit the kernel. Each setting is one line of it."""
        self.write("kernel/fmha.py", "".join(f"{name} = {value!r}\n" for name, value in settings.items()))

    def state(self) -> dict[str, Any]:
        """Return branch, tip, index (as git reads it, with flags) and the bytes of every file."""
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


def tolerances(comment: str = "") -> str:
    """Return the pins of the fake milestones."""
    return f"# {comment}\n[every]\nO = {{ cosine = 0.999997, z = 8.5 }}\n\n[every_seed]\nz_factor = 6.5\n"


def make_project(path: Path) -> Project:
    """Write the project and commit it on branch `work`."""
    path.mkdir(parents=True)
    project = Project(path)
    project.git("init", "--quiet", "--initial-branch=work")
    project.git("config", "user.name", "Ada")
    project.git("config", "user.email", "ada@example.org")
    for folder in ("harness", "remote"):
        shutil.copytree(ROOT / folder, path / folder, ignore=shutil.ignore_patterns("__pycache__", "*.toml"))
    for module in ("record_calls", "run", "again"):
        shutil.copyfile(HERE / "fake_phases.py", path / f"harness/judge/{module}.py")
    project.kernel(cosine=0.9999985)
    for name in ("__init__", "catalog"):
        project.write(f"stages/{name}.py", (ROOT / f"stages/{name}.py").read_text())
    for name in ("d1_1", "d1_2", "d1_3"):
        project.write(f"stages/{name}.py", '"""Built."""\n\nSEEDS = (0,)\n')
    project.write("kernel/reference.py", "EXACT = True\n")
    project.write("stages/tolerances.toml", tolerances())
    cases = (f'["{name}"]\n"hd=64" = "O"\n' for name in ("D1.1", "D1.2", "D1.3"))
    project.write("stages/cases.toml", "".join(cases))
    project.write("STAGE_NOTES.md", "# Notes\n")
    project.write("requirements.lock", "pytest==" + pytest.__version__ + "\n")
    project.write(".gitignore", "__pycache__/\n/results/\n*.log\n/remote/targets.toml\n/remote/known_hosts\n")
    project.git("add", "--all")
    project.git("commit", "--quiet", "--message", "First")
    return project


@pytest.fixture
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a repository with the checked out commit alone: no `accepted` of this clone is in it."""
    bare = tmp_path_factory.mktemp("published")
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", bare], check=True)
    subprocess.run(["git", "push", "--quiet", bare, "HEAD:refs/heads/main"], cwd=ROOT, check=True)
    return bare


@pytest.fixture(scope="session", autouse=True)
def own_temporary_files(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let pytest runs that tests start use this folder. They would delete files of earlier runs first, for minutes."""
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the temporary folder of all workers."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def stages_clone(shared_folder: Path) -> Path:
    """Provide the path of the clone in which test_milestones.py judges all milestones."""
    return shared_folder / "stages"


@pytest.fixture(scope="session")
def made_once(shared_folder: Path) -> MadeOnce:
    """Provide folders that are made once in a run of the tests, by the first worker that asks; the others wait."""

    def once(name: str, make: Callable[[Path], None]) -> Path:
        folder, made = shared_folder / name, shared_folder / f"{name}.made"
        with open(shared_folder / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                shutil.rmtree(folder, ignore_errors=True)  # of a worker that failed
                folder.mkdir()
                make(folder)
                made.touch()
        return folder

    return once


@pytest.fixture(scope="session")
def installed(made_once: MadeOnce) -> Path:
    """Provide an environment with this repository's packages as pip installs them, and this one's torch and CuTeDSL.

    pip is that of this environment, because installing another takes 3 CPU seconds.
    """

    def install(venv: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        (site,) = venv.glob("lib/python*/site-packages")
        (site / "its_own.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
        pip: list[str | Path] = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            venv / "bin/python",
            "install",
            "--quiet",
            "--no-deps",
        ]
        subprocess.run([*pip, ROOT, ROOT / "packaging"], check=True)

    return made_once("installed", install)


@pytest.fixture(scope="session")
def started_browsers() -> Iterator[Callable[[], Browser]]:
    """Start one browser for all tests of a worker, and another if it has ended."""
    with ExitStack() as stack:
        started: list[Browser] = []

        def running() -> Browser:
            if started and started[-1].ended:
                warnings.warn(f"the browser ended by itself: {started.pop().log}", stacklevel=2)
            if not started:
                started.append(stack.enter_context(browser()))
            return started[-1]

        yield running


@pytest.fixture
def opened(started_browsers: Callable[[], Browser]) -> Browser:
    """Provide the browser with a wide light screen and without the errors of earlier pages."""
    running = started_browsers()
    running.look(1280, dark=False)
    running.errors.clear()
    return running


@pytest.fixture(scope="session")
def kernels() -> Path:
    """Return the folder in which the test runs of this checkout cache compiled kernel configurations."""
    return ROOT / ".pytest_cache" / "kernels"


@pytest.fixture(scope="session", autouse=True)
def kept_kernels(kernels: Path, stages_clone: Path) -> None:
    """Share compiled kernel configurations between all processes and test runs of this checkout.

    Those that the run of all milestones has compiled so far are found, too.
    """
    if "kernel" in sys.modules:  # a test imported it
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
        compiled = Workplace(stages_clone / "results/.sim").compiled / commit.stdout.strip()
        kept.use(kept.KeptKernels(compiled, Emulated(), written_to=kernels))


@pytest.fixture
def project(new_project: Callable[[Path], Project], tmp_path: Path) -> Project:
    return new_project(tmp_path / "clone")


@pytest.fixture(scope="session")
def new_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Project]:
    """Make projects: copies of one, which takes a third of the time that writing and committing takes."""
    first = make_project(tmp_path_factory.mktemp("project") / "first")

    def copied(path: Path) -> Project:
        shutil.copytree(first.path, path)
        project = Project(path)
        project.git("update-index", "--refresh")  # the index knows the inodes of the first
        return project

    return copied


@pytest.fixture
def other_clone(project: Project, tmp_path: Path) -> Project:
    """Clone the project for a second user."""
    other = Project(tmp_path / "other")
    project.git("clone", "--quiet", str(project.path), str(other.path))
    other.git("config", "user.name", "Bob")
    other.git("config", "user.email", "bob@example.org")
    return other
