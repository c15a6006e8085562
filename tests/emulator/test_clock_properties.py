"""Laws of the clock, asked of generated kernels: small random pipelines of loads, MMAs and warps that read the results.

A kernel's loading warp fills a ring of stages by TMA. Its MMA warp multiplies them into one or two accumulators. Four
consumer warps read each accumulator from tensor memory, compute on it and store to shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pytest
from test_clock_laws import FASTER
from test_cp_async_bulk_tensor import tensor_map

from emulator import emulate, launch
from emulator.clock.chips import Chip, chip
from emulator.clock.conditions import Conditions
from emulator.clock.prediction import Prediction
from lab import clock as bench

B200 = chip("b200")
GROUPS = 12
"""Accumulators of a short run."""
THREADS = 256
FEW = range(6)
MANY = [pytest.param(seed, marks=pytest.mark.thorough) for seed in range(6, 30)]


@dataclass(frozen=True)
class Pipeline:
    """A generated kernel.

    box: columns of fp32 and rows of the two boxes of a stage. steps: stages of an accumulator. mmas: of a stage, with
    m rows and n columns. work: of a consumer per accumulator: values loaded, ex2 and FMAs on each, and stores to shared
    memory with this distance in bytes between lanes. ctas: those that share an SM's memory.
    """

    box: tuple[int, int]
    stages: int
    steps: int
    accumulators: int
    mmas: int
    m: int
    n: int
    values: int
    exponentials: int
    products: int
    stores: int
    stride: int
    ctas: int

    @classmethod
    def drawn(cls, seed: int) -> Pipeline:
        """Draw a kernel."""
        draw = Random(seed)
        return cls(
            box=(draw.choice((8, 16, 32)), draw.choice((16, 64, 128))),
            stages=draw.randint(2, 6),
            steps=draw.randint(1, 4),
            accumulators=draw.randint(1, 2),
            mmas=draw.randint(1, 8),
            m=draw.choice((64, 128)),
            n=draw.choice((32, 64, 128, 256)),
            values=draw.choice((8, 16, 32)),
            exponentials=draw.randint(0, 2),
            products=draw.randint(0, 6),
            stores=draw.randint(0, 8),
            stride=draw.choice((4, 16, 20, 64)),
            ctas=draw.choice((1, 1, 2)),
        )

    @property
    def box_bytes(self) -> int:
        return 4 * self.box[0] * self.box[1]

    def idesc(self) -> int:
        return bench.KIND["BF16"][1] | self.n >> 3 << 17 | self.m >> 4 << 24

    def text(self) -> str:
        """Return its PTX."""
        text = bench.entry("u64 map,u32 groups,u32 idesc", f"{SETUP}{self._load()}{self._multiply()}{self._consume()}")
        values = f".reg .b32 %v<{self.values}>;"
        pool = f".shared .align 128 .b8 pool[{200_000 // self.ctas}];"
        return text.replace(".reg .b16", f"{values} {pool} .reg .b16")

    def _load(self) -> str:
        box = f"{bench.TMA_LOAD.format(to='cta', more='')} [%r7], [%d1, {{%r0, %r14}}], [%r8];"
        return f"""
mul.lo.u32 %r15, %r2, {self.steps}; mov.u32 %r14, %ctaid.x; mul.lo.u32 %r14, %r14, %r15;
mul.lo.u32 %r14, %r14, {2 * self.box[1]}; mov.b32 %r4, 1;
LOAD: {waiting("empty", "%r3", "%r4")}
add.u32 %r8, %r5, full; mov.b32 %r7, pool; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r8], {2 * self.box_bytes};
@%p1 {box} add.u32 %r14, %r14, {self.box[1]}; @%p1 {box} add.u32 %r14, %r14, {self.box[1]};
{turning("%r3", "%r4", self.stages)}
sub.u32 %r15, %r15, 1; setp.ne.u32 %p6, %r15, 0; @%p6 bra LOAD; ret;"""

    def _multiply(self) -> str:
        mma = "@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r0], %d2, %d2, %r9, %p1;" * self.mmas
        return f"""
MULTIPLY: mov.b32 %r4, 0; mov.b32 %r17, 1;
GROUP: {waiting("freed", "%r16", "%r17")} mov.b32 %r15, {self.steps};
STEP: {waiting("full", "%r3", "%r4")} add.u32 %r8, %r5, empty; {mma}
@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];
{turning("%r3", "%r4", self.stages)}
sub.u32 %r15, %r15, 1; setp.ne.u32 %p6, %r15, 0; @%p6 bra STEP;
shl.b32 %r5, %r16, 3; add.u32 %r8, %r5, done;
@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];
{turning("%r16", "%r17", self.accumulators)}
sub.u32 %r2, %r2, 1; setp.ne.u32 %p6, %r2, 0; @%p6 bra GROUP; ret;"""

    def _consume(self) -> str:
        values = [f"%v{i}" for i in range(self.values)]
        each = [f"ex2.approx.ftz.f32 {v}, {v};" * self.exponentials for v in values]
        each += [f"fma.rn.f32 {v}, {v}, {v}, {v};" * self.products for v in values]
        each += [f"st.shared.b32 [%r18], {values[i % self.values]};" for i in range(self.stores)]
        return f"""
CONSUME: mov.b32 %r4, 0; mov.u32 %r20, pool; and.b32 %r19, %r1, 31; mad.lo.u32 %r18, %r19, {self.stride}, %r20;
NEXT: {waiting("done", "%r3", "%r4")}
tcgen05.ld.sync.aligned.32x32b.x{self.values}.b32 {{{", ".join(values)}}}, [%r0]; tcgen05.wait::ld.sync.aligned;
{"".join(each)}
add.u32 %r8, %r5, freed; mbarrier.arrive.shared.b64 _, [%r8];
{turning("%r3", "%r4", self.accumulators)}
sub.u32 %r2, %r2, 1; setp.ne.u32 %p6, %r2, 0; @%p6 bra NEXT; ret;"""


SETUP = f"""
.shared .align 8 .b8 full[64]; .shared .align 8 .b8 empty[64];
.shared .align 8 .b8 done[16]; .shared .align 8 .b8 freed[16];
ld.param.u64 %d1, [map]; ld.param.u32 %r2, [groups]; ld.param.u32 %r9, [idesc];
mov.b32 %r0, 0; mov.b64 %d2, 0; mov.b32 %r3, 0; mov.b32 %r16, 0; mov.u32 %r1, %tid.x; setp.eq.u32 %p0, %r1, 0;
{"".join(f"@%p0 mbarrier.init.shared.b64 [{name}+{8 * i}], 1;" for name in ("full", "empty") for i in range(8))}
{"".join(f"@%p0 mbarrier.init.shared.b64 [done+{at}], 1;" for at in (0, 8))}
{"".join(f"@%p0 mbarrier.init.shared.b64 [freed+{at}], 128;" for at in (0, 8))}
bar.sync 0; elect.sync _|%p1, -1; setp.ge.u32 %p3, %r1, 128; @%p3 bra CONSUME;
setp.ge.u32 %p3, %r1, 64; @%p3 bra END; setp.ge.u32 %p3, %r1, 32; @%p3 bra MULTIPLY; bra FIRST; END: ret; FIRST:"""


def waiting(barriers: str, index: str, parity: str) -> str:
    """Return a wait for a phase of one barrier of an array, whose offset is in %r5 afterwards."""
    label = f"W_{barriers}"
    return f"""shl.b32 %r5, {index}, 3; add.u32 %r6, %r5, {barriers};
{label}: mbarrier.try_wait.parity.shared.b64 %p5, [%r6], {parity}; @!%p5 bra {label};"""


def turning(index: str, parity: str, count: int) -> str:
    """Return the step to the next barrier of a ring."""
    return f"""add.u32 {index}, {index}, 1; setp.eq.u32 %p2, {index}, {count};
@%p2 xor.b32 {parity}, {parity}, 1; @%p2 mov.b32 {index}, 0;"""


def mapped(kernel: Pipeline, ctas: int, groups: int) -> np.ndarray:
    """Return the tensor map of a tensor that has the boxes of all CTAs."""
    data = np.zeros((ctas * groups * kernel.steps * 2 * kernel.box[1], kernel.box[0]), np.float32)
    columns, height = kernel.box
    raw = np.frombuffer(bytearray(tensor_map(data, (height, columns), 0)), np.uint8)
    return raw


def taken(kernel: Pipeline, groups: int = GROUPS, on: Chip = B200) -> float:
    """Return the cycles of the CTAs of one SM, all of whose loads come from HBM."""
    raw = mapped(kernel, 1, groups)
    given = [raw.ctypes.data, groups, kernel.idesc()]
    shares: dict[str, Any] = {"threads": THREADS, "resident": kernel.ctas, "misses": {}, "chip": on}
    return bench.end(bench.cycles(kernel.text(), given, **shares))


def predicted(kernel: Pipeline, ctas: int, groups: int = GROUPS) -> Prediction:
    given = [mapped(kernel, ctas, groups), groups, kernel.idesc()]
    with emulate(clock="b200", conditions=Conditions(ranges=False)):
        found = launch(kernel.text(), args=given, grid=ctas, block=THREADS).prediction
    assert found is not None
    return found


@pytest.mark.parametrize("seed", [*FEW, *MANY])
def test_time_is_linear_in_the_number_of_tiles(seed: int) -> None:
    kernel = Pipeline.drawn(seed)
    few, some, many = (taken(kernel, times * GROUPS) for times in (2, 3, 4))
    assert many - some == pytest.approx(some - few, rel=0.05), kernel


@pytest.mark.parametrize("seed", [*FEW, *MANY])
def test_another_stage_is_never_slower(seed: int) -> None:
    kernel = Pipeline.drawn(seed)
    assert taken(replace(kernel, stages=kernel.stages + 1)) <= 1.02 * taken(kernel), kernel


@pytest.mark.parametrize("seed", [*FEW, *MANY])
def test_bank_conflicts_are_never_faster(seed: int) -> None:
    kernel = replace(Pipeline.drawn(seed), stores=8)
    without, some, many = (taken(replace(kernel, stride=stride)) for stride in (4, 16, 128))
    assert without <= 1.02 * some and some <= 1.02 * many, kernel
    stored = kernel.ctas * GROUPS * 4 * 8 * 31
    assert many >= without + 0.5 * stored or many >= kernel.ctas * GROUPS * 4 * 8 * 32, kernel


@pytest.mark.parametrize("seed", [*FEW, *MANY])
def test_a_faster_part_makes_no_generated_kernel_slower(seed: int) -> None:
    kernel, parts = Pipeline.drawn(seed), Random(seed).sample(sorted(FASTER), 4)
    known = taken(kernel)
    for part in parts:
        faster = replace(B200, **{part: getattr(B200, part) * FASTER[part]})
        assert taken(kernel, on=faster) <= 1.02 * known, (part, kernel)


@pytest.mark.parametrize("seed", [*FEW, *MANY])
def test_a_grid_uses_no_part_for_longer_than_it_takes_and_one_cta_more_costs_one(seed: int) -> None:
    kernel = Pipeline.drawn(seed)
    alone, full, more = (predicted(kernel, count) for count in (1, 148 * kernel.ctas, 148 * kernel.ctas + 1))
    for found in (alone, full, more):
        assert all(share <= 1.001 for share in found.busy.values()), (found.busy, kernel)
    assert full.resident == kernel.ctas
    assert 0 <= more.cycles - full.cycles <= 1.02 * alone.cycles, kernel
