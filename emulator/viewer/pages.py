"""Pages of a device: each launch is predicted, then recorded, and shown on a page of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..clock.chips import chip
from ..clock.clock import skeleton_of
from ..clock.conditions import USUAL
from ..clock.predict import predict
from ..clock.prediction import Prediction
from ..clock.trace import Trace
from ..errors import EmulatorError
from .page import Shown, page

if TYPE_CHECKING:
    from ..debug.recording import LaunchRecorder, Recording
    from ..machine.execution.scheduler import RunOptions
    from ..machine.launch.launch import Launch
    from ..modules import LoadedKernel

LONGEST: Final = 60
"""Characters of a kernel's name in the name of a file."""
Timed = tuple[Prediction | str, Trace]
"""The prediction of a launch, or the reason why it has none, and the trace of the clock until then."""


class Pages:
    """Writes a page for each launch into a folder. chip: the one whose time is predicted."""

    def __init__(self, folder: Path, chip_name: str, recorder: LaunchRecorder) -> None:
        self._folder, self._chip, self._recorder = folder, chip(chip_name), recorder
        self.written: list[Path] = []

    def run(self, launch: Launch, kernel: LoadedKernel, options: RunOptions) -> Mapping[str, Any]:
        """Predict a launch, run and record it, and write its page if it was recorded."""
        timed = self._predicted(launch, kernel)
        error: EmulatorError | None = None
        try:
            return self._recorder.run(launch, kernel, options)
        except EmulatorError as why:
            error = why
            raise
        finally:
            if self._recorder.last is not None:
                self._write(launch, timed, self._recorder.last, error)

    def _predicted(self, launch: Launch, kernel: LoadedKernel) -> Timed:
        """Predict a launch that has not run yet."""
        trace = Trace()
        try:
            return predict(self._chip, launch, partial(skeleton_of, kernel), trace, USUAL), trace
        except EmulatorError as why:
            return f"no prediction: {str(why).splitlines()[0]}", trace

    def _write(self, launch: Launch, timed: Timed, recording: Recording, error: EmulatorError | None) -> None:
        """Write the page of a launch that has ended. error: the error that ended it early."""
        number = len(self.written) + 1
        name = re.sub(r"\W+", "_", launch.kernel.name)[:LONGEST]
        path = self._folder / f"{number}-{name}.html"
        self._folder.mkdir(parents=True, exist_ok=True)
        path.write_text(page(Shown(number, launch, *timed, recording, error)))
        self.written.append(path)
