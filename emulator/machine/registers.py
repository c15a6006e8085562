"""The registers that a CTA's warps share by setmaxnreg: PTX ISA 9.1, 9.7.20.5."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emulator.machine.warp import LANES, Wait

if TYPE_CHECKING:
    from emulator.machine.cta import Cta
    from emulator.machine.warp import Warp
    from emulator.ptx.syntax import Instr

FILE: Final = 64 * 1024
MOST: Final = 255
STEP: Final = 8


class RegisterPool:
    """Registers a thread of each warp, and those of the CTA that no warp has.

    A CTA starts with what the compiler may give it: .maxnreg, or the register file over its threads.
    """

    def __init__(self, cta: Cta) -> None:
        kernel = cta.launch.kernel
        share = FILE // (cta.launch.warps * LANES) // STEP * STEP
        self.start = kernel.maxnreg or min(share, MOST // STEP * STEP)
        self.cta = cta
        self.free = 0
        self.of: dict[int, int] = {}
        self.waiters: list[Warp] = []

    def set(self, warp: Warp, count: int, instr: Instr) -> bool:
        """Give a warp `count` registers a thread; False if it must wait until others give some back."""
        have = self.of.get(warp.index, self.start)
        need = (count - have) * LANES
        if need > self.free:
            self.waiters.append(warp)
            warp.waiting = Wait(instr, (self,), lambda: self._lacking(need, count))
            return False
        self.of[warp.index] = count
        self.free -= need
        if need < 0:
            waiters, self.waiters = self.waiters, []
            self.cta.cluster.wake(waiters)
        return True

    def _lacking(self, need: int, count: int) -> str:
        held = ", ".join(f"warp {w.index} {self.of.get(w.index, self.start)}" for w in self.cta.warps)
        return f"{need} registers for {count} a thread, {self.free} of the CTA's are free; a thread has in {held}"
