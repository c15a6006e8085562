"""Clusters, their CTAs with memories and barriers, and their warps."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from random import Random
from typing import Any, Final, Literal

import numpy as np

from ..chip import RANK_SHIFT
from ..errors import DataRace
from ..leniency import Leniency
from ..native.memory_layout import COMPONENTS_MAX
from ..ptx.syntax import Instr
from .launch.launch import Dim3, Launch
from .launch.special_registers import of_cta, of_warp
from .launch.statistics import ASLEEP
from .memory.collectors import Collectors
from .memory.global_shadow import GlobalShadow
from .memory.shared import SharedMemory
from .memory.tmem import TensorMemory
from .order.access import Access, Issuer
from .order.completion import Agents, Completion, Wait
from .order.flags import Flags
from .order.history import History
from .synchronisation.barriers import ClusterBarrier, NamedBarrier
from .synchronisation.pipe import Pipe
from .synchronisation.registers import RegisterPool

DENIED = 0.3
"""In random mode, the probability of a negative answer that another timing would give."""
Progress = Literal["went on", "polled", "slept"]
"""The activity of a warp in its last time slice. polled: it read again what it had read, and found the same."""


WARP_COMPONENTS: Final = 4
"""Clock components of a warp: its own, its lanes' synchronisations, and its tensor-memory loads and stores."""
KEPT_OF_CTA: Final = ("launch", "cluster_id", "ctaid", "name")
KEPT_OF_WARP: Final = ("cta", "index", "component", "time", "serial", "stored", "done")
"""The attributes of a CTA and of a warp that reports need after the cluster has ended."""


def _reduce(part: Any, kept: Sequence[str]) -> None:
    """Delete the attributes of an object except those that are kept."""
    part.__dict__ = {name: vars(part)[name] for name in kept}


class Cluster:
    """The CTAs that run together, the history of their accesses, and the queue of runnable warps."""

    def __init__(
        self, launch: Launch, index: Dim3, completion: Completion, random: Random, pauses: bool = False
    ) -> None:
        """Start a cluster. pauses: its warps and those of other clusters take turns by chance, in random mode."""
        self.pauses, self.paused = pauses, False
        self.may_deny = completion in ("random", "all")
        self.launch, self.index, self.random = launch, index, random
        cx, cy, cz = launch.cluster
        size = cx * cy * cz
        self.outside = GlobalShadow.of(launch)
        self.history = History(64 + 7 * launch.warps, index, size)
        self.agents = Agents(completion, random)
        first = tuple(i * c for i, c in zip(index, launch.cluster, strict=True))
        self.ctas = [
            Cta(self, rank, (first[0] + rank % cx, first[1] + rank // cx % cy, first[2] + rank // (cx * cy)))
            for rank in range(size)
        ]
        self.warps = [w for cta in self.ctas for w in cta.warps]
        self.running = len(self.warps)
        """The number of its warps that have not ended."""
        self.barrier = ClusterBarrier(self)
        self.started = self.history.component(0, "started")
        """The component that a wait at the cluster barrier advances: all CTAs of the cluster have started."""
        self.lookups: dict[Any, Any] = {}
        """Results of mbarrier lookups by address. They hold until an mbarrier is invalidated."""
        self.ready = deque(self.warps)
        self.wanted: dict[Any, int] = {}
        """The objects that suspended warps wait for, with the number of these warps."""
        self.tested: dict[Any, int] = {}
        """The same for warps that only test their wait."""
        self.flags = Flags()
        """Clocks released to shared memory, by (memory, offset)."""
        self.polls = 0
        """Rounds of negative answers to polling warps since a wait last ended."""
        self.turns = 0
        """Changes between the arms of suspended warps since a wait last ended."""
        self.unchanged = 0
        """Consecutive reads that found an unchanged value, with no other progress in between."""

    @cached_property
    def by_component(self) -> dict[int, Warp]:
        """Its warps, by their clock components."""
        return {warp.component: warp for warp in self.warps}

    @cached_property
    def warp_components(self) -> np.ndarray:
        """A mask of the clock components, true for those of warps."""
        found = np.zeros(COMPONENTS_MAX, bool)
        found[list(self.by_component)] = True
        return found

    @property
    def ended(self) -> bool:
        """True if all its warps have ended."""
        return not self.running

    def suspend(self, warp: Warp, wait: Wait) -> None:
        """Let a warp wait until `resume`."""
        warp.waiting = wait
        counts = self._waited_for(wait)
        for target in wait.targets:
            counts[target] = counts.get(target, 0) + 1

    def wake(self, warps: Iterable[Warp]) -> None:
        """Make warps runnable again whose wait has ended."""
        self.polls = self.turns = 0
        for warp in warps:
            self.resume(warp)

    def resume(self, warp: Warp) -> None:
        """Make a suspended warp runnable again."""
        wait = warp.waiting
        if wait is None:
            return
        warp.waiting = None
        self.ready.append(warp)
        counts = self._waited_for(wait)
        for target in wait.targets:
            if counts[target] == 1:
                del counts[target]
            else:
                counts[target] -= 1

    def _waited_for(self, wait: Wait) -> dict[Any, int]:
        return self.tested if wait.peek else self.wanted

    def release(self) -> None:
        """Reduce its CTAs and warps to what reports need after its end. Nothing refers to the rest, which is freed."""
        for cta in self.ctas:
            for memory in (cta.smem, vars(cta).get("tmem")):
                if memory is not None:
                    vars(memory.shadow).clear()
            for warp in cta.warps:
                _reduce(warp, KEPT_OF_WARP)
            _reduce(cta, KEPT_OF_CTA)
        del self.barrier

    def denies(self) -> bool:
        """Return whether a test or a request is denied that another timing would deny."""
        self.launch.registry[Cluster.denies] = True  # a run that denies everything has another effect
        return self.launch.denies or (self.agents.completion == "random" and self.random.random() < DENIED)

    def take_over(self) -> Dim3 | None:
        """Cancel the launch of the next cluster. Return its first CTA; None if none is left, and at random."""
        waiting = self.launch.waiting_clusters
        if not waiting or self.denies():
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
        self.warpgroups: dict[int, Any] = {}
        """The barriers of warpgroups that multiplied or met, by number."""
        self.registers = RegisterPool(self)
        self.maps: dict[int, list[tuple[bytes, Access]]] = {}
        """Changed tensor maps that its warps acquired, by address: their bytes, and the acquiring access."""
        self.sregs = of_cta(self.launch, cluster.index, ctaid, rank)
        self.warps: list[Warp] = [Warp(self, i) for i in range(self.launch.warps)]
        self.running = len(self.warps)

    def __str__(self) -> str:
        return f"CTA {self.name}"

    @cached_property
    def tmem(self) -> TensorMemory:
        """Its tensor memory, created at the first access."""
        return TensorMemory(self)

    @cached_property
    def collectors(self) -> Collectors:
        """The collector buffers of its tensor core; those of a CTA pair are the even CTA's."""
        return Collectors()

    def barrier(self, index: int) -> NamedBarrier:
        """Return a named barrier, created at its first use."""
        found = self.barriers.get(index)
        if found is None:
            found = self.barriers[index] = NamedBarrier(self, index)
        return found


class Warp(Issuer):
    """32 threads of a CTA. The program owns `registers`, `pc`, `stack`, `mask`, `leaves`, and the sets of lanes."""

    cta: Cta

    def __init__(self, cta: Cta, index: int) -> None:
        history = cta.cluster.history
        component = history.components(cta.rank, WARP_COMPONENTS)
        super().__init__(cta, index, component, history.clock(history.width))
        if cta.launch.surroundings is not None:
            self.clock.remote = cta.launch.surroundings.remote
        self.serial = cta.cluster.outside.register(self)
        self.loads = Pipe(self, "tcgen05.wait::ld", component + 2, (component + 2,))
        self.stores = Pipe(self, "tcgen05.wait::st", component + 3, ())
        self.products: Any = None
        """Its warpgroup MMAs (`agents.products`), None before the first."""
        self.registers: Any = None
        self.pc: Any = 0
        self.stack: Any = ()
        self.leaves: frozenset[int] = frozenset()
        self.ahead = 0
        """Lanes (bits) that went on past the end of a branch while lanes of the other arm waited for them."""
        self.mask: np.ndarray | None = None
        self.yielded = False
        self.passed: dict[int, int] = {}
        """The number of runs of each block, by the index of its first instruction, and the nanoseconds ASLEEP."""
        self.executed = self.until = 0
        """Instructions executed, and the count at which the warp lets others run."""
        self.budget = sys.maxsize
        self.memory: Any = None
        """Its MEMORY_ROW for compiled accesses, uint64[32]; and the clock array to which that row points."""
        self.memory_clock: Any = None
        self.peers: Any = None
        """The MEMORY_ROWs for the CTAs of its cluster, by rank; None if its code accesses none."""
        self.denied: Instr | None = None
        """The instruction that read the answer that no cluster is left to cancel."""
        self.spin: Any = None
        """The last try_wait with a negative answer: (instruction, mbarrier, phase, the warp's time)."""
        self.tensor: dict[int, Any] = {}
        """The tensor core's queue of each lane."""
        self.unchecked: list[Any] = []
        """tcgen05.mma queued in a row whose accesses are not checked yet."""
        self.queued_loads: Any = None
        """TMA loads queued in a row (`agents.boxes.LoadQueue`), None before the first."""
        self.queued_copies: list[Any] = []
        """cp.async queued in a row, neither checked nor issued."""
        self.bulk: dict[int, Any] = {}
        """The bulk copies of each lane."""
        self.copies: Any = None
        self.cluster_arrivals: list[Any] = []
        """Uses of the cluster barrier that it arrived at and has not waited for."""
        self.arrived_again: Instr | None = None
        """The last arrival at the cluster barrier before the wait for the arrival before it."""
        self.local: tuple[np.ndarray, np.ndarray] | None = None
        self.active = 0
        """The lanes (bits) of an access that is one for all."""
        self.progress: Progress = "went on"
        """The warp's activity in its last time slice."""
        self.polled: tuple[Instr, int, int] | None = None
        """Its last read of memory that others may write: the instruction, the first address and the value there."""
        self._polls: dict[tuple[int, int], bytes] = {}

    def poll(self, instr: Instr, addresses: np.ndarray, values: np.ndarray) -> None:
        """Record a read of memory that others may write while this warp waits for it, and let them run."""
        seen = addresses.tobytes() + values.tobytes()
        key = id(instr), self.bits  # the lanes of another arm poll for themselves
        again = self._polls.get(key) == seen
        self._polls[key], self.polled = seen, (instr, addresses.item(0), values.item(0))
        self.progress = "polled" if again else "went on"
        cluster = self.cta.cluster
        cluster.unchanged = cluster.unchanged + 1 if again else 0
        self.yielded = True

    def elsewhere(self, bits: int) -> int:
        """Return the lanes at other instructions: the latest entry of the stack that holds a lane says where it is."""
        found = self.bits & ~bits
        placed = self.bits | self.ended
        for block, lanes, _ in reversed(self.stack):
            if block not in self.leaves:
                found |= lanes & ~placed
            placed |= lanes
        return found

    def go_on_once(self) -> None:
        """Prepare a time slice of one instruction."""
        self.yielded, self.progress, self.until = False, "went on", self.executed + 1

    def sleep(self, nanoseconds: int) -> None:
        """Execute nanosleep: let other warps run."""
        self.cta.launch.stats.slept_ns += nanoseconds
        self.passed[ASLEEP] += nanoseconds
        self.progress = "slept"
        self.yielded = True

    def before_thread_sync(self) -> None:
        """Execute tcgen05.fence::before_thread_sync, also part of tcgen05.commit."""
        self.loads.release()
        self.stores.release()

    def complete_used_loads(self, instr: Instr) -> None:
        """Complete the tensor-memory loads whose registers were used before a release or store at `instr`, and note it.

        Loads between them whose registers nothing uses are complete too.
        """
        loads, launch = self.loads, self.cta.launch
        if launch.reads_in_flight:
            self.releases.append((self.time, instr))
        if not loads.issued or launch.enforces(Leniency.TCGEN05_FENCE):
            return
        done = 0
        for number, load in enumerate(loads.issued, 1):
            if launch.uses(load, instr):
                done = number
            elif launch.result_used(load):
                break
        loads.wait(done)

    @contextmanager
    def releasing_for_some(self, instr: Instr, uncovered: frozenset[Any], lanes: int) -> Iterator[None]:
        """Let `instr`, executed by `lanes` (bits), release what other lanes did only up to their last synchronisation.

        uncovered: the accesses, by `Instr.place`, that other lanes may have made since.
        """
        met = self.clock.at(self.component + 1)
        later = {self.component: met} | {p.component: p.waited_before(met) for p in (self.loads, self.stores)}
        whole, whole_after_sync, fenced = self.clock, self.after_sync, self.fenced
        self.clock = whole.without(later, instr, uncovered, lanes)
        self.fenced = [clock and clock.without(later, instr, uncovered, lanes) for clock in fenced]
        unsynced = self.clock.unsynced
        if whole_after_sync is not None:
            self.after_sync = whole_after_sync.without(later, instr, uncovered, lanes)
        try:
            yield
        finally:
            if self.clock.unsynced is unsynced:  # the warp acquired nothing meanwhile
                self.clock.unsynced = whole.unsynced
            whole.merge(self.clock)
            self.clock, self.after_sync, self.fenced = whole, whole_after_sync, fenced

    def knows_started(self, cta: Cta) -> bool:
        """Return whether this warp is ordered after the start of a CTA of its cluster."""
        clock = self.clock
        return bool(clock.at(self.cta.cluster.started)) or any(clock.at(warp.component) for warp in cta.warps)

    def check_started(self, cta: Cta, instr: Instr, what: str) -> None:
        """Report an access of another CTA's shared memory that is not ordered after that CTA's start."""
        # Distributed shared memory: the target CTA must have started (test_another_cta_must_have_started).
        if self.knows_started(cta):
            return
        missing = f"barrier.cluster.arrive and barrier.cluster.wait before PTX line {instr.line}"
        what = f"{what} reaches shared memory of CTA {cta.name}, which may not have started yet"
        self.cta.launch.report(DataRace(what, instr, self, (("missing", missing),)))

    def sreg(self, name: str) -> Any:
        """Return a special register: int if uniform, else uint32[32]. Raises KeyError for an unknown name."""
        value = self.cta.sregs.get(name)
        return value if value is not None else of_warp(name, self.cta.launch.block, self.index, self.executed)
