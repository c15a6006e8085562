"""Swizzle mismatches: data loaded by TMA with one swizzle and read by descriptors or TMA stores with another."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import aligned, kernel, launch
from test_cp_async_bulk_tensor import tensor_map

from emulator import LaunchResult
from emulator.findings import mismatch_line
from emulator.machine.launch.statistics import Stats

CODES = {0: 0, 1: 6, 2: 4, 3: 2}
"""The matrix descriptor's code of CUtensorMapSwizzle none, 32, 64 and 128 bytes."""
ROW = {1: 32, 2: 64, 3: 128}
M, N, K = 128, 16, 16

PRODUCT = """
    .reg .pred %p<4>; .reg .b32 %r<40>; .reg .b64 %rd<8>;
    .shared .align 1024 .b8 box[16384]; .shared .align 8 .b8 full[8]; .shared .align 8 .b8 done[8];
    .shared .align 4 .b8 address[4];
    mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; shfl.sync.idx.b32 %r1, %r1, 0, 31, -1; setp.ne.b32 %p0, %r1, 0;
    mov.b32 %r2, box; mov.b32 %r3, full; mov.b32 %r4, done; mov.b32 %r5, address;
    @%p0 bra READY;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r5], 32; elect.sync _|%p1, -1;
    @%p1 mbarrier.init.shared.b64 [%r3], 1; @%p1 mbarrier.init.shared.b64 [%r4], 1;
    fence.mbarrier_init.release.cluster;
READY: bar.sync 0; ld.shared.b32 %r6, [%r5];
    @%p0 bra DONE;
    mov.b64 %rd0, map; cvta.param.u64 %rd0, %rd0; mov.b32 %r7, 0;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], SIZE;
    @%p1 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes
        [%r2], [%rd0, {%r7, %r7}], [%r3]; // @copied
FULL: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @%p2 bra GO; bra FULL;
GO: shr.u32 %r8, %r2, 4; mov.b32 %r9, HIGH; mov.b64 %rd1, {%r8, %r9}; setp.ne.b32 %p3, %r7, 0;
    @%p1 tcgen05.mma.cta_group::1.kind::f16 [%r6], %rd1, %rd1, 0x08040490, %p3; // @mma
    @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4];
DONE: mbarrier.try_wait.parity.shared.b64 %p2, [%r4], 0; @%p2 bra LOAD; bra DONE;
LOAD: shl.b32 %r9, %r1, 21; add.s32 %r9, %r9, %r6;
    tcgen05.ld.sync.aligned.32x32b.x16.b32 {REGISTERS}, [%r9]; tcgen05.wait::ld.sync.aligned;
    ld.param.b64 %rd2, [out]; mul.wide.u32 %rd3, %r0, 64; add.s64 %rd2, %rd2, %rd3;
    STORES
    bar.sync 0; @%p0 bra END; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32;
END: ret;
"""


def product(swizzle: int, code: int, base: int = 0) -> tuple[Stats, np.ndarray, np.ndarray, str]:
    """Multiply A by its first 16 rows. TMA loads A with this swizzle, and descriptors read it with this code."""
    row = ROW[swizzle]
    a = aligned(np.random.default_rng(0).integers(-4, 5, (M, row // 2)).astype(np.float32))
    bits = aligned((a.view(np.uint32) >> 16).astype(np.uint16))
    high = row * 8 >> 4 | 1 << 14 | base << 17 | code << 29
    names = [f"%r{20 + i}" for i in range(16)]
    stores = "".join(f"st.global.b32 [%rd2+{4 * i}], {name};" for i, name in enumerate(names))
    body = PRODUCT.replace("SIZE", str(M * row)).replace("HIGH", str(high)).replace("STORES", stores)
    text = kernel("k", ".param .align 64 .b8 map[128], .param .u64 out", body.replace("REGISTERS", ", ".join(names)))
    out = np.zeros((M, N), np.float32)
    stats = launch(text, [tensor_map(bits, (row // 2, M), swizzle, 10), out], block=(128, 1, 1))
    return stats, out, a[:, :K] @ a[:N, :K].T, text


def line_of(text: str, mark: str) -> int:
    (found,) = [i for i, line in enumerate(text.splitlines(), 1) if line.endswith(f"// @{mark}")]
    return found


@pytest.mark.parametrize("swizzle", ROW)
def test_a_descriptor_that_fits(swizzle: int) -> None:
    stats, out, expected, _ = product(swizzle, CODES[swizzle])
    np.testing.assert_array_equal(out, expected)
    assert stats.swizzle_mismatches == 0 and stats.first_swizzle_mismatch == ""


@pytest.mark.parametrize(
    ("code", "base", "name", "first"),
    [
        (4, 0, "64-byte swizzle", 0x400),
        (6, 0, "32-byte swizzle", 0x400),
        (2, 3, "128-byte swizzle with base offset 3", 0x440),
    ],
)
def test_a_descriptor_that_does_not(code: int, base: int, name: str, first: int) -> None:
    stats, out, expected, text = product(3, code, base)
    assert (out != expected).any()
    assert stats.swizzle_mismatches == (M + N) * K * 2 // 16
    assert stats.first_swizzle_mismatch == (
        f"tcgen05.mma of warp 0 of CTA (0,0,0), PTX line {line_of(text, 'mma')}, reads {first:#x} of CTA (0,0,0) by "
        f"{name}; "
        f"a TMA load of warp 0 of CTA (0,0,0), PTX line {line_of(text, 'copied') - 1}, wrote it by 128-byte swizzle"
    )


@pytest.mark.parametrize(("code", "said"), [(2, False), (4, True)])
def test_the_end_of_a_run_tells(code: int, said: bool) -> None:
    stats, *_ = product(3, code)
    line = mismatch_line(LaunchResult("k", (1, 1, 1), (128, 1, 1), (1, 1, 1), 0, 0.0, stats, (), ""))
    assert line.startswith("counted 288 pieces of shared memory") and "in k: tcgen05.mma" in line if said else not line


COPY = """
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
    .shared .align 1024 .b8 box[8192]; .shared .align 8 .b8 full[8];
    mov.b32 %r0, box; mov.b32 %r1, full; mov.b32 %r2, 0; elect.sync _|%p1, -1;
    @%p1 mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster;
    mov.b64 %rd0, from; cvta.param.u64 %rd0, %rd0; mov.b64 %rd1, to; cvta.param.u64 %rd1, %rd1;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 8192;
    @%p1 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r0], [%rd0, {%r2, %r2}], [%r1];
FULL: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0; @%p2 bra GO; bra FULL;
GO: BETWEEN
    @%p1 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {%r2, %r2}], [%r0];
    @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0; ret;
"""
REWRITTEN = """mov.u32 %r3, %tid.x; shl.b32 %r3, %r3, 4; add.s32 %r3, %r3, %r0; mov.b32 %r4, 0;
    AGAIN: st.shared.v4.b32 [%r3], {%r2, %r2, %r2, %r2}; add.s32 %r3, %r3, 512; add.s32 %r4, %r4, 1;
    setp.lt.u32 %p0, %r4, 8; @%p0 bra AGAIN; fence.proxy.async.shared::cta; bar.warp.sync -1;"""


@pytest.mark.parametrize(
    ("load", "store", "between", "pieces"),
    [(2, 2, "", 0), (2, 3, "", 512), (3, 0, "", 512), (0, 2, "", 512), (0, 0, "", 0), (2, 3, REWRITTEN, 256)],
)
def test_a_store_of_what_a_load_brought(load: int, store: int, between: str, pieces: int) -> None:
    source = aligned(np.arange(128 * 16, dtype=np.uint32).reshape(128, 16))
    target = aligned(np.zeros_like(source))
    maps = [tensor_map(x, (16, 128), swizzle) for x, swizzle in ((source, load), (target, store))]
    text = kernel("k", ".param .align 64 .b8 from[128], .param .align 64 .b8 to[128]", COPY.replace("BETWEEN", between))
    stats = launch(text, maps)
    assert stats.swizzle_mismatches == pieces
    assert bool((source == target).all()) is (pieces == 0)
