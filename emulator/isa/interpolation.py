"""Bit-exact ex2, lg2 and rcp of an H200: a quadratic in each of 64 or 128 intervals.

The result is c0 + c1 x + c2 s, truncated to the ulp. x is the position in the interval. s is its square without the
columns of partial products below 2^-15. This is the form of Oberman and Siu, "A High-Performance Area-Efficient
Multifunction Interpolator" (ARITH 2005). The coefficients (interpolation.csv) were solved for from all 2^23 results of
an H200 on one binade each, and reproduce every one of them.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from ..native.vector import Vec, template

PLACE_BITS: Final = 17
"""Bits of the position that is squared. For intervals with 16 bits the last bit is 0."""
C2_BITS: Final = 11
_GATHER: Final = "<32 x i32> @llvm.masked.gather.v32i32.v32p0(<32 x ptr>, i32, <32 x i1>, <32 x i32>)"


@dataclass(frozen=True)
class Function:
    """A function of a mantissa whose leading bits select the interval.

    c0 is in units of `c0_unit` 2^-15 ulps; `added` is in 2^-15 ulps. c1 and c2 are stored without their signs.
    """

    name: str
    interval_bits: int
    c0_unit: int
    added: int
    c1_sign: int = 1
    c2_sign: int = 1

    def __call__(self, mantissa: Vec) -> Vec:
        """Return the result in ulps, as i32, for 23 bits of mantissa."""
        low = 23 - self.interval_bits
        interval = mantissa.shr(low)
        place = mantissa & (1 << low) - 1
        slopes = self._gathered("slopes", interval, [c1 << C2_BITS | c2 for _, c1, c2 in _table()[self.name]])
        c0 = self._gathered("c0", interval, [c0 for c0, _, _ in _table()[self.name]])
        first = slopes.shr(C2_BITS).zext("i64") * place.zext("i64")
        second = (slopes & (1 << C2_BITS) - 1) * _square(place.shl(PLACE_BITS - low))
        total = c0.zext("i64") * self.c0_unit + self.added
        total = total + first if self.c1_sign > 0 else total - first
        second = second.zext("i64")
        return (total + second if self.c2_sign > 0 else total - second).shr(15).zext("i32")

    def _gathered(self, what: str, interval: Vec, numbers: list[int]) -> Vec:
        """Return the table entry of each lane's interval."""
        table = f"@{self.name}_{what}"
        listed = ", ".join(f"i32 {number}" for number in numbers)
        constant = f"{table} = internal constant [{len(numbers)} x i32] [{listed}]"
        places = template(f"getelementptr i32, ptr {table}, <32 x i32> {{0}}", "ptr", constant)
        taken = template(
            "call <32 x i32> @llvm.masked.gather.v32i32.v32p0(<32 x ptr> {0}, i32 4, <32 x i1> splat (i1 true),"
            " <32 x i32> zeroinitializer)",
            "i32",
            f"declare {_GATHER}",
        )
        return interval.code.new(taken, (interval.code.new(places, (interval,)),))


def _square(place: Vec) -> Vec:
    """Square 17 bits in units of 2^19, without the columns of partial products below that."""
    high = place.shr(9)
    total = (high * high).shr(1)
    for bit in range(2, 9):
        total = total + (place.shl(31 - bit).sar(31) & place.shr(18 - bit))
    return total


@cache
def _table() -> dict[str, list[tuple[int, int, int]]]:
    """Read the integer coefficients of each function."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    with Path(__file__).with_suffix(".csv").open() as file:
        for row in csv.DictReader(file):
            found.setdefault(row["function"], []).append((int(row["c0"]), int(row["c1"]), int(row["c2"])))
    return found


power: Final = Function("ex2", 6, 1 << 13, 6114)
"""2^(1.m - 1) in ulps of 2^-23, of mantissa m."""
reciprocal: Final = Function("rcp", 7, 1 << 13, 2023, c1_sign=-1)
"""1/1.m in ulps of 2^-24."""
logarithm: Final = Function("lg2", 6, 1 << 12, 837, c2_sign=-1)
"""1 + log2(1.m) in ulps of 2^-23."""
