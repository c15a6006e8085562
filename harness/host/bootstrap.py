"""The first thing run on a target, sent over the link as text: makes the work folder, and the folders of runs.

It stands alone (standard library only, nothing of this project imported), for on a fresh machine nothing else
is there. `main` takes one JSON object and prints one.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FULL = "the disk there is full: make room, or make clean-runs"
PLAIN = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "LC_ALL": "C"}


class Refused(Exception):
    """The target cannot do it; the message says why."""


def git(*arguments: str, **env: str) -> bytes:
    """Run git with nobody's configuration. Raises Refused."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, env={**os.environ, **PLAIN, **env}, timeout=120)
    except FileNotFoundError:
        raise Refused("git is not installed there") from None
    except subprocess.TimeoutExpired:
        raise Refused(f"git {arguments[0]} did not end in 120 s") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise Refused(FULL if os.strerror(errno.ENOSPC) in said else f"git: {said[-300:]}")
    return done.stdout


def prepare(workdir: str, python: str) -> dict[str, Any]:
    """Make the work folder with an empty bare repository in it, where there is none; say what a run would find.

    `python` is the interpreter that runs are to use, "" the environment's.
    """
    if sys.version_info < (3, 11):  # noqa: UP036  the interpreter there is not known to be ours
        raise Refused(f"Python {sys.version.split()[0]} there, 3.11 or newer needed")
    root = Path(workdir).expanduser()
    if not root.is_absolute():
        raise Refused(f"workdir {workdir!r}: must begin with / or ~/")
    if '"' in str(root):
        raise Refused(f"workdir {root}: ptxas reads no source below a path with a double quote; choose another")
    if root.exists() and root.stat().st_uid != os.getuid():
        mend = "name one of your own, or reach the host as that account"
        raise Refused(f"workdir {root} belongs to the account {owner(root)}: {mend}")
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
    """The account that a path belongs to, by name where it has one here."""
    try:
        return path.owner()
    except KeyError:
        return str(path.stat().st_uid)


def fetch(workdir: str, url: str, ref: str) -> dict[str, Any]:
    """Fetch a candidate and `accepted` from a repository that both sides reach."""
    repository = str(Path(workdir) / "repo.git")
    listed = git("ls-remote", url, "refs/heads/accepted").decode()
    more = ["+refs/heads/accepted:refs/heads/accepted"] if listed.strip() else []
    git("-C", repository, "fetch", "--quiet", "--no-tags", url, f"+{ref}:{ref}", *more)
    return {}


def lay_out(workdir: str, jobs: list[str]) -> dict[str, Any]:
    """Make the folders of the runs of `jobs`, ready to be supervised. Repeating it changes nothing."""
    for job in jobs:
        lay_out_one(workdir, job)
    return {}


def lay_out_one(workdir: str, job: str) -> None:
    """Make the folder of one run."""
    wanted = json.loads(job)
    subject, root = wanted["subject"], Path(workdir)
    run = root / "runs" / subject["run"]
    if run.parent != root / "runs":
        raise Refused(f"run {subject['run']!r} is no run id")
    run.mkdir(exist_ok=True)
    if not (run / "engine").exists():
        lay_out_engine(root / "repo.git", subject["commit"], run)
    if not (run / "job.json").exists():
        fresh = run / f"job.{os.getpid()}"
        fresh.write_text(job)
        fresh.rename(run / "job.json")
    elif json.loads((run / "job.json").read_text()) != wanted:
        raise Refused(f"run {subject['run']} is there already, with another job")


def lay_out_engine(repository: Path, commit: str, run: Path) -> None:
    """Write the harness of a commit into `run`/engine: whole, or not at all."""
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
    """Remove the folders of runs that have ended, and their candidates; git drops what only those held in its time."""
    root = Path(workdir)
    for name in runs:
        run = root / "runs" / name
        if run.parent != root / "runs":
            raise Refused(f"run {name!r} is no run id")
        if not lives(run):
            shutil.rmtree(run, ignore_errors=True)
    repository = str(root / "repo.git")
    for ref in git("-C", repository, "for-each-ref", "--format=%(refname)", "refs/candidates").decode().split():
        run = root / "runs" / ref.rsplit("/", 1)[-1]
        if run.name in runs and not run.exists():
            git("-C", repository, "update-ref", "-d", ref)
    git("-C", repository, "gc", "--quiet")
    return {}


def lives(run: Path) -> bool:
    """Whether a run has a supervisor."""
    try:
        with open(run / "alive") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def main(text: str) -> None:
    """Do what the request says and print the answer; an answer with "refused" says why not."""
    request = json.loads(text)
    verbs: dict[str, Callable[..., dict[str, Any]]] = {
        "prepare": prepare,
        "fetch": fetch,
        "lay_out": lay_out,
        "forget": forget,
    }
    try:
        answer = verbs[request.pop("verb")](**request)
    except Refused as error:
        answer = {"refused": str(error)}
    except OSError as error:
        answer = {"refused": FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else str(error)}
    print(json.dumps(answer))
