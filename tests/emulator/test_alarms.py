"""Correct programs that the default level accepts, and incorrect ones that look similar."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import aligned, kernel, launch

from emulator.errors import BarrierError, DataRace, Fault, Level, MissingProxyFence
from emulator.machine.order.completion import Completion

MODES: tuple[Completion, ...] = ("eager", "lazy", "random")


def findings(
    body: str, *arrays: np.ndarray, completion: Completion, level: Level = Level.FAULT, threads: int = 64, ctas: int = 1
) -> list[Fault]:
    """Return a body's findings that do not stop it. %r1 is the thread, %p1 true in one lane of warp 0; %a0, ..."""
    params = ", ".join(f".param .u64 p{i}" for i in range(len(arrays)))
    loads = " ".join(f"ld.param.b64 %a{i}, [p{i}];" for i in range(len(arrays)))
    text = kernel(
        "k",
        params,
        f""".reg .b32 %r<20>; .reg .b64 %a<4>; .reg .b64 %q<4>; .reg .pred %p<8>;
        .shared .align 128 .b8 data[256]; .shared .align 8 .b8 full[8];
        mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p2, %r1, 32; mov.b32 %r2, data; mov.b32 %r3, full;
        mul.wide.u32 %q0, %r1, 4; {loads}
        {body}
        ret;""",
    )
    found: list[Fault] = []
    shape = (ctas, 1, 1)
    launch(
        text, arrays, grid=shape, cluster=shape, block=(threads, 1, 1), completion=completion, level=level,
        findings=found,
    )  # fmt: skip
    return found


OUT = "bar.sync 0; ld.shared.b32 %r9, [%r2]; add.s64 %a0, %a0, %q0; st.global.b32 [%a0], %r9;"


@pytest.mark.parametrize("completion", MODES)
def test_warps_that_store_equal_bits_in_one_place(completion: Completion) -> None:
    out = np.zeros(64, np.uint32)
    body = f"mov.b32 %r4, 7; st.shared.b32 [%r2], %r4; {OUT}"
    (fault,) = findings(body, out, completion=completion)
    assert type(fault) is DataRace and fault.level == Level.FORMAL
    assert out.tolist() == [7] * 64
    with pytest.raises(DataRace, match=r"st\.shared writes .*, not ordered after st\.shared that wrote it"):
        findings(body, out, completion=completion, level=Level.FORMAL)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(
    "stores",
    ["shr.u32 %r4, %r1, 5; st.shared.b32 [%r2], %r4;", "@%p2 st.shared.b32 [%r2], 7; @!%p2 st.shared.b32 [%r2], 7;"],
    ids=["other bits", "by different instructions"],
)
def test_warps_that_store_what_may_differ_in_one_place(stores: str, completion: Completion) -> None:
    with pytest.raises(DataRace) as caught:
        findings(stores + OUT, np.zeros(64, np.uint32), completion=completion)
    assert caught.value.level == Level.FAULT


COPY = """
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 256;
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%a1], 256, [%r3];
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0; @!%p3 bra WAIT;
add.s32 %r4, %r2, %r5; ld.shared.b32 %r9, [%r4]; add.s64 %a0, %a0, %q0; st.global.b32 [%a0], %r9;
"""
INIT = "shl.b32 %r5, %r1, 2; @%p1 mbarrier.init.shared.b64 [%r3], 1;"


@pytest.mark.parametrize("completion", MODES)
def test_warps_that_copy_the_same_bytes_to_one_place(completion: Completion) -> None:
    """Each of two warps copies the first 64 bytes behind them, and one mbarrier phase waits for both copies."""
    body = """
    shl.b32 %r4, %r1, 2; add.u32 %r5, %r4, %r2; @%p2 st.shared.b32 [%r5], %r1; @%p2 st.shared.b32 [%r5+128], %r1;
    @%p1 mbarrier.init.shared.b64 [%r3], 1; @%p1 fence.mbarrier_init.release.cluster;
    fence.proxy.async.shared::cta; bar.sync 0; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 128;
    add.u32 %r6, %r2, 64; shr.u32 %r7, %r1, 5; mad.lo.u32 %r7, %r7, SOURCE, %r2; elect.sync _|%p3, -1;
    @%p3 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r6], [%r7], 64, [%r3];
    W: mbarrier.try_wait.parity.shared.b64 %p4, [%r3], 0; @!%p4 bra W; and.b32 %r4, %r4, 60; add.u32 %r5, %r4, %r6;
    ld.shared.b32 %r9, [%r5]; add.s64 %a0, %a0, %q0; st.global.b32 [%a0], %r9;"""
    out, same = np.zeros(64, np.uint32), body.replace("SOURCE", "0")
    (fault,) = findings(same, out, completion=completion)
    assert isinstance(fault, DataRace) and fault.level == Level.FORMAL
    assert out.tolist() == list(range(16)) * 4
    for wrong, level in ((same, Level.FORMAL), (body.replace("SOURCE", "128"), Level.FAULT)):
        with pytest.raises(DataRace, match=r"a bulk copy writes .*, not ordered after a bulk copy that wrote it"):
            findings(wrong, out, completion=completion, level=level)


@pytest.mark.parametrize("completion", MODES)
def test_an_mbarrier_that_only_bar_sync_makes_known_to_its_cta(completion: Completion) -> None:
    """Formal if copies report to the mbarrier; not reported if only threads arrive."""
    given, out = aligned(np.arange(64, dtype=np.uint32)), np.zeros(64, np.uint32)
    (fault,) = findings(f"{INIT} bar.sync 0; {COPY}", out, given, completion=completion)
    assert type(fault) is BarrierError and fault.level == Level.FORMAL and "fence.mbarrier_init" in str(fault)
    assert out.tolist() == given.tolist()
    by_threads = (
        INIT
        + """bar.sync 0; @%p1 st.shared.b32 [%r2], 5; @%p1 mbarrier.arrive.shared.b64 _, [%r3];
    WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0; @!%p3 bra WAIT;"""
    )
    assert not findings(by_threads + OUT, out, completion=completion, level=Level.FORMAL)
    with pytest.raises(BarrierError, match=r"without being ordered after its initialisation|no mbarrier"):
        findings(f"{INIT} {COPY}", out, given, completion=completion)


@pytest.mark.parametrize("completion", MODES)
def test_an_mbarrier_of_another_cta_needs_its_fence(completion: Completion) -> None:
    body = f"""{INIT} %FENCE barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mov.u32 %r6, %cluster_ctarank; setp.eq.and.u32 %p4, %r6, 0, %p1;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 256;
    mapa.shared::cluster.u32 %r7, %r2, 1; mapa.shared::cluster.u32 %r8, %r3, 1;
    @%p4 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%a0], 256, [%r3];
    @%p4 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r7], [%a0], 256, [%r8];
    WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0; @!%p3 bra WAIT;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""
    given = aligned(np.arange(64, dtype=np.uint32))
    fence = "fence.mbarrier_init.release.cluster;"
    good, broken = body.replace("%FENCE", fence), body.replace("%FENCE", "")
    assert not findings(good, given, completion=completion, level=Level.FORMAL, ctas=2)
    with pytest.raises(BarrierError, match=r"missing +fence\.mbarrier_init") as caught:
        findings(broken, given, completion=completion, ctas=2)
    assert caught.value.level == Level.FAULT


OVERWRITTEN = f"""{INIT} fence.mbarrier_init.release.cluster;
@!%p2 bra MADE; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32; MADE: bar.sync 0;
ld.shared.b32 %r10, [%r2]; FENCE SYNC {COPY}
@!%p2 bra END; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 32; END:"""


@pytest.mark.parametrize("completion", MODES)
def test_the_word_that_tcgen05_alloc_wrote_is_overwritten_by_a_copy(completion: Completion) -> None:
    given, out = aligned(np.arange(64, dtype=np.uint32)), np.zeros(64, np.uint32)
    body = OVERWRITTEN.replace("SYNC", "bar.sync 0;")
    fenced = body.replace("FENCE", "fence.proxy.async.shared::cta;")
    assert not findings(fenced, out, given, completion=completion, level=Level.FORMAL)
    fault, in_flight = findings(body.replace("FENCE", ""), out, given, completion=completion)
    assert type(fault) is MissingProxyFence and fault.level == Level.FORMAL and "tcgen05.alloc" in str(fault)
    assert type(in_flight) is MissingProxyFence and in_flight.level == Level.FORMAL and "ld.shared" in str(in_flight)
    assert out.tolist() == given.tolist()
    with pytest.raises(DataRace) as caught:
        body = OVERWRITTEN.replace("FENCE", "fence.proxy.async.shared::cta;").replace("SYNC", "")
        findings(body, out, given, completion=completion, level=Level.FORMAL)
    assert caught.value.level == Level.FAULT
