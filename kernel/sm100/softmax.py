"""The softmax role: four warps turn S[i] into P[i], and O shrinks when a maximum moved."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int32, const_expr
from cutlass.cute.nvgpu import tcgen05

from kernel.arguments import Arguments
from kernel.config import BF16_BYTES, S_STAGES, TMEM_LANES, WARP, FmhaConfig
from kernel.sm100.cta import HALF_LANES, LANE, LOAD_COLS, VECTOR_BYTES, Cta, Fragments
from kernel.sm100.operands import units
from kernel.sm100.tiles import Fixed

LOG2E = math.log2(math.e)
MANTISSA_BITS = 23
ROUND = 1.5 * 2.0**MANTISSA_BITS  # added to x, it leaves the nearest integer in the lowest bits
LEAST = -127.0  # 2^x below is taken to be 0
#: 2^x on [-0.5, 0.5], 1 at 0, relative error 1.6e-7 in fp32: as good as the ex2 of MUFU.
EXP2 = (1.0, 0.6931469775976786, 0.24022242083111775, 0.055507337444709925, 0.009671512785779582, 0.0013264727252726939)
SUMS = 4  # partial sums of a thread: two at once, and while one add is under way the next begins
POLYNOMIAL_EVERY = 4  # pair of exponentials goes to the FMA pipe, the others to MUFU
LN2 = math.log(2.0)
RESCALE_LOG2 = 8.0  # O is rescaled once the maximum has moved by more: P stays below 2^8


class RowThread(Fixed):
    """A softmax thread: which row is its own, and how it reads the logits of it from tensor memory."""

    def __init__(self, fragments: Fragments, config: FmhaConfig) -> None:
        """The tensor-memory load decides who owns what: row and keys come from its own coordinates."""
        index, self.row_tile, tStS = cute.arch.thread_idx()[0] - WARP * config.roles.softmax[0], 0, fragments.tStS
        if config.row_tiles > 1:
            self.row_tile = cute.arch.make_warp_uniform(index // TMEM_LANES)
            index = index % TMEM_LANES
        self.index = index  # among the row tile's threads; its warp has the lanes of quarter index // WARP
        if config.halves_apart:  # lanes 64 to 127 have the second half of the keys of rows 0 to 63
            tStS = cute.make_tensor(tStS.iterator, cute.make_layout((TMEM_LANES, config.s_cols), stride=(LANE, 1)))
            keys = (0, index // config.tile_m * config.s_cols)
            coords = cute.domain_offset(keys, cute.make_identity_tensor(tStS.shape))
        else:
            tile = cute.make_identity_tensor((config.tile_m, config.block_n))
            coords = fragments.products.qk.get_slice(0).partition_C(tile)
        whole_lanes = config.threads_per_row == 1 or config.halves_apart
        self.load = tmem_copy(tcgen05.Ld32x32bOp if whole_lanes else tcgen05.Ld16x32bx2Op, LOAD_COLS, tStS, index)
        self.tLtS = self.load.partition_S(tStS)  # the thread's logits of stage 0
        self.tLcS = self.load.partition_D(coords)  # their (row, key) within the tile
        row, key = self.tLcS[0]
        self.row = self.row_tile * config.tile_m + row % config.tile_m  # of the CTA's
        self.half = key // (config.block_n // config.threads_per_row)  # of the row's keys and columns; 0 if all are its

    @cute.jit
    def wait_for_o(self, cta: Cta) -> None:
        """Until O is whole, if the row tile sees any key."""
        if cta.kv_tiles.count > 0:
            stage, phase = cta.bars.stage_and_phase(cta.turn + cta.kv_tiles.count - 1, self.row_tile)
            cta.bars.wait("o_done", stage, phase)

    def load_o(self, cta: Cta, c: int) -> cute.Tensor:
        """LOAD_COLS columns of the thread's row of O, or of its half of it, in registers."""
        block = cta.fragments.o_blocks(self.row_tile)[None, None, c]
        load = tmem_copy(tcgen05.Ld32x32bOp, LOAD_COLS, block, self.index)
        o = cute.make_rmem_tensor(load.partition_D(cute.make_identity_tensor(block.shape)).shape, Float32)
        cute.copy(load, load.partition_S(block), o)
        cute.arch.fence_view_async_tmem_load()
        return o

    @cute.jit
    def o_or_zeros(self, cta: Cta, c: cutlass.Constexpr[int]) -> cute.Tensor:
        """The same; zeros where the row tile sees no key."""
        o = cute.make_rmem_tensor(LOAD_COLS, Float32)
        o.fill(0.0)
        if cta.kv_tiles.count > 0:
            o.store(cute.coalesce(self.load_o(cta, c)).load())
        return o


@dataclass
class RunningSoftmax(Fixed):
    """Running statistics of a thread's row: maximum (raw logits) and sum of exponentials over its keys."""

    scale_log2: Float32
    threads_per_row: int
    index: Any = 0  # of the softmax thread
    sMax: cute.Tensor | None = None  # where threads of a row tell each other, a turn a KV tile and one for the sum

    def __post_init__(self) -> None:
        """Registers: the maximum, and partial sums."""
        self.stats = cute.make_rmem_tensor((1 + SUMS,), Float32)
        self.stats.fill(0.0)
        self.stats[0] = -Float32.inf

    def row_sum(self, turn: Any = 0) -> Any:
        """Over all keys of the row: every thread that shares it calls this, in its next turn."""
        total = functools.reduce(operator.add, (self.stats[1 + j] for j in range(SUMS)))
        return self.over_row(total, operator.add, turn)

    def over_row(self, value: Any, combine: Callable[[Any, Any], Any], turn: Int32) -> Any:
        """`value` combined with that of the thread that shares the row: HALF_LANES away, or two warps."""
        if self.threads_per_row == 1:
            return value
        if self.sMax is None:
            return combine(value, cute.arch.shuffle_sync_bfly(value, HALF_LANES))
        told = self.sMax[None, turn % 2]  # the turn before may still be read
        told[self.index] = value
        self.meet()
        return combine(value, told[(self.index + TMEM_LANES // 2) % TMEM_LANES])

    def meet(self) -> None:
        """Wait for the warp that has the other half of the same rows."""
        cute.arch.barrier(barrier_id=1 + self.index // WARP % 2, number_of_threads=2 * WARP)

    def finite_max(self) -> Float32:
        """The maximum, or 0 where nothing was visible yet: an exponent that is never inf - inf."""
        return cutlass.select_(self.stats[0] == -Float32.inf, Float32(0.0), self.stats[0])

    def weight_of(self, maximum: Float32) -> Float32:
        """What is multiplied by what refers to a maximum below this one; 0 for that of no key."""
        return cute.math.exp2((maximum - self.finite_max()) * self.scale_log2, fastmath=True)

    def weight(self, sink: Float32) -> Float32:
        """What a logit that is not scaled adds to the sum: 0 for -inf, infinity for +inf and for one that drowns it."""
        shift = -self.finite_max() * self.scale_log2
        log2, _ = cute.arch.fma_packed_f32x2((sink, sink), (Float32(LOG2E), Float32(LOG2E)), (shift, shift))
        return cute.math.exp2(log2, fastmath=True)

    def inverse(self, row_sum: Any, sink: Float32 | None) -> Any:
        """What U is multiplied by to be O; 0 where no key was visible."""
        total = row_sum if sink is None else row_sum + self.weight(sink)
        return cutlass.select_(total == 0.0, Float32(0.0), 1.0 / total)

    def store(self, args: Arguments, row_sum: Any, group: Int32, row: Int32) -> None:
        """lse and m of one row in natural logarithms; both -inf where no key was visible."""
        max_log2 = self.stats[0] * self.scale_log2
        args.lse[group, row] = cute.math.log(row_sum) + max_log2 * Float32(LN2)
        if args.m is not None:
            args.m[group, row] = max_log2 * Float32(LN2)

    def tile_max(self, s: cute.Tensor, i: Int32) -> Float32:
        """Maximum over the logits of tile `i`, in four chains so that the adds of one hide those of another."""
        chains = [functools.reduce(cute.arch.fmax, (s[j] for j in range(c, cute.size(s), 4))) for c in range(4)]
        return self.over_row(functools.reduce(cute.arch.fmax, chains, self.stats[0]), cute.arch.fmax, i)

    def move_to(self, new_max: Float32) -> Float32:
        """Take `new_max` as the reference; the factor by which sums and O shrink."""
        old = self.stats[0]
        self.stats[0] = new_max
        factor = self.weight_of(old)
        for j in range(SUMS):
            self.stats[1 + j] *= factor
        return factor

    def exponentiate(self, s: cute.Tensor) -> None:
        """s becomes exp2(scale_log2 * (s - row_max)) in place; the sum is carried on."""
        scale = (self.scale_log2, self.scale_log2)
        shift = -self.finite_max() * self.scale_log2
        for j in range(0, cute.size(s), 2):
            x = cute.arch.fma_packed_f32x2((s[j], s[j + 1]), scale, (shift, shift))
            if j // 2 % POLYNOMIAL_EVERY == POLYNOMIAL_EVERY - 1:
                s[j], s[j + 1] = exp2_by_fma(x)
            else:
                s[j], s[j + 1] = (cute.math.exp2(each, fastmath=True) for each in x)
            even, odd = 1 + j % SUMS, 2 + j % SUMS
            total = (self.stats[even], self.stats[odd])
            self.stats[even], self.stats[odd] = cute.arch.add_packed_f32x2(total, (s[j], s[j + 1]))


def exp2_by_fma(x: tuple[Float32, Float32]) -> tuple[Float32, Float32]:
    """2^x of two exponents up to 127 on the FMA pipe, 0 from -127 down: 2^(x - n), integer n added to its exponent."""
    x = (cute.arch.fmax(x[0], Float32(LEAST)), cute.arch.fmax(x[1], Float32(LEAST)))
    shifted = cute.arch.add_packed_f32x2(x, (ROUND, ROUND))
    n = cute.arch.add_packed_f32x2(shifted, (-ROUND, -ROUND))
    x = cute.arch.fma_packed_f32x2(n, (-1.0, -1.0), x)
    power = EXP2[-1], EXP2[-1]
    for coefficient in EXP2[-2::-1]:
        power = cute.arch.fma_packed_f32x2(power, x, (coefficient, coefficient))
    values = cute.make_rmem_tensor(4, Float32)
    bits = cute.recast_tensor(values, Int32)
    for j in range(2):
        values[j], values[2 + j] = power[j], shifted[j]
        bits[j] += bits[2 + j] << MANTISSA_BITS
    return values[0], values[1]


@dataclass
class SoftmaxWarp(Fixed):
    """A softmax warp's thread at a row tile."""

    cta: Cta
    thread: RowThread
    running: RunningSoftmax

    @cute.jit
    def run(self) -> None:
        bars, kv, thread = self.cta.bars, self.cta.kv_tiles, self.thread
        token = self.cta.row_tile.token(thread.row)
        for i in cutlass.range(kv.count, unroll=1):
            stage, phase = bars.stage_and_phase(self.cta.turn + i, thread.row_tile)
            s = cute.make_rmem_tensor(thread.tLcS.shape, Float32)
            cut, lo, hi = kv.bounds(kv.begin + i, token)
            words = self.topk_bits(kv.begin + i) if const_expr(self.cta.config.compressed == "topk") else None
            bars.wait("s_full", stage, phase)
            cute.copy(thread.load, self.cta.fragments.s(stage, thread.tLtS), s)
            cute.arch.fence_view_async_tmem_load()
            if cut:
                self.mask_outside(s, lo, hi)
            if const_expr(words is not None):
                named = [words[j] for j in range(cute.size(words))]
                if functools.reduce(operator.and_, named) != -1:
                    self.mask_unlisted(s, named)
            self.track_max(s, i)
            self.hand_on(s, stage)

    def mask_outside(self, s: cute.Tensor, lo: Int32, hi: Int32) -> None:
        """Logits of keys before `lo` and from `hi` on become -inf."""
        for j in range(cute.size(s)):
            key = self.thread.tLcS[j][1]
            visible = key < hi if self.cta.config.mask != "causal" else (key >= lo) & (key < hi)
            s[j] = cutlass.select_(visible, s[j], -Float32.inf)

    @cute.jit
    def topk_bits(self, i: Int32) -> cute.Tensor:
        """Which keys of KV tile `i` the list names, WARP a word, for those of the warp; all in a tile of the window."""
        config, kv = self.cta.config, self.cta.kv_tiles
        words = cute.make_rmem_tensor(config.s_cols // WARP, Int32)
        words.fill(-1)
        first, own = (i - kv.window.count) * config.block_n, self.thread.half * config.s_cols * config.halves_apart
        if first >= 0:
            entries = [first + (own + j + cute.arch.lane_idx()) for j in range(0, config.s_cols, WARP)]
            keys = [kv.compressed.key(n, kv.compressed.index(n)) for n in entries]  # all loads before the first vote
            for j, key in enumerate(keys):
                words[j] = cute.arch.vote_ballot_sync(key >= 0)
        return words

    def mask_unlisted(self, s: cute.Tensor, words: list[Int32]) -> None:
        """Logits of keys that the list does not name become -inf."""
        if len(words) * WARP > cute.size(s):  # those of both halves of a row
            words = [cutlass.select_(self.thread.half == 0, *words)]
        for j in range(cute.size(s)):
            bit = Int32(1 << j % WARP if j % WARP < WARP - 1 else -(1 << WARP - 1))
            s[j] = cutlass.select_((words[j // WARP] & bit) != 0, s[j], -Float32.inf)

    @cute.jit
    def track_max(self, s: cute.Tensor, i: Int32) -> None:
        """Move the reference maximum where a row of the warp outgrew it by more than 2^RESCALE_LOG2."""
        running = self.running
        new_max = running.tile_max(s, self.cta.turn + i)
        moved = (new_max - running.stats[0]) * running.scale_log2 > RESCALE_LOG2
        if cute.arch.vote_any_sync(moved):
            factor = running.move_to(new_max)
            if i > 0:
                stage, phase = self.cta.bars.stage_and_phase(self.cta.turn + i - 1, self.thread.row_tile)
                self.cta.bars.wait("o_done", stage, phase)
                self.rescale(factor)

    def rescale(self, factor: Float32) -> None:
        """O *= factor, each thread its row or its half of it, straight through registers."""
        for c in range(self.cta.config.o_cols // LOAD_COLS):
            o = self.thread.load_o(self.cta, c)
            for j in range(0, cute.size(o), 2):
                o[j], o[j + 1] = cute.arch.mul_packed_f32x2((o[j], o[j + 1]), (factor, factor))
            block = self.cta.fragments.o_blocks(self.thread.row_tile)[None, None, c]
            store = tmem_copy(tcgen05.St32x32bOp, LOAD_COLS, block, self.thread.index)
            cute.copy(store, o, store.partition_D(block))
        cute.arch.fence_view_async_tmem_store()

    def hand_on(self, s: cute.Tensor, stage: Int32) -> None:
        """The exponentials of a tile, part by part on their way to the tensor core."""
        parts = self.cta.config.p_parts
        of_piece = cute.make_layout(cute.size(s) // parts[-1].stop)
        for part, pieces in enumerate(parts):
            for piece in pieces:
                p = cute.logical_divide(cute.coalesce(s), of_piece)[None, piece]
                self.running.exponentiate(p)
                if self.cta.config.p_path == "tmem":
                    self.store_p_tmem(p, stage, piece)
                else:
                    self.store_p_smem(p, stage)
            if self.cta.config.p_path == "tmem":
                cute.arch.fence_view_async_tmem_store()
            self.cta.bars.arrive_warp("p_full", stage * len(parts) + part)

    def store_p_tmem(self, s: cute.Tensor, stage: Int32, piece: int) -> None:
        """A piece of P into its columns of tensor memory, two keys a column."""
        config, columns = self.cta.config, cute.size(s) // 2
        base = self.cta.fragments.tStS.iterator + (config.tmem_p + stage * config.p_stride + piece * columns)
        tStP = cute.make_tensor(base, cute.make_layout((TMEM_LANES, columns), stride=(LANE, 1)))
        store = tmem_copy(tcgen05.St32x32bOp, columns, tStP, self.thread.index)
        coords = store.partition_S(cute.make_identity_tensor(tStP.shape))
        packed = cute.make_rmem_tensor(coords.shape, Float32)
        cute.recast_tensor(packed, BFloat16).store(s.load().to(BFloat16))
        cute.copy(store, packed, store.partition_D(tStP))

    def store_p_smem(self, s: cute.Tensor, stage: Int32) -> None:
        """P into shared memory, sixteen bytes of its row at once. P[i-2] V[i-2], ahead of S[i], has read the stage."""
        vector, vectors = cute.make_layout(VECTOR_BYTES // BF16_BYTES), cute.size(s) * BF16_BYTES // VECTOR_BYTES
        dst = cute.logical_divide(p_rows(self.cta)[self.thread.row, None, stage], vector)
        p = cute.make_rmem_tensor(cute.size(s), BFloat16)
        p.store(s.load().to(BFloat16))
        cute.arch.cp_async_bulk_wait_group(0, read=True)
        cute.arch.sync_warp()
        for j in range(vectors):
            cute.autovec_copy(cute.logical_divide(p, vector)[None, j], dst[None, self.thread.half * vectors + j])
        cute.arch.fence_view_async_shared()


def tmem_copy(op: type, columns: int, tensor: cute.Tensor, index: Any) -> cute.ThrCopy:
    """How thread `index` moves its lane's part of `tensor`, so many columns at once."""
    atom = cute.make_copy_atom(op(tcgen05.Repetition(columns)), Float32)
    return tcgen05.make_tmem_copy(atom, tensor).get_slice(index)


def p_rows(cta: Cta) -> Any:
    """P in shared memory, (row, key, stage)."""
    return units(cta.smem.sP, (cta.config.tile_m, cta.config.block_n), S_STAGES)
