"""How a run ends: the verdicts, whose fault each is, and the exit code by which a script tells them apart."""

from __future__ import annotations

from enum import Enum

#: Exit code of a command that refused its input (a sentence with the mend was printed, nothing was run).
EXIT_BAD_INPUT = 2


class Fault(Enum):
    """Who has to act."""

    NOBODY = "nobody"
    CHANGE = "the change"
    LOOK = "look"
    MACHINE = "the machine"


class Verdict(Enum):
    """A verdict: `meaning` in words, `fault`, and the process `exit_code` (0 only for ACCEPT)."""

    ACCEPT = (0, Fault.NOBODY, "gate and stage hold")
    REJECT_GATE = (10, Fault.CHANGE, "the hd=64 gate fell: the change is wrong")
    REJECT_STAGE = (11, Fault.CHANGE, "the gate holds, the stage does not")
    COMPILE_ERROR = (12, Fault.CHANGE, "the compiler refused the kernel")
    COMPILE_HANG = (13, Fault.CHANGE, "the compiler passed its budget and was ended")
    GPU_HANG = (14, Fault.CHANGE, "a kernel did not end in its budget and was ended")
    TAMPERED = (20, Fault.LOOK, "a hash, tree or fingerprint is not what was pinned")
    INFRA = (30, Fault.MACHINE, "host, disk, driver, network or lock failed")
    UNKNOWN = (40, Fault.NOBODY, "no verdict file was seen")
    CANCELLED = (41, Fault.NOBODY, "a person ended the run before it had a verdict")
    STALE = (42, Fault.NOBODY, "`accepted` moved after the candidate was made: to be tested on the new one")

    def __init__(self, exit_code: int, fault: Fault, meaning: str) -> None:
        self.exit_code = exit_code
        self.fault = fault
        self.meaning = meaning

    @property
    def rejects(self) -> bool:
        """True where the change itself is refused; only a verdict file bound to its commit may say so."""
        return self.fault is Fault.CHANGE
