"""A bulk copy overtakes a read of shared memory whose values nothing used before the arrival that allows the copy."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.errors import Level, MissingProxyFence
from tests.emulator.ptx_kernel import launch, source

START = """
.shared .align 128 .b8 box[512]; .shared .align 8 .b64 full; .shared .align 8 .b64 read;
mov.u32 %r50, box; mov.u32 %r51, full; mov.u32 %r52, read; shl.b32 %r53, %t, 4; add.u32 %r53, %r53, %r50;
setp.eq.u32 %p0, %t, 0; setp.lt.u32 %p1, %t, 32; setp.eq.u32 %p2, %t, 32; add.u64 %q1, %a1, %b;
@%p0 mbarrier.init.shared.b64 [%r51], 1; @%p0 mbarrier.init.shared.b64 [%r52], 32; @%p0 fence.proxy.async; bar.sync 0;
@%p2 mbarrier.arrive.expect_tx.shared.b64 _, [%r51], 512;
@%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r50], [%a0], 512, [%r51];
FULL: mbarrier.try_wait.parity.shared.b64 %p5, [%r51], 0; @!%p5 bra FULL;
"""
READS = {
    "ldmatrix": "@%p1 ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r60, %r61, %r62, %r63}, [%r53];",
    "ld.shared": "@%p1 ld.shared.v4.u32 {%r60, %r61, %r62, %r63}, [%r53];",
}
WAIT = "READ: mbarrier.try_wait.parity.shared.b64 %p6, [%r52], 0; @!%p6 bra READ;"
ARRIVE = f"@%p1 mbarrier.arrive.shared.b64 _, [%r52]; {WAIT}"
CLUSTER = f"""mapa.shared::cluster.u32 %r57, %r52, 0;
@%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r57]; {WAIT}"""
COPY = """
@%p2 mbarrier.arrive.expect_tx.shared.b64 _, [%r51], 512;
@%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r50], [%a0], 512, [%r51];
AGAIN: mbarrier.try_wait.parity.shared.b64 %p7, [%r51], 1; @!%p7 bra AGAIN;
"""
STORE = "@!%p1 st.shared.u32 [%r53+-512], 7;"
MOVED = "mov.b32 %r59, %r60; "
"""A move to another register, which ptxas leaves out."""


def run(between: str, read: str = READS["ldmatrix"], write: str = COPY) -> None:
    """Read what a first copy wrote, overwrite it after what is `between`, and use the values then."""
    words, out = np.arange(128, dtype=np.uint32), np.zeros(64, np.uint32)
    use = "mov.b32 %r58, 0; @%p1 add.u32 %r58, %r60, %r61; st.global.u32 [%q1], %r58; ret;"
    launch(source(START + read + between + write + use, 2, block=64), words, out, block=64, level=Level.FAULT)


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("release", [ARRIVE, "bar.sync 0;", MOVED + ARRIVE])
def test_an_arrival_does_not_wait_for_a_read(read: str, release: str) -> None:
    """Measured on an H200: every word is of the second copy where loads of other warps miss the TLB."""
    needed = r"may still be reading: nothing uses its values before (mbarrier\.arrive|bar\.sync)"
    with pytest.raises(MissingProxyFence, match=needed) as found:
        run(release, READS[read])
    assert "missing      fence.proxy.async, or a use of the values, between PTX lines" in str(found.value)
    assert "by           warp 0 of CTA (0,0,0)\n  released at" in str(found.value)


@pytest.mark.parametrize(
    "between",
    [
        *(
            fence + release
            for fence in ("fence.proxy.async;", "fence.acq_rel.cta;")
            for release in (ARRIVE, "bar.sync 0;")
        ),
        "@%p1 add.u32 %r59, %r60, 1; " + ARRIVE,
        MOVED + "@%p1 add.u32 %r59, %r59, 1; bar.sync 0;",
        CLUSTER,
    ],
)
def test_a_fence_or_a_use_waits_for_it(between: str) -> None:
    run(between)


@pytest.mark.parametrize("release", [ARRIVE, "bar.sync 0;"])
def test_a_store_comes_after_it(release: str) -> None:
    """Loads and stores of the generic proxy take one way, in order."""
    run(release, READS["ld.shared"], STORE)


def test_a_later_arrival_after_the_use_orders_the_copy() -> None:
    run(f"bar.sync 0; @%p1 add.u32 %r59, %r60, 1; {ARRIVE}")
