"""Operands of both products: tiled MMAs, their views of shared memory, and fragments."""

from __future__ import annotations

from typing import Any

import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int32, Int64
from cutlass._mlir import ir
from cutlass._mlir.dialects import llvm
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.cutlass_dsl import dsl_user_op
from cutlass.utils import hopper_helpers as sm90

from kernel.arguments import Arguments, Operands
from kernel.device.operands import CHUNK, Buffers, KeyLoads, box_layout, load_atom, slice_ring, view
from kernel.device.tiles import LoopInvariant
from kernel.hardware import BF16_BYTES
from kernel.sm90.config import HopperConfig

SMEM, REGISTERS = warpgroup.OperandSource.SMEM, warpgroup.OperandSource.RMEM


class Smem(Buffers):
    """The buffers of shared memory."""

    def __init__(self, config: HopperConfig) -> None:
        super().__init__(config)
        if config.variant.shares_rows:  # the exchange between consumers of the same rows: (row, warpgroup)
            exchange = cute.make_layout((config.tile_m, 2))
            self.sMax, self.sSum = (self.allocator.allocate_tensor(Float32, exchange, 16) for _ in range(2))
        if config.keeps_number:  # of each load warp
            self.sNumber = self.allocator.allocate_tensor(Int32, cute.make_layout(len(config.roles.load)), 16)
        self.allocate_operands(config)
        self.sP = self.bf16(config.smem.p_bytes) if config.smem.p_bytes else None
        self.sO = self.sP if config.smem.stages_o_in_p else self.bf16(config.smem.o_bytes)


class Fragments(LoopInvariant):
    """The descriptors of Q, K, V and P in shared memory, and the tiled MMAs that take them."""

    def __init__(self, config: HopperConfig, smem: Smem) -> None:
        self.config, self.smem = config, smem

    def qk(self, in_registers: bool = False) -> cute.TiledMma:
        """Return the MMA of S = Q K': 64 rows, the keys of a KV tile. in_registers: of Q, or if all of Q is."""
        source = REGISTERS if in_registers or self.config.keeps_q else SMEM
        return tiled_mma(OperandMajorMode.K, self.config.block_n, source)

    def pv(self, source: Any = REGISTERS) -> cute.TiledMma:
        """Return the MMA of O += P V: 64 rows, a warpgroup's columns or half of them."""
        return tiled_mma(OperandMajorMode.MN, self.config.pv_cols, source)

    def o(self) -> cute.Tensor:
        """Return the registers of O, in the order in which one wgmma of all of a warpgroup's columns has them."""
        config = self.config
        mma = tiled_mma(OperandMajorMode.MN, config.o_cols, REGISTERS).get_slice(0)
        return mma.make_fragment_C(mma.partition_shape_C((config.tile_m, config.o_cols)))

    def q(self, q_tile: Any) -> cute.Tensor:
        """Return the descriptors of a Q tile, one for each 16 dims."""
        thread = self.qk().get_slice(0)
        return thread.make_fragment_A(thread.partition_A(self.q_tile(q_tile)))

    def q_tile(self, number: Any) -> Any:
        """Return a Q tile without rotary columns, (row, (dim, chunk))."""
        box = self.config.tile_m, self.config.head_dim
        return slice_ring(self.smem.sQ, box, self.config.q_tiles)[None, None, number]

    def q_registers(self, columns: int) -> cute.Tensor:
        """Make a consumer thread's registers of so many columns of Q."""
        thread = self.qk(in_registers=True).get_slice(0)
        return thread.make_fragment_A(thread.partition_shape_A((self.config.tile_m, columns)))

    def load_q(self, q: cute.Tensor, tile: cute.Tensor, index: Any) -> None:
        """Load a consumer thread's part of columns of Q to registers. Then TMA may overwrite it."""
        atom = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(num_matrices=4), BFloat16)
        copy = cute.make_tiled_copy_A(atom, self.qk(in_registers=True)).get_slice(index)
        cute.copy(copy, copy.partition_S(tile), copy.retile(q))
        # An arrival overtakes ldmatrix in flight, measured on an H200 where loads of other warps miss the TLB.
        cute.arch.fence_view_async_shared()
        keep_before_fence(q)

    def k(self, slot: Any) -> cute.Tensor:
        """Return the descriptors of the KV tile in a slot of K's ring, one for each 16 dims."""
        tile = slice_ring(self.smem.sK, (self.config.block_n, self.config.head_dim), self.config.smem.depth)
        thread = self.qk().get_slice(0)
        return thread.make_fragment_B(thread.partition_B(tile[None, None, slot]))

    def q_rope(self) -> cute.Tensor:
        """Return the descriptors of the rotary columns of the only Q tile, which are behind the others."""
        box, columns = (self.config.tile_m, self.config.rope_dim), self.config.qk_dim // self.config.rope_dim
        thread = self.qk().get_slice(0)
        tile = slice_ring(self.smem.sQ, box, columns)[None, None, columns - 1]
        return thread.make_fragment_A(thread.partition_A(tile))

    def k_rope(self, number: Any) -> cute.Tensor:
        """Return the descriptors of the rotary columns of the CTA's KV tile `number`."""
        thread = self.qk().get_slice(0)
        return thread.make_fragment_B(thread.partition_B(self.rope_slot(number)))

    def rope_slot(self, number: Any) -> Any:
        """Return the slot of the rotary columns of the CTA's KV tile `number`, (key, (dim, chunk)).

        With two slots, those of odd tiles are in Q's buffer, where Q's rotary columns were. The ring is between both.
        """
        config, box = self.config, (self.config.block_n, self.config.rope_dim)
        if not config.keeps_rope:
            return slice_ring(self.smem.sRope, box, 1)[None, None, 0]
        of_q, of_ring = (columns // config.rope_dim for columns in (config.qk_dim, config.smem.depth * config.head_dim))
        boxes = slice_ring(self.smem.sQ, box, of_q + of_ring + 1)
        return boxes[None, None, of_q + of_ring - (number & 1) * (of_ring + 1)]

    def v(self, slot: Any, part: Any = 0) -> cute.Tensor:
        """Return the descriptors of the KV tile in a slot of V's ring, one for each 16 keys.

        part: the number of a block of o_cols columns.
        """
        config, swizzle = self.config, box_layout((self.config.block_n, CHUNK)).inner
        chunk, chunks, parts = CHUNK * config.block_n, config.o_cols // CHUNK, config.head_dim // config.o_cols
        shape = ((CHUNK, chunks), config.block_n, parts, config.smem.depth)
        stride = ((1, chunk), CHUNK, chunk * chunks, chunk * chunks * parts)
        tile = cute.make_tensor(
            cute.recast_ptr(self.smem.sV.iterator, swizzle, BFloat16), cute.make_layout(shape, stride=stride)
        )
        thread = self.pv().get_slice(0)
        return thread.make_fragment_B(thread.partition_B(tile[None, None, part, slot]))

    def p_rows(self, of_warpgroup: Any) -> cute.Tensor:
        """Return P of a warpgroup in shared memory, (row, key)."""
        tile = slice_ring(self.smem.sP, (self.config.tile_m, CHUNK), 2)[None, None, of_warpgroup]
        return cute.local_tile(tile, (self.config.tile_m, self.config.block_n), (0, 0))

    def p(self, of_warpgroup: Any) -> cute.Tensor:
        """Return the descriptors of P of a warpgroup, one for each 16 keys."""
        thread = self.pv(SMEM).get_slice(0)
        return thread.make_fragment_A(thread.partition_A(self.p_rows(of_warpgroup)))


def multicast_keys(config: HopperConfig, tensors: Operands) -> KeyLoads:
    """Build the TMA loads of a part of each slice of K and V, which go to all CTAs of the cluster.

    v_local is the load of a whole slice for one CTA, which clears keys before use.
    """
    box, op = config.loaded_part, cpasync.CopyBulkTensorTileG2SMulticastOp()
    keys = [view(each, config.head_dim) for each in (tensors.k, tensors.v)[: 1 + config.loads_v]]
    loads = [cpasync.make_tiled_tma_atom(op, each, box_layout(box), box) for each in keys]
    local = None if config.mask == "none" else load_atom(config, keys[-1], config.v_slice)
    return KeyLoads(loads[0], loads[1] if config.loads_v else None, local)


def page_keys(config: HopperConfig, args: Arguments) -> KeyLoads:
    """Build the TMA loads of a slice of K and of the rotary columns, from pages as (key, dim, page)."""
    pages = args.main
    row, page = (cute.assume(each // BF16_BYTES, divby=8) for each in (Int64(args.main_row), pages.stride[0]))
    layout = cute.make_layout((args.main_page, config.qk_dim, pages.shape[0]), stride=(row, 1, page))
    keys = cute.make_tensor(cute.recast_ptr(pages.iterator, dtype=BFloat16), layout)
    rope = load_atom(config, keys, config.rope_ring.box) if config.rope_dim else None
    return KeyLoads(load_atom(config, keys, config.k_slice), rope=rope)


def tiled_mma(b_major: OperandMajorMode, n: int, source: Any) -> cute.TiledMma:
    k_major, tile = OperandMajorMode.K, (64, n)
    return sm90.make_trivial_tiled_mma(BFloat16, BFloat16, k_major, b_major, Float32, (1, 1, 1), tile, source)


def gemm(
    mma: cute.TiledMma, acc: cute.Tensor, a: cute.Tensor, b: cute.Tensor, steps: range, clear: bool = False
) -> None:
    """Issue acc (+)= a b, one instruction per step; clear: the first one overwrites acc."""
    for k in steps:
        mma.set(warpgroup.Field.ACCUMULATE, not (clear and k == steps.start))
        cute.gemm(mma, acc, a[None, None, k], b[None, None, k], acc)


def keep_before_fence(fragment: cute.Tensor) -> None:
    """Keep the compiler from moving the writes of a fragment past the wgmma.fence that follows.

    The fence names no registers: without this, conversions of P sink to the product that reads them.
    """
    words = cute.recast_tensor(fragment, Int32)
    words = cute.make_tensor(words.iterator, cute.make_layout(cute.size(words)))
    for j, word in enumerate(opaque(*(words[j] for j in range(cute.size(words))))):
        words[j] = word


@dsl_user_op
def opaque(*values: Int32, loc: Any = None, ip: Any = None) -> list[Int32]:
    """Return the same values, opaque to the compiler, so that it cannot hoist their uses above this point."""
    count = len(values)
    constraints = ",".join(["=r"] * count + [str(j) for j in range(count)])
    words = [Int32(value).ir_value(loc=loc, ip=ip) for value in values]
    if count == 1:
        one = llvm.inline_asm(Int32.mlir_type, words, "", constraints, has_side_effects=True, loc=loc, ip=ip)
        return [Int32(one)]
    of_all = ir.Type.parse(f"!llvm.struct<({', '.join(['i32'] * count)})>")
    same = llvm.inline_asm(of_all, words, "", constraints, has_side_effects=True, loc=loc, ip=ip)
    return [Int32(llvm.extractvalue(Int32.mlir_type, same, [j], loc=loc, ip=ip)) for j in range(count)]


def anew(value: Any) -> Int32:
    """Return a number such that what follows from it is computed where it is used, and not kept in registers."""
    return opaque(Int32(value))[0]
