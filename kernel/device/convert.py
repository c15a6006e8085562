"""The load roles for quantised keys: warps convert codes by integer operations and bf16 products.

The bits of an e4m3, shifted to the places of bf16's, are its value over 2^120. Products of bf16 by that power and by a
scale of ue8m0 are exact unless the result is subnormal. One product by 2^120 times the scale does both, unless a
scale of the lane is above 1: the factor might overflow bf16. By this conversion the code of NaN would give 480. So
warps search for it, and if a key has one, the scale of its last columns becomes NaN. Then its logits and P are NaN.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Boolean, Float32, Int32, Int64
from cutlass._mlir.dialects import llvm
from cutlass.cute.nvgpu import cpasync
from cutlass.cutlass_dsl import dsl_user_op

from kernel.device.config import Ring
from kernel.device.cta import Cta
from kernel.device.dequantise import CODES, WORD_BYTES, rounded_products
from kernel.device.load import GatherWarp, wait_empty
from kernel.device.operands import CHUNK
from kernel.device.tiles import CacheTiles, LoopInvariant, smaller
from kernel.hardware import BF16_BYTES, SWIZZLE_BYTES, VECTOR_BYTES
from kernel.layouts import CODE_BITS, QUANTISED

WORDS = VECTOR_BYTES // WORD_BYTES  # of a vector
KEYS = 8  # that a warp converts at a time: four lanes a key, each with 16 of a chunk's columns
LANES = 4
LINE_BYTES = 128  # of L2
MANY_TILES = 4  # of a CTA, from which on prefetches pay
ONES = 0x3F803F80  # 1 in bf16, twice
E4M3_UNIT = 0x7B807B80  # 2^120 in bf16, twice
UE8M0_UNIT = 0x78787878  # added to four ue8m0 from 0 to 127, it multiplies them by 2^120
UE8M0_ONES = 0xF7F7F7F7  # 2^120 in ue8m0, four times
FP32_UNIT = 120 << 23  # added to an fp32 up to 2^7, it multiplies it by 2^120
MAX_FAST = 134 << 23  # 2^7 in fp32
TOP_BITS = 0x80808080  # of four bytes; set in a ue8m0 above 1
NANS = 0x7FFF7FFF  # of bf16, twice
VECTORS = 2  # of a lane's 16 columns in bf16


@dataclass(frozen=True)
class Part(LoopInvariant):
    """The chunks of a key of which a lane converts its columns.

    cache: number of the key's cache, or of one with the same layout. chunks: their numbers. moved: a number of
    chunks, known at run time, to add to their numbers, if all columns are codes.
    """

    cache: int
    chunks: range
    moved: Any = 0


Listed = list[tuple[Int32, Int32]]
"""The number of the index of each key that a lane converts, and the index."""


class ConvertingWarp(GatherWarp):
    """A warp that converts some keys of KV tiles. It publishes a slice as soon as the slice is converted."""

    prefetches = False  # to L2, the keys of the warp's next tile
    turns = 1  # groups of warps that take the KV tiles in turn
    copies_others = False  # columns in bf16 are copied to shared memory, not through registers
    packs_scales = False  # a lane keeps no scales of columns that other lanes of its key convert
    ahead: int | None = None  # chunks that are loaded ahead; None: all of a tile's
    loops = False  # over the halves of a key, all codes: half the code to fetch, if all or a half is loaded ahead

    def __init__(self, cta: Cta, ring: Ring, warp: Any) -> None:
        """Bind warp `warp` of a ring to a row tile. The warps of a group are consecutive."""
        super().__init__(cta, ring, warp)
        group = self.warps_of_slice
        self.turn = warp // group
        self.steps = ring.box[0] // group // KEYS
        lane = self.lane()
        self.first_key = warp % group * self.steps * KEYS + lane // LANES  # of the lane in a slot
        self.unit = lane % LANES  # of 16 columns in each chunk

    def lane(self) -> Int32:
        """Return the lane's number."""
        return cute.arch.lane_idx()

    @property
    def warps_of_slice(self) -> int:
        """Number of warps that convert the keys of a slice."""
        return len(self.ring.warps) // self.turns

    @cute.jit
    def run(self, tail_loads: Int32) -> Int32:
        """Convert this warp's keys of every KV tile of its group's turns.

        Indices are loaded one of its tiles ahead, two if keys are prefetched.

        Turns alternate by the tile's number among all KV tiles of the CTA, so that no warp is more than two tiles
        behind an mbarrier: it could not distinguish the phase from an earlier one of the same parity.
        """
        kv = self.cta.kv_tiles
        number = self.cta.kv_done - kv.begin  # of KV tile 0 among all that the CTA takes
        first = kv.begin
        if self.turns > 1:
            first = first + (self.turn - self.cta.kv_done & self.turns - 1)
        indices = self.read_indices(first)
        following = self.read_indices(first + self.turns) if self.prefetches else indices
        for i in cutlass.range(first, kv.end, self.turns, unroll=1):
            listed = [(entry, indices[step]) for step, entry in enumerate(self.entries(i))]
            if cutlass.const_expr(self.prefetches):
                indices.store(following.load())
                following.store(self.read_indices(i + 2 * self.turns).load())
                self.prefetch_keys(i + self.turns, indices)
            else:
                indices.store(self.read_indices(i + self.turns).load())
            if cutlass.const_expr(self.cta.config.one_layout):
                self.convert_tile(0, i, listed, number + i)
            else:
                if i < kv.boundary_tile:
                    self.convert_tile(0, i, listed, number + i)
                else:
                    self.convert_tile(1, i, listed, number + i)
        return tail_loads

    @cute.jit
    def prefetch_keys(self, i: Int32, indices: cute.Tensor) -> None:
        """Prefetch the lane's keys of tile `i` to L2, without scales elsewhere in the page, if tiles are many."""
        kv = self.cta.kv_tiles
        if (i < kv.end) & (kv.count >= MANY_TILES):
            tiles, start = self.listed.of_tile(i)
            for step, entry in enumerate(self.entries(i)):
                place = self.readable(tiles.address(entry - start, indices[step]))
                for first in range(0, self.key_bytes, LANES * LINE_BYTES):
                    offset = smaller(first + self.unit * LINE_BYTES, self.key_bytes - 1)
                    prefetch_line(place + Int64(offset))

    def first_entry(self, i: Int32) -> Int32:
        """Return the number of the index of the first key of tile `i` in a slot."""
        return i * self.cta.config.block_n + self.rank * self.ring.box[0]

    def entries(self, i: Int32) -> list[Int32]:
        """Return the numbers of the indices of tile `i` whose keys the lane converts."""
        return [self.first_entry(i) + (self.first_key + step * KEYS) for step in range(self.steps)]

    def read_indices(self, i: Int32) -> cute.Tensor:
        """Load the indices of tile `i` whose keys the lane converts."""
        indices = cute.make_rmem_tensor(self.steps, Int32)
        for step, entry in enumerate(self.entries(i)):
            indices[step] = self.listed.index(entry)
        return indices

    @cute.jit
    def convert_tile(self, cache: cutlass.Constexpr[int], i: Int32, listed: Listed, number: Int32) -> None:
        """Convert all columns of this warp's keys of tile `i`, which is the CTA's KV tile `number`.

        cache: number of the tile's cache, or of one with the same layout.
        """
        self.convert(Part(cache, range(self.cta.config.qk_dim // CHUNK)), i, listed, number)

    @cute.jit
    def convert(self, part: cutlass.Constexpr[Part], i: Int32, listed: Listed, number: Int32) -> None:
        """Convert a part of this warp's keys of tile `i`, which is the CTA's KV tile `number`."""
        # 1. Find the keys, and issue the loads of all their bytes.
        tiles, start = self.listed.of_tile(i) if self.cta.config.one_layout else self.listed.alone(part.cache)
        keys = [Key(self, part, tiles, entry - start, index) for entry, index in listed]
        # 2. Convert slice after slice as they become free, and signal the MMA warp.
        count = len(part.chunks) * CHUNK // self.ring.box[1]
        if cutlass.const_expr(self.loops):
            for half in cutlass.range(2, unroll=1):
                for n in cutlass.range_constexpr(count // 2):
                    self.convert_slice(part, n, keys, number, half)
        else:
            for n in cutlass.range_constexpr(count):
                self.convert_slice(part, n, keys, number)
        # 3. Then the rotary columns, which are read last.
        if cutlass.const_expr(len(part.chunks) * CHUNK > self.cta.config.head_dim):
            self.load_rope(keys, number)

    @cute.jit
    def convert_slice(
        self,
        part: cutlass.Constexpr[Part],
        n: cutlass.Constexpr[int],
        keys: list[Key],
        number: Int32,
        half: Int32 | None = None,
    ) -> None:
        """Convert slice `n` of this warp's keys, in a loop that of the half."""
        per_slice = self.ring.box[1] // CHUNK
        chunks = part.chunks[n * per_slice : (n + 1) * per_slice]
        for key in keys:
            key.half = half
        slice_ = self.slice_number(n) if half is None else half * (self.cta.config.slices // 2) + n
        slot = wait_empty(self.cta, self.ring, slice_, number)
        self.begin_slice(n, chunks, keys, slot, number)
        first = self.slot(slot).iterator.toint() + self.first_column
        for c in cutlass.range_constexpr(per_slice):
            if cutlass.const_expr(keys[0].holds(chunks[c])):
                columns = columns_of(keys, chunks[c])
                for step in cutlass.range_constexpr(self.steps):
                    self.write(first, self.row_offset(c, step), columns[step])
                self.store_chunk(n, c, columns, number)
        if cutlass.const_expr(self.ahead is None):
            for key in keys:
                key.move_codes(chunks)
        elif cutlass.const_expr(half is None):  # noqa: SIM114  the next branch is the device's
            for key in keys:
                key.load([chunk + self.ahead for chunk in chunks])
        elif half == 0:
            for key in keys:
                key.load([chunk + self.ahead for chunk in chunks])
        self.publish_slice(n, keys, slot, number)

    def slice_number(self, n: int) -> Any:
        """Return the number of the slice that the warp converts as its `n`-th of a KV tile."""
        return n

    def begin_slice(self, slice_: int, chunks: range, keys: list[Key], slot: Int32, number: Int32) -> None:
        """Start a slice of `chunks` of the CTA's KV tile `number` in a free slot."""

    def load_rope(self, keys: list[Key], number: Int32) -> None:
        """Load the rotary columns of the CTA's KV tile `number` into their slot, if they are not in the ring of K."""
        raise NotImplementedError

    def store_chunk(self, slice_: int, c: int, columns: list[list[cute.Tensor]], number: Int32) -> None:
        """Store chunk `c` of a slice of the CTA's KV tile `number` to a further place; does nothing here."""

    def publish_slice(self, slice_: int, keys: list[Key], slot: Int32, number: Int32) -> None:
        """Signal the MMA warp that a slice of the CTA's KV tile `number` is converted."""
        cute.arch.fence_view_async_shared()
        self.cta.bars.arrive_warp(self.ring.full, slot)

    def row_offset(self, c: int, step: int) -> int:
        """Bytes in a slot from a row of chunk 0 to the row of chunk `c` that is `step` steps later."""
        return (c * self.ring.box[0] + step * KEYS) * SWIZZLE_BYTES

    @property
    def first_column(self) -> Int32:
        """Bytes from a slot to the lane's first column of its first key. Its other vector is at that address ^ 16."""
        swizzled = VECTORS * self.unit ^ self.first_key % KEYS
        return self.first_key * SWIZZLE_BYTES + swizzled * VECTOR_BYTES

    def write(self, first: Int32, offset: int, vectors: list[cute.Tensor]) -> None:
        """Write the lane's 16 columns of a key, at `offset` bytes from the columns of its first key and chunk."""
        for j, vector in enumerate(vectors):
            address = (first ^ j * VECTOR_BYTES) + offset
            cute.autovec_copy(vector, words_at(address, WORDS, cute.AddressSpace.smem))


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
        """Copy the bf16 columns by cp.async, which uses the port of shared memory less than loads and stores do."""
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
        if keys[0].layout.has_others:
            cute.arch.cp_async_commit_group()
            cute.arch.cp_async_wait_group(0)
        super().publish_slice(slice_, keys, slot, number)


class Key(LoopInvariant):
    """A lane's part of a key in registers: its 16 codes of each chunk, the scales, and its 16 columns in bf16."""

    def __init__(self, warp: ConvertingWarp, part: Part, tiles: CacheTiles, entry: Int32, index: Int32) -> None:
        """Load a part of the key of index number `entry`. If the index names none, load another, and scales of 0."""
        layout = QUANTISED[warp.cta.config.caches[part.cache].layout]
        self.layout, self.chunks, self.unit = layout, part.chunks, warp.unit
        place, scales = tiles.address(entry, index), tiles.scale_address(entry, index, layout)
        self.exists = place != 0
        self.place, scales = (cutlass.select_(self.exists, each, tiles.caches[0].base) for each in (place, scales))
        moved = part.moved * (CHUNK * layout.scale_size // layout.scale_columns)
        self.packed = warp.packs_scales and layout.scale_columns < CHUNK
        self.scales = self.loaded_scales(scales + Int64(self.first_scale * layout.scale_size) + Int64(moved))
        bits = CODE_BITS[layout.code]
        self.first = self.place + Int64(self.unit * (CODES * bits // 8)) + Int64(part.moved * (CHUNK * bits // 8))
        self.marks = cute.make_rmem_tensor(1, Int32)
        self.marks[0] = Int32(0)
        self.codes: dict[int, cute.Tensor] = {}
        self.half: Int32 | None = None  # that the warp's loop converts; chunks are numbered within it
        self.copies_others = warp.copies_others
        self.others: list[cute.Tensor] = []
        self.load(part.chunks[: warp.ahead])

    def load(self, chunks: Iterable[int]) -> None:
        """Load the lane's columns of those chunks which the part has, unless they are copied."""
        bits = CODE_BITS[self.layout.code]
        for chunk in (each for each in chunks if each in self.chunks and self.holds(each)):
            if self.is_coded(chunk):
                address = self.first + Int64(chunk * CHUNK * bits // 8)
                codes = loaded(address, CODES * bits // 8 // WORD_BYTES)
                if self.half is None:
                    self.codes[chunk] = codes
                else:
                    self.codes[chunk - len(self.codes)].store(codes.load())
            else:
                first = self.first + Int64(self.layout.others_offset + self.unit * CODES * (BF16_BYTES - bits // 8))
                self.others = [self.or_zeros(loaded(first + Int64(j * VECTOR_BYTES), WORDS)) for j in range(VECTORS)]

    def move_codes(self, chunks: Iterable[int]) -> None:
        """Move the codes of the second half to the registers of the first half's, in a loop over both."""
        for chunk in chunks if self.half is not None else ():
            self.codes[chunk].store(self.codes[chunk + len(self.codes) // 2].load())

    def is_coded(self, chunk: int) -> bool:
        """Return whether a chunk's columns are codes."""
        return chunk * CHUNK < self.layout.code_columns

    def holds(self, chunk: int) -> bool:
        """Return whether the lane has its columns of a chunk in registers."""
        return self.is_coded(chunk) or not self.copies_others

    @property
    def finds_nan(self) -> bool:
        """True if the warp searches for codes of NaN. Not in half a key, which is for V: P is NaN already, from K."""
        return len(self.chunks) * CHUNK >= self.layout.code_columns

    @property
    def first_scale(self) -> int:
        """Number of the scale of the first chunk."""
        return self.chunks.start * CHUNK // self.layout.scale_columns

    def loaded_scales(self, address: Any) -> list[Int32]:
        """Load the scales of the part as words of four bytes; 0 if there is no key.

        Sets `large` if a ue8m0 scale is above 1. If none is, ue8m0 scales are returned times 2^120. Sets `fast` if
        every fp32 scale of the warp's keys is 0 or a power of two up to 2^7.
        """
        layout = self.layout
        if layout.scale == "none":
            return [cutlass.select_(self.exists, Int32(UE8M0_ONES), Int32(0))]
        end = min(self.chunks.stop * CHUNK, layout.code_columns)
        count = (end // layout.scale_columns - self.first_scale) * layout.scale_size
        size = -(-count // WORD_BYTES) * WORD_BYTES
        width = min(size, VECTOR_BYTES)
        parts = [loaded(address + Int64(at), width // WORD_BYTES) for at in range(0, size, width)]
        words: list[Any] = [part[w] for part in parts for w in range(width // WORD_BYTES)]
        if self.packed:
            words, count = self.own_scales(words), len(self.chunks)
        if layout.scale == "ue8m0":
            bits = Int32(0)
            for w, word in enumerate(words):
                bits |= word & (TOP_BITS >> 8 * max(WORD_BYTES * (w + 1) - count, 0))
            self.large = self.exists & (bits != 0)
            words = [cutlass.select_(self.large, word, word + UE8M0_UNIT) for word in words]
        words = [cutlass.select_(self.exists, word, Int32(0)) for word in words]
        if layout.scale == "fp32":
            magnitudes = [word & 0x7FFFFFFF for word in words]
            powers = [(each & 0x7FFFFF == 0) & (each <= MAX_FAST) for each in magnitudes]
            self.fast = cute.arch.vote_all_sync(functools.reduce(operator.and_, powers))
        return words

    def own_scales(self, words: list[Any]) -> list[Int32]:
        """Return the scales of the lane's columns, one of each chunk, packed into words."""
        if self.layout.scale_columns == CHUNK // 2:
            selector = 0x6420 + self.unit // 2 * 0x1111
            return [selected(*words[w : w + 2], selector) for w in range(0, len(words), 2)]
        pairs = [selected(*words[w : w + 2], 0x40 + self.unit * 0x11) for w in range(0, len(words), 2)]
        return [selected(*pairs[w : w + 2], 0x5410) for w in range(0, len(pairs), 2)]

    def or_zeros(self, words: cute.Tensor) -> cute.Tensor:
        """Return the words, or zeros if the key does not exist."""
        for w in range(cute.size(words)):
            words[w] = cutlass.select_(self.exists, words[w], Int32(0))
        return words

    def columns(self, chunk: int) -> list[cute.Tensor]:
        """Return the lane's 16 columns of a chunk as two vectors of bf16."""
        if not self.is_coded(chunk):
            return self.others
        codes, factor = self.codes[chunk], self.factor(chunk)
        if self.layout.code == "e4m3" and self.finds_nan:
            for w in range(cute.size(codes)):
                self.marks[0] = marked(self.marks[0], codes[w])
        last = self.layout.code_columns // CHUNK // (1 if self.half is None else 2) - 1
        if chunk == last and self.finds_nan:
            nan = self.exists & (self.marks[0] & TOP_BITS != 0)
            factor = cutlass.select_(nan, Int32(NANS), factor)
        converted = scaled_e4m3 if self.layout.code == "e4m3" else scaled_e2m1
        vectors = [cute.make_rmem_tensor(WORDS, Int32) for _ in range(VECTORS)]
        found = [pair for w in range(cute.size(codes)) for pair in converted(codes[w], factor)]
        for n, pair in enumerate(found):
            vectors[n // WORDS][n % WORDS] = pair
        return vectors

    def rounded_columns(self, chunk: int) -> list[cute.Tensor]:
        """Return the lane's 16 columns of a chunk, multiplied by a scale in fp32, as two vectors of bf16."""
        scale = Int32(self.scales_at(self.place_of_scale(chunk)[0])).bitcast(Float32)
        words = cute.recast_tensor(rounded_products(self.codes[chunk], scale, self.exists), Int32)
        return [cute.logical_divide(words, cute.make_layout(WORDS))[None, j] for j in range(VECTORS)]

    def factor(self, chunk: int) -> Int32:
        """Return the factor of the lane's codes of a chunk, a pair of bf16: the scale, for e4m3 codes times 2^120."""
        if self.layout.scale == "e4m3":
            word, byte = self.place_of_scale(chunk)
            scale = permuted(self.scales_at(word), byte * 0x1111)
            if self.finds_nan:
                self.marks[0] = marked(self.marks[0], scale)
            return bf16_of_e4m3(scale)
        if self.layout.scale == "fp32":
            scale = self.scales_at(self.place_of_scale(chunk)[0])
            return permuted(cutlass.select_(scale == 0, scale, scale + FP32_UNIT), 0x3232)
        word, byte = self.place_of_scale(chunk)
        scales = self.scales_at(word)
        if self.layout.scale == "ue8m0":
            scales = cutlass.select_(self.large, Int32(UE8M0_ONES), scales)
        return normal_ue8m0(scales, 0x4040 + byte * 0x0101)

    def scales_at(self, word: int) -> Int32:
        """Return a word of the scales, in a loop of those of the half."""
        if self.half is None:
            return self.scales[word]
        return cutlass.select_(self.half == 0, *self.scales[word :: len(self.scales) // 2])

    def place_of_scale(self, chunk: int) -> tuple[int, Any]:
        """Return the numbers of the word, and of a byte in it, with the scale of the lane's codes of a chunk.

        Of fp32 the byte counts for nothing.
        """
        if self.packed:
            return divmod(chunk - self.chunks.start, WORD_BYTES)
        if self.layout.scale == "e4m3":
            return chunk - self.chunks.start, self.unit
        first = chunk * CHUNK // self.layout.scale_columns - self.first_scale
        second_half = self.layout.scale_columns < CHUNK
        return first * self.layout.scale_size // WORD_BYTES, first % WORD_BYTES + (
            self.unit // 2 if second_half else Int32(0)
        )


@cute.jit
def columns_of(keys: list[Key], chunk: int) -> list[list[cute.Tensor]]:
    """Return the lane's columns of a chunk of each key.

    Most fp32 scales have more bits than bf16. So unless all are powers of two, codes are multiplied in fp32 and rounded
    once.
    """
    if cutlass.const_expr(keys[0].layout.scale == "fp32" and keys[0].is_coded(chunk)):
        columns = [[cute.make_rmem_tensor(WORDS, Int32) for _ in range(VECTORS)] for _ in keys]
        if functools.reduce(operator.and_, (key.fast for key in keys)):
            copy_words(columns, [key.columns(chunk) for key in keys])
        else:
            copy_words(columns, [key.rounded_columns(chunk) for key in keys])
    else:
        columns = [key.columns(chunk) for key in keys]
        scale_large(keys, chunk, columns)
    return columns


@cute.jit
def scale_large(keys: list[Key], chunk: int, columns: list[list[cute.Tensor]]) -> None:
    """Multiply the columns of a chunk by their scales if those are not in the factors of their codes."""
    if cutlass.const_expr(keys[0].layout.scale == "ue8m0" and chunk * CHUNK < keys[0].layout.code_columns):
        large = keys[0].large
        for key in keys[1:]:
            large = large | key.large
        if large:
            for key, vectors in zip(keys, columns, strict=True):
                word, byte = key.place_of_scale(chunk)
                scale = bf16x2_of(permuted(key.scales_at(word), byte))
                scale = cutlass.select_(key.large, scale, Int32(ONES))
                for vector in vectors:
                    for w in cutlass.range_constexpr(WORDS):
                        vector[w] = product(vector[w], scale)


def copy_words(columns: list[list[cute.Tensor]], found: list[list[cute.Tensor]]) -> None:
    """Copy the vectors of each key in registers."""
    for vector, other in zip(itertools.chain(*columns), itertools.chain(*found), strict=True):
        vector.store(other.load())


def words_at(address: Any, count: int, space: cute.AddressSpace) -> cute.Tensor:
    """Return words of memory, aligned as their size."""
    return cute.make_tensor(
        cute.make_ptr(Int32, address, space, assumed_align=count * WORD_BYTES), cute.make_layout(count)
    )


def loaded(address: Any, count: int) -> cute.Tensor:
    """Load words of global memory."""
    words = cute.make_rmem_tensor(count, Int32)
    cute.autovec_copy(words_at(address, count, cute.AddressSpace.gmem), words)
    return words


@dsl_user_op
def prefetch_line(address: Int64, *, loc: Any = None, ip: Any = None) -> None:
    """Prefetch the line of a global address to L2."""
    word = Int64(address).ir_value(loc=loc, ip=ip)
    llvm.inline_asm(None, [word], "prefetch.global.L2 [$0];", "l", has_side_effects=True, loc=loc, ip=ip)


@dsl_user_op
def marked(marks: Int32, word: Int32, *, loc: Any = None, ip: Any = None) -> Int32:
    """Return `marks` with a top bit of a byte set if the word has a code of NaN, 0x7F or 0xFF.

    Adding one to each byte carries into the top bit only in such a byte, or in the byte above one.
    """
    code = "{ .reg .b32 t; mad.lo.u32 t, $2, 1, 0x01010101; lop3.b32 $0, $1, t, $2, 0xF6; }"
    return _words(code, 1, (marks, word), loc, ip)


@dsl_user_op
def product(pair: Int32, scale: Int32, *, loc: Any = None, ip: Any = None) -> Int32:
    """Return the products of two pairs of bf16."""
    return _words("mul.rn.bf16x2 $0, $1, $2;", 1, (pair, scale), loc, ip)


@dsl_user_op
def scaled_e4m3(word: Int32, factor: Int32, *, loc: Any = None, ip: Any = None) -> tuple[Int32, Int32]:
    """Convert the four e4m3 codes of a word to two pairs of bf16: their values over 2^120, times a pair of bf16.

    prmt widens a code to 16 bits by its sign. Shifted by four, its sign, exponent and mantissa are where bf16 has them.
    """
    half = "prmt.b32 p, $2, 0, {}; mul.lo.u32 p, p, 16; and.b32 p, p, 0x87F087F0; mul.rn.bf16x2 {}, p, $3; "
    code = "{ .reg .b32 p; " + half.format("0x9180", "$0") + half.format("0xB3A2", "$1") + "}"
    return _words(code, 2, (word, factor), loc, ip)


@dsl_user_op
def bf16_of_e4m3(word: Int32, *, loc: Any = None, ip: Any = None) -> Int32:
    """Convert the two lowest e4m3 codes of a word to a pair of bf16."""
    code = "prmt.b32 p, $1, 0, 0x9180; mul.lo.u32 p, p, 16; and.b32 p, p, 0x87F087F0; mul.rn.bf16x2 $0, p, $2;"
    return _words("{ .reg .b32 p; " + code + "}", 1, (word, Int32(E4M3_UNIT)), loc, ip)


@dsl_user_op
def scaled_e2m1(word: Int32, scale: Int32, *, loc: Any = None, ip: Any = None) -> tuple[Int32, ...]:
    """Convert the eight e2m1 codes of a word to four pairs of bf16, times a scale, a pair of bf16.

    Each half of a pair gets one code. A product moves one copy of it to the bits of bf16's exponent and
    mantissa, and another copy to the sign bit.
    """
    code = "{ .reg .b32 p, e, o, c; mov.b32 c, 0x7E807E80; and.b32 e, $4, 0x0F0F0F0F; "
    code += "mul.hi.u32 o, $4, 0x10000000; and.b32 o, o, 0x0F0F0F0F; "
    pair = "prmt.b32 p, e, o, 0x{3:X}{1:X}{2:X}{0:X}; mul.lo.u32 p, p, 0x1040; and.b32 p, p, 0x81C081C0; "
    pair += "mul.rn.bf16x2 p, p, c; mul.rn.bf16x2 ${0}, p, $5; "
    code += "".join(pair.format(n, n + 4, n + 8, n + 12) for n in range(4)) + "}"
    return _words(code, 4, (word, scale), loc, ip)


@dsl_user_op
def normal_ue8m0(word: Int32, selector: Any, *, loc: Any = None, ip: Any = None) -> Int32:
    """Return a pair of bf16 from the ue8m0 that a selector puts into the low byte of each half; neither is 0 or 255."""
    return _words("{ .reg .b32 p; prmt.b32 p, $1, 0, $2; mul.lo.u32 $0, p, 128; }", 1, (word, selector), loc, ip)


@dsl_user_op
def bf16x2_of(word: Int32, *, loc: Any = None, ip: Any = None) -> Int32:
    """Return the ue8m0 in the lowest byte as a pair of bf16, NaN for 255. sm_90 has no instruction for it."""
    code = "{ .reg .b32 b; .reg .pred p; and.b32 b, $1, 255; setp.eq.u32 p, b, 255; shl.b32 b, b, 7; "
    code += "max.u32 b, b, 0x40; selp.b32 b, 0x7FFF, b, p; mul.lo.u32 $0, b, 0x00010001; }"
    return _words(code, 1, (word,), loc, ip)


@dsl_user_op
def permuted(word: Int32, selector: Any, *, loc: Any = None, ip: Any = None) -> Int32:
    """Return the bytes of a word that a selector names, four bits each."""
    return _words("prmt.b32 $0, $1, 0, $2;", 1, (word, selector), loc, ip)


@dsl_user_op
def selected(word: Int32, other: Int32, selector: Any, *, loc: Any = None, ip: Any = None) -> Int32:
    """Return the bytes of two words that a selector names, four bits each."""
    return _words("prmt.b32 $0, $1, $2, $3;", 1, (word, other, selector), loc, ip)


def _words(code: str, results: int, operands: tuple[Int32, ...], loc: Any, ip: Any) -> Any:
    """Return the words that PTX computes from words."""
    types = [Int32.mlir_type] * results
    found = llvm.inline_asm(
        types[0] if results == 1 else llvm.StructType.get_literal(types),
        [Int32(each).ir_value(loc=loc, ip=ip) for each in operands],
        code,
        ",".join(["=r"] * results + ["r"] * len(operands)),
        has_side_effects=False,
        is_align_stack=False,
        asm_dialect=llvm.AsmDialect.AD_ATT,
    )
    if results == 1:
        return Int32(found)
    return tuple(Int32(llvm.extractvalue(Int32.mlir_type, found, [i], loc=loc, ip=ip)) for i in range(results))
