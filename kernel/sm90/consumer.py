"""The consumer warpgroups: S = Q K', softmax and O += P V, with S, P and O in registers."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int32, const_expr
from cutlass.cute.nvgpu import warpgroup

from kernel.arguments import maxima
from kernel.device.cta import Cta
from kernel.device.tiles import LoopInvariant, smaller
from kernel.hardware import WARP
from kernel.sm90.operands import Fragments, gemm, keep_before_fence, opaque
from kernel.sm90.softmax import COLS, ROWS, ConsumerThread, LeanSoftmax, RowSoftmax, of_row

TURN = 1  # named barrier of warpgroup 0's turn; TURN + w is that of warpgroup w
P_READY = 4  # named barrier of warpgroup 0's P at head_dim 512; P_READY + 1: warpgroup 1's
MAX_READY = 6  # named barrier of warpgroup 0's maxima at head_dim 512; MAX_READY + 1: warpgroup 1's
MEET = 8  # named barrier of both warpgroups
SLOTS_FREE = 9  # named barrier of all threads: the other CTA has read, and written, all slots
CONSUMERS = 256  # threads of two warpgroups
RESCALE_LOG2 = 2.0  # O is rescaled once a maximum has moved by more: P stays below 2^2


@dataclass
class Consumer(LoopInvariant):
    """A consumer thread at a row tile of its warpgroup."""

    cta: Cta
    thread: ConsumerThread
    fragments: Fragments

    def __post_init__(self) -> None:
        """Make the registers: S and O as wgmma lays them out, P as its A operand."""
        config = self.cta.config
        qk = self.fragments.qk().get_slice(0)
        pv = self.fragments.pv().get_slice(0)
        self.s = qk.make_fragment_C(qk.partition_shape_C((config.tile_m, config.block_n)))
        self.p = pv.make_fragment_A(pv.partition_shape_A((config.tile_m, config.block_n)))
        self.o = self.fragments.o()
        self.o.fill(0.0)
        self.q = self.fragments.q_registers(config.head_dim) if config.keeps_q else None
        self.q_rope = self.fragments.q_registers(config.rope_dim) if config.keeps_rope else None
        row = LeanSoftmax if config.producers == 2 else RowSoftmax
        self.rows = [row(self.cta.args.scale_log2, maxima(config)) for _ in range(ROWS)]
        self.factors = cute.make_rmem_tensor(ROWS, Float32)  # of each row of O, if it has to be rescaled

    @cute.jit
    def run(self, q_loads: Int32) -> None:
        """Compute all KV tiles of the row tile; q_loads: how often the CTA has loaded Q before."""
        count = self.cta.kv_tiles.count
        if count > 0:
            # 1. S[0] and P[0].
            self.cta.bars.wait("q_full", 0, q_loads % 2)
            if const_expr(self.cta.config.keeps_q):
                self.fragments.load_q(self.q, self.fragments.q_tile(self.thread.q_tile), self.thread.index)
                self.cta.bars.arrive_warp("q_empty", 0)
            named = self.named_keys(Int32(0))
            self.wait_turn()
            self.issue_qk(Int32(0))
            self.pass_turn()
            warpgroup.wait_group(0)
            self.release_k(Int32(0))
            self.softmax(Int32(0), named)
            self.convert_p()
            for i in cutlass.range(1, count, unroll=1):
                # 2. S[i] and O += P[i - 1] V[i - 1], in this warpgroup's turn.
                named = self.named_keys(i)
                self.wait_turn()
                self.issue_qk(i)
                self.issue_pv(i - 1)
                self.pass_turn()
                # 3. Softmax of S[i] while the second product runs.
                warpgroup.wait_group(1)
                self.release_k(i)
                moved = self.softmax(i, named)
                # 4. P[i], once its registers are free. A branch before it would keep ptxas from converting, and from
                #    summing up, while exponentials are computed.
                warpgroup.wait_group(0)
                self.release_v(i - 1)
                self.convert_p()
                if moved:
                    self.rescale()
            # 5. The last product.
            if const_expr(not self.cta.config.keeps_q):
                self.cta.bars.arrive_warp("q_empty", 0)
            self.wait_turn()
            self.issue_pv(count - 1)
            self.pass_turn()
            warpgroup.wait_group(0)
            self.release_v(count - 1)

    def wait_turn(self) -> None:
        """Wait until the previous warpgroup has issued its products."""
        if self.cta.config.takes_turns:
            wait_turn(self.thread.warpgroup)

    def pass_turn(self) -> None:
        """Let the next warpgroup issue its products."""
        if self.cta.config.takes_turns:
            pass_turn(self.thread.warpgroup, self.cta.config.variant.warpgroups)

    def issue_qk(self, i: Int32, first: int = 0) -> None:
        """Start S[i] = Q K[i]', from slice `first` of the dims on."""
        count = self.cta.config.slices
        self.issue_qk_slices(i, [(first + j) % count for j in range(count)], clear=True)

    def issue_qk_slices(self, i: Int32, slices: list[int], clear: bool) -> None:
        """Start S[i] += Q K[i]' for slices of the dims, one by one. clear: the first one overwrites S."""
        q = self.fragments.q(self.thread.q_tile) if self.q is None else self.q
        k = self.fragments.k(self.tile_slot(i))
        steps = cute.size(k, mode=[2]) // self.cta.config.slices
        for slice_ in slices:
            self.wait_full("k", i, slice_)
            warpgroup.fence()
            part = range(slice_ * steps, (slice_ + 1) * steps)
            gemm(self.fragments.qk(), self.s, q, k, part, clear=clear and slice_ == slices[0])
        warpgroup.commit_group()

    def issue_pv(self, i: Int32) -> None:
        """Start O += P[i] V[i], P in registers. Where V is K, the warpgroup has waited for it."""
        self.issue_product(i, self.fragments.pv(), self.p, waits=self.cta.config.loads_v)

    def issue_product(self, i: Int32, mma: cute.TiledMma, p: cute.Tensor, waits: bool) -> None:
        """Start O += P V[i] with the warpgroup's columns of V."""
        if waits:
            for slice_ in self.v_slices:
                self.wait_full(self.v_ring, i, slice_)
        config = self.cta.config
        v = self.fragments.v(self.tile_slot(i), self.v_part)
        o = cute.make_tensor(self.o.iterator, mma.get_slice(0).partition_shape_C((config.tile_m, config.o_cols)))
        warpgroup.fence()
        gemm(mma, o, p, v, range(cute.size(v, mode=[2])))
        warpgroup.commit_group()

    @property
    def v_ring(self) -> str:
        return "v" if self.cta.config.loads_v else "k"

    @property
    def v_part(self) -> Any:
        """The part of V, of o_cols columns each, that the warpgroup multiplies by."""
        return 0

    @property
    def v_slices(self) -> list[Any]:
        """The slices of V that hold those columns."""
        return list(range(self.cta.config.slices))

    def tile_slot(self, i: Int32) -> Any:
        """Return the slot of KV tile `i` in its ring, in KV tiles."""
        return (self.cta.kv_done + i) & self.cta.config.smem.depth - 1

    def wait_full(self, ring: str, i: Int32, slice_: Any) -> None:
        """Wait for a slice of KV tile `i`."""
        slot, phase = self.cta.bars.slot_and_phase(self.cta.kv_done + i, slice_)
        self.cta.bars.wait(f"{ring}_full", slot, phase)
        if self.cta.config.crosses_proxies:
            cute.arch.fence_view_async_shared()

    def release_k(self, i: Int32) -> None:
        """Release K[i]. If V is K, it is released as V."""
        if self.cta.config.loads_v:
            self.release("k", i, range(self.cta.config.slices))

    def release_v(self, i: Int32) -> None:
        """Release the slices of V[i] that the warpgroup read."""
        self.release(self.v_ring, i, self.v_slices)

    def release(self, ring: str, i: Int32, slices: Iterable[Any]) -> None:
        for slice_ in slices:
            slot, _ = self.cta.bars.slot_and_phase(self.cta.kv_done + i, slice_)
            self.cta.bars.arrive_warp(f"{ring}_empty", slot, self.cta.config.loading_ctas)

    @cute.jit
    def softmax(self, i: Int32, named: list[Int32]) -> Any:
        """Replace S[i] by exponentials. Return whether O has to be rescaled."""
        self.mask(i, named)
        moved = self.track_max(self.tile_maxima(i))
        self.exponentiate()
        return moved

    def tile_maxima(self, i: Int32) -> list[Float32]:
        """Return the running maximum of each row, updated with the logits of S[i]."""
        if self.cta.config.compares_words:
            return self.maxima_of_words(i)
        return [row.tile_max(of_row(self.s, r), i) for r, row in enumerate(self.rows)]

    @cute.jit
    def maxima_of_words(self, i: Int32) -> list[Float32]:
        """Return `tile_maxima` of S[i] as integers, of which an instruction compares three at a time, not two.

        Integers are in the order of the fp32 numbers unless all numbers are negative.
        """
        words, maxima = cute.recast_tensor(self.s, Int32), cute.make_rmem_tensor(ROWS, Int32)
        for r, row in enumerate(self.rows):
            maxima[r] = row.max_of_words(of_row(words, r))
        numbers = cute.recast_tensor(maxima, Float32)
        if cute.arch.vote_any_sync(functools.reduce(smaller, (maxima[r] for r in range(ROWS))) < 0):
            for r, row in enumerate(self.rows):
                numbers[r] = row.tile_max(of_row(self.s, r), i)
        return [numbers[r] for r in range(ROWS)]

    def exponentiate(self) -> None:
        """Replace S by exponentials, and add them to the sums of the rows."""
        for r, row in enumerate(self.rows):
            row.exponentiate(of_row(self.s, r))
            words = cute.recast_tensor(row.stats, Int32)
            for j, word in enumerate(opaque(*(words[j] for j in range(1, 1 + row.partial_sums)))):
                words[1 + j] = word  # the additions stay here, between the exponentials

    @cute.jit
    def mask(self, i: Int32, named: list[Int32]) -> None:
        """Set the logits of keys that a row does not see to -inf. named: from `named_keys`."""
        kv, thread, row_tile = self.cta.kv_tiles, self.thread, self.cta.row_tile
        first = thread.q_tile * self.cta.config.tile_m
        bounds = [kv.bounds(kv.begin + i, row_tile.token(first + thread.row(r))) for r in range(ROWS)]
        if bounds[0][0]:
            for r, (_, lo, hi) in enumerate(bounds):
                self.mask_outside(of_row(self.s, r), lo, hi)
        if const_expr(self.cta.config.loads_pages):
            (seen,) = named
            if seen < self.cta.config.block_n:
                for r in range(ROWS):
                    self.mask_outside(of_row(self.s, r), Int32(0), seen)
        elif const_expr(self.cta.config.by_token):
            self.mask_unnamed(named)

    def mask_outside(self, s: cute.Tensor, lo: Int32, hi: Int32) -> None:
        """Set the logits of keys before `lo`, and from `hi` on, to -inf."""
        first = 2 * self.thread.column
        lo, hi = lo - first, hi - first
        for j in range(cute.size(s)):
            key = j // 2 * COLS + j % 2  # a constant: the comparison needs no register for it
            visible = hi > key if self.cta.config.mask != "causal" else (lo <= key) & (hi > key)
            s[j] = cutlass.select_(visible, s[j], -Float32.inf)

    def read_indices(self, i: Int32) -> list[Int32]:
        """Load the lane's indices of KV tile `i`, or its page; none without top-k indices."""
        if self.cta.config.loads_pages:
            return [self.cta.kv_tiles.caches[0].place(n)[0] for n in self.entries(i)]
        return [self.cta.kv_tiles.listed.index(n) for n in self.entries(i)]

    def named_keys(self, i: Int32, indices: list[Int32] | None = None) -> list[Int32]:
        """Return which keys of KV tile `i` the top-k indices name, WARP keys per word; of the window, all.

        Of a tile in a page, return how many keys there are from its first one on, 0 without a page. indices: the
        lane's, if they were read ahead. Else they are read here, before S[i] is waited for.
        """
        kv = self.cta.kv_tiles
        indices = self.read_indices(i) if indices is None else indices
        if const_expr(self.cta.config.loads_pages):
            (page,), (first,) = indices, self.entries(i)
            valid = (page >= 0) & (page < self.cta.args.main.shape[0])
            return [cutlass.select_(valid, kv.caches[0].length - first, Int32(0))]
        keys = [kv.listed.key(n, index) for n, index in zip(self.entries(i), indices, strict=True)]
        first = kv.first_entry(kv.begin + i) if keys else 0
        return [cute.arch.vote_ballot_sync((first < 0) | (key >= 0)) for key in keys]

    def entries(self, i: Int32) -> list[Int32]:
        """Return the numbers of the lane's indices of KV tile `i`."""
        config, kv = self.cta.config, self.cta.kv_tiles
        if config.loads_pages:
            return [kv.first_entry(kv.begin + i)]
        keys = range(0, config.block_n, WARP) if config.by_token else ()
        return [kv.first_entry(kv.begin + i) + (j + cute.arch.lane_idx()) for j in keys]

    @cute.jit
    def mask_unnamed(self, words: list[Int32]) -> None:
        """Set the logits of keys that the top-k indices do not name to -inf."""
        if functools.reduce(operator.and_, words) != -1:
            for r in range(ROWS):
                self.mask_by_bits(of_row(self.s, r), words)

    def mask_by_bits(self, s: cute.Tensor, words: list[Int32]) -> None:
        """Set the logits of keys whose bit is not set to -inf."""
        own = [word >> (2 * self.thread.column) for word in words]  # the lane's first key in the lowest bit
        for j in range(cute.size(s)):
            key = j // 2 * COLS + j % 2
            s[j] = cutlass.select_((own[key // WARP] & (1 << key % WARP)) != 0, s[j], -Float32.inf)

    @cute.jit
    def track_max(self, new_max: list[Float32]) -> Any:
        """Take the new maxima if any row's exceeds its reference by more than RESCALE_LOG2. Return whether one does.

        With a smaller step the reference stays; P of the largest key then is not 1, and its rounding error shows in
        rows with few important keys.
        """
        moved = []
        for new, row in zip(new_max, self.rows, strict=True):
            if const_expr(row.maxima):
                row.set_largest(cute.arch.fmax(row.largest, new))
            moved.append((new - row.stats[0]) * row.scale_log2 > RESCALE_LOG2)
        some = cute.arch.vote_any_sync(functools.reduce(operator.or_, moved))
        if some:
            self.move_to(new_max)
        return some

    def move_to(self, new_max: list[Float32]) -> None:
        """Take new reference maxima, and keep the factors that O has to be multiplied by."""
        for r, row in enumerate(self.rows):
            self.factors[r] = row.move_to(new_max[r])

    def set_largest(self) -> None:
        """Update each row's largest logit over all tiles, if m is stored."""
        if const_expr(maxima(self.cta.config)):
            for row, value in zip(self.rows, self.largest(), strict=True):
                row.set_largest(value)

    def refer_to_largest(self) -> None:
        """Rescale sums and O to the largest logits as reference, if m is stored."""
        if const_expr(maxima(self.cta.config)):
            self.set_largest()
            self.move_to([row.largest for row in self.rows])
            self.rescale()

    def largest(self) -> list[Float32]:
        """Return the largest logit of each row."""
        return [row.largest for row in self.rows]

    @property
    def stores_rows(self) -> Any:
        """True if the thread's warpgroup stores the statistics of its rows."""
        return True

    def row_sums(self) -> list[Float32]:
        """Return the sum of each row over all keys."""
        return [row.row_sum() for row in self.rows]

    def rescale(self) -> None:
        """Multiply each row of O by its factor."""
        self.multiply_rows(self.o)

    def multiply_rows(self, fragment: cute.Tensor) -> None:
        """Multiply each row of an accumulator by its factor."""
        for r in range(ROWS):
            own = of_row(fragment, r)
            for j in range(cute.size(own)):
                own[j] = own[j] * self.factors[r]

    def convert_p(self) -> None:
        """Convert S to P: the registers of an accumulator are in the order of those of an A operand."""
        flat(self.p).store(flat(self.s).load().to(BFloat16))
        keep_before_fence(self.p)


def wait_turn(warpgroup: Any) -> None:
    """Wait until the previous warpgroup has issued its products."""
    cute.arch.barrier(barrier_id=TURN + warpgroup, number_of_threads=CONSUMERS)


def pass_turn(warpgroup: Any, warpgroups: int) -> None:
    """Let the next warpgroup issue its products."""
    following = cutlass.select_(warpgroup == warpgroups - 1, Int32(0), warpgroup + 1)
    cute.arch.barrier_arrive(barrier_id=TURN + following, number_of_threads=CONSUMERS)


def sync_consumers() -> None:
    """Wait for both warpgroups."""
    cute.arch.barrier(barrier_id=MEET, number_of_threads=CONSUMERS)


def flat(fragment: cute.Tensor) -> cute.Tensor:
    """Return a fragment in registers as a vector."""
    return cute.make_tensor(fragment.iterator, cute.make_layout(cute.size(fragment)))
