"""A launch: its configuration, the memory that it may access, its findings."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from random import Random
from typing import Any, Literal

from ...chip import CTAS_AN_SM, LANES, MAX_CTAS_A_CLUSTER, MAX_THREADS_A_CTA, SHARED_BYTES_AN_SM, SMS, THREADS_AN_SM
from ...errors import CooperativeLaunchTooLarge, EmulatorError, Fault, LaunchError, Level
from ...leniency import Leniency
from ...ptx.syntax import Instr, Kernel, Operand, Reg, atoms
from .globalmem import GlobalMemory
from .source import SourcePlace, source_place
from .statistics import Stats

Dim3 = tuple[int, int, int]
Numerics = Literal["fp32", "tc"]
Diagnostics = Literal["stop", "report"]
LevelName = Literal["fault", "formal", "pedantic"]


@dataclass
class Launch:
    """One kernel launch. Sizes in bytes; `params` is kept alive and starts at `params_address`.

    allocations: (address, bytes, name) of known global memory. constants: the addresses of those in constant memory.
    closed: there is no other global memory. level: the strictest level that counts as an error. numerics: "tc" for the
    tensor core's own rounding. diagnostics: "stop" raises the first finding that leaves memory unchanged, "report"
    records it and continues. cooperative: all CTAs must be resident together. names: names of mbarriers, by byte
    offset from the start of dynamic shared memory. surroundings: the `machine.order.operations.Surroundings`, for which
    every access is recorded. None if nothing runs concurrently. denies: tests of mbarriers and requests for clusters
    return false, as PTX allows. knows: returns whether a finding is known, so that the launch continues after it.
    """

    kernel: Kernel
    grid: Dim3
    block: Dim3
    params_address: int
    params: Any = None
    cluster: Dim3 = (1, 1, 1)
    dynamic_shared_bytes: int = 0
    allocations: list[tuple[int, int, str]] = field(default_factory=list)
    level: Level = Level.FAULT
    numerics: Numerics = "fp32"
    diagnostics: Diagnostics = "stop"
    closed: bool = False
    cooperative: bool = False
    names: Mapping[int, str] = field(default_factory=dict)
    surroundings: Any = None
    denies: bool = False
    knows: Callable[[Fault], bool] = lambda _fault: False
    constants: Sequence[range] = ()

    def __post_init__(self) -> None:
        """Raise LaunchError for a configuration that the device would reject."""
        threads = self.block[0] * self.block[1] * self.block[2]
        if not 0 < threads <= MAX_THREADS_A_CTA:
            raise LaunchError(f"block {self.block} has {threads} threads; allowed is 1 to {MAX_THREADS_A_CTA}")
        beyond = [f"{at} is {n}; allowed is 1 to {most}" for at, n, most in _sizes(self) if not 0 < n <= most]
        if beyond:
            raise LaunchError("; ".join(beyond))
        if self.kernel.maxntid is not None and threads > prod(self.kernel.maxntid):
            raise LaunchError(f"block {self.block} has more threads than the kernel's .maxntid {self.kernel.maxntid}")
        if self.kernel.reqntid is not None and self.block != self.kernel.reqntid:
            raise LaunchError(f"block {self.block} is not the kernel's .reqntid {self.kernel.reqntid}")
        if self.shared_bytes > SHARED_BYTES_AN_SM:
            raise LaunchError(
                f"shared memory of {self.shared_bytes} bytes (1,024 of them reserved); allowed is {SHARED_BYTES_AN_SM}"
            )
        if any(g % c for g, c in zip(self.grid, self.cluster, strict=True)):
            raise LaunchError(f"grid {self.grid} is not a multiple of the cluster {self.cluster}")
        clusters = prod(self.grid_of_clusters)
        if self.cooperative and clusters > self.resident_clusters:
            raise CooperativeLaunchTooLarge(
                f"a cooperative launch of {clusters} clusters of {prod(self.cluster)} CTAs of {threads} threads and "
                f"{self.shared_bytes} bytes of shared memory; the device holds {self.resident_clusters} at a time"
            )
        self.workspace: Any = (ctypes.c_uint32 * 2)(8, 0) if self.cooperative else None
        """The memory of `grid.sync()`: its size in bytes, and a count of arrivals."""
        if self.workspace is not None:
            self.allocations = [*self.allocations, (ctypes.addressof(self.workspace), 8, "the grid's workspace")]
        self.memory = GlobalMemory(self.allocations, self.closed, self.report)
        if self.surroundings is not None:
            self.memory.track_all()
        self.stats = Stats()
        self.waiting_clusters: deque[Dim3] = deque()
        self.findings: list[Fault] = []
        self.known: list[Fault] = []
        self.held: Fault | None = None
        """The first race between lanes of a warp. The launch goes on to see whether it is one across warps too."""
        self.reads_in_flight: Mapping[Any, frozenset[Any]] = {}
        """The reads that may be in flight at each arrival that has some, by place; see `engine.in_flight`."""
        self.registry: dict[Any, Any] = {}
        """Data kept for the whole launch by its users, such as decoded tensor maps."""

    def checks(self, level: Level) -> bool:
        """Return whether findings of this level are requested."""
        return self.level >= level

    def enforces(self, rule: Leniency) -> bool:
        """Return whether findings that a rule puts below the level `fault` are requested."""
        return self.level >= rule.level

    def report(self, fault: Fault) -> None:
        """Report a fault that leaves memory unchanged: raise it, or record it once per cause.

        It is raised if it is not known, its level is requested and diagnostics is "stop". Formal findings are recorded
        at any level, pedantic ones only if requested.
        """
        if self.knows(fault) or any(known.same_cause(fault) for known in self.known):
            _record(self.known, fault)
            return
        asked = self.checks(fault.level)
        if asked and self.diagnostics == "stop":
            if fault.between_lanes:
                self.held = self.held or fault
                return
            raise self.first(fault)
        if not asked and fault.level > Level.FORMAL:
            return
        if any(known.explains(fault) for known in self.findings):
            return
        self.findings[:] = [known for known in self.findings if not fault.explains(known)]
        _record(self.findings, fault)

    def first(self, error: EmulatorError) -> EmulatorError:
        """Return the error to raise: a race between lanes before it, unless `error` is the same race across warps."""
        if self.held is None or (isinstance(error, Fault) and error.explains(self.held)):
            return error
        return self.held

    def raise_held(self) -> None:
        """Raise a race between lanes that turned out to be no race across warps."""
        if self.held is not None:
            raise self.held

    @cached_property
    def param_bytes(self) -> bytes:
        """The bytes of the launch's parameter space."""
        return ctypes.string_at(self.params_address, self.kernel.param_bytes)

    def place(self, instr: Instr) -> int:
        """Return the index of an instruction in the kernel's list."""
        return self.kernel.places[instr.place]

    def source_place(self, instr: Instr) -> SourcePlace | None:
        """Return the source location of an instruction, or None if the compiler gave none."""
        at = self.kernel.places.get(instr.place)
        return None if at is None else source_place(self.kernel, at)

    def uses(self, load: Instr, later: Instr) -> bool:
        """Return whether an instruction after `load` up to `later`, in text order, names a destination of `load`."""
        key = (id(load), id(later))
        known: bool | None = self.registry.get(key)
        if known is None:
            written = registers(load.operands[:1])
            behind = (*self.between(load, later), later)
            known = self.registry[key] = any(not written.isdisjoint(registers(i.operands)) for i in behind)
        return known

    def result_used(self, instr: Instr) -> bool:
        """Return whether another instruction names a register that `instr` writes."""
        key = (Launch.result_used, id(instr))
        known: bool | None = self.registry.get(key)
        if known is None:
            written, others = registers(instr.operands[:1]), self.between(instr, instr)
            known = self.registry[key] = any(not written.isdisjoint(registers(each.operands)) for each in others)
        return known

    def between(self, first: Instr, last: Instr) -> Sequence[Instr]:
        """Return the instructions from one to another in text order, wrapping around at the kernel's end."""
        a, b, instrs = self.place(first), self.place(last), self.kernel.instrs
        return instrs[a + 1 : b] if a < b else instrs[a + 1 :] + instrs[:b]

    @property
    def shared_bytes(self) -> int:
        """The size of a CTA's shared window: reserved, static and dynamic shared memory."""
        if not self.dynamic_shared_bytes:
            return self.kernel.static_shared_bytes
        return self.kernel.dynamic_shared_offset + self.dynamic_shared_bytes

    @property
    def resident_clusters(self) -> int:
        """The number of clusters that the device can hold at a time, by threads and shared memory."""
        per_threads = THREADS_AN_SM // (self.warps * LANES)
        each = min(CTAS_AN_SM, per_threads, SHARED_BYTES_AN_SM // self.shared_bytes)
        return max(SMS * each // prod(self.cluster), 1)

    @property
    def warps(self) -> int:
        """The number of warps in a CTA."""
        return -(-prod(self.block) // LANES)

    @property
    def grid_of_clusters(self) -> Dim3:
        """The number of clusters in each direction of the grid."""
        x, y, z = (g // c for g, c in zip(self.grid, self.cluster, strict=True))
        return x, y, z

    def clusters(self, random: Random | None = None) -> Iterator[Dim3]:
        """Yield the cluster indices of the grid, x fastest, except clusters that a running one cancelled.

        random: shuffle them within waves of as many as the device can hold, because programs rely on later clusters
        not coming first.
        """
        indices = [(x, y, z) for z, y, x in product(*map(range, reversed(self.grid_of_clusters)))]
        if random is not None:
            size = self.resident_clusters
            waves = (indices[first : first + size] for first in range(0, len(indices), size))
            indices = [index for wave in waves for index in random.sample(wave, len(wave))]
        self.waiting_clusters = deque(indices)
        while self.waiting_clusters:
            yield self.waiting_clusters.popleft()


def registers(operands: Iterable[Operand]) -> set[str]:
    """Return the names of the registers in operands."""
    return {found.name for found in atoms(operands) if isinstance(found, Reg)}


def _record(findings: list[Fault], fault: Fault) -> None:
    """Append a fault, or count one of the same cause."""
    for earlier in findings:
        if earlier.same_cause(fault):
            earlier.times += 1
            return
    findings.append(fault)


def _sizes(launch: Launch) -> list[tuple[str, int, int]]:
    """Return name, value and limit of each count of a launch, by CUDA's guide for every chip."""
    (x, y, z), depth = launch.grid, launch.block[2]
    grid = [("the grid's x", x, 2**31 - 1), ("the grid's y", y, 2**16 - 1), ("the grid's z", z, 2**16 - 1)]
    return [*grid, ("the block's z", depth, 64), ("CTAs of a cluster", prod(launch.cluster), MAX_CTAS_A_CLUSTER)]
