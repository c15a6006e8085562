"""The clock: microbenchmark results, contention, named waits, grids, traces."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from test_cp_async_bulk_tensor import tensor_map

from emulator import emulate, launch
from emulator.clock import chips
from emulator.clock.chips import chip
from emulator.clock.power import frequency
from emulator.clock.trace import TENSOR_CORE, THREADS, Trace
from emulator.errors import Deadlock
from lab import clock as bench
from lab import microbenchmarks
from tests.tiers import shortened

B200 = chip("b200")


def ptx(body: str, shared: str = "") -> str:
    return bench.entry("u32 count", f"{shared}\nld.param.u32 %r9, [count];\n{body}\nret;")


def end(body: str, threads: int = 32, shared: str = "", resident: int = 1) -> float:
    return bench.end(bench.cycles(ptx(body, shared), [1], threads=threads, resident=resident))


def chain(count: int, registers: int) -> str:
    """Return `count` ex2 that form as many dependent chains as there are registers."""
    return "\n".join(f"ex2.approx.ftz.f32 %r{i % registers}, %r{i % registers};" for i in range(count))


def test_dependent_instructions_cost_their_latency() -> None:
    assert end(chain(32, 1)) >= 31 * (B200.mufu_latency + B200.mufu_cycles)


def test_independent_instructions_cost_their_pipe() -> None:
    assert end(chain(32, 8)) == pytest.approx(32 * B200.mufu_cycles, rel=0.15)


def test_warps_of_a_sub_partition_share_its_pipes() -> None:
    alone, beside, apart = end(chain(64, 8)), end(chain(64, 8), threads=160), end(chain(64, 8), threads=128)
    assert apart == pytest.approx(alone)
    assert beside == pytest.approx(2 * alone, rel=0.1)


@pytest.mark.parametrize(("first", "second"), [("shl.b32", "add.s32"), ("and.b32", "or.b32")])
def test_two_of_which_the_machine_makes_one_cost_one(first: str, second: str) -> None:
    pairs = [f"{first} %r{10 + i}, %r9, 4; {second} %r{22 + i}, %r{10 + i}, %r9;" for i in range(12)]
    uses = [f"xor.b32 %r{34 + i % 4}, %r{10 + i}, %r9;" for i in range(12)]
    assert end("".join(pairs)) == pytest.approx(12 * B200.alu_cycles, abs=B200.alu_latency)
    assert end("".join(pairs + uses)) >= 36 * B200.alu_cycles


def test_shared_memory_of_another_cta_is_far_and_narrow() -> None:
    def loads(space: str, chained: bool) -> float:
        at, to = ("%r7", "%r7") if chained else ("%r6", "%r{}")
        body = "".join(f"ld{space}.v4.u32 {{{to.format(10 + i % 8)}, %r20, %r21, %r22}}, [{at}];" for i in range(8))
        return end(f"mov.b32 %r7, pool; mov.b32 %r6, pool; {body}", shared=".shared .align 16 .b8 pool[16];")

    assert loads(".shared::cluster", True) >= 7 * B200.peer_latency > 4 * loads(".shared", True)
    assert loads(".shared::cluster", False) >= 8 * 512 / B200.peer_bytes_per_cycle > 4 * loads(".shared", False)


@pytest.mark.parametrize("op", ["pingpong", "peer arrive", "peer st.async"])
def test_a_phase_is_handed_on_in_what_was_measured(op: str) -> None:
    row = next(row for row in microbenchmarks.rows("sync") if row["op"] == op)
    assert bench.round_cycles(microbenchmarks.sync(row), bench.H200) == pytest.approx(float(row["cycles"]), rel=0.1)


def test_loads_of_tensor_memory_are_waited_for_though_their_values_are_data() -> None:
    loads = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r5}, [%r6]; tcgen05.wait::ld.sync.aligned;" * 8
    assert end(f"mov.b32 %r6, 0; {loads}") >= 8 * B200.tmem_latency


def deciding(semantics: str, chained: bool) -> float:
    """Return the cycles of eight loads that decide a branch."""
    loads = "".join(
        f"ld{semantics}.shared.u32 %r{10 + i}, [%r{9 + i if chained and i else 8}]; or.b32 %r7, %r7, %r{10 + i};"
        for i in range(8)
    )
    body = f"mov.b32 %r7, 0; mov.b32 %r8, pool; {loads} setp.ne.u32 %p0, %r7, 0; @%p0 bra END; END:"
    return end(body, shared=".shared .align 16 .b8 pool[16];")


def test_loads_that_decide_where_a_warp_goes_are_under_way_together() -> None:
    assert deciding("", chained=False) < 3 * B200.shared_latency
    assert deciding("", chained=True) >= 8 * B200.shared_latency
    assert deciding(".volatile", chained=False) >= 8 * B200.shared_latency


def test_a_weak_load_is_made_again_only_when_time_has_passed() -> None:
    """Another warp stores the value that ends the polling loop."""
    body = """mov.u32 %r1, %tid.x; mov.b32 %r2, word; mov.b32 %r4, 0; mov.b32 %r5, 1; setp.lt.u32 %p0, %r1, 32;
@%p0 bra POLL;
{work}
st.shared.u32 [%r2], %r5;
bra END;
POLL: ld.shared.u32 %r3, [%r2]; setp.eq.u32 %p1, %r3, 0; @%p1 bra POLL;
END:"""
    taken = end(body.format(work=chain(32, 1)), threads=64, shared=".shared .align 4 .b8 word[4];")
    assert taken >= 31 * B200.mufu_latency


def parts(count: int, hand_on: str) -> str:
    """Return `count` groups of eight ex2; each group publishes one value."""
    regs = [f"%r{20 + i}" for i in range(8)]
    one = "".join(f"ex2.approx.ftz.f32 {r}, {r};" for r in regs) + f"cvt.rn.bf16x2.f32 %r11, {regs[-1]}, {regs[0]};"
    return "mov.b32 %r6, 0;" + "".join(f"{one}{hand_on.format(part=part)}" for part in range(count))


STORE = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r6], {{%r11}};"
ARRIVAL = "elect.sync _|%p1, -1; @!%p1 bra PART{part}; mbarrier.arrive.shared.b64 _, [%r12]; PART{part}:"


@pytest.mark.parametrize("hand_on", [STORE, STORE + ARRIVAL])
def test_chains_go_on_while_a_part_is_handed_on(hand_on: str) -> None:
    setup = "mov.b32 %r12, bar; mbarrier.init.shared.b64 [%r12], 64;"
    taken = end(setup + parts(8, hand_on), shared=".shared .align 8 .b8 bar[8];")
    assert taken == pytest.approx(64 * B200.mufu_cycles, rel=0.1)


def waited(work: str) -> float:
    """Return the cycles that a warp waits for the arrival of another warp after `work`. %r2: mbarrier and 8 bytes."""
    body = f"""
mov.u32 %r1, %tid.x; mov.b32 %r2, bar; setp.eq.u32 %p0, %r1, 0; setp.lt.u32 %p1, %r1, 32;
@%p0 mbarrier.init.shared.b64 [%r2], 1;
bar.sync 0;
@%p1 bra WAIT;
{work}
setp.eq.u32 %p2, %r1, 32;
@%p2 mbarrier.arrive.shared.b64 _, [%r2];
bra END;
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; @%p3 bra END; bra WAIT;
END:"""
    timeline = bench.cycles(ptx(body, ".shared .align 8 .b8 bar[16];"), [1], threads=64)
    (wait,) = (w for w in timeline.finished[0].ctas[0].warps[0].waits.values() if w.what in ("bar", "bar[0]"))
    return float(wait.cycles)


def test_an_arrival_comes_after_what_was_stored_before_it() -> None:
    assert waited(f"{chain(32, 1)} st.shared.b32 [%r2+8], %r0;") > 31 * (B200.mufu_latency + B200.mufu_cycles)


def test_what_a_load_of_tensor_memory_gave_is_used_while_the_next_is_under_way() -> None:
    load = "tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{}}}, [%r6];\n"
    registers = [f"%f{i}" for i in range(64)]
    loads = "".join(load.format(", ".join(registers[i : i + 32])) for i in (0, 32))
    uses = "".join(f"max.f32 %f{64 + i % 4}, %f{64 + i % 4}, {r};" for i, r in enumerate(registers))
    body = f".reg .f32 %f<68>; mov.b32 %r6, 0; {loads} tcgen05.wait::ld.sync.aligned; {uses}"
    each = 4 * 32 * 32 / B200.tmem_bytes_per_cycle
    assert end(body) == pytest.approx(each + B200.tmem_latency + 64 * B200.alu_cycles, abs=B200.alu_latency)


@pytest.mark.parametrize("number", [0, 60, 200])
def test_one_mma_takes_what_was_measured(number: int) -> None:
    row = bench.rows("umma")[number]
    more = (bench.group_cycles(row, 64) - bench.group_cycles(row, 32)) / 32
    assert more == pytest.approx(float(row["interval"]), rel=0.1)
    assert bench.group_cycles(row, 1) - B200.mma_group_overhead == pytest.approx(float(row["latency"]), rel=0.15)


def test_a_wait_ends_with_the_last_arrival() -> None:
    assert waited("nanosleep.u32 1000;") == pytest.approx(1000 * B200.max_clock_ghz, rel=0.05)


def test_a_phase_that_never_ends_is_a_deadlock() -> None:
    body = """
mov.b32 %r2, bar; mov.u32 %r1, %tid.x; setp.eq.u32 %p0, %r1, 0;
@%p0 mbarrier.init.shared.b64 [%r2], 1;
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; @%p3 bra END; bra WAIT;
END:"""
    with pytest.raises(Deadlock, match="modelled time"):
        end(body, shared=".shared .align 8 .b8 bar[8];")


@pytest.mark.parametrize(
    ("hint", "cycles"), [("", B200.try_wait_cycles), (", 0", 1e3 * B200.try_wait_hint_us * B200.max_clock_ghz)]
)
def test_a_try_wait_fails_after_a_while(hint: str, cycles: float) -> None:
    """The kernel looks once at a phase that never ends, and goes on without it."""
    body = f"""mov.b32 %r2, bar; mov.u32 %r1, %tid.x; setp.eq.u32 %p0, %r1, 0; @%p0 mbarrier.init.shared.b64 [%r2], 1;
mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0{hint}; @%p3 trap;"""
    assert end(body, shared=".shared .align 8 .b8 bar[8];") == pytest.approx(cycles, abs=20)


@pytest.mark.parametrize(
    "again",
    [
        "@%p3 bra END; bra WAIT;",
        "@!%p3 bra WAIT;",
        "selp.b32 %r3, 1, 0, %p3; setp.eq.u32 %p4, %r3, 0; @%p4 bra WAIT;",
    ],
)
def test_a_wait_that_is_only_repeated_ends_with_its_phase(again: str) -> None:
    body = f"""mov.u32 %r1, %tid.x; mov.b32 %r2, bar; setp.eq.u32 %p0, %r1, 0; setp.lt.u32 %p1, %r1, 32;
@%p0 mbarrier.init.shared.b64 [%r2], 1;
bar.sync 0;
@%p1 bra WAIT;
nanosleep.u32 1000; setp.eq.u32 %p2, %r1, 32; @%p2 mbarrier.arrive.shared.b64 _, [%r2]; bra END;
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; {again}
END:"""
    timeline = bench.cycles(ptx(body, ".shared .align 8 .b8 bar[8];"), [1], threads=64)
    (wait,) = (w for w in timeline.finished[0].ctas[0].warps[0].waits.values() if w.what in ("bar", "bar[0]"))
    assert wait.times == 1 and wait.cycles > 10 * B200.try_wait_cycles


def test_a_wait_whose_failure_is_counted_is_tried_again() -> None:
    body = """mov.u32 %r1, %tid.x; mov.b32 %r2, bar; setp.eq.u32 %p0, %r1, 0; setp.lt.u32 %p1, %r1, 32; mov.b32 %r3, 0;
@%p0 mbarrier.init.shared.b64 [%r2], 1;
bar.sync 0;
@%p1 bra WAIT;
nanosleep.u32 1000; setp.eq.u32 %p2, %r1, 32; @%p2 mbarrier.arrive.shared.b64 _, [%r2]; bra END;
WAIT: add.u32 %r3, %r3, 1; setp.gt.u32 %p4, %r3, 5; @%p4 bra END;
mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; @!%p3 bra WAIT;
END:"""
    timeline = bench.cycles(ptx(body, ".shared .align 8 .b8 bar[8];"), [1], threads=64)
    (wait,) = (w for w in timeline.finished[0].ctas[0].warps[0].waits.values() if w.what in ("bar", "bar[0]"))
    assert wait.times == 5 and wait.cycles == pytest.approx(5 * (B200.try_wait_cycles - B200.try_wait_latency))


def test_bytes_in_flight_bound_a_load() -> None:
    (slow, fast) = (row for row in bench.rows("tma_throughput") if row["box_rows"] == "32" and row["stages"] in "14")
    box, size = (128, 32), 4 * 128 * 32

    def each(stages: str) -> float:
        text = bench.ring_program(int(stages))
        few, many = (
            bench.end(bench.cycles(text, [bench.tensor_map(128, 1 << 20, box), size, n], threads=32)) for n in (20, 60)
        )
        return (many - few) / 40

    for row in (slow, fast):
        assert each(row["stages"]) == pytest.approx(float(row["cycles_per_load"]), rel=0.15)


def test_the_trace_has_every_track() -> None:
    row, trace = bench.rows("umma")[0], Trace()
    text = bench.mma_program(row["kind"], False, 1)
    idesc = bench.KIND[row["kind"]][1] | int(row["n"]) >> 3 << 17 | int(row["m"]) >> 4 << 24
    bench.cycles(text, [idesc, 2, 1, 0], threads=128, trace=trace)
    events = json.loads(trace.json())["traceEvents"]
    names = {e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    assert {"warp 0", "warp 3", "tensor core"} <= names
    assert len([e for e in events if e["name"] == "tcgen05.mma"]) == 32
    shown = [e for e in events if e["ph"] == "X"]
    assert all(type(e["ts"]) is int and e["dur"] >= 0 for e in shown), "fractions of a nanosecond are dropped"
    for track in range(4):
        warp = sorted((e["ts"], e["ts"] + e["dur"]) for e in shown if e["tid"] == THREADS + track)
        assert all(end <= start for (_, end), (start, _) in pairwise(warp)), "viewers nest events that overlap"


def test_copies_that_overlap_have_tracks_of_their_own() -> None:
    trace, box, size = Trace(), (128, 8), 4096
    bench.cycles(bench.ring_program(4), [bench.tensor_map(128, 1 << 20, box), size, 8], threads=32, trace=trace)
    events = json.loads(trace.json())["traceEvents"]
    copies = [e for e in events if e["ph"] == "X" and e["name"] == f"{size} bytes"]
    lanes = {e["tid"] for e in copies}
    assert len(copies) == 12 and len(lanes) == 4
    for lane in lanes:
        on = sorted((e["ts"], e["ts"] + e["dur"]) for e in copies if e["tid"] == lane)
        assert all(end <= start for (_, end), (start, _) in pairwise(on))
    ends = {(e["tid"], e["ts"] + e["dur"] - 1) for e in copies}
    arrows = [e for e in events if e["ph"] == "s"]
    assert arrows and all((e["tid"], e["ts"]) in ends for e in arrows)


def test_what_takes_no_time_is_not_in_the_trace() -> None:
    trace, warp = Trace(), SimpleNamespace(segment=SimpleNamespace(line=1), cta=SimpleNamespace(rank=0), index=0)
    trace.ran(warp, 5.0, 5.0)
    trace.ran(warp, 7.0, 9.0)
    shown = [event["ts"] for event in json.loads(trace.json())["traceEvents"] if event["ph"] == "X"]
    assert shown == [7]


def test_what_ended_a_wait_leads_to_it_in_the_trace() -> None:
    """Four warps wait for each of two commits. An arrow leads from the tensor core's slice to each wait's end."""
    row, trace = bench.rows("umma")[0], Trace()
    idesc = bench.KIND[row["kind"]][1] | int(row["n"]) >> 3 << 17 | int(row["m"]) >> 4 << 24
    bench.cycles(bench.mma_program(row["kind"], False, 1), [idesc, 2, 1, 0], threads=128, trace=trace)
    events = json.loads(trace.json())["traceEvents"]
    begin, end = ({e["id"]: e for e in events if e["ph"] == phase} for phase in "sf")
    assert len(begin) == 8 and begin.keys() == end.keys()
    for number, arrow in begin.items():
        mmas = [e for e in events if e["ph"] == "X" and e["tid"] == arrow["tid"] == THREADS + TENSOR_CORE]
        assert any(e["ts"] <= arrow["ts"] < e["ts"] + e["dur"] for e in mmas)
        waits = [e for e in events if e["ph"] == "X" and e["tid"] == end[number]["tid"] and "waits" in e["name"]]
        assert any(e["ts"] + e["dur"] == end[number]["ts"] for e in waits)


@pytest.mark.parametrize("name", ["b200", "h200"])
def test_fewer_cycles_for_the_same_products_never_take_longer(name: str) -> None:
    cycles = range(100, 2000)
    assert all(a < b for a, b in pairwise(c / frequency(chip(name), 100 / c) for c in cycles))


@pytest.fixture
def weaker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[float], str]:
    """Return a function that makes a B200 whose power limits the frequency while its tensor cores are busy."""
    monkeypatch.setattr(chips, "FOLDER", tmp_path)
    known = (Path(chips.__file__).parent / "b200.toml").read_text()

    def limited(ghz: float) -> str:
        name = f"b200-{ghz}"
        (tmp_path / f"{name}.toml").write_text(known.replace("[busy_ghz]\nvalue = 1.325", f"[busy_ghz]\nvalue = {ghz}"))
        return name

    return limited


@pytest.mark.long
@pytest.mark.parametrize(("columns", "least", "most"), shortened(0, [(256, 1.1, 1.15), (32, 1.0, 1.04)], in_ci=1))
def test_power_lengthens_what_the_tensor_cores_bound(
    weaker: Callable[[float], str], columns: int, least: float, most: float
) -> None:
    """A round copies 16 bytes per thread from HBM, which takes 83 cycles at the highest frequency, beside one MMA."""
    text = bench.entry(
        "u32 rounds,u64 data,u32 idesc",
        """
.shared .align 16 .b8 window[2048]; .shared .align 8 .b8 bar[8];
ld.param.u32 %r3, [rounds]; ld.param.u64 %d1, [data]; ld.param.u32 %r9, [idesc];
mov.u32 %r1, %tid.x; mov.b32 %r4, bar; mov.b32 %r8, 0; mov.b64 %d2, 0; mov.b64 %d3, 0; mov.b32 %r5, window;
mov.u32 %r6, %ctaid.x; mad.lo.u32 %r6, %r6, 128, %r1; mad.wide.u32 %d1, %r6, 16, %d1;
setp.eq.u32 %p0, %r1, 0; setp.lt.u32 %p1, %r1, 32; elect.sync _|%p3, -1; and.pred %p1, %p1, %p3;
@%p0 mbarrier.init.shared.b64 [%r4], 1;
bar.sync 0;
ROUND: cp.async.wait_group 63;
cp.async.ca.shared.global [%r5], [%d1], 16; add.u64 %d1, %d1, 303104;
cp.async.commit_group;
@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r8], %d2, %d3, %r9, %p0;
sub.u32 %r3, %r3, 1; setp.ne.u32 %p2, %r3, 0; @%p2 bra ROUND;
@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4];
WAIT: mbarrier.try_wait.parity.shared.b64 %p4, [%r4], 0; @%p4 bra DONE; bra WAIT;
DONE: cp.async.wait_group 0;
ret;""",
    )
    idesc = bench.KIND["BF16"][1] | columns >> 3 << 17 | 128 >> 4 << 24
    data, found = np.zeros(500 * 303104, np.uint8), []
    for ghz in (1.325, 1.17):
        name = weaker(ghz)
        with emulate(clock=name):
            predicted = launch(text, args=[500, data, idesc], grid=148, block=128).prediction
        assert predicted is not None
        assert predicted.ghz == pytest.approx(frequency(chip(name), predicted.busy["tensor core"]), rel=0.01)
        found.append(predicted.seconds)
    assert least <= found[-1] / found[0] <= most


def test_half_of_the_rows_are_half_of_the_products() -> None:
    def busy(rows: int) -> dict[str | int, float]:
        row = next(r for r in bench.rows("umma") if (r["kind"], r["m"], r["ctas"]) == ("BF16", str(rows), "1"))
        text = bench.mma_program(row["kind"], row["a_from"] == "tmem", 1)
        idesc = bench.KIND["BF16"][1] | 128 >> 3 << 17 | rows >> 4 << 24
        return bench.cycles(text, [idesc, 1, 4, 0], threads=128).sms[0].busy

    half, full = busy(64), busy(128)
    assert full["products"] == full["tensor core"] == half["tensor core"] == 2 * half["products"]


@pytest.mark.parametrize("body", ["@%p1 brkpt;", "@%p1 trap;"])
def test_a_stop_that_is_not_reached_costs_a_slot(body: str) -> None:
    assert end(f"setp.ne.u32 %p1, %r9, 1; {body}") < 20


def test_a_load_of_128_bits_may_decide_where_a_warp_goes() -> None:
    body = """.reg .b128 %q0; mov.b32 %r1, pool; ld.shared.b128 %q0, [%r1];
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p6, %q0; @%p6 trap;"""
    assert end(body, shared=".shared .align 16 .b8 pool[16];") >= B200.shared_latency


def test_ctas_that_take_over_others_count_what_these_would() -> None:
    text = bench.entry(
        "u32 idesc",
        """.reg .b128 %q0;
.shared .align 16 .b8 answer[16]; .shared .align 8 .b8 bar[8]; .shared .align 8 .b8 done[8];
ld.param.u32 %r1, [idesc]; mov.b32 %r8, 0; mov.b64 %d1, 0; mov.b64 %d2, 0; setp.ne.u32 %p2, %r1, %r1;
mov.b32 %r10, bar; mov.b32 %r11, answer; mov.b32 %r12, done; mov.b32 %r13, 0; elect.sync _|%p1, -1;
@%p1 mbarrier.init.shared.b64 [%r10], 1; @%p1 mbarrier.init.shared.b64 [%r12], 1; bar.sync 0;
ROUND: @%p1 tcgen05.mma.cta_group::1.kind::f16 [%r8], %d1, %d2, %r1, %p2;
@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r12];
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 16;
@%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r11], [%r10];
MADE: mbarrier.try_wait.parity.shared.b64 %p5, [%r12], %r13; @!%p5 bra MADE;
ASKED: mbarrier.try_wait.parity.shared.b64 %p5, [%r10], %r13; @!%p5 bra ASKED;
xor.b32 %r13, %r13, 1; ld.shared.v2.b64 {%d3, %d4}, [%r11]; mov.b128 %q0, {%d3, %d4};
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p6, %q0; @%p6 bra ROUND;
ret;""",
    )
    with emulate(clock="b200"):
        found = launch(text, "k", grid=500, block=32, args=[bench.KIND["BF16"][1] | 128 >> 3 << 17 | 128 >> 4 << 24])
    assert found.prediction is not None
    assert found.prediction.flops == pytest.approx(500 * 2 * 128 * 128 * 16, rel=0.05)


@pytest.mark.parametrize(("kind", "times"), [(".nc", 1), ("", 4)])
def test_loads_of_what_nothing_writes_go_before_copies(kind: str, times: int) -> None:
    """Each copy's source is the value of a load. ptxas may not move loads other than .nc across copies."""
    one = f"ld.global{kind}.u32 %r{{at}}, [%d1]; tcgen05.cp.cta_group::1.128x256b [%r{{at}}], %d1;"
    body = "".join(one.format(at=20 + i) for i in range(4))
    taken = end(f"mov.b64 %d1, 4096; {body}")
    assert times * B200.global_latency <= taken < (times + 1) * B200.global_latency


def test_what_all_ctas_copy_comes_from_hbm_once() -> None:
    text = bench.copy_program(4, 16).replace("mov.b64 %d1, 4096;", "ld.param.u64 %d1, [data];")
    text = text.replace(".param .u32 rounds", ".param .u32 rounds, .param .u64 data")
    with emulate(clock="b200"):
        found = launch(text, args=[64, np.zeros(64, np.float32)], grid=148, block=128)
    assert found.prediction is not None
    assert found.prediction.busy["HBM"] < 0.01 < found.prediction.busy["L2"]


LOAD = """.shared .align 128 .b8 box[16384]; .shared .align 8 .b64 done;
mov.u32 %r1, done; mov.u32 %r2, box; ld.param.u64 %d1, [data]; ld.param.u32 %r3, [ahead]; mov.b32 %r4, 8192;
mbarrier.init.shared.b64 [%r1], 1; setp.ne.u32 %p1, %r3, 0;
@%p1 cp.async.bulk.prefetch.L2.global [%d1], %r3;
nanosleep.u32 3000;
mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 16384;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%d1], %r4, [%r1];
add.u32 %r2, %r2, 8192; add.u64 %d1, %d1, 8192;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%d1], %r4, [%r1];
WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra WAIT;
ret;"""


OTHERS = "ld.param.u64 %d3, [other]; cp.async.bulk.prefetch.L2.global [%d3], 16;"


@pytest.mark.parametrize("before", ["", OTHERS])
def test_what_was_prefetched_comes_from_l2_and_once_from_hbm(before: str) -> None:
    """Also if another tensor was prefetched before it and is never loaded."""
    data, other, cycles, hbm = np.zeros(1 << 22, np.uint8), np.zeros(1 << 22, np.uint8), [], []
    for ahead in (0, 8192, 16384):
        text = bench.entry("u64 data, u32 ahead, u64 other", before + LOAD)
        with emulate(clock="b200"):
            found = launch(text, args=[data, ahead, other], grid=1, block=1).prediction
        assert found is not None
        cycles.append(found.cycles)
        hbm.append(found.busy["HBM"] * found.cycles)
    assert hbm == pytest.approx([hbm[0]] * 3, rel=0.01)
    assert cycles[1] == pytest.approx(cycles[0], abs=50) and cycles[2] < cycles[0] - B200.tma_l2_saving


def test_where_a_prefetched_tensor_lies_in_memory_makes_no_difference() -> None:
    """L2 holds most of a tensor that all CTAs load, and nothing of the one behind it."""
    low, high = sorted((np.zeros(1 << 14, np.uint8), np.zeros(1 << 14, np.uint8)), key=lambda array: array.ctypes.data)
    text = bench.entry("u64 data, u32 ahead, u64 other", OTHERS.replace("16;", "8192;") + LOAD)
    found = []
    for data, other in ((low, high), (high, low)):
        with emulate(clock="b200"):
            found.append(launch(text, args=[data, 0, other], grid=148, block=1).prediction)
    assert found[0] is not None and found[1] is not None and found[0].busy == found[1].busy


GATHER = """.shared .align 128 .b8 box[1024]; .shared .align 8 .b64 done;
mov.u32 %r1, done; mov.u32 %r2, box; ld.param.u64 %d1, [map]; ld.param.u32 %r3, [row]; mov.b32 %r4, 0;
mbarrier.init.shared.b64 [%r1], 1; mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 1024;
{gather} [%r2], [%d1, {{%r4, %r4, %r4, %r4, %r4}}], [%r1];
add.u32 %r2, %r2, 512;
{gather} [%r2], [%d1, {{%r4, %r3, %r3, %r3, %r3}}], [%r1];
WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra WAIT;
ret;"""


def test_rows_that_are_gathered_again_come_from_l2() -> None:
    gather = "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes"
    text, rows, taken = bench.entry("u64 map, u32 row", GATHER.format(gather=gather)), np.zeros((4096, 64), "u2"), []
    raw = np.frombuffer(bytearray(tensor_map(rows, (64, 1), 3)), np.uint8)
    for row in (0, 1):
        with emulate(clock="b200"):
            found = launch(text, args=[raw, row], grid=1, block=1).prediction
        assert found is not None
        taken.append(found.busy["HBM"] * found.cycles)
    assert 2 * taken[0] == pytest.approx(taken[1], rel=0.01)


COPIED = """.shared .align 16 .b8 to[1024]; mov.u32 %r1, %tid.x; mov.u32 %r2, to; mad.lo.u32 %r2, %r1, 16, %r2;
ld.param.u64 %d1, [data]; mad.wide.u32 %d1, %r1, 16, %d1; ld.param.u32 %r3, [away];
cp.async.cg.shared.global [%r2], [%d1], 16; cvt.u64.u32 %d2, %r3; add.u64 %d1, %d1, %d2;
cp.async.cg.shared.global [%r2 + 512], [%d1], 16; cp.async.commit_group; cp.async.wait_group 0; ret;"""
STORED = """mov.u32 %r1, %tid.x; ld.param.u64 %d1, [data]; mad.wide.u32 %d1, %r1, 16, %d1; ld.param.u32 %r3, [away];
setp.lt.u32 %p1, %r1, %r3; mov.b32 %r4, 0; @%p1 st.global.v4.b32 [%d1], {%r4, %r4, %r4, %r4}; ret;"""


@pytest.mark.parametrize(
    ("body", "away", "one"), [(COPIED, (0, 512), 16 * 32), (STORED, (8, 16), 16 * 8)], ids=["cp.async", "st.global"]
)
def test_hbm_has_what_warps_copy_once_and_all_that_they_store(body: str, away: tuple[int, int], one: int) -> None:
    """Twice the bytes if the second copy reads other data, and if twice as many lanes store."""
    text, moved = bench.entry("u64 data, u32 away", body), []
    for each in away:
        with emulate(clock="b200"):
            found = launch(text, args=[np.zeros(1 << 20, np.uint8), each], grid=1, block=32).prediction
        assert found is not None
        moved.append(found.busy["HBM"] * found.cycles * B200.hbm_bytes_per_us / (1e3 * found.ghz))
    assert moved == pytest.approx([one, 2 * one], rel=0.01)


def test_an_address_of_a_parameter_may_be_in_a_register() -> None:
    """The number of rounds comes from a parameter that is loaded through a register."""
    text = bench.copy_program(1, 16).replace(
        "ld.param.u32 %r3, [rounds];", "mov.b64 %d2, rounds; ld.param.u32 %r3, [%d2];"
    )
    few, many = (bench.end(bench.cycles(text, [rounds], threads=32)) for rounds in (2, 20))
    assert many > 5 * few


def test_a_chip_that_has_no_file_is_refused() -> None:
    with pytest.raises(ValueError, match="'b100'; allowed: 'b200' or 'b300' or 'gb300' or 'h100' or 'h200'"):
        chip("b100")


def test_a_b300_is_a_b200_with_twice_the_exponentials() -> None:
    b300 = chip("b300")
    assert (b300.mufu_cycles, b300.mma_latency) == (B200.mufu_cycles / 2, B200.mma_latency)
