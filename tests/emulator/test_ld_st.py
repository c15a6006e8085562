"""Loads, stores, atomics and copies by threads in every state space, against numpy and CuTe's copy atoms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ptx_launch import aligned, kernel, launch
from tensor_layouts import atoms_nv

from emulator import errors
from emulator.machine.order.completion import Completion

MODES: tuple[Completion, ...] = ("eager", "lazy", "random")
RNG = np.random.default_rng(0)


def run(
    body: str,
    *arrays: np.ndarray,
    warps: int = 1,
    cluster: int = 1,
    completion: Completion = "lazy",
    level: errors.Level = errors.Level.FAULT,
) -> None:
    """Run a body with the arrays' addresses in %a0, %a1, ..., the thread in %t, the warp in %w."""
    params = ", ".join(f".param .u64 p{i}" for i in range(len(arrays)))
    loads = "\n".join(f"ld.param.b64 %a{i}, [p{i}];" for i in range(len(arrays)))
    text = kernel(
        "memory",
        params,
        f"""
.reg .b16 %h<20>; .reg .b32 %r<60>; .reg .b64 %q<40>; .reg .b64 %a<8>; .reg .pred %p<8>; .reg .b32 %t, %w;
.reg .f32 %f<8>;
.shared .align 128 .b8 data[2048]; .shared .align 8 .b8 bar[16]; .local .align 8 .b8 mine[64];
mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; shfl.sync.idx.b32 %w, %w, 0, 31, -1;
mov.b32 %r50, data; mov.b32 %r51, bar; elect.sync _|%p7, -1;
{loads}
{body}
ret;""",
    )
    grid = (cluster, 1, 1)
    launch(text, arrays, grid=grid, block=(32 * warps, 1, 1), cluster=grid, completion=completion, level=level)


def at(array: str, size: int) -> str:
    return f"mul.wide.u32 %q0, %t, {size}; add.s64 %{array}, %{array}, %q0;"


def test_shared_memory_ends_with_the_last_variable() -> None:
    run("st.shared.b64 [bar+8], 1;")
    with pytest.raises(errors.OutOfBounds, match=r"st\.shared at 0x\w+, 8 bytes, leaves the shared memory of CTA"):
        run("st.shared.b64 [bar+16], 1;")


@pytest.mark.parametrize(("bits", "vector"), [(b, v) for b in (8, 16, 32, 64) for v in (1, 2, 4)] + [(32, 8)])
def test_vectors_through_every_space(bits: int, vector: int) -> None:
    """Global to shared, shared to local, local to global, generically. Only global memory has 32-byte vectors."""
    size = bits // 8 * vector
    names = [f"%{ {8: 'h', 16: 'h', 32: 'r', 64: 'q'}[bits] }{i + 1}" for i in range(vector)]
    values = f"{{{', '.join(names)}}}" if vector > 1 else names[0]
    form = f"{f'v{vector}.' if vector > 1 else ''}b{bits}"
    given = aligned(RNG.integers(0, 256, 32 * size, np.uint8))
    out = aligned(np.zeros_like(given))
    elsewhere = f"""
st.shared.{form} [%r40], {values};
ld.shared.{form} {values}, [%r40]; st.local.{form} [mine], {values};
mov.b64 %q30, mine; cvta.local.u64 %q30, %q30; ld.{form} {values}, [%q30];
cvt.u64.u32 %q31, %r40; cvta.shared.u64 %q31, %q31; st.{form} [%q31], {values};
ld.{form} {values}, [%q31];"""
    run(
        f"""
{at("a0", size)} {at("a1", size)} mul.lo.u32 %r40, %t, {size}; add.s32 %r40, %r40, %r50;
ld.global.{form} {values}, [%a0]; {elsewhere if size <= 16 else ""} st.{form} [%a1], {values};""",
        given,
        out,
    )
    np.testing.assert_array_equal(out, given)


WIDENED = """
mul.lo.u32 %r40, %t, 16; add.s32 %r40, %r40, %r50;
st.shared.v2.b32 [%r40], {%t, %t}; st.shared.b32 [%r40+8], %t;
PRAGMA
ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r40];
add.s32 %r1, %r1, %r2; add.s32 %r1, %r1, %r3; mul.wide.u32 %q0, %t, 4; add.s64 %a0, %a0, %q0; st.global.b32 [%a0], %r1;
"""


@pytest.mark.parametrize("completion", MODES)
def test_a_load_is_asked_only_for_the_bytes_that_the_program_uses(completion: Completion) -> None:
    """By the pragma, and by the registers that are read later. Reading the other bytes is formal."""
    out = np.zeros(32, np.uint32)
    run(WIDENED.replace("PRAGMA", '.pragma "used_bytes_mask 0xfff";'), out, completion=completion)
    assert out.tolist() == [3 * t for t in range(32)]
    for pragma in ("", '.pragma "used_bytes_mask 0x1fff";', '.pragma "used_bytes_mask 0xf0ff";'):
        text = WIDENED.replace("PRAGMA", pragma)
        with pytest.raises(errors.UnwrittenRead, match=r"ld\.shared reads"):
            run(text, out, completion=completion, level=errors.Level.FORMAL)
        with pytest.raises(errors.UnwrittenRead, match=r"ld\.shared reads"):
            run(text.replace("%r1, %r3;", "%r1, %r4;"), out, completion=completion)


def test_used_bytes_where_single_bytes_are_known() -> None:
    body = """
mul.lo.u32 %r40, %t, 4; add.s32 %r40, %r40, %r50; st.shared.b8 [%r40], %t; st.shared.b8 [%r40+3], %t;
.pragma "used_bytes_mask MASK";
ld.shared.b32 %r1, [%r40];"""
    run(body.replace("MASK", "0x9"))
    with pytest.raises(errors.UnwrittenRead):
        run(body.replace("MASK", "0xb"), level=errors.Level.FORMAL)


def test_eight_of_anything_but_words_is_refused() -> None:
    with pytest.raises(errors.UnknownInstruction, match="32 bytes; allowed are 16"):
        run("ld.shared.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%r50];")
    with pytest.raises(errors.UnknownInstruction, match=r"v8 of \.b16"):
        run("ld.global.v8.b16 {%h1, %h2, %h3, %h4, %h5, %h6, %h7, %h8}, [%a0];")


def test_narrow_loads_extend() -> None:
    given, out = RNG.integers(0, 256, 32, np.uint8), np.zeros((2, 32), np.int32)
    run(
        f"""
cvt.u64.u32 %q1, %t; add.s64 %a0, %a0, %q1; {at("a1", 4)}
ld.global.u8 %r1, [%a0]; ld.global.s8 %r2, [%a0]; st.global.b32 [%a1], %r1; st.global.b32 [%a1+128], %r2;""",
        given,
        out,
    )
    np.testing.assert_array_equal(out, [given, given.view(np.int8)])


def test_masked_lanes_keep_their_registers() -> None:
    given, out = np.arange(32, dtype=np.uint32) + 100, np.zeros(32, np.uint32)
    load = "mov.b32 %r1, %t; setp.gt.u32 %p1, %t, 9; @%p1 ld.global.b32 %r1, [%a0];"
    run(f"{at('a0', 4)} {at('a1', 4)} {load} st.global.b32 [%a1], %r1;", given, out)
    np.testing.assert_array_equal(out, np.where(np.arange(32) > 9, given, np.arange(32)))


def test_neighbouring_bytes_of_two_warps_are_no_race() -> None:
    out = np.zeros(64, np.uint16)
    run(
        f"""
and.b32 %r1, %t, 31; shl.b32 %r1, %r1, 2; shl.b32 %r2, %w, 1; add.s32 %r1, %r1, %r2; add.s32 %r1, %r1, %r50;
cvt.u16.u32 %h1, %t; st.shared.b16 [%r1], %h1; bar.sync 0;
shl.b32 %r3, %t, 1; add.s32 %r3, %r3, %r50; ld.shared.b16 %h2, [%r3]; {at("a0", 2)} st.global.b16 [%a0], %h2;""",
        out,
        warps=2,
    )
    np.testing.assert_array_equal(out.reshape(32, 2), np.arange(64).reshape(2, 32).T)


FOLDS: dict[str, Callable[[np.ndarray], Any]] = {
    "add.u32": lambda v: v.sum(dtype=np.uint32),
    "min.s32": lambda v: v.view(np.int32).min().view(np.uint32),
    "max.u32": lambda v: v.max(),
    "and.b32": np.bitwise_and.reduce,
    "or.b32": np.bitwise_or.reduce,
    "xor.b32": np.bitwise_xor.reduce,
}


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("form", FOLDS)
def test_atomics_fold_all_lanes_of_all_warps(form: str, space: str) -> None:
    given = RNG.integers(0, 1 << 32, 64, np.uint32)
    out = np.array([given[0]], np.uint32)
    if space == "global":
        body = f"{at('a0', 4)} ld.global.b32 %r1, [%a0]; setp.gt.u32 %p1, %t, 0; @%p1 red.global.{form} [%a1], %r1;"
    else:
        body = f"""
{at("a0", 4)} ld.global.b32 %r1, [%a0]; setp.eq.u32 %p1, %t, 0; @%p1 st.shared.b32 [%r50], %r1; bar.sync 0;
@!%p1 atom.shared.{form} %r2, [%r50], %r1; bar.sync 0; ld.shared.b32 %r3, [%r50]; @%p1 st.global.b32 [%a1], %r3;"""
    run(body, given, out, warps=2)
    assert out[0] == FOLDS[form](given)


def test_atomics_answer_what_was_there() -> None:
    out, counter = np.zeros(64, np.uint32), np.zeros(2, np.uint32)
    run(
        f"{at('a0', 4)} atom.global.add.u32 %r1, [%a1], 1; st.global.b32 [%a0], %r1;"
        "atom.global.cas.b32 %r2, [%a1+4], %t, 7;",
        out,
        counter,
        warps=2,
    )
    assert sorted(out) == list(range(64))
    assert counter.tolist() == [64, 7]


def test_packed_atomics() -> None:
    out = np.zeros(4, np.float16)
    run("mov.b32 %r1, 0x3c004000; red.global.add.noftz.f16x2 [%a0], %r1;", out)
    np.testing.assert_array_equal(out, [64, 32, 0, 0])


def test_float_vectors_reduce() -> None:
    out = np.arange(4, dtype=np.float32)
    run(
        "mov.b32 %r1, 0x3f800000; red.global.add.v4.f32 [%a0], {%r1, %r1, %r1, %r1};",
        out,
    )
    np.testing.assert_array_equal(out, np.arange(4) + 32)


@pytest.mark.parametrize("matrices", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix_and_stmatrix(matrices: int, trans: bool) -> None:
    """Against CuTe's atoms: (thread, bit of its registers) -> bit of the rows."""
    name = f"SM75_U16x{2 * matrices}_LDSM_T" if trans else f"SM75_U32x{matrices}_LDSM_N"
    layout = getattr(atoms_nv, name).dst_layout_bits
    given = RNG.integers(0, 1 << 16, (8 * matrices, 8), np.uint16)
    out, back = np.zeros((32, matrices), np.uint32), np.zeros_like(given)
    registers = f"{{{', '.join(f'%r{i}' for i in range(matrices))}}}"
    form = f"x{matrices}{'.trans' if trans else ''}"
    rows = 8 * matrices
    stores = "".join(f"st.global.b32 [%a1+{4 * i}], %r{i};" for i in range(matrices))
    run(
        f"""
shl.b32 %r20, %t, 4; add.s32 %r21, %r20, %r50; cvt.u64.u32 %q1, %r20; add.s64 %a0, %a0, %q1; add.s64 %a2, %a2, %q1;
setp.lt.u32 %p1, %t, {rows};
@%p1 ld.global.v4.b32 {{%r22, %r23, %r24, %r25}}, [%a0]; @%p1 st.shared.v4.b32 [%r21], {{%r22, %r23, %r24, %r25}};
ldmatrix.sync.aligned.m8n8.{form}.shared.b16 {registers}, [%r21];
mul.wide.u32 %q2, %t, {4 * matrices}; add.s64 %a1, %a1, %q2; {stores}
add.s32 %r21, %r21, 1024;
stmatrix.sync.aligned.m8n8.{form}.shared.b16 [%r21], {registers};
@%p1 ld.shared.v4.b32 {{%r22, %r23, %r24, %r25}}, [%r21]; @%p1 st.global.v4.b32 [%a2], {{%r22, %r23, %r24, %r25}};""",
        given,
        out,
        back,
    )
    flat = given.reshape(-1)
    for t in range(32):
        for v in range(2 * matrices):
            half = out[t, v // 2] >> 16 * (v % 2) & 0xFFFF
            assert half == flat[layout(t, 16 * v) // 16]
    np.testing.assert_array_equal(back, given)


COPY = """
shl.b32 %r1, %t, 4; add.s32 %r2, %r1, %r50; cvt.u64.u32 %q1, %r1; add.s64 %a0, %a0, %q1; add.s64 %a1, %a1, %q1;
setp.gt.u32 %p1, %t, 3; selp.b32 %r3, 16, 8, %p1;
cp.async.cg.shared.global [%r2], [%a0], 16, %r3;
cp.async.commit_group;
{wait}
ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r2]; st.global.v4.b32 [%a1], {{%r4, %r5, %r6, %r7}};
"""


@pytest.mark.parametrize("completion", MODES)
def test_cp_async_fills_with_zeros(completion: Completion) -> None:
    given, out = np.arange(128, dtype=np.uint32).reshape(32, 4) + 1, np.zeros((32, 4), np.uint32)
    run(COPY.format(wait="cp.async.wait_group 0;"), given, out, completion=completion)
    expected = given.copy()
    expected[:4, 2:] = 0
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("ignored", "zeros"), [("lt.u32 %p1, %t, 3", 3), ("ne.u32 %p1, 1, 1", 0), ("eq.u32 %p1, 1, 1", 32)]
)
def test_cp_async_ignores_its_source_by_a_predicate_of_each_lane_or_of_the_warp(ignored: str, zeros: int) -> None:
    given, out = np.arange(128, dtype=np.uint32).reshape(32, 4) + 1, np.full((32, 4), 99, np.uint32)
    text = COPY.format(wait="cp.async.wait_all;").replace("setp.gt.u32 %p1, %t, 3", f"setp.{ignored}")
    run(text.replace("16, %r3;", "16, %p1;"), given, out)
    np.testing.assert_array_equal(out, np.where(np.arange(32)[:, None] < zeros, 0, given))


@pytest.mark.parametrize("completion", MODES)
def test_cp_async_needs_its_wait(completion: Completion) -> None:
    with pytest.raises(errors.MissingWait, match=r"cp\.async\.wait_group in warp 0"):
        run(COPY.format(wait=""), np.zeros((32, 4), np.uint32), np.zeros((32, 4), np.uint32), completion=completion)


@pytest.mark.parametrize("completion", MODES)
def test_cp_async_reports_to_an_mbarrier(completion: Completion) -> None:
    wait = """
@%p7 mbarrier.init.shared.b64 [%r51], 32; bar.warp.sync -1;
cp.async.mbarrier.arrive.noinc.shared.b64 [%r51];
LOOP: mbarrier.try_wait.parity.shared.b64 %p2, [%r51], 0; @%p2 bra GO; bra LOOP; GO:"""
    given, out = np.arange(128, dtype=np.uint32).reshape(32, 4) + 1, np.zeros((32, 4), np.uint32)
    run(COPY.format(wait=wait), given, out, completion=completion)
    np.testing.assert_array_equal(out[4:], given[4:])


FLAG = """
setp.eq.u32 %p1, %w, 1;
@%p1 bra READ;
mov.b32 %r1, 0; @%p7 st.shared.b32 [%r50+1024], %r1; bar.sync 0;
shl.b32 %r2, %t, 2; add.s32 %r2, %r2, %r50; st.shared.b32 [%r2], %t; bar.warp.sync -1;
mov.b32 %r1, 1; @%p7 {store} [%r50+1024], %r1;
bra END;
READ: bar.sync 0;
LOOP: {load} %r3, [%r50+1024]; setp.eq.u32 %p2, %r3, 1; @%p2 bra GO; nanosleep.u32 20; bra LOOP;
GO: {fence} and.b32 %r4, %t, 31; shl.b32 %r4, %r4, 2; add.s32 %r5, %r4, %r50; ld.shared.b32 %r6, [%r5];
cvt.u64.u32 %q1, %r4; add.s64 %a0, %a0, %q1; st.global.b32 [%a0], %r6;
END:
"""


def test_a_flag_with_release_and_acquire_orders() -> None:
    out = np.zeros(32, np.uint32)
    run(FLAG.format(store="st.release.cta.shared.b32", load="ld.acquire.cta.shared.b32", fence=""), out, warps=2)
    np.testing.assert_array_equal(out, np.arange(32))


RELEASE, ACQUIRE = "fence.acq_rel.cta; @%p7 ", "fence.acq_rel.cta;"
"""Fence patterns of PTX ISA 9.1, 8.8: a fence and a relaxed write after it; a relaxed read and a fence after it."""


def relaxed(before: str, after: str) -> np.ndarray:
    out = np.zeros(32, np.uint32)
    text = FLAG.format(store=f"{before}st.relaxed.cta.shared.b32", load="ld.relaxed.cta.shared.b32", fence=after)
    run(text, out, warps=2)
    return out


def test_a_relaxed_flag_between_fences_orders() -> None:
    np.testing.assert_array_equal(relaxed(RELEASE, ACQUIRE), np.arange(32))


@pytest.mark.parametrize(("before", "after"), [("", ""), (RELEASE, ""), ("", ACQUIRE)])
def test_a_relaxed_flag_without_both_fences_does_not(before: str, after: str) -> None:
    with pytest.raises(errors.DataRace, match=r"ld\.shared reads"):
        relaxed(before, after)


DISTRIBUTED = """
mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1; shl.b32 %r3, %t, 2; add.s32 %r4, %r3, %r50;
mapa.shared::cluster.u32 %r5, %r4, %r2; barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;
shl.b32 %r6, %r1, 8; add.s32 %r6, %r6, %t; st.shared::cluster.b32 [%r5], %r6;
{barrier}
ld.shared.b32 %r7, [%r4]; shl.b32 %r8, %r1, 7; add.s32 %r8, %r8, %r3; cvt.u64.u32 %q1, %r8; add.s64 %a0, %a0, %q1;
st.global.b32 [%a0], %r7;
"""


@pytest.mark.parametrize("completion", MODES)
def test_distributed_shared_memory(completion: Completion) -> None:
    out = np.zeros((2, 32), np.uint32)
    barrier = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    run(DISTRIBUTED.format(barrier=barrier), out, cluster=2, completion=completion)
    np.testing.assert_array_equal(out, [np.arange(32) + 256, np.arange(32)])


def test_distributed_shared_memory_needs_a_releasing_barrier_if_asked() -> None:
    barrier = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"
    text, out = DISTRIBUTED.format(barrier=barrier), np.zeros((2, 32), np.uint32)
    run(text, out, cluster=2)
    np.testing.assert_array_equal(out, [np.arange(32) + 256, np.arange(32)])
    with pytest.raises(errors.DataRace):
        run(text, out, cluster=2, level=errors.Level.FORMAL)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("fence", ["fence.acq_rel.cluster;", "fence.sc.gpu;", "fence.release.cluster;"])
def test_a_fence_before_a_relaxed_barrier_releases(fence: str, completion: Completion) -> None:
    barrier = f"{fence} barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"
    out = np.zeros((2, 32), np.uint32)
    run(DISTRIBUTED.format(barrier=barrier), out, cluster=2, completion=completion, level=errors.Level.FORMAL)
    np.testing.assert_array_equal(out, [np.arange(32) + 256, np.arange(32)])
    for short in (barrier.replace(fence, "fence.acq_rel.cta;"), barrier.replace(fence, "fence.acquire.cluster;")):
        with pytest.raises(errors.DataRace):
            run(DISTRIBUTED.format(barrier=short), out, cluster=2, completion=completion, level=errors.Level.FORMAL)


def test_a_window_beyond_the_cluster() -> None:
    with pytest.raises(errors.OutOfBounds, match="window of CTA rank 3"):
        run("mov.b32 %r2, 3; mapa.shared::cluster.u32 %r5, %r50, %r2; st.shared::cluster.b32 [%r5], %t;")


def test_exchange_of_16_bytes() -> None:
    """Each lane exchanges its own 16 bytes, then compares with the value there (even lanes) or another (odd lanes)."""
    given, out = RNG.integers(0, 1 << 64, (32, 2), np.uint64), np.zeros((32, 4), np.uint64)
    memory = aligned(given)
    run(
        f"""{at("a0", 16)} {at("a1", 32)} .reg .b128 %o<4>;
cvt.u64.u32 %q1, %t; mov.b64 %q2, 7; mov.b128 %o1, {{%q1, %q2}};
atom.global.exch.b128 %o2, [%a0], %o1; and.b64 %q3, %q1, 1; add.u64 %q3, %q3, 7; mov.b128 %o3, {{%q1, %q3}};
mov.b128 %o1, {{%q2, %q2}}; atom.global.cas.b128 %o3, [%a0], %o3, %o1;
mov.b128 {{%q4, %q5}}, %o2; st.global.v2.b64 [%a1], {{%q4, %q5}};
mov.b128 {{%q4, %q5}}, %o3; st.global.v2.b64 [%a1+16], {{%q4, %q5}};""",
        memory,
        out,
    )
    lane = np.arange(32, dtype=np.uint64)[:, None]
    put = np.concatenate([lane, np.full((32, 1), 7, np.uint64)], 1)
    np.testing.assert_array_equal(out, np.concatenate([given, put], 1))
    np.testing.assert_array_equal(memory, np.where(lane % 2 == 0, 7, put))


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(
    "store",
    [
        "@%p0 st.bulk.weak.shared::cta [%r1], 16, 0;",
        "cvt.u64.u32 %q4, %r1; cvta.shared.u64 %q4, %q4; mov.b64 %q5, 16; @%p0 st.bulk [%q4], %q5, 0;",
    ],
)
def test_bulk_stores_are_zeros(store: str, completion: Completion) -> None:
    """Three threads store 24 bytes each. The middle third of each is not stored."""
    out = np.zeros((32, 2), np.uint64)
    run(
        f"""
shl.b32 %r1, %t, 5; add.u32 %r1, %r50, %r1; mov.b64 %q1, 7; st.shared.b64 [%r1+8], %q1; st.shared.b64 [%r1+16], %q1;
setp.lt.u32 %p0, %t, 3; {store}
ld.shared.b64 %q2, [%r1+8]; ld.shared.b64 %q3, [%r1+16]; {at("a0", 16)} st.global.v2.b64 [%a0], {{%q2, %q3}};""",
        out,
        completion=completion,
    )
    assert out.tolist() == [[0, 7]] * 3 + [[7, 7]] * 29


@pytest.mark.parametrize(
    ("store", "error", "says"),
    [
        ("st.bulk [%a0], 16, 0;", errors.OutOfBounds, "st.bulk at .*, which is not in shared memory"),
        ("st.bulk.shared::cta [%r50], 12, 0;", errors.Misaligned, "st.bulk of 12 bytes .* multiples of 8"),
        ("st.bulk.shared::cta [%r50], 16, 1;", errors.UnknownInstruction, "the value must be 0"),
        ("st.bulk.shared::cta [%r50], 16, 0; st.shared.b32 [%r50+8], 3;", errors.DataRace, "not ordered after st.bulk"),
    ],
)
def test_bulk_stores_are_checked(store: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        run("@%p7 " + store, np.zeros(4, np.uint64), warps=2)
