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


def provision(workdir: str, lock: str, pip: dict[str, str]) -> dict[str, str]:
    """Install the packages of `lock` into `workdir`/env. Return the architecture of the machine.

    pip: variables of pip, such as PIP_INDEX_URL.
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
    env |= {"TMPDIR": str(root / "cache"), "PYTHONUNBUFFERED": "1"} | pip
    (root / "cache").mkdir(exist_ok=True)
    python = root / "env/bin/python"
    if not has_pip(python):  # absent, or an interrupted `venv` left it without pip
        step(sys.executable, "-m", "venv", "--clear", str(root / "env"), env=env)
    wanted = root / "env/requirements.lock"
    wanted.write_text(lock)
    step(str(python), "-m", "pip", "install", "--progress-bar=off", "--requirement", str(wanted), env=env)
    return {"machine": platform.machine()}
