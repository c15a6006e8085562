"""The record of a run, `record.json`: its inputs, figures and verdict.

It is rewritten after every step, so that a killed run keeps its results.
"""

import math
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from harness.host.files import open_plain, write_atomically

SCHEMA = 1
RECORD_NAME, REPORT_NAME, PAGE_NAME = "record.json", "report.html", "page.html"

#: The folder of recordings, in that of the record.
RECORDINGS = "recordings"
#: Formats of figures in tables; others have two digits.
FORMS = {"cosine": ".7f", "z": ".1f"}
Outcome = Literal["running", "passed", "failed"]
#: Accepted records contain statements of the candidate's process about itself, so a reader checks them.
Printable = Annotated[str, msgspec.Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f\u200b-\u202e\u2066-\u2069]*\Z", max_length=240)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Load = Annotated[float, msgspec.Meta(ge=0, le=1e4)]


class RecordError(ValueError):
    """A record file is missing, damaged, or of another schema."""


class Figure(msgspec.Struct, frozen=True):
    """One metric of one tensor, and its pin. `value` is None if it is NaN or infinite."""

    tensor: str
    metric: str
    value: float | None
    bound: Literal["at least", "at most", "within"]
    pin: float
    holds: bool

    @property
    def shown(self) -> str:
        """The value as text: seven decimals of a cosine, two digits of an error, more if they show a failure."""
        if self.value is None:
            return "NaN"
        least = (f"{self.value:.{n}f}" if self.bound == "at least" else f"{self.value:.{n - 5}g}" for n in range(7, 18))
        return next((text for text in least if self.holds or not self._reads_as_holding(float(text))), repr(self.value))

    @property
    def distance(self) -> float | None:
        """The error as a fraction of the largest one that the pin allows; None if the pin allows none."""
        error, admitted = (self._short_of_one, 1 - self.pin) if self.bound == "at least" else (self._size, self.pin)
        if admitted <= 0:
            return None
        return math.inf if error is None else error / admitted

    @property
    def _short_of_one(self) -> float | None:
        return None if self.value is None else 1 - self.value

    @property
    def _size(self) -> float | None:
        return None if self.value is None else abs(self.value)

    def _reads_as_holding(self, value: float) -> bool:
        return value >= self.pin if self.bound == "at least" else abs(value) <= self.pin


class Launch(msgspec.Struct, frozen=True):
    """One launch of a case. `mode` is the completion mode of the emulated device, or "cuda"."""

    mode: str
    seconds: float
    error: str = ""


class Case(msgspec.Struct):
    """One test of a milestone's module. `figures` are those of the first launch that completed.

    `picture` and `timeline` are files in the record's folder. The first is a map of the error: a failed case has one,
    and the first seed of each of the milestone's cases. The second shows warps and barriers over time: the first case
    that the emulator stopped has one.
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
    """A deliberately wrong output, and the figures by which it was rejected."""

    name: str
    refused: bool
    by: str = ""


class Phase(msgspec.Struct):
    """One step of the run. `seconds` is wall time; `load` is the machine's at its end, in runnable threads per core."""

    name: Printable
    started: Printable
    outcome: Outcome = "running"
    seconds: Seconds = 0.0
    load: Load | None = None


class Compile(msgspec.Struct, frozen=True):
    """One compiled configuration. `files` are in the record's folder; `registers` is the count per thread.

    `key` is the configuration's key in the cache ("": not cached). `found` is set if it came from the cache; `seconds`
    is then the time of the original compile.
    """

    name: Printable
    seconds: Seconds
    files: list[Printable]
    registers: Annotated[int, msgspec.Meta(ge=0, le=255)] = 0
    key: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]*\Z", max_length=64)] = ""
    found: bool = False


class Wait(msgspec.Struct, frozen=True):
    """A wait of a role: for which barrier or instruction, at which line, the share of its cycles, and how often."""

    what: str
    where: str
    share: float
    times: float


class Role(msgspec.Struct, frozen=True):
    """Warps with the same role: the share of their cycles in which they run, and their longest waits."""

    name: str
    running: float
    waits: list[Wait]


class LineTime(msgspec.Struct, frozen=True):
    """A source line: its place, its text, and the share of all warps' time that they spend in it."""

    where: str
    text: str
    share: float


class Prediction(msgspec.Struct, frozen=True):
    """The clock's prediction of a case on a chip: `cycles` of all its launches; `most` is their pin.

    The rest is about the longest launch. `bound` is the busiest part of the chip, or latency; `busy` has the share of
    time of each part; `assumptions` lists what is not known about the chip; `picture` is a file in the record's folder
    that shows the warps over time; `lines` has the lines that take most time.
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
    lines: list[LineTime] = []

    @property
    def holds(self) -> bool:
        return self.cycles <= self.most

    def __str__(self) -> str:
        return (
            f"{self.case} on the {self.chip}: {self.cycles:,.0f} cycles (at most {self.most:,.0f}), "
            f"{self.seconds * 1e6:.1f} us, bound by {self.bound}"
        )


class Tree(msgspec.Struct, frozen=True):
    """The state of a working tree: its commit, and the paths that differ from it."""

    commit: str
    changed: list[str]

    def __str__(self) -> str:
        return f"{self.commit[:10]} + {len(self.changed)} changed" if self.changed else self.commit[:10]


class Record(msgspec.Struct):
    """One run of a milestone. `verdict` is "" until the run is judged. cycles: predicted, by case; most_cycles: pins.

    proven: the features that the PTX and launches of each case show. not_asked: those of others, each with the reason.
    """

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
    cycles: dict[str, float] = {}
    most_cycles: dict[str, float] = {}
    proven: dict[str, list[str]] = {}
    not_asked: dict[str, str] = {}
    verdict: str = ""
    reason: str = ""
    schema: int = SCHEMA

    def distances(self, fresh: bool) -> dict[tuple[str, str], float]:
        """Return the largest error of each metric as a fraction of its pin: 0 is exact, 1 is at the pin, inf is NaN.

        Metrics that allow no error are omitted. `fresh` includes the seed that is new in every run.
        """
        found: dict[tuple[str, str], float] = {}
        for figure in (figure for case in self.cases if fresh or not case.fresh for figure in case.figures):
            if (distance := figure.distance) is not None:
                key = figure.tensor, figure.metric
                found[key] = max(found.get(key, 0.0), distance)
        return found

    def worst(self, tensor: str, metric: str) -> float | None:
        """Return the worst value of a metric over all cases; None if it was not measured, or is NaN in one of them."""
        figures = [each for case in self.cases for each in case.figures]
        found = [each for each in figures if (each.tensor, each.metric) == (tensor, metric)]
        values = [each.value for each in found if each.value is not None]
        if not values or len(values) < len(found):
            return None
        return min(values) if found[0].bound == "at least" else max(values, key=abs)

    def added_up(self) -> dict[tuple[str, str], float]:
        """Return z_factor of each case and tensor, added up over the seeds: the sum over the root of their number."""
        found: dict[tuple[str, str], list[float]] = {}
        for case in self.cases:
            for each in case.figures:
                if each.metric == "z_factor" and each.value is not None:
                    found.setdefault((case.name, each.tensor), []).append(each.value)
        return {key: sum(values) / math.sqrt(len(values)) for key, values in found.items()}

    def worst_shown(self, tensor: str, metric: str) -> str:
        """Return the worst value of a metric as text: seven decimals of a cosine, one of z, two digits of an error."""
        value = self.worst(tensor, metric)
        return "-" if value is None else f"{value:{FORMS.get(metric, '.1e')}}"

    @property
    def proven_shown(self) -> str:
        """The features that PTX and launches show, each with its number of cases, and those that were not required."""
        counts = Counter(feature for features in self.proven.values() for feature in features)
        found = [f"{feature} ({count})" for feature, count in counts.items()]
        return ", ".join([*found, *(f"not {feature}: {reason}" for feature, reason in self.not_asked.items())])

    @property
    def untimed(self) -> list[str]:
        """Names of the milestone's cases for which there was no time to predict cycles; [] if none were predicted.

        Cases of other milestones are launched for the fresh seed only.
        """
        launched = dict.fromkeys(case.name for case in self.cases if case.seed is not None and not case.fresh)
        return [name for name in launched if name not in self.cycles] if self.prediction else []

    @property
    def unpinned(self) -> list[str]:
        """Names of the cases whose predicted cycles have no pin; [] if no pin was read."""
        return [name for name in self.cycles if name not in self.most_cycles] if self.most_cycles else []

    @property
    def cycles_shown(self) -> str:
        """The predicted cycles of the first case as text, or "-"."""
        return f"{self.prediction.cycles:,.0f}" if self.prediction else "-"

    @property
    def seconds(self) -> float:
        """The wall time of all phases."""
        return sum(phase.seconds for phase in self.phases)

    def save(self, folder: Path) -> None:
        """Write `folder/record.json` atomically."""
        write_atomically(folder / RECORD_NAME, msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")


def load(folder: Path) -> Record:
    """Read `folder/record.json`. Raises RecordError with the file and the reason."""
    path = folder / RECORD_NAME
    try:
        with open_plain(path) as stream:
            data = stream.read()
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from error
    try:
        schema = msgspec.json.decode(data, type=dict).get("schema")
        if schema != SCHEMA:
            raise RecordError(f"{path}: schema {schema!r}, this version reads {SCHEMA}")
        return msgspec.json.decode(data, type=Record)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RecordError(f"{path}: {error}") from error


def load_all(folder: Path, milestones: Iterable[str]) -> Iterator[tuple[str, Record]]:
    """Yield the readable records of a run with their folders: the gate first; "." is that of a single milestone."""
    for name in ("gate", *milestones, "."):
        with suppress(RecordError):
            yield name, load(folder / name)


def now() -> str:
    """Return the time in UTC, to the second, in ISO 8601."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def new_run_id(milestone: str) -> str:
    """Return a new run id, which sorts by time: `20261121-093012-D1.1-ab12cd`."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{milestone}-{secrets.token_hex(3)}"
