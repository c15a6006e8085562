"""A CTA must not end before its bulk stores have read its shared memory."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ptx_launch import kernel, launch
from test_pairs import MODES

from emulator.errors import Fault, Level, MissingWait

SENT = """
    .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %a; .shared .align 16 .b8 words[128];
    mov.u32 %r0, %tid.x; and.b32 %r3, %r0, 31; shl.b32 %r1, %r3, 2; mov.b32 %r2, words; add.s32 %r1, %r1, %r2;
    setp.ge.u32 %p, %r0, 32; @%p bra TERMINATORS;
    st.shared.b32 [%r1], %r0; fence.proxy.async.shared::cta; bar.warp.sync -1; elect.sync _|%p, -1;
    ld.param.b64 %a, [out];
    @%p cp.async.bulk.global.shared::cta.bulk_group [%a], [%r2], 128;
    COMMIT WAIT
    TERMINATORS: END ret;
"""
COMMIT, WAIT = "@%p cp.async.bulk.commit_group;", "@%p cp.async.bulk.wait_group.read 0;"


def run(
    completion: str, commit: str = COMMIT, wait: str = WAIT, end: str = "", level: Level = Level.FORMAL
) -> list[Fault]:
    out, found = np.zeros(32, np.uint32), list[Fault]()
    text = SENT.replace("COMMIT", commit).replace("WAIT", wait).replace("END ret", f"{end} ret")
    text = kernel("k", ".param .u64 out", text)
    launch(text, [out], block=(64, 1, 1), completion=completion, level=level, findings=found)
    assert out.tolist() == [*range(32)]
    return found


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("wait", [WAIT, "@%p cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group.read 0;"])
def test_a_copy_that_is_waited_for(wait: str, completion: str) -> None:
    run(completion, wait=wait, level=Level.PEDANTIC)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({"wait": ""}, r"cp\.async\.bulk\.wait_group in warp 0 .* that covers PTX line (\d+), before the CTA ends"),
        ({"wait": "", "end": "bar.sync 0;"}, r"that covers PTX line (\d+)"),
        ({"wait": "@!%p cp.async.bulk.wait_group.read 0;"}, r"that covers PTX line (\d+)"),
        ({"wait": "@%p cp.async.bulk.wait_group.read 1;"}, r"that covers PTX line (\d+)"),
        ({"commit": ""}, r"cp\.async\.bulk\.wait_group in warp 0 .* after a commit_group that follows PTX line (\d+)"),
    ],
    ids=["no wait", "others go on", "another lane waits", "an older group is waited for", "no commit"],
)
def test_a_copy_that_is_not_waited_for(change: dict[str, str], missing: str, completion: str) -> None:
    with pytest.raises(
        MissingWait, match=r"a bulk store reads shared memory of CTA \(0,0,0\), which may have ended"
    ) as e:
        run(completion, **change)  # type: ignore[arg-type]
    found = re.search(missing, str(e.value))
    assert found and int(found[1]) == e.value.line, str(e.value)
    (listed,) = run(completion, level=Level.FAULT, **change)  # type: ignore[arg-type]
    assert listed.level == Level.FORMAL and str(listed) == str(e.value)


PEER = """
.reg .b32 %r<20>; .reg .b64 %q<4>; .reg .pred %p<4>; .shared .align 128 .b8 words[256]; .shared .align 8 .b8 full[8];
mov.u32 %r1, %tid.x; mov.b32 %r2, words; mov.b32 %r3, full; mov.u32 %r4, %cluster_ctarank; ld.param.b64 %q0, [out];
setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 128;
shl.b32 %r5, %r1, 2; add.u32 %r6, %r2, %r5; st.shared.b32 [%r6+128], %r1; fence.proxy.async.shared::cta;
bar.warp.sync -1; xor.b32 %r7, %r4, 1; mapa.shared::cluster.u32 %r8, %r2, %r7; mapa.shared::cluster.u32 %r9, %r3, %r7;
add.u32 %r10, %r2, 128;
@%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r8], [%r10], 128, [%r9];
W: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra W;
ld.shared.b32 %r11, [%r6]; shl.b32 %r12, %r4, 7; add.u32 %r12, %r12, %r5; cvt.u64.u32 %q1, %r12; add.u64 %q0, %q0, %q1;
st.global.b32 [%q0], %r11;
END ret;
"""


@pytest.mark.parametrize("completion", MODES)
def test_a_copy_to_another_cta_that_is_not_waited_for(completion: str) -> None:
    """Each CTA waits for what it receives, which does not mean that it waits for what it sends."""
    out, options = np.zeros(64, np.uint32), {"grid": (2, 1, 1), "cluster": (2, 1, 1), "completion": completion}
    text = kernel("k", ".param .u64 out", PEER)
    met = text.replace("END", "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;")
    launch(met, [out], level=Level.FORMAL, **options)  # type: ignore[arg-type]
    assert out.tolist() == [*range(32)] * 2
    with pytest.raises(MissingWait, match=r"a bulk copy reads shared memory of CTA .*, which may have ended") as caught:
        launch(text.replace("END", ""), [out], level=Level.FORMAL, **options)  # type: ignore[arg-type]
    assert caught.value.level == Level.FORMAL
