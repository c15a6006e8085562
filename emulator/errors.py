"""Everything that the emulator refuses or finds wrong, as one tree of exceptions.

EmulatorError
+-- PtxError                 the program's text
|   +-- PtxSyntaxError       not understood at all
|   +-- UnknownInstruction   an opcode, modifier or operand form that is not implemented
+-- LaunchError              a launch that the device would refuse
|   +-- CooperativeLaunchTooLarge  its CTAs are not all there at a time
+-- Fault                    what one warp did wrong: PTX line, warp, address or column, the other party
|   +-- OutOfBounds          outside an allocation, a window or a warp's lane quarter
|   +-- Misaligned           an address that its access does not allow
|   +-- UnwrittenRead        a read of shared or tensor memory that nothing wrote
|   +-- DataRace             two accesses that no barrier, phase or commit orders
|   |   +-- MissingWait      ... because the work of an agent was not waited for
|   |   +-- MissingProxyFence ... because fence.proxy.async is missing between the two proxies
|   +-- BarrierError         an mbarrier or named barrier used against its rules
|   +-- TensorMemoryError    allocation, columns or shape of tensor memory
|   +-- DescriptorError      an instruction, matrix or tensor-map descriptor that says nothing sensible
|   +-- RegisterError        setmaxnreg in the wrong direction
|   +-- CancelError          try_cancel after an answer of no
+-- Stopped                  the launch did not end by itself; str() holds the table of all warps
    +-- Deadlock             no warp can run and nothing can complete
    +-- BudgetExceeded       the instruction budget is spent
    +-- Interrupted          Ctrl-C (a KeyboardInterrupt too)
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .ptx.syntax import Instr


class Culprit(Protocol):
    """The warp that did something wrong, as far as a report tells."""

    @property
    def cta(self) -> CulpritCta:
        """Where it runs."""


class CulpritCta(Protocol):
    """The CTA of a culprit."""

    @property
    def ctaid(self) -> tuple[int, int, int]:
        """Its place in the grid."""

    @property
    def launch(self) -> CulpritLaunch:
        """The launch that it belongs to."""


class CulpritLaunch(Protocol):
    """The launch of a culprit."""

    def source_place(self, instr: Instr) -> object | None:
        """Where an instruction comes from in the program that was compiled; str() of it is shown."""


class Level(IntEnum):
    """How much a fault matters. A launch asks for one level and for those above it in this list.

    FAULT: some legal timing gives a wrong result, a crash or a hang. FORMAL: PTX forbids it, and no known hardware
    shows it. PEDANTIC: a habit that PTX asks for and NVIDIA's own programs do without.
    """

    FAULT = 0
    FORMAL = 1
    PEDANTIC = 2

    def __str__(self) -> str:
        return self.name.lower()


class EmulatorError(Exception):
    """The root: str() of any of these is the full report."""


class PtxError(EmulatorError):
    """The program's text is not what the emulator can run."""


class PtxSyntaxError(PtxError):
    """A line of PTX that is not understood."""

    def __init__(self, reason: str, line: int, text: str) -> None:
        super().__init__(f"PTX line {line}: {reason}\n    {text}")
        self.reason, self.line, self.text = reason, line, text


class UnknownInstruction(PtxError):
    """An instruction, or a modifier or operand form of it, that is not implemented."""

    def __init__(self, instr: Instr, what: str) -> None:
        super().__init__(f"PTX line {instr.line}: not implemented: {what}\n    {instr.text}")
        self.instr, self.what = instr, what

    def locate(self, kernel: str, source: object | None) -> None:
        """Add which kernel it is of, and the source's line if it is known."""
        self.args = (f"{self}\n    in kernel {kernel}" + (f", {source}" if source is not None else ""),)


class Decoding:
    """A context in which whatever an instruction's operands or modifiers lead to is an UnknownInstruction."""

    def __init__(self, instr: Instr) -> None:
        self.instr = instr

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        """Raise UnknownInstruction for what is no report yet."""
        if isinstance(error, Exception) and not isinstance(error, EmulatorError):
            raise UnknownInstruction(
                self.instr, f"this form of {self.instr.opcode} ({type(error).__name__}: {error})"
            ) from error


class LaunchError(EmulatorError):
    """A launch that the device would refuse: the argument, the value seen and what is allowed."""


class CooperativeLaunchTooLarge(LaunchError):
    """A cooperative launch whose CTAs are not all there at a time: CUDA's error 720."""


class Fault(EmulatorError):
    """What one warp did wrong. `lines` are (label, text) pairs printed under the sentence `what`."""

    def __init__(
        self,
        what: str,
        instr: Instr,
        warp: Culprit,
        lines: tuple[tuple[str, str], ...] = (),
        level: Level = Level.FAULT,
    ) -> None:
        self.what, self.instr, self.warp, self.lines, self.level = what, instr, warp, lines, level
        self.times = 1
        """How often its cause was found, where a launch went on."""
        self.line, self.ctaid = instr.line, warp.cta.ctaid
        shown = (("at", place(instr, warp)), ("by", str(warp)), *lines)
        width = max(len(label) for label, _ in shown)
        below = "\n" + " " * (width + 4)
        body = "\n".join(f"  {label:<{width}}  {text.replace(chr(10), below)}" for label, text in shown)
        super().__init__(f"{what}\n{body}")

        self.places = tuple(_source_line(text) for label, text in shown if label.endswith("at"))
        self.missing = "; ".join(text for label, text in lines if label == "missing")

    def same_cause(self, other: Fault) -> bool:
        """Whether one mend would do for both: they are of one kind, and the same is said, or is missing.

        What is missing between certain lines is the same if one of the places is, and that of an mbarrier (a stage of
        a ring has one of its own) if both are.
        """
        if (type(self), self.level) != (type(other), other.level):
            return False
        if (self.what, self.line) == (other.what, other.line):
            return True
        general, said = _WHICH.sub("", self.missing), _WHICH.sub("", other.missing)
        if self.places == other.places:
            return _MBARRIER.sub("", general) == _MBARRIER.sub("", said)
        shared = not set(self.places).isdisjoint(other.places)
        return bool(general) and general == said and (shared or general == self.missing)


_WHICH = re.compile(r"PTX lines? \d+( and \d+)?|warp \d+|CTA \(\d+,\d+,\d+\)|phase \d+|\(which.*|; that warp.*")
_MBARRIER = re.compile(r"mbarrier #\d+ at 0x[0-9a-f]+|\S+ \(mbarrier #\d+ at 0x[0-9a-f]+\)")


def _source_line(text: str) -> str:
    """FILE:LINE of an instruction as place() shows it; its PTX line where the compiler told none."""
    ptx, _, source = text.partition("\n")
    return source.partition(" in ")[0].partition(", called")[0] or ptx.partition(":")[0]


def place(instr: Instr, warp: Culprit) -> str:
    """Where an instruction stands: PTX line, its text made short, and below it the source's line if it is known."""
    text = re.sub(r"\{([^,{}]+),[^{}]*,[^{}]*,([^{}]+)\}", r"{\1, ...,\2}", instr.text.strip())
    return f"PTX line {instr.line}: {text}{source(instr, warp)}"


def source(instr: Instr, warp: Culprit) -> str:
    """The source's line of an instruction as a second line of a report, empty if the compiler told none."""
    found = warp.cta.launch.source_place(instr)
    return "" if found is None else f"\n{found}"


class OutOfBounds(Fault):
    """An access outside an allocation, a window or a warp's lane quarter."""


class Misaligned(Fault):
    """An address that is not a multiple of what its access asks for."""


class UnwrittenRead(Fault):
    """A read of shared or tensor memory that nothing wrote."""


class DataRace(Fault):
    """Two accesses of one cell, one of them a write, that nothing orders."""


class MissingWait(DataRace):
    """The other access is the work of an asynchronous agent that was not waited for."""


class MissingProxyFence(DataRace):
    """The other access is ordered, but no fence.proxy.async stands between the two proxies."""


class BarrierError(Fault):
    """An mbarrier or named barrier used against its rules."""


class TensorMemoryError(Fault):
    """A wrong allocation, column or shape of tensor memory."""


class DescriptorError(Fault):
    """An instruction, matrix or tensor-map descriptor that says nothing sensible."""


class RegisterError(Fault):
    """setmaxnreg.inc to fewer registers than a thread has, or .dec to more."""


class CancelError(Fault):
    """clusterlaunchcontrol.try_cancel by a warp that has read an answer of no."""


class Stopped(EmulatorError):
    """The launch did not end by itself. `table` is one line a warp."""

    def __init__(self, what: str, table: tuple[str, ...]) -> None:
        super().__init__("\n".join((what, *table)))
        self.what, self.table = what, table


class Deadlock(Stopped):
    """No warp can run and nothing can complete."""


class BudgetExceeded(Stopped):
    """The instruction budget is spent."""


class Interrupted(Stopped, KeyboardInterrupt):
    """Ctrl-C during a launch."""
