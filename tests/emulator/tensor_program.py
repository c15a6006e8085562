"""Programs that initialise shared and tensor memory, run an action, and return tensor memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from ptx_launch import kernel, launch

WINDOW = 96 * 1024
BASE = 1024
"""The offset of the shared memory image in the CTA's window."""
COMMIT = {
    1: "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r11];",
    2: "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r11], %h1;",
}


def prologue(columns: int, group: str) -> str:
    """Return code: warp 0 allocates, its lane %p1 initialises mbarriers %r10, %r11. %r12: window, %r6: the lanes.

    A pair first waits until both of its CTAs have started.
    """
    started = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n" if group == "cta_group::2" else ""
    return f"""\
.shared .align 1024 .b8 window[{WINDOW}];
.shared .align 8 .b8 full[8]; .shared .align 8 .b8 done[8]; .shared .align 4 .b8 address[4];
mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; shfl.sync.idx.b32 %r2, %r2, 0, 31, -1;
mov.b32 %r3, address; mov.b32 %r10, full; mov.b32 %r11, done; mov.b32 %r12, window;
setp.ne.b32 %p0, %r2, 0;
{started}@%p0 bra GO;
tcgen05.alloc.{group}.sync.aligned.shared::cta.b32 [%r3], {columns};
elect.sync _|%p1, -1;
@%p1 mbarrier.init.shared.b64 [%r10], 1;
@%p1 mbarrier.init.shared.b64 [%r11], 1;
fence.mbarrier_init.release.cluster;
GO:
bar.sync 0;
ld.shared.b32 %r5, [%r3];
shl.b32 %r4, %r2, 21;
add.s32 %r6, %r5, %r4;
"""


def program(act: str, columns: int, ctas: int) -> str:
    """Return a program: warp 0 of CTA 0 runs `act` in one lane (%p1) and commits. %h1 is 3."""
    group = f"cta_group::{ctas}"
    loads = "\n".join(f"ld.global.b32 %v{j}, [%rd6+{512 * j}];" for j in range(32))
    stores = "\n".join(f"st.global.b32 [%rd6+{512 * j}], %v{j};" for j in range(32))
    vector = "{" + ", ".join(f"%v{j}" for j in range(32)) + "}"
    fill = "\n".join(
        f"add.s64 %rd6, %rd1, {512 * c}; {loads}\nadd.s32 %r7, %r6, {c};"
        f"tcgen05.st.sync.aligned.32x32b.x32.b32 [%r7], {vector};"
        for c in range(0, columns, 32)
    )
    read = "\n".join(
        f"add.s64 %rd6, %rd2, {512 * c}; add.s32 %r7, %r6, {c};"
        f"tcgen05.ld.sync.aligned.32x32b.x32.b32 {vector}, [%r7];\ntcgen05.wait::ld.sync.aligned;\n{stores}"
        for c in range(0, columns, 32)
    )
    return kernel(
        "state",
        ".param .u64 image, .param .u64 state, .param .u64 after",
        f"""
.reg .b16 %h<2>; .reg .b32 %r<40>; .reg .b32 %v<32>; .reg .b64 %rd<16>; .reg .pred %p<8>;
{prologue(columns, group)}mov.b16 %h1, 3; mov.u32 %r13, %cluster_ctarank;
ld.param.b64 %rd0, [image]; ld.param.b64 %rd1, [state]; ld.param.b64 %rd2, [after];
mul.wide.u32 %rd3, %r1, 4; mul.wide.u32 %rd4, %r13, {512 * columns}; mul.wide.u32 %rd5, %r13, {WINDOW};
add.s64 %rd0, %rd0, %rd5; add.s64 %rd3, %rd3, %rd4; add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
{fill}
tcgen05.wait::st.sync.aligned;
bar.sync 0;
@%p0 bra LOADED;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], {WINDOW};
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r12], [%rd0], {WINDOW}, [%r10];
FULL: mbarrier.try_wait.parity.shared.b64 %p2, [%r10], 0; @%p2 bra LOADED; bra FULL;
LOADED:
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
setp.ne.b32 %p3, %r13, 0; or.pred %p3, %p3, %p0;
@%p3 bra READ;
setp.eq.b32 %p5, %r13, 0; setp.ne.b32 %p6, %r13, 0;
{act}
@%p1 {COMMIT[ctas]}
READ: mbarrier.try_wait.parity.shared.b64 %p2, [%r11], 0; @%p2 bra OUT; bra READ;
OUT:
{read}
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
@%p0 bra END;
tcgen05.dealloc.{group}.sync.aligned.b32 %r5, {columns};
END:
ret;""",
    )


def after(act: str, image: np.ndarray, state: np.ndarray, text: str = "", **options: Any) -> np.ndarray:
    """Run `act` and return tensor memory, uint32[CTAs, columns, 128 lanes], from shared memory and an initial state.

    The inputs are uint8[CTAs, WINDOW] and a state like the result. In `act` tensor memory begins at address 0, %p5 is
    true and %p6 false; %p1 is true in one lane. text: another program to run instead.
    """
    ctas, columns, _ = state.shape
    out = np.zeros_like(state)
    options = {"grid": (ctas, 1, 1), "cluster": (ctas, 1, 1), "block": (128, 1, 1), **options}
    launch(text or program(act, columns, ctas), [image, np.ascontiguousarray(state), out], **options)
    return out
