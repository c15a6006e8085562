"""The static shape of a run: the launch, its clusters, their CTAs."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from random import Random
from typing import TYPE_CHECKING, Any, Literal

from emulator.errors import CooperativeLaunchTooLarge, Fault, LaunchError
from emulator.machine.agents import Agents, Completion
from emulator.machine.barriers import ClusterBarrier, NamedBarrier
from emulator.machine.clocks import Clock, Ledger
from emulator.machine.direct import Direct
from emulator.machine.globalmem import GlobalMemory
from emulator.machine.registers import RegisterPool
from emulator.machine.shared import RANK_SHIFT, SharedMemory
from emulator.machine.source import SourcePlace, source_place
from emulator.machine.statistics import Stats
from emulator.machine.tmem import TensorMemory
from emulator.machine.warp import LANES, Warp
from emulator.ptx.syntax import Address, Dual, Reg, TensorAddress, Vector

if TYPE_CHECKING:
    from emulator.ptx.syntax import Instr, Kernel

Dim3 = tuple[int, int, int]
Numerics = Literal["fp32", "tc"]
Diagnostics = Literal["stop", "report"]
MAX_THREADS = 1024
MAX_SHARED_BYTES = 228 * 1024
MULTIPROCESSORS = 148
CTAS_A_MULTIPROCESSOR = 32
THREADS_A_MULTIPROCESSOR = 2048
NAMED_BARRIERS = 16
REFUSED = 0.3
"""In random mode, the chance that a cluster is launched although another would take over its work."""


@dataclass
class Launch:
    """One kernel launch. Sizes in bytes; `params` is kept alive and starts at `params_address`.

    allocations: (address, bytes, name) of the global memory known so far; closed: there is no other. pedantic: also
    ask for what NVIDIA's own compiler leaves out (tcgen05.fence, tcgen05.wait::ld before registers are reused).
    numerics: "tc" for the tensor core's own rounding. diagnostics: "report" to note what is out of order and go on,
    "stop" to raise it. cooperative: all CTAs must be there at a time.
    """

    kernel: Kernel
    grid: Dim3
    block: Dim3
    params_address: int
    params: Any = None
    cluster: Dim3 = (1, 1, 1)
    dynamic_shared_bytes: int = 0
    allocations: list[tuple[int, int, str]] = field(default_factory=list)
    pedantic: bool = False
    numerics: Numerics = "fp32"
    diagnostics: Diagnostics = "stop"
    closed: bool = False
    cooperative: bool = False

    def __post_init__(self) -> None:
        """Raise LaunchError for what the device would refuse."""
        threads = self.block[0] * self.block[1] * self.block[2]
        if not 0 < threads <= MAX_THREADS:
            raise LaunchError(f"block {self.block} has {threads} threads; allowed is 1 to {MAX_THREADS}")
        if self.kernel.reqntid is not None and self.block != self.kernel.reqntid:
            raise LaunchError(f"block {self.block} is not the kernel's .reqntid {self.kernel.reqntid}")
        if self.shared_bytes > MAX_SHARED_BYTES:
            raise LaunchError(
                f"shared memory of {self.shared_bytes} bytes (1,024 of them reserved); allowed is {MAX_SHARED_BYTES}"
            )
        if any(g % c for g, c in zip(self.grid, self.cluster, strict=True)):
            raise LaunchError(f"grid {self.grid} is not a multiple of the cluster {self.cluster}")
        clusters = prod(g // c for g, c in zip(self.grid, self.cluster, strict=True))
        if self.cooperative and clusters > self.resident_clusters:
            raise CooperativeLaunchTooLarge(
                f"a cooperative launch of {clusters} clusters of {prod(self.cluster)} CTAs of {threads} threads and "
                f"{self.shared_bytes} bytes of shared memory; {self.resident_clusters} are there at a time"
            )
        self.memory = GlobalMemory(self.allocations, self.closed)
        self.stats = Stats()
        self.waiting_clusters: deque[Dim3] = deque()
        self.findings: list[Fault] = []
        self.direct: Direct | None = None
        self.registry: dict[Any, Any] = {}
        """What handlers keep for the whole launch, such as decoded tensor maps."""

    def found(self, fault: Fault) -> None:
        """Raise a fault that leaves memory as it is; or, under diagnostics "report", note it once for its places."""
        if self.diagnostics == "stop":
            raise fault
        if all(fault.places != known.places for known in self.findings):
            self.findings.append(fault)

    @cached_property
    def param_bytes(self) -> bytes:
        """The launch's parameter space."""
        return ctypes.string_at(self.params_address, self.kernel.param_bytes)

    @cached_property
    def _places(self) -> dict[tuple[int, str], int]:
        return {(instr.line, instr.text): i for i, instr in enumerate(self.kernel.instrs)}

    def place(self, instr: Instr) -> int:
        """The index of an instruction in the kernel's list."""
        return self._places[instr.line, instr.text]

    def source_place(self, instr: Instr) -> SourcePlace | None:
        """Where an instruction comes from in the program that was compiled, if the compiler told it."""
        at = self._places.get((instr.line, instr.text))
        return None if at is None else source_place(self.kernel, at)

    def uses(self, load: Instr, later: Instr) -> bool:
        """Whether a destination register of `load` is named between it and `later`, in the order of the text."""
        key = (id(load), id(later))
        if key not in self.registry:
            first, last = self.place(load), self.place(later)
            instrs = self.kernel.instrs
            between = instrs[first + 1 : last] if first < last else instrs[first + 1 :] + instrs[:last]
            written = set(registers(load.operands[:1]))
            self.registry[key] = any(not written.isdisjoint(registers(i.operands)) for i in between)
        return self.registry[key]

    @property
    def shared_bytes(self) -> int:
        """A CTA's window: reserved, static and dynamic shared memory."""
        return self.kernel.dynamic_shared_offset + self.dynamic_shared_bytes

    @property
    def resident_clusters(self) -> int:
        """How many clusters the device has room for at a time, by threads and shared memory."""
        x, y, z = self.cluster
        per_threads = THREADS_A_MULTIPROCESSOR // (self.warps * LANES)
        each = min(CTAS_A_MULTIPROCESSOR, per_threads, MAX_SHARED_BYTES // self.shared_bytes)
        return max(MULTIPROCESSORS * each // (x * y * z), 1)

    @property
    def warps(self) -> int:
        """Warps of a CTA."""
        x, y, z = self.block
        return -(-x * y * z // LANES)

    def clusters(self) -> Iterator[Dim3]:
        """The cluster indices of the grid, x fastest, but for those whose work a running cluster took over."""
        counts = [g // c for g, c in zip(self.grid, self.cluster, strict=True)]
        self.waiting_clusters = deque((x, y, z) for z, y, x in product(*(range(n) for n in reversed(counts))))
        while self.waiting_clusters:
            yield self.waiting_clusters.popleft()

    def take_cluster(self, by: Cluster) -> Dim3 | None:
        """The first CTA of a cluster that need not be launched any more; None if there is none (or by chance)."""
        by_chance = by.agents.completion == "random" and by.random.random() < REFUSED
        if by_chance or not self.waiting_clusters:
            return None
        x, y, z = (i * c for i, c in zip(self.waiting_clusters.popleft(), self.cluster, strict=True))
        return x, y, z


def registers(operands: Iterable[Any]) -> Iterator[str]:
    """The names of the registers in operands, those inside vectors and addresses too."""
    for operand in operands:
        match operand:
            case Reg(name):
                yield name
            case Vector(items):
                yield from registers(items)
            case Address(base) | TensorAddress(Address(base)):
                yield from registers((base,))
            case Dual(d, p):
                yield from registers((d, p))


class Cta:
    """One CTA: its memories, barriers and warps. `window` is the high part of its shared addresses."""

    def __init__(self, cluster: Cluster, rank: int, ctaid: Dim3) -> None:
        self.cluster, self.launch, self.rank, self.ctaid = cluster, cluster.launch, rank, ctaid
        self.window = rank << RANK_SHIFT
        self.name = "({},{},{})".format(*ctaid)
        self.smem = SharedMemory(self, self.launch.shared_bytes)
        self.tmem = TensorMemory(self)
        self.barriers = [NamedBarrier(self, i) for i in range(NAMED_BARRIERS)]
        self.registers = RegisterPool(self)
        self.sregs = self._special_registers()
        self.warps = [Warp(self, i) for i in range(self.launch.warps)]
        self.running = len(self.warps)

    def _special_registers(self) -> dict[str, Any]:
        launch, cluster = self.launch, self.cluster
        within = tuple(i % c for i, c in zip(self.ctaid, launch.cluster, strict=True))
        counts = tuple(g // c for g, c in zip(launch.grid, launch.cluster, strict=True))
        triples = {
            "ntid": launch.block,
            "ctaid": self.ctaid,
            "nctaid": launch.grid,
            "clusterid": cluster.index,
            "nclusterid": counts,
            "cluster_ctaid": within,
            "cluster_nctaid": launch.cluster,
        }
        values = {f"%{name}.{axis}": t[i] for name, t in triples.items() for i, axis in enumerate("xyz")}
        size = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
        return values | {
            "%nwarpid": launch.warps,
            "%cluster_ctarank": self.rank,
            "%cluster_nctarank": size,
            "%is_explicit_cluster": int(size > 1),
            "%smid": 0,
            "%nsmid": MULTIPROCESSORS,
            "%gridid": 1,
            "%dynamic_smem_size": launch.dynamic_shared_bytes,
            "%total_smem_size": launch.shared_bytes - 1024,
            "%aggr_smem_size": launch.shared_bytes,
        }

    def __str__(self) -> str:
        return f"CTA {self.name}"


class Cluster:
    """The CTAs that run together, their clocks, and the queue of warps that can run."""

    def __init__(self, launch: Launch, index: Dim3, completion: Completion, random: Random) -> None:
        self.launch, self.index, self.random = launch, index, random
        cx, cy, cz = launch.cluster
        size = cx * cy * cz
        self.ledger = Ledger(64 + 6 * launch.warps * size)
        self.agents = Agents(completion, random)
        first = tuple(i * c for i, c in zip(index, launch.cluster, strict=True))
        self.ctas = [
            Cta(self, rank, (first[0] + rank % cx, first[1] + rank // cx % cy, first[2] + rank // (cx * cy)))
            for rank in range(size)
        ]
        self.warps = [w for cta in self.ctas for w in cta.warps]
        self.barrier = ClusterBarrier(self)
        self.ready: deque[Warp] = deque(self.warps)
        self.flags: dict[tuple[int, int], Clock] = {}
        """What releases of ordinary memory locations carry, by (memory, address)."""
        self.polls = 0
        """Rounds of polling answered no since a wait last ended."""

    def wake(self, warps: list[Warp]) -> None:
        """Let warps run again whose wait has ended."""
        self.polls = 0
        for warp in warps:
            self.resume(warp)

    def resume(self, warp: Warp) -> None:
        """Let a suspended warp run again."""
        if warp.waiting is not None:
            warp.waiting = None
            self.ready.append(warp)
