"""Zeroed columns of B in tcgen05.mma.ws: the zero-column mask descriptor of PTX ISA 9.1, table 45."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...chip import TMEM_LANES

GENERATE = 1 << 39


@dataclass(frozen=True, slots=True)
class ZeroColumns:
    """A decoded mask. shift: the first column of B that is multiplied. zeros: columns after it that count as zero."""

    shift: int
    zeros: frozenset[int]

    @classmethod
    def decode(cls, bits: int, m: int, n: int) -> ZeroColumns:
        """Decode the 64 bits of the descriptor. Raises ValueError for a shift that the shape does not allow.

        The mask has one part for each part of N that lies side by side in the lanes. Each part alternates between runs
        of zeroed and of used columns, begins with the run that its first-span bit names, and drops its start count of
        columns. By the examples below table 45, the skip span is zeroed and the use span is used.
        """
        shift, most = bits >> 56 & 63, 16 if m == 32 else 32
        if shift > most:
            raise ValueError(f"column shift {shift} in zero-column mask descriptor {bits:#018x}; M={m} allows {most}")
        if not bits & GENERATE:
            return cls(shift, frozenset())
        skip, use = (bits >> 40 & 0xFF) + 1, (bits >> 48 & 0xFF) + 1
        parts = TMEM_LANES // m
        columns = np.arange(n // parts)
        zeroed = []
        for part in range(parts):
            at = (columns + (bits >> 8 * part & 0xFF)) % (skip + use)
            mask = at < skip if bits >> 32 + part & 1 else at >= use
            zeroed.append(mask)
        return cls(shift, frozenset(np.flatnonzero(np.concatenate(zeroed)).tolist()))

    def of(self, b: np.ndarray) -> np.ndarray:
        """Return the part of B [N + shift, K] that is multiplied: [N, K]."""
        used = b[self.shift :].copy()
        used[list(self.zeros)] = 0
        return used
