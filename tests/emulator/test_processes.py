"""Launches split between two processes have the bits, counts, findings and errors of one process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import emulator
from emulator.bridge.tensormap import encode_tiled
from emulator.errors import Fault, UnwrittenRead
from emulator.machine.execution import processes
from emulator.machine.memory import global_shadow
from emulator.program import Program
from emulator.ptx.parser import parse
from tests.emulator.ptx_kernel import launch, source

HERE = Path(__file__).parent
GRID = 7
AT = """
mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mad.lo.u32 %r2, %r0, %r1, %t; mul.wide.u32 %q0, %r2, 4;
add.u64 %q1, %a0, %q0;
"""
OWN = AT + "mad.lo.u32 %r3, %r0, %r0, %t; st.global.u32 [%q1], %r3; ret;"
OVER_EACH_OTHER = AT + "st.global.u32 [%q1], %r2; add.u64 %q2, %a0, %b; st.global.u32 [%q2], %r0; ret;"
BYTES = """
mov.u32 %r0, %ctaid.x; mad.lo.u32 %r1, %r0, 33, %t; cvt.u64.u32 %q0, %r1; add.u64 %q1, %a0, %q0; mov.u32 %r3, 0;
AGAIN: add.u32 %r3, %r3, 1; st.global.u8 [%q1], %r3; setp.lt.u32 %p0, %r3, 9; @%p0 bra AGAIN; ret;
"""
BULK = (
    AT
    + """
.shared .align 128 .b8 box[128];
mov.u32 %r4, box; shl.b32 %r5, %t, 2; add.u32 %r5, %r5, %r4; xor.b32 %r6, %r2, 0x5555; st.shared.u32 [%r5], %r6;
fence.proxy.async.shared::cta; bar.sync 0;
setp.ne.u32 %p0, %t, 0; @%p0 ret;
cp.async.bulk.global.shared::cta.bulk_group [%q1], [%r4], 128;
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret;
"""
)
BOXES = """
.shared .align 128 .b8 box[64];
mov.u32 %r0, %ctaid.x; mov.u32 %r4, box; shl.b32 %r5, %t, 1; add.u32 %r5, %r5, %r4; mad.lo.u32 %r6, %r0, 32, %t;
cvt.u16.u32 %h0, %r6; st.shared.u16 [%r5], %h0; fence.proxy.async.shared::cta; bar.sync 0;
setp.ne.u32 %p0, %t, 0; @%p0 ret; shl.b32 %r7, %r0, 2; mov.u32 %r8, 16;
fence.proxy.tensormap::generic.acquire.sys [%a1], 128;
cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%a1, {%r8, %r7}], [%r4];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret;
"""
"""Each CTA stores a box of 4 rows of 16 bytes, from the tensor's column 16 on."""
BY_ADDRESS_IN_MEMORY = (
    "ld.global.u64 %q9, [%a1];"
    + AT.replace("%a0", "%q9")
    + "mad.lo.u32 %r3, %r0, %r0, %t; st.global.u32 [%q1], %r3; ret;"
)
UNWRITTEN_IN = (
    AT
    + """
.shared .align 128 .b8 box[128];
setp.ne.u32 %p0, %r0, {cta}; @%p0 bra FINE;
ld.shared.u32 %r2, [box]; add.u32 %r0, %r0, %r2;
FINE: st.global.u32 [%q1], %r0; ret;
"""
)


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect the processes that a test starts."""
    started: list[int] = []

    def fork() -> int:
        pid = real()
        started.append(pid)
        return pid

    real = os.fork
    monkeypatch.setattr(os, "fork", fork)
    return started


def addresses_of(array: np.ndarray) -> np.ndarray:
    return np.array([array.ctypes.data], np.uint64)


@pytest.mark.parametrize("body", [OWN, OVER_EACH_OTHER, BYTES, BULK])
@pytest.mark.parametrize("completion", ["eager", "lazy", "random"])
def test_bits_and_counts_are_those_of_one_process(body: str, completion: str, forks: list[int]) -> None:
    alone, shared = np.zeros(32 * GRID, np.uint32), np.zeros(32 * GRID, np.uint32)
    counted = launch(
        source(body), alone, grid=GRID, completion=completion, findings=[]
    )  # findings, because the clusters race
    assert not forks
    assert launch(source(body), shared, grid=GRID, completion=completion, processes=3, findings=[]) == counted
    assert len(forks) == 2
    assert alone.any()
    np.testing.assert_array_equal(shared, alone)


def test_boxes_of_bytes_that_end_within_a_word(forks: list[int]) -> None:
    """Five bytes of each row of the box lie in the tensor. Those behind it stay."""
    arrays: list[np.ndarray] = []
    for count in (1, 3):
        out = np.full((4 * GRID, 32), 9, np.uint8)
        sizes, strides = np.array([21, 4 * GRID], np.uint64), np.array([32], np.uint64)
        box, steps = np.array([16, 4], np.uint32), np.ones(2, np.uint32)
        sizes_at, strides_at, box_at, steps_at = (each.ctypes.data for each in (sizes, strides, box, steps))
        encoded = encode_tiled(0, 2, out.ctypes.data, sizes_at, strides_at, box_at, steps_at, 0, 0, 0, 0)
        held = np.zeros(192, np.uint8)
        there = held[-held.ctypes.data % 64 :][:128]
        there[:] = np.frombuffer(encoded, np.uint8)
        launch(source(BOXES, 2), out, there, grid=GRID, processes=count)
        arrays.append(out)
    assert len(forks) == 2
    np.testing.assert_array_equal(arrays[0], arrays[1])
    assert (arrays[0][:, :16] == 9).all() and (arrays[0][:, 21:] == 9).all()
    assert (arrays[0][:, 16:21] != 9).any(1).all()


def test_memory_without_a_shadow_is_written_by_one_process(forks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(global_shadow, "CELLS_MAX", 32 * GRID - 1)
    out = np.zeros(32 * GRID, np.uint32)
    launch(source(OWN), out, grid=GRID, processes=3)
    assert not forks
    assert out[-1] == (GRID - 1) ** 2 + 31


@pytest.mark.parametrize("cta", [0, 2, 5, 6])
def test_the_first_error_of_the_grid_is_raised_and_what_came_before_was_written(cta: int) -> None:
    reports, left = [], []
    for count in (1, 2, 4):
        out = np.full(32 * GRID, 99, np.uint32)
        with pytest.raises(UnwrittenRead) as found:
            launch(source(UNWRITTEN_IN.format(cta=cta)), out, grid=GRID, processes=count)
        reports.append(str(found.value))
        left.append(out.tolist())
    assert f"CTA ({cta},0,0)" in reports[0]
    assert reports == [reports[0]] * 3
    assert left == [left[0]] * 3


@pytest.mark.parametrize("cta", [0, 4])
def test_findings_are_listed_once_and_in_order(cta: int) -> None:
    reports, left = [], []
    for count in (1, 2):
        out, findings = np.zeros(32 * GRID, np.uint32), list[Fault]()
        launch(source(UNWRITTEN_IN.format(cta=cta)), out, grid=GRID, processes=count, findings=findings)
        reports.append([str(fault) for fault in findings])
        left.append(out.tolist())
    assert len(reports[0]) == 1 and f"CTA ({cta},0,0)" in reports[0][0]
    assert reports[0] == reports[1] and left[0] == left[1]


ONLY = "setp.eq.u32 %p0, %r0, {}; setp.eq.u32 %p1, %r0, {}; add.u64 %q2, %a0, %b;"
MEETINGS = {
    "two write": "or.pred %p0, %p0, %p1; @%p0 st.global.u32 [%q2], %r0;",
    "one writes, one reads": "@%p0 st.global.u32 [%q2], %r0; @%p1 ld.global.u32 %r3, [%q2];",
    "one reads, one writes": "@%p0 ld.global.u32 %r3, [%q2]; @%p1 st.global.u32 [%q2], %r0;",
    "an agent writes, one reads": """
        .shared .align 128 .b8 box[128];
        @!%p0 bra NO;
        mov.u32 %r4, box; shl.b32 %r5, %t, 2; add.u32 %r5, %r5, %r4; st.shared.u32 [%r5], %r0;
        fence.proxy.async.shared::cta; bar.sync 0;
        setp.eq.u32 %p2, %t, 0; @%p2 cp.async.bulk.global.shared::cta.bulk_group [%a0], [%r4], 128;
        @%p2 cp.async.bulk.commit_group; @%p2 cp.async.bulk.wait_group 0;
        NO: @%p1 ld.global.u32 %r3, [%q2];""",
}


@pytest.mark.parametrize("meeting", MEETINGS)
@pytest.mark.parametrize(
    "pair", [(0, 3), *(pytest.param(each, marks=pytest.mark.long) for each in ((1, 2), (2, 5), (3, 6)))]
)
def test_races_between_clusters_of_two_processes_are_found(meeting: str, pair: tuple[int, int]) -> None:
    reports, left = [], []
    body = AT + ONLY.format(*pair) + MEETINGS[meeting] + "add.u64 %q1, %q1, 128; st.global.u32 [%q1], %t; ret;"
    out = np.zeros(32 * GRID + 32, np.uint32)
    for count in (1, 2, 3, 6):
        findings = list[Fault]()
        out[:] = 0
        launch(source(body), out, grid=GRID, processes=count, findings=findings)
        reports.append([str(fault) for fault in findings])
        left.append(out.tolist())
    assert len(reports[0]) == 1 and f"CTA ({pair[1]},0,0)" in reports[0][0]
    assert reports == [reports[0]] * 4 and left == [left[0]] * 4


def test_as_many_as_pay(forks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """One, if the launch is short or the cores have other work."""
    body = AT + "mov.u32 %r3, 0; L: add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, ROUNDS; @%p0 bra L; ret;"
    started = []
    for rounds, cores in ((10, 2), (20_000, 1), (20_000, 2)):
        monkeypatch.setattr(processes, "idle_cores", lambda cores=cores: cores)
        launch(source(body.replace("ROUNDS", str(rounds))), np.zeros(1), grid=64, processes=None)
        started.append(len(forks))
    assert started == [0, 0, 1]


@pytest.mark.parametrize(("body", "alone"), [(OWN, 0), (BULK, 0), (BY_ADDRESS_IN_MEMORY, 1)])
def test_a_program_that_was_launched_shares_all_clusters_if_it_is_known_where_it_writes(
    body: str, alone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def share_out(launch: Any, run_cluster: Any, clusters: Sequence[Any], count: int) -> None:
        shared.append(len(clusters))
        real(launch, run_cluster, clusters, count)

    real, shared = processes._distribute, list[int]()
    monkeypatch.setattr(processes, "_distribute", share_out)
    module = "\n".join((source(body, 2), f"// {alone}"))
    out, wanted = np.zeros(32 * GRID, np.uint32), np.zeros(32 * GRID, np.uint32)
    with emulator.emulate(processes=1):
        counted = emulator.launch(module, None, [wanted, addresses_of(wanted)], grid=GRID).stats
    for _ in range(3):
        out[:] = 0
        with emulator.emulate(processes=2):
            stats = emulator.launch(module, None, [out, addresses_of(out)], grid=GRID).stats
        np.testing.assert_array_equal(out, wanted)
        assert stats == counted
    assert shared == [GRID - 1, GRID - alone, GRID - alone] and wanted.any()


def test_what_a_killed_process_left_is_done_by_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(helper: processes.Helper, run_cluster: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(processes.Helper, "_work", work)
    alone, shared = np.zeros(32 * GRID, np.uint32), np.zeros(32 * GRID, np.uint32)
    counted = launch(source(OWN), alone, grid=GRID)
    assert launch(source(OWN), shared, grid=GRID, processes=2) == counted
    np.testing.assert_array_equal(shared, alone)


@pytest.mark.parametrize(
    ("instruction", "apart"),
    [
        ("st.global.u32 [%a0], %t;", True),
        ("ld.volatile.shared.u32 %r0, [%r1];", True),
        ("atom.shared.add.u32 %r0, [%r1], 1;", True),
        ("redux.sync.add.s32 %r0, %t, -1;", True),
        ("atom.global.add.u32 %r0, [%a0], 1;", False),
        ("red.relaxed.gpu.global.add.u32 [%a0], 1;", False),
        ("red.add.u32 [%a0], 1;", False),
        ("ld.acquire.gpu.global.u32 %r0, [%a0];", False),
        ("ld.volatile.u32 %r0, [%a0];", False),
        ("ld.mmio.relaxed.sys.global.u32 %r0, [%a0];", False),
        ("ld.global.nc.u32 %r0, [%a0];", True),
        ("st.volatile.shared::cluster.u32 [%r1], %t;", True),
        ("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r0], %t, [%r1];", True),
        ("cp.async.bulk.global.shared::cta.bulk_group [%a0], [%r0], 16;", True),
        ("tensormap.replace.tile.global_address.global.b1024.b64 [%a0], %a0;", False),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%a0], [%r0], 16;", False),
        ("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r0], [%r1];", False),
    ],
)
def test_kernels_whose_clusters_may_meet_stay_in_one_process(instruction: str, apart: bool) -> None:
    assert Program(parse(source(instruction + "ret;")).kernels["k"]).independent is apart


def test_counting_by_atomics_is_right_with_two_processes_asked_for() -> None:
    out = np.zeros(32, np.uint32)
    launch(source("red.global.add.u32 [%a0], 1; ret;"), out, grid=GRID, processes=2)
    assert out[0] == 32 * GRID


ENDLESS = """
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
sys.path.insert(0, sys.argv[1])
import numpy as np
from ptx_kernel import launch, source
print("ready", flush=True)
body = "mov.u32 %r0, %ctaid.x; setp.ne.u32 %p0, %r0, {cta}; @%p0 ret; L: add.s32 %r0, %r0, 1; bra L; ret;"
launch(source(body), np.zeros(1), grid=3, processes=2)
"""


def spend_a_second(process: psutil.Process) -> None:
    """Wait until a computing process has used a second of CPU time, however busy the machine is."""
    deadline, since = time.monotonic() + 600, process.cpu_times().user
    while process.cpu_times().user < since + 1 and time.monotonic() < deadline:
        time.sleep(0.05)


def begun(process: subprocess.Popen[Any]) -> list[psutil.Process]:
    """Return the processes that another process started, once there are any."""
    deadline = time.monotonic() + 600
    while not (children := psutil.Process(process.pid).children()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return children


@pytest.mark.parametrize(("cta", "where"), [(1, "warp 0 of CTA (1,0,0): PTX line"), (2, "runs clusters (2, 0, 0)")])
def test_ctrl_c_ends_both(cta: int, where: str) -> None:
    command = [sys.executable, "-c", ENDLESS.replace("{cta}", str(cta)), str(HERE)]
    process = subprocess.Popen(
        command, cwd=HERE.parent.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        (child,) = begun(process)
        spend_a_second(psutil.Process(process.pid) if cta == 1 else child)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode != 0
    assert "interrupted" in errors and where in errors, errors
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_no_process_outlives_the_one_that_launched() -> None:
    command = [sys.executable, "-c", ENDLESS.replace("{cta}", "2"), str(HERE)]
    with subprocess.Popen(command, cwd=HERE.parent.parent, stdout=subprocess.PIPE, process_group=0) as process:
        children = begun(process)
        process.kill()
    gone, alive = psutil.wait_procs(children, timeout=600)
    assert gone and not alive


def test_a_forked_process_whose_parent_has_already_ended_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(processes.Helper, "_work", lambda helper, run_cluster: (tmp_path / "ran").touch())
    monkeypatch.setattr(os, "getppid", lambda: 1)
    alone, shared = np.zeros(32 * GRID, np.uint32), np.zeros(32 * GRID, np.uint32)
    counted = launch(source(OWN), alone, grid=GRID)
    assert launch(source(OWN), shared, grid=GRID, processes=2) == counted
    np.testing.assert_array_equal(shared, alone)
    assert not list(tmp_path.iterdir())
