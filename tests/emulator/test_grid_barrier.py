"""CTAs that communicate through global memory while they run: spins, cooperative launches, deadlocks."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import pytest
from ptx_launch import kernel, launch

from emulator.errors import CooperativeLaunchTooLarge, Deadlock, OutOfBounds
from emulator.machine.execution import scheduler
from emulator.machine.launch.launch import Launch
from emulator.ptx.parser import parse

Mode = Literal["eager", "lazy", "random"]
MODES: tuple[Mode, ...] = ("eager", "lazy", "random")
CTAS = 5

MEET = """
    .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<6>;
    mov.u32 %r0, %ctaid.x; mov.u32 %r1, %nctaid.x; mov.u32 %r2, %tid.x; setp.eq.u32 %p0, %r2, 0;
    ld.param.b64 %rd0, [count]; ld.param.b64 %rd1, [out]; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd3, %rd1, %rd2;
    add.u32 %r3, %r0, 10; @%p0 st.global.u32 [%rd3], %r3;
    bar.sync 0;
    @!%p0 bra MET;
    atom.add.release.gpu.global.u32 %r4, [%rd0], 1;
SPIN:
    READ %r5, [%rd0]; // @spin
    setp.lt.u32 %p1, %r5, ALL; @%p1 bra SPIN; FENCE
MET:
    bar.sync 0;
    add.u32 %r6, %r0, 1; rem.u32 %r6, %r6, %r1; mul.wide.u32 %rd2, %r6, 4; add.s64 %rd4, %rd1, %rd2;
    ld.global.u32 %r7, [%rd4]; mul.wide.u32 %rd5, %r1, 4; add.s64 %rd3, %rd3, %rd5; @%p0 st.global.u32 [%rd3], %r7;
    ret;
"""
READS = (
    "ld.acquire.gpu.global.u32",
    "ld.volatile.global.u32",
    "ld.relaxed.gpu.global.u32",
    "nanosleep.u32 20; ld.acquire.gpu.u32",
)


def met(read: str, completion: Mode, expected: str = "%r1", seed: int = 0) -> np.ndarray:
    """Return what each CTA wrote, and what it then read from the next. A read without acquire needs a fence."""
    count, out = np.zeros(1, np.uint32), np.zeros((2, CTAS), np.uint32)
    text = meeting(read, expected)
    launch(text, [count, out], grid=(CTAS, 1, 1), block=(64, 1, 1), completion=completion, seed=seed)
    return out


def meeting(read: str, expected: str = "%r1") -> str:
    fence = "" if "acquire" in read else "fence.acq_rel.gpu;"
    body = MEET.replace("READ", read).replace("ALL", expected).replace("FENCE", fence)
    return kernel("meet", ".param .u64 count, .param .u64 out", body)


@pytest.mark.parametrize("completion", MODES)
def test_the_polls_of_a_cta_do_not_grow_with_the_others(completion: Mode) -> None:
    def instructions_of_each(ctas: int) -> float:
        count, out = np.zeros(1, np.uint32), np.zeros((2, ctas), np.uint32)
        grid, block = (ctas, 1, 1), (64, 1, 1)
        stats = launch(meeting(READS[0]), [count, out], grid=grid, block=block, completion=completion)
        return stats.instructions / ctas

    # `random` lets warps take turns, so each of 40 more arrivals may be seen by a poll: ld, setp, bra.
    turns = 40 * 3 if completion == "random" else 0
    assert instructions_of_each(50) < 1.1 * instructions_of_each(10) + turns


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("read", READS)
def test_all_ctas_meet(read: str, completion: Mode) -> None:
    out = met(read, completion)
    assert out.tolist() == [[10, 11, 12, 13, 14], [11, 12, 13, 14, 10]]


@pytest.mark.parametrize("completion", MODES)
def test_a_cooperative_launch_has_a_counter_to_meet_at(completion: Mode) -> None:
    """cooperative_groups' grid.sync() takes its address from two registers."""
    count, out = np.zeros(1, np.uint32), np.zeros((2, CTAS), np.uint32)
    counter = "mov.u32 %r8, %envreg1; mov.u32 %r9, %envreg2; mov.b64 %rd0, {%r9, %r8}; add.s64 %rd0, %rd0, 4;"
    text = meeting(READS[0]).replace("ld.param.b64 %rd0, [count];", counter)
    for _ in range(2):
        launch(text, [count, out], grid=(CTAS, 1, 1), block=(64, 1, 1), completion=completion, cooperative=True)
    assert out.tolist() == [[10, 11, 12, 13, 14], [11, 12, 13, 14, 10]]
    with pytest.raises(OutOfBounds, match="global memory 0x4 to 0x7"):
        launch(text, [count, out], grid=(CTAS, 1, 1), block=(64, 1, 1), completion=completion)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("read", READS)
def test_one_that_never_comes_is_a_deadlock(read: str, completion: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    """One case uses the full patience of the scheduler."""
    if (read, completion) != (READS[0], "lazy"):
        monkeypatch.setattr(scheduler, "PATIENCE", 64)
    with pytest.raises(Deadlock) as caught:
        met(read, completion, str(CTAS + 1))
    report = str(caught.value)
    assert re.search(r"cluster \(\d, 0, 0\) and 4 more", report)
    for cta in range(CTAS):
        assert f"warp 1 of CTA ({cta},0,0): PTX line 18: bar.sync waits for barrier 0" in report
    assert report.count("again and again") == CTAS, report


HANDED_ON = MEET.replace(
    MEET[MEET.index("    @!%p0 bra MET;") : MEET.index("    add.u32 %r6")],
    """    .shared .align 4 .b8 word[4];
    @%p0 atom.add.release.gpu.global.u32 %r4, [%rd0], 1;
SPIN:
    @%p0 READ %r5, [%rd0]; @%p0 st.shared.u32 [word], %r5;
    bar.sync 0; ld.shared.u32 %r5, [word]; bar.sync 0;
    setp.lt.u32 %p1, %r5, ALL; @%p1 bra SPIN;
""",
)
"""One thread polls and publishes what it read to the others in shared memory, round after round."""


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("read", ["ld.acquire.gpu.global.u32", "atom.add.acq_rel.gpu.global.u32"])
def test_a_poll_whose_answer_is_handed_on(read: str, completion: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(expected: str) -> list[list[int]]:
        count, out = np.zeros(1, np.uint32), np.zeros((2, CTAS), np.uint32)
        body = HANDED_ON.replace("%r5, [%rd0];", "%r5, [%rd0], 0;" if "atom" in read else "%r5, [%rd0];")
        text = kernel("k", ".param .u64 count, .param .u64 out", body.replace("READ", read).replace("ALL", expected))
        launch(text, [count, out], grid=(CTAS, 1, 1), block=(64, 1, 1), completion=completion)
        return out.tolist()

    monkeypatch.setattr(scheduler, "PATIENCE", 64)
    assert run("%r1") == [[10, 11, 12, 13, 14], [11, 12, 13, 14, 10]]
    with pytest.raises(Deadlock) as caught:
        run(str(CTAS + 1))
    assert str(caught.value).count("again and again") == CTAS, str(caught.value)


PEEK = """
    .reg .pred %p<4>; .reg .b32 %r<12>; .shared .align 8 .b64 bar; .shared .align 4 .b8 word[8];
    mov.u32 %r2, %tid.x; setp.eq.u32 %p0, %r2, 0; mov.b32 %r3, 0;
    @%p0 mbarrier.init.shared.b64 [bar], 1; @%p0 st.shared.u32 [word], %r3; bar.sync 0;
    setp.ge.u32 %p1, %r2, 64; @%p1 bra AWAIT;
SPIN:
    @%p0 atom.shared.or.b32 %r3, [word], 0; @%p0 st.shared.u32 [word+4], %r3;
    bar.sync 1, 64; ld.shared.u32 %r3, [word+4]; bar.sync 1, 64;
    setp.eq.u32 %p2, %r3, 0; @%p2 bra SPIN; bra END;
AWAIT:
    mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; bar.warp.sync -1; @!%p3 bra AWAIT;
END: ret;
"""


@pytest.mark.parametrize("completion", MODES)
def test_a_poll_that_is_handed_on_beside_a_warp_that_only_asks(
    completion: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "PATIENCE", 64)
    with pytest.raises(Deadlock, match=r"again and again(.|\n)*warp 2 .* mbarrier.try_wait waits for parity 0"):
        launch(kernel("k", "", PEEK), [], block=(96, 1, 1), completion=completion)


LOCK = """
    .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<6>;
    mov.u32 %r2, %tid.x; setp.ne.u32 %p0, %r2, 0; ld.param.b64 %rd0, [lock]; @%p0 bra END;
TAKE: atom.cas.acquire.gpu.global.b32 %r4, [%rd0], 0, 1; setp.ne.u32 %p1, %r4, 0; @%p1 bra TAKE;
    ld.global.u32 %r5, [%rd0+4]; add.u32 %r5, %r5, 1; nanosleep.u32 100; st.global.u32 [%rd0+4], %r5;
    RELEASE
END: ret;
"""


@pytest.mark.parametrize("completion", MODES)
def test_a_lock(completion: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = np.zeros(2, np.uint32)
    text = kernel("k", ".param .u64 lock", LOCK.replace("RELEASE", "atom.exch.release.gpu.global.b32 %r6, [%rd0], 0;"))
    launch(text, [lock], grid=(CTAS, 1, 1), completion=completion)
    assert lock.tolist() == [0, CTAS]
    monkeypatch.setattr(scheduler, "PATIENCE", 64)
    with pytest.raises(Deadlock, match=r"atom reads 0x.* again and again"):
        launch(text.replace("atom.exch.release.gpu.global.b32 %r6, [%rd0], 0;", ""), [lock], grid=(2, 1, 1))


FLAG = """
    .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<6>; .shared .align 4 .b8 flag[4];
    mov.u32 %r1, %tid.x; mov.b32 %r2, 0; ld.param.b64 %rd0, [out]; setp.eq.u32 %p0, %r1, 0;
    @%p0 st.shared.u32 [flag], %r2; bar.sync 0;
    setp.eq.u32 %p1, %r1, 32; @%p1 bra WRITE; @!%p0 bra END;
SPIN: ld.acquire.cta.shared.u32 %r3, [flag]; setp.eq.u32 %p2, %r3, 0; @%p2 bra SPIN;
    st.global.u32 [%rd0], %r3; bra END;
WRITE: mov.b32 %r4, 9; st.release.cta.shared.u32 [flag], %r4;
END: ret;
"""


@pytest.mark.parametrize("completion", MODES)
def test_a_flag_in_shared_memory(completion: Mode) -> None:
    out = np.zeros(1, np.uint32)
    launch(kernel("k", ".param .u64 out", FLAG), [out], block=(64, 1, 1), completion=completion)
    assert out[0] == 9


def test_a_read_that_gives_up_is_no_deadlock() -> None:
    out = np.zeros(2, np.uint32)
    body = """.reg .pred %p; .reg .b32 %r<4>; .reg .b64 %a; ld.param.b64 %a, [out]; mov.b32 %r1, 0;
    L: ld.volatile.global.u32 %r0, [%a]; add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, 1000; @%p bra L;
    st.global.u32 [%a+4], %r1; ret;"""
    launch(kernel("k", ".param .u64 out", body), [out])
    assert out[1] == 1000


def asked(threads: int, shared: int, grid: int, cluster: int = 1, cooperative: bool = True) -> Launch:
    (k,) = parse(kernel("k", "", "ret;")).kernels.values()
    return Launch(k, (grid, 1, 1), (threads, 1, 1), 0, b"", (cluster, 1, 1), shared, cooperative=cooperative)


@pytest.mark.parametrize(
    ("threads", "shared", "cluster", "resident"),
    [
        (1024, 0, 1, 148 * 2),
        (1000, 0, 1, 148 * 2),
        (128, 0, 1, 148 * 16),
        (32, 0, 1, 148 * 32),
        (128, 227 * 1024, 1, 148),
        (128, 75 * 1024, 2, 148 * 3 // 2),
    ],
)
def test_a_cooperative_launch_must_be_resident(threads: int, shared: int, cluster: int, resident: int) -> None:
    assert asked(threads, shared, resident * cluster, cluster).resident_clusters == resident
    with pytest.raises(
        CooperativeLaunchTooLarge, match=f"{resident + 1} clusters of {cluster} CTAs .*; the device holds {resident} at"
    ):
        asked(threads, shared, (resident + 1) * cluster, cluster)
    asked(threads, shared, (resident + 1) * cluster, cluster, cooperative=False)
