"""tcgen05.mma end to end: operands laid out by the oracle, the accumulator read lane by lane, exact integers."""

from __future__ import annotations

import numpy as np
import pytest
from canonical import Operand
from ptx_launch import kernel, launch
from tensor_program import BASE, WINDOW, prologue

from emulator.machine.formats.descriptors import E4M3, E5M2
from emulator.machine.formats.numbers import table

KINDS = {
    # kind: (bits of an element, K, type codes of A and B, encode)
    "f16": (16, 16, 0, lambda x: x.astype(np.float16).view(np.uint16)),
    "bf16": (16, 16, 1, lambda x: (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)),
    "tf32": (32, 8, 2, lambda x: x.astype(np.float32).view(np.uint32)),
    "e4m3": (8, 32, 0, lambda x: encode(x, table(E4M3))),
    "e5m2": (8, 32, 1, lambda x: encode(x, table(E5M2))),
    "s8": (8, 32, 1, lambda x: x.astype(np.int8).view(np.uint8)),
    "u8": (8, 32, 0, lambda x: x.astype(np.uint8)),
}
PTX_KIND = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "e4m3": "f8f6f4", "e5m2": "f8f6f4", "s8": "i8", "u8": "i8"}


def encode(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    known = {float(v): i for i, v in reversed(list(enumerate(codes)))}
    return np.vectorize(lambda v: known[float(v)])(values).astype(np.uint8)


def program(kind: str, idesc: int, a: int, b: int, m: int, columns: int, extra: str = "") -> str:
    """Return a program: copy an image in, multiply onto zero and again onto the sum, store 128 lanes x columns."""
    rounds = columns // 32
    registers = ", ".join(f"%v{j}" for j in range(32))
    reads = "\n".join(
        f"add.s32 %r7, %r6, {32 * i}; tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{registers}}}, [%r7];"
        "tcgen05.wait::ld.sync.aligned;"
        + "\n".join(f"st.global.b32 [%rd1+{512 * (32 * i + j)}], %v{j};" for j in range(32))
        for i in range(rounds)
    )
    fill = "\n".join(
        f"add.s32 %r7, %r6, {c}; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r7], {{%r9}};" for c in range(columns)
    )
    return kernel(
        "mma",
        ".param .u64 image, .param .u64 out",
        f"""
.reg .b32 %r<32>; .reg .b32 %v<32>; .reg .b64 %rd<16>; .reg .pred %p<8>;
{prologue(columns, "cta_group::1")}mov.b32 %r9, 0;
{fill}
tcgen05.wait::st.sync.aligned;
bar.sync 0;
ld.param.b64 %rd1, [out]; ld.param.b64 %rd2, [image];
mul.wide.u32 %rd3, %r1, 4;
add.s64 %rd1, %rd1, %rd3;
@%p0 bra READ;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], {WINDOW};
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r12], [%rd2], {WINDOW}, [%r10];
FULL: mbarrier.try_wait.parity.shared.b64 %p2, [%r10], 0; @%p2 bra MMA; bra FULL;
MMA:
mov.b64 %rd4, {a:#x}; mov.b64 %rd5, {b:#x}; mov.b32 %r15, {idesc:#x};
setp.eq.b32 %p3, %r9, 0; setp.ne.b32 %p4, %r9, 0;
@%p1 tcgen05.mma.cta_group::1.kind::{PTX_KIND[kind]} [%r5], %rd4, %rd5, %r15, %p4{extra};
@%p1 tcgen05.mma.cta_group::1.kind::{PTX_KIND[kind]} [%r5], %rd4, %rd5, %r15, %p3{extra};
@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r11];
READ: mbarrier.try_wait.parity.shared.b64 %p2, [%r11], 0; @%p2 bra OUT; bra READ;
OUT:
{reads}
tcgen05.wait::ld.sync.aligned;
bar.sync 0;
@%p0 bra END;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, {columns};
END:
ret;""",
    )


def operand(kind: str, mn: int, mn_major: bool, swizzle: str, start: int) -> Operand:
    """Lay out a compact operand: core matrices are contiguous along MN."""
    bits, k, *_ = KINDS[kind]
    span = {"none": 16, "32B": 32, "64B": 64, "128B": 128}[swizzle]
    if mn_major:
        inner = 8 * span
        return Operand(bits, mn, k, True, swizzle, start, inner * max(k // 8, 1), inner)
    return Operand(bits, mn, k, False, swizzle, start, 8 * span * (k * bits // 128 if swizzle == "none" else 1), 128)


CASES = [
    ("bf16", 128, 64, False, False, "128B", "128B"),
    ("bf16", 128, 32, False, True, "128B", "128B"),
    ("bf16", 128, 128, True, True, "64B", "32B"),
    ("bf16", 64, 64, False, False, "none", "none"),
    ("f16", 64, 32, True, False, "none", "64B"),
    ("f16", 128, 256, False, True, "32B", "none"),
    ("tf32", 128, 64, False, False, "128B", "64B"),
    ("e4m3", 128, 64, False, False, "128B", "none"),
    ("e5m2", 64, 128, True, True, "128B", "64B"),
]


@pytest.mark.parametrize(("kind", "m", "n", "a_major", "b_major", "a_swizzle", "b_swizzle"), CASES)
def test_mma(kind: str, m: int, n: int, a_major: bool, b_major: bool, a_swizzle: str, b_swizzle: str) -> None:
    bits, k, code, bits_of = KINDS[kind]
    rng = np.random.default_rng(m + n)
    a, b = rng.integers(-4, 5, (m, k)), rng.integers(-4, 5, (n, k))
    image = np.full(WINDOW, 0xAB, np.uint8)
    placed = operand(kind, m, a_major, a_swizzle, 0), operand(kind, n, b_major, b_swizzle, 32 * 1024)
    for where, values in zip(placed, (a, b), strict=True):
        image.view(f"u{bits // 8}")[where.byte() // (bits // 8)] = bits_of(values)
    descriptors = [where.descriptor + (BASE >> 4) for where in placed]
    idesc = 1 << 4 | code << 7 | code << 10 | a_major << 15 | b_major << 16 | n >> 3 << 17 | m >> 4 << 24
    columns = max(32, 1 << (n - 1).bit_length())
    out = np.zeros((columns, 128), np.float32)
    launch(program(kind, idesc, descriptors[0], descriptors[1], m, columns), [image, out], block=(128, 1, 1))
    wanted = np.zeros((columns, 128), np.float32)
    lane = np.arange(m) if m == 128 else np.arange(m) % 16 + 32 * (np.arange(m) // 16)
    wanted[:n, lane] = 2 * (b @ a.T)
    np.testing.assert_array_equal(out, wanted)


SECOND_COPY = f"""
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 1024;
add.s32 %r28, %r12, {WINDOW - 1024};
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r28], [%rd2], 1024, [%r10];
AGAIN: mbarrier.try_wait.parity.shared.b64 %p2, [%r10], 1; @%p2 bra NEXT; bra AGAIN;
NEXT:
@%p1 tcgen05.mma"""


@pytest.mark.parametrize("seed", range(6))
def test_a_wait_between_two_steps_of_one_product(seed: int) -> None:
    """The MMA does not complete during the wait, because its second step belongs to the same operation."""
    m, n, bits_of = 128, 32, KINDS["bf16"][3]
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-4, 5, (m, 16)), rng.integers(-4, 5, (n, 16))
    placed = operand("bf16", m, False, "128B", 0), operand("bf16", n, False, "128B", 32 * 1024)
    image, out = np.zeros(WINDOW, np.uint8), np.zeros((n, 128), np.float32)
    for where, values in zip(placed, (a, b), strict=True):
        image.view(np.uint16)[where.byte() // 2] = bits_of(values)
    idesc = 1 << 4 | 1 << 7 | 1 << 10 | n >> 3 << 17 | m >> 4 << 24
    at_a, at_b = (where.descriptor + (BASE >> 4) for where in placed)
    text = program("bf16", idesc, at_a, at_b, m, 32)
    first, step, second = text.partition("%p4;\n@%p1 tcgen05.mma")
    assert step
    text = first + "%p4;" + SECOND_COPY + second
    launch(text, [image, out], block=(128, 1, 1), completion="random", seed=seed)
    np.testing.assert_array_equal(out, 2 * (b @ a.T))


def test_disabled_lanes_keep_what_they_had() -> None:
    kind, m, n = "bf16", 128, 32
    a = b = operand(kind, m, False, "128B", 0)
    values = np.random.default_rng(0).integers(-4, 5, (m, 16))
    image = np.zeros(WINDOW, np.uint8)
    image.view(np.uint16)[a.byte() // 2] = KINDS[kind][3](values)
    mask = ", {%r20, %r21, %r22, %r23}"
    idesc = 1 << 4 | 1 << 7 | 1 << 10 | n >> 3 << 17 | m >> 4 << 24
    text = program(kind, idesc, a.descriptor + (BASE >> 4), b.descriptor + (BASE >> 4), m, 32)
    text = text.replace("%r15, %p4", f"%r15{mask}, %p4").replace("%r15, %p3", f"%r15{mask}, %p3")
    text = text.replace(
        "mov.b64 %rd4", "mov.b32 %r20, 1; mov.b32 %r21, 0; mov.b32 %r22, 0x80000000; mov.b32 %r23, 0;\nmov.b64 %rd4"
    )
    out = np.zeros((32, 128), np.float32)
    launch(text, [image, out], block=(128, 1, 1))
    wanted = 2 * (values[:n] @ values.T).astype(np.float32)
    wanted[:, [0, 95]] = 0
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize(("kind", "low", "high"), [("s8", -128, 127), ("u8", 0, 255)])
def test_integers(kind: str, low: int, high: int, saturate: bool) -> None:
    """Two MMAs onto an accumulator near the end of its range, which wraps or saturates after each."""
    m, n, start = 128, 32, 0x7FFF0000
    rng = np.random.default_rng(5)
    a, b = rng.integers(low, high + 1, (m, 32)), rng.integers(low, high + 1, (n, 32))
    placed = operand(kind, m, False, "128B", 0), operand(kind, n, False, "128B", 32 * 1024)
    image = np.zeros(WINDOW, np.uint8)
    for where, values in zip(placed, (a, b), strict=True):
        image[where.byte()] = KINDS[kind][3](values)
    code = KINDS[kind][2]
    idesc = 2 << 4 | code << 7 | code << 10 | saturate << 3 | n >> 3 << 17 | m >> 4 << 24
    at_a, at_b = (where.descriptor + (BASE >> 4) for where in placed)
    text = program(kind, idesc, at_a, at_b, m, 32)
    text = text.replace("{%r9};", "{%r19};").replace("mov.b32 %r9, 0;", f"mov.b32 %r9, 0; mov.b32 %r19, {start};")
    text = text.replace("setp.ne.b32 %p4, %r9, 0", "setp.eq.b32 %p4, %r9, 0")
    out = np.zeros((32, 128), np.int32)
    launch(text, [image, out], block=(128, 1, 1))
    wanted = np.full((n, m), start)
    for _ in range(2):
        wanted = wanted + b @ a.T
        wanted = wanted.clip(-(2**31), 2**31 - 1) if saturate else wanted
    np.testing.assert_array_equal(out, wanted.astype(np.int32))
