"""The verdict on a run as SARIF 2.1.0, the format by which code hosts show findings on the lines of a change."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from inspect import cleandoc
from pathlib import Path, PurePath
from typing import Any, Final
from urllib.parse import quote

from .. import errors
from ..findings import findings_in, kernel_name

NAME: Final = "ptx-emulator"
VERSION: Final = "2.1.0"
SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
SUFFIX: Final = ".sarif"
LEVELS: Final = {"fault": "error", "incomplete": "error", "formal": "warning", "pedantic": "note", "known": "note"}
"""SARIF's level of each level of a finding."""
Json = dict[str, Any]


def version() -> str:
    """Return the version of the installed package; in a clone, that of the project."""
    try:
        return installed(NAME)
    except PackageNotFoundError:
        project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
        return f"{project['version']} (clone)"


def sarif(verdict: Mapping[str, Any]) -> Json:
    """Convert a report of `run --report` or pytest's `--emulator-report` from JSON to SARIF."""
    every = findings_in(verdict)
    classes = list(dict.fromkeys(finding["class"] for finding in every))
    return {
        "$schema": SCHEMA,
        "version": VERSION,
        "runs": [
            {
                "tool": {"driver": {"name": NAME, "version": version(), "rules": [_rule(name) for name in classes]}},
                "invocations": [{"executionSuccessful": verdict["verdict"] != "incomplete"}],
                "results": [_result(finding, classes.index(finding["class"])) for finding in every],
            }
        ],
    }


def as_text(verdict: Mapping[str, Any], file: PurePath) -> str:
    """Text of a report's file: SARIF if its name ends in .sarif, else JSON."""
    return json.dumps(sarif(verdict) if file.suffix == SUFFIX else verdict, indent=2) + "\n"


def _rule(name: str) -> Json:
    known = getattr(errors, name, None)
    text = cleandoc((known and known.__doc__) or name)
    more = f"docs/reference/findings.md#{name.lower()} in the repository of {NAME} has an example and what is checked."
    rule = {"id": name, "name": name, "shortDescription": {"text": text.splitlines()[0]}}
    return rule | {"fullDescription": {"text": text}, "help": {"text": f"{text}\n\n{more}"}}


def _result(finding: Mapping[str, Any], rule: int) -> Json:
    missing = finding.get("missing")
    where = _location(finding.get("source"), finding.get("ptx_line"), finding.get("instruction"))
    result: Json = {
        "ruleId": finding["class"],
        "ruleIndex": rule,
        "level": LEVELS[finding["level"]],
        "message": {"text": finding["message"] + (f"\nmissing: {missing}" if missing else "")},
        "occurrenceCount": max(int(finding["times"]), 1),
        "properties": {key: finding[key] for key in ("ptx_line", "test", "report") if finding.get(key)}
        | {"kernel": kernel_name(finding)},
    }
    if finding["level"] == "known":
        result["suppressions"] = [{"kind": "external"}]
    if where is not None:
        result["locations"] = [where]
    if related := list(_related(finding)):
        result["relatedLocations"] = related
    return result


def _related(finding: Mapping[str, Any]) -> Iterator[Json]:
    """Yield the places of the other accesses that a finding names."""
    for other in finding.get("other_places", ()):
        where = _location(other["source"], other["ptx_line"], other["instruction"])
        if where is not None:
            yield where | {"message": {"text": f"{other['label']}: {other['instruction']}"}}


def _location(source: Mapping[str, Any] | None, ptx_line: int | None, instruction: str | None) -> Json | None:
    """Source line, or a line of the PTX as a logical location; None if neither is known."""
    if source is None:
        if ptx_line is None:
            return None
        return {"logicalLocations": [{"name": f"PTX line {ptx_line}", "decoratedName": instruction or ""}]}
    path = PurePath(source["file"])
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    found: Json = {
        "physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": max(int(source["line"]), 1)}}
    }
    if source.get("function"):
        found["logicalLocations"] = [{"fullyQualifiedName": source["function"], "kind": "function"}]
    return found
