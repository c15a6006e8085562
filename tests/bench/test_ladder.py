"""The ladder of versions of the kernel: steps that must help do, and say which wait they shorten."""

from __future__ import annotations

import pytest

from bench import ladder


@pytest.mark.long
def test_each_step_has_the_sign_that_its_waits_explain() -> None:
    one, three, early, all_, smem = ladder.outcomes()
    assert three.cycles < 0.8 * one.cycles and early.cycles < 0.8 * three.cycles
    assert ladder.reason(one, three).startswith("mma waits for kv_full")
    assert ladder.reason(three, early).startswith("mma waits for p_full")
    assert all_.cycles == pytest.approx(early.cycles, rel=0.02) and all_.bound == "HBM"
    assert smem.cycles < 1.05 * all_.cycles
