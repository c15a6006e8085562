"""The consumers at head_dim 512: both warpgroups have the same 64 rows, and half of O's columns each.

Warpgroup 0 computes S and P of the even KV tiles, warpgroup 1 of the odd ones. P crosses by sP, maxima by sMax. Each
warpgroup multiplies both P of a pair of tiles by its columns of V: its own first, from registers, then the other's,
from shared memory. P of the even tile in shared memory refers to the maxima of both tiles.

    warpgroup 0 | S[0]   softmax | P[0] V[0] |         P[1] V[1]  S[2] | softmax ...
    warpgroup 1 |        S[1]    | softmax   | P[1] V[1]  P[0] V[0]    | S[3] ...
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int32, const_expr
from cutlass.cute.nvgpu import warp, warpgroup

from kernel.sm90.consumer import CONSUMERS, MAX_READY, P_READY, Consumer, flat, sync_consumers
from kernel.sm90.operands import SMEM, gemm, opaque
from kernel.sm90.softmax import ROWS


@dataclass
class WideConsumer(Consumer):
    """A consumer thread at the row tile that it shares with one of the other warpgroup."""

    @cute.jit
    def run(self, q_loads: Int32) -> None:
        """Compute all KV tiles of the row tile; q_loads: how often the CTA has loaded Q before."""
        count = self.cta.kv_tiles.count
        if count > 0:
            self.cta.bars.wait("q_full", 0, q_loads % 2)
            if const_expr(self.cta.config.keeps_rope):
                self.fragments.load_q(self.q_rope, self.fragments.rope_slot(1), self.thread.index)
                self.cta.bars.arrive_warp("q_kept", 0)
        if self.thread.warpgroup == 0:
            self.run_even(count)
        else:
            self.run_odd(count)

    @cute.jit
    def release_q(self, last: Any) -> None:
        """Release Q if the warpgroup's last product has read it."""
        if last:
            self.cta.bars.arrive_warp("q_empty", 0)

    @cute.jit
    def run_even(self, count: Int32) -> None:
        """Warpgroup 0: softmax of the even KV tiles, and the first half of O's columns."""
        named = self.named_keys(Int32(0))
        if count > 0:
            self.issue_qk(Int32(0))
            self.issue_qk_of_rope(Int32(0))
            warpgroup.wait_group(0)
        for i in cutlass.range(0, count, 2, unroll=1):
            # 1. P[i], whose maxima warpgroup 1 needs, and O += P[i] V[i].
            self.release_k(i)
            self.release_q(i + 2 >= count)
            self.mask(i, named)
            if self.track_max(self.tile_maxima(i)):
                self.rescale()
            self.exponentiate()
            self.convert_p()
            self.publish_maxima()
            self.issue_pv(i)
            warpgroup.wait_group(0)
            self.release_v(i)
            if i + 1 < count:
                # 2. P[i] for warpgroup 1, which refers to the maxima of both tiles.
                indices = self.read_ahead(i + 2)
                moved = self.take_maxima()
                if moved:
                    self.scale_p()
                self.publish_p()
                # 3. O += P[i + 1] V[i + 1], then S[i + 2] behind it.
                self.wait_p()
                if moved:
                    self.rescale()
                self.issue_other_pv(i + 1)
                if i + 2 < count:
                    left, right = self.halves
                    self.issue_qk_slices(i + 2, left, clear=True)
                    warpgroup.wait_group(1)
                    self.release_v(i + 1)
                    self.issue_qk_slices(i + 2, right, clear=False)
                    self.issue_qk_of_rope(i + 2)
                    named = self.named_keys(i + 2, indices)
                    warpgroup.wait_group(0)
                else:
                    warpgroup.wait_group(0)
                    self.release_v(i + 1)
            else:
                self.wait_read()
                self.publish_p()

    @cute.jit
    def run_odd(self, count: Int32) -> None:
        """Warpgroup 1: softmax of the odd KV tiles, and the second half of O's columns."""
        for i in cutlass.range(0, count, 2, unroll=1):
            if i + 1 < count:
                # 1. P[i + 1], and O += P[i + 1] V[i + 1].
                indices = self.read_ahead(i + 1)
                self.issue_qk(i + 1, self.cta.config.slices // 2 if self.cta.config.loads_by_release else 0)
                self.issue_qk_of_rope(i + 1)
                named = self.named_keys(i + 1, indices)
                warpgroup.wait_group(0)
                self.release_k(i + 1)
                self.release_q(i + 3 >= count)
                self.mask(i + 1, named)
                own = self.tile_maxima(i + 1)
                if self.track_max([cute.arch.fmax(*each) for each in zip(own, self.wait_maxima(), strict=True)]):
                    self.rescale()
                self.exponentiate()
                self.convert_p()
                self.publish_maxima()
                self.publish_p()
                self.issue_pv(i + 1)
                # 2. O += P[i] V[i] behind it.
                self.wait_p()
                self.issue_other_pv(i)
                warpgroup.wait_group(1)
                self.release_v(i + 1)
                warpgroup.wait_group(0)
                self.release_v(i)
            else:
                self.release_q(count == 1)
                self.signal_read()
                if self.take_maxima():
                    self.rescale()
                self.wait_p()
                self.issue_other_pv(i)
                warpgroup.wait_group(0)
                self.release_v(i)

    def read_ahead(self, i: Int32) -> list[Int32] | None:
        """Load the lane's indices of KV tile `i`, unless registers would spill."""
        config = self.cta.config
        return self.read_indices(i) if config.one_layout and config.producers == 1 else None

    def publish_maxima(self) -> None:
        """Publish the maxima of the warpgroup's rows to the other warpgroup."""
        self.store_of_rows(self.cta.smem.sMax, [row.stats[0] for row in self.rows])
        cute.arch.barrier_arrive(barrier_id=MAX_READY + self.thread.warpgroup, number_of_threads=CONSUMERS)

    def publish_p(self) -> None:
        """Publish P to the other warpgroup."""
        self.store_p()
        cute.arch.barrier_arrive(barrier_id=P_READY + self.thread.warpgroup, number_of_threads=CONSUMERS)

    def wait_p(self) -> None:
        """Wait for the other warpgroup's P."""
        cute.arch.barrier(barrier_id=P_READY + 1 - self.thread.warpgroup, number_of_threads=CONSUMERS)

    def wait_maxima(self) -> list[Float32]:
        """Wait for the other warpgroup's maxima and return them."""
        cute.arch.barrier(barrier_id=MAX_READY + 1 - self.thread.warpgroup, number_of_threads=CONSUMERS)
        return self.load_of_rows(self.cta.smem.sMax)

    @cute.jit
    def take_maxima(self) -> Any:
        """Wait for the other warpgroup's maxima and take them. Return whether O has to be rescaled."""
        maxima = self.wait_maxima()
        moved = [each != row.stats[0] for each, row in zip(maxima, self.rows, strict=True)]
        some = cute.arch.vote_any_sync(functools.reduce(operator.or_, moved))
        if some:
            self.move_to(maxima)
        return some

    def signal_read(self) -> None:
        """Notify warpgroup 0 that its previous P was read: after a single last tile, no maxima notify it."""
        cute.arch.barrier_arrive(barrier_id=MAX_READY + 1, number_of_threads=CONSUMERS)

    def wait_read(self) -> None:
        """Wait until warpgroup 1 has read P."""
        cute.arch.barrier(barrier_id=MAX_READY + 1, number_of_threads=CONSUMERS)

    def scale_p(self) -> None:
        """Multiply P by the factors of the moved maxima: from S, unless that would keep too many registers."""
        if self.cta.config.producers == 1:
            self.multiply_rows(self.s)
            self.convert_p()
            return
        p, scaled = flat(self.p), cute.make_rmem_tensor(cute.size(self.p), Float32)
        scaled.store(p.load().to(Float32))
        for j in range(cute.size(scaled)):
            scaled[j] = scaled[j] * self.factors[j // 2 % ROWS]
        p.store(scaled.load().to(BFloat16))

    @cute.jit
    def store_of_rows(self, exchange: cute.Tensor, values: list[Float32]) -> None:
        """Write a value of each row for the other warpgroup, one lane per row."""
        if self.thread.column == 0:
            for r, value in enumerate(values):
                exchange[self.thread.row(r), self.thread.warpgroup] = value

    def load_of_rows(self, exchange: cute.Tensor) -> list[Float32]:
        """Read the other warpgroup's value of each row."""
        return [exchange[self.thread.row(r), 1 - self.thread.warpgroup] for r in range(ROWS)]

    def row_sums(self) -> list[Float32]:
        """Return the sums over both warpgroups' tiles.

        The first barrier is needed because the other warpgroup may still read the sums of the previous row tile.
        """
        own = super().row_sums()
        sync_consumers()
        self.store_of_rows(self.cta.smem.sSum, own)
        sync_consumers()
        return [mine + other for mine, other in zip(own, self.load_of_rows(self.cta.smem.sSum), strict=True)]

    def largest(self) -> list[Float32]:
        """Return the largest logit of each row over both warpgroups' tiles."""
        own = super().largest()
        sync_consumers()
        self.store_of_rows(self.cta.smem.sMax, own)
        sync_consumers()
        return [cute.arch.fmax(*each) for each in zip(own, self.load_of_rows(self.cta.smem.sMax), strict=True)]

    @property
    def stores_rows(self) -> Any:
        """True for one of the two warpgroups that share the rows."""
        return self.thread.warpgroup == 0

    @property
    def v_part(self) -> Any:
        """The half of O's columns that the warpgroup has, 0 or 1."""
        return self.thread.warpgroup

    @property
    def v_slices(self) -> list[Any]:
        """The slices of V that hold those columns."""
        half = self.cta.config.slices // 2
        return [self.thread.warpgroup * half + slice_ for slice_ in range(half)]

    @property
    def halves(self) -> tuple[list[int], list[int]]:
        """The slices of warpgroup 0's columns of V, and those of warpgroup 1's."""
        slices = list(range(self.cta.config.slices))
        return slices[: len(slices) // 2], slices[len(slices) // 2 :]

    def issue_qk_of_rope(self, i: Int32) -> None:
        """Start S[i] += Q K[i]' for the rotary columns, if there are any."""
        if const_expr(self.cta.config.rope_dim > 0):
            number = self.cta.kv_done + i
            self.cta.bars.wait("rope_full", number & 1, number >> 1 & 1)
            if const_expr(self.cta.config.crosses_proxies):
                cute.arch.fence_view_async_shared()
            q = self.fragments.q_rope() if self.q_rope is None else self.q_rope
            k = self.fragments.k_rope(number)
            warpgroup.fence()
            gemm(self.fragments.qk(self.cta.config.keeps_rope), self.s, q, k, range(cute.size(k, mode=[2])))
            warpgroup.commit_group()

    def release_k(self, i: Int32) -> None:
        """Release the rotary columns of K[i]. The others are released as V."""
        super().release_k(i)
        if const_expr(self.cta.config.rope_dim > 0):
            slot = (self.cta.kv_done + i & 1) if self.cta.config.keeps_rope else 0
            self.cta.bars.arrive_warp("rope_empty", slot, self.cta.config.loading_ctas)

    def issue_other_pv(self, i: Int32) -> None:
        """Start O += P[i] V[i], P of the other warpgroup in shared memory."""
        self.issue_product(i, self.fragments.pv(SMEM), self.fragments.p(1 - self.thread.warpgroup), waits=True)

    def store_p(self) -> None:
        """P into shared memory, for the other warpgroup."""
        p = cute.make_tensor(self.p.iterator, self.s.layout)  # in the order of S
        atom = cute.make_copy_atom(warp.StMatrix8x8x16bOp(num_matrices=4), BFloat16)
        index = opaque(self.thread.index)[0] if self.cta.config.producers == 2 else self.thread.index  # for registers
        copy = cute.make_tiled_copy_C(atom, self.fragments.qk()).get_slice(index)
        cute.copy(copy, copy.retile(p), copy.partition_D(self.fragments.p_rows(self.thread.warpgroup)))
        cute.arch.fence_view_async_shared()
