"""The targets file: the known targets, and the default one."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from remote.errors import TargetError
from remote.faulty import Faulty
from remote.local import Local
from remote.slurm import Slurm
from remote.ssh import Ssh
from remote.target import Target

FOLDER = Path(__file__).parent
OWN, EXAMPLE = FOLDER / "targets.toml", FOLDER / "targets.example.toml"
KINDS: dict[str, Callable[..., Target]] = {"emulator": Local, "ssh": Ssh, "slurm": Slurm}
NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
#: Fields of a target that the targets file may not set.
FIXED = {"name", "shared"}


@dataclass(frozen=True)
class Targets:
    """All targets by name, and the name of the default one."""

    default: str
    by_name: dict[str, Target]

    def find(self, name: str = "") -> Target:
        """Return the target `name` ("": the default). Raises TargetError, which lists the targets."""
        found = self.by_name.get(name or self.default)
        if found is None:
            known = ", ".join(self.by_name)
            raise TargetError(f"target {name or self.default!r}: there are {known} (remote/targets.toml)")
        return found


def load(path: Path | None = None) -> Targets:
    """Read the user's targets file, or the example if there is none. Raises TargetError."""
    chosen = path or (OWN if OWN.exists() else EXAMPLE)
    try:
        with open(chosen, "rb") as stream:
            read = tomllib.load(stream)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise TargetError(f"{chosen}: {error}") from error
    tables = read.pop("targets", None)
    default = read.pop("default", None)
    if read or not isinstance(tables, dict) or not tables or not isinstance(default, str):
        raise TargetError(
            f'{chosen}: must have default = "NAME" and a table [targets.NAME] for each target, and nothing else'
        )
    found: dict[str, Target] = {}
    for name, table in tables.items():
        if not NAME.fullmatch(name):
            raise TargetError(f"{chosen}: targets.{name}: a name may have letters, digits, - and _, at most 32")
        found[name] = _faulty(chosen, name, table, found) if _kind(table) == "faulty" else _target(chosen, name, table)
    return Targets(default, found)


def here(workdir: Path, arch: str) -> Target:
    """Return this machine as a target, for phases that need no device."""
    return Local("here", str(workdir), arch=arch)


def _kind(table: Any) -> object:
    return table.get("kind") if isinstance(table, dict) else None


def _target(path: Path, name: str, table: Any) -> Target:
    kind = KINDS.get(str(_kind(table)))
    if kind is None:
        raise TargetError(f"{path}: targets.{name}: kind {_kind(table)!r}, there are {', '.join(KINDS)} and faulty")
    allowed = {f.name: f for f in fields(kind) if f.name not in FIXED}  # type: ignore[arg-type]
    for key, value in table.items():
        if key == "kind":
            continue
        if key not in allowed:
            raise TargetError(f"{path}: targets.{name}: unknown key {key!r}, allowed are kind, {', '.join(allowed)}")
        if type(value).__name__ != allowed[key].type:
            raise TargetError(f"{path}: targets.{name}.{key} is a {type(value).__name__}: must be {allowed[key].type}")
    if table.get("device") not in (None, "cuda", "emulator"):
        raise TargetError(f"{path}: targets.{name}.device = {table['device']!r}: must be cuda or emulator")
    try:
        return kind(name=name, **{key: value for key, value in table.items() if key != "kind"})
    except TypeError as error:
        missing = str(error).split("argument")[-1].strip(": s")
        raise TargetError(f"{path}: targets.{name} lacks {missing}") from error


def _faulty(path: Path, name: str, table: dict[str, Any], earlier: dict[str, Target]) -> Target:
    """Return a target that breaks the link to an earlier one."""
    if set(table) != {"kind", "of", "cut_at"} or table["of"] not in earlier or not isinstance(table["cut_at"], list):
        raise TargetError(
            f"{path}: targets.{name}: must have of = an earlier target, cut_at = [counts], and nothing else"
        )
    return Faulty(earlier[table["of"]], table["cut_at"], name)
