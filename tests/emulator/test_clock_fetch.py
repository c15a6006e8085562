"""Hopper's SMs fetch the code of a launch once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab import clock as bench
from lab import microbenchmarks as micro

H200 = bench.H200
WORK = "".join(f"ex2.approx.ftz.f32 %f{100 + i % 8}, %f{100 + i % 8};" for i in range(64))
LOOP = micro.entry("u64 out,u32 rounds", f"ROUND: {WORK}\n{micro.NEXT_ROUND}\nret;")


@pytest.mark.parametrize("rounds", [1, 5])
@pytest.mark.parametrize("threads", [32, 128])
def test_the_first_warps_wait_for_code(rounds: int, threads: int) -> None:
    with_caches, without = (
        bench.end(bench.cycles(LOOP, [0, rounds], threads=threads, chip=chip))
        for chip in (H200, replace(H200, fetch_cycles=0.0))
    )
    instructions = 64 + 3
    assert with_caches - without == pytest.approx(instructions * H200.fetch_cycles, rel=0.1)


def test_code_of_earlier_clusters_is_there() -> None:
    one, two = (
        bench.end(bench.cycles(LOOP, [0, 1], threads=32, chip=H200, has_code=has_code)) for has_code in (False, True)
    )
    assert one > two + 60 * H200.fetch_cycles
