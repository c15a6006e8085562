"""The verdicts of a run, with the fault and the exit code of each."""

from __future__ import annotations

from enum import Enum

#: Exit code for invalid input. The command printed how to fix it, and ran nothing.
EXIT_BAD_INPUT = 2


class Fault(Enum):
    """The party that has to act."""

    NOBODY = "nobody"
    CHANGE = "the change"
    LOOK = "look"
    MACHINE = "the machine"


class Verdict(Enum):
    """A verdict, with its `meaning` in words, its `fault`, and its process `exit_code` (0 only for ACCEPT)."""

    ACCEPT = (0, Fault.NOBODY, "gate and stage hold")
    REJECT_GATE = (10, Fault.CHANGE, "the hd=64 gate does not hold")
    REJECT_STAGE = (11, Fault.CHANGE, "the gate holds, the stage does not")
    COMPILE_ERROR = (12, Fault.CHANGE, "the compiler rejected the kernel")
    COMPILE_HANG = (13, Fault.CHANGE, "the compiler exceeded its time budget and was killed")
    GPU_HANG = (14, Fault.CHANGE, "a kernel exceeded its time budget and was killed")
    TAMPERED = (20, Fault.LOOK, "a hash, tree or fingerprint differs from what was pinned")
    PIN = (21, Fault.LOOK, "the accepted kernel exceeds a bound of the error model, too")
    INFRA = (30, Fault.MACHINE, "host, disk, driver, network or lock failed")
    UNKNOWN = (40, Fault.NOBODY, "no verdict file was seen")
    CANCELLED = (41, Fault.NOBODY, "somebody ended the run before it had a verdict")
    STALE = (42, Fault.NOBODY, "`accepted` moved after the candidate was made: test the change on the new one")

    def __init__(self, exit_code: int, fault: Fault, meaning: str) -> None:
        self.exit_code = exit_code
        self.fault = fault
        self.meaning = meaning

    @property
    def rejects(self) -> bool:
        """True if the verdict rejects the change itself. Only a verdict file bound to its commit may do so."""
        return self.fault is Fault.CHANGE
