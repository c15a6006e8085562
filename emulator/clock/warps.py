"""The machine in modelled time: SMs with their pipes, CTAs with memories and barriers, and warps."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..machine.launch.launch import Dim3, Launch
from ..machine.launch.special_registers import of_cta, of_warp
from ..ptx.syntax import Instr
from .accesses import Requests
from .barriers import TimedBarrier, TimedMBarrier
from .segment import LONG_SCOREBOARD, PIPES, SUB_PARTITIONS, Segment

IN_FLIGHT = 8
"""The maximum number of incomplete warp group MMAs of a warp; the next waits to issue (measured on an H200)."""
FETCHED_AHEAD = 2
"""The number of MMAs whose operands are fetched before they start."""
Op = tuple[Any, ...]
"""The next operation of a warp: a function of (warp, time, *arguments).

It returns the time at which the warp continues, or None if the warp waits.
"""


@dataclass(frozen=True)
class Tensor:
    """A tensor in global memory.

    bytes, box_bytes, row_bytes: the sizes of the tensor, of a TMA box and of the box's rows.
    box_lines: the box's lines of 128 bytes. spread: the probability that these are in both halves of L2.
    box: its sizes, innermost first.
    """

    address: int
    bytes: int
    box_bytes: int
    box_lines: int
    row_bytes: int = 0
    spread: float = 0.0
    box: tuple[int, ...] = ()


@dataclass(slots=True)
class Prefetch:
    """Bytes that are in L2 from time `done` on and have not been loaded."""

    address: int
    bytes: float
    done: float


class Sm:
    """One SM: the time until which each part is occupied, and its total use."""

    def __init__(self) -> None:
        self.pipes = [[0.0] * len(PIPES) for _ in range(SUB_PARTITIONS)]
        self.lsu = 0.0
        self.tensor = self.tma = self.out = self.hbm = self.l2 = 0.0
        self.fetched = 0.0
        """The time until which the operands of MMAs occupy the shared memory port."""
        self.started: deque[float] = deque((0.0, 0.0), maxlen=FETCHED_AHEAD)
        """Start times of the last MMAs."""
        self.collector = ""
        """The collector buffer of the last tcgen05.mma."""
        self.port_backlog = 0.0
        """Cycles that other accesses took from the port and fetches have not made up for."""
        self.to_l2 = 0.0
        """The time until which requests of loads, and stores, take the SM's port to L2."""
        self.sent = 0.0
        self.received = 0.0
        """The times until which copies to other CTAs of the cluster are sent, and copies from them are received."""
        self.tmem = [0.0] * SUB_PARTITIONS
        self.products = [0.0] * SUB_PARTITIONS
        """The time until which warp group MMAs occupy the tensor core of each sub-partition."""
        self.delays = [0.0] * SUB_PARTITIONS
        """The total cycles by which ordinary instructions delayed them: both use the register file."""
        self.outstanding, self.coming = 0, 0.0
        """Bytes of loads under way, and of prefetches to L2."""
        self.flying: deque[tuple[float, float]] = deque()
        """(completion time, bytes) of warps' own loads from HBM, of `in_flight` bytes in all."""
        self.in_flight = self.awaited = 0.0
        """awaited: the bytes of such loads, if SMs are out of step."""
        self.prefetched: list[Prefetch] = []
        self.warm = float("inf")
        """The time at which the launch's first load completed. Earlier loads take longer."""
        self.streams = False
        """True if an asynchronous load from HBM was requested."""
        self.busy: dict[str | int, float] = {}
        """Cycles (or bytes) of use, by the number of a pipe or the name of a part."""
        self.segments: Counter[int] = Counter()
        """Number of times that warps began each segment, by its number."""
        self.code: dict[int, float] = {}
        """The time at which the code of each segment was there, by its number."""
        self.executed: Counter[int] = Counter()
        """Number of times that warps executed each operation, by its PTX line."""

    def occupy_port(self, cycles: float) -> None:
        """Take cycles of the shared memory port for other accesses than operands of MMAs."""
        self.port_backlog += cycles
        self.use("shared memory", cycles)

    def use(self, what: str, cycles: float) -> None:
        """Count cycles (or bytes) of use of a part."""
        self.busy[what] = self.busy.get(what, 0.0) + cycles


class TimedCluster:
    """A cluster in modelled time. start, end: cycles."""

    def __init__(self, launch: Launch, index: Dim3, sms: list[Sm], start: float) -> None:
        self.launch, self.index, self.start, self.end = launch, index, start, start
        cx, cy, _ = launch.cluster
        first = tuple(i * c for i, c in zip(index, launch.cluster, strict=True))
        self.ctas = [
            TimedCta(self, rank, (first[0] + rank % cx, first[1] + rank // cx % cy, first[2] + rank // (cx * cy)), sm)
            for rank, sm in enumerate(sms)
        ]
        self.warps = [warp for cta in self.ctas for warp in cta.warps]
        self.barrier = TimedBarrier("barrier.cluster")
        self.running = len(self.warps)
        self.updated: dict[int, np.ndarray] = {}
        """Elements of global memory that atomics have updated, by address. The launch's memory is not changed."""

    def waits_for_hbm(self, cycles: float) -> None:
        """Let the cluster end later, and its warps wait longer for loads; warps without loads, for what they wait."""
        self.end += cycles
        for warp in self.warps:
            waits = [wait for wait in warp.waits.values() if wait.what == LONG_SCOREBOARD] or [*warp.waits.values()]
            for wait, longer in zip(waits, _split(cycles, [wait.cycles for wait in waits]), strict=True):
                reason = max(wait.reasons, key=lambda of: wait.reasons[of], default=LONG_SCOREBOARD)
                wait.cycles += longer
                wait.reasons[reason] += longer


def _split(whole: float, weights: Sequence[float]) -> list[float]:
    """Split a number by weights, equally if all are 0."""
    total = sum(weights)
    return [whole * weight / total if total else whole / len(weights) for weight in weights]


class TimedCta:
    """One CTA in modelled time. It has the attributes `launch` and `window` that `Program` requires."""

    def __init__(self, cluster: TimedCluster, rank: int, ctaid: Dim3, sm: Sm) -> None:
        self.cluster, self.launch, self.rank, self.sm = cluster, cluster.launch, rank, sm
        self.window = rank << 24
        self.name = "({},{},{})".format(*ctaid)
        self.smem = np.zeros(-(-self.launch.shared_bytes // 16) * 16, np.uint8)
        self.stored_by = np.zeros(self.smem.size, np.uint16)
        """The number of the warp that last stored each byte of shared memory, 0 if none did."""
        self.mbarriers: dict[int, TimedMBarrier] = {}
        self.barriers = [TimedBarrier(f"barrier {i}") for i in range(16)]
        self.tmem_columns = 0
        self.sregs = of_cta(self.launch, cluster.index, ctaid, rank)
        self.warps = [TimedWarp(self, i) for i in range(self.launch.warps)]
        self.running = len(self.warps)

        self.ctaid = ctaid

    def __str__(self) -> str:
        return f"CTA {self.name}"


@dataclass
class Waiting:
    """The waits of a warp at one instruction for one thing: their number, total cycles, and cycles by reason."""

    what: str
    times: int = 0
    cycles: float = 0.0
    reasons: defaultdict[str, float] = field(default_factory=partial(defaultdict, float))


@dataclass
class Copies:
    """Asynchronous copies of a lane or a warp, in groups of (completion time, time at which the source was read)."""

    open: tuple[float, float] = (0.0, 0.0)
    groups: deque[tuple[float, float]] = field(default_factory=deque)

    def add(self, done: float, read: float) -> None:
        self.open = max(self.open[0], done), max(self.open[1], read)

    def commit(self) -> None:
        self.groups.append(self.open)
        self.open = (0.0, 0.0)

    def over(self, allowed: int, read: bool) -> float:
        """Return the completion time of all groups but the last `allowed`."""
        count = max(len(self.groups) - allowed, 0)
        times = [self.groups.popleft()[read] for _ in range(count)]
        return max(times, default=0.0)


class TimedWarp:
    """A warp in modelled time. It has the attributes that `Program` requires of a warp.

    ops: operations that the warp issued and the timeline has not performed.
    """

    def __init__(self, cta: TimedCta, index: int) -> None:
        self.cta, self.index, self.sm = cta, index, cta.sm
        self.number = 1 + cta.rank * cta.launch.warps + index
        """The number of the warp in its cluster, from 1."""
        self.free = cta.sm.pipes[index % SUB_PARTITIONS]
        self.registers: Any = None
        self.pc: Any = 0
        self.meet: Any = 0
        self.lane = 0
        self.stack: Any = ()
        self.loads = self.products = self.taint = None
        self.bits = self.ended = self.ahead = 0
        self.leaves: frozenset[int] = frozenset()
        self.mask: np.ndarray | None = None
        self.yielded = self.done = False
        self.executed, self.until = 0, sys.maxsize
        self.local: tuple[np.ndarray, np.ndarray] | None = None
        self.ops: deque[Op] = deque()
        self.segment: Segment | None = None
        self.at = 0
        """The next slice of the current segment."""
        self.progress = 0.0
        """The cycles of schedules that the warp has passed."""
        self.late: list[tuple[float, float]] = []
        """A heap of loads in the LSU's queue: the progress at which they are used first, and when the LSU is done."""
        self.due: list[tuple[float, float]] = []
        """The same for loads of global memory that take longer than their latency: the progress, and when they came."""
        self.asked = 0.0
        """Its ordinary loads from HBM that are in flight."""
        self.asked_until: deque[tuple[float, float]] = deque()
        """(a slice before they come, their number) of these."""
        self.wait_result: Any = None
        """The result of the instruction at which the warp waited; None while it waits."""
        self.since: tuple[float, Instr, str] | None = None
        """(start, instruction, reason) of the current wait."""
        self.waits: dict[tuple[int, str], Waiting] = {}
        self.running_cycles = 0.0
        """The cycles in segments, but for waits for global memory."""
        self.segments: Counter[int] = Counter()
        """Number of times that the warp began each segment, by its number."""
        self.loaded = 0
        """Bytes of the copies from global memory that the warp issued."""
        self.stores_done = self.tensor_done = self.copied = 0.0
        self.stored_until = 0.0
        """The time from which all SMs see the warp's own stores to global memory."""
        self.loading: set[int] = set()
        """PTX lines of loads for which the warp will wait at the first use."""
        self.loads_done: dict[int, tuple[float, Instr, str]] = {}
        """(completion time, instruction, reason to wait) of these loads, by PTX line."""
        self.carried: dict[int, float] = {}
        """The completion times of loads that later blocks wait for, by PTX line."""
        self.copies: dict[Any, Copies] = {}
        self.sending = 0.0
        """The time until which the warp's cp.async are sent."""
        self.in_flight: deque[float] = deque(maxlen=IN_FLIGHT)
        """Completion times of the last warp group MMAs."""
        self.cluster_generation = 0
        self.arrived = -1
        """The generation of the cluster's barrier at which the warp has arrived last."""
        self.compared: Counter[int] = Counter()
        """The count of computations of each predicate of a comparison of data."""
        self.requests: Requests | None = None
        """The warp's ordinary loads of global memory, if they are recorded."""
        self.timeline: Any = None
        self.go: Callable[[float], None]

    def __str__(self) -> str:
        return f"warp {self.index} of {self.cta}"

    def elsewhere(self, bits: int) -> int:
        """Return 0: in modelled time an exchange takes the lanes that come to it together."""
        return 0

    def sreg(self, name: str) -> Any:
        """Return the value of a special register."""
        value = self.cta.sregs.get(name)
        return value if value is not None else of_warp(name, self.cta.launch.block, self.index, self.executed)

    @property
    def is_due(self) -> bool:
        """True if it waits for a late load of global memory."""
        return bool(self.due) and self.due[0][0] <= self.progress

    def asks(self, now: float, until: float, loads: float) -> float:
        """Add ordinary loads from HBM; return how many are in flight."""
        while self.asked_until and self.asked_until[0][0] <= now:
            self.asked -= self.asked_until.popleft()[1]
        self.asked_until.append((until, loads))
        self.asked += loads
        return self.asked

    def visited(self, line: int, what: str) -> Waiting:
        """Record that the warp passed a wait. Warps of one role pass the same waits, even those that do not block.

        line: of the PTX.
        """
        found = self.waits.get((line, what))
        if found is None:
            found = self.waits[line, what] = Waiting(what)
        return found

    def waited(self, line: int, what: str, cycles: float, reason: str) -> None:
        """Record a wait that ended. reason: its kind, as in `stalls`."""
        found = self.visited(line, what)
        found.times += 1
        found.cycles += cycles
        found.reasons[reason] += cycles

    def stalled(self, line: int, cycles: float, begins: bool) -> None:
        """Record a part of a wait for a value from L2 or HBM."""
        self.waited(line, LONG_SCOREBOARD, cycles, LONG_SCOREBOARD)
        self.waits[line, LONG_SCOREBOARD].times -= not begins
