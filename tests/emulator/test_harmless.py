"""Instructions without an effect on the emulator run and leave every register unchanged."""

import numpy as np
import pytest
from ptx_kernel import launch, source
from ptx_launch import aligned

from emulator.errors import Level, Misaligned, OutOfBounds

HARMLESS = """
griddepcontrol.wait;
griddepcontrol.launch_dependents;
prefetch.global.L2 [%a0];
prefetchu.L1 [%a0];
applypriority.global.L2::evict_normal [%a0], 128;
createpolicy.fractional.L2::evict_first.b64 %q1, 0f3F000000; createpolicy.fractional.L2::evict_last.b64 %q1, 1.0;
createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %q1, [%a0], 64, 128;
createpolicy.range.L2::evict_first.b64 %q1, [%a0], %r0, %r0; mov.b64 %q2, 0; createpolicy.cvt.L2.b64 %q1, %q2;
pmevent 3;
pmevent.mask 3;
membar.gl;
fence.acq_rel.gpu;
nanosleep.u32 20;
cp.async.bulk.prefetch.L2.global [%a0], 128;
setmaxnreg.dec.sync.aligned.u32 40;
cp.async.wait_all;
cp.async.bulk.wait_group 0;
"""


@pytest.mark.parametrize("instruction", HARMLESS.strip().splitlines())
def test_nothing_changes(instruction: str) -> None:
    out = aligned(np.zeros(32, np.uint32), 128)
    body = f"mov.u32 %r0, %t; {instruction} add.u64 %q0, %a0, %b; st.global.u32 [%q0], %r0; ret;"
    launch(source(body), out)
    assert out.tolist() == [*range(32)]


def test_a_bulk_prefetch_outside_every_allocation_is_reported_where_habits_are() -> None:
    memory = aligned(np.zeros(32, np.uint32), 128)
    text = source("cp.async.bulk.prefetch.L2.global [%a0], 256; ret;")
    launch(text, memory)
    with pytest.raises(OutOfBounds, match="bulk prefetch of 256 bytes"):
        launch(text, memory, level=Level.PEDANTIC)


def test_what_is_discarded_is_lost() -> None:
    memory = aligned(np.arange(96, dtype=np.uint32), 128)
    launch(source("add.u64 %a0, %a0, 128; discard.global.L2 [%a0], 128; ret;"), memory)
    assert memory.tolist() == [*range(32), *[0xFFFF_FFFF] * 32, *range(64, 96)]


@pytest.mark.parametrize("instruction", ["discard.global.L2", "applypriority.global.L2::evict_normal"])
def test_a_line_begins_where_lines_do(instruction: str) -> None:
    memory = aligned(np.zeros(96, np.uint32), 128)
    with pytest.raises(Misaligned, match=instruction.split(".")[0]):
        launch(source(f"{instruction} [%a0+64], 128; ret;"), memory)
    assert not memory.any()


def test_ldu_loads() -> None:
    given, out = np.array([77], np.uint32), np.zeros(32, np.uint32)
    launch(source("ldu.global.u32 %r0, [%a0]; add.u64 %a1, %a1, %b; st.global.u32 [%a1], %r0; ret;", 2), given, out)
    assert out.tolist() == [77] * 32
