"""The mma role without its head start: S[i+1] is computed only after P[i] V[i] was issued."""

# mypy: disable-error-code="index, arg-type, misc, attr-defined, operator, union-attr, assignment, method-assign"

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass.pipeline import PipelineUserType, make_pipeline_state

from kernel.sm100.mma import MmaWarp


def install() -> None:
    """Take the place of the kernel's own."""
    MmaWarp.run = run


@cute.jit
def run(self: MmaWarp) -> None:
    config, kv = self.cta.config, self.cta.kv_tiles
    state = make_pipeline_state(PipelineUserType.Consumer, config.kv_stages)
    v_state = make_pipeline_state(PipelineUserType.Consumer, config.kv_stages)
    if kv.count > 0:
        self.cta.bars.wait("q_full", 0, 0)
        for i in cutlass.range(kv.count, unroll=1):
            state = self.mma_qk(state, i)
            v_state = self.mma_pv(v_state, i)
