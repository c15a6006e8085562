"""The epilogue of split keys: each CTA publishes its partial result, and the cluster's consumers merge them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import cutlass.cute as cute
from cutlass import const_expr

from kernel.device.combine import Combine, partial_rows
from kernel.device.tiles import LoopInvariant
from kernel.hardware import WARPGROUP
from kernel.sm90.consumer import SLOTS_FREE, Consumer, sync_consumers
from kernel.sm90.softmax import COLS, ROWS, RowSoftmax, of_row


@dataclass
class Partial(LoopInvariant):
    """A consumer thread that publishes U, maxima and sums of its CTA to the cluster."""

    consumer: Consumer

    @cute.jit
    def run(self) -> None:
        """Write a thread's part of its rows into shared memory."""
        cta, thread = self.consumer.cta, self.consumer.thread
        self.consumer.refer_to_largest()
        row_sums, partials = self.consumer.row_sums(), partial_rows(cta.config, cta.smem.sQ.iterator)
        # Nothing reads Q and the keys any more, and no copy to the other CTA either.
        if const_expr(cta.config.loading_ctas > 1):
            cute.arch.barrier(barrier_id=SLOTS_FREE, number_of_threads=cta.config.threads)
        else:
            sync_consumers()
        if self.has_rows:
            for r, softmax in enumerate(self.consumer.rows):
                own = partials[thread.q_tile * cta.config.tile_m + thread.row(r), None]
                if (thread.column == 0) & self.consumer.stores_rows:
                    own[cta.config.head_dim], own[cta.config.head_dim + 1] = softmax.stats[0], row_sums[r]
            self.store_u(partials)

    @property
    def has_rows(self) -> Any:
        """True if the warp has rows of the row tile."""
        config, warp = self.consumer.cta.config, self.consumer.thread.warp
        return config.row_parts == 1 or warp % WARPGROUP * config.variant.rows_per_warp < config.block_m

    def store_u(self, partials: cute.Tensor) -> None:
        """Write the thread's columns of its rows, a pair at a time."""
        config, thread = self.consumer.cta.config, self.consumer.thread
        first = thread.warpgroup * config.o_cols // 2 if config.variant.shares_rows else 0
        for r in range(ROWS):
            own, u = partials[thread.q_tile * config.tile_m + thread.row(r), None], of_row(self.consumer.o, r)
            pairs = cute.logical_divide(own, cute.make_layout(2))
            for j in range(config.o_cols // COLS):
                cute.autovec_copy(u[None, j], pairs[None, first + j * (COLS // 2) + thread.column])


@dataclass
class Merge(Combine):
    """The merge, by the consumer warps, with scalar arithmetic: sm_90 has no packed fp32."""

    loads_u_early: ClassVar[bool] = True

    @property
    def warps(self) -> int:
        """Number of warps that merge."""
        return len(self.cta.config.roles.consumers)

    def running(self) -> RowSoftmax:
        """Return the statistics of a merged row."""
        return RowSoftmax(self.cta.args.scale_log2)

    def accumulate(self, total: cute.Tensor, part: cute.Tensor, weight: Any) -> None:
        """Add a weighted vector to the total."""
        for j in range(cute.size(total)):
            total[j] = part[j] * weight + total[j]
