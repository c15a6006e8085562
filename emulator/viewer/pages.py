"""Pages of a device: each launch is predicted, then recorded, and shown on a page of its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..clock.chips import Chip
from ..clock.conditions import USUAL
from ..clock.predict import Skeletons, predict
from ..clock.prediction import Prediction
from ..clock.trace import Recorder as Trace
from ..errors import EmulatorError
from .page import Shown, page

if TYPE_CHECKING:
    from ..debug.recording import Recording
    from ..machine.launch.launch import Launch

LONGEST: Final = 60
"""Characters of a kernel's name in the name of a file."""
Timed = tuple[Prediction | str, Trace]
"""The prediction of a launch, or why it has none, and what happened under the clock, perhaps until that."""


class Pages:
    """Writes a page for each launch into a folder. chip: the one whose time is predicted."""

    def __init__(self, folder: Path, chip: Chip) -> None:
        self._folder, self._chip = folder, chip
        self.written: list[Path] = []

    def predicted(self, launch: Launch, skeletons: Skeletons) -> Timed:
        """Predict a launch that has not run yet. skeletons: that of its kernel, for a chip."""
        trace = Trace()
        try:
            return predict(self._chip, launch, skeletons, trace, USUAL), trace
        except EmulatorError as why:
            return f"no prediction: {str(why).splitlines()[0]}", trace

    def write(self, launch: Launch, timed: Timed, recording: Recording, error: EmulatorError | None) -> None:
        """Write the page of a launch that has ended. error: what ended it early."""
        number = len(self.written) + 1
        name = re.sub(r"\W+", "_", launch.kernel.name)[:LONGEST]
        path = self._folder / f"{number}-{name}.html"
        self._folder.mkdir(parents=True, exist_ok=True)
        path.write_text(page(Shown(number, launch, *timed, recording, error)))
        self.written.append(path)
