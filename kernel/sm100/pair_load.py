"""The load roles for quantised keys where keys are the N of QK: four warps convert K.

In a CTA pair four others convert V. Such a CTA converts half of the keys for K, and half of the columns of all keys for
V.
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Boolean, Int32, Int64
from cutlass.cute.nvgpu import cpasync

from kernel.hardware import SWIZZLE_BYTES
from kernel.layouts import QUANTISED
from kernel.sm100.convert import KEYS, LANES, VECTORS, WORDS, ConvertingWarp, Key, Part, words_at
from kernel.sm100.cta import VECTOR_BYTES
from kernel.sm100.operands import CHUNK


class KeysWarp(ConvertingWarp):
    """One of the warps that convert K: it has some of its CTA's keys, all of their columns."""

    copies_others = True

    @cute.jit
    def begin_slice(
        self,
        slice_: cutlass.Constexpr[int],
        chunks: cutlass.Constexpr[range],
        keys: list[Key],
        slot: Int32,
        number: Int32,
    ) -> None:
        """Copy the columns that are bf16. Such copies take less of the port of shared memory than loads and stores."""
        for c in cutlass.range_constexpr(len(chunks)):
            if cutlass.const_expr(not keys[0].holds(chunks[c])):
                for step in cutlass.range_constexpr(self.steps):
                    self.copy_others(keys[step], self.slot(slot).iterator.toint() + self.row_offset(c, step))

    def copy_others(self, key: Key, rows: Int32) -> None:
        """Copy the columns of a key that are bf16 to a chunk of a slot, or zeros. rows: address of the step's rows.

        The lanes of a key copy adjacent vectors.
        """
        atom = cute.make_copy_atom(cpasync.CopyG2SOp(cpasync.LoadCacheMode.GLOBAL), Int32, num_bits_per_copy=128)
        valid = cute.make_rmem_tensor(cute.make_layout(WORDS, stride=0), Boolean)
        valid[0] = key.exists
        source = key.place + Int64(key.layout.others_offset + self.unit * VECTOR_BYTES)
        target = rows + self.first_key * SWIZZLE_BYTES + (self.unit ^ self.first_key % KEYS) * VECTOR_BYTES
        for j in range(VECTORS):
            further = j * LANES * VECTOR_BYTES
            src = words_at(source + Int64(further), WORDS, cute.AddressSpace.gmem)
            cute.copy(atom, src, words_at(target ^ further, WORDS, cute.AddressSpace.smem), pred=valid)

    def publish_slice(self, slice_: int, keys: list[Key], slot: Int32, number: Int32) -> None:
        """Signal the MMA warp once the copies of the slice are complete, too."""
        if keys[0].layout.code_columns < keys[0].layout.columns:
            self.complete_copies(slot)
        super().publish_slice(slice_, keys, slot, number)

    def complete_copies(self, slot: Int32) -> None:
        """Wait for the copies."""
        cute.arch.cp_async_commit_group()
        cute.arch.cp_async_wait_group(0)


class PairValuesWarp(KeysWarp):
    """One of the warps that convert V: it has the keys of a slice, the CTA's half of their columns."""

    @property
    def warps_of_slice(self) -> int:
        """Number of warps that convert the keys of a slice."""
        return 1

    def slice_number(self, n: int) -> Int32:
        """Return the number of the warp's slice."""
        return self.warp

    def first_entry(self, i: Int32) -> Int32:
        """Return the number of the index of the first key of tile `i` in a slot."""
        return i * self.cta.config.block_n + self.warp * self.ring.box[0]

    @cute.jit
    def convert_tile(
        self, cache: cutlass.Constexpr[int], entries: list[Int32], indices: list[Int32], number: Int32
    ) -> None:
        """Convert the CTA's half of the columns. The halves differ in code only if one of them has columns in bf16."""
        half = self.ring.box[1] // CHUNK
        layout = QUANTISED[self.cta.config.caches[cache].layout]
        if cutlass.const_expr(layout.code_columns == layout.columns):
            self.convert(Part(cache, range(half), self.rank * half), entries, indices, number)
        else:
            if self.rank == 0:
                self.convert(Part(cache, range(half)), entries, indices, number)
            else:
                self.convert(Part(cache, range(half, 2 * half)), entries, indices, number)
