"""The kernel's mbarriers by name, and who arrives at them how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass.cute as cute
from cutlass import Int16
from cutlass.cute.nvgpu import tcgen05
from cutlass.experimental import primitives

from kernel.config import S_STAGES, FmhaConfig
from kernel.sm100.tiles import Fixed

#: Barriers that order accesses to tensor memory by different warps.
ORDER_TENSOR_MEMORY = ("s_full", "p_full", "o_done")


def cta_group(config: FmhaConfig) -> tcgen05.CtaGroup:
    return tcgen05.CtaGroup.TWO if config.mma_ctas == 2 else tcgen05.CtaGroup.ONE


def meet(ctas: int) -> None:
    """All threads of the CTA, or of the cluster's so many."""
    if ctas > 1:
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
    else:
        cute.arch.sync_threads()


@dataclass
class Barriers(Fixed):
    """Addresses of the mbarriers by name, in the order of FmhaConfig.barriers."""

    config: FmhaConfig
    base: cute.Pointer

    def at(self, name: str, stage: Any = 0) -> cute.Pointer:
        return self.base + (self.config.barrier_offset(name) + stage)

    def stage_and_phase(self, i: Any, row_tile: Any = 0) -> tuple[Any, Any]:
        """Stage of S, P and O's barriers, and the phase, of KV tile `i`: they take turns, or each row tile has one."""
        if self.config.row_tiles > 1:
            return row_tile, i & 1
        return i & S_STAGES - 1, i >> 1 & 1

    def slot_and_phase(self, i: Any, unit: Any = 0) -> tuple[Any, Any]:
        """Slot of a unit of KV tile `i` in the ring of K, or of V, and the phase in which it is full."""
        depth = self.config.depth
        return (i & depth - 1) * self.config.units + unit, i >> depth.bit_length() - 1 & 1

    def init(self) -> None:
        """Set every arrival count; one thread calls this."""
        for barrier in self.config.barriers:
            for stage in range(barrier.stages):
                cute.arch.mbarrier_init(self.at(barrier.name, stage), barrier.arrivals)

    def wait(self, name: str, stage: Any, phase: Any) -> None:
        """Wait until `phase` of a barrier has completed."""
        cute.arch.mbarrier_wait(self.at(name, stage), phase)
        if name in ORDER_TENSOR_MEMORY:
            primitives.tcgen05_fence("after_thread_sync")

    def arrive_warp(self, name: str, stage: Any) -> None:
        """Arrive once for the warp, after all of its lanes came here, at the CTA whose mma warp waits."""
        if name in ORDER_TENSOR_MEMORY:
            primitives.tcgen05_fence("before_thread_sync")
        cute.arch.sync_warp()
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive(self.at(name, stage), self.config.leader)

    def expect(self, name: str, stage: Any, tx_bytes: int, alone: bool = False) -> cute.Pointer:
        """Arrive there, or where the own CTA waits `alone`, for a load of `tx_bytes`; what the load has to signal."""
        barrier = self.at(name, stage)
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(barrier, tx_bytes, None if alone else self.config.leader)
        return barrier

    def commit(self, name: str, stage: Any) -> None:
        """Arrive, in both CTAs of a pair, once all tensor-core work issued so far has completed."""
        mask = Int16(0b11) if self.config.mma_ctas == 2 else None
        with cute.arch.elect_one():
            tcgen05.commit(self.at(name, stage), mask, cta_group(self.config))
