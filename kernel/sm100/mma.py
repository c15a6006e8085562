"""The MMA role: one warp issues S = Q K' and O += P V, for its CTA or for both CTAs of a pair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int32, const_expr
from cutlass.cute.nvgpu import OperandMajorMode
from cutlass.experimental import primitives

from kernel.device.cta import Cta
from kernel.device.tiles import LoopInvariant, smaller
from kernel.hardware import BF16_BYTES, VECTOR_BYTES
from kernel.sm100.hardware import MMA_K
from kernel.sm100.memory import S_STAGES
from kernel.sm100.operands import HALF_LANES, LANE, tmem_pointer

#: An operand of an instruction by its number along the summed dimension.
Operand = Callable[[int], Any]

COPIED_FROM = 4  # KV tiles of a row tile: with fewer, copying Q takes more of the smem port than it saves


@cute.jit
def multiply(cta: Cta, role: cutlass.Constexpr[type[MmaWarp]]) -> None:
    """Issue both products of all row tiles of the CTA. role: the kind of MMA warp."""
    kv_done = Int32(0)
    q_loads = Int32(0)
    first, end, step = cta.row_tile_range
    for number in cutlass.range(first, end, step, unroll=1):
        warp = role(cta.at_row_tile(number, kv_done), q_loads)
        warp.run()
        kv_done += warp.cta.kv_tiles.count
        q_loads += smaller(warp.cta.kv_tiles.count, 1)


@dataclass
class MmaWarp(LoopInvariant):
    """The MMA warp at a row tile. docs/explanation/kernel-pipeline.md draws the order of the products."""

    cta: Cta
    q_loads: Any  # row tiles of the CTA so far that saw a key, each of which loaded Q once

    @cute.jit
    def run(self) -> None:
        """Issue both products of all KV tiles."""
        bars = self.cta.bars
        count = self.cta.kv_tiles.count
        q_tiles = self.cta.config.q_tiles
        order = self.cta.config.product_order
        # 1. Wait for Q. A row tile that sees no key does not load it.
        if count > 0:
            bars.wait("q_full", 0, self.q_loads % 2)
        # 2. Issue QK of KV tile i and PV of KV tile i - 1.
        if const_expr(order == "interleaved"):
            self.interleave()
        else:
            for i in cutlass.range(count + 1, unroll=1):
                for t in cutlass.range_constexpr(q_tiles):
                    if i > 0 and order == "pv_first":
                        self.all_slices(self.pv, i - 1, t)
                    if i < count:
                        self.all_slices(self.qk, i, t)
                if i > 0 and order == "qk_first":
                    self.all_slices(self.pv, i - 1)

    @cute.jit
    def interleave(self) -> None:
        """Issue the products of two KV tiles at a time: S0; S1 and P0 V0 alternating by slice; P1 V1.

        The ring holds two tiles, and each is K and V: the next tile cannot load before PV releases a slot. PV is one
        slice behind QK, so that the slots of the first tile become free one by one while the second is multiplied.
        """
        count = self.cta.kv_tiles.count
        slices = self.cta.config.slices
        for first in cutlass.range(0, count, S_STAGES, unroll=1):
            self.all_slices(self.qk, first)
            last = first
            if first + 1 < count:
                last = first + 1
                for slice_ in cutlass.range_constexpr(slices + 1):
                    if const_expr(slice_ < slices):
                        self.qk(last, 0, slice_)
                    if const_expr(slice_ > 0):
                        self.pv(first, 0, slice_ - 1)
            self.all_slices(self.pv, last)

    def all_slices(self, product: Callable[..., None], i: Int32, q_tile: int = 0) -> None:
        """Issue S[i] = Q K[i]' or O += P[i] V[i], slice after slice."""
        for slice_ in range(self.cta.config.slices):
            product(i, q_tile, slice_)

    @cute.jit
    def qk(self, i: Int32, q_tile: cutlass.Constexpr[int], slice_: cutlass.Constexpr[int]) -> None:
        """Issue S[i] (+)= Q K[i]' over the dims of a slice.

        S[i] may overwrite S[i - 2] without a wait: PV[i - 2] was issued before, and waited for P[i - 2], which softmax
        publishes only after it has read S[i - 2].
        """
        config = self.cta.config
        bars = self.cta.bars
        fragments = self.cta.fragments
        number = self.cta.kv_done + i
        stage, _ = bars.stage_and_phase(number, q_tile)
        slot, phase = bars.slot_and_phase(number, slice_)
        # 1. Wait for the slice of K. Copies by cp.async arrive without a proxy fence: this warp executes it.
        bars.wait("k_full", slot, phase)
        if const_expr(config.crosses_proxies):
            cute.arch.fence_view_async_shared()
        # 2. Multiply. The first slice overwrites S, the others add to it.
        q = fragments.Q.at(q_tile, slice_ * config.k_slice[1])
        k = [(fragments.s(stage).iterator, fragments.K.at(slot))]
        steps = range(config.k_slice[1] // MMA_K)
        if const_expr(slice_ < config.slices - config.tmem_slices):
            gemm(fragments.products.qk, q, k, steps, slice_ > 0)
        else:
            if self.copies_q & (i > 0):
                gemm(fragments.products.qk, fragments.q(slice_), k, steps, slice_ > 0)
            else:
                gemm(fragments.products.qk, q, k, steps, slice_ > 0)
        # 3. Release the slice of K once the last Q tile has read it, unless PV reads it as V.
        if const_expr(q_tile == config.q_tiles - 1 and config.loads_v):
            bars.commit("k_empty", slot)
        if const_expr(config.rope_dim > 0 and slice_ == config.slices - 1):
            self.qk_of_rope(number, stage)
        # 4. After the last slice, release Q if no KV tile follows, and hand S to softmax. Copy Q for further KV tiles.
        if const_expr(slice_ == config.slices - 1):
            if (q_tile == config.q_tiles - 1) & (i == self.cta.kv_tiles.count - 1):
                bars.commit("q_empty", 0)
            bars.commit("s_full", stage)
            if const_expr(config.tmem_slices > 0):  # noqa: SIM102
                if self.copies_q & (i == 0):
                    self.copy_q()

    @property
    def copies_q(self) -> Any:
        """True if the last slices of Q are copied to tensor memory, for the QK after the first KV tile."""
        return self.cta.kv_tiles.count >= COPIED_FROM

    def copy_q(self) -> None:
        """Copy the last slices of Q to tensor memory, in both CTAs, and the rows to both halves of the lanes."""
        config, fragments = self.cta.config, self.cta.fragments
        dims = config.k_slice[1]
        steps = [divmod(step, dims // MMA_K) for step in range(config.tmem_slices * dims // MMA_K)]
        copied = {"group": "cta_2", "multicast": "warpx2_02_13"}
        with cute.arch.elect_one():
            for n, k in steps:
                slice_ = config.slices - config.tmem_slices + n
                source, target = fragments.Q.at(0, slice_ * dims)(k), fragments.q(slice_)(k)
                for half in range(MMA_K * BF16_BYTES // VECTOR_BYTES):  # one has four columns of tensor memory
                    primitives.tcgen05_cp("shape_64x128b", target + half * 4, source + half, **copied)

    def qk_of_rope(self, number: Int32, stage: Any) -> None:
        """Issue S += Q K' over the rotary columns of the CTA's KV tile `number`, and release them: PV reads none."""
        config, bars, fragments = self.cta.config, self.cta.bars, self.cta.fragments
        bars.wait("rope_full", 0, number & 1)
        if config.crosses_proxies:
            cute.arch.fence_view_async_shared()
        q = fragments.Q.at(0, config.head_dim)
        steps = range(config.rope_dim // MMA_K)
        gemm(fragments.products.qk, q, [(fragments.s(stage).iterator, fragments.rope.at(0))], steps, True)
        bars.commit("rope_empty", 0)

    @cute.jit
    def pv(self, i: Int32, q_tile: cutlass.Constexpr[int], slice_: cutlass.Constexpr[int]) -> None:
        """Issue O += P[i] V[i] for a slice of V.

        A slice is some columns of V, which are columns of O. With 2-CTA MMA it is some keys, over which O is summed.
        """
        config = self.cta.config
        bars = self.cta.bars
        fragments = self.cta.fragments
        number = self.cta.kv_done + i
        stage, phase = bars.stage_and_phase(number, q_tile)
        slot, v_phase = bars.slot_and_phase(number, slice_)
        parts = config.p_parts
        dims = config.v_slice[1]
        first_column = slice_ * dims if config.mma_ctas == 1 else 0
        first_step = slice_ * config.v_slice[0] // MMA_K if config.mma_ctas == 2 else 0
        instructions = config.mma_ctas * dims // fragments.products.pv.shape_mnk[1]  # that cover all columns
        for part, pieces in enumerate(parts):
            # 1. Wait for a part of P. Softmax publishes it when O, too, refers to the row's new maximum.
            if const_expr(slice_ == 0):
                bars.wait("p_full", stage * len(parts) + part, phase)
            # 2. Wait for the slice of V. Where V is K, QK has waited for it.
            if const_expr(part == 0 and config.loads_v):
                bars.wait("v_full", slot, v_phase)
            # 3. Multiply the keys of that part. The first product of a row tile overwrites O, the others add to it.
            steps_of_piece = config.v_slice[0] // MMA_K // parts[-1].stop
            steps = range(pieces.start * steps_of_piece, pieces.stop * steps_of_piece)
            accumulate = i > 0 if steps.start + first_step == 0 else True
            products = []
            for n in cutlass.range_constexpr(instructions):
                half, column = divmod(first_column + n * (dims // instructions), config.tmem.o_cols)
                o = fragments.o + (q_tile * config.tmem.o_cols + half * HALF_LANES * LANE + column)
                products.append((o, fragments.V.at(slot, n * (dims // instructions))))
            gemm(fragments.products.pv, fragments.p(stage, first_step), products, steps, accumulate)
        # 4. Release the slice once the last Q tile has read it.
        if const_expr(q_tile == config.q_tiles - 1):
            bars.commit("v_empty" if config.loads_v else "k_empty", slot)
        # 5. After the last slice, let softmax read O.
        if const_expr(slice_ == config.slices - 1):
            bars.commit("o_done", stage)


def gemm(tiled: cute.TiledMma, a: Operand, products: list[tuple[Any, Operand]], steps: range, accumulate: Any) -> None:
    """Issue acc (+)= a b, one instruction per 16 of the summed dimension; `accumulate`: the first one adds, too.

    products: acc and b of each product with `a`, which stays in the collector buffer from the first one on. One thread
    is elected for all of them. cute.gemm elects one per instruction, which takes longer than the product.
    """
    op = tiled.op
    m, n, _ = tiled.op.shape_mnk
    shape = {"b_major": int(op.b_major_mode == OperandMajorMode.MN), "m_dim": m, "n_dim": n}
    bits = primitives.Tcgen05InstrDesc.build(c_dtype=Float32, a_dtype=BFloat16, b_dtype=BFloat16, **shape)
    with cute.arch.elect_one():
        for k in steps:
            adds = accumulate if k == steps.start else True
            for number, (acc, b) in enumerate(products):
                operands = tmem_pointer(acc.toint()), a(k), b(k), bits, adds
                kept = {"collector_op": collector(number, len(products))}
                primitives.tcgen05_mma("f16", f"cta_{op.cta_group.value}", *operands, **kept)


def collector(number: int, count: int) -> Literal["fill", "use", "lastuse"] | None:
    """Return the use of A's collector buffer by product `number` of `count` with the same A."""
    if count == 1:
        return None
    return "fill" if number == 0 else "use" if number < count - 1 else "lastuse"
