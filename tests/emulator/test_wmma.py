"""wmma: products of matrices in memory, against numpy."""

from dataclasses import dataclass

import numpy as np
import pytest

from emulator.errors import Fault, UnknownInstruction
from tests.emulator.ptx_kernel import launch, source

RNG = np.random.default_rng(0)
STORED = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "tf32": np.float32, "s32": np.int32}
STORED |= {"u8": np.uint8, "s8": np.int8, "bf16": np.uint16}


@dataclass(frozen=True)
class Form:
    """A product: shape, types of D, A and B, and C, and the registers of the fragments."""

    m: int
    n: int
    k: int
    to: str
    of: str
    registers: tuple[int, int, int]
    more: str = ""

    @property
    def shape(self) -> str:
        return f"m{self.m}n{self.n}k{self.k}"

    @property
    def mma(self) -> str:
        types = f"{self.to}.{self.to}" if self.of == "f16" else f"{self.to}.{self.of}.{self.of}.{self.to}"
        return f"{self.shape}.{types}{self.more}"


FORMS = [
    Form(16, 16, 16, "f32", "f16", (8, 8, 8)),
    Form(32, 8, 16, "f16", "f16", (8, 8, 4)),
    Form(8, 32, 16, "f32", "f16", (8, 8, 8)),
    Form(16, 16, 16, "f32", "bf16", (4, 4, 8)),
    Form(32, 8, 16, "f32", "bf16", (8, 2, 8)),
    Form(16, 16, 8, "f32", "tf32", (4, 4, 8)),
    Form(16, 16, 16, "s32", "s8", (2, 2, 8)),
    Form(8, 32, 16, "s32", "u8", (1, 4, 8), ".satfinite"),
    Form(8, 8, 4, "f64", "f64", (1, 1, 2)),
]


def names(first: int, count: int, wide: bool) -> str:
    return "{" + ", ".join(f"%{'q' if wide else 'r'}{first + i}" for i in range(count)) + "}"


def stored(values: np.ndarray, kind: str, order: str, stride: int) -> np.ndarray:
    """Return a matrix as it lies in memory: lines of `stride` elements, -1 between them."""
    lines = values.T if order == "col" else values
    out = np.full((len(lines), stride), -1 if kind != "u8" else 255).astype(STORED[kind])
    out[:, : lines.shape[1]] = lines.astype(np.float32).view(np.uint32) >> 16 if kind == "bf16" else lines
    return out


@pytest.mark.parametrize("orders", ["row col row", "col row col"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.mma)
def test_products(form: Form, orders: str) -> None:
    low = 0 if form.of == "u8" else -4
    a, b = RNG.integers(low, 5, (form.m, form.k)), RNG.integers(low, 5, (form.k, form.n))
    c = RNG.integers(-9, 9, (form.m, form.n))
    of_a, of_b, of_c = orders.split()
    wide, strides = form.to == "f64", []
    text, first = "", 0
    for which, order, kind, count, matrix, at in (
        ("a", of_a, form.of, form.registers[0], a, "%a0"),
        ("b", of_b, form.of, form.registers[1], b, "%a1"),
        ("c", of_c, form.to, form.registers[2], c, "%a2"),
    ):
        strides.append(matrix.shape[0 if order == "col" else 1] + 16)
        text += f"wmma.load.{which}.sync.aligned.{order}.{form.shape}.global.{kind} "
        text += f"{names(first, count, wide)}, [{at}], {strides[-1]};\n"
        first += count
    given, to = [], names(first, form.registers[2], wide)
    for i, count in enumerate(form.registers):
        given.append(names(sum(form.registers[:i]), count, wide))
    text += f"wmma.mma.sync.aligned.{of_a}.{of_b}.{form.mma} {to}, {', '.join(given)};\n"
    text += f"wmma.store.d.sync.aligned.{of_c}.{form.shape}.global.{form.to} [%a3], {to}, {strides[2]};\nret;"
    memory = [
        stored(each, kind, order, stride)
        for each, kind, order, stride in zip(
            (a, b, c), (form.of, form.of, form.to), orders.split(), strides, strict=True
        )
    ]
    out = np.full_like(memory[2], -1)
    launch(source(text, 4), *memory, out)
    np.testing.assert_array_equal(out, stored(a @ b + c, form.to, of_c, strides[2]))


def test_integers_saturate() -> None:
    load = "wmma.load.{0}.sync.aligned.row.m16n16k16.global.{1} {2}, [%a{3}], 16;\n"
    registers = [names(0, 2, False), names(2, 2, False), names(4, 8, False)]
    text = "".join(
        load.format(which, kind, registers[i], i)
        for i, (which, kind) in enumerate((("a", "u8"), ("b", "u8"), ("c", "s32")))
    )
    mma = f"wmma.mma.sync.aligned.row.row.m16n16k16.s32.u8.u8.s32.satfinite {registers[2]}, {', '.join(registers)};"
    store = f"wmma.store.d.sync.aligned.row.m16n16k16.global.s32 [%a3], {registers[2]}, 16; ret;"
    ones, c = np.full((16, 16), 255, np.uint8), np.full((16, 16), 2**31 - 5, np.int32)
    out = np.zeros_like(c)
    launch(source(text + mma + store, 4), ones, ones, c, out)
    assert (out == 2**31 - 1).all()


@pytest.mark.parametrize(
    "instruction",
    [
        f"wmma.load.a.sync.aligned.row.m8n8k32.global.s4 {names(0, 1, False)}, [%a0], 32;",
        f"wmma.load.a.sync.aligned.row.m16n16k8.global.f16 {names(0, 8, False)}, [%a0], 16;",
        f"wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.f16.f32 {', '.join([names(0, 8, False)] * 4)};",
    ],
)
def test_forms_that_are_not_supported_are_rejected(instruction: str) -> None:
    with pytest.raises(UnknownInstruction):
        launch(source(f"{instruction} ret;"), np.zeros(512, np.uint32))


@pytest.mark.parametrize("barrier", ["bar.sync 0;", ""])
def test_a_matrix_in_shared_memory_needs_a_barrier_between_warps(barrier: str) -> None:
    registers = names(0, 8, False)
    text = f"""
.shared .align 16 .b8 s[1024]; mov.u32 %r20, s; setp.lt.u32 %p0, %t, 32;
wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {registers}, [%a0];
@!%p0 bra later;
wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r20], {registers}, 16;
later: {barrier} @%p0 bra end;
wmma.load.c.sync.aligned.col.m16n16k16.shared.f32 {registers}, [%r20];
wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%a1], {registers};
end: ret;"""
    given, out = RNG.random((16, 16), np.float32), np.zeros((16, 16), np.float32)
    if barrier:
        launch(source(text, 2, block=64), given, out, block=64)
        np.testing.assert_array_equal(out, given.T)
    else:
        with pytest.raises(Fault):
            launch(source(text, 2, block=64), given, out, block=64)
