"""The load role for quantised keys: a warp reads codes and scales, and writes bf16 into its slice of a KV tile."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int32, Int64, Uint8
from cutlass._mlir.dialects import llvm
from cutlass.cutlass_dsl import dsl_user_op
from cutlass.experimental import primitives

from kernel.hardware import BF16_BYTES, WARP
from kernel.layouts import CODE_BITS, QUANTISED, KeyLayout
from kernel.sm100.cta import VECTOR_BYTES
from kernel.sm100.load import FEW_TOKENS, CacheWarp, wait_empty

WORD_BYTES = 4
CODES = VECTOR_BYTES  # that a lane converts at a time, a byte each
BATCH = 8  # vectors of codes that a lane has in flight


class QuantisedWarp(CacheWarp):
    """A load warp that converts keys whose columns in the ring of K are all codes. A scale is fp32, one for a slice.

    A lane has 16 columns of a key.
    """

    @property
    def layout(self) -> KeyLayout:
        """The bytes of a key."""
        return QUANTISED[self.cta.config.caches[0].layout]

    @cute.jit
    def copy_topk(self, indices: cute.Tensor, following: cute.Tensor, i: Int32, number: Int32) -> None:
        """Convert this warp's slice of tile `i`, which is the CTA's KV tile `number`.

        indices: those of the tile; on return, of the next tile. following: those of the next tile, then of the one
        after it.
        """
        first = self.warp * self.ring.box[1]  # column of the slice
        # 1. Find the keys. A lane has the addresses of its indices and the scales of the slice, which are in one word.
        #    Shuffles bring both to the lanes that convert a key.
        entries = self.entries(i)
        found = [self.place(entry, indices[n]) for n, entry in enumerate(entries)]
        words = [self.scales(entry, indices[n], first) for n, entry in enumerate(entries)]
        indices.store(following.load())
        following.store(self.read_indices(i + 2).load())
        # 2. Convert them, and signal the MMA warp once the copied columns are complete.
        self.publish_copies(self.convert_keys(found, words, first, number))

    @cute.jit
    def convert_keys(self, found: list[Any], words: list[Any], first: Int32, number: Int32) -> Int32:
        """Convert some keys after the other, so that their codes fit into registers. Return the slot.

        found, words: addresses and scales of the slice's keys, in the lanes that have their indices. first: the slice's
        column. The warp waits for a free slot of the CTA's KV tile `number` only when the first codes were asked for.
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

    @cute.jit
    def prefetch(self, i: Int32, end: Int32, indices: cute.Tensor) -> None:
        """Prefetch this warp's part of the keys of tile `i` to L2 for few tokens."""
        keys_per_warp = self.ring.box[0] // self.cta.config.slices
        if (i < end) & (self.cta.row_tile.tokens <= FEW_TOKENS) and cutlass.const_expr(self.ring.name == "k"):
            for n, entry in enumerate(self.entries(i)):
                if (n * WARP + cute.arch.lane_idx()) // keys_per_warp == self.warp:
                    key = pointer(self.or_first(self.place(entry, indices[n])), BFloat16, VECTOR_BYTES)
                    primitives.cp_async_bulk_prefetch(key, self.key_bytes(i))

    def key_bytes(self, i: Int32) -> Any:
        """Bytes of a key of tile `i`, without scales that are elsewhere in its page."""
        return self.layout.key_bytes

    def scales(self, entry: Int32, index: Int32, column: Any) -> Int32 | Float32:
        """Load the word with the scales of a slice from `column` on; 0 if the index names no key."""
        layout = self.layout
        dtype = Float32 if layout.scale_size == WORD_BYTES else Int32
        address = self.listed.scale_address(entry, index, layout)
        word = column // (WORD_BYTES // layout.scale_size * layout.scale_columns) * WORD_BYTES
        held = cute.make_tensor(pointer(self.or_first(address) + word, dtype, WORD_BYTES), cute.make_layout(1))
        return cutlass.select_(address == 0, dtype(0), held[0])

    def codes(self, place: Any, column: Int32) -> cute.Tensor:
        """Load the codes of a key from `column` on, or others in columns that are not quantised."""
        offset = cutlass.select_(column < self.layout.code_columns, column, Int32(0))
        source = pointer(self.or_first(place) + Int64(offset), Int32, VECTOR_BYTES)
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
            values = cute.logical_divide(self.converted(code, scale, place != 0), vector)
            for j in range(vectors):
                cute.autovec_copy(values[None, j], row[None, at + j])

    def or_first(self, address: Any, cache: int = 0) -> Any:
        """Return an address, or that of a cache if it is 0: a place where memory can be read."""
        return cutlass.select_(address == 0, self.cta.kv_tiles.caches[cache].base, address)

    def converted(self, codes: cute.Tensor, scale: Float32, valid: Any) -> cute.Tensor:
        """Return the bf16 of 16 codes times a scale, with one rounding; zeros unless `valid`.

        codes: four words of e4m3, or two of e2m1.
        """
        values = cute.make_rmem_tensor(CODES, Float32)
        of_word = CODES // cute.size(codes)
        for w in range(cute.size(codes)):
            word = cutlass.select_(valid, codes[w], Int32(0))
            floats = floats_of_e4m3(word) if of_word == WORD_BYTES else self.floats_of_e2m1(word)
            for j in range(0, of_word, 2):
                product = self.scaled((floats[j], floats[j + 1]), scale)
                values[of_word * w + j], values[of_word * w + j + 1] = product
        rounded = cute.make_rmem_tensor(CODES, BFloat16)
        rounded.store(values.load().to(BFloat16))
        return rounded

    def scaled(self, pair: tuple[Float32, Float32], scale: Float32) -> tuple[Float32, Float32]:
        """Return two values times a scale."""
        return cute.arch.mul_packed_f32x2(pair, (scale, scale))

    def scale_of(self, byte: Int32) -> Float32:
        """Return the power of two of the ue8m0 in the lowest byte; NaN for 255."""
        return scale_of_ue8m0(byte)

    def floats_of_e2m1(self, word: Int32) -> list[Float32]:
        """Convert the eight e2m1 codes of a word to fp32, from the lowest four bits on."""
        return floats_of_e2m1(word)


class KeyScalesWarp(QuantisedWarp):
    """A load warp that converts keys whose columns are all codes. A lane loads its scale, one byte, if there are any.

    Two caches may have different layouts. A KV tile has keys of one cache. Scales follow the codes of their key, or
    those of all keys of the page.
    """

    @property
    def layouts(self) -> list[KeyLayout]:
        """The layout of each cache."""
        return [QUANTISED[each.layout] for each in self.cta.config.caches]

    @cute.jit
    def copy_topk(self, indices: cute.Tensor, following: cute.Tensor, i: Int32, number: Int32) -> None:
        """Convert this warp's slice of tile `i`, which is the CTA's KV tile `number`.

        indices: those of the tile; on return, of the next tile. following: those of the next tile, then of the one
        after it.
        """
        # 1. Find the keys. A lane has the addresses of its indices.
        entries = self.entries(i)
        held = [indices[n] for n in range(len(entries))]
        found = [self.place(entry, index) for entry, index in zip(entries, held, strict=True)]
        to_scales = [self.distances_to_scales(each, entries, held) for each in self.layouts]
        indices.store(following.load())
        following.store(self.read_indices(i + 2).load())
        # 2. Convert them by the layout of the tile's cache.
        if cutlass.const_expr(self.layouts[0] == self.layouts[-1]):
            self.convert(0, found, to_scales[0], number)
        else:
            if i < self.cta.kv_tiles.boundary_tile:
                self.convert(0, found, to_scales[0], number)
            else:
                self.convert(1, found, to_scales[1], number)
        # 3. Signal the MMA warp.
        slot, _ = self.cta.bars.slot_and_phase(number, self.warp)
        self.publish_copies(slot)

    def distances_to_scales(self, layout: KeyLayout, entries: list[Int32], indices: list[Any]) -> list[Any]:
        """Return the bytes from each key to its scales; nothing if scales follow the codes of their key."""
        if layout.page_scale_bytes == 0:
            return []
        return [self.listed.distance_to_scales(*each, layout) for each in zip(entries, indices, strict=True)]

    @cute.jit
    def convert(self, cache: cutlass.Constexpr[int], found: list[Any], to_scales: list[Any], number: Int32) -> None:
        """Convert this warp's slice of the CTA's KV tile `number`, in batches whose codes fit into registers.

        cache: number of the tile's cache, or of one with the same layout. found, to_scales: the addresses of the
        slice's keys and the results of `distances_to_scales`, in the lanes that have their indices. The warp waits for
        a free slot only when the first codes were asked for.
        """
        layout = self.layouts[cache]
        keys, dims = self.ring.box
        lane = cute.arch.lane_idx()
        lanes = dims // CODES  # that convert a key together
        column = (self.rank if self.ring.along_keys else self.warp) * dims + lane % lanes * CODES
        step = WARP // lanes
        slot = Int32(0)
        for begin in cutlass.range_constexpr(0, keys, step * BATCH):
            own = [begin + n * step for n in range(BATCH)]
            places = [cute.arch.shuffle_sync(found[key // WARP], (key + lane // lanes) % WARP) for key in own]
            codes = [self.own_codes(cache, place, column) for place in places]
            distances = [layout.code_bytes] * BATCH
            if cutlass.const_expr(layout.page_scale_bytes > 0):
                distances = [
                    cute.arch.shuffle_sync(to_scales[key // WARP], (key + lane // lanes) % WARP) for key in own
                ]
            scales = [self.own_scale(cache, *each, column) for each in zip(places, distances, strict=True)]
            if cutlass.const_expr(begin == 0):
                slot = wait_empty(self.cta, self.ring, self.warp, number)
            self.write(slot, [key + lane // lanes for key in own], places, codes, scales, column)

    def own_codes(self, cache: int, place: Any, column: Int32) -> cute.Tensor:
        """Load the 16 codes of a key from `column` on: four words of e4m3, or two of e2m1."""
        layout = self.layouts[cache]
        size = CODES * CODE_BITS[layout.code] // 8
        source = pointer(self.or_first(place, cache) + column * CODE_BITS[layout.code] // 8, Int32, size)
        loaded = cute.make_rmem_tensor(size // WORD_BYTES, Int32)
        cute.autovec_copy(cute.make_tensor(source, cute.make_layout(size // WORD_BYTES)), loaded)
        return loaded

    def own_scale(self, cache: int, place: Any, distance: Any, column: Int32) -> Float32:
        """Load the scale of a key's codes from `column` on; a finite one if there is no key.

        distance: bytes from the key to its scales.
        """
        layout = self.layouts[cache]
        if layout.scale == "none":
            return Float32(1.0)
        source = pointer(self.or_first(place, cache) + distance + column // layout.scale_columns, Uint8, 1)
        byte = cutlass.select_(place == 0, Int32(0), Int32(cute.make_tensor(source, cute.make_layout(1))[0]))
        return self.scale_of(byte) if layout.scale == "ue8m0" else floats_of_e4m3(byte)[0]

    def key_bytes(self, i: Int32) -> Any:
        """Bytes of a key of tile `i`."""
        first, last = self.layouts[0].key_bytes, self.layouts[-1].key_bytes
        before = i < self.cta.kv_tiles.boundary_tile
        return first if first == last else cutlass.select_(before, Int32(first), Int32(last))


def pointer(address: Any, dtype: type[cutlass.Numeric], align_bytes: int) -> cute.Pointer:
    """Return a pointer to global memory."""
    return cute.make_ptr(dtype, address, cute.AddressSpace.gmem, assumed_align=align_bytes)


@dsl_user_op
def floats_of_e4m3(word: Int32, *, loc: Any = None, ip: Any = None) -> list[Float32]:
    """Convert the four e4m3 codes of a word to fp32; NaN stays NaN."""
    code = (
        "{ .reg .b16 a, b, w, x, y, z; .reg .b32 p, q; mov.b32 {a, b}, $4; "
        "cvt.rn.f16x2.e4m3x2 p, a; cvt.rn.f16x2.e4m3x2 q, b; mov.b32 {w, x}, p; mov.b32 {y, z}, q; "
        "cvt.f32.f16 $0, w; cvt.f32.f16 $1, x; cvt.f32.f16 $2, y; cvt.f32.f16 $3, z; }"
    )
    return _floats(code, word, WORD_BYTES, loc, ip)


@dsl_user_op
def floats_of_e2m1(word: Int32, *, loc: Any = None, ip: Any = None) -> list[Float32]:
    """Convert the eight e2m1 codes of a word to fp32, from the lowest four bits on."""
    halves = "".join(
        f"cvt.rn.f16x2.e2m1x2 p, {byte}; mov.b32 {{x, y}}, p; cvt.f32.f16 ${2 * i}, x; cvt.f32.f16 ${2 * i + 1}, y; "
        for i, byte in enumerate("abcd")
    )
    code = f"{{ .reg .b8 a, b, c, d; .reg .b16 x, y; .reg .b32 p; mov.b32 {{a, b, c, d}}, $8; {halves}}}"
    return _floats(code, word, 2 * WORD_BYTES, loc, ip)


def _floats(code: str, word: Int32, count: int, loc: Any, ip: Any) -> list[Float32]:
    """Return the `count` results of PTX that reads a word."""
    found = llvm.inline_asm(
        llvm.StructType.get_literal([Float32.mlir_type] * count),
        [Int32(word).ir_value(loc=loc, ip=ip)],
        code,
        "=f," * count + "r",
        has_side_effects=False,
        is_align_stack=False,
        asm_dialect=llvm.AsmDialect.AD_ATT,
    )
    return [Float32(llvm.extractvalue(Float32.mlir_type, found, [i], loc=loc, ip=ip)) for i in range(count)]


@dsl_user_op
def scale_of_ue8m0(byte: Int32, *, loc: Any = None, ip: Any = None) -> Float32:
    """Return the power of two of the ue8m0 in the lowest byte; NaN for 255."""
    code = (
        "{ .reg .b16 a, b; .reg .b32 p; mov.b32 {a, b}, $1; cvt.rn.bf16x2.ue8m0x2 p, a; shl.b32 p, p, 16; "
        "mov.b32 $0, p; }"
    )
    found = llvm.inline_asm(
        Float32.mlir_type,
        [Int32(byte).ir_value(loc=loc, ip=ip)],
        code,
        "=f,r",
        has_side_effects=False,
        is_align_stack=False,
        asm_dialect=llvm.AsmDialect.AD_ATT,
    )
    return Float32(found)
