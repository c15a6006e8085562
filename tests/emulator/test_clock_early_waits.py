"""Waits for wgmma where ptxas puts them: before computations that do not need the products."""

from __future__ import annotations

from lab import clock as bench
from lab import microbenchmarks as micro

EXPONENTIALS = "".join(f"ex2.approx.ftz.f32 %f{140 + i % 8}, %f{140 + i % 8};" for i in range(64))
WAIT = "wgmma.wait_group.sync.aligned 0;"
STORE = "st.shared.u32 [%r10], %r9;"
ROW = {"a_from": "smem", "n": "256", "kind": "bf16"}


def predicted(*behind: str) -> float:
    """Return the cycles of a group of wgmma with instructions behind its commit."""
    work, before, _kept = micro._products(ROW, 8)
    group = work.partition("wgmma.wait_group")[0]
    text = micro.entry("u64 out,u32 rounds", f"{before} {group} {' '.join(behind)} {micro.NEXT_ROUND} ret;")
    return bench.end(bench.cycles(text, [0, 4], threads=128, shared=98304, chip=bench.H200))


def test_computation_before_a_wait_does_not_overlap_with_the_products() -> None:
    assert predicted(EXPONENTIALS, WAIT) == predicted(WAIT, EXPONENTIALS)
    assert predicted(EXPONENTIALS, WAIT) > predicted(WAIT) + 4 * 64 * bench.H200.mufu_cycles


def test_a_store_stays_before_the_wait() -> None:
    assert predicted(EXPONENTIALS, STORE, WAIT) < predicted(EXPONENTIALS, WAIT)
