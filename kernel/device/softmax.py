"""The running statistics of a row of logits."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32

from kernel.arguments import Arguments
from kernel.device.tiles import LoopInvariant

LOG2E = math.log2(math.e)
LN2 = math.log(2.0)
PARTIAL_SUMS = 4  # of a thread's row: a packed add takes two, and the next pair's add starts while it is under way


@dataclass
class RunningSoftmax(LoopInvariant):
    """Running statistics of a thread's row: the maximum of the raw logits, and the sum of exponentials."""

    scale_log2: Float32
    partial_sums: ClassVar[int] = PARTIAL_SUMS
    maxima: bool = False  # whether the largest logit is needed, too: the maximum may lag behind it by RESCALE_LOG2

    def __post_init__(self) -> None:
        """Initialize the registers: the maximum, the partial sums, and the largest logit if it is needed."""
        self.stats = cute.make_rmem_tensor((1 + self.partial_sums + self.maxima,), Float32)
        self.stats.fill(0.0)
        self.stats[0] = -Float32.inf
        if self.maxima:
            self.set_largest(-Float32.inf)

    @property
    def largest(self) -> Float32:
        """The largest logit so far if it is needed, else the maximum that sums refer to."""
        return self.stats[1 + self.partial_sums if self.maxima else 0]

    def set_largest(self, value: Any) -> None:
        """Store the largest logit so far."""
        self.stats[1 + self.partial_sums] = value

    def row_sum(self, exchange: Any = 0) -> Any:
        """Return the sum over all keys of the row. Every thread of the row calls this, after the last tile."""
        total = functools.reduce(operator.add, (self.stats[1 + j] for j in range(self.partial_sums)))
        return self.over_row(total, operator.add, exchange)

    def over_row(self, value: Any, combine: Callable[[Any, Any], Any], exchange: Any = 0) -> Any:
        """Combine `value` over the threads of the row.

        exchange: how many exchanges the CTA has made.
        """
        raise NotImplementedError

    def finite_max(self) -> Float32:
        """Return the maximum, or 0 if no key was visible yet."""
        return finite(self.stats[0])

    def weight_of(self, maximum: Float32) -> Float32:
        """Return the factor that refers sums of a lower maximum to this one; 0 if no key was visible there."""
        return cute.math.exp2((maximum - self.finite_max()) * self.scale_log2, fastmath=True)

    def sink_weight(self, sink: Float32) -> Float32:
        """Return the sink's term of the sum. Its logit is not scaled: -inf gives 0, a very large one infinity."""
        return cute.math.exp2(sink * Float32(LOG2E) - self.finite_max() * self.scale_log2, fastmath=True)

    def inverse(self, row_sum: Any, sink: Float32 | None) -> Any:
        """Return the factor from U to O; 0 if no key was visible."""
        total = row_sum if sink is None else row_sum + self.sink_weight(sink)
        return cutlass.select_(total == 0.0, Float32(0.0), 1.0 / total)

    def store(self, args: Arguments, row_sum: Any, group: Int32, row: Int32) -> None:
        """Store lse and m of a row in natural logarithms. Without a key, m is -inf, and lse is -inf or `empty_lse`."""
        max_log2 = self.stats[0] * self.scale_log2
        lse = cute.math.log(row_sum) + max_log2 * Float32(LN2)
        if args.empty_lse is not None:
            lse = cutlass.select_(row_sum == 0.0, args.empty_lse, lse)
        args.lse[group, row] = lse
        if args.m is not None:
            args.m[group, row] = (self.largest * self.scale_log2 if self.maxima else max_log2) * Float32(LN2)

    def tile_max(self, s: cute.Tensor, exchange: Int32) -> Float32:
        """Return the maximum including a tile's logits, in four chains that hide each other's latency."""
        chains = [functools.reduce(cute.arch.fmax, (s[j] for j in range(c, cute.size(s), 4))) for c in range(4)]
        own = functools.reduce(cute.arch.fmax, chains, self.stats[0])
        return self.over_row(own, cute.arch.fmax, exchange)

    def move_to(self, new_max: Float32) -> Float32:
        """Make `new_max` the reference, and return the factor by which the sums shrink and O has to."""
        old = self.stats[0]
        self.stats[0] = new_max
        factor = self.weight_of(old)
        for j in range(self.partial_sums):
            self.stats[1 + j] *= factor
        return factor


def finite(maximum: Any) -> Any:
    """Return a maximum, or 0 if no key was visible yet, so that no exponent is inf - inf."""
    return cutlass.select_(maximum == -Float32.inf, Float32(0.0), maximum)
