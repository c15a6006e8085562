"""Unsupported features are rejected by name, and the other kernels of the module run."""

from __future__ import annotations

import numpy as np
import pytest

import emulator
from emulator.errors import EmulatorError
from tests.emulator.ptx_kernel import source

FOUR = "{%r0, %r1, %r2, %r3}"
NOT_HERE = {
    "'.m8n8k32'": "wmma.load.a.sync.aligned.row.m8n8k32.global.s4 %r0, [%a0], 32;",
    "'.sp::ordered_metadata'": "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 "
    f"{FOUR}, {FOUR}, {FOUR}, {FOUR}, %r4, 0x0;",
    "'.m8n8k4'": f"mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {FOUR}, {{%r4, %r5}}, {{%r6, %r7}}, {FOUR};",
    "'vadd'": "vadd.s32.s32.s32 %r0, %r1, %r2;",
    "'vabsdiff4'": "vabsdiff4.u32.u32.u32.add %r0, %r1, %r2, %r3;",
    "'vmad'": "vmad.s32.s32.u32 %r0, %r1.b0, %r2.h1, %r3;",
    "'tex'": f"tex.2d.v4.f32.s32 {FOUR}, [%q0, {{%r4, %r5}}];",
    "'tld4'": f"tld4.r.2d.v4.f32.f32 {FOUR}, [%q0, {{%r4, %r5}}];",
    "'suld'": "suld.b.2d.b32.trap %r0, [%q0, {%r4, %r5}];",
    "'sust'": "sust.b.2d.b32.trap [%q0, {%r4, %r5}], %r0;",
    "'txq'": "txq.width.b32 %r0, [%q0];",
    "'alloca'": "alloca.u64 %q0, %q1, 16;",
    "'stacksave'": "stacksave.u64 %q0;",
    "a call of malloc": "{ .param .b64 p; .param .b64 r; call.uni (r), malloc, (p); }",
    "recursion of again": "call.uni again;",
    "'.im2col::w'": "cp.async.bulk.tensor.4d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes "
    "[%r0], [%q0, {%r1, %r2, %r3, %r4}], [%r5], {%h0, %h1};",
}
OUTSIDE = """
.extern .func (.param .b64 r) malloc (.param .b64 bytes);
.func again { call.uni again; ret; }
.visible .entry other(.param .u64 out) { .reg .b64 %a; ld.param.u64 %a, [out]; st.global.u32 [%a], 3; ret; }
"""


@pytest.mark.parametrize("name", NOT_HERE)
def test_one_kernel_is_refused_by_name_and_another_runs(name: str) -> None:
    text, out = source(f"{NOT_HERE[name]} ret;", outside=OUTSIDE), np.zeros(1, np.uint32)
    with pytest.raises(EmulatorError, match=f"{name.replace('.', '[.]')}"):
        emulator.launch(text, "k", [out])
    emulator.launch(text, "other", [out])
    assert out[0] == 3
