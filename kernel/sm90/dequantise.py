"""The load roles for quantised keys on sm_90, which has no packed fp32, and converts neither ue8m0 nor e2m1."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Boolean, Float32, Int32, Int64, Uint8
from cutlass.cute.nvgpu import cpasync

from kernel.hardware import BF16_BYTES, WARP, WARPGROUP
from kernel.layouts import CODE_BITS, QUANTISED, KeyLayout
from kernel.sm90.load import AT_ONCE, LANES, RopePart
from kernel.sm100.cta import VECTOR_BYTES
from kernel.sm100.dequantise import BATCH, CODES, WORD_BYTES, QuantisedWarp, floats_of_e4m3, pointer
from kernel.sm100.load import wait_empty

MANTISSA_BITS = 23
LEAST_SCALE = 1 << MANTISSA_BITS - 1  # bits of 2^-127 in fp32, which is subnormal
NAN_SCALE, NAN = 0xFF, 0x7FFFFFFF
#: A word of e2m1 codes: the exponent and mantissa of every second code, and its sign.
E2M1_VALUES, E2M1_SIGNS = 0x07070707, 0x08080808
E2M1_FACTOR = 64.0  # the bits of an e2m1, shifted to the places of e4m3's, are its value over so much


class ConvertingWarp(QuantisedWarp):
    """A load warp that converts keys.

    It converts some after the other in a loop: unrolled, loads of several turns would be in registers.
    """

    vectors = BATCH
    """Vectors of codes that a lane converts in a turn of the loop."""

    @property
    def lanes(self) -> int:
        """Lanes that convert a key together."""
        return self.ring.box[1] // CODES

    @property
    def keys_of_turn(self) -> int:
        """Keys that the warp converts in a turn of the loop."""
        return WARP // self.lanes * self.vectors

    @property
    def column(self) -> Any:
        """First of the lane's columns."""
        return self.warp * self.ring.box[1] + cute.arch.lane_idx() % self.lanes * CODES

    def keys_from(self, begin: Int32) -> list[Any]:
        """Return the lane's keys in the turn that begins with key `begin` of the tile."""
        step = WARP // self.lanes
        return [begin + n * step + cute.arch.lane_idx() // self.lanes for n in range(self.vectors)]

    def of_keys(self, values: list[Any], keys: list[Any], begin: Int32) -> list[Any]:
        """Return the value of each key. values: in the lanes that have the indices of the tile's keys."""
        held = cutlass.select_(begin < WARP, *values)
        return [cute.arch.shuffle_sync(held, key % WARP) for key in keys]

    def scaled(self, pair: tuple[Float32, Float32], scale: Float32) -> tuple[Float32, Float32]:
        """Return two values times a scale."""
        return pair[0] * scale, pair[1] * scale

    def scale_of(self, byte: Int32) -> Float32:
        """Return the power of two of the ue8m0 in the lowest byte, which is an exponent of fp32; NaN for 255."""
        exponent = byte & 0xFF
        bits = cute.make_rmem_tensor(1, Int32)
        bits[0] = cutlass.select_(exponent == 0, Int32(LEAST_SCALE), exponent << MANTISSA_BITS)
        bits[0] = cutlass.select_(exponent == NAN_SCALE, Int32(NAN), bits[0])
        return cute.recast_tensor(bits, Float32)[0]

    def floats(self, word: Int32, count: int) -> list[Float32]:
        """Convert the codes of a word to fp32, from the lowest bits on: four of e4m3, or eight of e2m1."""
        if count == WORD_BYTES:
            return floats_of_e4m3(word)
        halves = [floats_of_e4m3((half & E2M1_VALUES) << 2 | (half & E2M1_SIGNS) << 4) for half in (word, word >> 4)]
        return [each[j] * Float32(E2M1_FACTOR) for j in range(len(halves[0])) for each in halves]


class TwoTurnsWarp(ConvertingWarp):
    """A load warp that converts keys of which the scales of a slice are in one word.

    The codes of two turns are in flight: the first two are asked for before a slot is free, and those of each other
    turn as soon as the registers of an earlier one are free.
    """

    vectors = BATCH // 2

    @cute.jit
    def convert_keys(self, found: list[Any], words: list[Any], first: Int32, number: Int32) -> Int32:
        """Convert this warp's slice of the CTA's KV tile `number`. Return the slot.

        found, words: addresses and scales of the slice's keys, in the lanes that have their indices. first: the slice's
        column.
        """
        keys, turn = self.ring.box[0], self.keys_of_turn
        asked = [self.codes_from(found, begin) for begin in (Int32(0), Int32(turn))]
        slot = wait_empty(self.cta, self.ring, self.warp, number)
        for begin in cutlass.range(0, keys, 2 * turn, unroll=1):
            for n, codes in enumerate(asked):
                at = begin + n * turn
                own = self.keys_from(at)
                places, scales = self.of_keys(found, own, at), self.of_keys(words, own, at)
                self.write(slot, own, places, codes, scales, self.column)
                if at + 2 * turn < keys:
                    for held, new in zip(codes, self.codes_from(found, at + 2 * turn), strict=True):
                        held.store(new.load())
        return slot

    def codes_from(self, found: list[Any], begin: Int32) -> list[cute.Tensor]:
        """Load the lane's codes in the turn that begins with key `begin` of the tile."""
        return [self.codes(place, self.column) for place in self.of_keys(found, self.keys_from(begin), begin)]


class V4Warp(TwoTurnsWarp):
    """A load warp that converts keys of V4."""

    @cute.jit
    def write(
        self, slot: Int32, keys: list[Any], places: list[Any], codes: list[Any], scales: list[Any], column: Int32
    ) -> None:
        """Write 16 columns of each key, converted, or copied where keys have bf16; zeros for keys that do not exist."""
        layout = self.layout
        vector = cute.make_layout(VECTOR_BYTES // BF16_BYTES)
        vectors = CODES // cute.size(vector)
        at = column % self.ring.box[1] // CODES * vectors
        rows = [cute.logical_divide(self.slot(slot)[key, None], vector) for key in keys]
        if column < layout.code_columns:
            shift = column // layout.scale_columns % WORD_BYTES * 8
            for row, place, code, word in zip(rows, places, codes, scales, strict=True):
                values = self.converted(code, self.scale_of(word >> shift), place != 0)
                for j in range(vectors):
                    cute.autovec_copy(cute.logical_divide(values, vector)[None, j], row[None, at + j])
        else:
            atom = cute.make_copy_atom(cpasync.CopyG2SOp(cpasync.LoadCacheMode.GLOBAL), BFloat16, num_bits_per_copy=128)
            valid = cute.make_rmem_tensor(cute.make_layout(vector.shape, stride=0), Boolean)
            for row, place in zip(rows, places, strict=True):
                valid[0] = place != 0
                offset = layout.others_offset + (column - layout.code_columns) * BF16_BYTES
                source = pointer(self.or_first(place) + Int64(offset), BFloat16, VECTOR_BYTES)
                own = cute.logical_divide(cute.make_tensor(source, cute.make_layout(CODES)), vector)
                for j in range(vectors):
                    cute.copy(atom, own[None, j], row[None, at + j], pred=valid)


class V32Warp(TwoTurnsWarp):
    """A load warp that converts keys of DeepSeek-V3.2, and copies the rotary columns of a quarter of them."""

    @cute.jit
    def copy_topk(self, indices: cute.Tensor, following: cute.Tensor, i: Int32, number: Int32) -> None:
        """Convert this warp's slice of tile `i`, as QuantisedWarp.copy_topk, then copy its part of rotary columns."""
        found = [self.place(entry, indices[n]) for n, entry in enumerate(self.entries(i))]
        super().copy_topk(indices, following, i, number)
        begin, count = self.warp * (self.ring.box[0] // WARPGROUP), self.ring.box[0] // WARPGROUP
        keys = [begin + n + cute.arch.lane_idx() // LANES for n in range(0, count, AT_ONCE)]
        RopePart(self.cta, self.cta.config.rope_ring, self.warp).copy(keys, self.of_keys(found, keys, begin), number)


class V41Warp(ConvertingWarp):
    """A load warp that converts keys of V4.1, whose columns are all codes. A lane loads its scale, if there are any.

    Two caches may have different layouts. A KV tile has keys of one cache. Scales, a byte each, follow the codes of
    their key, or those of all keys of the page.
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
        """Convert this warp's slice of the CTA's KV tile `number`.

        cache: number of the tile's cache, or of one with the same layout. found, to_scales: the addresses of the tile's
        keys and the results of `distances_to_scales`, in the lanes that have their indices.
        """
        layout = self.layouts[cache]
        slot = wait_empty(self.cta, self.ring, self.warp, number)
        for begin in cutlass.range(0, self.ring.box[0], self.keys_of_turn, unroll=1):
            keys = self.keys_from(begin)
            places = self.of_keys(found, keys, begin)
            codes = [self.own_codes(cache, each, self.column) for each in places]
            distances = [layout.code_bytes] * self.vectors
            if cutlass.const_expr(layout.page_scale_bytes > 0):
                distances = self.of_keys(to_scales, keys, begin)
            scales = [self.own_scale(cache, *each, self.column) for each in zip(places, distances, strict=True)]
            self.write(slot, keys, places, codes, scales, self.column)

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
