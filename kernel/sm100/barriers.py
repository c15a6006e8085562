"""The mbarriers of sm_100: some order accesses to tensor memory, and the tensor core signals some."""

from __future__ import annotations

from typing import Any, Literal

import cutlass.cute as cute
from cutlass import Int16
from cutlass.cute.nvgpu import tcgen05
from cutlass.experimental import primitives

from kernel.device.barriers import Barriers
from kernel.device.operands import cta_group
from kernel.sm100.memory import S_STAGES

#: Barriers that order accesses of different warps to tensor memory. They need tcgen05 fences on both sides.
ORDER_TENSOR_MEMORY = ("s_full", "p_full", "o_done", "a_empty")


class TensorBarriers(Barriers):
    """The mbarriers, with those of S, P and O in tensor memory."""

    def stage_and_phase(self, i: Any, q_tile: Any = 0) -> tuple[Any, Any]:
        """Stage and phase of the barriers of S, P and O for KV tile `i`.

        One Q tile alternates between two stages. With two Q tiles in flight, each has a stage of its own.
        """
        if self.config.q_tiles > 1:
            return q_tile, i & 1
        return i & S_STAGES - 1, i >> 1 & 1

    def fence(self, name: str, side: Literal["before_thread_sync", "after_thread_sync"]) -> None:
        """Fence the accesses to tensor memory that the barrier orders."""
        if name in ORDER_TENSOR_MEMORY:
            primitives.tcgen05_fence(side)

    def commit(self, name: str, stage: Any) -> None:
        """Arrive once all tensor-core work issued so far has completed; with 2-CTA MMA, in both CTAs."""
        mask = Int16(0b11) if self.config.mma_ctas == 2 else None
        with cute.arch.elect_one():
            tcgen05.commit(self.at(name, stage), mask, cta_group(self.config))
