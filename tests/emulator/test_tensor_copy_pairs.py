"""TMA and threads exchange data by PTX's fences and waits. Each missing one is reported."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import aligned, kernel, launch
from test_cp_async_bulk_tensor import tensor_map
from test_pairs import MODES

from emulator import errors

BEFORE = """
.reg .b32 %r<40>; .reg .b64 %rd<16>; .reg .pred %p<8>;
.shared .align 128 .b8 box[256]; .shared .align 8 .b8 full[8];
mov.u32 %r1, %tid.x; mov.b32 %r2, box; mov.b32 %r3, full; setp.eq.u32 %p1, %r1, 0; shl.b32 %r4, %r1, 2;
add.u32 %r4, %r4, %r2; mul.wide.u32 %rd4, %r1, 4; mov.b32 %r9, 0; mov.b32 %r10, 0;
@%p1 mbarrier.init.shared.b64 [%r3], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;
mov.b64 %rd5, map; cvta.param.u64 %rd5, %rd5; ld.param.b64 %rd1, [words]; ld.param.b64 %rd2, [out];
add.s64 %rd3, %rd1, %rd4; add.s64 %rd2, %rd2, %rd4;
LOOP: add.u32 %r6, %r1, %r9; and.b32 %r8, %r9, 1;
"""
"""Each round: lane number and round in %r6, the parity of its phase in %r8."""
AFTER = "add.u32 %r9, %r9, 1; setp.lt.u32 %p3, %r9, 5; @%p3 bra LOOP; st.global.b32 [%rd2], %r7; ret;"
LOAD = """
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 256;
@%p1 cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd5, {%r10}], [%r3];
W: mbarrier.try_wait.parity.shared.b64 %p0, [%r3], %r8; @%p0 bra G; bra W; G:
"""
STORE = "@%p1 cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd5, {%r10}], [%r2];"
COMMIT, WAIT = "@%p1 cp.async.bulk.commit_group;", "@%p1 cp.async.bulk.wait_group 0;"
FENCE, BARRIER = "fence.proxy.async;", "bar.sync 0;"
WRITE, READ = "st.shared.b32 [%r4], %r6;", "ld.shared.b32 %r7, [%r4];"
LOADED = ("st.global.b32 [%rd3], %r6;", FENCE, BARRIER, LOAD, READ, "bar.sync 1;")
"""Threads write global memory, which TMA loads."""
STORED = (WRITE, FENCE, BARRIER, STORE, COMMIT, WAIT, "bar.sync 1;", "ld.global.b32 %r7, [%rd3];", "bar.sync 1;")
"""Threads write shared memory, which TMA stores to global memory, which threads read."""
FILLED = (WRITE, FENCE, BARRIER, LOAD, READ, "bar.sync 1;")
"""Threads write shared memory, and TMA overwrites it."""
BROKEN = (
    (LOADED, FENCE, errors.MissingProxyFence, "a TMA load reads global memory .* through the async proxy"),
    (LOADED, BARRIER, (errors.DataRace, errors.MissingWait), "global memory .* not ordered after"),
    (STORED, FENCE, errors.MissingProxyFence, "a TMA store reads shared memory .* through the async proxy"),
    (STORED, COMMIT, errors.MissingWait, "cp.async.bulk.wait_group in warp 0 .* after a commit_group"),
    (STORED, WAIT, errors.MissingWait, r"cp.async.bulk.wait_group \(not .read\) in warp 0"),
    (FILLED, FENCE, errors.MissingProxyFence, "a TMA load writes shared memory .* through the async proxy"),
)


def run(steps: tuple[str, ...], completion: str) -> list[int]:
    words, out = aligned(np.arange(64, dtype=np.uint32)), np.zeros(64, np.uint32)
    parameters = ".param .align 64 .b8 map[128], .param .u64 words, .param .u64 out"
    text = kernel("k", parameters, "\n".join((BEFORE, *steps, AFTER)))
    arguments = [tensor_map(words, (64,), 0), words, out]
    options = {"completion": completion, "level": errors.Level.FORMAL}
    launch(text, arguments, block=(64, 1, 1), **options)  # type: ignore[arg-type]
    return out.tolist()


@pytest.mark.parametrize("completion", MODES)
def test_handed_over(completion: str) -> None:
    for steps in (LOADED, STORED):
        assert run(steps, completion) == [lane + 4 for lane in range(64)]
    assert run(FILLED, completion) == [*range(64)]


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(("steps", "lacking", "error", "says"), BROKEN)
def test_one_step_less(
    steps: tuple[str, ...],
    lacking: str,
    error: type[errors.Fault] | tuple[type[errors.Fault]],
    says: str,
    completion: str,
) -> None:
    with pytest.raises(error, match=f"(?s){says}"):
        run(tuple(step for step in steps if step != lacking), completion)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(("steps", "step"), [(STORED, STORE), (LOADED, LOAD)])
def test_a_tma_copy_is_not_of_another_cta_s_memory(steps: tuple[str, ...], step: str, completion: str) -> None:
    far = "add.u32 %r7, %r2, 0x1000000;" + step.replace("[%r2]", "[%r7]")
    with pytest.raises(errors.OutOfBounds, match=r"in the window of CTA rank 1; this is rank 0"):
        run(tuple(far if each is step else each for each in steps), completion)
