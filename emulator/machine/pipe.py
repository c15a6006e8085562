"""The loads and the stores of tensor memory that a warp issued: each a pipe of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import Level, MissingWait, place
from .access import Access, Agent, Issuer, handed_over

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..ptx.syntax import Instr


class Pipe(Agent):
    """The tcgen05.ld or tcgen05.st of a warp: complete at tcgen05.wait::ld or ::st.

    follows: the components that its accesses come after by the hardware's pipeline.
    """

    def __init__(self, warp: Issuer, verb: str, component: int, follows: tuple[int, ...]) -> None:
        self.warp, self.verb, self.component, self.follows = warp, verb, component, follows
        self.issued: list[Instr] = []
        self.issued_at: list[int] = []
        """The warp's time when it issued each."""
        self.waited = 0

    def access(self, instr: Instr) -> Access:
        """A new access of tensor memory, complete at the next wait."""
        self.issued.append(instr)
        self.issued_at.append(self.warp.time)
        time = self.waited + len(self.issued)
        return Access(self.component, time, False, instr, self.warp, instr.opcode, self.follows, self)

    def wait(self, count: int | None = None) -> None:
        """All that was issued, or the first `count` of it, is complete."""
        count = len(self.issued) if count is None else count
        if count:
            self.waited += count
            del self.issued[:count], self.issued_at[:count]
            if not self.warp.cta.launch.asks(Level.PEDANTIC):
                self.release()

    def release(self) -> None:
        """What was waited for goes along with the warp's next release. Pedantic: by tcgen05.fence only."""
        self.warp.clock.advance(self.component, self.waited)

    def refuse_early(self, uses: Mapping[int, tuple[Instr, str]]) -> None:
        """Find, once for a launch, each use of registers of a load that is outstanding: by the load's id, who uses
        which register. No known hardware lets such a use go first, so it is formal.
        """
        launch = self.warp.cta.launch
        known = launch.registry.setdefault(Pipe, set())
        for load in self.issued:
            use, register = uses.get(id(load), (None, ""))
            if use is None or (id(load), id(use)) in known:
                continue
            known.add((id(load), id(use)))
            launch.found(
                MissingWait(
                    f"{use.opcode} uses {register}, which {load.opcode} may not have written yet",
                    use,
                    self.warp,
                    (
                        ("loaded at", place(load, self.warp)),
                        ("missing", f"tcgen05.wait::{self.verb} between PTX lines {load.line} and {use.line}"),
                    ),
                    level=Level.FORMAL,
                )
            )

    def settled(self, access: Access) -> bool:
        """Whether a wait covers it."""
        return access.time <= self.waited

    def missing(self, access: Access, me: Access) -> str:
        """What orders `me` after `access`, for the report of a conflict."""
        if access.time > self.waited:
            wait = f"tcgen05.wait::{self.verb} in {self.warp} after PTX line {access.instr.line}"
            released = me.warp.clock.at(self.warp.component) >= self.issued_at[access.time - self.waited - 1]
            return wait if released else f"{wait}, and {handed_over(self.warp, f'tcgen05.wait::{self.verb}', me)}"
        if self.warp.clock.at(self.component) < access.time:
            return f"tcgen05.fence::before_thread_sync in {self.warp} after its tcgen05.wait::{self.verb}"
        return handed_over(self.warp, f"tcgen05.wait::{self.verb}", me)
