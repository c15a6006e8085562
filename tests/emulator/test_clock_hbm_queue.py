"""The queue for HBM: loads of all SMs, and the first ones of a launch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_clock_laws import predicted

from emulator.clock.chips import Chip
from emulator.clock.prediction import Prediction
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


def streamed(ctas: int, table: bool = False, chain: int = 0) -> Prediction:
    """Predict CTAs of 1,024 threads that each load 64 KiB, and as much of a table, and store it.

    chain: of dependent products of a warp between barriers of all, before the stores, of which there is then one. All
    warps then wait for what they load before the first barrier.
    """
    pieces = [(n, 16384 * n) for n in range(4)]

    def registers(first: int) -> str:
        return "{" + ", ".join(f"%r{first + i}" for i in range(4)) + "}"

    loads = [f"ld.global.v4.u32 {registers(4 + 4 * n)}, [%d1+{at}];" for n, at in pieces]
    loads += [f"ld.global.v4.u32 {registers(20 + 4 * n)}, [%d3+{at}];" for n, at in pieces if table]
    waits = "".join(f"add.u32 %r3, %r3, %r{4 + 4 * n};" for n, _ in pieces) if chain else ""
    stores = [f"st.global.v4.u32 [%d2+{at}], {registers(4 + 4 * n)};" for n, at in pieces]
    text = bench.entry(
        "u64 from,u64 to,u64 table",
        "ld.param.u64 %d1, [from]; ld.param.u64 %d2, [to]; ld.param.u64 %d3, [table]; mov.u32 %r1, %ctaid.x; "
        "mov.u32 %r2, %tid.x; mul.wide.u32 %d4, %r1, 65536; mul.wide.u32 %d5, %r2, 16; add.u64 %d4, %d4, %d5; "
        "add.u64 %d1, %d1, %d4; add.u64 %d2, %d2, %d4; add.u64 %d3, %d3, %d5;"
        f"{''.join(loads)} {waits} bar.sync 0; setp.ge.u32 %p1, %r2, 32; @%p1 bra LAST; "
        f"{'mad.lo.u32 %r4, %r4, %r4, %r4;' * chain} LAST: bar.sync 0; "
        f"{''.join(stores[: 1 if chain else None])} ret;",
    )
    arrays = [np.zeros(size << 16, np.uint8) for size in (ctas, ctas, 1)]
    return predicted(text, [*arrays], ctas, 1024)


def test_each_array_is_read_from_hbm_once() -> None:
    """A table that all CTAs read costs no HBM bandwidth, and an array that is only stored is not read."""
    without, beside = streamed(148 * 6), streamed(148 * 6, table=True)
    without_bytes, beside_bytes = (each.busy["HBM"] * each.cycles for each in (without, beside))
    assert without.busy["HBM"] > 0.9
    role = without.roles[0]
    assert (role.stalls["long scoreboard"] + role.stalls["stores"]) / role.cycles > 0.7  # HBM bounds them
    assert role.running + sum(role.stalls.values()) == pytest.approx(role.cycles, rel=0.1)
    assert sum(line.share for line in without.lines) == pytest.approx(1, rel=0.1)
    assert beside_bytes == pytest.approx(without_bytes, rel=0.02)
    assert beside.cycles < 1.1 * without.cycles  # its loads take time, but not of HBM


def test_sms_share_hbm_as_each_needs_it_after_the_first_wave() -> None:
    """Computation of one SM overlaps with loads of others, once they are out of step."""
    one, many = streamed(148 * 2, chain=700), streamed(148 * 16, chain=700)
    assert one.waves <= 1 < many.waves
    assert one.busy["HBM"] + 0.12 < many.busy["HBM"]
