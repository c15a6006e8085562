"""Programs with one planted bug each, which no check of the emulator reports: their results are wrong, that is all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from debug_programs import bf16
from ptx_launch import kernel

TILES = 4
K = 64 * TILES
ROWS, COLUMNS = 128, 32
SCALE = 0.0625
HEX = "0f3D800000"

_REGISTERS = [f"%f{i}" for i in range(COLUMNS)]
_COPY_A = "\n".join(
    f"ld.global.v4.b32 {{%c0, %c1, %c2, %c3}}, [%rd4+{16 * c}]; xor.b32 %r30, %r20, {c}; shl.b32 %r30, %r30, 4;"
    " add.s32 %r30, %r30, %r21; st.shared.v4.b32 [%r30], {%c0, %c1, %c2, %c3};  // copy A\n"
    for c in range(8)
)
_COPY_B = "\n".join(
    f"ld.global.v4.b32 {{%c0, %c1, %c2, %c3}}, [%rd5+{16 * c}]; xor.b32 %r30, %r22, {c}; shl.b32 %r30, %r30, 4;"
    " add.s32 %r30, %r30, %r23; st.shared.v4.b32 [%r30], {%c0, %c1, %c2, %c3};  // copy B\n"
    for c in range(8)
)
_MULTIPLY = "\n".join(
    f"add.s64 %rd12, %rd10, {2 * step}; add.s64 %rd13, %rd11, {2 * step};\n"
    "@%p2 tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd12, %rd13, %r15, %p4; setp.ne.b32 %p4, %r1, -1;"
    for step in range(4)
)
_SCALED = "\n".join(f"mul.f32 {r}, {r}, {HEX};  // scale" for r in _REGISTERS)
_STORED = "\n".join(f"st.global.b32 [%rd7+{4 * i}], {r};" for i, r in enumerate(_REGISTERS))

PRODUCT = kernel(
    "product",
    ".param .u64 a, .param .u64 b, .param .u64 d",
    f"""
.reg .pred %p<9>; .reg .b16 %h<4>; .reg .b32 %r<64>; .reg .b32 %c<4>; .reg .b32 %f<{COLUMNS}>; .reg .b64 %rd<16>;
.shared .align 1024 .b8 sA[32768];
.shared .align 1024 .b8 sB[8192];
.shared .align 8 .b8 done[8];
.shared .align 4 .b8 address[4];
mov.u32 %r1, %tid.x;
shr.u32 %r2, %r1, 5;
shfl.sync.idx.b32 %r2, %r2, 0, 31, -1;
mov.b32 %r3, sA; mov.b32 %r4, sB; mov.b32 %r6, done; mov.b32 %r7, address;
setp.ne.b32 %p1, %r2, 0;
@%p1 bra READY;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], 32;
elect.sync _|%p2, -1;
@%p2 mbarrier.init.shared.b64 [%r6], 1;
fence.mbarrier_init.release.cluster;
READY:
bar.sync 0;
ld.shared.b32 %r8, [%r7];
ld.param.b64 %rd1, [a]; ld.param.b64 %rd2, [b]; ld.param.b64 %rd3, [d];
mul.wide.u32 %rd4, %r1, {2 * K}; add.s64 %rd4, %rd1, %rd4;
and.b32 %r24, %r1, 31;  // row of B
mov.b32 %r25, %r24;  // its source
mul.wide.u32 %rd5, %r25, {2 * K}; add.s64 %rd5, %rd2, %rd5;
mov.b32 %r15, 0x08080490;
mov.b32 %r9, 0;
setp.eq.b32 %p4, %r1, -1;
TILE:
and.b32 %r10, %r9, 1;  // stage of the copy
and.b32 %r20, %r1, 7;  // swizzle of A
and.b32 %r22, %r24, 7;
shl.b32 %r21, %r10, 14; add.s32 %r21, %r21, %r3; shl.b32 %r31, %r1, 7; add.s32 %r21, %r21, %r31;
shl.b32 %r23, %r10, 12; add.s32 %r23, %r23, %r4; shl.b32 %r31, %r24, 7; add.s32 %r23, %r23, %r31;
{_COPY_A}
setp.gt.u32 %p5, %r1, 31;
@%p5 bra COPIED;
{_COPY_B}
COPIED:
fence.proxy.async;
bar.sync 0;
@%p1 bra WAIT;
and.b32 %r11, %r9, 1;  // stage of the product
shl.b32 %r12, %r11, 10; shr.u32 %r13, %r3, 4; add.s32 %r12, %r12, %r13;
shl.b32 %r14, %r11, 8; shr.u32 %r13, %r4, 4; add.s32 %r14, %r14, %r13;
mov.b32 %r16, 0x40004040;  // rows of A
mov.b32 %r17, 0x40004040;
or.b32 %r12, %r12, 0x10000; or.b32 %r14, %r14, 0x10000;
mov.b64 %rd10, {{%r12, %r16}}; mov.b64 %rd11, {{%r14, %r17}};
elect.sync _|%p2, -1;
{_MULTIPLY}
@%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r6];
WAIT:
and.b32 %r18, %r9, 1;
WAITING:
mbarrier.try_wait.parity.shared.b64 %p3, [%r6], %r18;
@%p3 bra NEXT;
bra WAITING;
NEXT:
add.s32 %r9, %r9, 1;
setp.lt.u32 %p6, %r9, {TILES};  // tiles
add.s64 %rd4, %rd4, 128; add.s64 %rd5, %rd5, 128;
@%p6 bra TILE;
shl.b32 %r21, %r2, 21; add.s32 %r22, %r8, %r21;
tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{", ".join(_REGISTERS)}}}, [%r22];
tcgen05.wait::ld.sync.aligned;
{_SCALED}
mov.b32 %r40, %r1;  // row of D
mul.wide.u32 %rd6, %r40, {4 * COLUMNS};
add.s64 %rd7, %rd3, %rd6;
{_STORED}
bar.sync 0;
@%p1 bra END;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, 32;
END:
ret;
""",
)
"""D[128, 32] = scale A[128, 256] B[32, 256]': four tiles of K through two stages, by threads with 128-byte swizzle."""

KEYS, HEAD = 16, 4
LOG2E = "0f3FB8AA3B"
_TERMS = "\n".join(
    f"ld.global.f32 %v, [%rd6+{4 * j}]; mul.f32 %f{j}, %f{j}, %f31;  // rescale\nfma.rn.f32 %f{j}, %f30, %v, %f{j};"
    for j in range(HEAD)
)
SOFTMAX = kernel(
    "attend",
    ".param .u64 s, .param .u64 v, .param .u64 o",
    f"""
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .f32 %f<40>; .reg .f32 %v; .reg .b64 %rd<12>;
mov.u32 %r1, %tid.x;
ld.param.b64 %rd1, [s]; ld.param.b64 %rd2, [v]; ld.param.b64 %rd3, [o];
mul.wide.u32 %rd4, %r1, {4 * KEYS}; add.s64 %rd5, %rd1, %rd4;
mov.f32 %f10, 0fFF800000; mov.f32 %f11, 0f00000000;
{" ".join(f"mov.f32 %f{j}, 0f00000000;" for j in range(HEAD))}
mov.b32 %r2, 0;
mov.b64 %rd6, %rd2;
KEY:
ld.global.f32 %f20, [%rd5];
shr.u32 %r3, %r1, 1;
setp.le.u32 %p1, %r2, %r3;  // mask
selp.f32 %f21, %f20, 0fFF800000, %p1;
max.f32 %f22, %f10, %f21;
sub.f32 %f23, %f10, %f22; mul.f32 %f23, %f23, {LOG2E}; ex2.approx.f32 %f31, %f23;
sub.f32 %f24, %f21, %f22; mul.f32 %f24, %f24, {LOG2E}; ex2.approx.f32 %f30, %f24;
mov.f32 %f10, %f22;
mul.f32 %f11, %f11, %f31; add.f32 %f11, %f11, %f30;
{_TERMS}
add.s64 %rd5, %rd5, 4; add.s64 %rd6, %rd6, {4 * HEAD};
add.s32 %r2, %r2, 1;
setp.lt.u32 %p2, %r2, {KEYS};
@%p2 bra KEY;
rcp.rn.f32 %f12, %f11;
mul.wide.u32 %rd7, %r1, {4 * HEAD}; add.s64 %rd8, %rd3, %rd7;
{" ".join(f"mul.f32 %f{j}, %f{j}, %f12; st.global.f32 [%rd8+{4 * j}], %f{j};" for j in range(HEAD))}
ret;
""",
)
"""O[32, 4] = softmax(S[32, 16], key <= row / 2) V[16, 4], one key after another."""


@dataclass(frozen=True)
class Planted:
    """A bug: its name, the program's right text, and the text with which it is wrong."""

    name: str
    right: str
    wrong: str
    program: str = PRODUCT

    @property
    def ptx(self) -> str:
        """The wrong program."""
        assert self.right in self.program, self.name
        return self.program.replace(self.right, self.wrong)

    def lines(self) -> list[int]:
        """Return the lines of the wrong program that differ from the right one."""
        pairs = zip(self.program.splitlines(), self.ptx.splitlines(), strict=True)
        return [number for number, (right, wrong) in enumerate(pairs, 1) if right != wrong]


_LANES = "and.b32 %r41, %r1, 15; shl.b32 %r41, %r41, 1; shr.u32 %r40, %r1, 4; and.b32 %r40, %r40, 1; "
PLANTED = {
    bug.name: bug
    for bug in (
        Planted("wrong index", "mov.b32 %r25, %r24;", "xor.b32 %r25, %r24, 1;"),
        Planted("wrong swizzle", "and.b32 %r20, %r1, 7;", "and.b32 %r20, %r1, 3;"),
        Planted("wrong descriptor", "mov.b32 %r16, 0x40004040;", "mov.b32 %r16, 0x40004020;"),
        Planted("lost rescale", "mul.f32 %f2, %f2, %f31;", "mul.f32 %f2, %f2, 0f3F800000;", SOFTMAX),
        Planted("wrong scale", f"mul.f32 %f7, %f7, {HEX};", "mul.f32 %f7, %f7, 0f3E000000;"),
        Planted("off-by-one tile", f"setp.lt.u32 %p6, %r9, {TILES};", f"setp.lt.u32 %p6, %r9, {TILES - 1};"),
        Planted("stale stage", "and.b32 %r11, %r9, 1;", "shr.u32 %r11, %r9, 1;"),
        Planted("wrong mask", "setp.le.u32 %p1, %r2, %r3;", "setp.le.u32 %p1, %r2, %r1;", SOFTMAX),
        Planted(
            "wrong lane mapping",
            "mov.b32 %r40, %r1;",
            f"{_LANES}add.s32 %r40, %r40, %r41; and.b32 %r41, %r1, 96; add.s32 %r40, %r40, %r41;",
        ),
        Planted(
            "bf16 where fp32 was meant",
            f"mul.f32 %f5, %f5, {HEX};",
            f"cvt.rn.bf16.f32 %h1, %f5; cvt.f32.bf16 %f5, %h1; mul.f32 %f5, %f5, {HEX};",
        ),
    )
}


@dataclass(frozen=True)
class Problem:
    """Inputs of a program, its output to be filled, and what that should be."""

    inputs: dict[str, np.ndarray]
    output: np.ndarray
    expected: np.ndarray
    block: int


def product() -> Problem:
    """Return the inputs of PRODUCT: fractions that bf16 holds."""
    rng = np.random.default_rng(1)
    a = rng.integers(-128, 129, (ROWS, K)) / 16
    b = rng.integers(-128, 129, (COLUMNS, K)) / 16
    inputs = {"a": bf16(a), "b": bf16(b)}
    return Problem(inputs, np.zeros((ROWS, COLUMNS), np.float32), SCALE * (a @ b.T), ROWS)


def softmax() -> Problem:
    """Return the inputs of SOFTMAX. Later keys are greater, so that rescaling matters."""
    rng = np.random.default_rng(2)
    s = (rng.standard_normal((32, KEYS)) + np.linspace(0, 4, KEYS)).astype(np.float32)
    v = rng.standard_normal((KEYS, HEAD)).astype(np.float32)
    seen = np.arange(KEYS)[None, :] <= np.arange(32)[:, None] // 2
    weights = np.where(seen, np.exp(s.astype(np.float64)), 0.0)
    expected = weights / weights.sum(1, keepdims=True) @ v
    return Problem({"s": s, "v": v}, np.zeros((32, HEAD), np.float32), expected, 32)


PROBLEMS: dict[str, Callable[[], Problem]] = {PRODUCT: product, SOFTMAX: softmax}
