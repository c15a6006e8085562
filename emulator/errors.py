"""Errors of the emulator, as one tree of exceptions.

EmulatorError
+-- PtxError                 the program's text
|   +-- PtxSyntaxError       not valid PTX
|   +-- UnknownInstruction   an opcode, modifier or operand form that is not implemented
+-- AssemblerError           NVIDIA's assembler is missing, or rejects the program
+-- LaunchError              a launch that the device would reject
|   +-- CooperativeLaunchTooLarge  more CTAs than the device can hold at a time
+-- HostFault                an error around the launches
|   +-- StreamRace           operations of streams or of the host that no event or synchronisation orders
|   +-- UseAfterFree         a copy, fill, free or graph's operator of freed memory
+-- Fault                    an error of one warp: PTX line, warp, address or column, the conflicting warp
|   +-- OutOfBounds          outside an allocation, a window or a warp's lane quarter
|   +-- Misaligned           an address that is not a multiple of the required alignment
|   +-- UnwrittenRead        a read of shared or tensor memory that nothing wrote
|   +-- DataRace             two accesses that no barrier, phase or commit orders
|   |   +-- MissingWait      ... because nothing waited for asynchronous work
|   |   +-- MissingProxyFence ... because fence.proxy.async is missing between the two proxies
|   +-- BarrierError         an mbarrier or named barrier used against its rules
|   +-- TensorMemoryError    allocation, columns or shape of tensor memory
|   +-- DescriptorError      an invalid instruction, matrix or tensor-map descriptor
|   +-- RegisterError        setmaxnreg in the wrong direction
|   +-- CancelError          try_cancel after a negative answer was read
|   +-- CollectorError       a collector buffer of the tensor core that does not hold the operand
+-- Stopped                  the launch did not end by itself; str() holds the table of all warps
    +-- Deadlock             no warp can run and nothing can complete
    +-- BudgetExceeded       the instruction budget is spent
    +-- Interrupted          Ctrl-C (a KeyboardInterrupt too)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Protocol

from .html import preformatted
from .leniency import Grade, Leniency
from .leniency import Level as Level
from .ptx.syntax import Instr


class Culprit(Protocol):
    """The warp that a fault is attributed to."""

    @property
    def cta(self) -> CulpritCta:
        """The CTA of the warp."""


class CulpritCta(Protocol):
    """The CTA of a culprit."""

    @property
    def ctaid(self) -> tuple[int, int, int]:
        """The index of the CTA in the grid."""

    @property
    def launch(self) -> CulpritLaunch:
        """The launch of the CTA."""


class CulpritLaunch(Protocol):
    """The launch of a culprit."""

    def source_place(self, instr: Instr) -> object | None:
        """Return the source location of an instruction, shown by its str(); None if unknown."""


class EmulatorError(Exception):
    """The root of all errors. str() of an error is the full report."""


class PtxError(EmulatorError):
    """PTX that the emulator cannot run."""


class PtxSyntaxError(PtxError):
    """A line that is not valid PTX."""

    def __init__(self, reason: str, line: int, text: str) -> None:
        super().__init__(f"PTX line {line}: {reason}\n    {text}")
        self.reason, self.line, self.text = reason, line, text


class UnknownInstruction(PtxError):
    """An instruction, modifier or operand form that is not implemented."""

    def __init__(self, instr: Instr, what: str) -> None:
        super().__init__(f"PTX line {instr.line}: not implemented: {what}\n    {instr.text}")
        self.instr, self.what = instr, what

    def locate(self, kernel: str, source: object | None) -> None:
        """Add the kernel's name and, if known, the source line to the message."""
        self.args = (f"{self}\n    in kernel {kernel}" + (f", {source}" if source is not None else ""),)


class Decoding:
    """A context that turns unexpected exceptions from decoding or executing an instruction into UnknownInstruction."""

    def __init__(self, instr: Instr) -> None:
        self.instr = instr

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        """Raise UnknownInstruction for an exception that is not a report yet."""
        if isinstance(error, Exception) and not isinstance(error, EmulatorError):
            raise UnknownInstruction(
                self.instr, f"this form of {self.instr.opcode} ({type(error).__name__}: {error})"
            ) from error


class AssemblerError(EmulatorError):
    """NVIDIA's assembler is missing or rejects the PTX."""


class LaunchError(EmulatorError):
    """A launch that the device would reject. The message has the argument, its value and the allowed values."""


class CooperativeLaunchTooLarge(LaunchError):
    """A cooperative launch of more CTAs than the device can hold at a time: CUDA's error 720."""


class HostFault(EmulatorError):
    """An error around the launches. `lines` are (label, text) pairs printed under the sentence `what`."""

    def __init__(self, what: str, lines: Iterable[tuple[str, str]]) -> None:
        super().__init__("\n".join((what, *_table(lines))))


class StreamRace(HostFault):
    """Two operations of streams or of the host on the same bytes, one of them a write, that nothing orders."""


class UseAfterFree(HostFault):
    """A copy, a fill, a free, or an operator of a graph, of memory that was freed."""


class Fault(EmulatorError):
    """An error of one warp. `lines` are (label, text) pairs printed under the sentence `what`.

    level: its level, or the rule that puts it below `fault`.
    """

    def __init__(
        self,
        what: str,
        instr: Instr,
        warp: Culprit,
        lines: tuple[tuple[str, str], ...] = (),
        level: Grade = Level.FAULT,
    ) -> None:
        self.what, self.instr, self.warp, self.lines = what, instr, warp, lines
        self.grade(level)
        self.times = 1
        """The number of findings with this cause, if the launch continued."""
        self.between_lanes = False
        """True for a race between lanes of one warp."""
        self.line, self.ctaid = instr.line, warp.cta.ctaid
        shown = (("at", place(instr, warp)), ("by", str(warp)), *lines)
        super().__init__("\n".join((what, *_table(shown))))

        self.places = tuple(_source_line(text) for label, text in shown if label.endswith("at"))
        self.missing = "; ".join(text for label, text in lines if label == "missing")

    def grade(self, level: Grade) -> None:
        """Set the level, or the rule that puts the fault below `fault`."""
        self.rule = level if isinstance(level, Leniency) else None
        """The rule, None at level `fault`."""
        self.level = level.level if isinstance(level, Leniency) else level

    def followed(self, *way: tuple[str, str]) -> Fault:
        """Return the fault with more lines."""
        fault = type(self)(self.what, self.instr, self.warp, (*self.lines, *way))
        fault.between_lanes = self.between_lanes
        return fault

    def explains(self, other: Fault) -> bool:
        """Return whether this is the race across warps that `other` is between lanes: a barrier orders both."""
        return other.between_lanes and not self.between_lanes and set(self.places[:2]) == set(other.places[:2])

    def _repr_html_(self) -> str:
        """Return the report for a notebook."""
        return preformatted(f"{type(self).__name__}: {self}")

    def same_cause(self, other: Fault) -> bool:
        """Return whether one fix would probably remove both faults.

        They must be of one type and level. They have one cause if they say the same about the same line, or if the same
        is missing at the same places. What is missing between other lines is the same if they share a place; mbarriers
        are interchangeable (stages of a ring have one each) if both places are the same.
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


def _table(lines: Iterable[tuple[str, str]]) -> list[str]:
    """Return the lines of a report below its first: a label and a text of one or more lines each."""
    shown = list(lines)
    width = max(len(label) for label, _ in shown)
    below = "\n" + " " * (width + 4)
    return [f"  {label:<{width}}  {text.replace(chr(10), below)}" for label, text in shown]


def same_cause(one: BaseException, other: BaseException) -> bool:
    """Return whether one fix would probably remove both errors."""
    if isinstance(one, Fault) and isinstance(other, Fault):
        return one.same_cause(other)
    return (type(one), str(one)) == (type(other), str(other))


_WHICH = re.compile(
    r"PTX lines? \d+( and \d+)?|warp \d+|CTA \(\d+,\d+,\d+\)|phase \d+|\(which.*|; (that warp|barrier \d).*"
)
_MBARRIER = re.compile(r"mbarrier #\d+ at 0x[0-9a-f]+|\S+ \(mbarrier #\d+ at 0x[0-9a-f]+\)")


def _source_line(text: str) -> str:
    """Return FILE:LINE from the text of `place`, or its PTX line if the source is unknown."""
    ptx, _, source = text.partition("\n")
    return source.partition(" in ")[0].partition(", called")[0] or ptx.partition(":")[0]


def place(instr: Instr, warp: Culprit) -> str:
    """Describe an instruction: its PTX line, its shortened text and, below it, the source line if known."""
    return place_in(instr, warp.cta.launch.source_place(instr))


def place_in(instr: Instr, found: object | None) -> str:
    """Describe an instruction whose source location is known, or None."""
    text = re.sub(r"\{([^,{}]+),[^{}]*,[^{}]*,([^{}]+)\}", r"{\1, ...,\2}", instr.text.strip())
    return f"PTX line {instr.line}: {text}" + ("" if found is None else f"\n{found}")


def source(instr: Instr, warp: Culprit) -> str:
    """Return the source line of an instruction as a second line of a report, or an empty string."""
    found = warp.cta.launch.source_place(instr)
    return "" if found is None else f"\n{found}"


class OutOfBounds(Fault):
    """An access outside an allocation, a window or a warp's lane quarter."""


class Misaligned(Fault):
    """An address that is not a multiple of the alignment that its access requires."""


class UnwrittenRead(Fault):
    """A read of shared or tensor memory that nothing wrote."""


class DataRace(Fault):
    """Two accesses of one cell, one of them a write, that nothing orders."""


class MissingWait(DataRace):
    """A race with asynchronous work that was not waited for."""


class MissingProxyFence(DataRace):
    """A race in which only fence.proxy.async is missing between accesses through the two proxies."""


class BarrierError(Fault):
    """An mbarrier or named barrier used against its rules."""


class TensorMemoryError(Fault):
    """A wrong allocation, column or shape of tensor memory."""


class DescriptorError(Fault):
    """An invalid instruction, matrix or tensor-map descriptor."""


class RegisterError(Fault):
    """setmaxnreg.inc to fewer registers than a thread has, or .dec to more."""


class CancelError(Fault):
    """clusterlaunchcontrol.try_cancel by a warp that has read a negative answer."""


class CollectorError(Fault):
    """A tcgen05.mma that reads a collector buffer which does not hold its operand."""


class Stopped(EmulatorError):
    """A launch that did not end by itself. `table` has one line per warp; `at` is where the first waiting warp is."""

    def __init__(self, what: str, table: tuple[str, ...], at: tuple[Instr, Any] | None = None) -> None:
        super().__init__("\n".join((what, *table)))
        self.what, self.table, self.at = what, table, at


class Deadlock(Stopped):
    """No warp can run and nothing can complete."""


class BudgetExceeded(Stopped):
    """The instruction budget is spent."""


class Incomplete(Stopped):
    """Not every order of a launch was run, see completion "all". The launch itself ran to its end."""


class Interrupted(Stopped, KeyboardInterrupt):
    """Ctrl-C during a launch."""
