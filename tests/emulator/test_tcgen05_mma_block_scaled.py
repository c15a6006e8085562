"""tcgen05.cp of scale factors and block-scaled tcgen05.mma, against numpy: kinds, block sizes, bytes of a cell."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest
from ptx_launch import launch
from test_tcgen05_mma import BASE, WINDOW, operand, program

from emulator import errors
from emulator.machine.formats.descriptors import E2M1, E2M3, E4M3, ElementType
from emulator.machine.formats.numbers import table

M, N, COLUMNS, REPEATS = 128, 96, 128, 2
A_AT, B_AT, SFA_AT, SFB_AT = 0, 16 * 1024, 32 * 1024, 33 * 1024
SFA, SFB = 100, 108


@dataclass(frozen=True)
class Case:
    """A kind with its block of K, scale type, element types of A and B (descriptor codes), and first bytes."""

    kind: str
    vector: str
    k: int
    block: int
    scale: str
    a: tuple[ElementType, int]
    b: tuple[ElementType, int]
    bytes: tuple[int, int] = (0, 0)


NARROW = (E2M1, 1)
CASES = [
    Case("mxf8f6f4", "", 32, 32, "ue8m0", (E4M3, 0), (E4M3, 0)),
    Case("mxf8f6f4", ".block32", 32, 32, "ue8m0", (E4M3, 0), (E2M1, 5), (3, 1)),
    Case("mxf8f6f4", ".scale_vec::1X", 32, 32, "ue8m0", (E2M3, 3), (E4M3, 0), (1, 2)),
    Case("mxf4", "", 64, 32, "ue8m0", NARROW, NARROW, (2, 0)),
    Case("mxf4nvf4", ".block16", 64, 16, "ue4m3", NARROW, NARROW),
    Case("mxf4nvf4", ".scale_vec::2X", 64, 32, "ue8m0", NARROW, NARROW, (0, 2)),
]


def spread(codes: np.ndarray, element: ElementType, packed: bool) -> np.ndarray:
    """Pack codes [rows, K] as bytes of K in shared memory: nibbles, or 16 elements at the start of 16 bytes."""
    if element.bits == 8:
        return codes
    bits = np.unpackbits(codes[..., None], axis=-1, count=element.bits, bitorder="little")
    if packed:
        return np.packbits(bits.reshape(len(codes), -1), axis=-1, bitorder="little")
    chunks = np.zeros((len(codes), codes.shape[1] // 16, 16), np.uint8)
    chunks[..., : 2 * element.bits] = np.packbits(bits.reshape(*chunks.shape[:2], -1), axis=-1, bitorder="little")
    return chunks.reshape(len(codes), -1)


def scale_values(codes: np.ndarray, kind: str) -> np.ndarray:
    return 2.0 ** (codes.astype(float) - 127) if kind == "ue8m0" else table(E4M3)[codes].astype(float)


def atoms(codes: np.ndarray, first: int) -> np.ndarray:
    """Arrange factors [rows, blocks] as 512-byte atoms of 128 rows: row r in 16-byte line r % 32, word r / 32 % 4."""
    image = np.full((-(-len(codes) // 128), 32, 4, 4), 0x55, np.uint8)
    for row, factors in enumerate(codes):
        image[row // 128, row % 32, row // 32 % 4, first : first + len(factors)] = factors
    return image.reshape(-1)


def text(case: Case, idesc: int, a: int, b: int) -> str:
    """Return the program of test_tcgen05_mma with the scale factors copied before the first MMA."""

    def descriptor(start: int) -> int:
        return start + BASE >> 4 | 128 >> 4 << 32 | 1 << 46

    copies = "".join(
        f"mov.b64 %rd6, {descriptor(at):#x}; add.s32 %r20, %r5, {column};"
        "@%p1 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r20], %rd6;\n"
        for at, column in ((SFA_AT, SFA), (SFB_AT, SFB))
    )
    lines = program("e4m3", idesc, a, b, M, COLUMNS).replace("mov.b64 %rd4", copies + "mov.b64 %rd4")
    lines = lines.replace("kind::f8f6f4", f"kind::{case.kind}.block_scale{case.vector}")
    factors = f"add.s32 %r21, %r5, {SFA}; add.s32 %r22, %r5, {SFB};"
    return lines.replace("setp.eq.b32 %p3", factors + " setp.eq.b32 %p3").replace(
        "%r15, %p", "%r15, [%r21], [%r22], %p"
    )


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.kind}{c.vector}")
def test_against_numpy(case: Case) -> None:
    rng = np.random.default_rng(len(case.kind))
    image, dense = np.full(WINDOW, 0xAB, np.uint8), []
    descriptors = []
    sides = ((M, *case.a, A_AT, SFA_AT, case.bytes[0]), (N, *case.b, B_AT, SFB_AT, case.bytes[1]))
    for rows, element, _, at, scales_at, first in sides:
        codes = rng.integers(0, 1 << min(element.bits, 6), (rows, case.k), np.uint8)
        factors = rng.integers(120, 130, (rows, case.k // case.block), np.uint8)
        factors = factors if case.scale == "ue8m0" else factors - np.uint8(80)
        where = operand("e4m3", rows, False, "32B", at)
        image[where.byte()] = spread(codes, element, case.k == 64)
        packed = atoms(factors, first)
        image[scales_at : scales_at + packed.size] = packed
        descriptors.append(where.descriptor + (BASE >> 4))
        dense.append(table(element)[codes] * np.repeat(scale_values(factors, case.scale), case.block, 1))
    idesc = case.bytes[1] << 4 | case.a[1] << 7 | case.b[1] << 10 | N >> 3 << 17 | M >> 4 << 24
    idesc |= (case.scale == "ue8m0") << 23 | case.bytes[0] << 29
    out = np.zeros((COLUMNS, 128), np.float32)
    launch(text(case, idesc, *descriptors), [image, out], block=(128, 1, 1))
    wanted = REPEATS * (dense[1] @ dense[0].T)
    np.testing.assert_allclose(out[:N], wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())


def few_rows(n: int) -> tuple[str, list[np.ndarray]]:
    """Return a program with n rows of B, whose factors (all 1) are in 16 lanes of each quarter, and its arguments."""
    case, one, rng = CASES[0], 127, np.random.default_rng(n)
    image, descriptors = np.full(WINDOW, one, np.uint8), []
    for rows, at in ((M, A_AT), (n, B_AT)):
        where = operand("e4m3", rows, False, "32B", at)
        image[where.byte()] = rng.integers(0, 1 << 6, (rows, case.k), np.uint8)
        descriptors.append(where.descriptor + (BASE >> 4))
    lines = text(case, n >> 3 << 17 | M >> 4 << 24 | 1 << 23, *descriptors).splitlines()
    fill = f"add.s32 %r7, %r6, {SFB};"
    (at,) = (i for i, line in enumerate(lines) if line.startswith(fill))
    lines[at] = (
        f"mov.b32 %r20, {one * 0x01010101:#x}; {fill} tcgen05.st.sync.aligned.16x32bx2.x1.b32 [%r7], 0, {{%r20}};"
    )
    unwanted = (f"add.s32 %r20, %r5, {SFB}", f"add.s32 %r7, %r6, {SFA - 4}; tcgen05.ld")  # their copy, their read
    return "\n".join(line for line in lines if not any(part in line for part in unwanted)), [image, *descriptors]


def test_factors_of_16_rows_need_16_lanes() -> None:
    lines, (image, *_) = few_rows(16)
    out = np.zeros((COLUMNS, 128), np.float32)
    launch(lines, [image, out], block=(128, 1, 1))
    a, b = (table(E4M3)[image[operand("e4m3", rows, False, "32B", at).byte()]] for rows, at in ((M, A_AT), (16, B_AT)))
    np.testing.assert_allclose(out[:16], REPEATS * (b @ a.T), rtol=1e-6)


def test_factors_of_24_rows_need_all_lanes() -> None:
    lines, (image, *_) = few_rows(24)
    with pytest.raises(errors.UnwrittenRead, match=f"columns {SFB} to {SFB}, lanes 16 to "):
        launch(lines, [image, np.zeros((COLUMNS, 128), np.float32)], block=(128, 1, 1))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ((".block16", ".block32", 2 << 29 | 1 << 4), "id 1 of the scale factors of B"),
        ((".block16", ".block16", 1 << 31), "K=96"),
        ((".block16", ".block16", 1 << 16), "not K-major"),
    ],
)
def test_descriptors_that_say_nothing(change: tuple[str, str, int], says: str) -> None:
    case = CASES[4]
    idesc = 1 << 7 | 1 << 10 | N >> 3 << 17 | M >> 4 << 24 | change[2]
    image, out = np.zeros(WINDOW, np.uint8), np.zeros((COLUMNS, 128), np.float32)
    with pytest.raises(errors.DescriptorError, match=says):
        lines = text(case, idesc, 1 << 46, 1 << 46).replace(change[0], change[1])
        launch(lines, [image, out], block=(128, 1, 1))


def test_quarters_must_agree() -> None:
    case = CASES[4]
    idesc = 1 << 7 | 1 << 10 | N >> 3 << 17 | M >> 4 << 24
    lines = text(case, idesc, 64 | 1 << 46, 64 | 1 << 46)
    lines = re.sub(r"@%p1 tcgen05.cp[^;]*;", "", lines)
    store = "add.s32 %r7, %r6, {}; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r7], {{{}}};"
    assert lines.count(store.format(SFB, "%r9")) == 1
    lines = lines.replace(store.format(SFB, "%r9"), store.format(SFB, "%r2"))
    with pytest.raises(errors.TensorMemoryError, match="scale factor of row 0 of B"):
        launch(lines, [np.zeros(WINDOW, np.uint8), np.zeros((COLUMNS, 128), np.float32)], block=(128, 1, 1))


@pytest.mark.parametrize("missing", ["[%r21], ", ".block_scale"])
def test_forms_that_are_no_instruction(missing: str) -> None:
    idesc = 1 << 7 | 1 << 10 | N >> 3 << 17 | M >> 4 << 24
    lines = text(CASES[4], idesc, 64 | 1 << 46, 64 | 1 << 46).replace(missing, "")
    with pytest.raises((errors.UnknownInstruction, errors.PtxSyntaxError)):
        launch(lines, [np.zeros(WINDOW, np.uint8), np.zeros((COLUMNS, 128), np.float32)], block=(128, 1, 1))
