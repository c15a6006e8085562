"""Predictions: their range, waits and lines, assumptions, and what was never measured."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_cp_async_bulk_tensor import tensor_map

from emulator import emulate, launch
from emulator.clock.chips import DESCRIPTIONS, chip, reading
from emulator.clock.conditions import Conditions
from emulator.clock.grid import GridTime
from emulator.clock.prediction import Prediction
from emulator.clock.profile import Places, roles
from emulator.clock.trace import Trace
from emulator.clock.uncertainty import NEVER_COMPARED, WIDER, classes, mean_error, range_of
from emulator.clock.warps import Waiting
from lab import clock as bench
from lab import microbenchmarks

B200 = chip("b200")
NOT_TIMES = {
    "gpc_sms", "max_clock_ghz", "busy_ghz", "other_power", "zeros_power", "l2_bytes", "mma_flops_per_cycle",
    "smem_bytes_per_cycle", "smem_backlog_cycles", "max_operands", "try_wait_hint_us", "burst_cycles", "mma_pair_smem",
    "mma_pair_least", "mma_delay", "fma_during_mma", "alu_during_mma", "mufu_during_mma",
}  # fmt: skip
"""Figures that ranges leave as they are: sizes, power, and what other figures imply."""


def predicted(text: str, args: list[Any], ctas: int = 1, threads: int = 32, **options: Any) -> Prediction:
    with emulate(clock=options.pop("clock", "b200"), **options):
        found = launch(text, args=args, grid=ctas, block=threads).prediction
    assert found is not None
    return found


EXPONENTIALS = "".join(f"ex2.approx.ftz.f32 %r{10 + i % 8}, %r{10 + i % 8};" for i in range(64))
SIMPLE = bench.entry("u32 rounds", f"{EXPONENTIALS} ret;")


def test_each_figure_is_in_one_class_of_errors() -> None:
    counted = Counter(figure for each in classes() for figure in each.figures)
    assert set(counted.values()) == {1}
    assert set(counted) | NOT_TIMES == {f.name for f in fields(type(B200))} - set(DESCRIPTIONS)


def test_the_sets_that_errors_are_taken_from_exist() -> None:
    """A set of another name would keep its old error for ever."""
    source = Path(bench.__file__).read_text()
    known = {kind.name for kind in microbenchmarks.KINDS}
    for name in {name for each in classes() for sets in each.sets.values() for name in sets} - known:
        written = re.sub("[0-9]+ in flight", "{count} in flight", name.removeprefix("FlashAttention-4: "))
        assert f'{written}"' in source, name


def test_errors_are_renewed_where_all_their_sets_were_compared() -> None:
    text = 'a = { sets = ["x: y", "z"], error = 0.5 }\nb = { sets = ["z", "w"], error = 0.5 }\n'
    means = {"x: y": 0.1, "z": 0.3}
    assert bench.with_errors(text, means) == text.replace('"z"], error = 0.5', '"z"], error = 0.200')


def test_a_range_is_that_of_launches_which_the_same_part_bounds() -> None:
    found = predicted(SIMPLE, [1], ctas=1480, threads=512)
    assert found.bound == "MUFU" and found.range.kind == "SFU" and found.range.points
    low, high = found.seconds_range
    assert (low, high) == (found.seconds * found.range.low, found.seconds * found.range.high) and low < high
    assert predicted(SIMPLE, [1]).range.kind == "launch"


def test_a_range_without_points_is_the_widest_and_says_so() -> None:
    other, none = range_of("shared memory", 0.0, 0.0), range_of("HBM", 0.0, 0.0)
    assert (none.low, none.high) == (other.low, other.high) and "no measured point" in str(none)
    assert range_of("HBM", 0.9, 0.0).kind == "ordinary loads"


def test_a_range_widens_by_what_the_model_lacks_and_names_it() -> None:
    known, more = range_of("tensor core", 0.0, 0.0), range_of("tensor core", 0.0, 0.0, ["dust"])
    assert more.of(1.0) == pytest.approx((known.low**WIDER, known.high**WIDER)) and "not modelled: dust" in str(more)


def test_a_chips_mean_error_counts_what_was_compared_with_it() -> None:
    known = [error for each in classes() if (error := each.error("b200")) is not None]
    assert min(known) < mean_error("b200") < max(known) < NEVER_COMPARED
    assert mean_error("b200") == pytest.approx(sum(known) / len(known)) != mean_error("h200")


def test_a_chip_that_is_like_another_one_has_its_errors() -> None:
    each = next(each for each in classes() if "mma_latency" in each.figures)
    assert each.error("b300") == each.error("b200") != each.error("h200")


def test_figures_are_noted_where_they_are_read() -> None:
    noting, names = reading(B200)
    assert noting.alu_latency == B200.alu_latency and noting.hbm_share(148, 1.0) == B200.hbm_share(148, 1.0)
    assert names == {"alu_latency", "hbm_bytes_per_us"}


PEER = "mapa.u64 %d2, %d1, 1; ld.shared::cluster.u32 %r10, [%r1]; add.u32 %r10, %r10, %r10;"


def test_assumptions_are_those_of_figures_that_the_kernel_needs() -> None:
    alone, peers = (predicted(bench.entry("u32 n", f"{body} {EXPONENTIALS} ret;"), [1]) for body in ("", PEER))
    assert not any("peer" in text or "gpc_sms" in text or "TMA" in text for text in alone.assumptions)
    assert any(text.startswith("peer_bytes_per_cycle") for text in peers.assumptions)
    assert peers.never_compared != alone.never_compared
    assert len(alone.assumptions) <= 4 and len(set(alone.assumptions)) == len(alone.assumptions)


GATHER = """
.shared .align 8 .b8 bar[8]; .shared .align 128 .b8 to[512];
ld.param.u64 %d1, [map]; mov.b32 %r1, bar; mov.b32 %r2, to; mov.b32 %r4, 0;
mbarrier.init.shared.b64 [%r1], 1; mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 512;
cp.async.bulk.tensor.2d.shared::cta.global{gather}.mbarrier::complete_tx::bytes [%r2], [%d1, {rows}], [%r1];
WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra WAIT;
ret;"""


@pytest.mark.parametrize(
    ("gather", "rows", "box", "what"),
    [
        (".tile::gather4", "{%r4, %r4, %r4, %r4, %r4}", (64, 1), "TMA gathers"),
        ("", "{%r4, %r4}", (8, 32), "TMA boxes with rows of less than 32 bytes"),
        ("", "{%r4, %r4}", (16, 16), ""),
    ],
)
def test_what_was_never_measured_is_named(gather: str, rows: str, box: tuple[int, int], what: str) -> None:
    text = bench.entry("u64 map", GATHER.format(gather=gather, rows=rows))
    raw = np.frombuffer(bytearray(tensor_map(np.zeros((64, 64), "u2"), box, 3 if gather else 0)), np.uint8)
    named = set(predicted(text, [raw]).never_compared) - {"launch and start of CTAs"}
    assert named == ({what} if what else set())


ACCESSES = """
.shared .align 128 .b8 pool[8192]; mov.u32 %r1, %tid.x; mov.b32 %r3, pool; mad.lo.u32 %r2, %r1, 128, %r3;
mov.b64 %d1, 4096; mad.wide.u32 %d2, %r1, 64, %d1;
st.shared.u32 [%r2], %r1;
ld.global.u32 %r4, [%d2]; st.shared.u32 [%r3], %r4; ret;"""


def test_bank_conflicts_and_sectors_are_shown_by_line() -> None:
    text = bench.entry("u64 data", ACCESSES)
    found = predicted(text, [np.zeros(4096, np.uint8)])
    line = {name: 1 + text[: text.index(name)].count("\n") for name in ("st.shared.u32 [%r2]", "ld.global")}
    assert [(each.where, each.conflicts) for each in found.lines if each.conflicts] == [
        (f"PTX line {line['st.shared.u32 [%r2]']}", 31)
    ]
    assert [(each.where, each.wasted) for each in found.lines if each.wasted] == [
        (f"PTX line {line['ld.global']}", 32 * (32 - 4))
    ]
    assert "bank conflicts: 31 cycles" in str(found) and "sectors: 896 bytes" in str(found)
    assert "loads and stores of warps, global and generic" in found.never_compared


GENERIC = """
.shared .align 128 .b8 pool[8192]; mov.u32 %r1, %tid.x; mov.b64 %d1, pool; cvta.shared.u64 %d2, %d1;
ld.param.u64 %d4, [data]; mul.wide.u32 %d3, %r1, 128; add.u64 %d5, %d2, %d3; add.u64 %d6, %d4, %d3; """


@pytest.mark.parametrize(("address", "is_global"), [("%d5", False), ("%d6", True)])
def test_generic_loads_are_of_the_memory_that_their_address_points_to(address: str, is_global: bool) -> None:
    body = "".join(f"ld.u32 %r{10 + i % 16}, [{address}];" for i in range(64))
    found = predicted(bench.entry("u64 data", f"{GENERIC}{body} ret;"), [np.zeros(4096, np.uint8)])
    assert sum(line.conflicts for line in found.lines) == (0 if is_global else 64 * 31)
    assert sum(line.wasted for line in found.lines) == (64 * 32 * 28 if is_global else 0)
    assert ("loads and stores of warps, global and generic" in found.never_compared) == is_global


@pytest.mark.parametrize(("lane", "lines"), [("%r2", 1), ("%r3", 32), ("%r4", 2)])
def test_rows_of_unknown_length_are_lines_of_their_own(lane: str, lines: int) -> None:
    """Lanes of different rows of a matrix, whose length is a parameter, take a cycle and a sector each."""
    rows = "mul.lo.u32 %r3, %r1, %r2; shr.u32 %r5, %r1, 4; and.b32 %r6, %r1, 15; mad.lo.u32 %r4, %r5, %r2, %r6;"
    head = f"ld.param.u64 %d1, [data]; ld.param.u32 %r2, [length]; mov.u32 %r1, %tid.x; {rows}"
    body = "".join(f"ld.global.u32 %r{10 + i % 16}, [%d3];" for i in range(64))
    text = bench.entry("u64 data,u32 length", f"{head} mul.wide.u32 %d2, {lane}, 4; add.u64 %d3, %d1, %d2; {body} ret;")
    found = predicted(text, [np.zeros(4096, np.uint8), 64])
    assert found.busy["shared memory"] * found.cycles * 148 == pytest.approx(64 * lines)
    assert sum(line.conflicts for line in found.lines) == 0


def test_lines_say_where_all_warps_spend_their_time() -> None:
    found = predicted(SIMPLE, [1], threads=128)
    (line,) = (each for each in found.lines if each.share > 0.5)
    assert line.share * found.cycles == pytest.approx(64 * B200.mufu_cycles, rel=0.1)
    assert line.issued == pytest.approx(line.share / B200.mufu_cycles, rel=0.1)


def waiting(what: str, line: int, cycles: float) -> tuple[tuple[int, str], Waiting]:
    return (line, what), Waiting(what, 2, cycles)


def test_waits_are_merged_by_barrier_array_and_source_line() -> None:
    """Barriers of one array, or without a name, in one source line are one wait."""
    timeline = bench.cycles(SIMPLE, [1], threads=32)
    (cluster,) = timeline.finished
    cluster.ctas[0].warps[0].waits = dict(
        waiting(what, line, cycles)
        for what, line, cycles in (
            ("full[0]", 7, 30.0),
            ("full[1]", 8, 40.0),
            ("empty[0]", 9, 50.0),
            ("mbarrier #3 at 0x18", 7, 20.0),
            ("mbarrier #4 at 0x20", 8, 5.0),
        )
    )

    class Same(Places):
        def __init__(self) -> None:
            pass

        def source(self, line: int) -> str:
            return "kernel.py:1" if line < 9 else "kernel.py:2"

    executed = type("Executed", (), {"cluster": cluster, "share": 1.0})()
    (role,) = roles(GridTime(1.0, None, [executed]), timeline.segments, Same())  # type: ignore[arg-type]
    assert [(w.what, w.where, w.line, w.cycles, w.times) for w in role.waits] == [
        ("full", "kernel.py:1", 8, 70, 4),
        ("empty[0]", "kernel.py:2", 9, 50, 2),
        ("2 mbarriers", "kernel.py:1", 7, 25, 4),
    ]


def test_a_roofline_has_the_lower_of_two_bounds() -> None:
    text, idesc = bench.mma_program("BF16", False, 1), bench.KIND["BF16"][1] | 256 >> 3 << 17 | 128 >> 4 << 24
    found = predicted(text, [idesc, 100, 8, 0], 148, 128)
    assert found.roofline is not None and found.roofline.hbm == np.inf
    assert found.roofline.tflops == pytest.approx(8192 * B200.sms * found.ghz / 1e3)
    assert 0.9 < found.tflops / found.roofline.tflops < 1
    assert predicted(SIMPLE, [1]).roofline is None
    assert replace(found.roofline, hbm=1.0).tflops == 1.0


def test_json_has_all_but_the_trace() -> None:
    found = predicted(SIMPLE, [1], trace=True)
    written = json.loads(json.dumps(found.as_json()))
    assert written["cycles"] == found.cycles and written["bound"] == found.bound and "trace" not in written
    assert written["roles"][0]["warps"] == [0] and written["conditions"]["l2"] == "cold"


def test_a_trace_has_source_lines() -> None:
    trace = Trace()
    trace.source = lambda line: f"kernel.py:{line}" if line == 700 else ""
    trace.events = []
    bench.cycles(SIMPLE, [1], threads=32, trace=trace)
    trace._add(type("Warp", (), {"cta": type("Cta", (), {"rank": 0})()})(), 0, "runs", 0.0, 5.0, 700)
    args = [event["args"] for event in json.loads(trace.json())["traceEvents"] if event["ph"] == "X"]
    assert {"PTX line": 700, "source": "kernel.py:700"} in args
    assert any("source" not in each for each in args)


def test_a_barrier_that_one_of_two_warps_waits_for_is_waited_for_half_a_time() -> None:
    text = bench.entry("u32 n", f"{EXPONENTIALS} bar.sync 0; ret;")
    assert "warps 0 to 1 (0.5 times)" in str(predicted(text, [1], threads=64, clock="b200"))


def test_a_script_without_torch_is_predicted_where_torch_is_missing(tmp_path: Path) -> None:
    """`launch` needs the emulated host no more than torch does."""
    script, found = tmp_path / "script.py", tmp_path / "found.json"
    script.write_text(f"from emulator import launch\nlaunch({SIMPLE!r}, args=[1], grid=1, block=32)")
    hidden = (
        "import sys; sys.modules['torch'] = None; from emulator.commands.main import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", hidden, "time", "--json", str(found), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [each["kernel"] for each in json.loads(found.read_text())] == ["k"]


def test_a_warp_that_stores_faster_than_the_sm_sends_waits_for_its_stores() -> None:
    """Each lane stores to a sector of its own, as a GEMM's epilogue in which a thread has a row."""
    stores = "".join(f"st.global.u32 [%d2+{4 * i}], %r9;" for i in range(8))
    text = bench.entry(
        "u64 data",
        f"""ld.param.u64 %d1, [data]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4096; add.u64 %d2, %d1, %d2;
ex2.approx.ftz.f32 %r9, %r9; {stores * 8} ret;""",
    )
    found = predicted(text, [np.zeros((32, 1024), np.uint32)])
    (role,) = found.roles
    stalled = sum(wait.cycles for wait in role.waits if wait.what == "earlier stores")
    assert stalled > 0.5 * found.cycles
    assert stalled + role.running <= found.cycles


def test_a_wait_for_a_load_from_memory_is_no_running() -> None:
    """Its value is used at once. Nsight Compute counts the cycles until then as long scoreboard stalls."""
    body = "ld.param.u64 %d1, [data]; ld.global.u32 %r1, [%d1]; add.u32 %r1, %r1, 1; st.global.u32 [%d1], %r1; ret;"
    found = predicted(bench.entry("u64 data", body), [np.zeros(8, np.uint32)], trace=True)
    (role,) = found.roles
    assert role.stalls["long scoreboard"] == pytest.approx(B200.global_latency, rel=0.02)
    assert role.running < 0.1 * B200.global_latency
    assert sum(role.parts.values()) == pytest.approx(role.running) and 0 < role.parts["issuing"] < 10
    (wait,) = (wait for wait in role.waits if wait.what == "long scoreboard")
    assert wait.times == 1 and found.lines[0].waited > 0.5 > found.lines[0].stalled
    assert next(iter(found.lines[0].stalls)) == "long scoreboard"
    assert found.trace is not None
    spans = {each["name"]: each["dur"] for each in json.loads(found.trace.json())["traceEvents"] if each["ph"] == "X"}
    assert spans["waits for long scoreboard"] == pytest.approx(B200.global_latency, abs=32)


def test_stalls_have_the_reason_that_ended_them() -> None:
    """Warps wait for an MMA, and for other warps at a barrier; the parts of their time add up to all of it."""
    text, idesc = bench.mma_program("BF16", False, 1), bench.KIND["BF16"][1] | 256 >> 3 << 17 | 128 >> 4 << 24
    found = predicted(text, [idesc, 4, 8, 0], threads=128)
    assert all(next(iter(role.stalls)) == "tensor core" for role in found.roles)
    late = f"mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra MEET; {EXPONENTIALS} MEET: bar.sync 0; ret;"
    (role,) = predicted(bench.entry("", late), [], threads=64).roles
    assert 2 * role.stalls["barrier"] == pytest.approx(64 * B200.mufu_cycles, rel=0.1)
    for role in found.roles:
        assert 0.8 * role.cycles < role.running + sum(role.stalls.values()) <= role.cycles


def test_ranges_can_be_left_out() -> None:
    with_ranges, without = (str(predicted(SIMPLE, [1], conditions=Conditions(ranges=each))) for each in (True, False))
    ranges = re.compile(r" \([\d.,]+ to [\d.,]+\)")
    assert len(ranges.findall(with_ranges)) == 1 and not ranges.findall(without)
    kept = [line for line in ranges.sub("", with_ranges).splitlines() if "range of 90%" not in line]
    assert kept == without.splitlines()


def test_a_line_names_its_largest_stall() -> None:
    """A chain of exponentials waits for each; a chain of products for a fixed latency; many products for their pipe."""
    chains = {
        "short scoreboard": "ex2.approx.ftz.f32 %r1, %r1;" * 32,
        "fixed latency": "fma.rn.f32 %r1, %r1, %r1, %r1;" * 32,
        "busy pipes": "".join(f"ex2.approx.ftz.f32 %r{i}, %r{i};" for i in range(32)),
    }
    for reason, body in chains.items():
        (role,) = predicted(bench.entry("", f"{body} ret;"), []).roles
        assert max((cycles, part) for part, cycles in role.parts.items())[1] == reason, role.parts
        assert sum(role.parts.values()) == pytest.approx(role.running)
