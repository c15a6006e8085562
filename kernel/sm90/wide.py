"""The consumers at head_dim 512: both warpgroups have the same 64 rows, and half of O's columns each.

Warpgroup 0 computes S and P of the even KV tiles, warpgroup 1 of the odd ones. P crosses by sP and the maxima that it
refers to by sMax. Each warpgroup multiplies every P with its columns of V: its own from registers, the other's from
shared memory. A maximum is decided by one warpgroup after the other: P[i] refers to one that covers KV tiles 0 to i.

    warpgroup 0 | S[0]        softmax | P[0] V[0] |           P[1] V[1] | S[2] ...
    warpgroup 1 |        S[1]         | P[0] V[0]   softmax | P[1] V[1] |      S[3] ...
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32
from cutlass.cute.nvgpu import warpgroup

from kernel.sm90.consumer import CONSUMERS, P_READY, Consumer, sync_consumers
from kernel.sm90.operands import SMEM
from kernel.sm90.softmax import COLS, ROWS, of_row


@dataclass
class WideConsumer(Consumer):
    """A consumer thread at the row tile that it shares with one of the other warpgroup."""

    @cute.jit
    def run(self, q_loads: Int32) -> None:
        """Compute all KV tiles of the row tile; q_loads: how often the CTA has loaded Q before."""
        count = self.cta.kv_tiles.count
        if count > 0:
            self.cta.bars.wait("q_full", 0, q_loads % 2)
        if self.thread.warpgroup == 0:
            self.run_even(count)
        else:
            self.run_odd(count)
        if count > 0:
            self.cta.bars.arrive_warp("q_empty", 0)

    @cute.jit
    def run_even(self, count: Int32) -> None:
        """Warpgroup 0: softmax of the even KV tiles, and the first half of O's columns."""
        for i in cutlass.range(0, count, 2, unroll=1):
            # 1. S[i] and P[i], for both warpgroups.
            self.compute_s(i)
            if self.track_max(self.tile_maxima(i)):
                self.rescale()
            self.exponentiate()
            self.convert_p()
            self.publish_p()
            # 2. O += P[i] V[i] while warpgroup 1 computes P[i + 1].
            self.issue_pv(i)
            warpgroup.wait_group(0)
            self.release_v(i)
            # 3. O += P[i + 1] V[i + 1].
            if i + 1 < count:
                if self.wait_p():
                    self.rescale()
                self.issue_other_pv(i + 1)
                warpgroup.wait_group(0)
                self.release_v(i + 1)

    @cute.jit
    def run_odd(self, count: Int32) -> None:
        """Warpgroup 1: softmax of the odd KV tiles, and the second half of O's columns."""
        for i in cutlass.range(0, count, 2, unroll=1):
            if i + 1 < count:
                # 1. S[i + 1], then O += P[i] V[i] while P[i + 1] is computed.
                self.compute_s(i + 1)
                if self.wait_p():
                    self.rescale()
                self.issue_other_pv(i)
                moved = self.track_max(self.tile_maxima(i + 1))
                self.exponentiate()
                warpgroup.wait_group(0)
                self.release_v(i)
                if moved:
                    self.rescale()
                self.convert_p()
                self.publish_p()
                # 2. O += P[i + 1] V[i + 1].
                self.issue_pv(i + 1)
                warpgroup.wait_group(0)
                self.release_v(i + 1)
            else:
                if self.wait_p():
                    self.rescale()
                self.issue_other_pv(i)
                warpgroup.wait_group(0)
                self.release_v(i)

    def compute_s(self, i: Int32) -> None:
        """Compute and mask S[i]."""
        self.issue_qk(i)
        warpgroup.wait_group(0)
        self.release_k(i)
        self.mask(i)

    def publish_p(self) -> None:
        """Hand P and the maxima that it refers to to the other warpgroup."""
        self.store_p()
        self.store_of_rows(self.cta.smem.sMax, [row.stats[0] for row in self.rows])
        cute.arch.barrier_arrive(barrier_id=P_READY + self.thread.warpgroup, number_of_threads=CONSUMERS)

    @cute.jit
    def wait_p(self) -> Any:
        """Wait for the other warpgroup's P and take its maxima. Return whether O has to be rescaled."""
        cute.arch.barrier(barrier_id=P_READY + 1 - self.thread.warpgroup, number_of_threads=CONSUMERS)
        maxima = self.load_of_rows(self.cta.smem.sMax)
        moved = [each != row.stats[0] for each, row in zip(maxima, self.rows, strict=True)]
        some = cute.arch.vote_any_sync(functools.reduce(operator.or_, moved))
        if some:
            self.move_to(maxima)
        return some

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

        The first barrier keeps them from overwriting those of the row tile before.
        """
        own = super().row_sums()
        sync_consumers()
        self.store_of_rows(self.cta.smem.sSum, own)
        sync_consumers()
        return [mine + other for mine, other in zip(own, self.load_of_rows(self.cta.smem.sSum), strict=True)]

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
        """The slices of V that hold them."""
        half = self.cta.config.slices // 2
        return [self.thread.warpgroup * half + slice_ for slice_ in range(half)]

    def issue_other_pv(self, i: Int32) -> None:
        """Start O += P[i] V[i], P of the other warpgroup in shared memory."""
        self.issue_product(i, self.fragments.pv(SMEM), self.fragments.p(1 - self.thread.warpgroup), waits=True)

    def store_p(self) -> None:
        """P into shared memory, for the other warpgroup."""
        own = self.fragments.p_rows(self.thread.warpgroup)
        p = cute.make_tensor(self.p.iterator, self.s.layout)  # in the order of S
        for r in range(ROWS):
            pairs = cute.logical_divide(own[self.thread.row(r), None], cute.make_layout(2))
            for j in range(self.cta.config.block_n // COLS):
                cute.autovec_copy(of_row(p, r)[None, j], pairs[None, j * (COLS // 2) + self.thread.column])
        cute.arch.fence_view_async_shared()
