"""mma.sync, and ldmatrix and stmatrix of bytes, against CuTe's atoms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from tensor_layouts import Layout, atoms_nv
from test_ld_st import run

from emulator import errors

RNG = np.random.default_rng(0)


def codes(values: np.ndarray, kind: str) -> np.ndarray:
    """Return small integers as the bits of a type."""
    match kind:
        case "f16":
            return values.astype(np.float16).view(np.uint16)
        case "bf16":
            return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        case "tf32" | "f32":
            return values.astype(np.float32).view(np.uint32)
        case "f64":
            return values.astype(np.float64).view(np.uint64)
        case "e4m3" | "e5m2":
            return torch.tensor(values).float().to(getattr(torch, FP8[kind])).view(torch.uint8).numpy()
    return values.astype({"s8": np.int8, "u8": np.uint8, "s32": np.int32}[kind])


FP8 = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}


def fragments(values: np.ndarray, layout: Layout) -> np.ndarray:
    """Return the elements of a matrix [mn, k] by (thread, value), for a layout whose offsets are column-major."""
    count = values.size // 32
    return np.array([[values.T.flat[layout(t, v)] for v in range(count)] for t in range(32)])


@dataclass(frozen=True)
class Product:
    """An mma.sync: K, the types of D and C, of A, and of B, and M. All 8-bit types have the same layout."""

    k: int
    to: str
    a: str
    b: str
    m: int = 16

    @property
    def atom(self) -> Any:
        if self.to == "f64":
            return getattr(atoms_nv, f"SM{90 if self.m == 16 else 80}_{self.m}x8x{self.k}_F64F64F64F64_TN")
        if self.to == "s32":
            return getattr(atoms_nv, f"SM80_16x8x{self.k}_S32S8S8S32_TN")
        if self.a in FP8:
            return atoms_nv.SM89_16x8x32_F32E4M3E4M3F32_TN
        names = [name.upper() for name in (self.to, self.a, self.b, self.to)]
        return getattr(atoms_nv, f"SM80_16x8x{self.k}_{''.join(names)}_TN")

    @property
    def word(self) -> type[np.unsignedinteger]:
        """Return the numpy type of a register."""
        return np.uint64 if self.to == "f64" else np.uint32

    def words(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> list[np.ndarray]:
        """Pack matrices [mn, k] of bits into the registers of A, B and C of each lane: word[32, registers] each."""
        layouts = (self.atom.a_layout, self.atom.b_layout, self.atom.c_layout)
        return [
            np.ascontiguousarray(fragments(x, layout)).view(self.word)
            for x, layout in zip((a, b, c), layouts, strict=True)
        ]

    def run(self, a: np.ndarray, b: np.ndarray, c: np.ndarray, suffix: str = "") -> np.ndarray:
        """Run the product and return the registers of D of each lane: word[32, registers]."""
        words = self.words(a, b, c)
        given = np.ascontiguousarray(np.concatenate(words, 1))
        counts = [w.shape[1] for w in words]
        letter, size = ("q", 8) if self.to == "f64" else ("r", 4)
        names = iter([f"%{letter}{2 + i}" for i in range(given.shape[1])])
        parts = [[next(names) for _ in range(n)] for n in counts]
        each = enumerate(r for p in parts for r in p)
        loads = "".join(f"ld.global.b{8 * size} {r}, [%a0+{size * i}];" for i, r in each)
        results = [f"%{letter}{20 + i}" for i in range(counts[2])]
        operands = ", ".join(f"{{{', '.join(part)}}}" for part in (results, *parts))
        stores = "".join(f"st.global.b{8 * size} [%a1+{size * i}], {r};" for i, r in enumerate(results))
        out = np.zeros((32, counts[2]), self.word)
        run(
            f"""mul.wide.u32 %q0, %t, {size * given.shape[1]}; add.s64 %a0, %a0, %q0;
mul.wide.u32 %q1, %t, {size * counts[2]}; add.s64 %a1, %a1, %q1; {loads}
mma.sync.aligned.m{self.m}n8k{self.k}.row.col{suffix}.{self.to}.{self.a}.{self.b}.{self.to} {operands};
{stores}""",
            given,
            out,
        )
        return out


PRODUCTS = [
    *(Product(k, to, "f16", "f16") for k in (8, 16) for to in ("f32", "f16")),
    *(Product(k, "f32", "bf16", "bf16") for k in (8, 16)),
    *(Product(k, "f32", "tf32", "tf32") for k in (4, 8)),
    *(Product(32, to, a, b) for to in ("f32", "f16") for a in FP8 for b in FP8),
    *(Product(k, "s32", a, b) for k in (16, 32) for a in ("s8", "u8") for b in ("s8", "u8")),
    *(Product(k, "f64", "f64", "f64", m) for m, k in ((8, 4), (16, 4), (16, 8), (16, 16))),
]


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_mma_sync(product: Product) -> None:
    low = 0 if "u8" in (product.a, product.b) else -8
    a, b, c = (RNG.integers(low, 9, shape) for shape in ((product.m, product.k), (8, product.k), (product.m, 8)))
    got = product.run(codes(a, product.a), codes(b, product.b), codes(c, product.to))
    wanted = codes(fragments(a @ b.T + c, product.atom.c_layout), product.to)
    np.testing.assert_array_equal(got, np.ascontiguousarray(wanted).view(product.word))


@pytest.mark.parametrize("suffix", ["", ".satfinite"])
def test_integer_sums_wrap_or_stay_at_the_end(suffix: str) -> None:
    product = Product(32, "s32", "s8", "s8")
    a, b, c = np.full((16, 32), 100), np.full((8, 32), 100), np.full((16, 8), 2**31 - 5)
    got = product.run(codes(a, "s8"), codes(b, "s8"), codes(c, "s32"), suffix).view(np.int32)
    assert (got == (2**31 - 1 if suffix else 2**31 - 5 + 320_000 - 2**32)).all()


@pytest.mark.parametrize(
    "form",
    [
        "m16n8k8.row.col.f16.f16.f16.f32",
        "m16n8k16.row.col.f32.f16.bf16.f32",
        "m16n8k32.row.col.f32.f16.f16.f32",
        "m16n8k16.row.col.s32.s8.s8.f32",
        "m16n8k16.row.col.satfinite.f32.f16.f16.f32",
        "m16n8k16.col.row.f32.f16.f16.f32",
        "m8n8k4.col.row.f64.f64.f64.f64",
        "m16n8k4.row.col.f64.f64.f32.f64",
    ],
)
def test_other_products_are_refused(form: str) -> None:
    with pytest.raises(errors.UnknownInstruction):
        run(f"mma.sync.aligned.{form} {{%r0, %r1}}, {{%r0, %r1}}, {{%r0}}, {{%r0, %r1}};")


def test_movmatrix_transposes() -> None:
    given, out = RNG.integers(0, 1 << 16, (8, 8), np.uint16), np.zeros((8, 8), np.uint16)
    run(
        """mul.wide.u32 %q0, %t, 4; add.s64 %a0, %a0, %q0; add.s64 %a1, %a1, %q0;
ld.global.b32 %r1, [%a0]; movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1; st.global.b32 [%a1], %r2;""",
        given,
        out,
    )
    np.testing.assert_array_equal(out, given.T)


@pytest.mark.parametrize("matrices", [1, 2, 4])
@pytest.mark.parametrize(("form", "bits", "up"), [("b4x16_p64", 4, 2), ("b6x16_p32", 6, 1)])
def test_ldmatrix_widens_small_elements(form: str, bits: int, up: int, matrices: int) -> None:
    """Rows have 16 elements, and the rest of 16 bytes is unused. Lanes receive bytes in the order of CuTe's atoms."""
    values = RNG.integers(0, 1 << bits, (8 * matrices, 16))
    rows = RNG.integers(0, 256, (8 * matrices, 16), np.uint8)
    for row, packed in zip(values, rows, strict=True):
        whole = sum(int(v) << bits * i for i, v in enumerate(row))
        packed[: 2 * bits] = list(whole.to_bytes(2 * bits, "little"))
    out = np.zeros((matrices, 32, 4), np.uint8)
    registers = [f"%r{i}" for i in range(matrices)]
    stores = "".join(f"st.global.b32 [%a1+{128 * i}], {r};" for i, r in enumerate(registers))
    run(
        f"""shl.b32 %r20, %t, 4; add.s32 %r21, %r20, %r50; cvt.u64.u32 %q1, %r20; add.s64 %a0, %a0, %q1;
setp.lt.u32 %p1, %t, {8 * matrices};
@%p1 ld.global.v4.b32 {{%r22, %r23, %r24, %r25}}, [%a0]; @%p1 st.shared.v4.b32 [%r21], {{%r22, %r23, %r24, %r25}};
bar.warp.sync -1;
ldmatrix.sync.aligned.m8n16.x{matrices}.shared.b8x16.{form} {{{", ".join(registers)}}}, [%r21];
mul.wide.u32 %q2, %t, 4; add.s64 %a1, %a1, %q2; {stores}""",
        rows,
        out,
    )
    np.testing.assert_array_equal(out.reshape(-1, 16), values << up)


LOADED = Layout(((4, 8), (8, 2, 2, 4)), ((256, 8), (1, 128, 64, 1024)))
"""(thread, bit of its registers) -> bit of the matrices: the destination of CuTe's SM100_U8x16_LDSM_T, and of its
SM100_U8x4_STSM_T.
"""
EXCHANGED = (0, 1, 4, 5, 2, 3, 6, 7)
"""The order in which that atom returns the bytes of two registers, by their position after ldmatrix."""
ROW_OF_LANE = Layout((2, 2, 4, 2), (1, 8, 2, 16))
"""Lane -> the row whose address it provides, in units of 128 bits: the source of the same atom."""


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
