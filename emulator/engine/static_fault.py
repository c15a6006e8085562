"""Faults that analyses find in a kernel's text, reported when a warp executes the instruction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import Fault, place
from ..leniency import Grade
from ..ptx.syntax import Instr


@dataclass(frozen=True)
class StaticFault:
    """A fault of an instruction that does not depend on its operands.

    touched: the last instruction that touched the registers in question, if one did. missing: what the program lacks.
    """

    kind: type[Fault]
    what: str
    instr: Instr
    level: Grade
    touched: Instr | None = None
    missing: str = ""

    def report(self, warp: Any) -> None:
        """Report it, once per launch."""
        launch = warp.cta.launch
        known = launch.registry.setdefault(StaticFault, set())
        if id(self) in known:
            return
        known.add(id(self))
        touched = () if self.touched is None else (("touched at", place(self.touched, warp)),)
        missing = (("missing", self.missing),) if self.missing else ()
        launch.report(self.kind(self.what, self.instr, warp, (*touched, *missing), self.level))
