"""What one run was and what it measured: `record.json`.

It is rewritten whole after every step, so that a killed run keeps what it had.
"""

import math
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from harness.host.files import write_atomically

SCHEMA = 1
RECORD_NAME, REPORT_NAME, PAGE_NAME = "record.json", "report.html", "page.html"

Outcome = Literal["running", "passed", "failed"]


class RecordError(ValueError):
    """A record file that is absent, damaged, or of another schema."""


class Figure(msgspec.Struct, frozen=True):
    """One metric of one tensor beside its pin. `value` is None where it came out as NaN or infinite."""

    tensor: str
    metric: str
    value: float | None
    bound: Literal["at least", "at most"]
    pin: float
    holds: bool

    @property
    def shown(self) -> str:
        """The value for people: seven decimals of a cosine, two digits of an error, more where it only just fails."""
        if self.value is None:
            return "NaN"
        least = (f"{self.value:.{n}f}" if self.bound == "at least" else f"{self.value:.{n - 5}g}" for n in range(7, 18))
        return next((text for text in least if self.holds or not self._reads_as_holding(float(text))), repr(self.value))

    @property
    def distance(self) -> float | None:
        """The error as a part of what the pin admits; None where it admits none."""
        error, admitted = (self.value, self.pin) if self.bound == "at most" else (self._short_of_one, 1 - self.pin)
        if admitted <= 0:
            return None
        return math.inf if error is None else error / admitted

    @property
    def _short_of_one(self) -> float | None:
        return None if self.value is None else 1 - self.value

    def _reads_as_holding(self, value: float) -> bool:
        return value >= self.pin if self.bound == "at least" else value <= self.pin


class Launch(msgspec.Struct, frozen=True):
    """One launch of a case. `mode` is the emulated device's order of completion; a real one has "cuda"."""

    mode: str
    seconds: float
    error: str = ""


class Case(msgspec.Struct):
    """One test of a milestone's module. `figures` are those of the first launch that ended.

    Files beside the record: `picture` shows where the error of a failed one lies, `timeline` the warps and barriers
    over time of the first that ended with an error.
    """

    name: str
    outcome: Outcome
    seconds: float
    seed: int | None = None
    fresh: bool = False
    launches: list[Launch] = []
    figures: list[Figure] = []
    message: str = ""
    picture: str = ""
    timeline: str = ""

    @property
    def label(self) -> str:
        """The name with its seed."""
        fresh = " (fresh)" if self.fresh else ""
        return self.name if self.seed is None else f"{self.name} seed={self.seed}{fresh}"


class NegativeControl(msgspec.Struct, frozen=True):
    """One deliberately wrong output, and the figures that refused it."""

    name: str
    refused: bool
    by: str = ""


class Phase(msgspec.Struct):
    """One step of the run. `seconds` is wall time."""

    name: str
    started: str
    outcome: Outcome = "running"
    seconds: float = 0.0


class Compile(msgspec.Struct, frozen=True):
    """One compiled configuration. The files lie beside the record; `registers` are those of a thread.

    key: the digest of all that it was compiled from, under which it is kept, "" where it is not. found: it had been
    compiled before, in so many seconds.
    """

    name: str
    seconds: float
    files: list[str]
    registers: int = 0
    key: str = ""
    found: bool = False


class Wait(msgspec.Struct, frozen=True):
    """Where a role waits: for which barrier or instruction, at which line; the share of its cycles, and how often."""

    what: str
    where: str
    share: float
    times: float


class Role(msgspec.Struct, frozen=True):
    """Warps that do the same; the share of their cycles in which they run, and where they wait most."""

    name: str
    running: float
    waits: list[Wait]


class Prediction(msgspec.Struct, frozen=True):
    """What the clock says of a case on a chip that nobody asked: cycles of all its launches, at most `most`.

    Of the longest launch: `bound`, the part of the chip that is taken most, or latency; how `busy` each part is; its
    `roles`; `assumptions`, what is not known of the chip; `picture`, a file beside the record: its warps over time.
    """

    case: str
    chip: str
    cycles: float
    seconds: float
    most: float
    bound: str
    busy: dict[str, float]
    roles: list[Role]
    assumptions: list[str]
    picture: str = ""

    @property
    def holds(self) -> bool:
        return self.cycles <= self.most

    def __str__(self) -> str:
        return (
            f"{self.case} on a {self.chip}: {self.cycles:,.0f} cycles (at most {self.most:,.0f}), "
            f"{self.seconds * 1e6:.1f} us, bound by {self.bound}"
        )


class Tree(msgspec.Struct, frozen=True):
    """The state of the working tree: the commit it stands on, and the paths that differ from it."""

    commit: str
    changed: list[str]

    def __str__(self) -> str:
        return f"{self.commit[:10]} + {len(self.changed)} changed" if self.changed else self.commit[:10]


class Record(msgspec.Struct):
    """One run. `verdict` stays empty until the run is judged."""

    run: str
    milestone: str
    target: str
    started: str
    tree: Tree
    toolchain: dict[str, str] = {}
    phases: list[Phase] = []
    compiles: list[Compile] = []
    cases: list[Case] = []
    negative_controls: list[NegativeControl] = msgspec.field(default_factory=list, name="mutants")
    prediction: Prediction | None = None
    verdict: str = ""
    reason: str = ""
    schema: int = SCHEMA

    def distances(self, fresh: bool) -> dict[tuple[str, str], float]:
        """How far each metric came towards its pin, worst case: 0 is exact, 1 is at the pin; infinite for NaN.

        A metric whose pin is exact has no distance. `fresh`: whether the seed that is new in every run counts too.
        """
        found: dict[tuple[str, str], float] = {}
        for figure in (figure for case in self.cases if fresh or not case.fresh for figure in case.figures):
            if (distance := figure.distance) is not None:
                key = figure.tensor, figure.metric
                found[key] = max(found.get(key, 0.0), distance)
        return found

    def worst(self, tensor: str, metric: str) -> float | None:
        """The value of a metric furthest from right over all cases; None where none was measured."""
        figures = [each for case in self.cases for each in case.figures]
        found = [each for each in figures if (each.tensor, each.metric) == (tensor, metric)]
        values = [each.value for each in found if each.value is not None]
        if not values or len(values) < len(found):
            return None
        return min(values) if found[0].bound == "at least" else max(values)

    @property
    def seconds(self) -> float:
        """Wall time of all phases."""
        return sum(phase.seconds for phase in self.phases)

    def save(self, folder: Path) -> None:
        """Write `folder/record.json` atomically."""
        write_atomically(folder / RECORD_NAME, msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")


def load(folder: Path) -> Record:
    """Read `folder/record.json`. Raises RecordError naming the file and what is wrong with it."""
    path = folder / RECORD_NAME
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from error
    try:
        schema = msgspec.json.decode(data, type=dict).get("schema")
        if schema != SCHEMA:
            raise RecordError(f"{path}: schema {schema!r}, this version reads {SCHEMA}")
        return msgspec.json.decode(data, type=Record)
    except msgspec.MsgspecError as error:
        raise RecordError(f"{path}: {error}") from error


def now() -> str:
    """The time in UTC, to the second, as ISO 8601."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def new_run_id(milestone: str) -> str:
    """A name for a run that sorts by time: `20261121-093012-D1.1-ab12cd`."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{milestone}-{secrets.token_hex(3)}"
