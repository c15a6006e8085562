"""The ladder of kernel versions: steps that must help do, and each names the wait that it shortens."""

from __future__ import annotations

import pytest

from lab import ladder


@pytest.mark.thorough
def test_each_step_has_the_sign_that_its_waits_explain() -> None:
    one, four, early, smem = ladder.outcomes()
    assert four.cycles < 0.9 * one.cycles and early.cycles < 0.95 * four.cycles
    assert ladder.reason(one, four).startswith("mma waits for k_full")
    assert ladder.reason(four, early).startswith("mma waits for p_full")
    assert early.cycles < smem.cycles < 1.25 * early.cycles
    assert ladder.reason(early, smem).startswith("mma waits for p_full")
