"""Findings of level `pedantic`, and findings that are formal because nothing depends on them."""

import re
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from ptx_kernel import source
from ptx_launch import aligned, launch
from test_pairs import PROGRAMS

from emulator.errors import BarrierError, DataRace, Fault, Level, MissingProxyFence, MissingWait, OutOfBounds

STAGED = (Path(__file__).parent / "pairs/staged.ptx").read_text()
Mode = Literal["eager", "lazy", "random"]
MODES: tuple[Mode, ...] = ("eager", "lazy", "random")
BEFORE, AFTER = "tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;"


def fenced(without: str = "", near: str = "") -> str:
    """Return the staged product with a fence after each tcgen05.wait and before uses of tensor memory, except one."""
    lines = []
    for line in STAGED.splitlines():
        spared = bool(near) and near in line
        if re.search(r"tcgen05\.(mma|ld|st)\.", line) and not (spared and without == AFTER):
            lines.append(AFTER)
        lines.append(line)
        if "tcgen05.wait" in line and not (spared and without == BEFORE):
            lines.append(BEFORE)
    return "\n".join(lines)


def run(text: str, completion: Mode = "lazy") -> None:
    program = PROGRAMS["staged"]
    out = np.zeros_like(program.expected)
    launch(text, (*program.inputs, out), block=(program.threads, 1, 1), completion=completion, level=Level.PEDANTIC)
    np.testing.assert_array_equal(out, program.expected)


def test_a_bulk_prefetch_outside_every_allocation() -> None:
    words = aligned(np.zeros(64, np.uint32))

    def prefetch(size: int, level: Level) -> None:
        launch(source(f"cp.async.bulk.prefetch.L2.global [%a0], {size}; ret;"), [words], level=level)

    prefetch(256, Level.PEDANTIC)
    prefetch(1 << 20, Level.FORMAL)
    with pytest.raises(OutOfBounds, match="lies outside every allocation") as caught:
        prefetch(1 << 20, Level.PEDANTIC)
    assert caught.value.level == Level.PEDANTIC


@pytest.mark.parametrize("completion", MODES)
def test_all_fences(completion: Mode) -> None:
    run(fenced(), completion)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(
    ("without", "near", "missing"),
    [
        (AFTER, "@mma 1", r"missing .*tcgen05\.fence::after_thread_sync in warp 4"),
        (AFTER, "@load", r"missing .*tcgen05\.fence::after_thread_sync in warp \d"),
        (BEFORE, "@wait st", r"missing .*tcgen05\.fence::before_thread_sync in warp \d.* after its tcgen05\.wait::st"),
    ],
)
def test_a_fence_left_out(without: str, near: str, missing: str, completion: Mode) -> None:
    with pytest.raises(DataRace, match=missing) as caught:
        run(fenced(without, near), completion)
    assert caught.value.level == Level.PEDANTIC


def test_a_fence_and_a_wait_left_out_is_a_fault() -> None:
    text = fenced(BEFORE, "@wait st").replace("tcgen05.wait::st.sync.aligned;", "")
    with pytest.raises(DataRace, match=r"tcgen05\.wait::st") as caught:
        run(text)
    assert caught.value.level == Level.FAULT


ALONE = """
.shared .align 1024 .b8 area[4096]; .shared .align 8 .b8 bar[8];
mov.u32 %r3, area; mov.u32 %r4, bar; setp.eq.u32 %p1, %t, 0; mad.lo.u32 %r5, %t, 16, %r3; mul.wide.u32 %q1, %t, 16;
add.u64 %q1, %q1, %a0;
"""
"""%r3: shared memory, %r5: each lane's 16 bytes of it; %q1: the lane's 16 bytes of global memory."""
COPIED = """cp.async.ca.shared.global [%r5], [%q1], 16; cp.async.wait_all; FENCE bar.warp.sync -1;
@%p1 cp.async.bulk.global.shared::cta.bulk_group [%a0], [%r3], 512; @%p1 cp.async.bulk.commit_group;
@%p1 cp.async.bulk.wait_group 0; ret;"""
LEFT = """@%p1 mbarrier.init.shared::cta.b64 [%r4], 1; fence.mbarrier_init.release.cluster; bar.warp.sync -1;
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 512;
@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r3], [%a0], 512, [%r4];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0; @!%p2 bra WAIT; ret;"""
NOT_WAITED = LEFT[: LEFT.index("WAIT:")] + "ret;"
FREED = """st.shared.v4.b32 [%r5], {%t, %t, %t, %t}; st.shared.v4.b32 [%r5+512], {%t, %t, %t, %t};
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4], 32; fence.proxy.async; bar.warp.sync -1;
ld.shared.b32 %r6, [%r4]; shr.u32 %r7, %r3, 4; cvt.u64.u32 %q2, %r7; or.b64 %q2, %q2, 0x401000080000;
@%p1 tcgen05.cp.cta_group::1.4x256b [%r6], %q2; bar.warp.sync -1;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32; ret;"""


def findings(body: str, completion: Mode, level: Level) -> list[Fault]:
    array, found = aligned(np.zeros(128, np.uint32)), list[Fault]()
    options = {"completion": completion, "level": level, "findings": found, "diagnostics": "report"}
    launch(source(ALONE + body), [array], **options)  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(
    ("good", "broken", "kind"),
    [
        (COPIED.replace("FENCE", "fence.proxy.async;"), COPIED.replace("FENCE", ""), MissingProxyFence),
        (LEFT, NOT_WAITED, MissingWait),
        (LEFT, LEFT.replace("@%p1 mbarrier.init", "mbarrier.init"), BarrierError),
    ],
    ids=["the fence after cp.async", "the wait for the last copy", "the election of a lane that initialises"],
)
def test_what_programs_leave_out(good: str, broken: str, kind: type[Fault], completion: Mode) -> None:
    assert not findings(good, completion, Level.PEDANTIC)
    assert not findings(broken, completion, Level.FORMAL)
    fault = findings(broken, completion, Level.PEDANTIC)[0]
    assert type(fault) is kind and fault.level == Level.PEDANTIC


@pytest.mark.parametrize("completion", MODES)
def test_columns_are_freed_while_a_copy_that_nothing_reads_is_on_its_way(completion: Mode) -> None:
    (fault,) = findings(FREED, completion, Level.FAULT)
    assert type(fault) is MissingWait and fault.level == Level.FORMAL and "tcgen05.dealloc frees" in str(fault)
