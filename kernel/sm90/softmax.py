"""The place of a consumer thread in the accumulators of wgmma, and the softmax of its two rows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32

from kernel.device.softmax import RunningSoftmax
from kernel.device.tiles import LoopInvariant, larger
from kernel.hardware import WARP, WARPGROUP
from kernel.sm90.config import HopperConfig
from kernel.sm90.operands import opaque

ROWS = 2  # of a thread
ROWS_APART = 8
COLS = 8  # columns that a quad of lanes has, two each; then the next 8
QUAD = 4  # lanes that share a row


class ConsumerThread(LoopInvariant):
    """The warpgroup, rows and columns of a consumer thread.

    Each row tile makes a new one. Otherwise addresses that depend on the lane would occupy registers throughout.
    """

    def __init__(self, config: HopperConfig) -> None:
        index = cute.arch.thread_idx()[0] - WARP * config.roles.consumers[0]
        self.warp = cute.arch.make_warp_uniform(index // WARP)
        self.warpgroup = self.warp // WARPGROUP
        self.index = index % (WARPGROUP * WARP)
        (self.lane,) = opaque(cute.arch.lane_idx())
        self.column = self.lane % QUAD
        self.q_tile = 0 if config.variant.shares_rows else self.warpgroup
        self.first_row = self.warp % WARPGROUP * config.variant.rows_per_warp + self.lane // QUAD

    def row(self, r: int) -> Any:
        """Return the thread's row `r` within its Q tile."""
        return self.first_row + ROWS_APART * r


class RowSoftmax(RunningSoftmax):
    """Statistics of one row, which four lanes share."""

    def over_row(self, value: Any, combine: Callable[[Any, Any], Any], exchange: Int32 = 0) -> Any:
        """Combine `value` over the lanes of the row."""
        for offset in (1, 2):
            value = combine(value, cute.arch.shuffle_sync_bfly(value, offset))
        return value

    def max_of_words(self, s: cute.Tensor) -> Int32:
        """Return the running maximum updated with a tile's logits, all as integers, by two dependency chains."""
        chains = [functools.reduce(larger, (s[j] for j in range(c, cute.size(s), 2))) for c in range(2)]
        own = functools.reduce(larger, chains, cute.recast_tensor(self.stats, Int32)[0])
        return self.over_row(own, larger)

    def lag(self) -> Float32:
        """Return the factor that refers U to the largest logit."""
        factor = cute.math.exp2((self.stats[0] - self.largest) * self.scale_log2, fastmath=True)
        return cutlass.select_(self.stats[0] == self.largest, Float32(1.0), factor)

    def exponentiate(self, s: cute.Tensor) -> None:
        """Replace s by exp2(scale_log2 * (s - row_max)), and add it to the row's sum."""
        shift = -self.finite_max() * self.scale_log2
        for j in range(cute.size(s)):
            s[j] = cute.math.exp2(s[j] * self.scale_log2 + shift, fastmath=True)
            self.stats[1 + j % self.partial_sums] += s[j]


class LeanSoftmax(RowSoftmax):
    """Statistics of a row in fewer registers."""

    partial_sums: ClassVar[int] = 2


def of_row(fragment: cute.Tensor, r: int) -> Any:
    """Return a thread's elements of its row `r` of an accumulator, (pair, 8 columns)."""
    return fragment[(None, r, None), 0, 0]
