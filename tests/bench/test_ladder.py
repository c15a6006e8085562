"""The ladder of versions of the kernel: steps that must help do, and say which wait they shorten."""

from __future__ import annotations

import pytest

from bench import ladder


@pytest.mark.long
def test_each_step_has_the_sign_that_its_waits_explain() -> None:
    one, three, early, full, smem = ladder.outcomes()
    assert three.cycles < 0.9 * one.cycles and early.cycles < 0.95 * three.cycles and full.cycles < 1.02 * early.cycles
    assert ladder.reason(one, three).startswith("mma waits for kv_full")
    assert ladder.reason(three, early).startswith("mma waits for p_full")
    assert full.bound == "HBM" and smem.cycles == pytest.approx(full.cycles, rel=0.1)
