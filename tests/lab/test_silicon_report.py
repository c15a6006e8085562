"""The report of `make silicon`, and the B200 microbenchmarks on the emulated device and under the clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import emulator
from lab import blackwell, clock, silicon

H200 = ["NVIDIA H200", "9.0", "580.159.04", "1980 MHz", "700.00 W"]
CASES = """<suite><testcase name="test_twin[no barrier]"><properties><property name="program" value="exchange"/>
<property name="level" value="fault"/><property name="report" value="DataRace UnwrittenRead"/>
<property name="outcome" value="{'wrong': 59, 'right': 1}"/></properties></testcase>
<testcase name="test_twin[a]"><failure message="no"/></testcase>
<testcase name="test_good[gemm]"><skipped message="its compiler rejects the program"/></testcase></suite>"""


def test_the_report_counts_what_agreed_differed_and_was_left_out() -> None:
    page = silicon.report(H200, list(ElementTree.fromstring(CASES).iter("testcase")))
    assert "| test_twin | 1 | 1 | 0 |\n| test_good | 0 | 0 | 1 |\n" in page
    assert "- left out: test_good[gemm]: its compiler rejects the program\n" in page
    assert "| no barrier | exchange | DataRace or UnwrittenRead | fault | wrong 59, right 1 |" in page


def test_the_clock_s_errors_and_what_a_compiler_refused() -> None:
    timed = [silicon.Timing("pipes", "op=a", 100.0, 110.0), silicon.Timing("pipes", "op=b", 100.0, 95.0)]
    lines = list(
        silicon.timing_lines([*timed, silicon.Timing("wgmma", "n=8", 60.0, None), "tcgen05.mma: left out, why"])
    )
    assert "| pipes | 2 | 7.5% | +10.0% | op=a |" in lines
    assert "| wgmma | 1 | the clock has no such chip | | |" in lines
    assert lines[-1] == "- tcgen05.mma: left out, why"


def test_milestones_are_left_out_by_name_where_the_kernel_cannot_run(tmp_path: Path) -> None:
    (why,) = silicon.milestones(["NVIDIA A100", "8.0", *H200[2:]], tmp_path)
    assert why == "milestones: left out, the kernel is for compute capability 10.0 and 9.0"


def test_a_milestone_stands_beside_its_prediction(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text(json.dumps({"verdict": "ACCEPT"}))
    times = {"median": 9.5e-6, "sm_mhz": 1800.0}
    (tmp_path / "measured.json").write_text(json.dumps([{"case": "hd=64", "what": "this kernel", "times": times}]))
    ruled = silicon.ruling("D1.1", tmp_path, 9000)
    assert list(silicon.milestone_lines([ruled]))[-1] == "| D1.1 | ACCEPT | hd=64 | 9.5 | 7.0 |"
    assert silicon.ruling("D1.2", tmp_path / "none", 9000).verdict.startswith("no record")


SHAPES = {(r["kind"], r["a_from"], r["ctas"], r["m"]): r for r in blackwell.MMA_ROWS if r["n"] == "128"}


@pytest.mark.parametrize("row", SHAPES.values(), ids=map("-".join, SHAPES))
def test_a_b200_can_run_its_microbenchmark_of_mma(row: blackwell.Row) -> None:
    micro = blackwell.mma({**row, "in_flight": "2"})
    out = np.zeros(micro.ctas, np.uint64)
    options: dict[str, Any] = {"cluster": micro.cluster, "dynamic_shared_bytes": micro.shared}
    done = emulator.launch(micro.text, args=[out, 3], grid=micro.ctas, block=micro.threads, **options)
    assert not done.findings and done.stats.mma_flops > 0


@pytest.mark.parametrize("row", blackwell.MEMORY_ROWS, ids=lambda r: "-".join(r.values()))
def test_a_b200_can_run_its_microbenchmark_of_tensor_memory(row: blackwell.Row) -> None:
    micro = blackwell.tensor_memory(row)
    out = np.zeros(1, np.uint64)
    options: dict[str, Any] = {"block": micro.threads, "dynamic_shared_bytes": micro.shared}
    assert not emulator.launch(micro.text, args=[out, 3], grid=1, **options).findings


@pytest.mark.parametrize("row", blackwell.MMA_ROWS[::12], ids=lambda r: "-".join(r.values()))
def test_its_round_takes_what_was_measured_on_a_b200(row: blackwell.Row) -> None:
    cycles = clock.round_cycles(blackwell.mma(row), clock.B200)
    assert cycles == pytest.approx(float(row["cycles_each"]), rel=0.15)
