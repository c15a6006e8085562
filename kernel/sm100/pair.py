"""One MMA of two CTAs, 64 rows each: the warps that load its keys, and the mma warp of the pair's first CTA.

Of a tile's 128 keys a CTA holds K of 64, and of V half of the columns of all: what the MMA takes from either. K comes
in quarters of its columns, V in quarters of its keys; a warp waits for each, and gives it back, by itself. A CTA takes
row tile after row tile: the loads of the next begin while the last products and the epilogue of one are under way.
"""

# CuTeDSL's operations take and give traced values and static ones alike, which its annotations cannot say.
# mypy: disable-error-code="index, arg-type, misc, attr-defined, operator, union-attr, assignment"

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Int32, const_expr
from cutlass.cute.nvgpu import cpasync

from kernel.config import BF16_BYTES, UNITS, WARP, among
from kernel.sm100.cta import Cta, RowTiles
from kernel.sm100.epilogue import Epilogue
from kernel.sm100.load import clear_keys
from kernel.sm100.mma import gemm
from kernel.sm100.operands import GATHER, PairLoads, Stores, unit_layout
from kernel.sm100.softmax import RowThread, RunningSoftmax, SoftmaxWarps
from kernel.sm100.tiles import KvTiles, TopkTiles
from kernel.sm100.traced import Fixed, larger

REGISTERS = 200, 104  # of a softmax thread and of another: 128 each before four warpgroups share them out


@dataclass
class Pair(Fixed):
    """A CTA of a pair, role by role: one row tile after another, as many apart as the grid has CTAs."""

    tiles: RowTiles
    loads: PairLoads
    stores: Stores

    @cute.jit
    def run(self, warp: Any) -> None:
        roles = self.tiles.config.roles
        if roles.is_softmax(warp):
            cute.arch.setmaxregister_increase(REGISTERS[0])
            self.softmax()
        else:
            cute.arch.setmaxregister_decrease(REGISTERS[1])
            if among(roles.load, warp):
                self.load(False, warp - roles.load[0])
            if among(roles.values, warp):
                self.load(True, warp - roles.values[0])
            if warp == roles.mma[0] and cute.arch.block_idx_in_cluster() == self.tiles.config.leader:
                self.mma()

    @property
    def numbers(self) -> tuple[Any, Any, Any]:
        """Of the CTA's row tiles: first, past the last, and step."""
        return cute.arch.block_idx()[0], self.tiles.count, cute.arch.grid_dim()[0]

    @cute.jit
    def load(self, of_v: cutlass.Constexpr[bool], warp: Any) -> None:
        turn, tails, row_tiles = Int32(0), Int32(0), Int32(0)
        first, end, step = self.numbers
        for number in cutlass.range(first, end, step, unroll=1):
            cta = self.tiles.at(number, turn)
            load = PairLoad(cta, self.loads, of_v, warp)
            if const_expr(not of_v):
                load.load_q(row_tiles)
            tails = load.run(tails)
            turn, row_tiles = turn + cta.kv_tiles.count, row_tiles + 1
        self.tiles.bars.wait("v_empty" if of_v else "k_empty", warp, (turn + 1) % 2)
        if const_expr(not of_v):
            self.drain_q(warp, row_tiles)

    @cute.jit
    def drain_q(self, warp: Any, row_tiles: Int32) -> None:
        """Stay, as for every unit, until the first CTA's mma warp has told this CTA that the last Q was read."""
        if warp == 0:
            self.tiles.bars.wait("q_empty", 0, (row_tiles + 1) % 2)

    @cute.jit
    def mma(self) -> None:
        turn, row_tiles = Int32(0), Int32(0)
        first, end, step = self.numbers
        for number in cutlass.range(first, end, step, unroll=1):
            cta = self.tiles.at(number, turn)
            PairMma(cta, row_tiles).run()
            turn, row_tiles = turn + cta.kv_tiles.count, row_tiles + 1

    @cute.jit
    def softmax(self) -> None:
        config, smem, args = self.tiles.config, self.tiles.smem, self.tiles.args
        thread = RowThread.of(self.tiles.fragments, config)
        turn = Int32(0)
        first, end, step = self.numbers
        for number in cutlass.range(first, end, step, unroll=1):
            cta = self.tiles.at(number, turn)
            running = RunningSoftmax.start(args.scale_log2, config.threads_per_row, thread.index, smem.sMax)
            SoftmaxWarps(cta, thread, running).run()
            Epilogue(cta, thread, running, self.stores, args).run()
            running.meet()  # the sums were read before the next row tile's turns begin
            turn += cta.kv_tiles.count


@dataclass
class PairLoad(Fixed):
    """The UNITS warps that load K, or V: each a unit of a tile, or a quarter of every unit's listed keys."""

    cta: Cta
    atoms: PairLoads
    of_v: bool
    warp: Any  # among the UNITS

    @property
    def unit(self) -> tuple[int, int]:
        """Keys and columns."""
        return self.cta.config.v_unit if self.of_v else self.cta.config.k_unit

    def barrier(self, what: str) -> str:
        return f"{'v' if self.of_v else 'k'}_{what}"

    @cute.jit
    def run(self, tails: Int32) -> Int32:
        """All KV tiles of the row tile. tails: how often the warp waited for keys to clear; so often by then."""
        config, kv, atoms = self.cta.config, self.cta.kv_tiles, self.atoms
        window = (atoms.v, atoms.tail) if self.of_v else (atoms.k, None)
        compressed = (atoms.compressed_v, atoms.compressed_tail) if self.of_v else (atoms.compressed_k, None)
        for i in cutlass.range(kv.window.count, unroll=1):
            tails = self.load_unit(kv.window, *window, i, i, tails)
        if const_expr(config.compressed == "blocks"):
            for i in cutlass.range(kv.compressed.count, unroll=1):
                tails = self.load_unit(kv.compressed, *compressed, i, kv.window.count + i, tails)
        if const_expr(config.compressed == "topk"):
            for i in cutlass.range(kv.compressed.count, unroll=1):
                self.gather(kv.compressed, compressed[0], i, kv.window.count + i)
        return tails

    @cute.jit
    def load_q(self, row_tiles: Int32) -> None:
        """Q of the CTA's next row tile, after so many before it, by the first of the warps."""
        config, bars, row_tile = self.cta.config, self.cta.bars, self.cta.row_tile
        atom, mQ = self.atoms.q
        unit = (config.block_m, config.head_dim)
        gQ = cute.local_tile(mQ, unit, (row_tile.index, 0, row_tile.group))
        if self.warp == 0:
            bars.wait("q_empty", 0, (row_tiles + 1) % 2)
            barrier = bars.expect("q_full", 0, config.q_bytes, config.leader)
            self.copy(atom, gQ, self.units(self.cta.smem.sQ, unit, unit[0])[None, None, 0, 0], barrier)

    @cute.jit
    def load_unit(
        self, tiles: KvTiles, tma: cpasync.TmaInfo, tail: cpasync.TmaInfo | None, i: Int32, turn: Int32, tails: Int32
    ) -> Int32:
        """This warp's unit of tile `i`, the row tile's turn-th; of V without what lies past the length."""
        rank = cute.arch.block_idx_in_cluster()
        part, columns = (self.warp, rank) if self.of_v else (rank, self.warp)
        first = tiles.start(i) + self.unit[0] * part
        self.wait_empty(self.warp, turn)
        if const_expr(not self.of_v or not tiles.seen.may_poison):
            self.load_whole(tma, first, columns)
        else:
            if first + self.unit[0] <= tiles.seen.length:
                self.load_whole(tma, first, columns)
            else:
                self.load_tail(tail, first, columns, tails, larger(tiles.seen.length - first, 0))
                tails += 1
        return tails

    def wait_empty(self, unit: Any, turn: Int32) -> None:
        self.cta.bars.wait(self.barrier("empty"), unit, (self.cta.turn + turn + 1) % 2)

    @cute.jit
    def load_whole(self, tma: cpasync.TmaInfo, first: Int32, columns: Int32) -> None:
        barrier = self.cta.bars.expect(self.barrier("full"), self.warp, self.bytes, self.cta.config.leader)
        self.copy_unit(tma, first, columns, barrier)

    @cute.jit
    def load_tail(self, tma: cpasync.TmaInfo, first: Int32, columns: Int32, tails: Int32, poisoned: Int32) -> None:
        """V with zeros from key `poisoned` on: a masked P is 0, but 0 * NaN is NaN. Only the last tile has such."""
        bars = self.cta.bars
        self.copy_unit(tma, first, columns, bars.expect("tail_full", self.warp, self.bytes))
        bars.wait("tail_full", self.warp, tails % 2)
        clear_keys(self.cta.smem.sV, self.unit, UNITS, self.warp, poisoned)
        cute.arch.fence_view_async_shared()
        bars.arrive_warp(self.barrier("full"), self.warp, self.cta.config.leader)

    @property
    def bytes(self) -> int:
        return math.prod(self.unit) * BF16_BYTES

    def copy_unit(self, tma: cpasync.TmaInfo, first: Int32, columns: Int32, barrier: cute.Pointer) -> None:
        """Start the load of a unit whose first key is `first`."""
        atom, keys = tma
        keys = cute.domain_offset((first, 0, 0), keys)
        g = cute.local_tile(keys, self.unit, (0, columns, self.cta.row_tile.sequence))
        self.copy(atom, g, self.ring(self.unit[0])[None, None, 0, self.warp], barrier)

    def copy(self, atom: cute.CopyAtom, src: Any, dst: cute.Tensor, barrier: cute.Pointer) -> None:
        dst, src = cute.group_modes(dst, 0, 2), cute.group_modes(src, 0, 2)
        dst, src = cpasync.tma_partition(atom, 0, cute.make_layout(1), dst, src)
        cute.copy(atom, src, dst, tma_bar_ptr=barrier)

    @cute.jit
    def gather(self, topk: TopkTiles, gather: cpasync.TmaInfo, i: Int32, turn: Int32) -> None:
        """This warp's share of every unit of the list's tile `i`. A lane has a key's number; -1 brings zeros."""
        config, bars, unit, of_v = self.cta.config, self.cta.bars, self.unit, self.of_v
        atom, mC = gather
        rank, lane = cute.arch.block_idx_in_cluster(), cute.arch.lane_idx()
        share = unit[0] // UNITS  # keys of a unit that this warp brings
        own = share * self.warp + lane % share + (lane // share * unit[0] if of_v else unit[0] * rank)
        number = topk.key(i * config.block_n + own)
        gC = cute.group_modes(cute.local_tile(mC, (GATHER, unit[1]), (0, None)), 0, 2)
        boxes = share // GATHER
        for c in cutlass.range_constexpr(UNITS):
            self.wait_empty(c, turn)
            barrier = bars.at(self.barrier("full"), c)
            if self.warp == c:
                bars.expect(self.barrier("full"), c, self.bytes, config.leader)
            for j in cutlass.range_constexpr(boxes):
                rows = cute.make_rmem_tensor(GATHER, Int32)
                for n in cutlass.range_constexpr(GATHER):
                    source = (share * c if of_v else 0) + GATHER * j + n
                    rows[n] = cute.arch.shuffle_sync(number, source % WARP)
                rows = cute.make_tensor(rows.iterator, cute.make_layout(((GATHER, unit[1]), 1), stride=((1, 0), 0)))
                dst = cute.group_modes(self.ring(GATHER)[None, None, boxes * self.warp + j, c], 0, 2)
                dst, src, by = cpasync.tma_partition(atom, 0, cute.make_layout(1), dst, [gC, rows])
                cute.copy(atom, [src[None, rank if of_v else c], by[None, 0]], dst, tma_bar_ptr=barrier)

    def ring(self, rows: int) -> cute.Tensor:
        """The units of K or V as boxes of so many keys: (key, (column, chunk), box, unit)."""
        return self.units(self.cta.smem.sV if self.of_v else self.cta.smem.sK, self.unit, rows)

    def units(self, buffer: cute.Tensor, unit: tuple[int, int], rows: int) -> cute.Tensor:
        box = unit_layout(unit, rows)
        boxes = cute.make_layout((unit[0] // rows, UNITS), stride=(rows * box.outer.stride[0], math.prod(unit)))
        shape, stride = (*box.outer.shape, *boxes.shape), (*box.outer.stride, *boxes.stride)
        return cute.make_tensor(
            cute.recast_ptr(buffer.iterator, box.inner, BFloat16), cute.make_layout(shape, stride=stride)
        )


@dataclass
class PairMma(Fixed):
    """The mma warp of a pair's first CTA: S[i+1] = Q K[i+1]' ahead of O += P[i] V[i], for the rows of both."""

    cta: Cta
    row_tiles: Any  # that the pair had before

    @cute.jit
    def run(self) -> None:
        bars, count = self.cta.bars, self.cta.kv_tiles.count
        bars.wait("q_full", 0, self.row_tiles % 2)
        for i in cutlass.range(count, unroll=1):
            self.mma_qk(i)
            if i == count - 1:
                bars.commit_to_pair("q_empty", 0)
            if i > 0:
                self.mma_pv(i - 1)
        if count > 0:
            self.mma_pv(count - 1)
        else:
            bars.commit_to_pair("q_empty", 0)
            self.wait_tmem_free()

    def wait_tmem_free(self) -> None:
        """O of the row tile before was read."""
        self.cta.bars.wait("tmem_free", 0, (self.row_tiles + 1) % 2)

    @cute.jit
    def mma_qk(self, i: Int32) -> None:
        """S[i] = Q K[i]', unit after unit of the head dim."""
        config, bars, fragments = self.cta.config, self.cta.bars, self.cta.fragments
        stage, _ = bars.stage_and_phase(self.cta.turn + i)
        tStS = cute.make_tensor(fragments.tStS.iterator + stage * config.s_cols, fragments.tStS.layout)
        for c in cutlass.range_constexpr(UNITS):
            bars.wait("k_full", c, (self.cta.turn + i) % 2)
            tSrK = fragments.tSrK[None, 0, None, c]
            steps = cute.size(tSrK, mode=[1])
            gemm(fragments.mmas.qk, tStS, fragments.tSrQ[None, 0, None, 0], tSrK, range(steps), c > 0, c * steps)
            bars.commit_to_pair("k_empty", c)
        bars.commit_to_pair("s_full", stage)

    @cute.jit
    def mma_pv(self, i: Int32) -> None:
        """O += P[i] V[i], unit after unit of the keys; the first overwrites."""
        config, bars, fragments = self.cta.config, self.cta.bars, self.cta.fragments
        stage, phase = bars.stage_and_phase(self.cta.turn + i)
        bars.wait("p_full", stage, phase)
        if i == 0:
            self.wait_tmem_free()
        for c in cutlass.range_constexpr(UNITS):
            bars.wait("v_full", c, (self.cta.turn + i) % 2)
            for part in cutlass.range_constexpr(cute.size(fragments.tOrV, mode=[1])):
                place = part * config.o_cols // cute.size(fragments.tOrV, mode=[1])
                tOtO = cute.make_tensor(fragments.tOtO.iterator + place, fragments.tOtO.layout)
                tOrV = fragments.tOrV[None, part, None, c]
                steps, accumulate = cute.size(tOrV, mode=[1]), True if c > 0 else i > 0
                gemm(fragments.mmas.pv, tOtO, fragments.tOrP[None, 0, None], tOrV, range(steps), accumulate, c * steps)
            bars.commit_to_pair("v_empty", c)
        bars.commit_to_pair("o_done", stage)
