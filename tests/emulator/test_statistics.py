"""Counts of a launch, against counts that are evident from the program."""

from pathlib import Path

import numpy as np
import ptx_launch
import pytest
from ptx_kernel import launch, source

SHARED = ".shared .align 16 .b8 buf[16384];"


def shared_access(per_lane: str, instruction: str) -> tuple[int, int, int]:
    """Return accesses, wavefronts and conflicts of one instruction at `per_lane` bytes from buf, which was written."""
    fill = """
    mov.u32 %r10, buf; mul.lo.u32 %r11, %t, 4; add.u32 %r10, %r10, %r11; mov.b32 %r12, 0;
    F: st.shared.u32 [%r10], %r12; add.u32 %r10, %r10, 128; add.u32 %r12, %r12, 1;
    setp.lt.u32 %p0, %r12, 128; @%p0 bra F; bar.warp.sync -1;
    """
    place = f"{per_lane} mov.u32 %r20, buf; add.u32 %r1, %r1, %r20; mov.b32 %r2, 0; mov.b32 %r3, 0;"
    run = [launch(source(SHARED + fill + place + last + "ret;", 1), np.zeros(32)) for last in ("", instruction)]
    before, after = run
    return (
        after.shared_accesses - before.shared_accesses,
        after.shared_wavefronts - before.shared_wavefronts,
        after.shared_conflicts - before.shared_conflicts,
    )


@pytest.mark.parametrize(
    ("per_lane", "instruction", "expected"),
    [
        ("mul.lo.u32 %r1, %t, 4;", "ld.shared.u32 %r9, [%r1];", (1, 1, 0)),
        ("mul.lo.u32 %r1, %t, 8;", "ld.shared.u32 %r9, [%r1];", (1, 2, 1)),
        ("mul.lo.u32 %r1, %t, 128;", "ld.shared.u32 %r9, [%r1];", (1, 32, 31)),
        ("mul.lo.u32 %r1, %t, 132;", "st.shared.u32 [%r1], %r2;", (1, 1, 0)),
        ("shr.u32 %r1, %t, 4; shl.b32 %r1, %r1, 2;", "ld.shared.u32 %r9, [%r1];", (1, 1, 0)),
        ("mul.lo.u32 %r1, %t, 8;", "ld.shared.v2.u32 {%r8, %r9}, [%r1];", (1, 2, 0)),
        ("mul.lo.u32 %r1, %t, 16;", "ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r1];", (1, 4, 0)),
        ("mul.lo.u32 %r1, %t, 32;", "ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r1];", (1, 8, 4)),
        ("mul.lo.u32 %r1, %t, 1;", "st.shared.u8 [%r1], %r2;", (1, 1, 0)),
    ],
)
def test_bank_conflicts(per_lane: str, instruction: str, expected: tuple[int, int, int]) -> None:
    assert shared_access(per_lane, instruction) == expected


def test_bytes_of_global_memory_are_those_of_active_lanes() -> None:
    body = """
    add.u64 %q0, %a0, %b; ld.global.u32 %r0, [%q0]; setp.lt.u32 %p0, %t, 5;
    @%p0 st.global.u32 [%q0], %r0; bar.warp.sync -1; ld.global.u64 %q1, [%a0]; ret;
    """
    stats = launch(source(body), np.zeros(32, np.uint32))
    assert (stats.global_load_bytes, stats.global_store_bytes) == (32 * 4 + 8, 5 * 4)


def test_waits_and_phases_of_mbarriers_and_the_roles_they_tell_apart() -> None:
    body = """
    .shared .align 8 .b8 bar[16];
    setp.ne.u32 %p0, %t, 0; @%p0 bra READY;
    mbarrier.init.shared::cta.b64 [bar], 1; mbarrier.init.shared::cta.b64 [bar+8], 32;
    READY: bar.sync 0;
    setp.ge.u32 %p1, %t, 32; @%p1 bra OTHERS;
    setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.arrive.shared::cta.b64 _, [bar]; bra END;
    OTHERS: mov.b32 %r0, 0;
    L: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @%p2 bra END; bra L;
    END: ret;
    """
    stats = launch(source(body, block=128), np.zeros(1), block=128, grid=2)
    assert stats.mbarriers[0].waits == 3 * 2 and stats.mbarriers[0].phases == 2
    assert stats.mbarriers[1].waits == stats.mbarriers[1].phases == 0
    assert stats.mbarriers[1].offset == stats.mbarriers[0].offset + 8
    assert [*stats.by_role] == [(0,), (1, 2, 3)]
    assert sum(stats.by_role.values()) == sum(stats.by_warp.values()) == stats.instructions


def test_bytes_copied_and_flops_of_a_product() -> None:
    text = (Path(__file__).parent / "pairs/gemm.ptx").read_text()
    a, b, d = np.zeros((128, 16), np.uint16), np.zeros((32, 16), np.uint16), np.zeros((128, 32), np.float32)
    stats = ptx_launch.launch(text, (a, b, d), block=(192, 1, 1))
    assert stats.mma_flops == 2 * 128 * 32 * 16
    assert stats.copied_in_bytes == a.nbytes + b.nbytes and stats.copied_out_bytes == 0
    assert stats.global_store_bytes == d.nbytes
