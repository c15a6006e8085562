"""isspacep, slct and clusterlaunchcontrol: small references for their results."""

import numpy as np
import pytest
from ptx_kernel import launch, results, source
from ptx_launch import launch as launch_clusters

from emulator import errors
from emulator.machine.order.completion import Completion

LANES = np.arange(32, dtype=np.int64)


@pytest.mark.parametrize(
    ("space", "address", "expected"),
    [
        ("shared", "mov.u64 %q1, cell; cvta.shared.u64 %q0, %q1;", 1),
        ("global", "mov.u64 %q1, cell; cvta.shared.u64 %q0, %q1;", 0),
        ("global", "mov.u64 %q0, %a0;", 1),
        ("shared", "mov.u64 %q0, %a0;", 0),
        ("local", "mov.u64 %q1, depot; cvta.local.u64 %q0, %q1;", 1),
        ("shared::cta", "mov.u64 %q1, cell; cvta.shared.u64 %q0, %q1;", 1),
    ],
)
def test_isspacep(space: str, address: str, expected: int) -> None:
    body = f".shared .align 8 .b8 cell[8]; .local .align 8 .b8 depot[8]; {address} isspacep.{space} %p0, %q0;"
    (got,) = results(f"{body} selp.u32 %r0, 1, 0, %p0;")
    assert set(got.tolist()) == {expected}


def test_slct_takes_the_first_where_the_third_is_not_negative() -> None:
    (got,) = results("sub.s32 %r1, %t, 7; add.u32 %r2, %t, 100; slct.u32.s32 %r0, %t, %r2, %r1;")
    assert got.tolist() == np.where(LANES >= 7, LANES, LANES + 100).tolist()


TRY = """
    .shared .align 16 .b8 answer[16]; .shared .align 8 .b8 bar[8]; .reg .b128 %o;
    setp.eq.u32 %p0, %t, 0; mov.u32 %r20, 0; mov.u32 %r21, %ctaid.x; mov.u32 %r22, bar; mov.u32 %r23, answer;
    @%p0 mbarrier.init.shared::cta.b64 [bar], 1; fence.mbarrier_init.release.cluster; bar.sync 0;
    WORK: mul.wide.u32 %q0, %r21, 4; add.u64 %q0, %a0, %q0; mov.u32 %r24, %ctaid.x; add.u32 %r24, %r24, 1;
    @%p0 st.global.u32 [%q0], %r24;
    @!%p0 bra ASKED;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r23], [%r22];
    ASKED: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], %r20; @%p1 bra TOLD; bra ASKED;
    TOLD: xor.b32 %r20, %r20, 1; ld.shared.b128 %o, [%r23];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %o; @!%p2 bra END;
    clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r21, %o;
    fence.proxy.async.shared::cta; bar.sync 0; bra WORK;
    END: ret;
"""


@pytest.mark.parametrize("completion", ["eager", "lazy", "random"])
def test_every_cluster_is_worked_on_once_by_itself_or_by_another(completion: str) -> None:
    out = np.zeros(6, np.uint32)
    launch(source(TRY), out, grid=6, completion=completion)
    workers = (out - 1).tolist()
    assert all(workers[worker] == worker for worker in workers)
    if completion != "random":
        assert workers == [0] * 6


@pytest.mark.parametrize("completion", ["eager", "lazy", "random"])
def test_an_answer_of_no_names_no_cta(completion: str) -> None:
    """The first CTA of the cluster is requested although there is none."""
    out = np.zeros(1, np.uint32)
    asked = TRY.replace("@!%p2 bra END;", "@%p2 bra NEXT; st.global.u32 [%a0], %r21; ret; NEXT:", 1)
    first = "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r21, %o;"
    launch(
        source(asked.replace(first, "").replace("@%p2 bra NEXT;", f"{first} @%p2 bra NEXT;")),
        out,
        completion=completion,
    )
    assert out.tolist() == [0xFFFF_FFFF]


@pytest.mark.parametrize("completion", ["eager", "lazy", "random"])
def test_who_was_told_no_does_not_ask_again(completion: str) -> None:
    (again,) = (line for line in TRY.splitlines() if "try_cancel" in line)
    again = f"END: @!%p0 bra LEFT; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16; {again} LEFT: ret;"
    with pytest.raises(errors.CancelError, match=r"(?s)try_cancel after a failed request.*read at"):
        launch(source(TRY.replace("END: ret;", again)), np.zeros(1, np.uint32), completion=completion)


HANDED_ON = """
    .shared .align 16 .b8 answer[16]; .shared .align 8 .b8 bar[8]; .shared .align 8 .b8 read[8]; .shared .b32 cell;
    mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p0, %t, 0; setp.lt.u32 %p2, %t, 32;
    mov.u32 %r2, bar; mov.u32 %r3, answer; mov.u32 %r4, read; mapa.shared::cluster.u32 %r5, %r4, 0;
    @%p0 mbarrier.init.shared::cta.b64 [bar], 1; @%p0 mbarrier.init.shared::cta.b64 [read], 1;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16; @%p0 st.shared.b32 [cell], 7;
    fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @%p1 bra LEADER; @!%p2 bra ANSWER;
    ld.shared.b32 %r6, [cell]; st.global.u32 [%a0], %r6; bar.warp.sync -1;
    @%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5]; bra END;
    LEADER: @!%p2 bra END; READ
    @%p0 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128
        [%r3], [%r2]; bra END;
    ANSWER: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [bar], 0; @%p3 bra TOLD; bra ANSWER;
    TOLD: st.shared.b32 [cell], 8;
    END: barrier.cluster.arrive; barrier.cluster.wait; ret;
"""
"""The second of two CTAs reads a cell and notifies the first, which sends a query. Another warp of the second CTA
writes the cell when the response has arrived.
"""
READ = "R: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [read], 0; @!%p4 bra R;"


@pytest.mark.parametrize("completion", ["eager", "lazy", "random"])
@pytest.mark.parametrize("waits", [True, False])
def test_an_answer_comes_after_what_the_asking_warp_had_seen(waits: bool, completion: Completion) -> None:
    text, out = source(HANDED_ON.replace("READ\n", (READ if waits else "") + "\n"), block=64), np.zeros(1, np.uint32)

    def run() -> None:
        launch_clusters(text, [out], grid=(2, 1, 1), block=(64, 1, 1), cluster=(2, 1, 1), completion=completion)

    if waits:
        run()
        assert out.tolist() == [7]
    else:
        with pytest.raises(errors.DataRace, match=r"(writes|reads) shared memory"):
            run()
