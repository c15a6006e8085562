"""The softmax role: warps turn S[i] into P[i], and rescale O when a row's maximum has moved."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int32, const_expr
from cutlass.cute.nvgpu import tcgen05

from kernel.device.cta import Cta
from kernel.device.operands import slice_ring
from kernel.device.softmax import LOG2E, PARTIAL_SUMS, RunningSoftmax
from kernel.device.tiles import LoopInvariant
from kernel.hardware import BF16_BYTES, VECTOR_BYTES, WARP
from kernel.sm100.config import FmhaConfig
from kernel.sm100.hardware import TMEM_LANES
from kernel.sm100.memory import S_STAGES
from kernel.sm100.operands import HALF_LANES, LANE, LOAD_COLS, Fragments

MANTISSA_BITS = 23
ROUND = 1.5 * 2.0**MANTISSA_BITS  # added to x, it leaves the nearest integer in the lowest bits
MIN_EXPONENT = -127.0  # 2^x below is taken to be 0
#: 2^x on [-0.5, 0.5], 1 at 0, relative error 1.6e-7 in fp32: as good as the ex2 of MUFU.
EXP2 = (1.0, 0.6931469775976786, 0.24022242083111775, 0.055507337444709925, 0.009671512785779582, 0.0013264727252726939)
POLYNOMIAL_EVERY = 4  # every fourth pair of exponentials goes to the FMA pipe, the others to MUFU
RESCALE_LOG2 = 8.0  # O is rescaled once the maximum has moved by more: P stays below 2^8


class RowThread(LoopInvariant):
    """A softmax thread: the row that it has, and its loads of that row's logits and O from tensor memory."""

    def __init__(self, fragments: Fragments, config: FmhaConfig) -> None:
        """Take the thread's row and keys from the coordinates of its tensor-memory load."""
        index = cute.arch.thread_idx()[0] - WARP * config.roles.softmax[0]
        self.q_tile = 0  # which of the Q tiles in flight
        tStS = fragments.tStS
        if config.q_tiles > 1:
            self.q_tile = cute.arch.make_warp_uniform(index // TMEM_LANES)
            index = index % TMEM_LANES
        self.index = index  # among the Q tile's threads; its warp accesses the lanes of quarter index // WARP
        if config.variant.row_spans_warps:  # lanes 64 to 127 have the second half of the keys of rows 0 to 63
            tStS = cute.make_tensor(tStS.iterator, cute.make_layout((TMEM_LANES, config.tmem.s_cols), stride=(LANE, 1)))
            keys = (0, index // config.tile_m * config.tmem.s_cols)
            coords = cute.domain_offset(keys, cute.make_identity_tensor(tStS.shape))
        else:
            tile = cute.make_identity_tensor((config.tile_m, config.block_n))
            coords = fragments.products.qk.get_slice(0).partition_C(tile)
        whole_lanes = config.variant.threads_per_row == 1 or config.variant.row_spans_warps
        self.load = tmem_copy(tcgen05.Ld32x32bOp if whole_lanes else tcgen05.Ld16x32bx2Op, LOAD_COLS, tStS, index)
        self.tLtS = self.load.partition_S(tStS)  # the thread's logits of stage 0
        self.tLcS = self.load.partition_D(coords)  # their (row, key) within the tile
        row, key = self.tLcS[0]
        self.row = self.q_tile * config.tile_m + row % config.tile_m  # of the row tile
        self.half = key // (config.block_n // config.variant.threads_per_row)  # of the row's keys and of O's columns

    @cute.jit
    def wait_for_o(self, cta: Cta) -> None:
        """Wait until the last PV of the row tile has completed, if it sees any key."""
        if cta.kv_tiles.count > 0:
            stage, phase = cta.bars.stage_and_phase(cta.kv_done + cta.kv_tiles.count - 1, self.q_tile)
            cta.bars.wait("o_done", stage, phase)

    def load_o(self, cta: Cta, c: int) -> cute.Tensor:
        """Load block `c` of LOAD_COLS columns of the thread's row of O, or of its half of the row."""
        return load_lanes(cta.fragments.o_blocks(self.q_tile)[None, None, c], self.index)

    @cute.jit
    def load_o_or_zeros(self, cta: Cta, c: cutlass.Constexpr[int]) -> cute.Tensor:
        """Load a block of O; zeros if the row tile sees no key, so that no PV has written O."""
        o = cute.make_rmem_tensor(LOAD_COLS, Float32)
        o.fill(0.0)
        if cta.kv_tiles.count > 0:
            o.store(cute.coalesce(self.load_o(cta, c)).load())
        return o


@dataclass
class RowSoftmax(RunningSoftmax):
    """Statistics of a row, which one thread has or two threads share."""

    threads_per_row: int = 1
    index: Any = 0  # of the softmax thread
    sMax: cute.Tensor | None = None  # (thread, parity): exchange between threads of a row that are in two warps
    polynomial: bool = True  # whether some exponentials go to the FMA pipe, which makes 0 of NaN

    def over_row(self, value: Any, combine: Callable[[Any, Any], Any], exchange: Any = 0) -> Any:
        """Combine `value` over the threads of the row: one, two HALF_LANES apart, or two in different warps.

        exchange: how many exchanges the CTA has made. They alternate between two buffers, because a slow warp may still
        read the previous buffer.
        """
        if self.threads_per_row == 1:
            return value
        if self.sMax is None:
            return combine(value, cute.arch.shuffle_sync_bfly(value, HALF_LANES))
        buffer = self.sMax[None, exchange % 2]
        buffer[self.index] = value
        self.sync_row_warps()
        return combine(value, buffer[(self.index + TMEM_LANES // 2) % TMEM_LANES])

    def sync_row_warps(self) -> None:
        """Wait for the warp that has the other half of the same rows."""
        cute.arch.barrier(barrier_id=1 + self.index // WARP % 2, number_of_threads=2 * WARP)

    def sink_weight(self, sink: Float32) -> Float32:
        """Return the sink's term of the sum. Its logit is not scaled: -inf gives 0, a very large one infinity."""
        shift = -self.finite_max() * self.scale_log2
        log2, _ = cute.arch.fma_packed_f32x2((sink, sink), (Float32(LOG2E), Float32(LOG2E)), (shift, shift))
        return cute.math.exp2(log2, fastmath=True)

    def exponentiate(self, s: cute.Tensor) -> None:
        """Replace s by exp2(scale_log2 * (s - row_max)), and add it to the sums."""
        scale = (self.scale_log2, self.scale_log2)
        shift = -self.finite_max() * self.scale_log2
        for j in range(0, cute.size(s), 2):
            x = cute.arch.fma_packed_f32x2((s[j], s[j + 1]), scale, (shift, shift))
            if self.polynomial and j // 2 % POLYNOMIAL_EVERY == POLYNOMIAL_EVERY - 1:
                s[j], s[j + 1] = exp2_by_fma(x)
            else:
                s[j], s[j + 1] = (cute.math.exp2(each, fastmath=True) for each in x)
            even = 1 + j % PARTIAL_SUMS
            odd = 2 + j % PARTIAL_SUMS
            total = (self.stats[even], self.stats[odd])
            self.stats[even], self.stats[odd] = cute.arch.add_packed_f32x2(total, (s[j], s[j + 1]))


def exp2_by_fma(x: tuple[Float32, Float32]) -> tuple[Float32, Float32]:
    """2^x of two exponents up to 127 on the FMA pipe, 0 from -127 down.

    With n the nearest integer to x, it is the polynomial of x - n with n added to the exponent bits.
    """
    # 1. Split x into n and x - n.
    x = (cute.arch.fmax(x[0], Float32(MIN_EXPONENT)), cute.arch.fmax(x[1], Float32(MIN_EXPONENT)))
    shifted = cute.arch.add_packed_f32x2(x, (ROUND, ROUND))
    n = cute.arch.add_packed_f32x2(shifted, (-ROUND, -ROUND))
    x = cute.arch.fma_packed_f32x2(n, (-1.0, -1.0), x)
    # 2. Evaluate the polynomial by Horner's rule.
    power = EXP2[-1], EXP2[-1]
    for coefficient in EXP2[-2::-1]:
        power = cute.arch.fma_packed_f32x2(power, x, (coefficient, coefficient))
    # 3. Add n to the exponent bits. n is in the lowest bits of `shifted`; the shift drops the rest.
    values = cute.make_rmem_tensor(4, Float32)
    bits = cute.recast_tensor(values, Int32)
    for j in range(2):
        values[j] = power[j]
        values[2 + j] = shifted[j]
        bits[j] += bits[2 + j] << MANTISSA_BITS
    return values[0], values[1]


@dataclass
class SoftmaxWarp(LoopInvariant):
    """A softmax warp at a row tile, from the view of one thread."""

    cta: Cta
    thread: RowThread
    running: RowSoftmax

    @cute.jit
    def run(self) -> None:
        """Turn the logits of every KV tile into P."""
        bars = self.cta.bars
        kv = self.cta.kv_tiles
        thread = self.thread
        token = self.cta.row_tile.token(thread.row)
        for i in cutlass.range(kv.count, unroll=1):
            stage, phase = bars.stage_and_phase(self.cta.kv_done + i, thread.q_tile)
            s = cute.make_rmem_tensor(thread.tLcS.shape, Float32)
            # 1. Find the visible keys of the tile while QK runs.
            needs_mask, lo, hi = kv.bounds(kv.begin + i, token)
            words = self.topk_bits(kv.begin + i) if const_expr(self.cta.config.by_token) else None
            # 2. Wait for S and load it.
            bars.wait("s_full", stage, phase)
            cute.copy(thread.load, self.cta.fragments.s(stage, thread.tLtS), s)
            cute.arch.fence_view_async_tmem_load()
            # 3. Mask keys outside the window, and top-k indices that name no key.
            if needs_mask:
                self.mask_outside(s, lo, hi)
            if const_expr(words is not None):
                bits = [words[j] for j in range(cute.size(words))]
                if functools.reduce(operator.and_, bits) != -1:
                    self.mask_topk(s, bits)
            # 4. Update the maximum, and rescale O if it moved far.
            self.track_max(s, i)
            # 5. Exponentiate and publish P.
            self.publish_p(s, stage)

    def mask_outside(self, s: cute.Tensor, lo: Int32, hi: Int32) -> None:
        """Set the logits of keys before `lo` and from `hi` on to -inf."""
        for j in range(cute.size(s)):
            key = self.thread.tLcS[j][1]
            visible = key < hi if self.cta.config.mask != "causal" else (key >= lo) & (key < hi)
            s[j] = cutlass.select_(visible, s[j], -Float32.inf)

    @cute.jit
    def topk_bits(self, i: Int32) -> cute.Tensor:
        """Return words with a bit for each of the warp's keys of KV tile `i`: 1 if its index names a key.

        All bits are set in tiles of the window.
        """
        config = self.cta.config
        kv = self.cta.kv_tiles
        words = cute.make_rmem_tensor(config.tmem.s_cols // WARP, Int32)
        words.fill(-1)
        first = kv.first_entry(i)
        own = self.thread.half * config.tmem.s_cols * config.variant.row_spans_warps
        if first >= 0:
            entries = [first + (own + j + cute.arch.lane_idx()) for j in range(0, config.tmem.s_cols, WARP)]
            keys = [kv.listed.key(n, kv.listed.index(n)) for n in entries]  # all loads before the first vote
            for j, key in enumerate(keys):
                words[j] = cute.arch.vote_ballot_sync(key >= 0)
        return words

    def mask_topk(self, s: cute.Tensor, words: list[Int32]) -> None:
        """Set the logits of top-k indices that name no key to -inf."""
        if len(words) * WARP > cute.size(s):  # the words have both halves of a row
            words = [cutlass.select_(self.thread.half == 0, *words)]
        for j in range(cute.size(s)):
            bit = Int32(1 << j % WARP if j % WARP < WARP - 1 else -(1 << WARP - 1))
            s[j] = cutlass.select_((words[j // WARP] & bit) != 0, s[j], -Float32.inf)

    @cute.jit
    def track_max(self, s: cute.Tensor, i: Int32) -> None:
        """Move the reference maximum if a row of the warp exceeds it by more than RESCALE_LOG2 in powers of two.

        A smaller step needs no rescaling: exponentials stay below 2^8, which bf16 holds as precisely as those below 1.
        """
        running = self.running
        new_max = running.tile_max(s, self.cta.kv_done + i)
        if const_expr(running.maxima):
            running.set_largest(cute.arch.fmax(running.largest, new_max))
        moved = (new_max - running.stats[0]) * running.scale_log2 > RESCALE_LOG2
        if cute.arch.vote_any_sync(moved):
            factor = running.move_to(new_max)
            if i > 0:
                # PV of the previous tile writes O: wait for it.
                stage, phase = self.cta.bars.stage_and_phase(self.cta.kv_done + i - 1, self.thread.q_tile)
                self.cta.bars.wait("o_done", stage, phase)
                self.rescale(factor)

    def rescale(self, factor: Float32) -> None:
        """Multiply O by `factor`, through registers; each thread has its row or its half of one."""
        for c in range(self.cta.config.tmem.o_cols // LOAD_COLS):
            o = self.thread.load_o(self.cta, c)
            for j in range(0, cute.size(o), 2):
                o[j], o[j + 1] = cute.arch.mul_packed_f32x2((o[j], o[j + 1]), (factor, factor))
            store_lanes(o, self.cta.fragments.o_blocks(self.thread.q_tile)[None, None, c], self.thread.index)
        cute.arch.fence_view_async_tmem_store()

    def publish_p(self, s: cute.Tensor, stage: Int32) -> None:
        """Exponentiate a tile and publish P part by part, so that PV starts while the last part is computed."""
        parts = self.cta.config.p_parts
        piece_layout = cute.make_layout(cute.size(s) // parts[-1].stop)
        for part, pieces in enumerate(parts):
            for piece in pieces:
                p = cute.logical_divide(cute.coalesce(s), piece_layout)[None, piece]
                self.running.exponentiate(p)
                if self.cta.config.p_path == "tmem":
                    self.store_p_tmem(p, stage, piece)
                else:
                    self.store_p_smem(p, stage)
            if self.cta.config.p_path == "tmem":
                cute.arch.fence_view_async_tmem_store()
            self.cta.bars.arrive_warp("p_full", stage * len(parts) + part)

    def store_p_tmem(self, s: cute.Tensor, stage: Int32, piece: int) -> None:
        """Store a piece of P into its columns of tensor memory, two keys a column."""
        config = self.cta.config
        columns = cute.size(s) // 2
        base = self.cta.fragments.tStS.iterator + (config.tmem.p_start + stage * config.tmem.p_stride + piece * columns)
        tStP = cute.make_tensor(base, cute.make_layout((TMEM_LANES, columns), stride=(LANE, 1)))
        store = tmem_copy(tcgen05.St32x32bOp, columns, tStP, self.thread.index)
        coords = store.partition_S(cute.make_identity_tensor(tStP.shape))
        packed = cute.make_rmem_tensor(coords.shape, Float32)
        cute.recast_tensor(packed, BFloat16).store(s.load().to(BFloat16))
        cute.copy(store, packed, store.partition_D(tStP))

    def store_p_smem(self, s: cute.Tensor, stage: Int32) -> None:
        """Store P into shared memory, 16 bytes of its row at a time.

        PV[i - 2] has read the stage: it was issued before QK[i], which has completed.
        """
        vector = cute.make_layout(VECTOR_BYTES // BF16_BYTES)
        vectors = cute.size(s) * BF16_BYTES // VECTOR_BYTES
        dst = cute.logical_divide(p_rows(self.cta)[self.thread.row, None, stage], vector)
        p = cute.make_rmem_tensor(cute.size(s), BFloat16)
        p.store(s.load().to(BFloat16))
        # 1. Wait until TMA has read the previous row tile's O, which may be staged in this buffer.
        cute.arch.cp_async_bulk_wait_group(0, read=True)
        cute.arch.sync_warp()
        # 2. Write the thread's keys, and make them visible to the tensor core.
        for j in range(vectors):
            cute.autovec_copy(cute.logical_divide(p, vector)[None, j], dst[None, self.thread.half * vectors + j])
        cute.arch.fence_view_async_shared()


def tmem_copy(op: type, columns: int, tensor: cute.Tensor, index: Any) -> cute.ThrCopy:
    """Return thread `index`'s part of a copy between registers and `tensor` in tensor memory, `columns` at once."""
    atom = cute.make_copy_atom(op(tcgen05.Repetition(columns)), Float32)
    return tcgen05.make_tmem_copy(atom, tensor).get_slice(index)


def load_lanes(tensor: cute.Tensor, index: Any) -> cute.Tensor:
    """Load the lane of thread `index` of a (lane, column) tensor in tensor memory, and wait for it."""
    load = tmem_copy(tcgen05.Ld32x32bOp, tensor.shape[1], tensor, index)
    values = cute.make_rmem_tensor(load.partition_D(cute.make_identity_tensor(tensor.shape)).shape, Float32)
    cute.copy(load, load.partition_S(tensor), values)
    cute.arch.fence_view_async_tmem_load()
    return values


def store_lanes(values: cute.Tensor, tensor: cute.Tensor, index: Any) -> None:
    """Store the lane of thread `index` of a (lane, column) tensor in tensor memory."""
    store = tmem_copy(tcgen05.St32x32bOp, tensor.shape[1], tensor, index)
    cute.copy(store, values, store.partition_D(tensor))


def p_rows(cta: Cta) -> Any:
    """P in shared memory, as (row, key, stage)."""
    return slice_ring(cta.smem.sP, (cta.config.tile_m, cta.config.block_n), S_STAGES)
