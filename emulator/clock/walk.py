"""Walks: run a cluster's warps through their programs to find out what they load and store.

Computations take no time, and outputs are not timed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Final

from ..errors import Deadlock
from .accesses import RECORDED, Placement, Requests
from .barriers import TimedMBarrier
from .timeline import Timeline
from .warps import Tensor, TimedCluster, TimedCta, TimedWarp

if TYPE_CHECKING:
    import numpy as np

    from ..machine.launch.launch import Dim3
    from ..ptx.syntax import Instr

STEP_LIMIT: Final = 4_000_000
"""The instruction limit of a warp."""


class Walk(Timeline):
    """A walk of clusters, one after the other, and what their warps issued."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.loaded: Counter[Tensor] = Counter()
        """Bytes that copies load of each tensor."""
        self.requests: list[list[Requests]] = [[] for _ in self.sms]
        """The ordinary loads of each warp of each CTA of a recorded cluster."""
        self._records = False
        self._placement = Placement()
        self.stored = 0
        """Bytes that are stored to global memory."""
        self.stored_at: Counter[int] = Counter()
        self.partly = defaultdict[int, float](float)
        """Those that warps store, and what HBM moves at once for those of partly stored sectors, by the store's
        index."""
        self.moved = defaultdict[str, float](float)
        """Bytes that are loaded and stored in ways that may never have been compared with the chip, by name."""
        self.gathered: dict[Tensor, set[tuple[int, int]]] = {}
        """The (column, row) of each gathered row, or (0, address) of each cp.async, by tensor."""
        self.boxes: dict[int, list[tuple[int, ...]]] = {}
        """The coordinates of loaded boxes in order, by tensor address, if they follow from the launch."""
        self.passed: dict[int, bool] = {}
        """By PTX line: True if a load from shared memory found a store of another warp."""

    def cluster(
        self, index: Dim3, in_order: bool, only: Collection[int] = (), enough: Callable[[], bool] = lambda: False
    ) -> TimedCluster:
        """Run the warps of a cluster.

        in_order: all of them, in the order that their waits give. Otherwise every wait is satisfied at once.
        only: run just these warps, if not in order. enough: returns True if the rest need not run.
        """
        if in_order:
            return self.in_order(index, enough)
        cluster = TimedCluster(self.launch, index, self.sms, 0.0)
        for warp in [cluster.warps[i] for i in only] or cluster.warps:
            self.prepare(warp)
            while not (warp.done or enough()):
                self.advance(warp)
                warp.ops.clear()
                warp.wait_result = True
        return cluster

    def in_order(self, index: Dim3, enough: Callable[[], bool]) -> TimedCluster:
        """Run all warps of a cluster in the order that their waits give, until `enough` returns True."""
        self._next = iter((index,))
        self._start(0.0)
        (cluster,) = self._live
        self._perform(enough)
        if cluster.running and not enough():
            raise Deadlock(f"cluster {index} waits for something that no warp of it does", ())
        self._heap.clear()
        self._live.clear()
        return cluster

    def recorded(self, index: Dim3, in_order: bool, whole: bool = True) -> TimedCluster:
        """Run a cluster and record the ordinary loads of its warps. whole: beyond those that are recorded."""
        self._records = True
        cluster = self.cluster(index, in_order, enough=lambda: not whole and self._newest.full)
        self._records = False
        return cluster

    @property
    def _newest(self) -> Requests:
        """The requests of the warp that began last. The warps of a CTA may begin before those of the next one."""
        return next(each for each in reversed(self.requests) if each)[-1]

    def prepare(self, warp: TimedWarp) -> None:
        super().prepare(warp)
        if self._records:
            warp.requests = Requests(RECORDED // self.launch.warps, self._placement)
            self.requests[warp.cta.rank].append(warp.requests)

    def advance(self, warp: TimedWarp) -> None:
        super().advance(warp)
        if warp.executed > STEP_LIMIT:
            hint = "; diverged lanes that wait for each other are not modelled in time" if warp.stack else ""
            raise Deadlock(f"{warp} does not end, even if its computations take no time{hint}", ())

    def begin(self, warp: TimedWarp, number: int, now: float) -> float:
        return now

    def issues_copy(
        self,
        warp: TimedWarp,
        tensor: Tensor | None,
        size: int,
        rows: Iterable[tuple[int, int]] = (),
        box: Iterable[int] = (),
        how: str = "",
    ) -> None:
        warp.loaded += size
        if how:
            self.moved[how] += size
        if tensor is None:
            return
        self.loaded[tensor] += size
        if found := {*rows}:
            self.gathered.setdefault(tensor, set()).update(found)
        if place := (*box,):
            self.boxes.setdefault(tensor.address, []).append(place)

    def issues_store(self, size: int, how: str, at: int | None = None, partly: float = 0.0) -> None:
        self.stored += size
        if at is not None:
            self.stored_at[at] += size
            self.partly[at] += partly
        self.moved[how] += size

    def loads_shared(self, warp: TimedWarp, line: int, stored_by: np.ndarray) -> None:
        others = (stored_by != 0) & (stored_by != warp.number)
        self.passed[line] = self.passed.get(line, False) or bool(others.any())

    def unknown_mbarrier(self, warp: TimedWarp, cta: TimedCta, offset: int, instr: Instr) -> TimedMBarrier:
        """Return a new one: the warp that initialises it may not run, or run later."""
        found = cta.mbarriers[offset] = TimedMBarrier("", 1, instr)
        return found
