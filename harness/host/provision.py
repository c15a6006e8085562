"""Installation of the packages of requirements.lock on a target. If interrupted, run it again and it continues.

Like `harness.host.bootstrap`, this program is sent over the link as text and imports the standard library only. It
writes the environment, a cache and a log, all in the work folder.
"""

from __future__ import annotations

import fcntl
import os
import platform
import subprocess
import sys
from pathlib import Path


def step(*argv: str, env: dict[str, str]) -> None:
    """Run a command and print its output line by line."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    assert process.stdout is not None
    last = ""
    for line in process.stdout:
        last = line.strip() or last
        print(line.rstrip()[:300], flush=True)
    if process.wait() != 0:
        raise SystemExit(f"{Path(argv[0]).name}: {last[-200:]}")


def has_pip(python: Path) -> bool:
    """Return True if an interpreter starts and has pip."""
    try:
        return subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def prepare(workdir: str) -> tuple[Path, dict[str, str]]:
    """Make the environment in the work folder unless it has pip; return it and the variables of its commands.

    The lock of the environment is held until this program ends.
    """
    if sys.version_info < (3, 11):  # noqa: UP036  the interpreter there is not known to be ours
        fix = "install 3.11 or newer, or name one there as base_python in targets.toml"
        raise SystemExit(f"Python there is {sys.version.split()[0]}: {fix}")
    root = Path(workdir).expanduser()
    (root / "locks").mkdir(parents=True, exist_ok=True)
    for path in [root / "locks/env.lock", *(root / "locks").glob("gpu*.lock")]:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"{path.stem} is in use there: try again when it is free") from None
    env = os.environ | {"PIP_CACHE_DIR": str(root / "cache/pip"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    env |= {"TMPDIR": str(root / "cache"), "PYTHONUNBUFFERED": "1"}
    (root / "cache/wheels").mkdir(parents=True, exist_ok=True)
    if not has_pip(root / "env/bin/python"):  # absent, or an interrupted `venv` left it without pip
        step(sys.executable, "-m", "venv", "--clear", str(root / "env"), env=env)
    return root, env


def needs(workdir: str) -> dict[str, object]:
    """Return what decides which wheels fit here, where they belong, and the sizes of those that are there."""
    root, _ = prepare(workdir)
    version = "import sys; print('%d.%d' % sys.version_info[:2])"
    python = subprocess.run([root / "env/bin/python", "-Ic", version], capture_output=True, text=True, check=True)
    folder = root / "cache/wheels"
    return {
        "python": python.stdout.strip(),
        "machine": platform.machine(),
        "glibc": os.confstr("CS_GNU_LIBC_VERSION"),
        "wheels": str(folder),
        "sizes": {wheel.name: wheel.stat().st_size for wheel in folder.glob("*.whl")},
    }


def provision(workdir: str, lock: str, pip: dict[str, str], carried: bool) -> dict[str, str]:
    """Install the packages of `lock` into `workdir`/env. Return the architecture of the machine.

    pip: variables of pip, such as PIP_INDEX_URL. carried: take the wheels in `workdir`/cache/wheels and no others.
    """
    root, env = prepare(workdir)
    if carried:
        env |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": (root / "cache/wheels").as_uri()}
    wanted = root / "env/requirements.lock"
    wanted.write_text(lock)
    install = (str(root / "env/bin/python"), "-m", "pip", "install", "--progress-bar=off", "--requirement", str(wanted))
    try:
        step(*install, env=env | pip)
    except SystemExit as error:
        wheels = "" if carried else "; if no index can be reached from there: make provision WHEELS=folder"
        raise SystemExit(f"{error}{wheels}") from None
    return {"machine": platform.machine()}
