"""The MMA role with operands swapped: one warp issues S' = K Q' and O' += V' P'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int32, const_expr
from cutlass.experimental import primitives

from kernel.hardware import VECTOR_BYTES
from kernel.sm100.hardware import MMA_K
from kernel.sm100.mma import MmaWarp
from kernel.sm100.operands import tmem_pointer

LEAST_KEPT = 64  # the fewest columns of B that the tensor core's collector buffers keep
CORE = 8  # keys and heads of a block of P' that is contiguous in shared memory


class SwappedMmaWarp(MmaWarp):
    """The MMA warp at a row tile. Keys are A of both products; Q, then P', is B."""

    @cute.jit
    def run(self) -> None:
        """Issue both products of all KV tiles: slices of QK[i], and slices of PV[i - 1], `pv_behind` slices later."""
        slices, behind = self.cta.config.slices, self.cta.config.pv_behind
        count = self.cta.kv_tiles.count
        # 1. Wait for Q. A row tile that sees no key does not load it.
        if count > 0:
            self.cta.bars.wait("q_full", 0, self.q_loads % 2)
        # 2. Issue QK of KV tile i and PV of KV tile i - 1.
        for i in cutlass.range(count + 1, unroll=1):
            for step in cutlass.range_constexpr(slices + behind):
                if const_expr(step < slices):  # noqa: SIM102
                    if i < count:
                        self.qk(i, 0, step)
                if const_expr(step >= behind):  # noqa: SIM102
                    if i > 0:
                        self.pv(i - 1, 0, step - behind)

    @cute.jit
    def qk(self, i: Int32, q_tile: cutlass.Constexpr[int], slice_: cutlass.Constexpr[int]) -> None:
        """Issue S'[i] (+)= K[i] Q' over the dims of a slice.

        S'[i] may overwrite S'[i - 2] without a wait: PV[i - 2] was issued before, and waited for P'[i - 2], which
        softmax publishes only after it has read S'[i - 2].
        """
        config, bars, fragments = self.cta.config, self.cta.bars, self.cta.fragments
        number = self.cta.kv_done + i
        stage, _ = bars.stage_and_phase(number)
        slot, phase = bars.slot_and_phase(number, slice_)
        # 1. Wait for the slice of K. Copies by cp.async arrive unfenced: this warp crosses to the async proxy.
        bars.wait("k_full", slot, phase)
        if const_expr(config.crosses_proxies):
            cute.arch.fence_view_async_shared()
        # 2. Multiply. The first slice overwrites S', the others add to it.
        keys, dims = config.k_slice
        q = fragments.Q.at(0, slice_ * dims)
        k = fragments.K.at(slot)
        if const_expr(config.converts_in_turn):
            primitives.tcgen05_fence("after_thread_sync")
            first = fragments.k_slice(stage, slice_)
            k = lambda step: tmem_pointer((first + step * (MMA_K // 2)).toint())  # noqa: E731
        gemm((keys, config.tile_m), fragments.s(stage), k, q, dims, slice_ > 0)
        if const_expr(slice_ < config.late_slices):
            bars.commit("a_empty", stage * config.late_slices + slice_)
        # 3. After the last slice, release Q if no KV tile follows, and hand S' to softmax.
        if const_expr(slice_ == config.slices - 1):
            if i == self.cta.kv_tiles.count - 1:
                bars.commit("q_empty", 0)
            bars.commit("s_full", stage)

    @cute.jit
    def pv(self, i: Int32, q_tile: cutlass.Constexpr[int], slice_: cutlass.Constexpr[int]) -> None:
        """Issue O' += V[i]' P'[i] for a slice, which is some columns of V and as many lanes of O'."""
        config, bars, fragments = self.cta.config, self.cta.bars, self.cta.fragments
        number = self.cta.kv_done + i
        stage, phase = bars.stage_and_phase(number)
        slot, _ = bars.slot_and_phase(number, slice_)
        # 1. Wait for P'. Softmax publishes it when O', too, refers to the new maxima. QK has waited for the keys.
        if const_expr(slice_ == 0):
            bars.wait("p_full", stage, phase)
        # 2. Multiply. The first product of a row tile overwrites O', the others add to it.
        keys, dims = config.v_slice
        vectors = fragments.p_stage_bytes // VECTOR_BYTES  # of a stage
        per_step = vectors * MMA_K // keys
        first = fragments.P + stage * vectors
        p = lambda k: first + k * per_step  # noqa: E731
        kept_from = config.slices - 1 - config.pv_behind  # the first slice that no other product comes between
        use = "" if config.tile_m < LEAST_KEPT or slice_ < kept_from else "fill" if slice_ == kept_from else "use"
        v = fragments.V.at(slot)
        gemm((dims, config.tile_m), fragments.o_block(slice_), v, p, keys, i > 0, transposed=True, collector=use)
        # 3. Release the slice, and after the last one let softmax read O'.
        bars.commit("k_empty", slot)
        if const_expr(slice_ == 0 and config.prefetches_after_o):  # noqa: SIM102
            if i == 0:
                bars.commit("o_begun", 0)
        if const_expr(slice_ == config.slices - 1):
            bars.commit("o_done", stage)


def gemm(
    shape: tuple[int, int],
    acc: cute.Pointer,
    a: Callable[[int], Any],
    b: Callable[[int], Any],
    summed: int,
    accumulate: Any,
    transposed: bool = False,
    collector: Literal["", "fill", "use"] = "",
) -> None:
    """Issue acc (+)= a b of shape M x N, one instruction per 16 of the summed dimension; accumulate: the first adds.

    transposed: M and N are adjacent in memory, not the summed dimension. collector: B stays in the collector buffers
    (fill), or is there from the last product (use). One thread is elected for all instructions.
    """
    majors = {"a_major": int(transposed), "b_major": int(transposed), "m_dim": shape[0], "n_dim": shape[1]}
    bits = primitives.Tcgen05InstrDesc.build(c_dtype=Float32, a_dtype=BFloat16, b_dtype=BFloat16, **majors)
    with cute.arch.elect_one():
        for k in range(summed // MMA_K):
            adds = accumulate if k == 0 else True
            operands = tmem_pointer(acc.toint()), a(k), b(k), bits, adds
            if collector:
                kept = {"collector_b_buffer": f"b{k}", "collector_op": collector}
                primitives.tcgen05_mma_ws("f16", *operands, **kept)
            else:
                primitives.tcgen05_mma("f16", "cta_1", *operands)
