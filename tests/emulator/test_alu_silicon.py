"""Results of an H200 that the emulator once computed differently (test_silicon.py found them), mostly NaN, flushing."""

from __future__ import annotations

import re

import pytest

from tests.emulator.one_instruction import Instructions

SEEN = """
rem.u32 %r0, %r1, %r2;                 0xbfc040a8 0 -> 0xffffffff
rem.s64 %q0, %q1, %q2;                 2 0 -> 0xffffffffffffffff
rem.u16 %h0, %h1, %h2;                 0x34 0 -> 0xffff
add.rn.f32 %r0, %r1, %r2;              0xfffffff7 0x3e1dc138 -> 0x7fffffff
add.rm.f32 %r0, %r1, %r2;              0x100 0x7f813f2b -> 0x7fffffff
sub.ftz.f32 %r0, %r1, %r2;             0x7fc00005 0x3ea8df63 -> 0x7fffffff
mul.rz.f32 %r0, %r1, %r2;              0xfffffff8 7 -> 0x7fffffff
fma.rp.f32 %r0, %r1, %r2, %r3;         0xfffffffa 0xbe721e4f 0xbf000000 -> 0x7fffffff
div.rn.f32 %r0, %r1, %r2;              0xdeafd43b 0xffc00005 -> 0x7fffffff
rcp.rn.f32 %r0, %r1;                   0x7fc00000 -> 0x7fffffff
neg.f32 %r0, %r1;                      0x7fffffff -> 0x7fffffff
abs.f32 %r0, %r1;                      0xfffffff8 -> 0x7fffffff
add.rn.f64 %q0, %q1, %q2;              0xfffffffffffffff9 0xffffffffffffffc0 -> 0xffffffffffffffc0
div.rn.f64 %q0, %q1, %q2;              0xffffffffffffff00 0x7ff0000000000001 -> 0xffffffffffffff00
fma.rn.f64 %q0, %q1, %q2, %q3;         0xffffffffffffff00 0xfffffffffffffffc 0xfff8000000000005 -> 0xfffffffffffffffc
neg.f64 %q0, %q1;                      0xffffffffffffff00 -> 0xffffffffffffff00
abs.f64 %q0, %q1;                      0xfff0000000000001 -> 0xfff8000000000001
sqrt.rn.f64 %q0, %q1;                  0xffffffffffffffbe -> 0xffffffffffffffbe
min.f64 %q0, %q1, %q2;                 0xffffffffffffff80 0xfffffffffffffff9 -> 0xfffffffffffffff9
max.f64 %q0, %q1, %q2;                 0xfffffffffffffffe 0x7ff0000000000001 -> 0x7ff8000000000001
min.xorsign.abs.f32 %r0, %r1, %r2;     0x7fffffff 0xfffffff8 -> 0x7fffffff
fma.rm.f32 %r0, %r1, %r2, %r3;         1 0x3f000000 0x80000000 -> 0
mul.ftz.sat.f32 %r0, %r1, %r2;         0xbf7fffff 0x80800000 -> 0
mul.rp.ftz.sat.f32 %r0, %r1, %r2;      0x3f7fffff 0x00800000 -> 0
fma.rn.relu.f16 %h0, %h1, %h2, %h3;    0x7e00 0x3f7f 0x7bff -> 0x7fff
fma.rn.relu.bf16 %h0, %h1, %h2, %h3;   0x0001 0xff7f 0x7fff -> 0x7fff
add.rn.ftz.f16 %h0, %h1, %h2;          0x8d2f 0x7f -> 0x8d2f
sub.rn.ftz.f16 %h0, %h1, %h2;          0x32 0x40 -> 0
mul.rn.ftz.f16 %h0, %h1, %h2;          5 0x3ed1 -> 0
fma.rn.ftz.f16 %h0, %h1, %h2, %h3;     0x9c91 0xbc01 0x32 -> 0x1c92
min.ftz.f16 %h0, %h1, %h2;             0x41 0x4a75 -> 0
max.ftz.f16x2 %r0, %r1, %r2;           0x3f800001 0x800001 -> 0x3f800000
slct.ftz.b32.f32 %r0, %r1, %r2, %r3;   0xbeb13f1f 0xbf8e2373 0x807fffff -> 0xbeb13f1f
bfe.u64 %q0, %q1, %r2, %r3;            0x3fcd91d81b17521f 0x3e846c21 0xbf6162b3 -> 0
bfi.b64 %q0, %q1, %q2, %r3, %r4;       0x25 0xb6c1b22146f2be9b 0x3f800001 0xeb49ec21 -> 0xb6c1b22146f2be9b
cvt.rni.u64.f32 %q0, %r1;              0xffffffff -> 0x8000000000000000
cvt.rzi.s32.f64 %r0, %q1;              0xfffffffffffffff0 -> 0x80000000
cvt.rzi.u64.f16 %q0, %h1;              0x7fff -> 0x8000000000000000
cvt.rmi.f32.f32 %r0, %r1;              0xffc00005 -> 0x7fffffff
cvt.f32.f16 %r0, %h1;                  0xffde -> 0x7fffffff
cvt.ftz.f32.bf16 %r0, %h1;             0x7fff -> 0x7fffffff
cvt.ftz.f64.f32 %q0, %r1;              0xffffffef -> 0x7fffffffe0000000
cvt.rp.ftz.f32.f64 %r0, %q1;           0x7ff0000000000001 -> 0x7fc00000
cvt.rn.f16.f64 %h0, %q1;               0x7ff8000000000005 -> 0x7e00
cvt.rn.bf16.f64 %h0, %q1;              0xfffffffffffffff7 -> 0xffff
cvt.rna.tf32.f32 %r0, %r1;             0xffffffbe -> 0xffffe000
cvt.rn.tf32.f32 %r0, %r1;              0xffff7fff -> 0x7fffe000
cvt.rz.tf32.f32 %r0, %r1;              0xffffffc0 -> 0x7fffe000
"""


@pytest.mark.parametrize("seen", SEEN.strip().splitlines(), ids=lambda seen: seen.split(";")[0])
def test_as_on_an_h200(seen: str) -> None:
    text, numbers = seen.split(";")
    given, wanted = numbers.split("->")
    target, *registers = re.findall(r"%(\w+)", text)
    values = dict(zip(registers, (int(word, 0) for word in given.split()), strict=True))
    assert hex(Instructions(f"{text};")(**values)[target][0]) == hex(int(wanted, 0))


@pytest.mark.parametrize(("register", "kind"), [("r", "f32"), ("q", "f64")])
def test_zero_is_a_normal_number(register: str, kind: str) -> None:
    assert Instructions(f"testp.normal.{kind} %p0, %{register}0;")(**{f"{register}0": 0})["p0"].all()
