"""Unordered stores of equal bits to global memory, and the reads that may see other bits nevertheless.

Whichever of such stores comes last, the bits are the same. A read that happens after one of them sees these bits,
unless a store of other bits is ordered before none of the stores that the read happens after.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .access import Access
from .clocks import Clock
from .global_access import GlobalAccess, StoreAt


def _earlier(other: GlobalAccess, accesses: Sequence[Access | None]) -> GlobalAccess | None:
    """Return a store of other bits that `other` replaced in all of its cells, None if there is none or several."""
    if other.lost:
        return other.first()
    before = () if other.same else [accesses[number] for number in other.replaced[0]]
    return before[0] if len(before) == 1 else None  # type: ignore[return-value]


def replace_equal(
    me: GlobalAccess, other: GlobalAccess, cells: np.ndarray, clock: Clock, accesses: Sequence[Access | None]
) -> None:
    """Keep in `me` what later accesses need to know of `other`, whose bits in `cells` it stores once more."""
    after = me.orders(other, clock)
    same_bits = [at for each in other.same_bits if (at := each.within(cells)) and not me.orders(at.store, clock)]
    other_bits = [at for each in other.other_bits if (at := each.within(cells)) and not me.orders(at.store, clock)]
    # Neither store is ordered last, and both leave the same bits: no race by itself.
    if not after:
        same_bits.append(StoreAt(other, cells))
        earlier = _earlier(other, accesses)
        if earlier is not None and not me.orders(earlier, clock):
            other_bits.append(StoreAt(earlier, cells))
    me.same_bits, me.other_bits = (*me.same_bits, *same_bits), (*me.other_bits, *other_bits)


def replaced_unequal(me: GlobalAccess, other: GlobalAccess, cells: np.ndarray, clock: Clock) -> Iterator[StoreAt]:
    """Yield the stores that `other` replaced without order and that `me`, a store of other bits, races with."""
    for each in other.same_bits:
        at = each.within(cells)
        if at is not None and not me.orders(at.store, clock):
            yield at


def unsafe_cells(me: GlobalAccess, last: GlobalAccess, cells: np.ndarray, clock: Clock) -> np.ndarray:
    """Return those of `cells`, last stored by `last`, in which the read `me` may see other bits."""
    left = np.unique(cells)
    for each in (StoreAt(last, left), *last.same_bits):
        # Coherence: a read sees the store that it comes after, or one that nothing orders before that.
        if me.comes_after(each.store, clock):
            shown = [store.cells for store in each.store.other_bits]
            left = np.setdiff1d(left, np.setdiff1d(each.cells, np.concatenate(shown)) if shown else each.cells)
    return left
