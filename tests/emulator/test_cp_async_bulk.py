"""Bulk copies and reductions of contiguous bytes: to global memory in groups, to the cluster's shared memory."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import aligned, kernel, launch
from reference_reductions import KINDS, draw, reduced

from emulator import errors
from emulator.machine.order.completion import Completion

MODES = ("eager", "lazy", "random")
BYTES = 256
GLOBAL = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"), "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"), "inc": ("u32",), "dec": ("u32",),
    "and": ("b32", "b64"), "or": ("b32", "b64"), "xor": ("b32", "b64"),
}  # fmt: skip
SHARED = {
    "add": ("u32", "s32", "u64"), "min": ("u32", "s32"), "max": ("u32", "s32"), "inc": ("u32",), "dec": ("u32",),
    "and": ("b32",), "or": ("b32",), "xor": ("b32",),
}  # fmt: skip
WAIT = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"


def outward(act: str, new: np.ndarray, there: np.ndarray, completion: Completion = "lazy", fence: bool = True) -> None:
    """Store `new` to shared memory (%r2) by a warp, then act on `there` (%q1) in one thread."""
    text = kernel(
        "outward",
        ".param .u64 new, .param .u64 there",
        f"""
.reg .b32 %r<9>; .reg .b64 %q<9>; .reg .b16 %h<3>; .reg .pred %p<3>;
.shared .align 128 .b8 data[{BYTES}];
mov.u32 %r1, %tid.x; mov.b32 %r2, data; shl.b32 %r3, %r1, 3; add.s32 %r4, %r2, %r3; cvt.u64.u32 %q3, %r3;
ld.param.b64 %q0, [new]; ld.param.b64 %q1, [there]; add.s64 %q0, %q0, %q3;
ld.global.b64 %q4, [%q0]; st.shared.b64 [%r4], %q4;
{"fence.proxy.async.shared::cta;" if fence else ""}
bar.warp.sync -1;
setp.ne.u32 %p1, %r1, 0; @%p1 bra END;
{act}
END: ret;""",
    )
    launch(text, [new, there], completion=completion)


def reduction(operation: str, kind: str) -> str:
    exact = ".noftz" if kind in ("f16", "bf16") and operation == "add" else ""
    return f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}{exact}.{kind} [%q1], [%r2], {BYTES};"


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(("operation", "kind"), [(o, k) for o, kinds in GLOBAL.items() for k in kinds])
def test_reductions_of_global_memory(operation: str, kind: str, completion: Completion) -> None:
    rng, count = np.random.default_rng(1), BYTES // np.dtype(KINDS[kind]).itemsize
    new, there = (aligned(draw(kind, (count,), rng)) for _ in range(2))
    expected = reduced(operation, kind, reduced(operation, kind, there, new), new)
    outward(2 * reduction(operation, kind) + WAIT, new, there, completion)
    np.testing.assert_array_equal(there, expected)


def test_sums_of_f32_keep_subnormals() -> None:
    """Subnormal operands and results are kept, as on an H200."""
    tiny, small = np.float32(1e-40), np.float32(1.5e-38)
    old = np.array([tiny, -tiny, 1, small, -0.0, 0], np.float32)
    add = np.array([tiny, -tiny, tiny, np.float32(-1.2e-38), -tiny, -tiny], np.float32)
    new, there = aligned(np.resize(add, BYTES // 4)), aligned(np.resize(old, BYTES // 4))
    outward(reduction("add", "f32") + WAIT, new, there)
    expected = np.resize(old + add, BYTES // 4)
    np.testing.assert_array_equal(there.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("byte_mask", [0x0001, 0xFFFF, 0x8000, 0x5A0F, 0])
@pytest.mark.parametrize("hint", [False, True])
def test_bytes_chosen_by_a_mask(byte_mask: int, hint: bool) -> None:
    rng = np.random.default_rng(2)
    new, there = (aligned(rng.integers(0, 256, BYTES, np.uint8)) for _ in range(2))
    chosen = np.array([byte_mask >> i % 16 & 1 for i in range(BYTES)], bool)
    expected = np.where(chosen, new, there)
    form, policy = (".L2::cache_hint", "%q5, ") if hint else ("", "")
    copy = f"cp.async.bulk.global.shared::cta.bulk_group{form}.cp_mask [%q1], [%r2], {BYTES}, {policy}%h1;"
    outward(f"mov.b64 %q5, 0; mov.b16 %h1, {byte_mask}; {copy}{WAIT}", new, there)
    np.testing.assert_array_equal(there, expected)


SHARES = """
.reg .b16 %h<3>; .reg .b32 %r<9>; .reg .b64 %q<9>; .reg .pred %p<4>;
.shared .align 128 .b8 data[128];
mov.u32 %r1, %tid.x; mov.b32 %r2, data; shl.b32 %r3, %r1, 2; add.s32 %r3, %r3, %r2; and.b32 %r4, %r1, 3;
shl.b32 %r5, %r1, 6; add.s32 %r2, %r2, %r5; ld.param.b64 %q1, [there]; mul.wide.u32 %q2, %r1, 4; add.s64 %q2, %q2, %q1;
setp.eq.u32 %p0, %r4, WORD; @!%p0 st.shared.b32 [%r3], %r1;
fence.proxy.async.shared::cta; bar.warp.sync -1;
setp.lt.u32 %p1, %r1, 2; setp.eq.u32 %p2, %r1, 0;
selp.b16 %h1, 0x00ff, SECOND, %p2; setp.eq.u32 %p3, %r4, WORD;
@%p1 cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%q1], [%r2], 64, %h1;
@%p3 st.global.b32 [%q2], 7;
@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0; ret;
"""
"""Two lanes copy to one place with byte masks, the second with SECOND. One in four threads stores a word there itself,
which is not in shared memory.
"""


def share(word: int, second: int, completion: Completion) -> np.ndarray:
    there = aligned(np.zeros(32, np.uint32))
    text = kernel("share", ".param .u64 there", SHARES.replace("WORD", str(word)).replace("SECOND", f"{second:#x}"))
    launch(text, [there], completion=completion)
    return there


@pytest.mark.parametrize("completion", MODES)
def test_copies_by_masks_share_what_lies_between(completion: Completion) -> None:
    """Bytes outside the mask are neither read nor written."""
    expected = [7 if i % 4 == 3 else (i + 16) * (i < 16) if i % 4 == 2 else i * (i < 16) for i in range(32)]
    assert share(3, 0x0F00, completion).tolist() == expected


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(
    ("word", "second", "error"),
    [
        (3, 0x0F10, errors.MissingWait),  # a byte that the first copy writes
        (3, 0x1F00, errors.UnwrittenRead),
        (1, 0x0F00, errors.UnwrittenRead),
    ],
)
def test_copies_by_masks_that_meet(word: int, second: int, error: type[Exception], completion: Completion) -> None:
    with pytest.raises(error, match="a bulk store"):
        share(word, second, completion)


def test_copies_out() -> None:
    new, there = aligned(np.arange(BYTES, dtype=np.uint8)), aligned(np.zeros(BYTES, np.uint8))
    outward(f"cp.async.bulk.global.shared::cta.bulk_group [%q1+32], [%r2+16], 64; {WAIT}", new, there)
    np.testing.assert_array_equal(there[32:96], new[16:80])
    assert not there[:32].any()
    assert not there[96:].any()


@pytest.mark.parametrize(
    ("act", "error", "says"),
    [
        (reduction("add", "f16").replace(".noftz", ""), errors.UnknownInstruction, "noftz"),
        (reduction("add", "f32").replace(".f32", ".noftz.f32"), errors.UnknownInstruction, "noftz"),
        (reduction("min", "f32"), errors.UnknownInstruction, r"\.min\.f32 to \.global"),
        (reduction("inc", "s32"), errors.UnknownInstruction, r"\.inc\.s32 to \.global"),
        (reduction("add", "u32").replace(f"{BYTES};", "24;"), errors.Misaligned, "a bulk reduction"),
        (reduction("add", "u32").replace("[%q1]", "[%q1+16]"), errors.OutOfBounds, "a bulk reduction"),
        (reduction("add", "u32") + "st.shared.b32 [%r2], %r1;", errors.MissingWait, r"cp\.async\.bulk\.wait_group"),
    ],
)
def test_what_is_refused(act: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        outward(act, *(aligned(np.zeros(BYTES, np.uint32)[: BYTES // 4]) for _ in range(2)))


def test_the_source_must_be_fenced() -> None:
    with pytest.raises(errors.MissingProxyFence, match="a bulk reduction reads"):
        new, there = (aligned(np.zeros(BYTES // 4, np.uint32)) for _ in range(2))
        outward(reduction("add", "u32") + WAIT, new, there, fence=False)


# within a cluster ----------------------------------------------------------------------------------------------------

READY = "LOOP: mbarrier.try_wait.parity.shared.b64 %p2, [%r5], 0; @%p2 bra GO; bra LOOP; GO:"


def across(
    act: str, given: np.ndarray, ctas: int, wait: str = READY, completion: Completion = "lazy", fence: bool = True
) -> np.ndarray:
    """Every CTA but the first acts once on the first CTA's data (%r6; its mbarrier is %r7), which is then stored."""
    out = aligned(np.zeros(BYTES, np.uint8))
    text = kernel(
        "across",
        ".param .u64 given, .param .u64 out",
        f"""
.reg .b32 %r<16>; .reg .b64 %q<9>; .reg .pred %p<6>;
.shared .align 128 .b8 data[{BYTES}]; .shared .align 8 .b8 full[8];
mov.u32 %r1, %tid.x; mov.b32 %r2, data; shl.b32 %r3, %r1, 3; add.s32 %r4, %r2, %r3; mov.b32 %r5, full;
mov.u32 %r8, %cluster_ctarank;
ld.param.b64 %q0, [given]; ld.param.b64 %q1, [out]; mul.wide.u32 %q2, %r8, {BYTES}; add.s64 %q0, %q0, %q2;
cvt.u64.u32 %q3, %r3; add.s64 %q0, %q0, %q3; add.s64 %q1, %q1, %q3;
ld.global.b64 %q4, [%q0]; st.shared.b64 [%r4], %q4;
setp.eq.u32 %p1, %r1, 0; setp.ne.u32 %p3, %r8, 0;
@%p1 mbarrier.init.shared.b64 [%r5], 1;
fence.mbarrier_init.release.cluster;
{"fence.proxy.async;" if fence else ""}
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
mapa.shared::cluster.u32 %r6, %r2, 0; mapa.shared::cluster.u32 %r7, %r5, 0;
@%p3 bra SEND;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r5], {BYTES * (ctas - 1)};
{wait}
ld.shared.b64 %q4, [%r4]; st.global.b64 [%q1], %q4;
bra END;
SEND: @!%p1 bra END;
{act}
END: barrier.cluster.arrive; barrier.cluster.wait; ret;""",
    )
    launch(text, [given, out], grid=(ctas, 1, 1), cluster=(ctas, 1, 1), completion=completion)
    return out


def sending(operation: str, kind: str) -> str:
    form = f"cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{operation}.{kind}"
    return f"{form} [%r6], [%r2], {BYTES}, [%r7];"


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(("operation", "kind"), [(o, k) for o, kinds in SHARED.items() for k in kinds])
def test_reductions_in_a_cluster(operation: str, kind: str, completion: Completion) -> None:
    """Two CTAs reduce into the first CTA's memory. Reductions need no order."""
    dtype, rng = KINDS[kind], np.random.default_rng(3)
    given = aligned(draw(kind, (3, BYTES // np.dtype(dtype).itemsize), rng))
    one, other = ([1, 2], [2, 1])
    allowed = []
    for order in (one, other):
        result = given[0]
        for sender in order:
            result = reduced(operation, kind, result, given[sender])
        allowed.append(result)
    got = across(sending(operation, kind), given, 3, completion=completion).view(dtype)
    assert np.logical_or(got == allowed[0], got == allowed[1]).all()


def test_copies_in_a_cluster() -> None:
    given = aligned(np.random.default_rng(4).integers(0, 256, (2, BYTES), np.uint8))
    copy = f"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r6], [%r2], {BYTES}, [%r7];"
    np.testing.assert_array_equal(across(copy, given, 2), given[1])


@pytest.mark.parametrize("completion", MODES)
def test_copies_to_one_place_race(completion: Completion) -> None:
    given = aligned(np.zeros((3, BYTES), np.uint8))
    copy = f"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r6], [%r2], {BYTES}, [%r7];"
    with pytest.raises(errors.MissingWait, match=r"a bulk copy writes .* not ordered after a bulk copy"):
        across(copy, given, 3, completion=completion)


@pytest.mark.parametrize("completion", MODES)
def test_a_reduction_is_waited_for(completion: Completion) -> None:
    with pytest.raises(errors.MissingWait, match=r"bulk reduction"):
        wait = "barrier.cluster.arrive; barrier.cluster.wait;"
        act = f"{sending('add', 'u32')} barrier.cluster.arrive; barrier.cluster.wait;"
        across(act, aligned(np.zeros((2, BYTES // 4), np.uint32)), 2, wait, completion)


def test_what_is_folded_into_must_be_fenced() -> None:
    with pytest.raises(errors.MissingProxyFence, match="a bulk reduction reads"):
        across(sending("add", "u32"), aligned(np.zeros((2, BYTES // 4), np.uint32)), 2, fence=False)


@pytest.mark.parametrize(("operation", "kind"), [("add", "f32"), ("add", "s64"), ("and", "b64")])
def test_types_that_shared_memory_does_not_take(operation: str, kind: str) -> None:
    with pytest.raises(errors.UnknownInstruction, match=rf"\.{operation}\.{kind} to \.shared::cluster"):
        across(sending(operation, kind), aligned(np.zeros((2, BYTES), np.uint8)), 2)
