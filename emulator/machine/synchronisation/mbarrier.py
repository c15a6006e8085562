"""mbarriers: phases, arrivals, transaction bytes, and the clocks that they carry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ...errors import BarrierError, source
from ...ptx.syntax import Address, Instr
from ..launch.addresses import KnownAddresses
from ..launch.shared_names import mbarrier_name
from ..order.access import Access, Issuer
from ..order.clocks import Clock
from ..order.owner import CtaOwner

MAX_COUNT = (1 << 20) - 1


ARRIVALS: Final = ("mbarrier.arrive", "mbarrier.complete_tx", "tcgen05.commit", "cp.async", "st.async", "red.async")
"""The beginnings of opcodes that arrive on an mbarrier, or bring it bytes."""


@dataclass(slots=True, eq=False)
class Party:
    """The author of an arrival or of bytes: the instruction, the issuing warp, and a name for reports.

    shown: the clock component and the time at which an agent's work is complete.
    """

    instr: Instr
    warp: Issuer
    what: str
    shown: tuple[int, int] | None = None

    def __str__(self) -> str:
        return f"{self.what} of {self.warp}, PTX line {self.instr.line}"

    def placed(self) -> str:
        """Describe the party, with its source line on a second line if that is known."""
        return f"{self}{source(self.instr, self.warp)}"


class MBarrier:
    """One mbarrier object. `phase` counts completed phases from 0; `order` is its rank in order of initialisation."""

    def __init__(self, cta: CtaOwner, offset: int, order: int, count: int, init: Access) -> None:
        history = cta.cluster.history
        self.cta, self.offset, self.order, self.init = cta, offset, order, init
        self.expected = self.pending = self.count = count
        self.tx = self.phase = 0
        self.component = history.component(cta.rank, "mbarrier", order)
        self.over = history.component(cta.rank, "phases", order)
        """The component that holds how many phases a clock's owner knows to be complete."""
        self.gathering, self.complete = history.clock(), history.clock()
        self.waiters: list[Issuer] = []
        self.last: Party | None = None
        self.last_tx: Party | None = None
        self.came: dict[int, Instr] = {}
        """The instructions that arrived or brought bytes, by id."""
        self.fenced = False
        self.waits = 0
        """The number of waits that ended."""
        self.repeated: Party | None = None
        """The last wait for a phase for which its warp had waited before."""
        self.foreign: dict[int, tuple[int, int, Party]] = {}
        """The last arrival or bytes by each component of another CTA: (time, phase, party)."""
        self.copies: list[Party] = []
        """The copies issued in this phase that have not completed."""

    @property
    def name(self) -> str:
        """The name that the launch or the source gives it; empty if none does. Only reports need it."""
        every = self.cta.smem.mbarriers.values()
        earlier = [other.init.instr for other in every if other.order < self.order]
        return mbarrier_name(self.cta.launch, self.offset, self.init.instr, earlier)

    def __str__(self) -> str:
        shown = f"mbarrier #{self.order} at {self.cta.window + self.offset:#x}"
        return f"{self.name} ({shown})" if self.name else shown

    @property
    def unused(self) -> bool:
        """True if nothing has happened to it since its initialisation."""
        return self.last is None and self.last_tx is None and not self.tx and not self.copies and not self.waiters

    def state(self) -> str:
        """Describe phase, arrivals, bytes and the last arrival for the deadlock table."""
        seen = self.expected - self.pending
        last = f"last arrival: {self.last.placed()}" if self.last else "nobody arrived yet"
        counts = f"{seen} of {self.expected} arrivals, {self.tx} bytes outstanding"
        if self.tx < 0:
            counts += " (more bytes came than this phase expects)"
        return f"{self}, now in phase {self.phase}: {counts}, {last}"

    def arrivals_by_address(self) -> tuple[list[str], list[int]]:
        """Return the places of arrivals and copies with its address, and the PTX lines of others that may have it.

        They have it if they reported here, or if the kernel's text says so.
        """
        launch = self.cta.launch
        known = KnownAddresses(launch.kernel)
        found, unknown = {instr.place: instr for instr in self.came.values()}, list[int]()
        for instr in launch.kernel.instrs:
            if not instr.opcode.startswith(ARRIVALS) or instr.place in found:
                continue
            addresses = [known.of(operand) for operand in instr.operands if isinstance(operand, Address)]
            if self.offset in addresses:
                found[instr.place] = instr
            elif None in addresses:
                unknown.append(instr.line)
        places = [(instr, launch.source_place(instr)) for instr in sorted(found.values(), key=lambda instr: instr.line)]
        shown = [f"PTX line {instr.line}" if where is None else str(where) for instr, where in places]
        return list(dict.fromkeys(shown)), unknown

    def arrive(self, count: int, party: Party, clock: Clock | None) -> None:
        """Arrive `count` times, releasing `clock`. Raises BarrierError for no arrival or more than expected."""
        if not 0 < count <= self.pending:
            raise BarrierError(
                f"{party.what} makes {count} arrivals on {self}, where phase {self.phase} expects only "
                f"{self.pending} more of {self.expected}"
                if count
                else f"{party.what} makes no arrivals on {self}; allowed is 1 to {MAX_COUNT}",
                party.instr,
                party.warp,
                (
                    ("last arrival", self.last.placed() if self.last else "none"),
                    ("bytes", f"{self.tx} still outstanding"),
                    *self._stale_waits(party.warp),
                ),
            )
        if clock is not None:
            self.gathering.merge(clock)
        self._record_foreign(party)
        self.pending -= count
        self.last = party
        self.came[id(party.instr)] = party.instr
        self._complete_if_due()
        if clock is not None:
            clock.advance(self.over, self.phase)

    def _stale_waits(self, arriving: Issuer) -> Iterator[tuple[str, str]]:
        """Name waits for this mbarrier, or of the arriving warp, that waited again for a phase: for nothing."""
        for barrier in self.cta.smem.mbarriers.values():
            if barrier.repeated is not None and (barrier is self or barrier.repeated.warp is arriving):
                yield "stale wait", barrier.stale_wait(barrier.repeated)

    def stale_wait(self, wait: Party) -> str:
        """Describe a wait that waited for nothing."""
        what = f"{wait}, for a phase of {self} for which this warp had waited before"
        return what + source(wait.instr, wait.warp)

    def check_incomplete(self, count: int, party: Party) -> None:
        """Raise BarrierError if `count` arrivals with .noComplete would complete the phase."""
        if count >= self.pending:
            raise BarrierError(
                f"{party.what}.noComplete makes {count} arrivals on {self}, which end phase {self.phase}: it expects "
                f"{self.pending} more",
                party.instr,
                party.warp,
            )

    def expect(self, tx: int, party: Party) -> None:
        """Expect `tx` more bytes in this phase."""
        self._count(tx, party)

    def complete_tx(self, tx: int, party: Party) -> None:
        """Count `tx` bytes as delivered. Raises BarrierError if the phase ends while other copies are outstanding."""
        self.last_tx = party
        self.came[id(party.instr)] = party.instr
        self._record_foreign(party)
        if party in self.copies:
            self.copies.remove(party)
        self._count(-tx, party)
        self._complete_if_due()

    def complete_copies(self, copies: Sequence[tuple[int, Party]]) -> None:
        """Count the bytes of several copies as delivered, in order. Raises as `complete_tx`.

        If arrivals are pending, or all of the bytes are expected, the phase cannot end before the last copy: the bytes
        are counted as one.
        """
        total = sum([tx for tx, _ in copies])
        if total > self.tx + (MAX_COUNT if self.pending else 0):
            for tx, party in copies:
                self.complete_tx(tx, party)
            return
        for _, party in copies[:-1]:
            self.copies.remove(party)
        self.complete_tx(total, copies[-1][1])

    def _record_foreign(self, party: Party) -> None:
        warp = party.warp
        if warp.cta is not self.cta:
            component, time = party.shown or (warp.component, warp.time)
            self.foreign[component] = (time, self.phase, party)

    def _count(self, tx: int, party: Party) -> None:
        self.tx += tx
        if not -MAX_COUNT <= self.tx <= MAX_COUNT:
            raise BarrierError(
                f"the transaction count of {self} becomes {self.tx}; allowed is -{MAX_COUNT} to {MAX_COUNT}",
                party.instr,
                party.warp,
            )

    def _complete_if_due(self) -> None:
        # mbarrier phase completion: no pending arrivals, and a transaction count of zero.
        if self.pending == 0 and self.tx == 0:
            if self.copies:
                self._raise_early_end(self.copies[0])
            self.phase += 1
            self.pending = self.expected
            # complete_tx releases: a wait for the phase covers the bytes of its copies (test_pairs.py::test_good).
            self.gathering.advance(self.component, self.phase)
            # A later arrival passes on that this phase is over, for the check of late waits.
            self.gathering.advance(self.over, self.phase)
            self.complete = self.gathering.compact()
            self.cta.cluster.unchanged = 0
            if self.waiters:
                waiters, self.waiters = self.waiters, []
                self.cta.cluster.wake(waiters)

    def _raise_early_end(self, copy: Party) -> None:
        raise BarrierError(
            f"phase {self.phase} of {self} ends while {copy.what} that reports there is outstanding: "
            "it expects fewer bytes than the copies bring",
            copy.instr,
            copy.warp,
            (
                ("missing", f"an expect_tx that counts the bytes of PTX line {copy.instr.line}"),
                ("last arrival", self.last.placed() if self.last else "none"),
                ("last bytes", self.last_tx.placed() if self.last_tx else "none"),
            ),
        )

    def missing(self, access: Access, me: Access) -> str:
        """Describe what must order `me` after a copy that reports here, for the report of a conflict."""
        phase, last = access.time - 1, self.last
        begun = self.phase == phase and self.pending == self.expected
        if begun and last is not None and last.warp is access.warp and last.what == "mbarrier.arrive":
            return (
                f"mbarrier.arrive.expect_tx of the bytes of PTX line {access.instr.line} in place of {last}: "
                f"phase {phase - 1} of {self} did not wait for them"
            )
        state = "not complete yet" if self.phase < access.time else "complete"
        before = me.warp.phases.get(self, 0)
        seen = f"has seen {before} completed phases of it" if before else "has not waited for it at all"
        if (untested := me.warp.unread_answers.get(self)) is not None:
            seen += f": the result of {untested.opcode} at PTX line {untested.line} is never read"
        return f"a wait of {me.warp} for phase {phase} of {self} (which is {state}); that warp {seen}"
