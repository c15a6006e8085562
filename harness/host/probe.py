"""Facts about a target, each collected with a deadline.

Like `harness.host.bootstrap`, this program is sent over the link as text and imports the standard library only. The
client calls `facts`, `runs` or `clear`. Only `clear` changes something: it removes the mark of a broken device.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ASK_S = 20.0
MOST_RUNS = 50
#: Of a package that is on the path twice, the first is imported.
PACKAGES = (
    "import importlib.metadata as m, json, sys; found = reversed(list(m.distributions())); "
    "print(json.dumps([sys.version.split()[0], {d.metadata['Name']: d.version for d in found}]))"
)


def ask(*argv: str) -> str:
    """Return the output of a command, or "! " and the reason if it is missing, fails, or does not answer in time."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=ASK_S)
    except FileNotFoundError:
        return f"! {argv[0]} is not installed"
    except subprocess.TimeoutExpired:
        return f"! {argv[0]} did not answer in {ASK_S:.0f} s"
    except OSError as error:
        return f"! {argv[0]}: {error.strerror}"
    if done.returncode != 0:
        return f"! {(done.stderr or done.stdout).strip()[-200:] or f'exit {done.returncode}'}"
    return done.stdout.strip()


def facts(workdir: str, python: str, lock: str, gpu: int, cuda: bool, walls: str) -> dict[str, Any]:
    """Return the facts that `harness.client.doctor` checks. `walls` is the text of harness/host/walls.py."""
    root = Path(workdir).expanduser()
    there = next(path for path in (root, *root.parents) if seen(path))
    held = root / "locks" / (lock or "none")
    query = "name,driver_version,compute_cap,memory.used,memory.total"
    found: dict[str, Any] = {
        "node": platform.node(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": sys.version.split()[0],
        "git": ask("git", "--version"),
        "packages": ask(python or str(root / "env/bin/python"), "-c", PACKAGES),
        "walls": ask(sys.executable, "-ISc", walls, "--try"),
        "inode": there.stat().st_ino,
        "unusable": unusable(root, there),
        "logind": ask("loginctl", "show-session", "--property=KillUserProcesses", "--value"),
        "free_mb": shutil.disk_usage(there).free >> 20,
        "holder": holder(held.with_suffix(".lock")),
        "waiting": len(listed(held.with_suffix(".line"), "*.ticket")),
        "broken": "; ".join(f"{path.stem} {text(path)}" for path in listed(held.parent, f"{lock or '*'}.broken")),
    }
    if cuda:
        found["gpu"] = ask("nvidia-smi", f"--id={gpu}", f"--query-gpu={query}", "--format=csv,noheader")
    return found


def seen(path: Path) -> bool:
    """Return True if this account sees that a path exists."""
    try:
        return path.exists()
    except PermissionError:
        return False


def listed(folder: Path, pattern: str) -> list[Path]:
    """Return the paths in a folder that match; [] if this account may not look."""
    try:
        return sorted(folder.glob(pattern))
    except PermissionError:
        return []


def unusable(root: Path, there: Path) -> str:
    """Return why runs cannot use the work folder `root`, "" if they can. `there` is the part of it that exists."""
    if not root.is_absolute():
        return "it must begin with / or ~/"
    if '"' in str(root):
        return "it has a double quote, which ptxas cannot read in a path"
    for parent in reversed(root.parents):
        if seen(parent) and parent.is_dir() and not os.access(parent, os.X_OK):
            return f"this account may not enter {parent}"
    if not there.is_dir():
        return f"{there} is not a folder"
    if there == root and root.stat().st_uid != os.getuid():
        return "it belongs to another account"
    return "" if os.access(there, os.W_OK | os.X_OK) else f"this account may not write to {there}"


def runs(workdir: str) -> dict[str, Any]:
    """Return the newest runs on the target, of all users."""
    rows = []
    for folder in sorted((Path(workdir).expanduser() / "runs").glob("*"), reverse=True)[:MOST_RUNS]:
        try:
            subject = json.loads((folder / "job.json").read_text())["subject"]
            row = {key: subject[key] for key in ("run", "target", "commit", "user")}
            row["milestone"] = "+".join(subject["milestones"])
            ruled = folder / "verdict.json"
            row["verdict"] = json.loads(ruled.read_text())["verdict"] if ruled.exists() else ""
            row["alive"] = locked(folder / "alive") or (not row["verdict"] and queued(folder / "slurm"))
            row["cancelled"] = (folder / "cancel").exists()
            rows.append(row)
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return {"runs": rows}


def clear(workdir: str, lock: str) -> dict[str, Any]:
    """Remove the mark of a broken device (lock "": of all devices)."""
    for mark in (Path(workdir).expanduser() / "locks").glob(f"{lock or '*'}.broken"):
        mark.unlink(missing_ok=True)
    return {}


def queued(path: Path) -> bool:
    """Return True if Slurm still has the job whose number is in the file `path`."""
    number = text(path).strip()
    said = ask("squeue", "--noheader", "--format=%T", f"--jobs={number}") if number else ""
    return said != "" and not said.startswith("!")


def holder(path: Path) -> str:
    """Return the holder of a lock, or "" if it is free."""
    return (text(path) or "somebody") if locked(path) else ""


def locked(path: Path) -> bool:
    """Return True if a living process holds the lock on a file."""
    try:
        with open(path) as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def text(path: Path) -> str:
    """Return the beginning of a file, or "" if there is none."""
    try:
        return path.read_text(errors="replace")[:500]
    except OSError:
        return ""
