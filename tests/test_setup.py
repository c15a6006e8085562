"""`make setup` installs with uv if it is present, else with pip. The commands are printed, not run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Make a folder of the programs that the Makefile runs, without uv."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("make", "bash"):
        (folder / name).symlink_to(str(shutil.which(name)))
    return folder


def setup(programs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--dry-run", "--what-if=requirements.lock", "setup", *words]
    env = os.environ | {"PATH": str(programs)}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=600)


def test_pip_installs_where_there_is_no_uv(programs: Path) -> None:
    assert "-m pip install --quiet --disable-pip-version-check -r requirements.lock" in setup(programs).stdout


@pytest.mark.parametrize(
    ("words", "installs"), [([], "-r requirements.lock"), (["TORCH=cpu"], "--torch-backend=cpu -r requirements.lock")]
)
def test_uv_installs_where_there_is_one(programs: Path, words: list[str], installs: str) -> None:
    (programs / "uv").write_text("#!/bin/sh\n")
    (programs / "uv").chmod(0o755)
    said = setup(programs, *words).stdout.replace("\\\n", "")
    assert f"{programs}/uv pip install --quiet" in said and " ".join(installs.split()) in " ".join(said.split())
    assert "-m pip" not in said


def test_the_build_of_torch_is_not_chosen_without_uv(programs: Path, tmp_path: Path) -> None:
    command = ["make", "setup", "TORCH=cpu", f"PYTHON={sys.executable}", f"VENV={tmp_path}/venv"]
    done = subprocess.run(command, cwd=ROOT, env={"PATH": str(programs)}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 2 and done.stderr.startswith("TORCH=cpu needs uv: pip install uv\n")
    assert not (tmp_path / "venv").exists()


@pytest.mark.parametrize(("lock", "says"), [("", "milestones, said by its python"), ("more==1\n", "setting up .venv")])
def test_a_worktree_uses_the_environment_of_the_main_checkout(tmp_path: Path, lock: str, says: str) -> None:
    """If both have the same lock. With another lock the worktree gets its own environment."""
    main, tree = tmp_path / "Ada's checkout", tmp_path / "tree"
    (main / ".venv/bin").mkdir(parents=True)
    (main / ".venv/bin/python").write_text('#!/bin/sh\necho "$3, said by its python"\n')
    (main / ".venv/bin/python").chmod(0o755)
    for name in ("Makefile", "requirements.lock", ".gitignore"):
        shutil.copy(ROOT / name, main)
    (main / ".venv/.ready").touch()
    git = ["git", "-C", str(main), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "First"], ["worktree", "add", "-q", str(tree)]):
        subprocess.run([*git, *words], check=True, timeout=600)
    with open(tree / "requirements.lock", "a") as stream:
        stream.write(lock)
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    command = ["make", "milestones", f"PYTHON={sys.executable}", "UV=echo"]
    done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, timeout=600)
    assert says in done.stdout, done


def test_of_two_makes_at_once_the_second_waits_for_the_first(tmp_path: Path) -> None:
    """Only one installs, which takes half a second. Both end with the environment that it made, and its command."""
    for name in ("Makefile", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\necho $1 >> installed\nsleep 0.5\n")
    uv.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    command = ["make", "setup", f"PYTHON={sys.executable}", f"UV={uv}"]
    both = [subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [each.wait(timeout=600) for each in both] == [0, 0]
    assert (tmp_path / "installed").read_text().split() == ["venv", "pip"]
    python = tmp_path / ".venv/bin/python"
    python.write_text('#!/bin/sh\necho "$PYTHONPATH $@"\n')
    python.chmod(0o755)
    said = subprocess.check_output([tmp_path / ".venv/bin/ptx-emulator", "run", "a b"], env={"PYTHONPATH": "/x"} | env)
    assert said.decode().split(":")[0] == str(tmp_path) and said.decode().endswith("-m emulator run a b\n")


@pytest.mark.thorough  # asks the index for every package; the lock changes rarely
def test_every_package_of_the_lock_has_a_wheel_for_arm(tmp_path: Path) -> None:
    """Most B200s are attached to Grace, an aarch64 processor."""
    wheels = ["--dry-run", "--ignore-installed", "--no-deps", "--only-binary=:all:", "--python-version=3.11"]
    tags = [f"--platform=manylinux_2_{minor}_aarch64" for minor in range(17, 36)]
    command = [sys.executable, "-m", "pip", "install", "--quiet", *wheels, *tags, f"--target={tmp_path}"]
    done = subprocess.run([*command, "-r", ROOT / "requirements.lock"], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
