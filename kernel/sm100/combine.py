"""The epilogue of split keys: softmax warps publish a CTA's partial result, and all warps of the cluster merge them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import cutlass
import cutlass.cute as cute
from cutlass import const_expr

from kernel.device.combine import Combine, partial_rows
from kernel.device.config import STATS
from kernel.hardware import WARP
from kernel.sm100.operands import LOAD_COLS
from kernel.sm100.softmax import RowSoftmax, SoftmaxWarp


class Partial(SoftmaxWarp):
    """A softmax warp that publishes U, maxima and sums of its CTA to the cluster."""

    @cute.jit
    def run(self) -> None:
        """Write a thread's part of its row into shared memory."""
        config = self.cta.config
        thread = self.thread
        # 1. Wait for the last PV. Nothing reads Q and the keys after it, so the partial result reuses their buffers.
        thread.wait_for_o(self.cta)
        own = partial_rows(config, self.cta.smem.sQ.iterator)[thread.row, None]
        count = config.tmem.o_cols // LOAD_COLS
        row_sum = self.running.row_sum()
        blocks = cute.logical_divide(own, cute.make_layout(LOAD_COLS))
        # 2. Write the statistics and U. With fewer rows per CTA, a warp has either all of its rows or none.
        if thread.row < config.block_m:
            if thread.half == 0:
                own[config.head_dim] = self.running.stats[0]
                own[config.head_dim + 1] = row_sum
                if const_expr(config.maxima):
                    own[config.head_dim + STATS] = self.running.largest
            for c in cutlass.range_constexpr(count):
                cute.autovec_copy(thread.load_o_or_zeros(self.cta, c), blocks[None, thread.half * count + c])


@dataclass
class Merge(Combine):
    """The merge, by every warp, with packed fp32."""

    loads_u_early: ClassVar[bool] = False  # ptxas spills it if a thread has 128 registers

    @property
    def warps(self) -> int:
        """Number of warps that merge."""
        return self.cta.config.threads // WARP

    def running(self) -> RowSoftmax:
        """Return the statistics of a merged row."""
        config = self.cta.config
        return RowSoftmax(self.cta.args.scale_log2, config.maxima, config.variant.threads_per_row)

    def accumulate(self, total: cute.Tensor, part: cute.Tensor, weight: Any) -> None:
        """Add a weighted vector to the total, two elements at a time."""
        for j in range(0, cute.size(total), 2):
            sums, own = (total[j], total[j + 1]), (part[j], part[j + 1])
            total[j], total[j + 1] = cute.arch.fma_packed_f32x2(own, (weight, weight), sums)
