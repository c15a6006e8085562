"""tcgen05.mma in all its forms, on integers that every type represents: tensor memory before and after, by numpy."""

from __future__ import annotations

from itertools import chain, cycle, islice, repeat
from typing import Any

import numpy as np
import pytest
from canonical import Operand
from tensor_program import BASE, WINDOW, after
from test_tcgen05_mma import KINDS, PTX_KIND, operand

from emulator import errors
from tests.tiers import tier

B_AT = 48 * 1024
A_COLUMN = 96
"""The first column of A, if A is in tensor memory."""
COLUMNS = 128
RNG = np.random.default_rng(11)
FLOATS = ("bf16", "f16", "tf32", "e4m3", "e5m2")


def numbers(rows: int, kind: str, low: int = -4) -> np.ndarray:
    """Draw [rows, K of an instruction] integers."""
    return RNG.integers(0 if kind == "u8" else low, 5, (rows, KINDS[kind][1]))


def put(image: np.ndarray, where: Operand, values: np.ndarray, kind: str) -> int:
    """Store an operand in an image of shared memory and return its descriptor."""
    bits = where.bits
    image.view(f"u{bits // 8}")[where.byte() // (bits // 8)] = KINDS[kind][3](values)
    return where.descriptor + (BASE >> 4)


def packed(values: np.ndarray, kind: str) -> np.ndarray:
    """Pack A [M, K] into words of tensor memory: uint32[K bytes / 4, M]."""
    return np.ascontiguousarray(KINDS[kind][3](values)).view(np.uint32).T


def descriptor(kind: str, m: int, n: int, **bits: int) -> int:
    """Return the instruction descriptor for equal types of A and B and 32-bit results."""
    code, result = KINDS[kind][2], 2 if kind in ("s8", "u8") else 1
    at = {"d": 4, "negate_a": 13, "negate_b": 14, "a_major": 15, "b_major": 16}
    extra = sum(value << at[name] for name, value in bits.items())
    return (result << 4 if "d" not in bits else 0) | code << 7 | code << 10 | n >> 3 << 17 | m >> 4 << 24 | extra


def setup(*words: tuple[str, int]) -> str:
    """Return code that loads constants into registers."""
    return "".join(f"mov.b{64 if r.startswith('%rd') else 32} {r}, {v:#x};\n" for r, v in words)


def issue(kind: str, d: int, a: int | str, b: int, idesc: int, form: str = "cta_group::1", rest: str = ", %p5") -> str:
    """Return one tcgen05.mma. a: a descriptor, or the tensor memory address as text."""
    in_tmem = isinstance(a, str)
    words = setup(("%r20", d), ("%r21", int(a, 0)) if isinstance(a, str) else ("%rd10", a), ("%rd11", b))
    name = form.replace("KIND", f"kind::{PTX_KIND[kind]}") if "KIND" in form else f"{form}.kind::{PTX_KIND[kind]}"
    operands = f"[%r20], {'[%r21]' if in_tmem else '%rd10'}, %rd11, %r22"
    return words + setup(("%r22", idesc)) + f"@%p1 tcgen05.mma.{name} {operands}{rest};\n"


def initial(ctas: int = 1, dtype: Any = np.float32) -> np.ndarray:
    """Draw integers for all of tensor memory: [CTAs, columns, lanes]."""
    return RNG.integers(-9, 9, (ctas, COLUMNS, 128)).astype(dtype)


def lanes_of(m: int, low: int = 0) -> np.ndarray:
    """Return the lane of each row: PTX ISA 9.7.16.10.5, layouts D and F."""
    rows = np.arange(m)
    return rows if m == 128 else rows % 16 + 32 * (rows // 16) + low


def result_type(kind: str) -> Any:
    return np.int32 if kind in ("s8", "u8") else np.float32


@pytest.mark.parametrize(("m", "low"), [(128, 0), (64, 0), (64, 16)])
@pytest.mark.parametrize("kind", [*FLOATS, "s8", "u8"])
def test_a_from_tensor_memory(kind: str, m: int, low: int) -> None:
    """Row r of A is in the lane of row r of D, with its elements contiguous in the columns."""
    n = 32
    a, b = numbers(m, kind), numbers(n, kind)
    image = np.zeros((1, WINDOW), np.uint8)
    b_at = put(image[0], operand(kind, n, False, "128B", B_AT), b, kind)
    state = initial(dtype=result_type(kind))
    words, lanes = packed(a, kind), lanes_of(m, low)
    state.view(np.uint32)[0, A_COLUMN : A_COLUMN + len(words), lanes] = words.T
    expected = state.copy()
    expected[0, :n, lanes] += (a @ b.T).astype(state.dtype)
    act = issue(kind, low << 16, f"{low << 16 | A_COLUMN:#x}", b_at, descriptor(kind, m, n))
    np.testing.assert_array_equal(after(act, image, state), expected)


@pytest.mark.parametrize("a_in_tmem", [False, True], ids=["shared", "tensor"])
@pytest.mark.parametrize(
    ("kind", "m", "n"),
    [
        pytest.param(kind, m, n, marks=tier((m, n) == (32, 64) or (kind, m) == ("bf16", 128), True))
        for kind in ("bf16", "tf32", "e4m3", "s8")
        for m, n in ((32, 64), (32, 256), (64, 128), (64, 64), (128, 64), (32, 128))
    ],
)
def test_weight_stationary(kind: str, m: int, n: int, a_in_tmem: bool) -> None:
    """Layouts D, E and G: N is split over the lanes in 128 / M parts, each with its own copy of A."""
    parts = 128 // m
    a, b = numbers(m, kind), numbers(n, kind)
    image, state = np.zeros((1, WINDOW), np.uint8), initial(dtype=result_type(kind))
    b_at = put(image[0], operand(kind, n, False, "64B", B_AT), b, kind)
    a_at: int | str = put(
        image[0], operand(kind, max(m, 64), False, "128B", 0), np.resize(a, (max(m, 64), a.shape[1])), kind
    )
    if a_in_tmem:
        words = packed(a, kind)
        state.view(np.uint32)[0, A_COLUMN : A_COLUMN + len(words)] = np.tile(words, parts)
        a_at = f"{A_COLUMN:#x}"
    expected, product = state.copy(), a @ b.T
    for part in range(parts):
        columns = slice(part * n // parts, (part + 1) * n // parts)
        expected[0, : n // parts, part * m : (part + 1) * m] += product[:, columns].T.astype(state.dtype)
    for collector in ("", ".collector::b0::fill", ".collector::b3::discard") if kind == "bf16" else ("",):
        form = f"ws.cta_group::1.KIND{collector}"
        got = after(issue(kind, 0, a_at, b_at, descriptor(kind, m, n), form), image, state)
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("numerics", ["fp32", "tc"])
@pytest.mark.parametrize(("m", "n"), [(32, 64), (64, 128)])
@pytest.mark.parametrize("kind", ["bf16", "s8"])
def test_each_part_of_the_lanes_multiplies_its_own_a(kind: str, m: int, n: int, numerics: str) -> None:
    parts = 128 // m
    a, b = [numbers(m, kind) for _ in range(parts)], numbers(n, kind)
    image, state = np.zeros((1, WINDOW), np.uint8), initial(dtype=result_type(kind))
    b_at = put(image[0], operand(kind, n, False, "64B", B_AT), b, kind)
    words = np.concatenate([packed(part, kind) for part in a], 1)
    state.view(np.uint32)[0, A_COLUMN : A_COLUMN + len(words)] = words
    expected = state.copy()
    for part in range(parts):
        product = a[part] @ b[part * n // parts : (part + 1) * n // parts].T
        expected[0, : n // parts, part * m : (part + 1) * m] += product.T.astype(state.dtype)
    act = issue(kind, 0, f"{A_COLUMN:#x}", b_at, descriptor(kind, m, n), "ws.cta_group::1")
    np.testing.assert_array_equal(after(act, image, state, numerics=numerics), expected)


def test_lanes_beyond_the_last_are_ignored() -> None:
    image, a, b, a_at, b_at = in_shared("bf16", 128, 32)
    state = initial()
    act = issue("bf16", 0x80 << 16, a_at, b_at, descriptor("bf16", 128, 32))
    expected = state.copy()
    expected[0, :32] += (a @ b.T).T
    np.testing.assert_array_equal(after(act, image, state), expected)
    with pytest.raises(errors.OutOfBounds, match=r"names lane 128 of tensor memory, which has 128"):
        after(act, image, state, level=errors.Level.PEDANTIC)


# zero-column masks ---------------------------------------------------------------------------------------------------


def runs(first: int, skip: int, use: int, drop: int) -> Any:
    """Return a sub-mask's bits, lowest column first: alternating runs of ones and zeros, without `drop` bits."""
    pair = [(1, skip + 1), (0, use + 1)]
    bits = chain.from_iterable(repeat(bit, count) for bit, count in cycle(pair if first else pair[::-1]))
    return islice(bits, drop, None)


def mask_descriptor(starts: list[int], firsts: list[int], skip: int, use: int, shift: int, generate: int = 1) -> int:
    counts = sum(c << 8 * i for i, c in enumerate(starts)) | sum(f << 32 + i for i, f in enumerate(firsts))
    return counts | generate << 39 | skip << 40 | use << 48 | shift << 56


def test_the_statement_of_masks_gives_the_examples_of_the_ptx_isa() -> None:
    examples = [((0, 2, 3, 0), "0000111" * 2), ((1, 2, 3, 0), "1110000" * 2), ((1, 2, 3, 1), "110000111"),
                ((0, 2, 3, 2), "001110000111"), ((0, 2, 3, 1), "0001110000111")]  # fmt: skip
    for (first, skip, use, drop), bits in examples:
        assert "".join(str(b) for b in islice(runs(first, skip, use, drop), len(bits))) == bits


MASKS = [
    (128, 64, [0], [0], 2, 3, 0, 1),
    (128, 64, [3], [1], 0, 5, 7, 1),
    (64, 128, [0, 0], [1, 0], 2, 3, 32, 1),
    (32, 128, [0, 1, 2, 1], [1, 1, 0, 0], 2, 3, 2, 1),
    (32, 64, [0, 1, 2, 1], [1, 1, 0, 0], 2, 3, 5, 0),
]


@pytest.mark.parametrize(("m", "n", "starts", "firsts", "skip", "use", "shift", "generate"), MASKS)
def test_zero_columns(
    m: int, n: int, starts: list[int], firsts: list[int], skip: int, use: int, shift: int, generate: int
) -> None:
    kind, parts = "bf16", 128 // m
    a, b = numbers(m, kind), numbers(n + 32, kind)
    image, state = np.zeros((1, WINDOW), np.uint8), initial()
    b_at = put(image[0], operand(kind, n + 32, False, "128B", B_AT), b, kind)
    a_at = put(image[0], operand(kind, 128, False, "128B", 0), np.resize(a, (128, a.shape[1])), kind)
    used = b[shift : shift + n].copy()
    if generate:
        spans = [runs(f, skip, use, s) for f, s in zip(firsts, starts, strict=True)]
        bits = chain.from_iterable(islice(span, n // parts) for span in spans)
        used[np.array(list(bits), bool)] = 0
    expected, product = state.copy(), a @ used.T
    for part in range(parts):
        columns = slice(part * n // parts, (part + 1) * n // parts)
        expected[0, : n // parts, part * m : (part + 1) * m] += product[:, columns].T
    mask = mask_descriptor(starts, firsts, skip, use, shift, generate)
    for zeros, operand_text in ((setup(("%rd12", mask)), "%rd12"), ("", f"{mask:#x}")):
        act = zeros + issue(kind, 0, a_at, b_at, descriptor(kind, m, n), "ws.cta_group::1", f", %p5, {operand_text}")
        np.testing.assert_array_equal(after(act, image, state), expected)


def test_a_column_shift_that_is_too_large() -> None:
    act = setup(("%rd12", 17 << 56)) + issue(
        "bf16", 0, 64 | 1 << 46, 64 | 1 << 46, descriptor("bf16", 32, 64), "ws.cta_group::1", ", %p5, %rd12"
    )
    with pytest.raises(errors.DescriptorError, match=r"column shift 17 .*; M=32 allows 16"):
        after(act, np.zeros((1, WINDOW), np.uint8), initial())


# signs, scales, lanes, transposes ------------------------------------------------------------------------------------


def in_shared(kind: str, m: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, int]:
    """Return (image, A, B, their descriptors), K-major."""
    a, b, image = numbers(m, kind), numbers(n, kind), np.zeros((1, WINDOW), np.uint8)
    placed = operand(kind, m, False, "128B", 0), operand(kind, n, False, "128B", B_AT)
    return image, a, b, put(image[0], placed[0], a, kind), put(image[0], placed[1], b, kind)


@pytest.mark.parametrize(("negate_a", "negate_b"), [(0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("kind", FLOATS)
def test_negated_operands(kind: str, negate_a: int, negate_b: int) -> None:
    image, a, b, a_at, b_at = in_shared(kind, 128, 32)
    state = initial()
    expected = state.copy()
    expected[0, :32] += (-1) ** (negate_a + negate_b) * (b @ a.T)
    idesc = descriptor(kind, 128, 32, negate_a=negate_a, negate_b=negate_b)
    np.testing.assert_array_equal(after(issue(kind, 0, a_at, b_at, idesc), image, state), expected)


def test_integers_are_not_negated() -> None:
    act = issue("s8", 0, 64 | 1 << 46, 64 | 1 << 46, descriptor("s8", 128, 32, negate_a=1))
    with pytest.raises(errors.DescriptorError, match="negates integers"):
        after(act, np.zeros((1, WINDOW), np.uint8), initial())


@pytest.mark.parametrize("scale", [0, 1, 7, 15])
@pytest.mark.parametrize("kind", ["bf16", "f16", "tf32"])
def test_scaled_accumulators(kind: str, scale: int) -> None:
    """D = A B + D / 2^scale, also for the second MMA."""
    image, a, b, a_at, b_at = in_shared(kind, 128, 32)
    state = 2.0**15 * initial()
    expected = state.copy()
    for _ in range(2):
        expected[0, :32] = expected[0, :32] / 2**scale + b @ a.T
    act = issue(kind, 0, a_at, b_at, descriptor(kind, 128, 32), rest=f", %p5, {scale}")
    np.testing.assert_array_equal(after(2 * act, image, state), expected)


@pytest.mark.parametrize(
    ("kind", "m", "form", "rest", "says"),
    [
        ("e4m3", 128, "cta_group::1", ", %p5, 1", "scale-input-d 1; f16 and tf32"),
        ("bf16", 128, "cta_group::1", ", %p5, 16", "scale-input-d 16"),
        ("bf16", 128, "cta_group::1", ", {%r22, %r22}, %p5", "2 words of disabled lanes; allowed is 4"),
        ("bf16", 64, "ws.cta_group::1", ", {%r22, %r22, %r22, %r22}, %p5", "disabled lanes"),
        ("bf16", 64, "ws.cta_group::1.KIND.collector::a::fill", ", %p5", "collector::a::fill"),
        ("bf16", 128, "cta_group::1.KIND.collector::b0::fill", ", %p5", "collector::b0::fill"),
        ("bf16", 128, "cta_group::1.KIND.ashift", ", %p5", "A in shared memory"),
    ],
)
def test_what_is_refused(kind: str, m: int, form: str, rest: str, says: str) -> None:
    act = issue(kind, 0, 64 | 1 << 46, 64 | 1 << 46, descriptor(kind, m, 64), form, rest)
    with pytest.raises(errors.UnknownInstruction, match=says):
        after(act, np.zeros((1, WINDOW), np.uint8), initial())


@pytest.mark.parametrize(
    ("d", "a", "says"),
    [(16 << 16, "0x40", "accumulator at lane 16"), (0, hex(16 << 16 | 64), "operand A at lane 16")],
)
def test_lanes_that_no_layout_has(d: int, a: str, says: str) -> None:
    with pytest.raises(errors.DescriptorError, match=says):
        after(
            issue("bf16", d, a, 64 | 1 << 46, descriptor("bf16", 128, 32)), np.zeros((1, WINDOW), np.uint8), initial()
        )


@pytest.mark.parametrize(("m", "low"), [(128, 0), (64, 16)])
def test_disabled_lanes(m: int, low: int) -> None:
    image, a, b, a_at, b_at = in_shared("bf16", m, 32)
    state, off = initial(), RNG.integers(0, 1 << 32, 4, np.uint32)
    expected, lanes = state.copy(), lanes_of(m, low)
    keeps = np.unpackbits(off.view(np.uint8), bitorder="little").astype(bool)[lanes]
    expected[0, :32, lanes[~keeps]] = (a @ b.T)[~keeps]
    words = setup(*((f"%r{30 + i}", int(word)) for i, word in enumerate(off)))
    act = issue("bf16", low << 16, a_at, b_at, descriptor("bf16", m, 32), rest=", {%r30, %r31, %r32, %r33}, %p6")
    np.testing.assert_array_equal(after(words + act, image, state), expected)


@pytest.mark.parametrize("m", [128, 256])
def test_disabled_lanes_of_a_pair(m: int) -> None:
    """The first four words are for the even CTA, the others for the odd CTA."""
    n, rows = 64, m // 2
    a, b = numbers(m, "bf16"), numbers(n, "bf16")
    image, state = np.zeros((2, WINDOW), np.uint8), initial(2)
    for cta in range(2):
        a_at = put(image[cta], operand("bf16", rows, False, "128B", 0), a[cta * rows :][:rows], "bf16")
        b_at = put(image[cta], operand("bf16", n // 2, False, "128B", B_AT), b[cta * n // 2 :][: n // 2], "bf16")
    product = (a @ b.T).reshape(2, rows, n)
    if rows == 64:  # layout B: the halves of N side by side in the lanes
        product = np.concatenate([product[..., : n // 2], product[..., n // 2 :]], 1)
    off = RNG.integers(0, 1 << 32, 8, np.uint32)
    keeps = np.unpackbits(off.view(np.uint8), bitorder="little").astype(bool).reshape(2, 1, 128)
    new = product.transpose(0, 2, 1)
    expected = state.copy()
    expected[:, : new.shape[1]] = np.where(keeps, state[:, : new.shape[1]], new)
    words = setup(*((f"%r{30 + i}", int(word)) for i, word in enumerate(off)))
    vector = "{" + ", ".join(f"%r{30 + i}" for i in range(8)) + "}"
    act = issue("bf16", 0, a_at, b_at, descriptor("bf16", m, n), "cta_group::2", f", {vector}, %p6")
    np.testing.assert_array_equal(after(words + act, image, state), expected)


@pytest.mark.parametrize(("a_major", "b_major"), [(1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("kind", [*FLOATS, "s8", "u8"])
def test_transposed_operands(kind: str, a_major: int, b_major: int) -> None:
    m, n, size = 128, 64, KINDS[kind][0] // 8
    swizzle = "128B of 32B" if size == 4 else "128B"
    a, b, image = numbers(m, kind), numbers(n, kind), np.zeros((1, WINDOW), np.uint8)
    at = []
    for rows, values, start, major in ((m, a, 0, a_major), (n, b, B_AT, b_major)):
        where = operand(kind, rows, False, "128B", start)
        if major:
            groups = KINDS[kind][1] // (4 if size == 4 else 8)
            inner = 128 * (4 if size == 4 else 8)
            where = Operand(8 * size, rows, KINDS[kind][1], True, swizzle, start, inner * groups, inner)
        at.append(put(image[0], where, values, kind))
    state = initial(dtype=result_type(kind))
    expected = state.copy()
    expected[0, :n] += (b @ a.T).astype(state.dtype)
    idesc = descriptor(kind, m, n, a_major=a_major, b_major=b_major)
    np.testing.assert_array_equal(after(issue(kind, 0, at[0], at[1], idesc), image, state), expected)


def test_a_transposed_b_of_8_bits_takes_n_in_steps_of_16() -> None:
    act = issue("e4m3", 0, 64 | 1 << 46, 64 | 1 << 46, descriptor("e4m3", 128, 24, b_major=1))
    with pytest.raises(errors.DescriptorError, match="N=24 for a transposed B of 8 bits"):
        after(act, np.zeros((1, WINDOW), np.uint8), initial())


@pytest.mark.parametrize("m", [64, 128])
def test_results_of_16_bits(m: int) -> None:
    """Each result is in the low half of its cell, and the accumulator is rounded once."""
    image, a, b, a_at, b_at = in_shared("f16", m, 32)
    lanes, state = lanes_of(m), initial(dtype=np.float16).astype(np.float32)
    cells = np.ascontiguousarray(state.astype(np.float16)).view(np.uint16).astype(np.uint32)
    act = issue("f16", 0, a_at, b_at, descriptor("f16", m, 32, d=0))
    got = after(act, image, cells)[0, :32, lanes]
    wanted = (state[0, :32, lanes] + a @ b.T).astype(np.float16).view(np.uint16)
    np.testing.assert_array_equal(got, wanted)
