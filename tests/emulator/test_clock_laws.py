"""Laws that the clock's predictions must obey, whatever its parameters."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from emulator import emulate, launch, machine_code
from emulator.clock.chips import Chip, chip
from emulator.clock.conditions import Conditions
from emulator.clock.prediction import Prediction
from emulator.clock.timeline import Timeline
from emulator.errors import UnknownInstruction
from lab import clock as bench
from lab import microbenchmarks

B200 = chip("b200")
H200 = chip("h200")
BOX = (32, 128)
BYTES = 4 * BOX[0] * BOX[1]
TILE = 4
"""MMAs of a pipeline stage."""


def pipeline(stages: int, tiles: int, columns: int, chip: Chip = B200, peeks: bool = True, **shares: Any) -> Timeline:
    """Run a GEMM's main loop: one warp loads A and B, one multiplies. peeks: it looks at the next stage first."""
    load = f"""mul.lo.u32 %r7, %r3, {2 * BYTES}; shl.b32 %r8, %r3, 3; add.u32 %r8, %r10, %r8;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r8], {2 * BYTES};
@%p1 {bench.TMA_LOAD.format(to="cta", more="")} [%r7], [%d0, {{%r0, %r0}}], [%r8];
@%p1 {bench.TMA_LOAD.format(to="cta", more="")} [%r7+{BYTES}], [%d0, {{%r0, %r0}}], [%r8];"""
    peek = "mbarrier.try_wait.parity.shared.b64 %p7, [%r8], %r4;" if peeks else "setp.ne.u32 %p7, 0, 0;"
    turn = f"add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, {stages}; @%p2 bra"
    mma = "@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r0], %d2, %d2, %r9, %p1;" * TILE
    text = bench.entry(
        "b64 map,u32 tiles,u32 idesc",
        f"""
.shared .align 8 .b8 full[128]; .shared .align 8 .b8 empty[128];
mov.b64 %d1, map; cvta.param.u64 %d0, %d1; ld.param.u32 %r2, [tiles]; ld.param.u32 %r9, [idesc];
mov.b32 %r0, 0; mov.b64 %d2, 0; mov.b32 %r10, full; mov.b32 %r11, empty; mov.b32 %r3, 0; mov.u32 %r1, %tid.x;
setp.eq.u32 %p0, %r1, 0;
INIT: shl.b32 %r5, %r3, 3; add.u32 %r6, %r10, %r5; @%p0 mbarrier.init.shared.b64 [%r6], 1;
add.u32 %r6, %r11, %r5; @%p0 mbarrier.init.shared.b64 [%r6], 1;
{turn} INIT;
bar.sync 0; elect.sync _|%p1, -1; mov.b32 %r3, 0; mov.b32 %r4, 1; setp.ge.u32 %p4, %r1, 32; @%p4 bra MULTIPLY;
LOAD: shl.b32 %r5, %r3, 3; add.u32 %r6, %r11, %r5;
FREE: mbarrier.try_wait.parity.shared.b64 %p5, [%r6], %r4; @!%p5 bra FREE;
{load}
{turn} LOADED; mov.b32 %r3, 0; xor.b32 %r4, %r4, 1;
LOADED: sub.u32 %r2, %r2, 1; setp.ne.u32 %p6, %r2, 0; @%p6 bra LOAD;
ret;
MULTIPLY: mov.b32 %r4, 0; mov.b32 %r8, %r10; {peek}
NEXT: mov.b32 %r13, %r4; shl.b32 %r5, %r3, 3; add.u32 %r6, %r10, %r5; add.u32 %r12, %r11, %r5; @%p7 bra READY;
AGAIN: mbarrier.try_wait.parity.shared.b64 %p5, [%r6], %r4; @!%p5 bra AGAIN;
READY: {turn} LATER; mov.b32 %r3, 0; xor.b32 %r4, %r4, 1;
LATER: sub.u32 %r2, %r2, 1; setp.ne.u32 %p6, %r2, 0; setp.ne.u32 %p7, 0, 0; @!%p6 bra LAST;
shl.b32 %r5, %r3, 3; add.u32 %r8, %r10, %r5; {peek}
LAST: {mma} @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r12];
@%p6 bra NEXT;
DONE: mbarrier.try_wait.parity.shared.b64 %p5, [%r12], %r13; @!%p5 bra DONE;
ret;""",
    ).replace(".param .b64 map", ".param .align 64 .b8 map[128]")
    idesc = bench.KIND["BF16"][1] | columns >> 3 << 17 | 128 >> 4 << 24
    given: list[int | bytes] = [bench.tensor_map(BOX[0], 1 << 20, BOX), tiles, idesc]
    shares = {"misses": {bench.TENSOR: 0.25}} | shares
    return bench.cycles(text, given, threads=64, chip=chip, **shares)


def taken(*given: Any, **shares: Any) -> float:
    return bench.end(pipeline(*given, **shares))


@pytest.mark.parametrize("columns", [64, 128, 256])
@pytest.mark.parametrize("peeks", [False, True])
def test_more_stages_are_never_slower(columns: int, peeks: bool) -> None:
    found = [taken(stages, 48, columns, peeks=peeks) for stages in range(2, 7)]
    assert all(more <= 1.02 * fewer for fewer, more in pairwise(found)), found
    assert found[-1] < found[0]


@pytest.mark.parametrize("columns", [64, 128, 256])
@pytest.mark.parametrize("stages", [2, 3])
def test_the_stages_of_all_ctas_of_an_sm_hide_latency(stages: int, columns: int) -> None:
    """Two CTAs keep twice the stages in flight, so four stages are slower than three if only three let two CTAs fit."""
    one, two = taken(2 * stages, 96, columns), taken(stages, 48, columns, resident=2)
    assert two == pytest.approx(one, rel=0.03)


def test_time_is_linear_in_tiles() -> None:
    few, some, many = (taken(4, tiles, 128) for tiles in (32, 64, 128))
    assert many - some == pytest.approx(2 * (some - few), rel=0.03)


FASTER = {
    "tma_line_cycles": 0.5,
    "tma_box_cycles": 0.5,
    "tma_issue": 0.5,
    "tma_thread": 0.5,
    "tma_latency": 0.7,
    "hbm_bytes_per_us": 1.5,
    "l2_bytes_per_us": 1.5,
    "l2_shared_bytes_per_us": 1.5,
    "sm_bytes_per_cycle": 1.5,
    "bytes_in_flight_per_cycle": 1.5,
    "mma_columns_per_cycle": 2.0,
    "mma_latency": 0.7,
    "wake_latency": 0.5,
    "try_wait_cycles": 0.75,  # a time limit: with half of it more looks ahead fail, and cost a second wait
    "try_wait_latency": 0.5,
    "arrive_latency": 0.5,
    "smem_bytes_per_cycle": 1.5,
}


@pytest.mark.parametrize("part", FASTER)
@pytest.mark.parametrize("stages", [2, 4])
def test_a_faster_part_makes_no_kernel_slower(part: str, stages: int) -> None:
    faster = replace(B200, **{part: getattr(B200, part) * FASTER[part]})
    assert taken(stages, 48, 128, faster) <= 1.02 * taken(stages, 48, 128)


GATHERS_FASTER = {
    "copy_latency": 0.7,
    "copy_l2_saving": 1.3,
    "copy_bytes_per_cycle": 1.5,
    "copy_arrive_cycles": 0.5,
    "hbm_bytes_per_us": 1.5,
    "l2_bytes_per_us": 1.5,
    "bytes_in_flight_per_cycle": 1.5,
    "smem_bytes_per_cycle": 1.5,
}


def gathering(source: str, warps: int, groups: int, chip: Chip) -> float:
    """Return the cycles in which each warp of 132 CTAs gathers four rows by cp.async."""
    row = {"source": source, "warps": str(warps), "groups": str(groups)}
    row |= {"ctas": "132", "row_bytes": "512", "done_by": "mbarrier"}
    return bench.round_cycles(microbenchmarks.cp_async(row), chip)


@pytest.mark.parametrize(
    "part",
    [part if part == "l2_bytes_per_us" else pytest.param(part, marks=pytest.mark.long) for part in GATHERS_FASTER],
)
def test_a_faster_part_makes_gathers_faster(part: str) -> None:
    faster = replace(B200, **{part: getattr(B200, part) * GATHERS_FASTER[part]})
    cases = [(source, *load) for source in ("L2", "HBM") for load in ((4, 1), (4, 4), (12, 4))]
    found = [gathering(*case, faster) / gathering(*case, B200) for case in cases]
    assert max(found) <= 1.02 and min(found) < 0.98, found


@pytest.mark.parametrize("misses", [0.0, 0.25, 1.0])
def test_no_part_is_busy_for_longer_than_the_launch(misses: float) -> None:
    timeline = pipeline(6, 96, 64, misses={bench.TENSOR: misses})
    busy, whole = timeline.sms[0].busy, max(cluster.end for cluster in timeline.finished)
    assert busy["HBM bytes"] <= timeline.hbm_share * whole
    assert busy["L2 bytes"] <= timeline.l2_share * whole
    assert busy["TMA"] <= whole and busy["tensor core"] <= whole


@pytest.mark.parametrize("width", [4, 16])
def test_stores_to_shared_memory_take_the_port_from_mmas(width: int) -> None:
    """Operands of N = 64 take the port for 48 of every 48 cycles. Stores of the same warp add their bytes."""
    stored = {4: "u32 [%r3], %r3", 16: "v4.u32 [%r3], {%r3, %r3, %r3, %r3}"}[width]
    mma = bench.mma_program("BF16", False, 1)
    idesc = bench.KIND["BF16"][1] | 64 >> 3 << 17 | 128 >> 4 << 24

    def cycles(text: str) -> float:
        few, many = (bench.end(bench.cycles(text, [idesc, 1, n, 0], threads=128)) for n in (8, 16))
        return (many - few) / 8

    alone = cycles(mma)
    beside = cycles(mma.replace("@%p1 tcgen05.mma", f"st.shared.{stored}; @%p1 tcgen05.mma"))
    assert alone == pytest.approx(16 * 48, rel=0.02)
    assert beside == pytest.approx(alone + 16 * 32 * width / 128, rel=0.05)


def predicted(text: str, args: list[Any], ctas: int, threads: int = 32, **conditions: Any) -> Prediction:
    with emulate(clock="b200", conditions=Conditions(**conditions)):
        found = launch(text, args=args, grid=ctas, block=threads).prediction
    assert found is not None
    return found


EXPONENTIALS = "".join(f"ex2.approx.ftz.f32 %r{10 + i % 8}, %r{10 + i % 8};" for i in range(256))


@pytest.mark.parametrize("full", [148, 8 * 148, 16 * 148])
def test_one_cta_more_costs_at_most_one_cta(full: int) -> None:
    """Eight CTAs fit an SM, and share its MUFU: alone a CTA is faster."""
    text = bench.entry("u32 rounds", f".shared .b8 pool[27000]; mov.b32 %r1, pool; {EXPONENTIALS} ret;")
    alone, before, after = (predicted(text, [1], count, 256).cycles for count in (1, full, full + 1))
    assert 0 < after - before <= alone


PERSISTENT = bench.entry(
    "u32 tiles,u32 idesc,u64 data",
    """
.shared .align 128 .b8 window[1024]; .shared .align 8 .b8 bar[8];
ld.param.u32 %r2, [tiles]; ld.param.u32 %r9, [idesc]; ld.param.u64 %d1, [data]; mov.u32 %r3, %ctaid.x;
mov.b32 %r0, 0; mov.b64 %d2, 0; mov.b32 %r10, bar; mov.b32 %r11, window; elect.sync _|%p1, -1; mov.b32 %r4, 0;
@%p1 mbarrier.init.shared.b64 [%r10], 1; mov.u32 %r5, %nctaid.x;
TILE: setp.ge.u32 %p2, %r3, %r2; @%p2 bra END;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 1024;
@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r11], [%d1], 1024, [%r10];
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r10], %r4; @!%p3 bra WAIT;
xor.b32 %r4, %r4, 1; @%p1 tcgen05.mma.cta_group::1.kind::f16 [%r0], %d2, %d2, %r9, %p1; add.u32 %r3, %r3, %r5;
bra TILE;
END: ret;""",
)


@pytest.mark.parametrize("tiles", [148, 150, 447, 1000, 1035])
def test_persistent_ctas_with_unequal_work_count_what_they_do(tiles: int) -> None:
    idesc = bench.KIND["BF16"][1] | 128 >> 3 << 17 | 128 >> 4 << 24
    found = predicted(PERSISTENT, [tiles, idesc, np.zeros(256, np.float32)], 148)
    assert found.flops == pytest.approx(tiles * 2 * 128 * 128 * 16, rel=1e-6)
    assert found.busy["tensor core"] * found.cycles * B200.sms == pytest.approx(tiles * 64)


UNEQUAL = bench.entry(
    "u32 first, u32 second, u64 data",
    """
.shared .align 128 .b8 window[1024]; .shared .align 8 .b64 bar;
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; setp.eq.u32 %p0, %r2, 0; mov.b32 %r10, bar; mov.b32 %r11, window;
ld.param.u32 %r3, [first]; ld.param.u32 %r4, [second]; selp.u32 %r3, %r3, %r4, %p0; ld.param.u64 %d1, [data];
setp.lt.u32 %p1, %r1, 32; @%p1 bra LOAD;
NEXT: sub.u32 %r3, %r3, 1; setp.ne.u32 %p3, %r3, 0; @%p3 bra NEXT;
ret;
LOAD: elect.sync _|%p1, -1; @%p1 mbarrier.init.shared.b64 [%r10], 1;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 1024;
@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r11], [%d1], 1024, [%r10];
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r10], 0; @!%p3 bra WAIT;
ret;""",
)


@pytest.mark.parametrize("rounds", [(1, 5000), (5000, 1)])
def test_the_cta_with_the_most_work_decides_although_all_load_the_same(rounds: tuple[int, int]) -> None:
    found, most = (predicted(UNEQUAL, [*times, np.zeros(256, np.float32)], 2, 64) for times in (rounds, (5000, 5000)))
    assert found.cycles == most.cycles


BETWEEN = bench.entry(
    "u32 rounds, u64 data",
    """
.shared .align 128 .b8 window[2048]; .shared .align 8 .b64 bars[2];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; shr.u32 %r4, %r1, 5; mov.b32 %r5, 0; ld.param.u64 %d1, [data];
mov.b32 %r10, bars; mad.lo.u32 %r10, %r4, 8, %r10; mov.b32 %r11, window; mad.lo.u32 %r11, %r4, 1024, %r11;
ld.param.u32 %r3, [rounds]; setp.eq.u32 %p0, %r2, 1; setp.eq.u32 %p1, %r4, 1; and.pred %p0, %p0, %p1;
selp.u32 %r3, %r3, 1, %p0; elect.sync _|%p1, -1; @%p1 mbarrier.init.shared.b64 [%r10], 1;
NEXT: @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 1024;
@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r11], [%d1], 1024, [%r10];
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r10], %r5; @!%p3 bra WAIT;
xor.b32 %r5, %r5, 1; sub.u32 %r3, %r3, 1; setp.ne.u32 %p3, %r3, 0; @%p3 bra NEXT;
ret;""",
)


def test_a_cta_between_two_that_are_alike_decides_if_it_loads_the_most() -> None:
    """Its second warp loads 50 times, the first as often as in the others."""
    few, most = (predicted(BETWEEN, [rounds, np.zeros(256, np.float32)], 3, 64).cycles for rounds in (1, 50))
    assert most > 20 * few


@pytest.mark.parametrize(("side", "batched"), [("", True), ("mov.u32 %r9, 1; " * 17, False)])
def test_guarded_loads_with_two_sides_are_issued_together(side: str, batched: bool) -> None:
    """ptxas predicates both sides if they are short, and loads all before it stores one."""
    guarded = "".join(
        f"setp.lt.u32 %p1, %r1, %r3; @%p1 bra LOAD{i}; mov.b32 %r{10 + i}, 0; {side} bra.uni NEXT{i};"
        f"LOAD{i}: ld.global.u32 %r{10 + i}, [%d1+{4096 * i}]; NEXT{i}: st.shared.u32 [%r2+{4 * i}], %r{10 + i};"
        for i in range(4)
    )
    text = bench.entry(
        "u64 data,u32 most",
        f".shared .align 16 .b8 pool[16]; ld.param.u64 %d1, [data]; ld.param.u32 %r3, [most]; mov.u32 %r1, %tid.x; "
        f"mov.b32 %r2, pool; {guarded} ret;",
    )
    latencies = (predicted(text, [np.zeros(1 << 16, np.uint8), 32], 1).cycles - B200.cta_launch) / B200.global_latency
    assert (latencies < 1.5) == batched and (latencies > 3.5) != batched


@pytest.mark.parametrize(("stride", "loads"), [(0, 4), (8, 16)])
def test_adjacent_loads_of_what_all_lanes_read_are_one(stride: int, loads: int) -> None:
    """Sixteen 16-bit loads become four if ptxas knows the alignment."""
    body = "".join(f"\nld.shared.u16 %h{i % 4}, [%r2+{2 * i}];\nxor.b16 %h0, %h0, %h{i % 4};" for i in range(16))
    text = bench.entry(
        "u32 n",
        f".shared .align 16 .b8 pool[512]; mov.u32 %r1, %tid.x; mov.b32 %r3, pool; "
        f"mad.lo.u32 %r2, %r1, {stride}, %r3; {body} st.shared.u16 [%r2], %h0; ret;",
    )
    found = predicted(text, [1], 148)
    assert found.issued["ld.shared"] == loads


@pytest.mark.long
def test_power_limits_the_rate_while_tensor_cores_are_busy() -> None:
    text, idesc = bench.mma_program("BF16", False, 1), bench.KIND["BF16"][1] | 256 >> 3 << 17 | 128 >> 4 << 24
    random = predicted(text, [idesc, 100, 8, 0], 148, 128)
    fast, peak = random.fastest, 148 * 8192 * random.ghz / 1e3
    assert random.ghz < fast.ghz == B200.max_clock_ghz and fast.seconds < random.seconds
    assert random.seconds == pytest.approx(random.cycles / (1e9 * random.ghz) + 1e-6 * B200.launch_us)
    assert random.tflops == pytest.approx(random.busy["tensor core"] * peak, rel=0.05)
    zeros = predicted(text, [idesc, 100, 8, 0], 148, 128, data="zeros")
    assert (zeros.fastest, zeros.cycles) == (fast, random.cycles)
    assert random.ghz < zeros.ghz < B200.max_clock_ghz
    given = predicted(text, [idesc, 100, 8, 0], 148, 128, ghz=1.5)
    assert given.seconds == pytest.approx(given.cycles / 1.5e9 + 1e-6 * B200.launch_us) == given.fastest.seconds


@pytest.mark.parametrize(("behind", "folded"), [("", True), ("bar.sync 0;", True), ("add.u64 %d3, %d2, %d1;", False)])
def test_constants_that_are_added_to_addresses_are_offsets_of_accesses(behind: str, folded: bool) -> None:
    """If nothing else uses the sum, in any block."""
    pointer = "ld.param.u64 %d1, [data]; mov.u32 %r1, %tid.x; mad.wide.u32 %d1, %r1, 4, %d1;"
    text = f"{pointer} add.s64 %d2, %d1, 4096; {behind} st.global.u32 [%d2], %r1; ret;"
    plain = f"{pointer} {behind.replace('%d2', '%d1')} st.global.u32 [%d1+4096], %r1; ret;"
    found = [predicted(bench.entry("u64 data", each), [np.zeros(1 << 15, np.uint8)], 148) for each in (text, plain)]
    added, offset = (each.busy["issue slots"] * each.cycles for each in found)
    assert (added == pytest.approx(offset)) == folded


@pytest.mark.parametrize(
    ("instr", "special", "fma", "slots"),
    [
        ("rsqrt.approx.ftz.f32 %r{0}, %r{0};", 8, 0, 1),
        ("rsqrt.approx.f32 %r{0}, %r{0};", 8, 2, 4),
        ("div.full.f32 %r{0}, %r{0}, %r9;", 8, 5, 8),
        ("div.rn.f32 %r{0}, %r{0}, %r9;", 16, 5, 7),
        ("popc.b32 %r{0}, %r{0};", 8, 0, 1),
        ("fma.rn.f64 %d{0}, %d{0}, %d9, %d9;", 0, 2, 1),
    ],
)
def test_what_ptxas_expands_takes_the_pipes_of_its_machine_code(instr: str, special: int, fma: int, slots: int) -> None:
    body = "\n".join(instr.format(10 + i % 16) for i in range(64))
    found = predicted(bench.entry("u32 count", f"{body} ret;"), [1], 148, 128)
    used = (64 * each / found.cycles for each in (special, fma, slots))
    assert [found.busy[part] for part in ("MUFU", "FMA", "issue slots")] == pytest.approx([*used], abs=2 / found.cycles)


@pytest.mark.parametrize(("stride", "ways"), [(4, 1), (8, 2), (16, 4), (128, 32), (132, 1)])
@pytest.mark.parametrize("kind", ["ld.shared.u32 %r{}, [%r2];", "st.shared.u32 [%r2], %r1; // {}"])
def test_bank_conflicts_cost_what_they_take(stride: int, ways: int, kind: str) -> None:
    body = "\n".join(kind.format(10 + i % 16) for i in range(64))
    address = f"mov.u32 %r1, %tid.x; mov.b32 %r3, pool; mad.lo.u32 %r2, %r1, {stride}, %r3;"
    text = bench.entry("u32 count", f".shared .align 128 .b8 pool[8192]; {address}\n{body}\nret;")
    taken = bench.end(bench.cycles(text, [1], threads=32))
    assert taken == pytest.approx(64 * ways, abs=B200.shared_latency + 35)


@pytest.mark.parametrize(("lanes", "turns"), [(1, 4), (2, 2), (16, 2), (32, 2)])
def test_lanes_that_load_the_same_16_bytes_take_half_of_the_turns(lanes: int, turns: int) -> None:
    """Also in four loads of a word, which ptxas makes one if all lanes load the same."""
    address = f"mov.u32 %r1, %tid.x; shr.u32 %r4, %r1, {lanes.bit_length() - 1}; mov.b32 %r3, pool;"
    address = f".shared .align 128 .b8 pool[2048]; {address} mad.lo.u32 %r2, %r4, 16, %r3;"
    wide = [f"ld.shared.v2.u64 {{%d{2 * i % 8}, %d{2 * i % 8 + 1}}}, [%r2+{16 * i}];" for i in range(64)]
    words = [f"ld.shared.u32 %r{10 + i % 16}, [%r3+{4 * i}];" for i in range(256)]
    for loads in (wide, words)[: 1 + (lanes == 32)]:
        text = bench.entry("u32 count", f"{address} {''.join(loads)} ret;")
        taken = bench.end(bench.cycles(text, [1], threads=32))
        assert taken == pytest.approx(64 * turns, abs=B200.shared_latency + 35)


@pytest.mark.parametrize(
    ("shape", "types", "cycles"), [("m16n8k16", "f32.bf16.bf16.f32", 8), ("m16n8k32", "s32.s8.s8.s32", 8)]
)
@pytest.mark.parametrize("warps", [1, 4, 16])
def test_mma_sync_takes_the_tensor_core(shape: str, types: str, cycles: int, warps: int) -> None:
    """A warp's products that need one another take their latency each; those of many warps the tensor core's time."""
    operands = "{%r1, %r2, %r3, %r4}, {%r5, %r6, %r7, %r8}, {%r9, %r10}, {%r1, %r2, %r3, %r4};"
    body = f"mma.sync.aligned.{shape}.row.col.{types} {operands}" * 64
    found = predicted(bench.entry("u32 count", f"{body} ret;"), [1], 148, 32 * warps)
    chained, piped = 64 * B200.warp_mma_latency, 64 * cycles * warps / 4
    assert found.cycles - B200.cta_launch == pytest.approx(max(chained, piped), rel=0.05)
    assert found.busy["tensor core"] == pytest.approx(piped / found.cycles)
    assert found.ghz <= found.fastest.ghz and "mma.sync" in found.never_compared


def test_warps_compute_while_loads_of_shared_memory_queue() -> None:
    """All loads are issued first, and their values are used last. Either part takes 2,048 cycles."""
    loads = "".join(
        f"ld.shared.v4.u32 {{%l{4 * i}, %l{4 * i + 1}, %l{4 * i + 2}, %l{4 * i + 3}}}, [%r2+{16 * i}];"
        for i in range(32)
    )
    products = "".join(f"fma.rn.f32 %r{10 + i % 16}, %r1, %r1, %r{10 + i % 16};" for i in range(512))
    uses = "".join(f"add.u32 %r1, %r1, %l{i};" for i in range(128))
    pool = ".reg .b32 %l<128>; .shared .align 128 .b8 pool[8192];"
    address = (
        "mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31; shl.b32 %r2, %r2, 4; mov.b32 %r3, pool; add.u32 %r2, %r2, %r3;"
    )

    def cycles(body: str) -> float:
        return bench.end(bench.cycles(bench.entry("u32 count", f"{pool} {address} {body} ret;"), [1], threads=512))

    alone, both = cycles(f"{products} {uses}"), cycles(f"{loads} {products} {uses}")
    assert both <= alone + 0.15 * 2048


def copy(rounds: int) -> str:
    """Return a kernel whose threads load and store 16 bytes per round."""
    return bench.entry(
        "u64 from,u64 to,u32 rounds",
        """
ld.param.u64 %d1, [from]; ld.param.u64 %d2, [to]; ld.param.u32 %r2, [rounds]; mov.u32 %r1, %tid.x;
mov.u32 %r3, %ctaid.x; mad.lo.u32 %r3, %r3, 1024, %r1; mad.wide.u32 %d1, %r3, 16, %d1; mad.wide.u32 %d2, %r3, 16, %d2;
ROUND: ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d1]; st.global.v4.u32 [%d2], {%r4, %r5, %r6, %r7};
add.u64 %d1, %d1, 2424832; add.u64 %d2, %d2, 2424832; sub.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra ROUND;
ret;""",
    )


def test_loads_and_stores_of_warps_take_bandwidth() -> None:
    data = np.zeros(64 * 2424832, np.uint8)
    found = predicted(copy(64), [data, np.zeros_like(data), 64], 148, 1024)
    moved = 2 * data.nbytes / (found.cycles / (1e9 * B200.max_clock_ghz))
    assert moved <= 1.001e6 * B200.hbm_bytes_per_us
    assert max(found.busy.values()) <= 1.001
    assert moved >= 0.5e6 * B200.hbm_bytes_per_us


def holding(values: int, directives: str = "") -> str:
    """Return a kernel in which `values` loaded values are live at a time."""
    loads = "".join(f"ld.global.u32 %v{i}, [%d1+{4 * i}];" for i in range(values))
    sums = "".join(f"add.u32 %v0, %v0, %v{i}; st.global.u32 [%d1+{4 * i}], %v0;" for i in range(1, values))
    text = bench.entry("u64 data", f".reg .b32 %v<{values}>; ld.param.u64 %d1, [data]; {loads} bar.sync 0; {sums} ret;")
    return text.replace("k(.param .u64 data)", f"k(.param .u64 data) {directives}")


@pytest.mark.parametrize("values", [20, 60, 120])
@pytest.mark.parametrize("installed", [False, True])
def test_registers_limit_how_many_ctas_an_sm_holds(
    values: int, installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if ptxas is missing: then the values that are live in the PTX count."""
    if not installed:
        monkeypatch.setattr(machine_code, "tool", lambda name: None)
    elif machine_code.tool("ptxas") is None:
        pytest.skip("ptxas is not installed")
    found = predicted(holding(values, f"// {installed}\n"), [np.zeros(1024, np.uint8)], 148, 256)
    assert found.registers is not None and values <= found.registers.count <= 1.3 * values + 16
    assert found.registers.how == ("by ptxas" if installed else "estimated from the PTX")
    by_registers = 65536 // (256 * found.registers.allocated)
    assert found.resident == min(by_registers, 8)
    assert found.limit == ("registers" if by_registers < 8 else "threads")


def test_an_estimate_of_registers_keeps_to_what_the_kernel_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "tool", lambda name: None)
    for directives, count in ((".maxnreg 64", 64), (".maxntid 512", 120), (".maxntid 512 .minnctapersm 2", 64)):
        found = predicted(holding(118, directives), [np.zeros(1024, np.uint8)], 148, 256)
        assert found.registers is not None and found.registers.count == pytest.approx(count, abs=4)


@pytest.mark.parametrize(("columns", "operands"), [(64, 48), (128, 64), (256, 96)])
@pytest.mark.parametrize("stages", [3, 6])
def test_the_port_of_shared_memory_moves_no_more_bytes_than_it_can(columns: int, operands: int, stages: int) -> None:
    """Each of a tile's MMAs takes the port for `operands` cycles. The 32 KiB that TMA writes pass beside them."""
    few, many = (taken(stages, tiles, columns, misses={bench.TENSOR: 0.0}) for tiles in (48, 96))
    written = 2 * BYTES / B200.sm_bytes_per_cycle
    assert (many - few) / 48 >= 0.999 * max(TILE * operands, TILE * columns / 2, written)


def test_a_main_loop_takes_no_longer_than_its_slowest_part() -> None:
    """GEMM main loops with tiles of 128x128x64 take 206 ns for 32 KiB, 405 cycles at the highest rate.

    A port of 128 bytes a cycle for TMA's bytes and the operands together would need 512.
    """
    few, many = (taken(6, tiles, 128, misses={bench.TENSOR: 0.0}) for tiles in (48, 96))
    assert (many - few) / 48 <= 1.03 * 256


def test_a_map_that_the_kernel_writes_is_refused_with_the_reason() -> None:
    text = bench.ring_program(1).replace(".param .align 64 .b8 map[128]", ".param .u64 map")
    text = text.replace("mov.b64 %d1, map; cvta.param.u64 %d0, %d1;", "ld.param.u64 %d0, [map];")
    with pytest.raises(UnknownInstruction, match="map of this copy is empty"):
        predicted(text, [np.zeros(128, np.uint8), 512, 2], 1)


def test_an_atomic_on_shared_memory_costs_time_and_decides_nothing() -> None:
    """As in CUTLASS's mixed_input_fmha_decode.py, which takes the maxima of rows so."""
    pool = ".shared .align 8 .b8 pool[64]; mov.u32 %r1, %tid.x; mov.u32 %r2, pool;"
    without, found = (
        predicted(bench.entry("u32 n", f"{pool} {atomic} st.global.u32 [%d1], %r3; ret;"), [1], 1).cycles
        for atomic in ("mov.u32 %r3, %r1;", "atom.shared.cta.max.s32 %r3, [%r2], %r1;")
    )
    assert found > without


@pytest.mark.parametrize("space", ["global", "generic"])
def test_a_counter_in_global_memory_gives_each_cluster_its_share_of_the_tiles(space: str) -> None:
    """As with CTAs that divide the tiles evenly. The launch's counter keeps its value."""
    where = "" if space == "generic" else ".global"
    turn = f"bar.sync 0; @%p3 atom{where}.add.u32 %r2, [%d1], 1; @%p3 st.shared.u32 [%r5], %r2; bar.sync 0;"
    text = bench.entry(
        "b64 next, u32 tiles",
        f""".shared .align 4 .b8 tile[4]; ld.param.u64 %d1, [next]; ld.param.u32 %r4, [tiles]; mov.u32 %r5, tile;
mov.u32 %r1, %tid.x; setp.eq.u32 %p3, %r1, 0;
TURN: {turn} ld.shared.u32 %r3, [%r5]; setp.ge.u32 %p2, %r3, %r4; @%p2 bra DONE;
{"mad.lo.u32 %r6, %r6, %r6, %r6; " * 200} bra TURN;
DONE: ret;""",
    )
    counter = np.zeros(1, np.uint32)
    first, one, two, three = (predicted(text, [counter, tiles], 148).cycles for tiles in (1, 148, 296, 444))
    assert first == one
    assert three - two == pytest.approx(two - one, rel=0.02)
    assert two - one > 200
    assert counter[0] == 0


def fragments(space: str) -> float:
    """Return the LSU's cycles for a fragment of 16x16 in f16 that a warp loads."""
    registers = ", ".join(f"%r{10 + i}" for i in range(8))
    load = f"wmma.load.a.sync.aligned.row.m16n16k16.{space}.f16 {{{registers}}}, [%d1], %r3;"
    text = bench.entry(
        "u64 data,u32 stride,u32 rounds",
        f".shared .align 16 .b8 tile[40960]; ld.param.u64 %d1, [data]; ld.param.u32 %r3, [stride];"
        f"{'mov.u64 %d1, tile;' * (space == 'shared')} {load * 8} ret;",
    )
    found = predicted(text, [np.zeros(1 << 20, np.uint8), 1024, 1], 148)
    return found.busy["shared memory"] * found.cycles / 8


def test_a_fragment_from_global_memory_is_loaded_by_words_of_rows() -> None:
    assert fragments("shared") == pytest.approx(4, rel=0.3)
    assert fragments("global") == pytest.approx(32, rel=0.3)
