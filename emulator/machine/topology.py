"""What runs together: a cluster, its CTAs with their memories and barriers, their warps."""

from __future__ import annotations

import sys
from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..chip import RANK_SHIFT
from ..errors import BarrierError, DataRace, Level
from .launch.special_registers import of_cta, of_warp
from .memory.global_shadow import GlobalShadow
from .memory.shared import SharedMemory
from .memory.tmem import TensorMemory
from .order.access import Access, Issuer
from .order.completion import Agents, Completion
from .order.flags import Flags
from .order.history import History
from .synchronisation.barriers import ClusterBarrier, NamedBarrier, WarpGroupBarrier
from .synchronisation.pipe import Pipe
from .synchronisation.registers import RegisterPool

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from ..ptx.syntax import Instr
    from .launch.launch import Dim3, Launch

REFUSED = 0.3
"""In random mode, the chance that a cluster is launched although another would take over its work."""
Progress = Literal["went on", "polled", "slept"]
"""polled: read again what it had read, and found the same."""


class Cluster:
    """The CTAs that run together, what orders their accesses, and the queue of warps that can run."""

    def __init__(self, launch: Launch, index: Dim3, completion: Completion, random: Random) -> None:
        self.launch, self.index, self.random = launch, index, random
        cx, cy, cz = launch.cluster
        size = cx * cy * cz
        self.outside = GlobalShadow.of(launch)
        self.history = History((64 + 7 * launch.warps) * size, index)
        self.agents = Agents(completion, random)
        first = tuple(i * c for i, c in zip(index, launch.cluster, strict=True))
        self.ctas = [
            Cta(self, rank, (first[0] + rank % cx, first[1] + rank // cx % cy, first[2] + rank // (cx * cy)))
            for rank in range(size)
        ]
        self.warps = [w for cta in self.ctas for w in cta.warps]
        self.barrier = ClusterBarrier(self)
        self.started = self.history.component("started")
        """The component by which a clock knows that all its CTAs have started: a wait at the cluster's barrier."""
        self.lookups: dict[Any, Any] = {}
        """What was found by the addresses of mbarriers, and holds until one is taken away."""
        self.ready = deque(self.warps)
        self.flags = Flags()
        """What releases of shared memory carry, by (memory, offset)."""
        self.polls = 0
        """Rounds of polling answered no since a wait last ended."""
        self.unchanged = 0
        """How often one of its warps read again what it had read and found the same, since something else happened."""

    @property
    def running(self) -> int:
        """How many of its warps have not ended."""
        return sum([cta.running for cta in self.ctas])

    @property
    def ended(self) -> bool:
        """Whether all its warps have."""
        return not self.running

    def wake(self, warps: Iterable[Warp]) -> None:
        """Let warps run again whose wait has ended."""
        self.polls = 0
        for warp in warps:
            self.resume(warp)

    def resume(self, warp: Warp) -> None:
        """Let a suspended warp run again."""
        if warp.waiting is not None:
            warp.waiting = None
            self.ready.append(warp)

    def take_over(self) -> Dim3 | None:
        """The first CTA of a cluster that need not be launched any more; None if there is none (or by chance)."""
        waiting = self.launch.waiting_clusters
        by_chance = self.agents.completion == "random" and self.random.random() < REFUSED
        if by_chance or not waiting:
            return None
        x, y, z = (i * c for i, c in zip(waiting.popleft(), self.launch.cluster, strict=True))
        return x, y, z


class Cta:
    """One CTA: its memories, barriers and warps. `window` is the high part of its shared addresses."""

    def __init__(self, cluster: Cluster, rank: int, ctaid: Dim3) -> None:
        self.cluster, self.launch, self.rank, self.ctaid = cluster, cluster.launch, rank, ctaid
        self.cluster_id = cluster.index
        self.window = rank << RANK_SHIFT
        self.name = "({},{},{})".format(*ctaid)
        self.smem = SharedMemory(self, self.launch.shared_bytes)
        self.barriers: dict[int, NamedBarrier] = {}
        self.warpgroups: dict[int, WarpGroupBarrier] = {}
        self.registers = RegisterPool(self)
        self.maps: dict[int, list[tuple[bytes, Access]]] = {}
        """The bytes of the changed tensor maps that its warps have acquired, and who did."""
        self.sregs = of_cta(self.launch, cluster.index, ctaid, rank)
        self.warps: list[Warp] = [Warp(self, i) for i in range(self.launch.warps)]
        self.running = len(self.warps)

    def __str__(self) -> str:
        return f"CTA {self.name}"

    @cached_property
    def tmem(self) -> TensorMemory:
        """Its tensor memory, made when something first touches it."""
        return TensorMemory(self)

    def barrier(self, index: int) -> NamedBarrier:
        """A named barrier, made at its first use."""
        found = self.barriers.get(index)
        if found is None:
            found = self.barriers[index] = NamedBarrier(self, index)
        return found

    def warpgroup(self, index: int) -> WarpGroupBarrier:
        """Where four warps meet at wgmma.fence, made at their first."""
        found = self.warpgroups.get(index)
        if found is None:
            found = self.warpgroups[index] = WarpGroupBarrier(self, 4 * index)
        return found


class Warp(Issuer):
    """32 threads of a CTA that run one program, to which `registers`, `pc`, `stack`, `bits`, `mask`, `ended` and
    `leaves` belong."""

    cta: Cta

    def __init__(self, cta: Cta, index: int) -> None:
        history = cta.cluster.history
        component = history.component((cta.rank, index))
        history.component((cta.rank, index, "lanes"))
        super().__init__(cta, index, component, history.clock())
        self.serial = cta.cluster.outside.register(self)
        loads, stores = (history.component((cta.rank, index, verb)) for verb in ("ld", "st"))
        self.loads = Pipe(self, "tcgen05.wait::ld", loads, (loads,))
        self.stores = Pipe(self, "tcgen05.wait::st", stores, ())
        self.products: Any = None
        """Its wgmma."""
        self.registers: Any = None
        self.pc: Any = 0
        self.stack: Any = ()
        self.bits = self.ended = 0
        self.leaves: frozenset[int] = frozenset()
        self.missed: list[tuple[int, BarrierError]] = []
        """Lanes that did not come to an exchange which names them, and what that is if they do not end."""
        self.mask: np.ndarray | None = None
        self.yielded = False
        self.executed = self.until = 0
        """How many instructions, and at how many it lets others run."""
        self.budget = sys.maxsize
        self.memory: Any = None
        """What its compiled accesses know, a MEMORY_ROW as uint64[32]; of the clock, the array that they know."""
        self.memory_clock: Any = None
        self.peers: Any = None
        """The same of the CTAs of its cluster, by rank; None where its code reaches none."""
        self.denied: Instr | None = None
        """Where it read that no cluster is left to cancel."""
        self.spin: Any = None
        """The try_wait that was last answered no: instruction, mbarrier, phase, the warp's time."""
        self.tensor: dict[int, Any] = {}
        """The tensor core as each lane drives it."""
        self.unchecked: list[Any] = []
        """Its tcgen05.mma that were queued in a row just now, and whose accesses were not looked at."""
        self.queued_loads: Any = None
        """Its TMA loads that were queued in a row just now, once there were any."""
        self.queued_copies: list[Any] = []
        """Its cp.async that were queued in a row just now, neither checked nor issued."""
        self.bulk: dict[int, Any] = {}
        """The bulk copies of each lane."""
        self.copies: Any = None
        self.cluster_arrivals: list[Any] = []
        """The uses of the cluster's barrier that it arrived at and has not waited for."""
        self.arrived_again: Instr | None = None
        """The last arrival there before the wait for the one before it."""
        self.local: tuple[np.ndarray, np.ndarray] | None = None
        self.active = 0
        """Those of an access that is one for all, as bits."""
        self.progress: Progress = "went on"
        """What it did when it was last allowed to run."""
        self.polled: tuple[Instr, int] | None = None
        """Its last read of what others may write, and the first address."""
        self._polls: dict[int, bytes] = {}

    def poll(self, instr: Instr, addresses: np.ndarray, values: np.ndarray) -> None:
        """A read of what other warps may write while this one waits for it: they have a turn."""
        seen = addresses.tobytes() + values.tobytes()
        again = self._polls.get(id(instr)) == seen
        self._polls[id(instr)], self.polled = seen, (instr, addresses.item(0))
        self.progress = "polled" if again else "went on"
        cluster = self.cta.cluster
        cluster.unchanged = cluster.unchanged + 1 if again else 0
        self.yielded = True

    def sleep(self) -> None:
        """nanosleep: the others have a turn."""
        self.progress = "slept"
        self.yielded = True

    def before_thread_sync(self) -> None:
        """tcgen05.fence::before_thread_sync, also part of tcgen05.commit."""
        self.loads.release()
        self.stores.release()

    def complete_used_loads(self, instr: Instr) -> None:
        """Before a release or a store at `instr`: loads of tensor memory whose registers were used are complete, and so
        are those between them whose registers nothing uses."""
        loads, launch = self.loads, self.cta.launch
        if not loads.issued or launch.asks(Level.PEDANTIC):
            return
        done = 0
        for number, load in enumerate(loads.issued, 1):
            if launch.uses(load, instr):
                done = number
            elif launch.result_used(load):
                break
        loads.wait(done)

    def knows_started(self, cta: Cta) -> bool:
        """Whether anything told that a CTA of its cluster has started."""
        clock = self.clock
        return bool(clock.at(self.cta.cluster.started)) or any(clock.at(warp.component) for warp in cta.warps)

    def check_started(self, cta: Cta, instr: Instr, what: str) -> None:
        """Find an access of another CTA's shared memory before anything tells that it has started."""
        if self.knows_started(cta):
            return
        missing = f"barrier.cluster.arrive and barrier.cluster.wait before PTX line {instr.line}"
        what = f"{what} reaches shared memory of CTA {cta.name}, which may not have started yet"
        self.cta.launch.report(DataRace(what, instr, self, (("missing", missing),)))

    def sreg(self, name: str) -> Any:
        """A special register: int if the same in all lanes, else uint32[32]. Raises KeyError for an unknown name."""
        value = self.cta.sregs.get(name)
        return value if value is not None else of_warp(name, self.cta.launch.block, self.index, self.executed)
