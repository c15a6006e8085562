"""The pool of registers that the warps of a CTA share by setmaxnreg: PTX ISA 9.1, 9.7.20.5."""

from __future__ import annotations

from ...chip import LANES, MAX_REGISTERS_A_THREAD, REGISTER_STEP, REGISTERS_AN_SM
from ...errors import RegisterError
from ...leniency import Leniency
from ...ptx.syntax import Instr
from ..order.access import Issuer
from ..order.completion import Wait
from ..order.owner import CtaOwner


class RegisterPool:
    """Registers per thread of each warp, and the registers of the CTA that no warp holds.

    A CTA starts with the registers that the compiler may use: .maxnreg, or the register file divided by its threads.
    """

    def __init__(self, cta: CtaOwner) -> None:
        kernel = cta.launch.kernel
        share = REGISTERS_AN_SM // (cta.launch.warps * LANES) // REGISTER_STEP * REGISTER_STEP
        self.start = kernel.maxnreg or min(share, MAX_REGISTERS_A_THREAD // REGISTER_STEP * REGISTER_STEP)
        self.cta = cta
        self.free = 0
        self.of: dict[int, int] = {}
        self.waiters: list[Issuer] = []

    def set(self, warp: Issuer, count: int, instr: Instr) -> bool:
        """Give a warp `count` registers per thread. Return False if it must wait until others release some.

        Reports the wrong direction if the present count is certain: PTX leaves undefined what happens then.
        """
        have = self.of.get(warp.index, self.start)
        wrong = count < have if "inc" in instr.modifiers else count > have
        if wrong and (warp.index in self.of or self.cta.launch.kernel.maxnreg):
            what = f"setmaxnreg.{instr.modifiers[0]} to {count} registers per thread; each has {have}"
            self.cta.launch.report(RegisterError(what, instr, warp, level=Leniency.SETMAXNREG))
        need = (count - have) * LANES
        if need > self.free:
            self.waiters.append(warp)
            self.cta.cluster.suspend(warp, Wait(instr, (self,), lambda: self._lacking(need, count)))
            return False
        self.of[warp.index] = count
        self.free -= need
        if need < 0:
            waiters, self.waiters = self.waiters, []
            self.cta.cluster.wake(waiters)
        return True

    def _lacking(self, need: int, count: int) -> str:
        held = ", ".join(f"warp {i} {self.of.get(i, self.start)}" for i in range(self.cta.launch.warps))
        return f"{need} registers for {count} per thread, {self.free} of the CTA are free; registers per thread: {held}"
