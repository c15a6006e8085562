"""setmaxnreg: one warpgroup may take what another releases, and no more."""

from __future__ import annotations

import re

import pytest
from ptx_launch import kernel, launch

from emulator import errors


def run(first: str, second: str, maxnreg: str = "", level: errors.Level = errors.Level.FAULT) -> None:
    """Run two warpgroups of 128 threads, which start with 248 registers per thread unless .maxnreg says less."""
    body = f"""
.reg .b32 %r<4>; .reg .pred %p<2>;
mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 7; shfl.sync.idx.b32 %r2, %r2, 0, 31, -1;
setp.eq.u32 %p0, %r2, 1; @%p0 bra SECOND;
{first}
ret;
SECOND:
{second}
ret;"""
    launch(kernel("pool", "", body).replace("pool()", f"pool() {maxnreg}"), [], block=(256, 1, 1), level=level)


INC, DEC = "setmaxnreg.inc.sync.aligned.u32 {};", "setmaxnreg.dec.sync.aligned.u32 {};"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (INC.format(232), DEC.format(24)),
        (DEC.format(88), INC.format(168)),
        (DEC.format(40) + INC.format(128), ""),
    ],
)
def test_what_is_given_back_is_taken(first: str, second: str) -> None:
    run(first, second, ".maxnreg 128")


@pytest.mark.parametrize(
    ("first", "second", "lack"),
    [(INC.format(136), "", 256), (INC.format(232), DEC.format(32), 3328), (INC.format(232), INC.format(232), 3328)],
)
def test_what_is_not_there_is_a_deadlock(first: str, second: str, lack: int) -> None:
    with pytest.raises(errors.Deadlock, match=rf"setmaxnreg waits for {lack} registers"):
        run(first, second, ".maxnreg 128")


def test_the_register_file_is_shared_evenly_without_maxnreg() -> None:
    run(DEC.format(224), INC.format(256))
    with pytest.raises(errors.Deadlock, match=re.escape("256 per thread")):
        run(DEC.format(248), INC.format(256))


@pytest.mark.parametrize(
    ("first", "maxnreg"),
    [
        (INC.format(120), ".maxnreg 128"),
        (DEC.format(136), ".maxnreg 128"),
        (DEC.format(40) + INC.format(32), ""),
        (DEC.format(40) + DEC.format(48), ""),
    ],
)
def test_the_wrong_direction_is_formal(first: str, maxnreg: str) -> None:
    other = DEC.format(24)
    with pytest.raises(errors.RegisterError, match=r"setmaxnreg\.(inc|dec) to \d+ registers per thread; each has \d+"):
        run(first, other, maxnreg, errors.Level.FORMAL)
    run(first, other, maxnreg)


@pytest.mark.parametrize("first", [INC.format(232), DEC.format(256)])
def test_what_a_thread_starts_with_is_not_known_without_maxnreg(first: str) -> None:
    run(first, DEC.format(24), level=errors.Level.FORMAL)


@pytest.mark.parametrize("count", [20, 100, 264])
def test_counts(count: int) -> None:
    with pytest.raises(errors.UnknownInstruction, match="24 to 256 in steps of 8"):
        run(INC.format(count), "")
