"""The kernel's mbarriers by name: initialize, wait, arrive, expect bytes, commit tensor-core work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass.cute as cute
from cutlass import Int16
from cutlass.cute.nvgpu import tcgen05
from cutlass.experimental import primitives

from kernel.config import FmhaConfig
from kernel.memory import S_STAGES
from kernel.sm100.tiles import LoopInvariant

#: Barriers that order accesses of different warps to tensor memory. They need tcgen05 fences on both sides.
ORDER_TENSOR_MEMORY = ("s_full", "p_full", "o_done", "a_empty")


def cta_group(config: FmhaConfig) -> tcgen05.CtaGroup:
    """Return the CTA group that issues an MMA."""
    return tcgen05.CtaGroup.TWO if config.mma_ctas == 2 else tcgen05.CtaGroup.ONE


def sync_ctas(ctas: int) -> None:
    """Synchronize all threads of the CTA, or of the cluster if it has more than one CTA."""
    if ctas > 1:
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
    else:
        cute.arch.sync_threads()


@dataclass
class Barriers(LoopInvariant):
    """Addresses of the mbarriers by name, in the order of FmhaConfig.barriers."""

    config: FmhaConfig
    base: cute.Pointer

    def at(self, name: str, stage: Any = 0) -> cute.Pointer:
        """Address of a barrier's stage."""
        return self.base + (self.config.barrier_offset(name) + stage)

    def stage_and_phase(self, i: Any, q_tile: Any = 0) -> tuple[Any, Any]:
        """Stage and phase of the barriers of S, P and O for KV tile `i`.

        One Q tile alternates between two stages. With two Q tiles in flight, each has a stage of its own.
        """
        if self.config.q_tiles > 1:
            return q_tile, i & 1
        return i & S_STAGES - 1, i >> 1 & 1

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
        if name in ORDER_TENSOR_MEMORY:
            primitives.tcgen05_fence("after_thread_sync")

    def arrive_warp(self, name: str, stage: Any, ctas: int = 1) -> None:
        """Arrive once for the warp, when all of its lanes are here, at the CTA whose MMA warp waits.

        ctas: above 1, arrive at each of so many CTAs of the cluster instead.
        """
        if name in ORDER_TENSOR_MEMORY:
            primitives.tcgen05_fence("before_thread_sync")
        cute.arch.sync_warp()
        with cute.arch.elect_one():
            for cta in range(ctas) if ctas > 1 else (self.config.variant.leader,):
                cute.arch.mbarrier_arrive(self.at(name, stage), cta)

    def expect(self, name: str, stage: Any, tx_bytes: int, local: bool = False) -> cute.Pointer:
        """Arrive and expect `tx_bytes`; return the barrier that the load has to signal.

        The arrival goes to the CTA whose MMA warp waits. local: it goes to this CTA, which waits itself.
        """
        barrier = self.at(name, stage)
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(barrier, tx_bytes, None if local else self.config.variant.leader)
        return barrier

    def commit(self, name: str, stage: Any) -> None:
        """Arrive once all tensor-core work issued so far has completed; with 2-CTA MMA, in both CTAs."""
        mask = Int16(0b11) if self.config.mma_ctas == 2 else None
        with cute.arch.elect_one():
            tcgen05.commit(self.at(name, stage), mask, cta_group(self.config))
