"""A warp: its place in the grid, its clock, and why it waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from emulator.machine.clocks import ORDERED, Access, Agent, Clock, handed_over

if TYPE_CHECKING:
    from emulator.machine.cta import Cta
    from emulator.ptx.syntax import Instr

LANES = 32
LANE = np.arange(LANES, dtype=np.uint32)
Turn = Literal["went on", "polled", "slept"]
"""polled: read again what it had read, and found the same."""


@dataclass(slots=True, eq=False)
class Wait:
    """Why a warp is suspended at `instr`, and which objects could let it go.

    peek: it would take no for an answer once nothing else can run. text: what the deadlock table says.
    """

    instr: Instr
    targets: tuple[Any, ...]
    text: Any
    peek: bool = False


class Pipe(Agent):
    """The tcgen05.ld or tcgen05.st of a warp: complete at tcgen05.wait::ld or ::st."""

    def __init__(self, warp: Warp, verb: str) -> None:
        self.warp, self.verb = warp, verb
        self.component = warp.cta.cluster.ledger.component((warp.cta.rank, warp.index, verb))
        self.issued: list[Instr] = []
        self.waited = 0

    def access(self, instr: Instr) -> Access:
        """A new access of tensor memory, complete at the next wait."""
        self.issued.append(instr)
        follows = (self.warp.loads.component,)
        time = self.waited + len(self.issued)
        return Access(self.component, time, False, instr, self.warp, instr.opcode, follows, self)

    def wait(self, count: int | None = None) -> None:
        """All that was issued, or the first `count` of it, is complete."""
        count = len(self.issued) if count is None else count
        if count:
            self.waited += count
            del self.issued[:count]
            if not self.warp.cta.launch.pedantic:
                self.release()

    def release(self) -> None:
        """What was waited for goes along with the warp's next release. Pedantic: by tcgen05.fence only."""
        self.warp.clock.advance(self.component, self.waited)

    def settled(self, access: Access) -> bool:
        """Whether a wait covers it."""
        return access.time <= self.waited

    def missing(self, access: Access, me: Access) -> str:
        """What orders `me` after `access`, for the report of a conflict."""
        if access.time > self.waited:
            return f"tcgen05.wait::{self.verb} in {self.warp} after PTX line {access.instr.line}"
        if self.warp.clock.at(self.component) < access.time:
            return f"tcgen05.fence::before_thread_sync in {self.warp} after its tcgen05.wait::{self.verb}"
        return handed_over(self.warp, f"tcgen05.wait::{self.verb}", me)


class Warp:
    """32 threads of a CTA that run one program. `registers`, `pc`, `stack` and `mask` belong to the program."""

    def __init__(self, cta: Cta, index: int) -> None:
        self.cta, self.index = cta, index
        self.registers: Any = None
        self.pc: Any = 0
        self.stack: Any = None
        self.mask: np.ndarray | None = None
        self.done = self.yielded = False
        self.executed = 0
        self.budget: int | None = None
        self.waiting: Wait | None = None
        self.granted: Any = None
        """What a suspended instruction left for its second run: its barrier's generation, an answer of no."""
        ledger = cta.cluster.ledger
        self.component = ledger.component((cta.rank, index))
        self.clock = ledger.clock()
        self.memory: Any = None
        """What its accesses that are machine code know, uint64[32]; of the clock, the array that they know."""
        self.memory_clock: Any = None
        self.time = 1
        self.clock.v[ORDERED, self.component] = 1
        self.spin: Any = None
        """The try_wait that was last answered no: instruction, mbarrier, phase, the warp's time."""
        self.phases: dict[Any, int] = {}
        """How many phases of each mbarrier it has seen completed."""
        self.published: set[Any] = set()
        """mbarriers that its fence.mbarrier_init covers, whatever barrier it arrives on next."""
        self.known: set[Any] = set()
        """mbarriers whose initialisation it knows of by such a fence of another warp."""
        self.loads, self.stores = Pipe(self, "ld"), Pipe(self, "st")
        self.after_sync: Clock | None = ledger.clock() if cta.launch.pedantic else None
        """Pedantic: what its tensor operations come after, by tcgen05.fence::after_thread_sync."""
        self.tensor: dict[int, Any] = {}
        """The tensor core as each lane drives it."""
        self.bulk: dict[int, Any] = {}
        """The bulk copies of each lane."""
        self.fenced: Clock | None = None
        """What its last releasing fence covers, for relaxed writes after it."""
        self.seen: Clock | None = None
        """What relaxed reads have seen, for the next acquiring fence."""
        self.maps: dict[int, bytes] = {}
        """The bytes of the changed tensor maps that it has acquired."""
        self.copies: Any = None
        self.cluster_arrivals: list[Any] = []
        """The uses of the cluster's barrier that it arrived at and has not waited for."""
        self.local: np.ndarray | None = None
        self.lanes: np.ndarray = np.arange(LANES)
        """The lanes of the access in progress."""
        self.turn: Turn = "went on"
        """What it did when it was last allowed to run."""
        self.polled: tuple[Instr, int] | None = None
        """Its last read of what others may write, and the first address."""
        self._polls: dict[int, bytes] = {}

    def __str__(self) -> str:
        return f"warp {self.index} of CTA {self.cta.name}"

    def access(self, instr: Instr, what: str) -> Access:
        """An access of this warp through the generic proxy, now."""
        return Access(self.component, self.time, True, instr, self, what)

    def poll(self, instr: Instr, addresses: np.ndarray, values: np.ndarray) -> None:
        """A read of what other warps may write while this one waits for it: they have a turn."""
        seen = addresses.tobytes() + values.tobytes()
        again = self._polls.get(id(instr)) == seen
        self._polls[id(instr)], self.polled = seen, (instr, addresses.item(0))
        self.turn = "polled" if again else "went on"
        self.yielded = True

    def sleep(self) -> None:
        """nanosleep: the others have a turn."""
        self.turn = "slept"
        self.yielded = True

    def tick(self) -> None:
        """Later accesses are not covered by what was released so far."""
        self.time += 1
        self.clock.v[ORDERED, self.component] = self.time

    def fence(self, acquire: bool, release: bool) -> None:
        """fence.acquire, .release, or both."""
        if acquire and self.seen is not None:
            self.clock.merge(self.seen)
            self.seen = None
        if release:
            self.fenced = self.clock.copy()
            self.tick()

    def unacquired(self, clock: Clock) -> None:
        """A relaxed read saw what carries `clock`."""
        if self.seen is None:
            self.seen = clock.copy()
        else:
            self.seen.merge(clock)

    @property
    def tensor_clock(self) -> Clock:
        """What accesses of tensor memory come after."""
        return self.clock if self.after_sync is None else self.after_sync

    def before_thread_sync(self) -> None:
        """tcgen05.fence::before_thread_sync, also part of tcgen05.commit."""
        self.loads.release()
        self.stores.release()

    def after_thread_sync(self) -> None:
        """tcgen05.fence::after_thread_sync."""
        if self.after_sync is not None:
            self.after_sync = self.clock.copy()

    def settle_loads(self, instr: Instr) -> None:
        """Before a release at `instr`: loads of tensor memory whose registers were used since are complete."""
        loads = self.loads
        if not loads.issued or self.cta.launch.pedantic:
            return
        done = 0
        for load in loads.issued:
            if not self.cta.launch.uses(load, instr):
                break
            done += 1
        loads.wait(done)

    def sreg(self, name: str) -> Any:
        """A special register: int if the same in all lanes, else uint32[32]. Raises KeyError for an unknown name."""
        value = self.cta.sregs.get(name)
        return value if value is not None else self._own_sreg(name)

    def _own_sreg(self, name: str) -> Any:
        if name.startswith("%tid"):
            return self._tid(name)
        match name:
            case "%laneid":
                return LANE
            case "%warpid":
                return self.index
            case "%lanemask_eq":
                return np.uint32(1) << LANE
            case "%lanemask_lt":
                return (np.uint32(1) << LANE) - np.uint32(1)
            case "%lanemask_le":
                return (np.uint32(2) << LANE) - np.uint32(1)
            case "%lanemask_ge":
                return ~((np.uint32(1) << LANE) - np.uint32(1))
            case "%lanemask_gt":
                return ~((np.uint32(2) << LANE) - np.uint32(1))
            case "%clock" | "%clock64" | "%globaltimer" | "%clock_hi" | "%globaltimer_lo" | "%globaltimer_hi":
                return self.executed
        raise KeyError(name)

    def _tid(self, name: str) -> Any:
        x, y, _ = self.cta.launch.block
        linear = LANE + np.uint32(self.index * LANES)
        value = {"x": linear % x, "y": linear // x % y, "z": linear // (x * y)}[name[-1]]
        value = value.astype(np.uint32)
        return int(value[0]) if (value == value[0]).all() else value
