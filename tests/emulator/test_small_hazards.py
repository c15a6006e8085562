"""Small hazards with their right twins: releases of one lane, scopes of waits, tensor maps, peers and requests."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import aligned
from test_cp_async_bulk_tensor import tensor_map

import emulator
from emulator.errors import BarrierError, CancelError, DataRace, Fault, Level, MissingProxyFence, UnwrittenRead
from tests.emulator.ptx_kernel import source

FLAGS = {
    "st": "st.release.gpu.global.u32 [%a0], 1;",
    "red": "red.release.gpu.global.add.u32 [%a0], 1;",
    "atom": "atom.acq_rel.gpu.global.add.u32 %r5, [%a0], 1;",
    "fence, st": "st.volatile.global.u32 [%a0], 1;",
    "fence, red": "red.relaxed.gpu.global.add.u32 [%a0], 1;",
}
PUBLISHED = """setp.ne.u32 %p0, WHO, 0; @%p0 bra C; setp.eq.u32 %p2, %t, 0;
add.u64 %q1, %a0, %b; st.global.u32 [%q1+128], %t; SYNC @%p2 FLAG bra E;
C: ld.acquire.gpu.global.u32 %r1, [%a0]; setp.eq.u32 %p1, %r1, 0; @%p1 bra C;
and.b32 %r3, %t, 31; mul.wide.u32 %q2, %r3, 4; add.u64 %q1, %a0, %q2;
ld.global.u32 %r2, [%q1+128]; st.global.u32 [%q1+256], %r2; E: ret;"""
READERS = {"another CTA": ("mov.u32 %r9, %ctaid.x;", 2, 32), "another warp": ("shr.u32 %r9, %t, 5;", 1, 64)}


def found(body: str, *arrays: np.ndarray, grid: int = 1, block: int = 32, cluster: int = 1) -> list[Fault]:
    """Return what is reported, with formal findings."""
    text = source(body, len(arrays), block=block)
    with emulator.emulate(diagnostics="report", level="formal") as device:
        emulator.launch(text, "k", [*arrays], grid=grid, block=block, cluster=cluster)
    return list(device.launches[-1].findings)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("flag", FLAGS)
def test_one_lane_releases_what_others_stored(flag: str, reader: str) -> None:
    begin, grid, block = READERS[reader]
    fence = "membar.gl;" if "fence" in flag else ""
    for sync, right in ((f"{fence} bar.warp.sync -1;", True), (fence, False)):
        body = PUBLISHED.replace("WHO", "%r9").replace("FLAG", FLAGS[flag]).replace("SYNC", sync)
        faults = found(begin + body, np.zeros(128, np.uint32), grid=grid, block=block)
        assert bool(faults) != right
        for fault in faults:
            assert isinstance(fault, DataRace) and "bar.warp.sync between" in fault.missing


@pytest.mark.parametrize("flag", FLAGS)
def test_a_lane_releases_its_own_stores(flag: str) -> None:
    body = READERS["another CTA"][0] + PUBLISHED.replace("WHO", "%r9").replace("FLAG", FLAGS[flag])
    alone = body.replace("st.global.u32 [%q1+128], %t; SYNC", "@%p2 st.global.u32 [%q1+128], %t; membar.gl;")
    read = alone.replace("ld.global.u32 %r2, [%q1+128]", "ld.global.u32 %r2, [%a0+128]")
    assert not found(read, np.zeros(128, np.uint32), grid=2)


def found_of_a_pair(body: str) -> list[Fault]:
    return found(body, np.zeros(64, np.uint32), grid=2, cluster=2)


REMOTE = """.shared .b64 mb; .reg .b32 %mb, %other; mov.u32 %mb, mb; setp.eq.u32 %p0, %t, 0;
@%p0 mbarrier.init.shared::cta.b64 [%mb], 1; fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mov.u32 %r0, %cluster_ctarank; xor.b32 %r1, %r0, 1;
mapa.shared::cluster.u32 %other, %mb, %r1; @%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%other];
W: mbarrier.try_wait.parity.acquire.SCOPE.shared::cta.b64 %p1, [%mb], 0; @!%p1 bra W;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;"""


def test_a_wait_of_scope_cta_for_another_cta() -> None:
    assert not found_of_a_pair(REMOTE.replace("SCOPE", "cluster"))
    (fault,) = found_of_a_pair(REMOTE.replace("SCOPE", "cta"))
    assert isinstance(fault, DataRace) and "scope .cluster" in fault.missing


PEER = """.shared .b32 w; .reg .b32 %w, %other; mov.u32 %w, w; setp.eq.u32 %p0, %t, 0; @%p0 st.shared.u32 [%w], 0;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mov.u32 %r0, %cluster_ctarank; setp.eq.u32 %p1, %r0, 0;
mov.u32 %r1, 0; mapa.shared::cluster.u32 %other, %w, %r1; setp.ne.u32 %p2, %r0, 0; and.pred %p2, %p2, %p0;
@%p2 atom.shared::cluster.add.u32 %r2, [%other], 1; @%p2 st.global.u32 [%a0], %r2; END ret;"""


def test_an_atomic_at_a_peer_that_may_have_ended() -> None:
    """An atomic reads, and on an H100 a read of a CTA that has ended ends the launch."""
    assert not found_of_a_pair(PEER.replace("END", "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"))
    (fault,) = found_of_a_pair(PEER.replace("END", ""))
    assert isinstance(fault, DataRace) and str(fault.level) == "fault"


ASKED = """.shared .align 16 .b8 answer[16]; .shared .b64 mb; .reg .b32 %mb, %to; .reg .b128 %w; setp.eq.u32 %p0, %t, 0;
mov.u32 %mb, mb; mov.u32 %to, answer; @%p0 mbarrier.init.shared::cta.b64 [%mb], 1;
fence.mbarrier_init.release.cluster; bar.sync 0; @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%mb], 16;
@%p0 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%to], [%mb];
E: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%mb], 0; @!%p2 bra E; ld.shared.b128 %w, [%to];
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %w;
GUARD clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r1, %w; ret;"""


def test_the_first_cta_of_a_failed_request() -> None:
    assert not found(ASKED.replace("GUARD", "@%p1"), np.zeros(4, np.uint32))
    (fault,) = found(ASKED.replace("GUARD", ""), np.zeros(4, np.uint32))
    assert isinstance(fault, CancelError)


STORED = """.shared .align 128 .b8 box[1024]; .shared .b64 mb; .reg .b32 %mb, %to; mov.u32 %mb, mb; mov.u32 %to, box;
setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared::cta.b64 [%mb], 1; fence.mbarrier_init.release.cluster; bar.sync 0;
add.u64 %q1, %a0, %b; add.u64 %q2, %a1, %b; ld.global.u32 %r1, [%q1]; st.global.u32 [%q2], %r1; bar.warp.sync -1;
FENCES mov.u32 %r2, 0; @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%mb], 1024;
@%p0 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%to], [%a1, {%r2, %r2}], [%mb];
E: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%mb], 0; @!%p2 bra E; ret;"""
ACQUIRED = """fence.proxy.tensormap::generic.release.gpu;
fence.proxy.tensormap::generic.acquire.gpu [%a1], 128;"""


def test_a_map_that_the_kernel_stores_needs_its_fence() -> None:
    values = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    raw = aligned(np.frombuffer(tensor_map(values, (32, 8), 0), np.uint8))
    for fences, right in ((ACQUIRED, True), ("", False)):
        faults = found(STORED.replace("FENCES", fences), raw, aligned(raw.copy()), values)
        assert bool(faults) != right
        assert all(isinstance(fault, MissingProxyFence) and "acquire" in fault.missing for fault in faults)


FENCE_OF_A_CTA = "fence.proxy.tensormap::generic.acquire.sys [MAP], 128;"
COPIED = STORED.replace("ld.global.u32 %r1, [%q1]; st.global.u32 [%q2], %r1;", "").replace("%a1, {", "MAP, {")
IN_CONSTANTS = (".reg .b64 %m; mov.u64 %m, held; cvta.const.u64 %m, %m;", ".const .align 64 .b8 held[128] = {BYTES};")


@pytest.mark.parametrize(
    ("fences", "right"),
    [
        (FENCE_OF_A_CTA, True),
        ("setp.gt.u32 %p3, %t, 31; @%p3 " + FENCE_OF_A_CTA + "bar.sync 0;", True),
        ("setp.gt.u32 %p3, %t, 31; bar.sync 0; @%p3 " + FENCE_OF_A_CTA, False),
        ("fence.proxy.tensormap::generic.release.gpu;", False),
        ("mov.u32 %r3, %ctaid.x; setp.ne.u32 %p3, %r3, 0; @%p3 " + FENCE_OF_A_CTA, False),
        ("", False),
    ],
    ids=["lane", "other warp", "other warp without barrier", "release", "other CTA", "none"],
)
def test_a_map_that_the_host_wrote_needs_its_fence(fences: str, right: bool) -> None:
    values = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    raw = aligned(np.frombuffer(tensor_map(values, (32, 8), 0), np.uint8))
    body = (".reg .pred %p3;" + COPIED.replace("FENCES", fences)).replace("MAP", "%a1")
    faults = found(body, np.zeros(4, np.uint32), raw, values, grid=2, block=64)
    assert bool(faults) != right
    for fault in faults:
        assert isinstance(fault, MissingProxyFence) and fault.level is Level.FORMAL
        assert "which a launch, a copy or the host wrote before" in fault.what and "generic.acquire" in fault.missing


def test_a_map_in_constant_memory_needs_no_fence() -> None:
    values = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    begin, held = IN_CONSTANTS
    body = (begin + COPIED.replace("FENCES", "")).replace("MAP", "%m")
    held = held.replace("BYTES", ", ".join(map(str, tensor_map(values, (32, 8), 0))))
    text = source(body, 2, outside=held)
    with emulator.emulate(diagnostics="report", level="formal") as device:
        emulator.launch(text, "k", [np.zeros(4, np.uint32), values])
    assert not device.launches[-1].findings


@pytest.mark.parametrize("again", [True, False])
def test_a_load_of_a_line_that_was_discarded(again: bool) -> None:
    store = "add.u64 %q2, %q1, %b; st.global.u32 [%q2], %t; bar.warp.sync -1;"
    body = f"""setp.eq.u32 %p0, %t, 0; add.u64 %q1, %a0, 127; and.b64 %q1, %q1, -128;
@%p0 discard.global.L2 [%q1], 128; bar.warp.sync -1; {store * again}
ld.global.u32 %r2, [%q1+8]; st.global.u32 [%a1], %r2; ret;"""
    faults = found(body, np.zeros(128, np.uint32), np.zeros(4, np.uint32))
    assert [type(fault) for fault in faults] == [UnwrittenRead] * (not again)


@pytest.mark.parametrize(
    ("body", "formal"),
    [("@%p0 ret; bar.sync 0;", True), ("@%p0 ret; bar.sync 0, 32;", False), ("bar.sync 0; @%p0 ret;", False)],
)
def test_a_barrier_of_the_whole_cta_after_a_warp_has_ended(body: str, formal: bool) -> None:
    faults = found(f"setp.ge.u32 %p0, %t, 32; {body} ret;", np.zeros(4, np.uint32), block=64)
    assert [str(fault.level) for fault in faults if isinstance(fault, BarrierError)] == ["formal"] * formal


TREE = """.shared .align 4 .b32 s[64]; .reg .b32 %s, %d; mov.u32 %s, s; mad.lo.u32 %s, %t, 4, %s;
mul.wide.u32 %q0, %t, 4; add.u64 %q1, %a0, %q0; AT %t; ZERO bar.warp.sync -1; mov.u32 %d, 64;
L: LOAD SYNC STORE SYNC shr.u32 %d, %d, 1; setp.ge.u32 %p0, %d, 4; @%p0 bra L; ret;"""
SHARED_TREE = {
    "AT %t": "st.volatile.shared.u32 [%s], %t",
    "ZERO": "st.volatile.shared.u32 [%s+128], 0;",
    "LOAD": "ld.volatile.shared.u32 %r1, [%s]; add.u32 %r3, %s, %d; ld.volatile.shared.u32 %r2, [%r3];",
    "STORE": "add.u32 %r1, %r1, %r2; st.volatile.shared.u32 [%s], %r1;",
}
GLOBAL_TREE = {
    "AT %t": "st.relaxed.gpu.global.u32 [%q1], %t",
    "ZERO": "",
    "LOAD": "ld.relaxed.gpu.global.u32 %r1, [%q1]; cvt.u64.u32 %q2, %d; add.u64 %q2, %q1, %q2;"
    "ld.relaxed.gpu.global.u32 %r2, [%q2];",
    "STORE": "add.u32 %r1, %r1, %r2; st.relaxed.gpu.global.u32 [%q1], %r1;",
}


@pytest.mark.parametrize("tree", [SHARED_TREE, GLOBAL_TREE], ids=["shared", "global"])
def test_a_reduction_in_volatile_memory(tree: dict[str, str]) -> None:
    """PTX orders the lanes of a warp no more than its warps."""
    for sync in ("bar.warp.sync -1;", ""):
        body = TREE.replace("SYNC", sync)
        for name, code in tree.items():
            body = body.replace(name, code)
        faults = found(body, np.zeros(64, np.uint32))
        assert bool(faults) == (not sync)
        assert all(fault.level is Level.FORMAL and "bar.warp.sync between" in fault.missing for fault in faults)


def test_lanes_that_poll_a_flag_of_their_warp() -> None:
    body = """setp.eq.u32 %p0, %t, 3; @%p0 st.volatile.global.u32 [%a0], 1;
    W: ld.volatile.global.u32 %r1, [%a0]; setp.eq.u32 %p1, %r1, 0; @%p1 bra W; ret;"""
    assert not found(body, np.zeros(4, np.uint32))
    assert len(found(body.replace("@%p1 bra W;", ""), np.zeros(4, np.uint32))) == 1
