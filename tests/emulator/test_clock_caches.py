"""Contents of L2 and L1: bytes that are loaded again, by other SMs, or in whole sectors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from test_clock_laws import B200, predicted
from test_cp_async_bulk_tensor import tensor_map

from emulator.clock.accesses import Placement
from emulator.clock.reuse import Loads, reused
from emulator.machine.launch.globalmem import GlobalMemory
from lab import clock as bench

STREAM = bench.copy_program(16, 16).replace(
    "mov.b64 %d1, 4096;",
    "ld.param.u64 %d1, [data]; mov.u32 %r6, %ctaid.x; mad.lo.u32 %r6, %r6, 128, %r1; mad.wide.u32 %d1, %r6, 16, %d1;",
)
STREAM = STREAM.replace("cp.async.commit_group;", "add.u64 %d1, %d1, 303104; cp.async.commit_group;")
STREAM = STREAM.replace(".param .u32 rounds", ".param .u32 rounds, .param .u64 data")


@pytest.mark.parametrize(("rounds", "fits"), [(100, True), pytest.param(600, False, marks=pytest.mark.thorough)])
def test_a_warm_l2_serves_what_fits(rounds: int, fits: bool) -> None:
    data = np.zeros(rounds * 303104, np.uint8)
    cold, warm = (predicted(STREAM, [rounds, data], 148, 128, l2=state) for state in ("cold", "warm"))
    assert cold.busy["HBM"] > 0.5
    assert (warm.busy["HBM"] == 0 and warm.cycles < 0.7 * cold.cycles) if fits else warm.cycles == cold.cycles


UNUSED = ".global .align 16 .b8 unused[134217728];"
PASS_OVER = bench.entry(
    "u64 data,u32 stride",
    """
ld.param.u64 %d1, [data]; ld.param.u32 %r4, [stride]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.b32 %r3, 256;
mad.wide.u32 %d1, %r1, 16, %d1; mad.wide.u32 %d1, %r2, %r4, %d1;
NEXT: ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%d1]; STORE
add.u64 %d1, %d1, 4096; sub.u32 %r3, %r3, 1; setp.ne.u32 %p1, %r3, 0; @%p1 bra NEXT;
ret;""",
)
"""Each CTA of 256 threads passes over 1 MiB."""


@pytest.mark.parametrize(
    ("text", "mebibytes", "stride", "fits"),
    [
        (PASS_OVER.replace("STORE", "").replace(".visible", f"{UNUSED}\n.visible"), 1, 0, True),
        (PASS_OVER.replace("STORE", "st.global.v4.u32 [%d1], {%r10, %r11, %r12, %r13};"), 80, 1 << 20, True),
        (PASS_OVER.replace("STORE", ""), 160, 1 << 20, False),
    ],
    ids=["another array is larger than L2", "loaded and stored", "larger than L2"],
)
def test_a_warm_l2_holds_the_memory_of_a_launch_if_that_fits(
    text: str, mebibytes: int, stride: int, fits: bool
) -> None:
    ctas = mebibytes if stride else 148
    found = predicted(text, [np.zeros(mebibytes << 20, np.uint8), stride], ctas, 256, l2="warm")
    assert (found.busy["HBM"] == 0) == fits
    assert any("L2 is cold" in text for text in found.assumptions) != fits


def test_loads_of_warps_come_sooner_from_a_warm_l2_and_from_l1() -> None:
    """A chain of four loads in a large array, and in one word that L1 has after the first."""
    chained = "".join("ld.global.u64 %d2, [%d1]; add.u64 %d1, %d2, %d1;" for _ in range(4))
    text = bench.entry("u64 data", f"ld.param.u64 %d1, [data]; {chained} st.global.u64 [%d1], %d2; ret;")
    far, warm, near = (
        predicted(text, [np.zeros(words, np.uint64)], 1, l2=state).cycles
        for words, state in ((4096, "cold"), (4096, "warm"), (1, "cold"))
    )
    assert far - warm == pytest.approx(4 * (B200.global_latency - B200.l2_latency), rel=0.02)
    assert near < warm


def test_bytes_that_another_sm_is_fetching_come_no_sooner_than_from_hbm() -> None:
    """L2 saves its latency only for bytes that it holds already."""
    given: list[int | bytes] = [bench.tensor_map(32, 1 << 20, (32, 4)), 512, 8]

    def cycles(missed: float, merged: float) -> float:
        shares: dict[str, Any] = {"misses": {bench.TENSOR: missed}, "merged": {bench.TENSOR: merged}}
        return bench.end(bench.cycles(bench.ring_program(1), given, threads=32, **shares))

    alone, together, held = cycles(1.0, 0.0), cycles(0.25, 0.75), cycles(0.0, 0.0)
    assert together == pytest.approx(alone, rel=0.02)
    assert alone - held == pytest.approx(9 * B200.tma_l2_saving, rel=0.1)


PANELS, PANEL_ROWS = 37, 128


def panels(panel: str) -> str:
    """Return a kernel whose CTA loads one panel of a tensor, a box at a time. panel: computes its number, %r20."""
    text = bench.ring_program(1).replace(".param .align 64 .b8 map[128]", ".param .u64 map")
    text = text.replace("mov.b64 %d1, map; cvta.param.u64 %d0, %d1;", "ld.param.u64 %d0, [map];")
    text = text.replace(
        "bar.sync 0;", f"mov.u32 %r20, %ctaid.x; {panel} mul.lo.u32 %r21, %r20, {PANEL_ROWS}; bar.sync 0;"
    )
    text = text.replace("{%r10, %r10}]", "{%r10, %r21}]").replace("sub.u32 %r3", "add.u32 %r10, %r10, 32; sub.u32 %r3")
    return text.replace(".shared .align 8 .b8 bar[64];", ".shared .align 8 .b8 bar[64]; .shared .b8 pool[120000];")


def test_what_an_earlier_wave_loaded_comes_from_l2() -> None:
    """A panel that eight CTAs load is fetched once. If they are of one wave they all wait for HBM."""
    loads, count = 64, 8 * PANELS
    data = np.zeros((PANELS * PANEL_ROWS, 32 * (loads + 1)), np.float32)
    raw = np.frombuffer(bytearray(tensor_map(data, (32, PANEL_ROWS), 0)), np.uint8)
    given = [raw, 4 * 32 * PANEL_ROWS, loads]
    near = predicted(panels("shr.u32 %r20, %r20, 3;"), given, count)
    far = predicted(panels(f"rem.u32 %r20, %r20, {PANELS};"), given, count)
    assert (near.resident, near.waves) == (far.resident, far.waves) == (1, 2.0)
    assert near.busy["HBM"] * near.cycles == pytest.approx(far.busy["HBM"] * far.cycles)
    saved = loads * (B200.tma_l2_saving - B200.l2_box_cycles)
    assert near.cycles - far.cycles == pytest.approx(saved * (1 - 1 / 8), rel=0.1)


@pytest.mark.parametrize(("loads", "held"), [(32, True), (64, False)])
def test_boxes_that_a_persistent_cta_loads_again_come_from_l2_if_that_holds_them(loads: int, held: bool) -> None:
    """Also if nobody else loads them. All panels are 74 and 148 MiB; L2 has 126."""
    data = np.zeros((148 * PANEL_ROWS, 32 * loads), np.float32)
    raw = np.frombuffer(bytearray(tensor_map(data, (32, PANEL_ROWS), 0)), np.uint8)
    again = panels("").replace(
        "add.u32 %r10, %r10, 32;", f"add.u32 %r10, %r10, 32; and.b32 %r10, %r10, {32 * loads - 1};"
    )
    once, twice = (predicted(again, [raw, 4 * 32 * PANEL_ROWS, n], 148) for n in (loads, 2 * loads))
    read = (each.busy["HBM"] * each.pace.cycles / each.ghz for each in (twice, once))
    assert next(read) / next(read) == pytest.approx(1 if held else 2, rel=0.02)
    least = 0.9 * loads * (B200.tma_l2_saving - B200.l2_box_cycles)
    assert (once.cycles - (twice.cycles - once.cycles) >= least) == held


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("group", [1, 4, 8, 16])
def test_order_decides_what_a_small_l2_holds(group: int, persistent: bool) -> None:
    """A GEMM's tiles in groups of rows find as much in L2 as in a cache that drops what was used longest ago.

    64 x 64 tiles of 256 x 256 with K of 8,192 on 74 CTA pairs, that load four boxes of A and of B each: 512 MiB in all.
    """
    side, slots, steps, box, held = 64, 74, 4, 1 << 20, 126
    tiles = [(i // (group * side) * group + i % group, i % (group * side) // group) for i in range(side**2)]
    waves = [tiles[i : i + slots] for i in range(0, len(tiles), slots)]
    cache, hits = OrderedDict[tuple[int, ...], None](), 0
    for load in ((at, tile[at], step) for wave in waves for step in range(steps) for tile in wave for at in (0, 1)):
        hits += load in cache
        cache[load] = None
        cache.move_to_end(load)
        if len(cache) > held:
            cache.popitem(last=False)

    def loads(wave: int, done: Sequence[tuple[int, int]], count: int) -> Loads:
        return Loads(wave, {at: [(tile[at], step) for tile in done for step in range(count)] for at in (0, 1)})

    if persistent:
        before, asked, each = [], [loads(0, tiles[i::slots], steps) for i in range(slots)], len(tiles) / slots
    else:
        clusters = [loads(i // slots, [tile], 1) for i, tile in enumerate(tiles)]
        before, asked, each = clusters[: 23 * slots], clusters[23 * slots : 24 * slots], 1.0
    panel = each * steps * box
    found = reused(before, asked, {0: panel, 1: panel}, 0.0, 400 << 10, held * box)
    fetched = sum(each.fetched for each in found.values()) / 2
    assert 1 - fetched == pytest.approx(hits / (2 * steps * len(tiles)), abs=0.02)


WINDOW = """
    ld.param.u64 %d1, [data]; ld.param.u64 %d3, [bytes]; ld.param.u32 %r5, [lanes]; mov.u32 %r1, %tid.x;
    and.b32 %r4, %r1, 31; setp.lt.u32 %p1, %r4, %r5; mul.wide.u32 %d2, %r1, 16; add.u64 %d1, %d1, %d2;
    mov.u32 %r3, %ctaid.x; cvt.u64.u32 %d5, %r3; mul.lo.u64 %d5, %d5, %d3; add.u64 %d1, %d1, %d5;
    mov.u64 %d4, %d3; mov.u64 %d6, %d1; mov.b32 %r2, 0; mov.b32 %r10, 0;
    LOOP: @%p1 ld.global.v4.u32 {%r11, %r12, %r13, %r14}, [%d6]; add.u32 %r10, %r10, %r11;
    add.u64 %d6, %d6, 16384; sub.u64 %d4, %d4, 16384; setp.ne.u64 %p2, %d4, 0; @%p2 bra LOOP;
    mov.u64 %d4, %d3; mov.u64 %d6, %d1; add.u32 %r2, %r2, 1; setp.lt.u32 %p3, %r2, 8; @%p3 bra LOOP;
    st.shared.u32 [0], %r10; ret;"""
"""1,024 threads read a window of their CTA eight times, those of a warp's lanes that are below `lanes`."""


def l2_bytes(kibibytes: int, lanes: int) -> float:
    """Return the bytes that L2 sends each SM for a window, over the window's."""
    text = bench.entry("u64 data,u64 bytes,u32 lanes", WINDOW)
    size = kibibytes << 10
    found = predicted(text, [np.zeros(148 * size, np.uint8), size, lanes], 148, 1024)
    return found.busy["L2"] * found.pace.cycles * B200.l2_share(148) / size


@pytest.mark.parametrize(
    ("kibibytes", "lanes", "times"),
    [(64, 32, 1), (192, 32, 1), (320, 32, 3.65), (512, 32, 6.57), (64, 8, 0.25), (64, 16, 0.5)],
)
def test_l1_holds_a_window_that_is_not_larger(kibibytes: int, lanes: int, times: float) -> None:
    """It drops random lines, so it holds a part of a larger window. Lanes that a guard switches off load nothing.

    A line survives a round of m misses with probability exp(-m / lines): 0.81 of the lines of 512 KiB are missed again.
    """
    assert l2_bytes(kibibytes, lanes) == pytest.approx(times, rel=0.02)


@pytest.mark.parametrize(("first", "second"), [(0x1000, 0x8010), (0x9070, 0x400)])
def test_predictions_do_not_depend_on_where_the_arrays_are(first: int, second: int) -> None:
    """The addresses of a host's arrays are others in each process: predictions of one launch differed by 1.3%."""
    memory = GlobalMemory([(first, 1000, "first"), (second, 300, "second")], True, print)
    placement = Placement()
    addresses = first + 40, second, first + 999, second + 299
    assert [at - placement.shift(at, memory) for at in addresses] == [40, 1024, 999, 1323]


@pytest.mark.parametrize("stride", [4, 8, 32, 128])
def test_lanes_load_whole_sectors_whatever_the_stride(stride: int) -> None:
    """The stride is an argument, so that only the launch knows the sectors."""
    text = bench.entry(
        "u64 data,u64 stride",
        "ld.param.u64 %d1, [data]; ld.param.u64 %d2, [stride]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; "
        "mad.lo.u32 %r1, %r2, 256, %r1; cvt.u64.u32 %d3, %r1; mad.lo.u64 %d1, %d3, %d2, %d1; "
        "ld.global.u32 %r3, [%d1]; st.shared.u32 [0], %r3; ret;",
    )
    ctas = 4096
    found = predicted(text, [np.zeros(ctas * 256 * stride, np.uint8), stride], ctas, 256)
    sectors = found.busy["L2"] * found.pace.cycles * B200.l2_share(148) * 148 / 32
    assert sectors == pytest.approx(ctas * 256 * min(stride, 32) / 32, rel=0.02)
