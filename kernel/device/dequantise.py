"""The load role for quantised keys: a warp reads codes and scales, and writes bf16 into its slice of a KV tile."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int32, Int64
from cutlass._mlir.dialects import llvm
from cutlass.cutlass_dsl import dsl_user_op

from kernel.device.load import GatherWarp, pointer, wait_empty
from kernel.hardware import BF16_BYTES, VECTOR_BYTES, WARP
from kernel.layouts import QUANTISED, KeyLayout

WORD_BYTES = 4
CODES = VECTOR_BYTES  # that a lane converts at a time, a byte each
BATCH = 8  # vectors of codes that a lane has in flight


class QuantisedWarp(GatherWarp):
    """A load warp that converts keys whose columns in the ring of K are all codes, with an fp32 scale per slice.

    A lane has 16 columns of a key.
    """

    @property
    def layout(self) -> KeyLayout:
        """The bytes of a key."""
        return QUANTISED[self.cta.config.caches[0].layout]

    @cute.jit
    def copy_topk(self, indices: cute.Tensor, following: cute.Tensor, i: Int32, number: Int32) -> None:
        """Convert this warp's slice of tile `i`, which is the CTA's KV tile `number`.

        indices: the tile's indices; on return, the next tile's. following: the indices one tile
        later.
        """
        first = self.warp * self.ring.box[1]  # column of the slice
        # 1. Find the keys. A lane has the addresses and the scales of its indices. Shuffles pass both to the lanes
        #    that convert a key.
        entries = self.entries(i)
        found = [self.listed.address(entry, indices[n]) for n, entry in enumerate(entries)]
        words = [self.scales(entry, indices[n], first) for n, entry in enumerate(entries)]
        indices.store(following.load())
        following.store(self.read_indices(i + 2).load())
        # 2. Convert them, and signal the MMA warp once the copied columns are complete.
        self.publish_copies(self.convert_keys(found, words, first, number))

    @cute.jit
    def convert_keys(self, found: list[Any], words: list[Any], first: Int32, number: Int32) -> Int32:
        """Convert a few keys at a time, so that their codes fit into registers. Return the slot.

        found, words: addresses and scales of the slice's keys, in the lanes that have their indices. first: the slice's
        column. The warp waits for a free slot of the CTA's KV tile `number` only after it has issued the first loads of
        codes.
        """
        keys, dims = self.ring.box
        lane = cute.arch.lane_idx()
        lanes = dims // CODES  # that convert a key together
        column = first + lane % lanes * CODES
        step = WARP // lanes
        slot = Int32(0)
        for begin in cutlass.range_constexpr(0, keys, step * BATCH):
            own = [begin + n * step for n in range(BATCH)]
            places = [cute.arch.shuffle_sync(found[key // WARP], (key + lane // lanes) % WARP) for key in own]
            scales = [cute.arch.shuffle_sync(words[key // WARP], (key + lane // lanes) % WARP) for key in own]
            codes = [self.codes(place, column) for place in places]
            if cutlass.const_expr(begin == 0):
                slot = wait_empty(self.cta, self.ring, self.warp, number)
            self.write(slot, [key + lane // lanes for key in own], places, codes, scales, column)
        return slot

    def scales(self, entry: Int32, index: Int32, column: Any) -> Float32:
        """Load the scale of a slice from `column` on; 0 if the index names no key."""
        address = self.listed.scale_address(entry, index, self.layout)
        word = column // self.layout.scale_columns * WORD_BYTES
        held = cute.make_tensor(pointer(self.readable(address) + word, Float32, WORD_BYTES), cute.make_layout(1))
        return cutlass.select_(address == 0, Float32(0), held[0])

    def codes(self, place: Any, column: Int32) -> cute.Tensor:
        """Load the codes of a key from `column` on, or arbitrary ones if these columns are not quantised."""
        offset = cutlass.select_(column < self.layout.code_columns, column, Int32(0))
        source = pointer(self.readable(place) + Int64(offset), Int32, VECTOR_BYTES)
        loaded = cute.make_rmem_tensor(CODES // WORD_BYTES, Int32)
        cute.autovec_copy(cute.make_tensor(source, cute.make_layout(CODES // WORD_BYTES)), loaded)
        return loaded

    def write(
        self, slot: Int32, keys: list[Any], places: list[Any], codes: list[Any], scales: list[Any], column: Int32
    ) -> None:
        """Write 16 columns of each key, converted; zeros for keys that do not exist."""
        vector = cute.make_layout(VECTOR_BYTES // BF16_BYTES)
        vectors = CODES // cute.size(vector)
        at = column % self.ring.box[1] // CODES * vectors
        for key, place, code, scale in zip(keys, places, codes, scales, strict=True):
            row = cute.logical_divide(self.slot(slot)[key, None], vector)
            values = cute.logical_divide(rounded_products(code, scale, place != 0, packed=True), vector)
            for j in range(vectors):
                cute.autovec_copy(values[None, j], row[None, at + j])


def rounded_products(codes: cute.Tensor, scale: Float32, valid: Any, packed: bool = False) -> cute.Tensor:
    """Return the bf16 of 16 codes, four words, times a scale, with one rounding; zeros unless `valid`.

    packed: by instructions for two fp32, which sm_90 does not have.
    """
    values = cute.make_rmem_tensor(CODES, Float32)
    for w in range(CODES // WORD_BYTES):
        floats = floats_of_e4m3(cutlass.select_(valid, codes[w], Int32(0)))
        for j in range(0, WORD_BYTES, 2):
            pair = floats[j], floats[j + 1]
            product = cute.arch.mul_packed_f32x2(pair, (scale, scale)) if packed else [each * scale for each in pair]
            values[WORD_BYTES * w + j], values[WORD_BYTES * w + j + 1] = product
    rounded = cute.make_rmem_tensor(CODES, BFloat16)
    rounded.store(values.load().to(BFloat16))
    return rounded


@dsl_user_op
def floats_of_e4m3(word: Int32, *, loc: Any = None, ip: Any = None) -> list[Float32]:
    """Convert the four e4m3 codes of a word to fp32; NaN stays NaN."""
    code = (
        "{ .reg .b16 a, b, w, x, y, z; .reg .b32 p, q; mov.b32 {a, b}, $4; "
        "cvt.rn.f16x2.e4m3x2 p, a; cvt.rn.f16x2.e4m3x2 q, b; mov.b32 {w, x}, p; mov.b32 {y, z}, q; "
        "cvt.f32.f16 $0, w; cvt.f32.f16 $1, x; cvt.f32.f16 $2, y; cvt.f32.f16 $3, z; }"
    )
    found = llvm.inline_asm(
        llvm.StructType.get_literal([Float32.mlir_type] * WORD_BYTES),
        [Int32(word).ir_value(loc=loc, ip=ip)],
        code,
        "=f," * WORD_BYTES + "r",
        has_side_effects=False,
        is_align_stack=False,
        asm_dialect=llvm.AsmDialect.AD_ATT,
    )
    return [Float32(llvm.extractvalue(Float32.mlir_type, found, [i], loc=loc, ip=ip)) for i in range(WORD_BYTES)]
