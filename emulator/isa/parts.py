"""Reading an instruction's dotted parts so that none is skipped."""

from __future__ import annotations

from typing import overload

from emulator.errors import UnknownInstruction
from emulator.ptx.syntax import Instr


class Modifiers:
    """The modifiers of one instruction, taken one by one; `done` refuses what is left."""

    def __init__(self, instr: Instr) -> None:
        self._instr = instr
        self._left = list(instr.modifiers)

    def flag(self, name: str) -> bool:
        """Whether `.name` is there."""
        if name in self._left:
            self._left.remove(name)
            return True
        return False

    @overload
    def choice(self, *names: str) -> str: ...
    @overload
    def choice(self, *names: str, default: str) -> str: ...
    def choice(self, *names: str, default: str | None = None) -> str:
        """Which of `names` is there; without one, `default`, and without that UnknownInstruction."""
        for part in self._left:
            if part in names:
                self._left.remove(part)
                return part
        if default is None:
            raise self.refuse(f"none of the modifiers {', '.join('.' + name for name in names)}")
        return default

    def last(self) -> str:
        """The last part, which in most families is the type."""
        if not self._left:
            raise self.refuse("no type")
        return self._left.pop()

    def done(self) -> None:
        """Raise UnknownInstruction if a modifier was not taken."""
        if self._left:
            raise self.refuse(f"modifier '.{self._left[0]}'")

    def refuse(self, what: str) -> UnknownInstruction:
        """The error that this form of the instruction is not implemented."""
        return UnknownInstruction(self._instr, what)
