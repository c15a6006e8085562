"""Checks of a target: one finding for each requirement, with the fix if it is not met."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.client import vouched
from harness.client.host import PROBE
from harness.host import walls
from harness.host.repository import GitError, Repository
from harness.judge.fingerprint import LOCK_NAME, differences
from remote.errors import HostKeyError, NotAdmitted, RemoteError
from remote.link import Link
from remote.program import send
from remote.target import Target

MIN_GIT = (2, 38)
#: The oldest driver, by its first number, for each major version of the CUDA libraries that torch brings.
DRIVERS = {"12": 525, "13": 580}
#: The compute capability that an architecture needs.
CAPABILITY = {"sm_90a": "9.0", "sm_100a": "10.0", "sm_103a": "10.3"}


@dataclass(frozen=True)
class Finding:
    """One requirement: whether it holds, what was found, and the fix."""

    need: str
    holds: bool
    found: str
    fix: str = ""


def examine(target: Target, repository: Repository) -> Iterator[Finding]:
    """Check each requirement of a target, starting on this machine; stop at the first that prevents further checks."""
    yield from _here(target, repository)
    try:
        link = target.connect()
    except RemoteError as error:
        named = f"check HostName and Port of {target.host} in ~/.ssh/config, and host in remote/targets.toml"
        fix = "" if isinstance(error, HostKeyError | NotAdmitted) else named
        yield Finding("connection", False, str(error), fix)
        return
    with closing(link):
        yield Finding("connection", True, "open, host key as pinned" if target.host else "this machine")
        try:
            facts = _facts(target, link)
        except RemoteError as error:
            fix = "install Python 3.11 or newer there, or name one as base_python in targets.toml"
            yield Finding("python", False, str(error), fix)
            return
        if target.node_prefix:
            findings, facts = _node(target, link, facts)
            yield from findings
        yield from _there(target, facts, (repository.path / LOCK_NAME).read_text())


def _here(target: Target, repository: Repository) -> Iterator[Finding]:
    try:
        yield _git("git here", repository.git("--version"))
    except GitError as error:
        yield Finding("git here", False, str(error), "install git 2.38 or newer")
    try:
        tip = vouched.accepted(repository)
        yield Finding("accepted", True, f"{tip[:12]}, with the note of its run" if tip else "nothing accepted yet")
    except vouched.NotVouchedError as error:
        said, _, fix = str(error).partition(". ")
        yield Finding("accepted", False, said, fix)
    if target.sync != "push":
        known = repository.succeeds("remote", "get-url", target.sync)
        yield Finding("sync", known, f"through {target.sync}", f"git remote add {target.sync} URL")


def _facts(target: Target, link: Link, before: Sequence[str] = ()) -> dict[str, Any]:
    """Return the facts that the probe collects. The GPU is queried only where runs execute: on a node of a cluster."""
    where: dict[str, Any] = {"workdir": target.workdir, "python": target.python, "lock": target.lock, "gpu": target.gpu}
    where["walls"] = Path(walls.__file__).read_text()
    cuda = target.device == "cuda" and list(before) == target.node_prefix
    return send(target, link, PROBE, "facts", where | {"cuda": cuda}, before=before)


def _node(target: Target, link: Link, facts: dict[str, Any]) -> tuple[list[Finding], dict[str, Any]]:
    """Check one node of a cluster and return its facts, or those of the login node if no node is free."""
    login = Finding("login node", True, f"{facts.get('node')}, {facts.get('system')}")
    try:
        inside = _facts(target, link, target.node_prefix)
    except RemoteError as error:
        busy = "busy" in str(error)
        said = "no node is free now: only the login node was checked" if busy else str(error)
        return [login, Finding("node", busy, said, "see what srun says; sinfo there lists partitions and gres")], facts
    same = facts.get("inode") == inside.get("inode")
    shared = "the node sees the work folder" if same else f"{inside.get('node')} has another {target.workdir}"
    fix = "workdir must lie on a file system that the login node and the nodes share"
    node = Finding("node", True, str(inside.get("node")))
    return [login, node, Finding("shared", same, shared, fix)], inside


def _git(need: str, said: str) -> Finding:
    numbers = said.removeprefix("git version ").split(".")
    new_enough = len(numbers) > 1 and all(n.isdigit() for n in numbers[:2]) and tuple(map(int, numbers[:2])) >= MIN_GIT
    return Finding(need, new_enough, said.removeprefix("! "), "install git 2.38 or newer")


def _there(target: Target, facts: dict[str, Any], lock: str) -> Iterator[Finding]:
    system = str(facts.get("system"))
    yield Finding("system", system.startswith("Linux"), system, "runs need Linux (on a Mac: a GPU host as target)")
    python = str(facts.get("python"))
    newer = "install Python 3.11 or newer there, or name one as base_python in targets.toml"
    yield Finding("python", tuple(map(_number, python.split(".")[:2])) >= (3, 11), python, newer)
    yield _git("git", str(facts.get("git")))
    yield _walls(str(facts.get("walls")))
    unusable = str(facts.get("unusable"))
    found = f"{target.workdir}: {unusable}" if unusable else target.workdir
    yield Finding("work folder", not unusable, found, "give your account this folder, or name another workdir")
    if not unusable or target.python:  # the interpreter is in the work folder otherwise
        yield _packages(target, str(facts.get("packages")), lock)
    if "gpu" in facts:
        yield from _gpu(target, str(facts.get("gpu")), str(facts.get("packages")))
    ends = facts.get("logind") == "yes" and not target.node_prefix
    said = "logind kills the processes of a user who logs out" if ends else "a supervisor outlives the connection"
    if not target.node_prefix:
        yield Finding("detached", not ends, said, "ask the administrator for KillUserProcesses=no in logind.conf")
    free = int(facts.get("free_mb") or 0)
    yield Finding("disk", free >= target.disk_mb, f"{free} MiB free", f"free some space: {target.disk_mb} MiB needed")
    broken = str(facts.get("broken") or "")
    clear = f"look at the machine, then: python -m harness doctor --target {target.name} --clear-broken"
    yield Finding("device", not broken, broken.strip() or "not marked broken", clear)
    if not target.lock:
        return
    holder = _holder(str(facts.get("holder") or ""))
    yield Finding("lock", True, f"{holder}, {facts.get('waiting')} in line" if holder else "free")


def _walls(said: str) -> Finding:
    """Say which walls phases run behind. A host without them is allowed, and verdicts from it say so."""
    if not said.startswith("! "):
        up = "phases see no other process, no network and no keys, and write to their results only (user namespaces)"
        return Finding("walls", True, up)
    why = said.removeprefix("! no walls: ").removeprefix("! ")
    return Finding("walls", True, f"none, so a candidate can do what its user can: user namespaces: {why}")


def _packages(target: Target, said: str, lock: str) -> Finding:
    fix = f"make provision TARGET={target.name}" if target.provisionable else "make setup"
    try:
        version, installed = json.loads(said)
        found = {str(name): str(each) for name, each in installed.items()}
    except (ValueError, AttributeError, RecursionError):
        return Finding("packages", False, said.removeprefix("! "), fix)
    wrong = list(differences(lock, found))
    shown = ", ".join(wrong[:4]) + (f" and {len(wrong) - 4} more" if len(wrong) > 4 else "")
    return Finding("packages", not wrong, shown or f"as in the lock, Python {version}", fix)


def _gpu(target: Target, said: str, packages: str) -> Iterator[Finding]:
    ask = "ask the host's administrator to check the driver; the harness never touches it"
    if said.startswith("! "):
        yield Finding("gpu", False, said.removeprefix("! "), ask)
        return
    fields = [field.strip() for field in said.split(",")]
    if len(fields) != 5:
        yield Finding("gpu", False, f"nvidia-smi said {said!r}", ask)
        return
    name, driver, capability, used, total = fields
    wanted = CAPABILITY.get(target.arch, "")
    yield Finding(
        "gpu",
        capability == wanted,
        f"{name}, compute {capability}",
        f"a GPU of compute {wanted} is needed: set gpu",
    )
    cuda = re.search(r'"nvidia[-_]cuda[-_]runtime[^"]*": *"(\d+)', packages)
    needed = DRIVERS.get(cuda[1], 0) if cuda else 0
    fix = f"torch there has CUDA {cuda and cuda[1]}: ask for driver {needed} or newer, or install a torch of older CUDA"
    yield Finding("driver", _number(driver.partition(".")[0]) >= needed, f"{driver}, {used} of {total} in use", fix)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _holder(said: str) -> str:
    try:
        held = json.loads(said)
        return f"held by {held['owner']}, run {held['run']}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return said and "held"
