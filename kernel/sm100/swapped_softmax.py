"""The softmax role with operands swapped: four warps turn S'[i] into P'[i], each for a quarter of the keys.

A warp has 16 of the 64 keys of a KV tile, a thread two of them for a quarter of the heads. All threads hold the same
maximum of a head, which P' and O' refer to. It moves only when a logit exceeds it by more than RESCALE_LOG2: the warps
vote on that in a barrier, once per KV tile, and only then exchange maxima through shared memory.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int16, Int32, Int64, const_expr
from cutlass.experimental import primitives

from kernel.device.combine import partial_rows
from kernel.device.config import STATS
from kernel.device.cta import Cta
from kernel.device.softmax import finite
from kernel.device.tiles import LoopInvariant
from kernel.hardware import BF16_BYTES, WARP
from kernel.sm100.config import FmhaConfig
from kernel.sm100.hardware import TMEM_LANES
from kernel.sm100.memory import EXCHANGED, VALID_BYTES
from kernel.sm100.operands import LANE
from kernel.sm100.softmax import RESCALE_LOG2, RowSoftmax, load_lanes, store_lanes
from kernel.sm100.swapped_mma import CORE

KEYS = 16  # keys of a warp in a KV tile
QUAD = 4  # threads that have the same keys
OVER_KEYS = (4, 8, 16)  # distances of the threads that have the same heads
AT_ONCE = 16  # heads of O' that are rescaled at once, or stored under one condition
VOTE, MEET = 1, 2  # named barriers of the softmax warps
TILE_MAX, MAXIMUM, SUM, LARGEST, FACTOR = range(EXCHANGED)  # statistics in the exchange buffer


class ColumnThread(LoopInvariant):
    """A softmax thread: its warp, lane and heads. It has its warp's keys `lane // 4` and `lane // 4 + 8`.

    heads: the thread's heads: pairs of adjacent heads at a distance of eight.
    """

    def __init__(self, config: FmhaConfig) -> None:
        self.index = cute.arch.thread_idx()[0] - WARP * config.roles.softmax[0]
        self.threads = WARP * len(config.roles.softmax)
        self.warp = cute.arch.make_warp_uniform(self.index // WARP)
        self.lane = self.index % WARP
        self.quad = self.lane % QUAD
        self.heads = [CORE * i + 2 * self.quad + e for i in range(config.tile_m // CORE) for e in range(2)]

    def column_of(self, block: Int32) -> Any:
        """Return the column of V of which the thread has O' in a block."""
        return block * TMEM_LANES + self.index

    def meet(self) -> None:
        """Wait for all softmax warps."""
        cute.arch.barrier(barrier_id=MEET, number_of_threads=self.threads)


@dataclass
class SwappedSoftmax(LoopInvariant):
    """A softmax thread at a row tile, with the running statistics of its heads."""

    cta: Cta
    thread: ColumnThread

    def __post_init__(self) -> None:
        """Initialize the registers: maxima, sums over the thread's keys, and the largest logits if they are needed."""
        self.maxima, self.sums, self.largest = (self.per_head(x) for x in (-Float32.inf, Float32(0.0), -Float32.inf))

    def per_head(self, value: Any) -> cute.Tensor:
        """Return registers with a value for each head of the thread."""
        tensor = cute.make_rmem_tensor(len(self.thread.heads), Float32)
        tensor.fill(value)
        return tensor

    @property
    def scale(self) -> Float32:
        """Factor from raw logits to exponents of two."""
        return self.cta.args.scale_log2

    @cute.jit
    def run(self) -> None:
        """Turn the logits of every KV tile into P'."""
        bars = self.cta.bars
        kv = self.cta.kv_tiles
        for i in cutlass.range(kv.count, unroll=1):
            stage, phase = bars.stage_and_phase(self.cta.kv_done + i)
            # 1. Wait for the keys and S'. Load it; mask the logits of keys that do not exist.
            slot, filled = bars.slot_and_phase(self.cta.kv_done + i)
            bars.wait("k_full", slot, filled)
            bars.wait("s_full", stage, phase)
            s = self.logits(stage, self.valid_keys(self.cta.kv_done + i))
            # 2. Update the maxima, and rescale O' if one moved far.
            self.track_max(s, i)
            # 3. Exponentiate and publish P'.
            self.store_p(s, stage)
            bars.arrive_warp("p_full", stage)

    def valid_keys(self, number: Int32) -> list[Any]:
        """Return whether the indices of the thread's two keys of the CTA's KV tile `number` name a key.

        The load warps publish that with the first slice of the tile.
        """
        keys = self.cta.smem.valid_keys(number)
        first = self.thread.warp * (KEYS * VALID_BYTES) + self.thread.lane
        return [keys[first + half * WARP] != 0 for half in range(2)]

    def logits(self, stage: Int32, valid: list[Any]) -> list[cute.Tensor]:
        """Return the logits of the thread's two keys for its heads; -inf for a key that does not exist."""
        thread = self.thread
        tmem = functools.partial(cutlass.inttoptr, mem_space=cute.AddressSpace.tmem, dtype=Float32)
        address = (self.cta.fragments.s(stage) + thread.warp * (WARP * LANE)).toint()
        pairs = len(thread.heads) // 2
        loaded = primitives.tcgen05_ld("16x256b", tmem(address), num=pairs)
        cute.arch.fence_view_async_tmem_load()
        s = [self.per_head(0.0) for _ in range(2)]
        for half in range(2):
            for j in range(2 * pairs):
                value = loaded[j // 2 * 4 + half * 2 + j % 2]
                s[half][j] = cutlass.select_(valid[half], value, -Float32.inf)
        return s

    @cute.jit
    def track_max(self, s: list[cute.Tensor], i: Int32) -> None:
        """Move the maxima if a logit of any warp exceeds its head's by more than RESCALE_LOG2 in powers of two."""
        tile = self.per_head(-Float32.inf)
        moved = cutlass.Boolean(False)
        for j in cutlass.range_constexpr(len(self.thread.heads)):
            tile[j] = cute.arch.fmax(s[0][j], s[1][j])
            moved = moved | ((tile[j] - self.maxima[j]) * self.scale > RESCALE_LOG2)
        if const_expr(self.cta.config.maxima):
            for j in cutlass.range_constexpr(len(self.thread.heads)):
                self.largest[j] = cute.arch.fmax(self.largest[j], tile[j])
        if primitives.barrier_cta_red(moved, VOTE, "or", thread_count=self.thread.threads):
            factors = self.move(tile)
            if i > 0:
                # PV of the previous tile writes O': wait for it.
                stage, phase = self.cta.bars.stage_and_phase(self.cta.kv_done + i - 1)
                self.cta.bars.wait("o_done", stage, phase)
                self.rescale(factors)

    def move(self, tile: cute.Tensor) -> cute.Tensor:
        """Make the largest logits the maxima. Multiply the sums by the change, and return these factors, for O'.

        Two exchanges may use the same buffer: the votes of their KV tiles order the accesses.
        """
        # 1. Exchange the maxima of the KV tile.
        found = self.over_warps(tile, cute.arch.fmax, TILE_MAX)
        # 2. Refer the sums to the new maxima.
        factors = self.per_head(1.0)
        for j in range(len(self.thread.heads)):
            old = self.maxima[j]
            self.maxima[j] = cute.arch.fmax(old, found[j])
            factors[j] = cute.math.exp2((old - finite(self.maxima[j])) * self.scale, fastmath=True)
            self.sums[j] *= factors[j]
        return factors

    def over_warps(self, values: cute.Tensor, combine: Callable[[Any, Any], Any], statistic: int) -> list[Any]:
        """Combine a value for each head over all keys, in a fixed order. Every thread gets its heads' results."""
        buffer = self.cta.smem.exchange
        self.publish(values, combine, statistic)
        self.thread.meet()
        warps = range(len(self.cta.config.roles.softmax))
        return [functools.reduce(combine, (buffer[h, w, statistic] for w in warps)) for h in self.thread.heads]

    @cute.jit
    def publish(self, values: cute.Tensor, combine: cutlass.Constexpr[Any], statistic: cutlass.Constexpr[int]) -> None:
        """Write a value of each head, combined over the warp's keys, into the exchange buffer."""
        thread = self.thread
        combined = self.per_head(0.0)
        for j in cutlass.range_constexpr(len(thread.heads)):
            value = values[j]
            for distance in OVER_KEYS:
                value = combine(value, cute.arch.shuffle_sync_bfly(value, distance))
            combined[j] = value
        if thread.lane < QUAD:
            for j, head in enumerate(thread.heads):
                self.cta.smem.exchange[head, thread.warp, statistic] = combined[j]

    @cute.jit
    def rescale(self, factors: cute.Tensor) -> None:
        """Multiply O' by the factors of its heads, through registers."""
        thread = self.thread
        factor_of = self.cta.smem.exchange[None, thread.warp, FACTOR]
        if thread.lane < QUAD:
            for j, head in enumerate(thread.heads):
                factor_of[head] = factors[j]
        cute.arch.sync_warp()
        for part in cutlass.range(o_parts(self.cta), unroll=1):
            lanes = o_lanes(self.cta, part, AT_ONCE)
            o = load_lanes(lanes, thread.index)
            first = part % (self.cta.config.tile_m // AT_ONCE) * AT_ONCE
            for n in cutlass.range_constexpr(0, AT_ONCE, 2):
                pair = factor_of[first + n], factor_of[first + n + 1]
                o[n], o[n + 1] = cute.arch.mul_packed_f32x2((o[n], o[n + 1]), pair)
            store_lanes(o, lanes, thread.index)
        cute.arch.fence_view_async_tmem_store()

    def store_p(self, s: list[cute.Tensor], stage: Int32) -> None:
        """Exponentiate the logits, add them to the sums, and write them to shared memory, two heads of a key at a time.

        PV[i - 2] has read the stage: it was issued before QK[i], which has completed.
        """
        thread = self.thread
        scale = (self.scale, self.scale)
        pairs = len(thread.heads) // 2
        words = cute.recast_tensor(self.cta.smem.sP, Int32)
        per_core = CORE * CORE // 2  # words
        first = stage * (self.cta.fragments.p_stage_bytes // 4) + thread.lane
        for i in range(pairs):
            shifts = tuple(-finite(self.maxima[2 * i + e]) * self.scale for e in range(2))
            for half in range(2):
                logits = s[half][2 * i], s[half][2 * i + 1]
                x = cute.arch.fma_packed_f32x2(logits, scale, shifts)
                p = cute.make_rmem_tensor(2, Float32)
                p[0], p[1] = (cute.math.exp2(each, fastmath=True) for each in x)
                sums = self.sums[2 * i], self.sums[2 * i + 1]
                self.sums[2 * i], self.sums[2 * i + 1] = cute.arch.add_packed_f32x2(sums, (p[0], p[1]))
                packed = cute.make_rmem_tensor(2, BFloat16)
                packed.store(p.load().to(BFloat16))
                core = (thread.warp * (KEYS // CORE) + half) * pairs + i
                words[first + core * per_core] = cute.recast_tensor(packed, Int32)[0]
        cute.arch.fence_view_async_shared()


@dataclass
class SwappedEpilogue(LoopInvariant):
    """A softmax thread that stores the results of a row tile, or its CTA's partial result."""

    cta: Cta
    thread: ColumnThread
    softmax: SwappedSoftmax

    @cute.jit
    def run(self) -> None:
        """Store lse, m and O, or publish U, maxima and sums to the cluster."""
        config, cta, thread = self.cta.config, self.cta, self.thread
        softmax = self.softmax
        # 1. Exchange the statistics, once no slow warp still reads those of the previous row tile.
        thread.meet()
        softmax.publish(softmax.maxima, cute.arch.fmax, MAXIMUM)
        softmax.publish(softmax.sums, operator.add, SUM)
        if const_expr(config.maxima):
            softmax.publish(softmax.largest, cute.arch.fmax, LARGEST)
        thread.meet()
        # 2. Wait for the last PV.
        if cta.kv_tiles.count > 0:
            stage, phase = cta.bars.stage_and_phase(cta.kv_done + cta.kv_tiles.count - 1)
            cta.bars.wait("o_done", stage, phase)
        # 3. Store the results.
        if const_expr(config.splits > 1):
            self.store_partial()
        else:
            self.store_statistics()
            self.store_o()

    def statistics(self, head: Any) -> tuple[RowSoftmax, Any]:
        """Return the statistics of a head over all keys of the CTA, and its sum."""
        cta, buffer = self.cta, self.cta.smem.exchange
        warps = range(len(cta.config.roles.softmax))
        running = RowSoftmax(cta.args.scale_log2, cta.config.maxima)
        running.stats[0] = buffer[head, 0, MAXIMUM]
        if cta.config.maxima:
            running.set_largest(functools.reduce(cute.arch.fmax, (buffer[head, w, LARGEST] for w in warps)))
        return running, functools.reduce(operator.add, (buffer[head, w, SUM] for w in warps))

    @cute.jit
    def store_statistics(self) -> None:
        """Store lse and m, and write the factors from U to O into the warp's part of the exchange buffer."""
        cta, thread = self.cta, self.thread
        heads = cta.config.tile_m
        for n in cutlass.range_constexpr(max(heads // WARP, 1)):
            head = (n * WARP + thread.lane) % heads
            running, row_sum = self.statistics(head)
            row = cta.row_tile.row(head)
            if (thread.warp == 0) & (thread.lane < heads) & (row < cta.row_tile.rows):
                running.store(cta.args, row_sum, cta.row_tile.group, row)
            cta.smem.exchange[head, thread.warp, FACTOR] = running.inverse(row_sum, cta.sink_logit(head))
        cute.arch.sync_warp()

    @cute.jit
    def store_o(self) -> None:
        """Store O, a column of V and a head at a time: the lanes of a warp have adjacent columns."""
        cta, thread = self.cta, self.thread
        factor_of = cta.smem.exchange[None, thread.warp, FACTOR]
        rows = cta.copies.o[cta.row_tile.group, None, None]
        row_bytes = Int64(rows.stride[0]) * BF16_BYTES
        column = rows[cta.row_tile.row(0), None].iterator.toint() + Int64(thread.column_of(0) * BF16_BYTES)
        left = cta.row_tile.rows - cta.row_tile.row(0)
        heads = cta.config.tile_m
        for block in cutlass.range(cta.config.slices, unroll=1):
            o = load_o_or_zeros(cta, thread, block)
            values = rounded(o, [factor_of[n] for n in range(heads)])
            at = column + Int64(block * TMEM_LANES * BF16_BYTES)
            for first in cutlass.range_constexpr(0, heads, AT_ONCE):
                if first + AT_ONCE <= left:
                    for n in cutlass.range_constexpr(first, first + AT_ONCE):
                        store_bf16(at + row_bytes * n, values[n])
                else:
                    for n in cutlass.range_constexpr(first, first + AT_ONCE):
                        if n < left:
                            store_bf16(at + row_bytes * n, values[n])

    @cute.jit
    def store_partial(self) -> None:
        """Write the CTA's partial result into the buffers of Q and the keys, which nothing reads any more."""
        config, cta, thread = self.cta.config, self.cta, self.thread
        rows = partial_rows(config, cta.smem.sQ.iterator)
        if thread.index < config.tile_m:
            running, row_sum = self.statistics(thread.index)
            rows[thread.index, config.head_dim] = running.stats[0]
            rows[thread.index, config.head_dim + 1] = row_sum
            if const_expr(config.maxima):
                rows[thread.index, config.head_dim + STATS] = running.largest
        for block in cutlass.range(config.slices, unroll=1):
            o = load_o_or_zeros(cta, thread, block)
            for n in cutlass.range_constexpr(config.tile_m):
                rows[n, thread.column_of(block)] = o[n]


def rounded(values: cute.Tensor, factors: list[Float32]) -> list[Int16]:
    """Return the bits of values times factors in bf16. A conversion rounds two: one of a single value takes longer."""
    found = []
    for n in range(0, len(factors), 2):
        pair = cute.make_rmem_tensor(2, Float32)
        pair[0], pair[1] = cute.arch.mul_packed_f32x2((values[n], values[n + 1]), (factors[n], factors[n + 1]))
        packed = cute.make_rmem_tensor(2, BFloat16)
        packed.store(pair.load().to(BFloat16))
        word = cute.recast_tensor(packed, Int32)[0]
        found += [Int16(word), Int16(word >> 16)]
    return found


def store_bf16(address: Any, value: Int16) -> None:
    """Store the bits of a value in global memory."""
    pointer = cute.make_ptr(Int16, address, cute.AddressSpace.gmem, assumed_align=BF16_BYTES)
    cute.make_tensor(pointer, cute.make_layout(1))[0] = value


def o_parts(cta: Cta) -> int:
    """Return the number of parts of O' that are rescaled: AT_ONCE heads in a block of V's columns."""
    return cta.config.slices * cta.config.tile_m // AT_ONCE


def o_lanes(cta: Cta, part: Int32, heads: int) -> cute.Tensor:
    """Return a part of O' with some heads, as (lane, head)."""
    layout = cute.make_layout((TMEM_LANES, heads), stride=(LANE, 1))
    return cute.make_tensor(cta.fragments.o + part * heads, layout)


@cute.jit
def load_o_or_zeros(cta: Cta, thread: ColumnThread, block: Int32) -> cute.Tensor:
    """Load a block of O' for all heads; zeros if the row tile sees no key, so that no PV has written O'."""
    heads = cta.config.tile_m
    o = cute.make_rmem_tensor(heads, Float32)
    o.fill(0.0)
    if cta.kv_tiles.count > 0:
        o.store(cute.coalesce(load_lanes(o_lanes(cta, block, heads), thread.index)).load())
    return o
