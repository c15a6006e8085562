"""Instructions for all lanes of a warp, or for lanes that they name, that some of these do not come to."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import kernel, launch
from test_pairs import MODES

from emulator.errors import BarrierError, Level

PROGRAM = """
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %a<3>;
ld.param.b64 %a0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %a1, %r0, 4; add.s64 %a0, %a0, %a1;
setp.lt.u32 %p0, %r0, 8; mov.b32 %r1, 0;
BODY
st.global.b32 [%a0], %r1; END: ret;
"""


def run(body: str, completion: str = "lazy", threads: int = 64) -> list[int]:
    out = np.zeros(threads, np.uint32)
    text = kernel("k", ".param .u64 out", PROGRAM.replace("BODY", body))
    launch(text, [out], block=(threads, 1, 1), completion=completion, level=Level.FORMAL)  # type: ignore[arg-type]
    return out.tolist()


BARRIERS = ("bar.sync 0;", "barrier.cta.sync.aligned 0;", "bar.red.popc.u32 %r2, 0, %p0;", "bar.arrive 1, 64;")
EXCHANGES = (
    "shfl.sync.idx.b32 %r2, %r0, 0, 31, MEMBERS;",
    "vote.sync.ballot.b32 %r2, %p0, MEMBERS;",
    "match.any.sync.b32 %r2, %r0, MEMBERS;",
    "redux.sync.add.u32 %r2, %r0, MEMBERS;",
    "elect.sync %r2|%p1, MEMBERS;",
)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("barrier", BARRIERS)
def test_an_aligned_barrier_is_for_all_lanes(barrier: str, completion: str) -> None:
    run(f"@%p0 bra A; mov.b32 %r1, 1; A: {barrier}", completion)
    run(f"@%p0 bra END; {barrier}", completion)
    run(f"@%p0 ret; {barrier}", completion)
    run(barrier, completion, threads=40 if "arrive" not in barrier else 64)
    for body in (f"@%p0 bra A; {barrier} A:", f"@!%p0 {barrier}", f"@%p0 bra A; {barrier} bra B; A: {barrier} B:"):
        with pytest.raises(BarrierError, match=r"is for lanes 0 to 31; lanes (0 to 7|8 to 31) did not come with them"):
            run(body, completion)


@pytest.mark.parametrize("completion", MODES)
def test_a_barrier_that_is_not_aligned_is_for_a_warp_in_parts(completion: str) -> None:
    run("@%p0 bra A; barrier.cta.sync 0; A:", completion, threads=32)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_lanes_that_are_named_must_come(exchange: str, completion: str) -> None:
    every, these = exchange.replace("MEMBERS", "-1"), exchange.replace("MEMBERS", "0xffffff00")
    run(every, completion)
    run(every, completion, threads=40)
    run(f"@%p0 bra END; {every}", completion)
    run(f"@%p0 bra A; {these} A:", completion, threads=32)
    for body in (f"@%p0 bra A; {every} A:", f"@!%p0 bra A; {these} A:"):
        with pytest.raises(BarrierError, match=r"lanes (0 to 7|8 to 31) did not come with them"):
            run(body, completion, threads=32)
