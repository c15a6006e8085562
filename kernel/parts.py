"""What the kernel's roles share: mbarriers by name, operands of the products, a thread's row and running softmax."""

# CuTeDSL's operations take and give traced values and static ones alike, which its annotations cannot say.
# mypy: disable-error-code="index, arg-type, misc, attr-defined, operator, union-attr, assignment"

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int16
from cutlass.cute.nvgpu import tcgen05

from kernel.config import S_STAGES, FmhaConfig
from kernel.tiles import Fixed

LOG2E = math.log2(math.e)
PART_LANES = 16  # with 64 rows, the second half of O's columns lies this many lanes further
LOAD_COLS = 32  # columns a thread takes from tensor memory at once
EVERY_CTA = 0b11  # of a cluster of two


def stage_and_phase(i: Any) -> tuple[Any, Any]:
    """Stage and mbarrier phase of tile `i` in a ring of two."""
    return i % S_STAGES, (i // S_STAGES) % 2


@dataclass
class Barriers(Fixed):
    """Addresses of the mbarriers by name, in the order of FmhaConfig.barriers."""

    config: FmhaConfig
    base: cute.Pointer

    def at(self, name: str, stage: Any = 0) -> cute.Pointer:
        return self.base + (self.config.barrier_offset(name) + stage)

    def init(self) -> None:
        """Set every arrival count; one thread calls this."""
        for barrier in self.config.barriers:
            for stage in range(barrier.stages):
                cute.arch.mbarrier_init(self.at(barrier.name, stage), barrier.arrivals)

    def wait(self, name: str, stage: Any, phase: Any) -> None:
        cute.arch.mbarrier_wait(self.at(name, stage), phase)

    def arrive_warp(self, name: str, stage: Any) -> None:
        """One arrival for the warp, after all of its lanes came here."""
        cute.arch.sync_warp()
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive(self.at(name, stage))

    def expect(self, name: str, stage: Any, tx_bytes: int) -> cute.Pointer:
        """Arrive for a load of `tx_bytes`; the barrier that the load has to signal."""
        barrier = self.at(name, stage)
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(barrier, tx_bytes)
        return barrier

    def commit(self, name: str, stage: Any) -> None:
        """Arrive once all tensor-core work issued so far has completed."""
        with cute.arch.elect_one():
            tcgen05.commit(self.at(name, stage))

    def commit_to_cluster(self, name: str, stage: Any) -> None:
        """The same, in every CTA of the cluster."""
        mask = None if self.config.cluster == 1 else Int16(EVERY_CTA)
        with cute.arch.elect_one():
            tcgen05.commit(self.at(name, stage), mask)


@dataclass
class Softmax(Fixed):
    """Running statistics of a thread's row: maximum (raw logits) and sum of exponentials over its keys."""

    scale_log2: Float32
    row_threads: int
    stats: cute.Tensor  # registers: the maximum, and the sum over even and over odd keys

    @staticmethod
    def start(scale_log2: Float32, row_threads: int) -> Softmax:
        stats = cute.make_rmem_tensor((3,), Float32)
        stats[0] = -Float32.inf
        stats[1] = Float32(0.0)
        stats[2] = Float32(0.0)
        return Softmax(scale_log2, row_threads, stats)

    @property
    def row_max(self) -> Any:
        return self.stats[0]

    def row_sum(self) -> Any:
        """Over all keys of the row: every thread that shares it calls this."""
        return self.over_row(self.stats[1] + self.stats[2], lambda x, y: x + y)

    def over_row(self, value: Any, combine: Callable) -> Any:
        """`value` combined with that of the thread that shares the row, PART_LANES away."""
        if self.row_threads == 1:
            return value
        return combine(value, cute.arch.shuffle_sync_bfly(value, PART_LANES))

    def finite_max(self) -> Float32:
        """The maximum, or 0 where nothing was visible yet: an exponent that is never inf - inf."""
        return cutlass.select_(self.row_max == -Float32.inf, Float32(0.0), self.row_max)

    def weight(self, sink: Float32) -> Float32:
        """What a logit that is not scaled adds to the sum: 0 for -inf, infinity for +inf and for one that drowns it."""
        shift = -self.finite_max() * self.scale_log2
        log2, _ = cute.arch.fma_packed_f32x2((sink, sink), (Float32(LOG2E), Float32(LOG2E)), (shift, shift))
        return cute.math.exp2(log2, fastmath=True)

    def tile_max(self, s: cute.Tensor) -> Float32:
        """Maximum over a tile's logits, in four chains so that the adds of one hide those of another."""
        chains = [self.row_max] * 4
        for j in range(0, cute.size(s), 4):
            for c in range(4):
                chains[c] = cute.arch.fmax(chains[c], s[j + c])
        top = cute.arch.fmax(cute.arch.fmax(chains[0], chains[1]), cute.arch.fmax(chains[2], chains[3]))
        return self.over_row(top, cute.arch.fmax)

    def move_to(self, new_max: Float32) -> Float32:
        """Take `new_max` as the reference; the factor by which sums and O shrink."""
        old = self.row_max
        self.stats[0] = new_max
        factor = cute.math.exp2((old - self.finite_max()) * self.scale_log2, fastmath=True)
        self.stats[1] *= factor
        self.stats[2] *= factor
        return factor

    def exponentiate(self, s: cute.Tensor) -> None:
        """s becomes exp2(scale_log2 * (s - row_max)) in place; the sum is carried on."""
        scale = (self.scale_log2, self.scale_log2)
        shift = -self.finite_max() * self.scale_log2
        total = (self.stats[1], self.stats[2])
        for j in range(0, cute.size(s), 2):
            x = cute.arch.fma_packed_f32x2((s[j], s[j + 1]), scale, (shift, shift))
            s[j] = cute.math.exp2(x[0], fastmath=True)
            s[j + 1] = cute.math.exp2(x[1], fastmath=True)
            total = cute.arch.add_packed_f32x2(total, (s[j], s[j + 1]))
        self.stats[1] = total[0]
        self.stats[2] = total[1]


@dataclass
class Mma(Fixed):
    """The two products: tiled MMAs, operands in shared or tensor memory, accumulators in tensor memory."""

    qk: cute.TiledMma
    pv: cute.TiledMma
    tSrQ: cute.Tensor  # descriptors of Q (MMA, M, K, 1)
    tSrK: cute.Tensor  # descriptors of K (MMA, N, K, stage)
    tOrP: cute.Tensor  # P of stage 0: descriptors, or tensor-memory columns (MMA, M, K)
    tOrV: cute.Tensor  # descriptors of V (MMA, N, K, stage)
    tStS: cute.Tensor  # logits of stage 0
    tOtO: cute.Tensor  # output


@dataclass
class Row(Fixed):
    """A softmax thread's row and how it reads the logits of it from tensor memory."""

    load: cute.ThrCopy
    tLtS: cute.Tensor  # the thread's logits of stage 0 in tensor memory
    tLcS: cute.Tensor  # their (row, key) within the tile
    row: Any
    part: Any  # which of the row's threads this is

    @staticmethod
    def of_thread(mma: Mma, config: FmhaConfig) -> Row:
        """The tensor-memory load decides who owns what: row and keys come from its own coordinates."""
        repeat = tcgen05.Repetition(LOAD_COLS)
        shape = tcgen05.Ld32x32bOp(repeat) if config.row_threads == 1 else tcgen05.Ld16x32bx2Op(repeat)
        load = tcgen05.make_tmem_copy(cute.make_copy_atom(shape, Float32), mma.tStS)
        load = load.get_slice(cute.arch.thread_idx()[0])
        coords = mma.qk.get_slice(0).partition_C(cute.make_identity_tensor((config.block_m, config.block_n)))
        tLcS = load.partition_D(coords)
        row, key = tLcS[0]
        return Row(load, load.partition_S(mma.tStS), tLcS, row, key // (config.block_n // config.row_threads))
