"""The first program that runs on a target: it creates the work folder and the folders of runs.

It is sent over the link as text and imports the standard library only, because a fresh host has nothing of this
project. The client calls `prepare`, `fetch`, `lay_out` or `forget` (`remote.program`).
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

PLAIN = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "LC_ALL": "C"}


def git(*arguments: str, **env: str) -> bytes:
    """Run git without the configuration of user and system; return its output."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, env={**os.environ, **PLAIN, **env}, timeout=120)
    except FileNotFoundError:
        raise SystemExit("git is not installed there") from None
    except subprocess.TimeoutExpired:
        raise SystemExit(f"git {arguments[0]} did not end in 120 s") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        if os.strerror(errno.ENOSPC) in said:
            raise OSError(errno.ENOSPC, said[-300:])
        raise SystemExit(f"git: {said[-300:]}")
    return done.stdout


def prepare(workdir: str, python: str) -> dict[str, Any]:
    """Create the work folder, with an empty bare repository in it, if it is not there; return what a run would find.

    `python` is the interpreter that runs will use ("": the one of the environment in the work folder).
    """
    if sys.version_info < (3, 11):  # noqa: UP036  the interpreter there is not known to be ours
        raise SystemExit(
            f"Python there is {sys.version.split()[0]}: install 3.11 or newer, or set base_python in targets.toml"
        )
    root = Path(workdir).expanduser()
    if not root.is_absolute():
        raise SystemExit(f"workdir {workdir!r} must begin with / or ~/")
    if '"' in str(root):
        raise SystemExit(f"workdir {root} has a double quote, which ptxas cannot read in a path: choose another")
    if root.exists() and root.stat().st_uid != os.getuid():
        fix = "choose one of your own, or log in as that account"
        raise SystemExit(f"workdir {root} belongs to the account {owner(root)}: {fix}")
    (root / "runs").mkdir(parents=True, exist_ok=True)
    repository = root / "repo.git"
    if not repository.exists():
        fresh = root / f"repo.{os.getpid()}"
        git("init", "--quiet", "--bare", str(fresh))
        git("-C", str(fresh), "config", "receive.shallowUpdate", "true")
        try:
            fresh.rename(repository)
        except OSError:
            shutil.rmtree(fresh)
    used = shutil.which(python) or python if python else str(root / "env/bin/python")
    free = shutil.disk_usage(root).free
    return {"workdir": str(root), "python": used, "runs_python": os.access(used, os.X_OK), "free_bytes": free}


def owner(path: Path) -> str:
    """Return the account that owns a path: its name, or its number if it has no name here."""
    try:
        return path.owner()
    except KeyError:
        return str(path.stat().st_uid)


def fetch(workdir: str, url: str, ref: str) -> dict[str, Any]:
    """Fetch a candidate and `accepted` from a repository that both client and host can reach."""
    repository = str(Path(workdir) / "repo.git")
    listed = git("ls-remote", url, "refs/heads/accepted").decode()
    more = ["+refs/heads/accepted:refs/heads/accepted"] if listed.strip() else []
    git("-C", repository, "fetch", "--quiet", "--no-tags", url, f"+{ref}:{ref}", *more)
    return {}


def lay_out(workdir: str, jobs: list[str]) -> dict[str, Any]:
    """Create the folders of the runs of `jobs`, ready for their supervisors. Repeating it changes nothing."""
    for job in jobs:
        lay_out_one(workdir, job)
    return {}


def lay_out_one(workdir: str, job: str) -> None:
    """Create the folder of one run."""
    wanted = json.loads(job)
    subject, root = wanted["subject"], Path(workdir)
    run = root / "runs" / subject["run"]
    if run.parent != root / "runs":
        raise SystemExit(f"run {subject['run']!r} is not a run id")
    run.mkdir(exist_ok=True)
    if not (run / "engine").exists():
        lay_out_engine(root / "repo.git", subject["commit"], run)
    if not (run / "job.json").exists():
        fresh = run / f"job.{os.getpid()}"
        fresh.write_text(job)
        fresh.rename(run / "job.json")
    elif json.loads((run / "job.json").read_text()) != wanted:
        raise SystemExit(f"run {subject['run']} already exists with a different job")


def lay_out_engine(repository: Path, commit: str, run: Path) -> None:
    """Write the harness of a commit into `run`/engine, either completely or not at all."""
    fresh, index = run / f"engine.{os.getpid()}", run / f"index.{os.getpid()}"
    fresh.mkdir()
    there = ("--git-dir", str(repository), "--work-tree", str(fresh))
    git(*there, "read-tree", "--prefix=harness/", f"{commit}:harness", GIT_INDEX_FILE=str(index))
    git(*there, "checkout-index", "--all", GIT_INDEX_FILE=str(index))
    index.unlink()
    try:
        fresh.rename(run / "engine")
    except OSError:
        shutil.rmtree(fresh)


def forget(workdir: str, runs: list[str]) -> dict[str, Any]:
    """Remove the folders and candidates of runs that have ended; git drops their objects later."""
    root = Path(workdir)
    for name in runs:
        run = root / "runs" / name
        if run.parent != root / "runs":
            raise SystemExit(f"run {name!r} is not a run id")
        if not lives(run):
            subprocess.run(["rm", "-rf", "--", str(run)], capture_output=True, check=False)  # also very deep folders
    repository = str(root / "repo.git")
    for ref in git("-C", repository, "for-each-ref", "--format=%(refname)", "refs/candidates").decode().split():
        run = root / "runs" / ref.rsplit("/", 1)[-1]
        if run.name in runs and not run.exists():
            git("-C", repository, "update-ref", "-d", ref)
    git("-C", repository, "gc", "--quiet")
    return {}


def lives(run: Path) -> bool:
    """Return True if a supervisor of the run is alive."""
    try:
        with open(run / "alive") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
