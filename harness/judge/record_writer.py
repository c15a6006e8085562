"""Writing of a run's record. Every result is on disk before the next case starts."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from harness.host.files import write_atomically
from harness.host.journal import printable
from harness.host.verdict import Verdict
from harness.report import record

if TYPE_CHECKING:
    from stages.check import Figure
    from stages.verify import Result, Trial

TIMELINE = "timeline.png"


class RecordWriter:
    """Keeps `folder/record.json` up to date while phases and cases run."""

    def __init__(self, folder: Path, opened: record.Record, fresh_seed: int) -> None:
        self.folder = folder
        self.record = opened
        self.fresh_seed = fresh_seed
        self.last_result: Result | None = None
        self.launched: dict[str, Trial] = {}
        """The first launch of each case with the fresh seed."""
        self.unguarded: dict[str, Mapping[str, int]] = {}
        """The work of the last one, by a call without buffers for its results."""
        self._save()

    @contextmanager
    def phase(self, name: str) -> Iterator[record.Phase]:
        """Record a phase as running while the body runs; the supervisor reads this to limit its time."""
        phase = record.Phase(name, record.now())
        self.record.phases.append(phase)
        self._save()
        started = time.perf_counter()
        try:
            yield phase
        except BaseException:
            phase.outcome = "failed"
            raise
        finally:
            if phase.outcome == "running":
                phase.outcome = "passed"
            phase.seconds = time.perf_counter() - started
            phase.load = os.getloadavg()[0] / (os.cpu_count() or 1)
            self._save()

    def compiled(self, what: record.Compile, texts: list[str]) -> None:
        """Record a compiled configuration, and write its files next to the record."""
        for file, text in zip(what.files, texts, strict=True):
            write_atomically(self.folder / file, text.encode())
        self.record.compiles.append(what)
        self._save()

    def open_case(self, name: str, seed: int | None) -> None:
        """Record the start of a case, so that the record shows where a killed process was."""
        self.last_result = None
        fresh = seed is not None and seed == self.fresh_seed
        self.record.cases.append(record.Case(name, "running", 0.0, seed, fresh))
        self._save()

    def result(self, result: Result) -> None:
        """Record the launches and figures of the open case."""
        self.last_result = result
        case = self.record.cases[-1]
        case.launches = [record.Launch(t.mode, t.seconds, printable(str(t.error or ""))) for t in result.trials]
        case.figures = [_figure(each) for each in result.figures]
        if case.fresh and result.trials:
            self.launched[case.name], self.unguarded[case.name] = result.trials[0], result.trials[-1].work
        self._save()

    def negative_control(self, name: str, rejected_by: tuple[Figure, ...]) -> None:
        """Record a negative control, and the figures that rejected it. It is written at the end of its case."""
        by = ", ".join(f"{figure.tensor}.{figure.metric}" for figure in rejected_by)
        self.record.negative_controls.append(record.NegativeControl(name, bool(rejected_by), by))

    def close_case(self, passed: bool, seconds: float, message: str, picture: bytes, timeline: bytes = b"") -> None:
        """Record the end of the open case. It fails if its teardown fails. Pictures are PNGs, or b""."""
        case = self.record.cases[-1]
        if timeline:
            case.timeline = f"timeline-{len(self.record.cases)}.png"
            write_atomically(self.folder / case.timeline, timeline)
        if picture:
            case.picture = f"errors-{len(self.record.cases)}.png"
            write_atomically(self.folder / case.picture, picture)
        case.outcome, case.seconds, case.message = "passed" if passed else "failed", seconds, printable(message)
        self._save()

    def predicted(self, prediction: record.Prediction, picture: bytes) -> None:
        """Record the clock's prediction of the first case, and write its picture (PNG) next to the record."""
        write_atomically(self.folder / TIMELINE, picture)
        self.record.prediction = msgspec.structs.replace(prediction, picture=TIMELINE)
        self.record.cycles[prediction.case] = prediction.cycles
        self._save()

    def cycles(self, case: str, predictions: Iterable[Any]) -> None:
        """Record the predicted cycles of the launches of a case."""
        self.record.cycles[case] = sum(each.cycles for each in predictions)

    def finish(self, verdict: Verdict, reason: str) -> None:
        """Record the verdict."""
        self.record.verdict, self.record.reason = verdict.name, printable(reason)
        self._save()

    def _save(self) -> None:
        self.record.save(self.folder)


def _figure(figure: Figure) -> record.Figure:
    value = figure.value if math.isfinite(figure.value) else None
    return record.Figure(figure.tensor, figure.metric, value, figure.bound, figure.pin, figure.holds)
