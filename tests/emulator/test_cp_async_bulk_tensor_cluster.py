"""TMA within a cluster: boxes for several CTAs, and the mbarrier that each signals."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import aligned, kernel, launch
from test_cp_async_bulk_tensor import tensor_map

from emulator import errors
from emulator.errors import EmulatorError
from emulator.machine.agents.boxes import LoadQueue
from emulator.machine.order.completion import Completion

MODES = ("eager", "lazy", "random")
BOX = 1024
"""Bytes: 8 rows of 32 words."""
LOAD = "@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
OWN = "mov.b32 %r9, %r3; mov.b32 %r10, EXPECTED;"
EVEN = "and.b32 %r9, %r3, 0xFEFFFFFF; and.b32 %r11, %r8, 1; setp.eq.u32 %p3, %r11, 0;"


def run(load: str, notify: str, ctas: int, completion: Completion = "lazy") -> tuple[np.ndarray, np.ndarray]:
    """Load box r by CTA r's `load` to byte r * BOX. Return each CTA's shared memory and the array.

    %r9 is the mbarrier's address. notify: code that sets %r9, and %r10 to the bytes that the CTA's own mbarrier
    expects, 0 for none.
    """
    array = aligned(np.arange(ctas * 256, dtype=np.uint32).reshape(ctas * 8, 32))
    out = np.zeros((ctas, ctas * 256), np.uint32)
    text = kernel(
        "cluster",
        ".param .align 64 .b8 map[128], .param .u64 out",
        f"""
.reg .b16 %h<2>; .reg .b32 %r<20>; .reg .b64 %q<9>; .reg .pred %p<8>;
.shared .align 1024 .b8 box[{ctas * BOX}]; .shared .align 8 .b8 full[8];
mov.u32 %r1, %tid.x; mov.b32 %r2, box; mov.b32 %r3, full; mov.u32 %r8, %cluster_ctarank;
elect.sync _|%p1, -1;
@%p1 mbarrier.init.shared.b64 [%r3], 1;
fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
mov.b64 %q0, map; cvta.param.u64 %q0, %q0; ld.param.b64 %q1, [out];
mov.b32 %r4, 0; shl.b32 %r5, %r8, 3; mul.lo.u32 %r6, %r8, {BOX}; add.s32 %r7, %r2, %r6; mov.b16 %h1, {(1 << ctas) - 1};
{notify}
setp.ne.u32 %p2, %r10, 0; and.pred %p4, %p1, %p2;
@%p4 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], %r10;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
{load}
@!%p2 bra HEARD;
WAIT: mbarrier.try_wait.parity.shared.b64 %p0, [%r3], 0; @%p0 bra HEARD; bra WAIT;
HEARD: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
mul.wide.u32 %q2, %r8, {ctas * BOX}; add.s64 %q1, %q1, %q2; mul.wide.u32 %q3, %r1, 4; add.s64 %q1, %q1, %q3;
shl.b32 %r12, %r1, 2; add.s32 %r12, %r12, %r2; mov.b32 %r13, 0;
COPY: ld.shared.b32 %r14, [%r12]; st.global.b32 [%q1], %r14;
add.s32 %r12, %r12, 128; add.s64 %q1, %q1, 128; add.s32 %r13, %r13, 128;
setp.lt.u32 %p0, %r13, {ctas * BOX}; @%p0 bra COPY;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
ret;""",
    )
    raw = tensor_map(array, (32, 8), 0)
    launch(text, [raw, out], grid=(ctas, 1, 1), cluster=(ctas, 1, 1), completion=completion)
    return out, array


def of_even(expected: int) -> str:
    """Return code that signals the even CTA of each pair for all bytes that the pair receives."""
    return f"{EVEN} selp.b32 %r10, {expected}, 0, %p3;"


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("ctas", [1, 2, 4])
def test_every_cta_gets_every_box(ctas: int, completion: Completion) -> None:
    load = f"{LOAD}.multicast::cluster [%r7], [%q0, {{%r4, %r5}}], [%r9], %h1;"
    out, array = run(load, OWN.replace("EXPECTED", str(ctas * BOX)), ctas, completion)
    np.testing.assert_array_equal(out, np.broadcast_to(array.reshape(1, -1), out.shape))


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("ctas", [2, 4])
def test_the_even_cta_of_each_pair_hears(ctas: int, completion: Completion) -> None:
    load = f"{LOAD}.multicast::cluster.cta_group::2 [%r7], [%q0, {{%r4, %r5}}], [%r9], %h1;"
    out, array = run(load, of_even(2 * ctas * BOX), ctas, completion)
    np.testing.assert_array_equal(out, np.broadcast_to(array.reshape(1, -1), out.shape))


SINGLE = LOAD + "{} [%r7], [%q0, {{%r4, %r5}}], [%r9];"


@pytest.mark.parametrize("completion", MODES)
def test_one_box_each_and_the_peer_hears(completion: Completion) -> None:
    """CTA r gets box r at byte r * BOX. Its threads fill the other box's place with sevens."""
    stores = "".join(f"st.shared.b32 [%r16+{128 * i}], %r18;" for i in range(BOX // 128))
    fill = f"xor.b32 %r19, %r8, 1; mul.lo.u32 %r16, %r19, {BOX}; add.s32 %r16, %r16, %r2; shl.b32 %r17, %r1, 2;"
    rest = f"{fill} add.s32 %r16, %r16, %r17; mov.b32 %r18, 7; {stores}"
    out, array = run(SINGLE.format(".cta_group::2") + rest, of_even(2 * BOX), 2, completion)
    wanted = np.full((2, 2, 256), 7)
    wanted[[0, 1], [0, 1]] = array.reshape(2, 256)
    np.testing.assert_array_equal(out, wanted.reshape(2, -1))


@pytest.mark.parametrize("group", ["", ".cta_group::1"])
def test_the_peer_hears_only_of_a_pair(group: str) -> None:
    heard = r"to CTA \(1,0,0\) reports to full \(mbarrier #0 .* of CTA \(0,0,0\)"
    with pytest.raises(errors.BarrierError, match=heard):
        run(SINGLE.format(group), of_even(2 * BOX), 2)


def test_a_far_cta_is_no_peer() -> None:
    far = f"and.b32 %r9, %r3, 0xFCFFFFFF; setp.eq.u32 %p3, %r8, 0; selp.b32 %r10, {4 * BOX}, 0, %p3;"
    with pytest.raises(errors.BarrierError, match="that CTA or its peer"):
        run(SINGLE.format(".cta_group::2"), far, 4)


def test_a_cta_that_the_cluster_does_not_have() -> None:
    load = f"mov.b16 %h1, 5; {LOAD}.multicast::cluster [%r7], [%q0, {{%r4, %r5}}], [%r9], %h1;"
    with pytest.raises(errors.OutOfBounds, match="to CTA rank 2 of a cluster of 2"):
        run(load, OWN.replace("EXPECTED", str(BOX)), 2)


def outcome(load: str, notify: str, completion: Completion) -> str | list[int]:
    """Return the results of a program of two CTAs, or its report."""
    try:
        return run(load, notify, 2, completion)[0].reshape(-1).tolist()
    except EmulatorError as error:
        return str(error)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("seed", range(25))
def test_loads_in_a_row(seed: int, completion: Completion, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads that may overlap, are misaligned or bring unexpected bytes have the same outcome as separate loads."""
    rng = np.random.default_rng(seed)
    places = [*rng.permutation([0, BOX]), *rng.choice([0, BOX, BOX // 2, 64], rng.choice([0, 1], p=[0.7, 0.3]))]
    load, got = "setp.eq.u32 %p5, %r8, 0; and.pred %p1, %p1, %p5;\n", [0, 0]
    for place in places:
        copies = int(rng.integers(1, 3))
        load += f"add.s32 %r15, %r2, {place}; mov.b32 %r16, {8 * rng.integers(2)};\n"
        load += f"{LOAD}{'.multicast::cluster' * (copies == 2)} [%r15], [%q0, {{%r4, %r16}}], [%r3]"
        load += ", %h1;\n" if copies == 2 else ";\n"
        got = [got[0] + BOX, got[1] + BOX * (copies == 2)]
    first, second = (max(bytes_ - BOX * int(rng.random() < 0.25), 0) for bytes_ in got)
    notify = f"setp.eq.u32 %p3, %r8, 0; selp.b32 %r10, {first}, {second}, %p3; mov.b32 %r9, %r3;"
    together = outcome(load, notify, completion)
    monkeypatch.setattr(LoadQueue, "takes", lambda *_: False)
    assert outcome(load, notify, completion) == together
