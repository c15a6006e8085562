"""The clock branches as an executed cluster did where a comparison of data decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emulator import emulate, launch
from emulator.clock.conditions import Conditions
from emulator.clock.prediction import Prediction
from lab import clock as bench

EXPONENTIALS = "".join(f"ex2.approx.ftz.f32 %r{10 + i % 8}, %r{10 + i % 8};" for i in range(64))
BRANCH = bench.entry(
    "u64 values,u32 rounds",
    f"""
ld.param.u64 %d1, [values]; ld.param.u32 %r2, [rounds]; mov.u32 %r1, %tid.x; mad.wide.u32 %d1, %r1, 4, %d1;
ROUND: ld.global.f32 %r3, [%d1]; setp.gt.f32 %p1, %r3, 0f00000000; vote.sync.any.pred %p2, %p1, -1;
@!%p2 bra NEXT;
{EXPONENTIALS}
NEXT: add.u64 %d1, %d1, 128; sub.u32 %r2, %r2, 1; setp.ne.u32 %p3, %r2, 0; @%p3 bra ROUND;
st.global.f32 [%d1], %r10; ret;""",
)
"""A warp that exponentiates in the rounds in which one of 32 values is above 0."""
ROUNDS = 8
VOTE = "vote.sync.any.pred %p2, %p1, -1;"


def predicted(values: np.ndarray, text: str = BRANCH, **conditions: Any) -> Prediction:
    """Predict a launch on values by round and lane; the last row is written."""
    with emulate(clock="b200", conditions=Conditions(ranges=False, **conditions)):
        found = launch(text, args=[values, ROUNDS], grid=1, block=32).prediction
    assert found is not None
    return found


def values_of(rounds: int) -> np.ndarray:
    """Return values of which one lane's is above 0 in the first `rounds` rounds."""
    values = np.full((ROUNDS + 1, 32), -1.0, np.float32)
    values[:rounds, 5] = 1.0
    return values


@pytest.mark.parametrize("rounds", [0, 3, ROUNDS])
@pytest.mark.parametrize("vote", [VOTE, "barrier.red.or.pred %p2, 1, 32, %p1;"], ids=["in a warp", "at a barrier"])
def test_a_prediction_exponentiates_as_often_as_the_data_ask_for(rounds: int, vote: str) -> None:
    values, text = values_of(rounds), BRANCH.replace(VOTE, vote)
    before = values.copy()
    found = predicted(values, text, branches="executed")
    none = predicted(values, text, branches="assumed")
    assert found.busy["MUFU"] * found.cycles == pytest.approx(
        none.busy["MUFU"] * none.cycles + rounds * 64 * 8 / 4 / 148, rel=1e-3, abs=1e-3
    )
    assert np.array_equal(values, before), "memory stays as it is"


def test_a_prediction_says_how_it_branches() -> None:
    assert any("are false" in line for line in predicted(values_of(2)).assumptions)
    executed = predicted(values_of(2), branches="executed").assumptions
    assert any("all clusters branch as cluster (0, 0, 0) did" in line for line in executed)


def test_a_cluster_that_cannot_be_executed_falls_back_to_the_assumption() -> None:
    """The first load of an address that nothing holds is a fault of the executed cluster."""
    with emulate(clock="b200", conditions=Conditions(ranges=False, branches="executed")):
        found = launch(BRANCH, args=[16, ROUNDS], grid=1, block=32).prediction
    assert found is not None
    assert any("are false" in line for line in found.assumptions)


def test_branches_have_two_sources() -> None:
    with pytest.raises(ValueError, match="allowed: 'assumed' or 'executed'"):
        Conditions(branches="guessed")  # type: ignore[arg-type]
