"""mma.sync, and ldmatrix and stmatrix of bytes, against CuTe's atoms."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_layouts import Layout, atoms_nv
from test_memory import run

from emulator import errors

RNG = np.random.default_rng(0)
BITS = {
    "f16": lambda x: x.astype(np.float16).view(np.uint16),
    "bf16": lambda x: (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16),
}


def fragments(values: np.ndarray, layout: Layout) -> np.ndarray:
    """Elements of a matrix [mn, k] by (thread, value), whose layout's offsets run down the columns."""
    count = values.size // 32
    return np.array([[values.T.flat[layout(t, v)] for v in range(count)] for t in range(32)])


@pytest.mark.parametrize("k", [8, 16])
@pytest.mark.parametrize("kind", BITS)
def test_mma_sync(kind: str, k: int) -> None:
    name = kind.upper()
    atom = getattr(atoms_nv, f"SM80_16x8x{k}_F32{name}{name}F32_TN")
    a, b, c = (RNG.integers(-8, 9, shape) for shape in ((16, k), (8, k), (16, 8)))
    words = [
        np.ascontiguousarray(BITS[kind](fragments(x, layout))).view(np.uint32)
        for x, layout in ((a, atom.a_layout), (b, atom.b_layout))
    ]
    words.append(fragments(c, atom.c_layout).astype(np.float32).view(np.uint32))
    given = np.ascontiguousarray(np.concatenate(words, 1))
    n, na, nb = given.shape[1], words[0].shape[1], words[1].shape[1]
    loads = "".join(f"ld.global.b32 %r{i}, [%a0+{4 * i}];" for i in range(n))
    names = [f"%r{i}" for i in range(n)]
    operands = ", ".join(f"{{{', '.join(part)}}}" for part in (names[:na], names[na : na + nb], names[na + nb :]))
    out = np.zeros((32, 4), np.float32)
    run(
        f"""mul.wide.u32 %q0, %t, {4 * n}; add.s64 %a0, %a0, %q0; shl.b32 %r50, %t, 4; cvt.u64.u32 %q1, %r50;
{loads} mma.sync.aligned.m16n8k{k}.row.col.f32.{kind}.{kind}.f32 {{%r20, %r21, %r22, %r23}}, {operands};
add.s64 %a1, %a1, %q1; st.global.v4.b32 [%a1], {{%r20, %r21, %r22, %r23}};""",
        given,
        out,
    )
    np.testing.assert_array_equal(out, fragments(a @ b.T + c, atom.c_layout))


def test_other_types_are_refused() -> None:
    with pytest.raises(errors.UnknownInstruction, match="f16"):
        run("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r0, %r1}, {%r0, %r1}, {%r0}, {%r0, %r1};")


LOADED = Layout(((4, 8), (8, 2, 2, 4)), ((256, 8), (1, 128, 64, 1024)))
"""(thread, bit of its registers) -> bit of the matrices: the destination of CuTe's SM100_U8x16_LDSM_T, and of its
SM100_U8x4_STSM_T."""
EXCHANGED = (0, 1, 4, 5, 2, 3, 6, 7)
"""The bytes of two registers in the order in which that atom gives them on, by their places after ldmatrix."""
ROW_OF_LANE = Layout((2, 2, 4, 2), (1, 8, 2, 16))
"""Lane -> the row whose address it gives, in units of 128 bits: the source of the same atom."""


@pytest.mark.parametrize("matrices", [1, 2])
def test_ldmatrix_of_bytes(matrices: int) -> None:
    given, out = RNG.integers(0, 256, (16 * matrices, 16), np.uint8), np.zeros((32, 2 * matrices), np.uint32)
    registers = [f"%r{i}" for i in range(2 * matrices)]
    stores = "".join(f"st.global.b32 [%a1+{4 * i}], {r};" for i, r in enumerate(registers))
    run(
        f"""shl.b32 %r20, %t, 4; add.s32 %r21, %r20, %r50; cvt.u64.u32 %q1, %r20; add.s64 %a0, %a0, %q1;
setp.lt.u32 %p1, %t, {16 * matrices};
@%p1 ld.global.v4.b32 {{%r22, %r23, %r24, %r25}}, [%a0]; @%p1 st.shared.v4.b32 [%r21], {{%r22, %r23, %r24, %r25}};
ldmatrix.sync.aligned.m16n16.x{matrices}.trans.shared.b8 {{{", ".join(registers)}}}, [%r21];
mul.wide.u32 %q2, %t, {8 * matrices}; add.s64 %a1, %a1, %q2; {stores}""",
        given,
        out,
    )
    logical = np.zeros_like(given)
    for lane in range(16 * matrices):
        logical[ROW_OF_LANE(lane)] = given[lane]
    wanted = [[logical.flat[LOADED(t, 8 * v) // 8] for v in range(8 * matrices)] for t in range(32)]
    np.testing.assert_array_equal(out.view(np.uint8).reshape(32, matrices, 8)[:, :, EXCHANGED].reshape(32, -1), wanted)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_of_bytes(count: int) -> None:
    given, out = RNG.integers(0, 1 << 32, (32, count), np.uint32), np.zeros((8 * count, 16), np.uint8)
    registers = [f"%r{i}" for i in range(count)]
    loads = "".join(f"ld.global.b32 {r}, [%a0+{4 * i}];" for i, r in enumerate(registers))
    run(
        f"""mul.wide.u32 %q2, %t, {4 * count}; add.s64 %a0, %a0, %q2; {loads}
shl.b32 %r20, %t, 4; add.s32 %r21, %r20, %r50; cvt.u64.u32 %q1, %r20; add.s64 %a1, %a1, %q1;
stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [%r21], {{{", ".join(registers)}}};
setp.lt.u32 %p1, %t, {8 * count};
@%p1 ld.shared.v4.b32 {{%r22, %r23, %r24, %r25}}, [%r21]; @%p1 st.global.v4.b32 [%a1], {{%r22, %r23, %r24, %r25}};""",
        given,
        out,
    )
    for t in range(32):
        for v, byte in enumerate(given[t].view(np.uint8)):
            assert out.flat[LOADED(t, 8 * v) // 8] == byte


@pytest.mark.parametrize("form", ["m16n16.x4.trans.shared.b8", "m8n8.x1.shared.b8", "m16n16.x1.shared.b8"])
def test_forms_that_do_not_exist(form: str) -> None:
    with pytest.raises(errors.UnknownInstruction):
        run(f"ldmatrix.sync.aligned.{form} {{%r0, %r1}}, [%r50];")
