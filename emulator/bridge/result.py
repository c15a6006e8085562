"""The result of a launch, and the error of one that did not end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from ..errors import EmulatorError, Fault, Level
from ..html import collapsible, table
from ..machine.launch.launch import Dim3
from ..machine.launch.statistics import Stats

if TYPE_CHECKING:
    from ..clock.prediction import Prediction
    from ..debug.recording import Recording


Word = Literal["clean", "formal", "incomplete", "fault"]
"""The verdict, from the best to the worst.

clean: nothing was found. formal: PTX or a recommended habit is violated, and no known hardware shows it. incomplete: a
launch did not run to its end because of an unsupported feature, the budget or Ctrl-C. fault: some legal timing gives a
wrong result, a crash or a hang, or the device rejects a launch.
"""
WORDS: Final[Mapping[Level, Word]] = {Level.FAULT: "fault", Level.FORMAL: "formal", Level.PEDANTIC: "formal"}


def worst(words: Iterable[Word]) -> Word:
    """Return the worst verdict of several, "clean" of none."""
    return max(words, key=get_args(Word).index, default="clean")


@dataclass(frozen=True)
class LaunchResult:
    """The result of a launch that ran to its end.

    - `grid`, `block`, `cluster`: sizes in CTAs, threads and CTAs.
    - `seconds`: the emulator's running time.
    - `stats`: counts that do not depend on the machine; `emulator.Stats` has their units.
    - `findings`: errors that the launch continued after, one per cause (diagnostics "report"), and formal findings.
    - `ptx`: the launched module.
    - `test`: the test that launched it, under pytest.
    - `prediction`: the predicted time, under a clock. The outputs are then not computed, and stats are empty.
    - `written`: the addresses of the allocations that it wrote.
    - `known`: findings that are in the baseline, or that a comment at their line names.
    """

    kernel: str
    grid: Dim3
    block: Dim3
    cluster: Dim3
    dynamic_shared_bytes: int
    seconds: float
    stats: Stats
    findings: tuple[Fault, ...]
    ptx: str = field(repr=False)
    test: str = ""
    prediction: Prediction | None = None
    recording: Recording | None = field(default=None, repr=False, compare=False)
    """The recording of the launch, if the device records."""
    written: frozenset[int] = field(default=frozenset(), repr=False)
    known: tuple[Fault, ...] = ()

    def blame(self, output: Any, expected: Any = None, element: Sequence[int] | None = None) -> str:
        """Explain an element of an output: the instructions and inputs that made it, as text.

        output: a tensor, or the name of the variable that holds it where the launch was made. expected: what the whole
        output should be. element: an index, default the one with the largest error. Raises ValueError for an
        unknown output, an expected value of another shape, or a launch that was not recorded.
        """
        from ..debug.report import Question, report

        if self.recording is None:
            raise ValueError("the launch was not recorded; call device.record() before it")
        asked = Question(output, expected, None if element is None else tuple(element))
        return "\n".join(report({1: self.recording}, asked))

    @property
    def verdict(self) -> Word:
        """The verdict on this launch: clean, formal or fault. A launch that did not end raised its error."""
        return worst(WORDS[fault.level] for fault in self.findings)

    def _repr_html_(self) -> str:
        """Return the result for a notebook: its configuration, its counts, and each finding below a line."""
        stats = self.stats
        counts = [
            ("warp-instructions", stats.instructions),
            ("tensor core FLOP", stats.mma_flops),
            ("bytes copied in, out", f"{stats.copied_in_bytes:,}, {stats.copied_out_bytes:,}"),
            ("bank conflicts", f"{stats.shared_conflicts:,} of {stats.shared_wavefronts:,} wavefronts"),
        ]
        shape = [("kernel", self.kernel), ("grid, block, cluster", f"{self.grid}, {self.block}, {self.cluster}")]
        if self.prediction is not None:
            return table(shape) + self.prediction._repr_html_()
        found = "".join(collapsible(fault.what, fault._repr_html_()) for fault in self.findings)
        return table([*shape, *counts, ("verdict", self.verdict)]) + found

    @property
    def instructions(self) -> int:
        """Number of warp-instructions executed."""
        return self.stats.instructions

    @property
    def by_warp(self) -> dict[int, int]:
        """Number of warp-instructions by warp index in the CTA, summed over all CTAs."""
        return self.stats.by_warp


@dataclass
class Failure:
    """An error that ended launches, or prevented their start.

    kernel: empty if the error came before a kernel was known. findings: the findings of the first such launch, before
    the error. test: the test that launched it, under pytest. times: the number of launches that ended with this cause.
    """

    error: EmulatorError
    kernel: str = ""
    findings: tuple[Fault, ...] = ()
    test: str = ""
    times: int = 1
