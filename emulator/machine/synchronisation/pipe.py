"""Pipes: asynchronous work that its own warp waits for. Tensor-memory loads and stores, warpgroup MMAs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...errors import MissingWait, place
from ...leniency import Leniency
from ...ptx.syntax import Instr
from ..launch.launch import registers
from ..order.access import Access, Agent, Issuer, missing_release
from ..order.clocks import Clock

KNOWN_WAITS: Final = 15
"""The number of waits that a pipe remembers besides the newest. Older ones count as known to all lanes."""


class Pipe(Agent):
    """The tcgen05.ld, tcgen05.st or warpgroup MMAs of a warp, complete at the instruction `waiting_for`.

    follows: components whose accesses the hardware's pipeline orders before those of this pipe.
    """

    began, used_early = "loaded at", Leniency.TENSOR_LOAD_USED_EARLY
    fenced = True
    """True if, at level pedantic, tcgen05.fence has to release the operations that were waited for."""

    def __init__(self, warp: Issuer, waiting_for: str, component: int, follows: tuple[int, ...]) -> None:
        self.warp, self.waiting_for, self.component, self.follows = warp, waiting_for, component, follows
        self.issued: list[Instr] = []
        self.issued_at: list[int] = []
        """The warp's time at each issue."""
        self.waited = 0
        self._known: list[tuple[int, int]] = []
        """The newest waits, as (the warp's time, operations waited for)."""
        self.waits: list[tuple[int, int]] = []
        """Pedantic: waits that release nothing by themselves, as (operations waited for, the warp's time)."""

    def access(self, instr: Instr) -> Access:
        """Issue an operation. Return its access, which the next wait completes."""
        self.issued.append(instr)
        self.issued_at.append(self.warp.time)
        time = self.waited + len(self.issued)
        return Access(self.component, time, False, instr, self.warp, instr.opcode, self.follows, self)

    def wait(self, count: int | None = None) -> None:
        """Complete everything issued, or the first `count` operations."""
        count = len(self.issued) if count is None else count
        if count:
            self.waited += count
            del self.issued[:count], self.issued_at[:count]
            self._known = [*self._known[-KNOWN_WAITS:], (self.warp.time, self.waited)]
            if self.fenced and self.warp.cta.launch.enforces(Leniency.TCGEN05_FENCE):
                self.waits.append((self.waited, self.warp.time))
            else:
                self.release()

    def release(self) -> None:
        """Let the warp's next release cover what was waited for. Pedantic: called by tcgen05.fence only."""
        self.warp.clock.advance(self.component, self.waited)

    def waited_before(self, time: int) -> int:
        """Return how many operations the warp had waited for at one of its times, or at the oldest known later one."""
        forgotten = self._known[0][1] if len(self._known) > KNOWN_WAITS else 0
        return max((waited for at, waited in self._known if at <= time), default=forgotten)

    def report_early_uses(self, uses: Mapping[int, tuple[Instr, str, str]]) -> None:
        """Report each use of registers of an outstanding load, once per launch.

        uses: by the load's id, the using instruction, a verb ("uses" or "overwrites") and the register.
        """
        launch = self.warp.cta.launch
        known = launch.registry.setdefault(Pipe, set())
        for load in self.issued:
            use, does, register = uses.get(id(load), (None, "", ""))
            if use is None or (id(load), id(use)) in known:
                continue
            known.add((id(load), id(use)))
            verb = "read" if register in registers(load.operands[2:3]) else "written"
            launch.report(
                MissingWait(
                    f"{use.opcode} {does} {register}, which {load.opcode} may not have {verb} yet",
                    use,
                    self.warp,
                    (
                        (self.began, place(load, self.warp)),
                        ("missing", f"{self.waiting_for} between PTX lines {load.line} and {use.line}"),
                    ),
                    level=self.used_early,
                )
            )

    def waited_for(self, access: Access) -> bool:
        """Return whether a wait covers the access."""
        # The wait covers operations of the executing warp alone (test_a_store_over_what_a_load_may_still_read).
        return access.time <= self.waited

    def lacks_fence(self, access: Access, clock: Clock) -> bool:
        """Return whether `clock` covers a wait for the access, so that only tcgen05.fence is missing."""
        at = next((time for waited, time in self.waits if access.time <= waited), None)
        return at is not None and clock.at(self.warp.component) >= at

    def unused(self, clock: Clock) -> bool:
        """Return whether `clock` covers the waits, and no instruction names a register of the outstanding loads."""
        launch = self.warp.cta.launch
        return clock.at(self.component) >= self.waited and not any(map(launch.result_used, self.issued))

    def missing(self, access: Access, me: Access) -> str:
        """Describe what must order `me` after `access`, for the report of a conflict."""
        if access.time > self.waited:
            wait = f"{self.waiting_for} in {self.warp} after PTX line {access.instr.line}"
            released = me.warp.clock.at(self.warp.component) >= self.issued_at[access.time - self.waited - 1]
            return wait if released else f"{wait}, and {missing_release(self.warp, self.waiting_for, me)}"
        if self.warp.clock.at(self.component) < access.time:
            return f"tcgen05.fence::before_thread_sync in {self.warp} after its {self.waiting_for}"
        return missing_release(self.warp, self.waiting_for, me)
