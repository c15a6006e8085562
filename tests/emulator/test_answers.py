"""Answers and orders that another timing gives: some run of `all`, or some seed of `random`, has each of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import emulator
from emulator.errors import Deadlock, OutOfBounds
from tests.emulator.ptx_kernel import source
from tests.tiers import shortened

TESTED = """.shared .align 128 .b8 sm[128]; .shared .b64 mb; .reg .b32 %mb, %sm; mov.u32 %mb, mb; mov.u32 %sm, sm;
setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared::cta.b64 [%mb], 1; fence.mbarrier_init.release.cluster; bar.sync 0;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%mb], 128;
@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%sm], [%a0], 128, [%mb]; bar.warp.sync -1;
TEST @%p1 bra E; st.global.u32 [%a0+1048576], 1;
E: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%mb], 0; @!%p2 bra E; ret;"""


def run(body: str, grid: int = 1, block: int = 32, **how: Any) -> list[int]:
    memory = np.zeros(64, np.uint32)
    with emulator.emulate(**how):
        emulator.launch(source(body, block=block), "k", [memory], grid=grid, block=block)
    return memory.tolist()


@pytest.mark.parametrize("test", ["mbarrier.test_wait", "mbarrier.try_wait"])
def test_a_test_of_a_phase_that_can_complete_may_say_false(test: str) -> None:
    body = TESTED.replace("TEST", f"{test}.parity.shared::cta.b64 %p1, [%mb], 0;")
    with pytest.raises(OutOfBounds) as caught:
        run(body, completion="all")
    (note,) = (note for note in caught.value.__notes__ if "schedule" in note)
    with pytest.raises(OutOfBounds):
        run(body, completion="all", schedule=note.split("schedule=")[1].strip("'"))
    said = Counter(type(_error(body, seed)) for seed in range(12))
    assert said.keys() == {OutOfBounds, type(None)}


def _error(body: str, seed: int) -> Exception | None:
    try:
        run(body, completion="random", seed=seed)
    except OutOfBounds as error:
        return error
    return None


def test_a_phase_that_is_known_to_be_complete_is_complete() -> None:
    wait = "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%mb], 0; @!%p1 bra W;"
    known = f"W: {wait} mbarrier.test_wait.parity.shared::cta.b64 %p1, [%mb], 0;"
    for how in ({"completion": "all"}, *({"completion": "random", "seed": seed} for seed in range(8))):
        run(TESTED.replace("TEST", known), **how)  # type: ignore[arg-type]


CANCELLED = """.shared .align 16 .b8 answer[16]; .shared .b64 mb; .reg .b32 %mb, %to; .reg .b128 %w;
mov.u32 %mb, mb; mov.u32 %to, answer;
mov.u32 %r9, %ctaid.x; setp.ne.u32 %p3, %r9, 0; @%p3 bra OTHER; setp.eq.u32 %p0, %t, 0;
@%p0 mbarrier.init.shared::cta.b64 [%mb], 1; fence.mbarrier_init.release.cluster; bar.sync 0;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%mb], 16;
@%p0 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%to], [%mb];
E: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%mb], 0; @!%p2 bra E;
ld.shared.b128 %w, [%to]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %w; @%p1 bra X;
st.global.u32 [%a0+1048576], 1; X: ret; OTHER: ret;"""


def test_a_request_for_a_cluster_may_be_denied() -> None:
    run(CANCELLED, grid=2)
    with pytest.raises(OutOfBounds):
        run(CANCELLED, grid=2, completion="all")


WHO = {"two CTAs": ("mov.u32 %r9, %ctaid.x;", 2, 32), "two warps": ("shr.u32 %r9, %t, 5;", 1, 64)}
ONE_LANE = "setp.ne.u32 %p0, %r9, 0; and.b32 %r8, %t, 31; setp.ne.u32 %p4, %r8, 0; @%p4 bra E; @%p0 bra C;"
READ_BETWEEN = """st.relaxed.gpu.global.u32 [%a0+64], 7; membar.gl; st.relaxed.gpu.global.u32 [%a0], 1; bra E;
C: ld.relaxed.gpu.global.u32 %r1, [%a0]; membar.gl; ld.relaxed.gpu.global.u32 %r2, [%a0+64];
st.global.u32 [%a0+8], %r1; st.global.u32 [%a0+12], %r2; E: ret;"""
TWO_LOCKS = """A: atom.global.cas.b32 %r1, [%a0], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra A;
B: atom.global.cas.b32 %r1, [%a0+64], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra B; bra F;
C: atom.global.cas.b32 %r1, [%a0+64], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra C;
D: atom.global.cas.b32 %r1, [%a0], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra D;
F: atom.global.exch.b32 %r1, [%a0], 0; atom.global.exch.b32 %r1, [%a0+64], 0; E: ret;"""


@pytest.mark.parametrize("who", WHO)
def test_threads_take_turns_by_the_seed(who: str) -> None:
    """A reader comes before, after and between the stores of a message."""
    begin, grid, block = WHO[who]
    body = begin + ONE_LANE + READ_BETWEEN
    seen = {tuple(run(body, grid, block, completion="random", seed=seed)[2:4]) for seed in range(20)}
    assert seen == {(0, 0), (0, 7), (1, 7)}


@pytest.mark.parametrize("who", shortened(1, WHO))
def test_two_locks_in_opposite_order_are_a_deadlock(who: str) -> None:
    begin, grid, block = WHO[who]
    with pytest.raises(Deadlock):
        for seed in range(20):
            run(begin + ONE_LANE + TWO_LOCKS, grid, block, completion="random", seed=seed)
