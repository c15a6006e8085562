"""st.async and red.async between the CTAs of a cluster, the good programs beside broken ones."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import kernel, launch

from emulator import errors
from emulator.machine.agents import Completion

MODES = ("eager", "lazy", "random")
STORE = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{} [%r5], {}, [%r6];"
REDUCE = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{} [%r5], %r7, [%r6];"
WAIT = "LOOP: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @%p2 bra GO; bra LOOP; GO:"


def run(act: str, size: int, out: np.ndarray, wait: str = WAIT, completion: Completion = "lazy") -> None:
    """Each thread acts on its place (%r5) of the other CTA; then its own CTA's words are handed out."""
    text = kernel(
        "remote",
        ".param .u64 out",
        f"""
.reg .b32 %r<20>; .reg .b64 %q<8>; .reg .pred %p<4>;
.shared .align 128 .b8 data[512]; .shared .align 8 .b8 full[8];
mov.u32 %r1, %tid.x; mov.b32 %r2, data; mov.b32 %r3, full; mov.u32 %r4, %cluster_ctarank; ld.param.b64 %q0, [out];
setp.eq.u32 %p1, %r1, 0;
@%p1 mbarrier.init.shared.b64 [%r3], 1;
shl.b32 %r8, %r1, 4; add.s32 %r9, %r2, %r8;
mov.b32 %r10, 100; st.shared.v4.b32 [%r9], {{%r10, %r10, %r10, %r10}};
fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], {size};
xor.b32 %r11, %r4, 1; mapa.shared::cluster.u32 %r5, %r9, %r11; mapa.shared::cluster.u32 %r6, %r3, %r11;
shl.b32 %r7, %r4, 8; add.s32 %r7, %r7, %r1;
{act}
{wait}
ld.shared.v4.b32 {{%r12, %r13, %r14, %r15}}, [%r9];
shl.b32 %r16, %r4, 9; add.s32 %r16, %r16, %r8; cvt.u64.u32 %q1, %r16; add.s64 %q0, %q0, %q1;
st.global.v4.b32 [%q0], {{%r12, %r13, %r14, %r15}};
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
ret;""",
    )
    launch(text, [out], grid=(2, 1, 1), block=(32, 1, 1), cluster=(2, 1, 1), completion=completion)


def sent() -> np.ndarray:
    """What each CTA gets: [CTA, thread]."""
    return np.stack([256 + np.arange(32), np.arange(32)])


CASES = [
    (STORE.format(".b32", "%r7"), 128, lambda old, new: [new, old, old, old]),
    (STORE.format(".v4.b32", "{%r7, %r1, %r7, %r7}"), 512, lambda old, new: [new, new % 256, new, new]),
    (REDUCE.format("add.u32"), 128, lambda old, new: [old + new, old, old, old]),
    (REDUCE.format("max.s32"), 128, lambda old, new: [np.maximum(old, new), old, old, old]),
    (REDUCE.format("xor.b32"), 128, lambda old, new: [old ^ new, old, old, old]),
]


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(("act", "size", "becomes"), CASES)
def test_words_arrive(act: str, size: int, becomes: object, completion: Completion) -> None:
    out = np.zeros((2, 32, 4), np.uint32)
    run(act, size, out, completion=completion)
    new = sent()
    assert callable(becomes)
    np.testing.assert_array_equal(out, np.stack(becomes(np.full_like(new, 100), new), -1))


def test_an_address_tells_its_cta() -> None:
    """getctarank of what mapa gives, for a shared address and a generic one."""
    out = np.full((2, 32, 4), 7, np.uint32)
    told = """cvt.u64.u32 %q3, %r5; cvta.shared::cluster.u64 %q3, %q3; getctarank.u64 %r18, %q3;
getctarank.shared::cluster.u32 %r17, %r5; mad.lo.s32 %r17, %r17, 16, %r18;"""
    run(f"{told} {STORE.format('.b32', '%r17')}", 128, out)
    np.testing.assert_array_equal(out[:, :, 0], [[0] * 32, [17] * 32])


@pytest.mark.parametrize("completion", MODES)
def test_the_wait_is_needed(completion: Completion) -> None:
    with pytest.raises(errors.MissingWait, match=r"st\.async"):
        run(CASES[0][0], 128, np.zeros((2, 32, 4), np.uint32), wait="barrier.cluster.arrive; barrier.cluster.wait;",
            completion=completion)  # fmt: skip


def test_bytes_are_counted() -> None:
    with pytest.raises((errors.Deadlock, errors.BarrierError)):
        run(CASES[0][0], 132, np.zeros((2, 32, 4), np.uint32))


@pytest.mark.parametrize(
    "act",
    [
        REDUCE.format("add.f32"),
        "st.async.weak.shared::cluster.b32 [%r5], %r7, [%r6];",
        "multimem.red.relaxed.sys.global.add.u32 [%q0], %r7;",
    ],
)
def test_what_is_refused(act: str) -> None:
    with pytest.raises(errors.UnknownInstruction):
        run(act, 128, np.zeros((2, 32, 4), np.uint32))


STARTED = """
    .reg .pred %p; .reg .b32 %r<9>; .shared .align 16 .b8 word[4];
    mov.u32 %r0, %cluster_ctarank; xor.b32 %r1, %r0, 1; mov.b32 %r2, word; mapa.shared::cluster.u32 %r3, %r2, %r1;
    mov.u32 %r4, %tid.x; setp.eq.u32 %p, %r4, 32;
    BARRIER @%p st.shared::cluster.b32 [%r3], %r0; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;
"""


@pytest.mark.parametrize("completion", ["eager", "lazy", "random"])
def test_another_cta_must_have_started(completion: str) -> None:
    def run(barrier: str) -> None:
        text = kernel("k", "", STARTED.replace("BARRIER", barrier))
        options = {"grid": (2, 1, 1), "cluster": (2, 1, 1), "block": (64, 1, 1), "level": errors.Level.FORMAL}
        launch(text, [], completion=completion, **options)

    run("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;")
    run("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;")
    with pytest.raises(
        errors.DataRace, match=r"st\.shared::cluster reaches shared memory of CTA \(\d,0,0\), which may not have"
    ):
        run("bar.sync 0;")
