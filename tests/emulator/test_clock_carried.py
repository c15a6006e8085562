"""Loads of global memory that a warp waits for in a later block, or finds in L1."""

from __future__ import annotations

import numpy as np
import pytest
from test_clock_laws import predicted

from lab import clock as bench

B200 = bench.B200
CHAIN = 400
ROUNDS = 20
NEWLINE = "\n"
START = """
ld.param.u64 %d1, [data]; ld.param.u32 %r2, [rounds]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4;
add.u64 %d1, %d1, %d2; mov.b32 %r4, 1; mov.b32 %r5, 0; mov.b32 %r20, 0; mov.b32 %r21, 0;"""
NEXT = (
    "add.u64 %d1, %d1, 4096; sub.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra ROUND; st.shared.u32 [0], %r5; ret;"
)
LOAD = "ld.global.u32 %r20, [%d1];"
USE = "xor.b32 %r5, %r5, %r20;"
WORK = "mad.lo.u32 %r4, %r4, %r4, %r4;" * CHAIN
LATENCY = B200.global_latency
OF_CHAIN = CHAIN * B200.fma_latency


def a_round(*body: str) -> float:
    """Return the cycles of a round of one warp whose loads come from HBM."""
    text = bench.entry("u64 data,u32 rounds", f"{START} ROUND: {NEWLINE.join(body)}\n{NEXT}")
    few, many = (bench.end(bench.cycles(text, [0, n], threads=32)) for n in (ROUNDS, 2 * ROUNDS))
    return (many - few) / ROUNDS


def test_a_load_overlaps_with_the_blocks_before_the_use_of_its_value() -> None:
    assert a_round(LOAD, "bar.sync 0;", WORK, "bar.sync 0;", USE) == pytest.approx(OF_CHAIN, rel=0.1)
    assert a_round(LOAD, "bar.sync 0;", WORK, USE, "bar.sync 0;") == pytest.approx(OF_CHAIN, rel=0.1)
    assert a_round(LOAD, "bar.sync 0;", USE, "bar.sync 0;", WORK) == pytest.approx(LATENCY + OF_CHAIN, rel=0.1)


@pytest.mark.parametrize("fence", ["fence.proxy.async.shared::cta;", "fence.acq_rel.cta;", "membar.cta;"])
@pytest.mark.parametrize("where", ["in the block", "later"])
def test_a_fence_waits_for_loads(fence: str, where: str) -> None:
    """It becomes MEMBAR in machine code."""
    before = (LOAD, "bar.sync 0;", fence) if where == "later" else (LOAD, fence, "bar.sync 0;")
    taken = a_round(*before, "bar.sync 0;", WORK, "bar.sync 0;", USE)
    assert taken == pytest.approx(LATENCY + OF_CHAIN, rel=0.1)


def test_a_load_waits_until_an_instruction_has_used_its_last_value() -> None:
    """Another load in flight needs another register: a loop that moves values between registers waits for the move."""
    rotated = "mov.b32 %r20, %r21;", LOAD.replace("20", "21"), "bar.sync 0;"
    assert a_round(USE, LOAD, "bar.sync 0;") == pytest.approx(LATENCY, rel=0.1)
    assert a_round(USE, *rotated) == pytest.approx(LATENCY, rel=0.1)
    assert a_round(WORK, USE, *rotated) == pytest.approx(OF_CHAIN, rel=0.1)


def test_loads_of_an_unrolled_loop_are_in_flight_together() -> None:
    both = USE, LOAD, "bar.sync 0;", *(each.replace("20", "21") for each in (USE, LOAD)), "bar.sync 0;"
    assert a_round(*both) == pytest.approx(LATENCY, rel=0.25)


def test_a_branch_around_a_load_changes_nothing() -> None:
    """A prefetch of the next round is left out in the last one."""
    guarded = "setp.eq.u32 %p2, %r2, 1; @%p2 bra SKIP;", "add.u32 %r6, %r6, 1;" * 9, LOAD, "SKIP:"
    assert a_round(WORK, USE, *guarded, "bar.sync 0;") == pytest.approx(OF_CHAIN, rel=0.1)


def test_a_wait_is_a_stall_of_the_line_that_uses_the_value() -> None:
    text = bench.entry("u64 data,u32 rounds", f"{START} ROUND: {LOAD}\nbar.sync 0;\n{USE}\nbar.sync 0; {NEXT}")
    found = predicted(text, [np.zeros(4096 * 64, np.uint8), 64], 1)
    (longest, *_) = found.lines
    used = text.splitlines().index(USE) + 1
    assert longest.where == f"PTX line {used}" and next(iter(longest.stalls)) == "long scoreboard"
    assert longest.waited > 0.8


@pytest.mark.parametrize("threads", [64, 128])
def test_loads_that_l1_answers_are_not_in_flight_from_hbm(threads: int) -> None:
    """However many of them a warp has issued since one that missed."""
    text = bench.entry(
        "u64 data,u32 rounds",
        f"""{START} mov.u64 %d3, %d1; mov.b32 %r6, 0;
        ROUND: {LOAD} {USE} add.u64 %d1, %d1, {4 * threads}; add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 64;
        @%p2 bra ROUND; mov.b32 %r6, 0; mov.u64 %d1, %d3; {NEXT.replace("add.u64 %d1, %d1, 4096;", "")}""",
    )
    data = np.zeros(64 * threads, np.uint32)
    few, many = (predicted(text, [data, n], 1, threads).cycles for n in (16, 32))
    assert (many - few) / 16 / 64 < 3 * B200.shared_latency


def test_what_accumulates_over_rounds_is_not_folded_into_the_next_round() -> None:
    """Two logic operations are one instruction, but not an operation and itself."""
    sums = [f"xor.b32 %r{6 + i}, %r{6 + i}, %r1;" for i in range(32)]
    assert a_round(*sums) >= 32 * B200.alu_cycles
