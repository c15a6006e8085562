"""Everything that the emulator refuses or finds wrong, as one tree of exceptions.

EmulatorError
+-- PtxError                 the program's text
    +-- PtxSyntaxError       not understood at all
    +-- UnknownInstruction   an opcode, modifier or operand form that is not implemented
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.ptx.syntax import Instr


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
