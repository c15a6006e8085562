"""The queue for HBM: loads of all SMs, and the first ones of a launch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from emulator.clock.chips import Chip
from lab import clock as bench
from lab import microbenchmarks as micro

H200 = bench.H200
ROW = {"source": "HBM", "sharers": "1", "box_columns": "128", "box_rows": "32", "stages": "1"}
BYTES = 4 * 128 * 32


def a_box(ctas: int, chip: Chip = H200) -> float:
    """Return the cycles of a box from HBM if each of `ctas` SMs has one in flight."""
    return bench.round_cycles(micro.tma({**ROW, "ctas": str(ctas)}), chip)


def test_a_load_waits_for_half_of_what_the_sms_requested() -> None:
    alone = BYTES / H200.bytes_in_flight_per_cycle
    queued = BYTES / (2 * H200.hbm_share(132, H200.max_clock_ghz))
    assert a_box(132) - a_box(1) == pytest.approx(queued - alone, rel=0.05)


def test_the_first_loads_of_a_launch_wait_longer() -> None:
    program = micro.tma({**ROW, "ctas": "132"})
    tensor = bench.tensor_map(128, program.tensor // (4 * 128), (128, 32))
    how: dict[str, Any] = {"threads": 32, "shared": program.shared, "misses": {bench.TENSOR: 1.0}, "sharers": 132}
    at_once, later = (
        bench.end(bench.cycles(program.text, [tensor, 0, 1, (1 << 20) - 1], chip=chip, **how))
        for chip in (replace(H200, start_cycles=0.0), H200)
    )
    assert later > at_once + H200.start_cycles
