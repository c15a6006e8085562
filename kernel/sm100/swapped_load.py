"""The load role with operands swapped for quantised keys: warps convert by integers and products of bf16.

The bits of an e4m3, shifted to the places of bf16's, are its value over 2^120. Products of bf16 by that power and by a
scale of ue8m0 are exact unless the result is subnormal. One product does both, unless a scale of the lane is above 1:
2^120 times the scale might not be a bf16 then. The code of NaN is read as 480, so it is looked for, and gives a scale
of NaN to the last columns of its key.
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int8, Int32, Int64
from cutlass._mlir.dialects import llvm
from cutlass.cutlass_dsl import dsl_user_op
from cutlass.experimental import primitives

from kernel.config import Ring
from kernel.hardware import BF16_BYTES, SWIZZLE_BYTES, WARP, WARPGROUP
from kernel.layouts import CODE_BITS, QUANTISED
from kernel.memory import VALID_BYTES
from kernel.sm100.cta import LANE, VECTOR_BYTES, Cta
from kernel.sm100.dequantise import CODES, WORD_BYTES
from kernel.sm100.load import CacheWarp, wait_empty
from kernel.sm100.operands import CHUNK, slice_ring, tma_partition
from kernel.sm100.tiles import LoopInvariant

TURNS = 2  # groups of warps that take the KV tiles in turn
WORDS = VECTOR_BYTES // WORD_BYTES  # of a vector
KEYS = 8  # that a warp converts at a time: four lanes a key, each with 16 of a chunk's columns
LANES = 4
ONES = 0x3F803F80  # 1 in bf16, twice
E4M3_UNIT = 0x7B807B80  # 2^120 in bf16, twice
UE8M0_UNIT = 0x78787878  # added to four ue8m0 from 0 to 127, it multiplies them by 2^120
UE8M0_ONES = 0xF7F7F7F7  # 2^120 in ue8m0, four times
TOP_BITS = 0x80808080  # of four bytes; set in a ue8m0 above 1
NANS = 0x7FFF7FFF  # of bf16, twice
VECTORS = 2  # of a lane's 16 columns in bf16
ROWS = 32  # of Q that are permuted at a time: more need more registers than the queries warp has


class SwappedCacheWarp(CacheWarp):
    """A load warp that copies keys in bf16 with operands swapped."""

    @cute.jit
    def note_valid(self, places: list[Any], number: Int32) -> None:
        """Tell softmax, from the warp of the first slice, which keys of the CTA's KV tile `number` exist."""
        if self.warp == 0:
            for n, place in enumerate(places):
                exists = cutlass.select_(self.is_key(place), Int32(0x01010101), Int32(0))
                cute.recast_tensor(self.cta.smem.valid_keys(number), Int32)[n * WARP + cute.arch.lane_idx()] = exists


class FastWarp(CacheWarp):
    """One of the warps that convert quantised keys: it has some keys of every second KV tile, all of their columns.

    It waits for HBM once for a tile's keys, while the warps of the other group convert the tile before. A slice is
    published as soon as it is converted.
    """

    def __init__(self, cta: Cta, ring: Ring, warp: Any) -> None:
        """Bind warp `warp` of a ring to a row tile. The warps of a group follow each other."""
        super().__init__(cta, ring, warp)
        group = len(ring.warps) // TURNS
        self.turn = warp // group
        self.steps = ring.box[0] // group // KEYS
        self.first_key = warp % group * self.steps * KEYS + cute.arch.lane_idx() // LANES
        self.unit = cute.arch.lane_idx() % LANES  # of 16 columns in each chunk

    @cute.jit
    def run(self, tail_loads: Int32) -> Int32:
        """Convert this warp's keys of every second KV tile. Indices are read one of its tiles ahead.

        The turn goes by the tile's number among all that the CTA takes: a warp that was more than two tiles behind the
        phase of an mbarrier could not tell it from an earlier one.
        """
        kv = self.cta.kv_tiles
        number = self.cta.kv_done - kv.begin  # of KV tile 0 among all that the CTA takes
        first = kv.begin + (self.turn - self.cta.kv_done & TURNS - 1)
        indices = self.read_indices(first)
        for i in cutlass.range(first, kv.end, TURNS, unroll=1):
            entries, held = self.entries(i), [indices[step] for step in range(self.steps)]
            indices.store(self.read_indices(i + TURNS).load())
            layouts = [each.layout for each in self.cta.config.caches]
            if cutlass.const_expr(layouts[0] == layouts[-1]):
                self.convert(0, entries, held, number + i)
            else:
                if i < kv.boundary_tile:
                    self.convert(0, entries, held, number + i)
                else:
                    self.convert(1, entries, held, number + i)
        return tail_loads

    def entries(self, i: Int32) -> list[Int32]:
        """Return the numbers of the indices of tile `i` whose keys the lane converts."""
        return [i * self.cta.config.block_n + (self.first_key + step * KEYS) for step in range(self.steps)]

    def read_indices(self, i: Int32) -> cute.Tensor:
        """Load the indices of tile `i` whose keys the lane converts."""
        indices = cute.make_rmem_tensor(self.steps, Int32)
        for step, entry in enumerate(self.entries(i)):
            indices[step] = self.listed.index(entry)
        return indices

    @cute.jit
    def convert(self, cache: cutlass.Constexpr[int], entries: list[Int32], indices: list[Int32], number: Int32) -> None:
        """Convert this warp's keys of the CTA's KV tile `number`, those of `indices`, which are number `entries`.

        cache: number of the tile's cache, or of one with the same layout.
        """
        config, bars = self.cta.config, self.cta.bars
        # 1. Find the keys, and ask for all of their bytes.
        keys = [Key(self, cache, entry, index) for entry, index in zip(entries, indices, strict=True)]
        # 2. Convert slice after slice as they become free, and signal the MMA warp.
        per_slice = self.ring.box[1] // CHUNK
        for slice_ in cutlass.range_constexpr(config.slices):
            slot = wait_empty(self.cta, self.ring, slice_, number)
            self.wait_for_qk(slice_, number)
            first = self.slot(slot).iterator.toint() + self.first_column
            for c in cutlass.range_constexpr(per_slice):
                chunk = slice_ * per_slice + c
                columns = [key.columns(chunk) for key in keys]
                scale_large(keys, chunk, columns)
                for step in cutlass.range_constexpr(self.steps):
                    self.write(first, (c * self.ring.box[0] + step * KEYS) * SWIZZLE_BYTES, columns[step])
                self.write_tmem(slice_, c, columns, number)
            if cutlass.const_expr(slice_ == 0):
                self.note_valid(keys, number)
            cute.arch.fence_view_async_tmem_store()
            primitives.tcgen05_fence("before_thread_sync")
            cute.arch.fence_view_async_shared()
            bars.arrive_warp(self.ring.full, slot)

    def note_valid(self, keys: list[Key], number: Int32) -> None:
        """Tell softmax which of the lane's keys of the CTA's KV tile `number` exist."""
        for step in range(self.steps):
            at = (self.first_key + step * KEYS) * VALID_BYTES + self.unit
            self.cta.smem.valid_keys(number)[at] = Int8(keys[step].exists)

    def wait_for_qk(self, slice_: int, number: Int32) -> None:
        """Wait until QK has read what is in the columns of tensor memory for a slice of the CTA's KV tile `number`.

        That is a slice of the same tile, or of the last one but one. Of that, PV has released the slot in shared memory
        of this slice, because the ring holds two tiles, and PV was issued after QK.
        """
        config, bars = self.cta.config, self.cta.bars
        before = slice_ - config.tmem_slices
        if before >= 0:
            stage, phase = bars.stage_and_phase(number)
            bars.wait("a_empty", stage * config.late_slices + before, phase)
        else:
            primitives.tcgen05_fence("after_thread_sync")

    def write_tmem(self, slice_: int, c: int, columns: list[list[cute.Tensor]], number: Int32) -> None:
        """Write chunk `c` of a slice of the warp's keys of KV tile `number` into tensor memory as A of QK.

        A thread has two columns of K in every fourth column of tensor memory, so a chunk's are permuted, as Q's are.
        """
        words = cute.make_rmem_tensor(self.steps * VECTORS * WORDS, Int32)
        for step, vectors in enumerate(columns):
            for q in range(VECTORS * WORDS):
                words[q * self.steps + step] = vectors[q // WORDS][q % WORDS]
        stage, _ = self.cta.bars.stage_and_phase(number)
        first = self.cta.fragments.k_slice(stage, slice_) + cute.arch.warp_idx() % WARPGROUP * (WARP * LANE)
        target = cutlass.inttoptr((first + c * (CHUNK // 2)).toint(), mem_space=cute.AddressSpace.tmem, dtype=Int32)
        primitives.tcgen05_st("16x128b", target, cutlass.Vector(words.load().ir_value(), dtype=Int32))

    @property
    def first_column(self) -> Int32:
        """Bytes from a slot to the lane's first column of its first key. Its other vector is at that address ^ 16."""
        swizzled = VECTORS * self.unit ^ self.first_key % KEYS
        return self.first_key * SWIZZLE_BYTES + swizzled * VECTOR_BYTES

    def write(self, first: Int32, offset: int, vectors: list[cute.Tensor]) -> None:
        """Write the lane's 16 columns of a key, which are `offset` bytes behind those of its first key and chunk."""
        for j, vector in enumerate(vectors):
            address = (first ^ j * VECTOR_BYTES) + offset
            cute.autovec_copy(vector, words_at(address, WORDS, cute.AddressSpace.smem))


class Key(LoopInvariant):
    """A lane's part of a key in registers: its 16 codes of each chunk, the scales, and its 16 columns in bf16."""

    def __init__(self, warp: FastWarp, cache: int, entry: Int32, index: Int32) -> None:
        """Load the key of index number `entry`. If the index names none, load another, and scales of 0.

        cache: number of the key's cache, or of one with the same layout.
        """
        tiles = warp.cta.kv_tiles
        self.layout, self.unit = QUANTISED[warp.cta.config.caches[cache].layout], warp.unit
        layout = self.layout
        place, scales = tiles.address(entry, index), tiles.scale_address(entry, index, layout)
        self.exists = place != 0
        place, scales = (cutlass.select_(self.exists, each, tiles.caches[cache].base) for each in (place, scales))
        bits = CODE_BITS[layout.code]
        first, words = place + Int64(self.unit * (CODES * bits // 8)), CODES * bits // 8 // WORD_BYTES
        self.marks = Int32(0)
        self.codes = [loaded(first + Int64(c * bits // 8), words) for c in range(0, layout.code_columns, CHUNK)]
        first = place + Int64(layout.others_offset + self.unit * (CODES * BF16_BYTES))
        others = VECTORS if layout.code_columns < layout.columns else 0
        self.others = [self.or_zeros(loaded(first + Int64(j * VECTOR_BYTES), WORDS)) for j in range(others)]
        self.scales = self.loaded_scales(scales)

    def loaded_scales(self, address: Any) -> list[Int32]:
        """Load all scales as words of four bytes; 0 if there is no key.

        large: a scale of ue8m0 is above 1. Unless one is, those of ue8m0 are returned times 2^120.
        """
        layout = self.layout
        if layout.scale == "none":
            return [cutlass.select_(self.exists, Int32(UE8M0_ONES), Int32(0))]
        count = layout.code_columns // layout.scale_columns
        size = -(-count // 8) * 8
        width = min(size, VECTOR_BYTES)
        parts = [loaded(address + Int64(at), width // WORD_BYTES) for at in range(0, size, width)]
        words = [part[w] for part in parts for w in range(width // WORD_BYTES)]
        if layout.scale == "ue8m0":
            bits = Int32(0)
            for w, word in enumerate(words):
                bits |= word & (TOP_BITS >> 8 * max(WORD_BYTES * (w + 1) - count, 0))
            self.large = self.exists & (bits != 0)
            words = [cutlass.select_(self.large, word, word + UE8M0_UNIT) for word in words]
        return [cutlass.select_(self.exists, word, Int32(0)) for word in words]

    def or_zeros(self, words: cute.Tensor) -> cute.Tensor:
        """Return the words, or zeros if the key does not exist."""
        for w in range(cute.size(words)):
            words[w] = cutlass.select_(self.exists, words[w], Int32(0))
        return words

    def columns(self, chunk: int) -> list[cute.Tensor]:
        """Return the lane's 16 columns of a chunk as two vectors of bf16."""
        if chunk * CHUNK >= self.layout.code_columns:
            return self.others
        codes, factor = self.codes[chunk], self.factor(chunk)
        if self.layout.code == "e4m3":
            for w in range(cute.size(codes)):
                self.marks = marked(self.marks, codes[w])
        if (chunk + 1) * CHUNK == self.layout.code_columns:
            nan = self.exists & (self.marks & TOP_BITS != 0)
            factor = cutlass.select_(nan, Int32(NANS), factor)
        converted = scaled_e4m3 if self.layout.code == "e4m3" else scaled_e2m1
        vectors = [cute.make_rmem_tensor(WORDS, Int32) for _ in range(VECTORS)]
        found = [pair for w in range(cute.size(codes)) for pair in converted(codes[w], factor)]
        for n, pair in enumerate(found):
            vectors[n // WORDS][n % WORDS] = pair
        return vectors

    def factor(self, chunk: int) -> Int32:
        """Return the factor of the lane's codes of a chunk, a pair of bf16: the scale, for e4m3 codes times 2^120."""
        if self.layout.scale == "e4m3":
            scale = permuted(self.scales[chunk], self.unit * 0x1111)
            self.marks = marked(self.marks, scale)
            return scaled_e4m3(scale, Int32(E4M3_UNIT))[0]
        word, byte = self.place_of_scale(chunk)
        scales = self.scales[word]
        if self.layout.scale == "ue8m0":
            scales = cutlass.select_(self.large, Int32(UE8M0_ONES), scales)
        return normal_ue8m0(scales, 0x4040 + byte * 0x0101)

    def place_of_scale(self, chunk: int) -> tuple[int, Int32]:
        """Return the number of the word with the ue8m0 of the lane's codes of a chunk, and that of its byte there."""
        first = chunk * CHUNK // self.layout.scale_columns
        second_half = self.layout.scale_columns < CHUNK
        return first // WORD_BYTES, first % WORD_BYTES + (self.unit // 2 if second_half else Int32(0))


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
                scale = bf16x2_of(permuted(key.scales[word], byte * 0x11))
                scale = cutlass.select_(key.large, scale, Int32(ONES))
                for vector in vectors:
                    for w in cutlass.range_constexpr(WORDS):
                        vector[w] = product(vector[w], scale)


@cute.jit
def load_permuted_q(cta: Cta, q_loads: Int32) -> None:
    """Load Q of a row tile if it sees any key, with its columns permuted as those of K in tensor memory.

    q_loads: how often the CTA has loaded Q before. In a chunk of 32 pairs of columns, 8 u + q becomes 4 q + u.
    """
    config, bars = cta.config, cta.bars
    box = (config.tile_m, config.qk_dim)
    atom, rows = cta.copies.q
    if cta.kv_tiles.count > 0:
        # 1. Wait until the last QK of the row tile before has read Q, and load.
        bars.wait("q_empty", 0, (q_loads + 1) % 2)
        barrier = bars.expect("tail_full", 0, config.smem.q_bytes)
        whole = slice_ring(cta.smem.sQ, box, 1)[None, None, 0]
        tile = cute.local_tile(cute.domain_offset((cta.row_tile.row(0), 0, 0), rows), box, (0, 0, cta.row_tile.group))
        dst, src = tma_partition(atom, whole, tile)
        cute.copy(atom, src, dst, tma_bar_ptr=barrier)
        bars.wait("tail_full", 0, q_loads % 2)
        # 2. Permute, some vectors of each lane at a time: eight lanes have a chunk of a row.
        for chunk in cutlass.range(config.qk_dim // CHUNK, unroll=1):
            first = cta.smem.sQ.iterator.toint() + chunk * (config.tile_m * SWIZZLE_BYTES)
            permute_chunk(first, config.tile_m)
        # 3. Hand Q to the MMA warp.
        cute.arch.fence_view_async_shared()
        bars.arrive_warp("q_full", 0)


def permute_chunk(chunk: Int32, rows: int) -> None:
    """Permute the words of each row of a chunk in shared memory, 128 swizzled bytes: 8 u + q becomes 4 q + u."""
    lane = cute.arch.lane_idx()
    v = lane % KEYS  # vector of a row: its words are those of u = v // 2, and q from v % 2 * 4 on
    for begin in range(0, rows, ROWS):
        row_of = [first + lane // KEYS for first in range(begin, min(begin + ROWS, rows), WARP // KEYS)]
        vectors = [shared_words(chunk + row * SWIZZLE_BYTES + (v ^ row % KEYS) * VECTOR_BYTES) for row in row_of]
        cute.arch.sync_warp()
        for row, vector in zip(row_of, vectors, strict=True):
            for k in range(WORDS):
                to = (v % 2 * WORDS + k) ^ row % KEYS
                address = chunk + row * SWIZZLE_BYTES + to * VECTOR_BYTES + v // 2 * WORD_BYTES
                words_at(address, 1, cute.AddressSpace.smem)[0] = vector[k]
        cute.arch.sync_warp()


def shared_words(address: Int32) -> cute.Tensor:
    """Load 16 bytes of shared memory."""
    words = cute.make_rmem_tensor(WORDS, Int32)
    cute.autovec_copy(words_at(address, WORDS, cute.AddressSpace.smem), words)
    return words


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
def marked(marks: Int32, word: Int32, *, loc: Any = None, ip: Any = None) -> Int32:
    """Return marks with the top bit of a byte set if the word has a code of NaN, 0x7F or 0xFF.

    Adding one moves a carry into the top bit of such a byte alone, or of one above such a byte.
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
def scaled_e2m1(word: Int32, scale: Int32, *, loc: Any = None, ip: Any = None) -> tuple[Int32, ...]:
    """Convert the eight e2m1 codes of a word to four pairs of bf16, times a scale, a pair of bf16.

    Products of a byte move its two codes to the places of bf16's exponents and mantissas, and of its signs.
    """
    pair = "prmt.b32 b, $4, 0, 0x444{0}; mul.lo.u32 p, b, 0x00040040; mul.lo.u32 b, b, 0x01001000; "
    pair += "and.b32 p, p, 0x01C001C0; lop3.b32 p, b, 0x80008000, p, 0xEA; "
    pair += "mul.rn.bf16x2 p, p, c; mul.rn.bf16x2 ${0}, p, $5; "
    code = "{ .reg .b32 p, b, c; mov.b32 c, 0x7E807E80; " + "".join(pair.format(n) for n in range(4)) + "}"
    return _words(code, 4, (word, scale), loc, ip)


@dsl_user_op
def normal_ue8m0(word: Int32, selector: Any, *, loc: Any = None, ip: Any = None) -> Int32:
    """Return the pair of bf16 of the ue8m0 that a selector puts into the low byte of each half, neither 0 nor 255."""
    return _words("{ .reg .b32 p; prmt.b32 p, $1, 0, $2; mul.lo.u32 $0, p, 128; }", 1, (word, selector), loc, ip)


@dsl_user_op
def bf16x2_of(bytes_: Int32, *, loc: Any = None, ip: Any = None) -> Int32:
    """Return the two ue8m0 in the lowest bytes as a pair of bf16; NaN for 255."""
    code = "{ .reg .b16 a, b; mov.b32 {a, b}, $1; cvt.rn.bf16x2.ue8m0x2 $0, a; }"
    return _words(code, 1, (bytes_,), loc, ip)


@dsl_user_op
def permuted(word: Int32, selector: Any, *, loc: Any = None, ip: Any = None) -> Int32:
    """Return the bytes of a word that a selector names, four bits each."""
    return _words("prmt.b32 $0, $1, 0, $2;", 1, (word, selector), loc, ip)


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
