"""The kernel's mbarriers by name: initialize, wait, arrive, expect bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import cutlass.cute as cute
from cutlass import const_expr
from cutlass.experimental import primitives

from kernel.device.config import DeviceConfig
from kernel.device.tiles import LoopInvariant
from kernel.hardware import WARP


def sync_ctas(ctas: int) -> None:
    """Synchronize all threads of the CTA, or of the cluster if it has more than one CTA."""
    if ctas > 1:
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
    else:
        cute.arch.sync_threads()


@dataclass
class Barriers(LoopInvariant):
    """Addresses of the mbarriers by name, in the order of DeviceConfig.barriers."""

    config: DeviceConfig
    base: cute.Pointer

    def at(self, name: str, stage: Any = 0) -> cute.Pointer:
        """Address of a barrier's stage."""
        return self.base + (self.config.barrier_offset(name) + stage)

    def slot_and_phase(self, i: Any, slice_: Any = 0) -> tuple[Any, Any]:
        """Ring slot of a slice of KV tile `i`, and the phase in which the slot is full."""
        depth = self.config.smem.depth
        return (i & depth - 1) * self.config.slices + slice_, i >> depth.bit_length() - 1 & 1

    def init(self) -> None:
        """Set every arrival count. One thread calls this."""
        for barrier in self.config.barriers:
            for stage in range(barrier.stages):
                cute.arch.mbarrier_init(self.at(barrier.name, stage), barrier.arrivals)

    def wait(self, name: str, stage: Any, phase: Any) -> None:
        """Wait until a phase of a barrier has completed."""
        cute.arch.mbarrier_wait(self.at(name, stage), phase)
        self.fence(name, "after_thread_sync")

    def arrive_warp(self, name: str, stage: Any, ctas: int = 1, copies: bool = False) -> None:
        """Arrive for the warp, when all of its lanes are here, at the CTA whose MMA warp waits.

        ctas: above 1, arrive at this number of adjacent CTAs of the cluster instead, this one among them. copies: each
        lane's copies arrive besides.
        """
        self.fence(name, "before_thread_sync")
        arrivals = self.config.barrier(name).of_warp - WARP * copies
        cute.arch.sync_warp()
        ranks: list[Any] = [self.config.variant.leader]
        if ctas > 1:
            rank = cute.arch.block_idx_in_cluster()
            ranks = [each if ctas == self.config.cluster_ctas else rank ^ each for each in range(ctas)]
        with cute.arch.elect_one():
            for cta in ranks:
                cute.arch.mbarrier_arrive(self.at(name, stage), cta, arrivals)

    def arrive_copies(self, name: str, stage: Any) -> None:
        """Arrive for each lane when its copies by cp.async so far are complete."""
        primitives.cp_async_mbarrier_arrive(self.at(name, stage), noinc=True)

    def fence(self, name: str, side: Literal["before_thread_sync", "after_thread_sync"]) -> None:
        """Fence accesses that the barrier orders and an arrival and a wait alone do not; here there are none."""

    def expect(self, name: str, stage: Any, tx_bytes: int, local: bool = False) -> cute.Pointer:
        """Arrive for the warp and expect `tx_bytes`; return the barrier that the load has to signal.

        The arrival goes to the CTA whose MMA warp waits. local: it goes to this CTA, which waits itself.
        """
        barrier = self.at(name, stage)
        leader, others = None if local else self.config.variant.leader, self.config.barrier(name).of_warp - 1
        with cute.arch.elect_one():
            if const_expr(others > 0):
                cute.arch.mbarrier_arrive(barrier, leader, others)
            cute.arch.mbarrier_arrive_and_expect_tx(barrier, tx_bytes, leader)
        return barrier
