"""Kernel parameters: loads of every width, at constant and at computed offsets."""

from __future__ import annotations

import ctypes
import struct

import numpy as np

from emulator.machine.execution.scheduler import RunOptions, run
from emulator.machine.launch.launch import Launch
from emulator.program import Program
from emulator.ptx.parser import parse


def launch(body: str, params: str, raw: bytes, out: np.ndarray) -> None:
    text = f""".version 8.8
.target sm_100a
.visible .entry k(.param .u64 out, {params}) {{
.reg .b16 %h<20>; .reg .b32 %r<20>; .reg .b64 %q<20>; .reg .pred %p<3>;
ld.param.u64 %q0, [out]; {body} ret; }}"""
    kernel = parse(text).kernels["k"]
    buffer = ctypes.create_string_buffer(struct.pack("<Q", out.ctypes.data) + raw + bytes(64))
    memory = [(out.ctypes.data, out.nbytes, "out")]
    asked = Launch(kernel, (1, 1, 1), (32, 1, 1), ctypes.addressof(buffer), buffer, allocations=memory)
    run(asked, Program(kernel), RunOptions("eager"))


def test_every_width_is_extended_as_its_type_says() -> None:
    out = np.zeros(8, np.uint64)
    body = """
    ld.param.u8 %h1, [a]; cvt.u64.u16 %q1, %h1; st.global.u64 [%q0], %q1;
    ld.param.s8 %r1, [a]; cvt.s64.s32 %q2, %r1; st.global.u64 [%q0+8], %q2;
    ld.param.u16 %h2, [a+2]; cvt.u64.u16 %q3, %h2; st.global.u64 [%q0+16], %q3;
    ld.param.s16 %r2, [a+2]; cvt.s64.s32 %q4, %r2; st.global.u64 [%q0+24], %q4;
    ld.param.b32 %r3, [a+4]; cvt.u64.u32 %q5, %r3; st.global.u64 [%q0+32], %q5;
    ld.param.b64 %q6, [a+8]; st.global.u64 [%q0+40], %q6;
    ld.param.v2.b32 {%r4, %r5}, [a+8]; cvt.u64.u32 %q7, %r5; st.global.u64 [%q0+48], %q7;
    """
    raw = bytes([0x85, 1, 0x34, 0xF2]) + struct.pack("<IQ", 0xCAFEBABE, 0x1122334455667788)
    launch(body, ".param .align 8 .b8 a[16]", raw, out)
    wanted = [0x85, 2**64 - 0x7B, 0xF234, 2**64 - 0x0DCC, 0xCAFEBABE, 0x1122334455667788, 0x11223344, 0]
    assert out.tolist() == wanted


def test_a_place_that_is_only_known_at_run_time() -> None:
    out = np.zeros(32, np.uint32)
    body = """
    mov.u32 %r1, %tid.x; mov.u32 %r7, %ctaid.x; add.u32 %r2, %r7, 2;
    shl.b32 %r3, %r2, 2; cvt.u64.u32 %q1, %r3; mov.b64 %q2, a;
    add.u64 %q3, %q2, %q1; ld.param.b32 %r4, [%q3]; mul.wide.u32 %q4, %r1, 4; add.u64 %q5, %q0, %q4;
    st.global.u32 [%q5], %r4;
    """
    launch(body, ".param .align 8 .b8 a[16]", struct.pack("<4I", 10, 20, 30, 40), out)
    assert out.tolist() == [30] * 32


def test_generic_addresses_of_parameters() -> None:
    out = np.zeros(1, np.uint32)
    body = """
    mov.b64 %q1, a; cvta.param.u64 %q2, %q1; ld.u32 %r1, [%q2+4]; cvta.to.param.u64 %q3, %q2; ld.param.u32 %r2, [%q3];
    add.u32 %r3, %r1, %r2; st.global.u32 [%q0], %r3;
    """
    launch(body, ".param .align 8 .b8 a[8]", struct.pack("<2I", 5, 70), out)
    assert out[0] == 75


def test_each_lane_may_load_another_place() -> None:
    """As in a copy of a tensor map by the lanes of a warp. Bytes are extended, and a part of the lanes loads."""
    out = np.zeros((3, 32), np.uint32)
    body = """
    mov.u32 %r1, %tid.x; mul.wide.u32 %q1, %r1, 4; mov.b64 %q2, a; add.u64 %q3, %q2, %q1; add.u64 %q5, %q0, %q1;
    mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u32 %r6, 0; setp.lt.u32 %p1, %r1, 20;
    ld.param.b32 %r4, [%q3]; st.global.u32 [%q5], %r4;
    @%p1 ld.param.s8 %r5, [%q3]; st.global.u32 [%q5+128], %r5;
    @%p1 ld.param.v2.u16 {%h1, %h2}, [%q3]; @%p1 cvt.u32.u16 %r6, %h2; st.global.u32 [%q5+256], %r6;
    """
    words = [0x10001 * 3 * i + 0x80 for i in range(32)]
    launch(body, ".param .align 8 .b8 a[128]", struct.pack("<32I", *words), out)
    signed = [((word & 0xFF) ^ 0x80) - 0x80 & 0xFFFFFFFF for word in words]
    assert out.tolist() == [words, signed[:20] + [0] * 12, [word >> 16 for word in words[:20]] + [0] * 12]
