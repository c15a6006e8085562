"""How long things take, beside what was promised: measured on this machine, asserted nowhere."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.record import Record, load
from harness.surroundings import ROOT
from stages.catalog import GATE


@dataclass(frozen=True)
class Timing:
    """Seconds that something took, and the goal for it."""

    name: str
    seconds: float
    goal_s: float


class BenchError(Exception):
    """A run to be timed did not end with ACCEPT."""


def measure() -> Iterator[Timing]:
    """Time the gate milestone on the embedded target: alone, and as `make stage` runs it. Raises BenchError."""
    with tempfile.TemporaryDirectory() as folder:
        alone_s = _time("harness.run", GATE.id, "--device", "emulator", "--target", "sim", "--out", folder)
        record = load(Path(folder))
    yield Timing("compile, slowest configuration", max(each.seconds for each in record.compiles), 5.0)
    yield Timing("launch, slowest", max(_launches(record)), 2.0)
    whole_s = _time("harness", "gate", "--again")
    yield Timing(f"make stage {GATE.id}, whole", whole_s, 25.0)
    yield Timing("of that, candidate, supervision and acceptance", whole_s - alone_s, 2.0)


def _launches(record: Record) -> list[float]:
    return [launch.seconds for case in record.cases for launch in case.launches]


def _time(*module: str) -> float:
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", *module], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"{' '.join(module)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - started
