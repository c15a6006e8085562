"""The softmax role: four warps turn S[i] into P[i], and O shrinks when a maximum moved."""

# CuTeDSL's operations take and give traced values and static ones alike, which its annotations cannot say.
# mypy: disable-error-code="index, arg-type, misc, attr-defined, operator, union-attr, assignment"

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
from kernel.config import TMEM_LANES, WARP, FmhaConfig
from kernel.sm100.cta import HALF_LANES, LANE, LOAD_COLS, VECTOR, Cta, Fragments
from kernel.sm100.tiles import TopkTiles
from kernel.sm100.traced import Fixed

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


@dataclass
class RowThread(Fixed):
    """A softmax thread: which row is its own, and how it reads the logits of it from tensor memory."""

    row_tile: Any  # which of the CTA's is the thread's
    index: Any  # among the row tile's threads; its warp has the lanes of quarter index // WARP
    load: cute.ThrCopy
    tLtS: cute.Tensor  # the thread's logits of stage 0 in tensor memory
    tLcS: cute.Tensor  # their (row, key) within the tile
    row: Any  # of the CTA's
    half: Any  # which half of the row's keys and columns is the thread's; 0 where it has them all

    @staticmethod
    def of(fragments: Fragments, config: FmhaConfig) -> RowThread:
        """The tensor-memory load decides who owns what: row and keys come from its own coordinates."""
        repeat = tcgen05.Repetition(LOAD_COLS)
        whole_lanes = config.threads_per_row == 1 or config.halves_apart
        shape = tcgen05.Ld32x32bOp(repeat) if whole_lanes else tcgen05.Ld16x32bx2Op(repeat)
        index, row_tile = cute.arch.thread_idx()[0] - WARP * config.roles.softmax[0], 0
        if config.row_tiles > 1:
            row_tile = cute.arch.make_warp_uniform(index // TMEM_LANES)
            index = index % TMEM_LANES
        if config.halves_apart:  # lanes 64 to 127 have the second half of the keys of rows 0 to 63
            lanes = cute.make_layout((TMEM_LANES, config.s_cols), stride=(LANE, 1))
            tStS = cute.make_tensor(fragments.tStS.iterator, lanes)
            load = tcgen05.make_tmem_copy(cute.make_copy_atom(shape, Float32), tStS).get_slice(index)
            half, row = index // config.tile_m, index % config.tile_m
            keys = cute.domain_offset((0, half * config.s_cols), cute.make_identity_tensor(tStS.shape))
            return RowThread(0, index, load, load.partition_S(tStS), load.partition_D(keys), row, half)
        load = tcgen05.make_tmem_copy(cute.make_copy_atom(shape, Float32), fragments.tStS).get_slice(index)
        identity = cute.make_identity_tensor((config.tile_m, config.block_n))
        tLcS = load.partition_D(fragments.mmas.qk.get_slice(0).partition_C(identity))
        row, key = tLcS[0]
        half = key // (config.block_n // config.threads_per_row)
        row = row_tile * config.tile_m + row
        return RowThread(row_tile, index, load, load.partition_S(fragments.tStS), tLcS, row, half)


@dataclass
class RunningSoftmax(Fixed):
    """Running statistics of a thread's row: maximum (raw logits) and sum of exponentials over its keys.

    Threads that share a row and not a warp tell each other theirs in turns, a turn a KV tile and one for the sum.
    """

    scale_log2: Float32
    threads_per_row: int
    index: Any  # of the softmax thread
    sMax: cute.Tensor | None  # where threads that share a row and not a warp tell each other
    stats: cute.Tensor  # registers: the maximum, and partial sums

    @staticmethod
    def start(
        scale_log2: Float32, threads_per_row: int, index: Any = 0, sMax: cute.Tensor | None = None
    ) -> RunningSoftmax:
        stats = cute.make_rmem_tensor((1 + SUMS,), Float32)
        stats[0] = -Float32.inf
        for j in range(SUMS):
            stats[1 + j] = Float32(0.0)
        return RunningSoftmax(scale_log2, threads_per_row, index, sMax, stats)

    @property
    def row_max(self) -> Any:
        return self.stats[0]

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
        return cutlass.select_(self.row_max == -Float32.inf, Float32(0.0), self.row_max)

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
        max_log2 = self.row_max * self.scale_log2
        args.lse[group, row] = cute.math.log(row_sum) + max_log2 * Float32(LN2)
        if args.m is not None:
            args.m[group, row] = max_log2 * Float32(LN2)

    def tile_max(self, s: cute.Tensor, i: Int32) -> Float32:
        """Maximum over the logits of tile `i`, in four chains so that the adds of one hide those of another."""
        chains = [self.row_max] * 4
        for j in range(0, cute.size(s), 4):
            for c in range(4):
                chains[c] = cute.arch.fmax(chains[c], s[j + c])
        top = cute.arch.fmax(cute.arch.fmax(chains[0], chains[1]), cute.arch.fmax(chains[2], chains[3]))
        return self.over_row(top, cute.arch.fmax, i)

    def move_to(self, new_max: Float32) -> Float32:
        """Take `new_max` as the reference; the factor by which sums and O shrink."""
        old = self.row_max
        self.stats[0] = new_max
        factor = self.weight_of(old)
        for j in range(SUMS):
            self.stats[1 + j] *= factor
        return factor

    def exponentiate(self, s: cute.Tensor) -> None:
        """s becomes exp2(scale_log2 * (s - row_max)) in place; the sum is carried on."""
        scale = (self.scale_log2, self.scale_log2)
        shift = -self.finite_max() * self.scale_log2
        bits = cute.recast_tensor(s, Int32)
        for j in range(0, cute.size(s), 2):
            x = cute.arch.fma_packed_f32x2((s[j], s[j + 1]), scale, (shift, shift))
            if j // 2 % POLYNOMIAL_EVERY == POLYNOMIAL_EVERY - 1:
                (s[j], s[j + 1]), exponents = exp2_split(x)
                bits[j] += exponents[0]
                bits[j + 1] += exponents[1]
            else:
                s[j] = cute.math.exp2(x[0], fastmath=True)
                s[j + 1] = cute.math.exp2(x[1], fastmath=True)
            even, odd = 1 + j % SUMS, 2 + j % SUMS
            total = (self.stats[even], self.stats[odd])
            self.stats[even], self.stats[odd] = cute.arch.add_packed_f32x2(total, (s[j], s[j + 1]))


Pair = tuple[Float32, Float32]


def exp2_split(x: Pair) -> tuple[Pair, tuple[Int32, Int32]]:
    """2^x of two exponents up to 127 on the FMA pipe: 2^(x - n), n the nearest integer, and n in place of an exponent
    to be added to its bits. From -127 down it comes to 0."""
    x = (cute.arch.fmax(x[0], Float32(LEAST)), cute.arch.fmax(x[1], Float32(LEAST)))
    shifted = cute.arch.add_packed_f32x2(x, twice(ROUND))
    n = cute.arch.add_packed_f32x2(shifted, twice(-ROUND))
    x = cute.arch.fma_packed_f32x2(n, twice(-1.0), x)
    power = twice(EXP2[-1])
    for coefficient in EXP2[-2::-1]:
        power = cute.arch.fma_packed_f32x2(power, x, twice(coefficient))
    rounded = cute.make_rmem_tensor((2,), Float32)
    rounded[0], rounded[1] = shifted
    exponents = cute.recast_tensor(rounded, Int32)
    return power, (exponents[0] << MANTISSA_BITS, exponents[1] << MANTISSA_BITS)


def twice(x: float) -> Pair:
    return Float32(x), Float32(x)


@dataclass
class SoftmaxWarps(Fixed):
    cta: Cta
    thread: RowThread
    running: RunningSoftmax

    @cute.jit
    def run(self) -> None:
        config, bars, kv, thread = self.cta.config, self.cta.bars, self.cta.kv_tiles, self.thread
        token = self.cta.row_tile.token(thread.row)
        for i in cutlass.range(kv.count, unroll=1):
            stage, phase = bars.stage_and_phase(self.cta.turn + i, thread.row_tile)
            s = cute.make_rmem_tensor(thread.tLcS.shape, Float32)
            cut, lo, hi = self.bounds(i, token)
            named = self.topk_bits(i)
            bars.wait("s_full", stage, phase)
            tLtS = cute.make_tensor(thread.tLtS.iterator + stage * config.s_cols, thread.tLtS.layout)
            cute.copy(thread.load, tLtS, s)
            cute.arch.fence_view_async_tmem_load()
            if cut:
                self.mask_outside(s, lo, hi)
            if const_expr(config.compressed == "topk"):
                self.mask_unlisted(s, named)
            self.track_max(s, i)
            self.hand_on(s, stage)

    # Which logits count.

    def bounds(self, i: Int32, token: Int32) -> tuple[Any, Any, Any]:
        """Whether some row does not see all of KV tile `i`; the keys of it that `token` sees, from lo up to hi."""
        window, compressed = self.cta.kv_tiles.window, self.cta.kv_tiles.compressed
        seen = window.seen
        cut, lo, hi = window.is_cut(i), seen.lo(token) - window.start(i), seen.hi(token) - window.start(i)
        if compressed is None:
            return cut, lo, hi
        j = i - window.count
        if isinstance(compressed, TopkTiles):
            return cut & (j < 0), lo, hi
        return (
            cutlass.select_(j < 0, cut, compressed.is_cut(j)),
            cutlass.select_(j < 0, lo, Int32(0)),
            cutlass.select_(j < 0, hi, compressed.seen.hi(token) - compressed.start(j)),
        )

    def mask_outside(self, s: cute.Tensor, lo: Int32, hi: Int32) -> None:
        """Logits of keys before `lo` and from `hi` on become -inf."""
        for j in range(cute.size(s)):
            key = self.thread.tLcS[j][1]
            visible = key < hi if self.cta.config.mask != "causal" else (key >= lo) & (key < hi)
            s[j] = cutlass.select_(visible, s[j], -Float32.inf)

    def topk_bits(self, i: Int32) -> list[Int32]:
        """Which keys of KV tile `i` the list names, WARP a word, for those of the warp; all in a tile of the window."""
        config, kv = self.cta.config, self.cta.kv_tiles
        if config.compressed != "topk":
            return []
        first, own = (i - kv.window.count) * config.block_n, 0
        if config.halves_apart:
            own = self.thread.half * config.s_cols
        entries = [own + j + cute.arch.lane_idx() for j in range(0, config.s_cols, WARP)]
        keys = [kv.compressed.key(first + entry) for entry in entries]  # all loads before the first vote
        words = [cute.arch.vote_ballot_sync(key >= 0) for key in keys]
        return [cutlass.select_(first < 0, Int32(-1), word) for word in words]

    @cute.jit
    def mask_unlisted(self, s: cute.Tensor, words: list[Int32]) -> None:
        """Logits of keys that the list does not name become -inf."""
        own = self.own_half(words)
        if functools.reduce(operator.and_, words) != -1:
            self.mask_by_bits(s, own)

    def mask_by_bits(self, s: cute.Tensor, words: list[Int32]) -> None:
        """Logits of keys whose bit is not set become -inf."""
        for j in range(cute.size(s)):
            bit = Int32(1 << j % WARP if j % WARP < WARP - 1 else -(1 << WARP - 1))
            s[j] = cutlass.select_((words[j // WARP] & bit) != 0, s[j], -Float32.inf)

    def own_half(self, words: list[Int32]) -> list[Int32]:
        """Those of the warp's words that speak of the thread's own keys."""
        if len(words) == cute.size(self.thread.tLcS) // WARP:
            return words
        half = len(words) // 2
        return [cutlass.select_(self.thread.half == 0, *pair) for pair in zip(words[:half], words[half:], strict=True)]

    # The maximum, and O that refers to it.

    @cute.jit
    def track_max(self, s: cute.Tensor, i: Int32) -> None:
        """Move the reference maximum where a row of the warp outgrew it by more than 2^RESCALE_LOG2."""
        running = self.running
        new_max = running.tile_max(s, self.cta.turn + i)
        moved = (new_max - running.row_max) * running.scale_log2 > RESCALE_LOG2
        if cute.arch.vote_any_sync(moved):
            factor = running.move_to(new_max)
            if i > 0:
                stage, phase = self.cta.bars.stage_and_phase(self.cta.turn + i - 1, self.thread.row_tile)
                self.cta.bars.wait("o_done", stage, phase)
                self.rescale(factor)

    def rescale(self, factor: Float32) -> None:
        """O *= factor, each thread its row or its half of it, straight through registers."""
        repeat = tcgen05.Repetition(LOAD_COLS)
        tOtO = self.cta.fragments.o_blocks(self.thread.row_tile)
        block = tOtO[None, None, 0]
        load = tcgen05.make_tmem_copy(cute.make_copy_atom(tcgen05.Ld32x32bOp(repeat), Float32), block)
        store = tcgen05.make_tmem_copy(cute.make_copy_atom(tcgen05.St32x32bOp(repeat), Float32), block)
        load, store = load.get_slice(self.thread.index), store.get_slice(self.thread.index)
        shape = load.partition_D(cute.make_identity_tensor((TMEM_LANES, LOAD_COLS))).shape
        for c in range(cute.size(tOtO, mode=[2])):
            o = cute.make_rmem_tensor(shape, Float32)
            cute.copy(load, load.partition_S(tOtO[None, None, c]), o)
            cute.arch.fence_view_async_tmem_load()
            for j in range(0, cute.size(o), 2):
                o[j], o[j + 1] = cute.arch.mul_packed_f32x2((o[j], o[j + 1]), (factor, factor))
            cute.copy(store, o, store.partition_D(tOtO[None, None, c]))
        cute.arch.fence_view_async_tmem_store()

    # P as bf16, where the tensor core reads it.

    def hand_on(self, s: cute.Tensor, stage: Int32) -> None:
        """The exponentials of a tile, part by part on their way to the tensor core."""
        parts, first = self.cta.config.p_parts, 0
        pieces = cute.logical_divide(flat(s), cute.make_layout(cute.size(s) // sum(parts)))
        for part, count in enumerate(parts):
            for piece in range(first, first + count):
                p = pieces[None, piece]
                self.running.exponentiate(p)
                if self.cta.config.p_path == "tmem":
                    self.store_p_tmem(p, stage, piece)
                else:
                    self.store_p_smem(p, stage)
            if self.cta.config.p_path == "tmem":
                cute.arch.fence_view_async_tmem_store()
            self.cta.bars.arrive_warp("p_full", stage * len(parts) + part, self.cta.config.leader)
            first += count

    def store_p_tmem(self, s: cute.Tensor, stage: Int32, piece: int) -> None:
        """A piece of P into its columns of tensor memory, two keys a column."""
        config, columns = self.cta.config, cute.size(s) // 2
        base = self.cta.fragments.tStS.iterator + (config.tmem_p + stage * config.p_stride + piece * columns)
        tStP = cute.make_tensor(base, cute.make_layout((TMEM_LANES, columns), stride=(LANE, 1)))
        atom = cute.make_copy_atom(tcgen05.St32x32bOp(tcgen05.Repetition(columns)), Float32)
        store = tcgen05.make_tmem_copy(atom, tStP).get_slice(self.thread.index)
        tPtP = store.partition_D(tStP)
        shape = store.partition_S(cute.make_identity_tensor((TMEM_LANES, columns))).shape
        packed = cute.make_rmem_tensor(shape, Float32)
        cute.recast_tensor(packed, BFloat16).store(s.load().to(BFloat16))
        cute.copy(store, packed, tPtP)

    def store_p_smem(self, s: cute.Tensor, stage: Int32) -> None:
        """P into shared memory, sixteen bytes of its row at once. P[i-2] V[i-2], ahead of S[i], has read the stage."""
        thread = self.thread
        vector = cute.make_layout(VECTOR)
        dst = cute.logical_divide(by_rows(self.cta.smem.sP)[thread.row, None, stage], vector)
        p = cute.make_rmem_tensor(cute.size(s), BFloat16)
        p.store(s.load().to(BFloat16))
        p = cute.logical_divide(p, vector)
        vectors = cute.size(p, mode=[1])
        for j in range(vectors):
            cute.autovec_copy(p[None, j], dst[None, thread.half * vectors + j])
        cute.arch.fence_view_async_shared()


def by_rows(sP: cute.Tensor) -> cute.Tensor:
    """The operand tiles ((row, k), 1, k, stage) as matrices (row, k, stage): same bytes, same swizzle."""
    ((rows, k0), _, k1, stages), ((row, s0), _, s1, stage) = sP.shape, sP.stride
    layout = cute.make_layout((rows, (k0, k1), stages), stride=(row, (s0, s1), stage))
    return cute.make_tensor(sP.iterator, layout)


def flat(tensor: cute.Tensor) -> cute.Tensor:
    return cute.make_tensor(tensor.iterator, cute.make_layout(cute.size(tensor)))
