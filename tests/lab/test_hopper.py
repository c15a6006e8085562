"""Measured times of an H200 and the clock's predictions: parsing, rendering, comparison, microbenchmarks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import emulator
from lab import clock, hopper, microbenchmarks

POINTS = hopper.rows()


def test_a_point_that_was_not_predicted_says_so_and_counts_for_nothing() -> None:
    left_out = [{**POINTS[0], "predicted_us": ""}, *POINTS[1:]]
    lines = list(hopper.table(left_out))
    assert "not predicted" in lines[2]
    assert lines[-1].startswith(f"{len(POINTS) - 1} points: ")


def test_a_wrong_order_is_counted() -> None:
    one, other = ({"kind": "gemm", "median_us": us, "predicted_us": guess} for us, guess in (("10", "11"), ("12", "9")))
    assert "0 of 1 pairs" in hopper.summary([one, other])
    assert "worst -25.0%" in hopper.summary([one, other])


def test_what_is_nearer_than_from_day_to_day_has_no_order() -> None:
    one, other = (
        {"kind": "gemm", "median_us": us, "predicted_us": guess} for us, guess in (("10", "11"), ("10.3", "9"))
    )
    assert "0 of 0 pairs" in hopper.summary([one, other])


def test_copies_are_predicted_within_a_sixth() -> None:
    for row in POINTS:
        if row["kind"] == "copy":
            assert hopper.copy_us(row) == pytest.approx(float(row["median_us"]), rel=1 / 6)


@pytest.mark.parametrize(
    ("kernel", "shape", "elements", "arguments"),
    [
        (
            "dense_gemm.py of CUTLASS",
            "m=64 n=128 k=256 tile=128x64 cluster=2x1",
            "e4m3",
            "--mnkl 64,128,256,1 --tile_shape_mn 128,64 --cluster_shape_mn 2,1 --a_dtype Float8E4M3FN "
            "--b_dtype Float8E4M3FN --skip_ref_check",
        ),
        ("fmha.py of CUTLASS", "b=2 h=16 s=4096 d=128 full", "f16", "--q_shape 2,4096,16,128 --k_shape 2,4096,16,128"),
    ],
)
def test_an_example_is_called_as_it_was_measured(kernel: str, shape: str, elements: str, arguments: str) -> None:
    _, given = hopper.arguments({"kernel": kernel, "shape": shape, "elements": elements})
    assert " ".join(given).startswith(arguments)


@pytest.mark.parametrize(
    ("kind", "number", "bound"),
    [
        ("wgmma", 40, 0.1),
        ("pipes", 0, 0.1),
        ("sync", 0, 0.15),
        ("sync", 16, 0.05),
        ("beside", 20, 0.1),
        ("tma", 60, 0.2),
        ("tma_store", 1, 0.15),
    ],
)
def test_a_microbenchmark_takes_what_was_measured(kind: str, number: int, bound: float) -> None:
    (found,) = (k for k in microbenchmarks.KINDS if k.file == kind)
    row = microbenchmarks.rows(kind)[number]
    assert clock.round_cycles(found.program(row), clock.H200) == pytest.approx(float(row["cycles"]), rel=bound)


@pytest.mark.parametrize("done_by", ["group", "mbarrier"])
def test_a_device_can_run_the_microbenchmark_of_cp_async(done_by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(microbenchmarks.GATHERED, "L2", 1 << 16)
    row = {"source": "L2", "ctas": "2", "warps": "2", "row_bytes": "256", "groups": "4", "done_by": done_by}
    micro = microbenchmarks.cp_async(row)
    data, out = np.ones(micro.tensor // 4, np.uint32), np.zeros(micro.ctas, np.uint64)
    shape: dict[str, Any] = {"grid": micro.ctas, "block": micro.threads, "dynamic_shared_bytes": micro.shared}
    done = emulator.launch(micro.text.replace("sm_90a", "sm_100a"), args=[data, out, 9, 1], **shape)
    assert not done.findings and out.all()
