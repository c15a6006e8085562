"""Instructions that change nothing here run and leave every register as it was."""

import numpy as np
import pytest
from ptx_kernel import launch, source

HARMLESS = """
griddepcontrol.wait;
griddepcontrol.launch_dependents;
prefetch.global.L2 [%a0];
prefetchu.L1 [%a0];
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
    out = np.zeros(32, np.uint32)
    body = f"mov.u32 %r0, %t; {instruction} add.u64 %q0, %a0, %b; st.global.u32 [%q0], %r0; ret;"
    launch(source(body), out)
    assert out.tolist() == [*range(32)]
