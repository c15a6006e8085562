"""Runs of the corpus on the emulated device."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, get_args

import numpy as np

from emulator import Verdict, emulate, launch
from emulator.errors import EmulatorError
from emulator.machine.launch.launch import LevelName
from emulator.machine.order.completion import Completion

from .programs import HERE, PROGRAMS, text

MODES: Final[tuple[Completion, ...]] = get_args(Completion)


@dataclass(frozen=True)
class Bug:
    """An entry of bugs.toml. name: the one after @bug in its program. modes: completion modes that have to find it."""

    program: str
    name: str
    level: str
    reports: tuple[str, ...]
    what: str
    seen: str
    tools: str
    modes: tuple[Completion, ...] = MODES


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: verdict, whether it is clean with the expected output, and the first finding's report."""

    word: str
    right: bool
    report: str


def bugs() -> list[Bug]:
    """Return the bugs of bugs.toml."""
    entries = tomllib.loads((HERE / "bugs.toml").read_text())["bug"]
    return [
        Bug(**{**entry, "reports": tuple(entry["reports"]), "modes": tuple(entry.get("modes", MODES)), "name": name})
        for entry in entries
        if (name := entry.pop("bug"))
    ]


def run(program: str, bug: str | None, completion: Completion, level: LevelName = "fault") -> Outcome:
    """Run a program of the corpus, with a bug or without."""
    what = PROGRAMS[program]
    inputs = what.inputs()
    expected = np.ascontiguousarray(what.expected(inputs))
    out, cluster = np.zeros_like(expected), what.ctas if what.cluster else None
    with emulate(completion=completion, level=level, processes=1) as device, suppress(EmulatorError):  # which it keeps
        launch(text(program, bug), None, [*inputs, out], grid=what.ctas, block=what.threads, cluster=cluster)
    verdict = Verdict.of(device)
    report = str(verdict.findings[0].error) if verdict.findings else ""
    return Outcome(verdict.word, verdict.word == "clean" and np.array_equal(out, expected), report)
