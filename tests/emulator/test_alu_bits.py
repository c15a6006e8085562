"""Logic, shifts and permutations against one-line references over Python integers and bit strings."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.one_instruction import Instructions, over
from tests.emulator.ptx_kernel import results

ONES = 0xFFFF_FFFF
RANDOM = np.random.default_rng(7)
A, B, C = (RANDOM.integers(0, 2**32, 64, np.uint32) for _ in range(3))
COUNTS = np.array([0, 1, 5, 31, 32, 33, 63, 64, 200, 2**31, ONES] * 3, np.uint32)[:32]


def words(values: np.ndarray) -> list[int]:
    return [int(v) for v in values]


@pytest.mark.parametrize("table", range(256))
def test_lop3_is_its_truth_table(table: int) -> None:
    got = over(f"lop3.b32 %r0, %r1, %r2, %r3, {table};", r1=A[:32], r2=B[:32], r3=C[:32])["r0"]
    wanted = [0] * 32
    for i, (a, b, c) in enumerate(zip(words(A[:32]), words(B[:32]), words(C[:32]), strict=True)):
        for bit in range(32):
            index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1)
            wanted[i] |= (table >> index & 1) << bit
    assert words(got) == wanted


def prmt(a: int, b: int, selector: int) -> int:
    data = [*a.to_bytes(4, "little"), *b.to_bytes(4, "little")]
    result = []
    for place in range(4):
        nibble = selector >> 4 * place & 15
        byte = data[nibble & 7]
        result.append((255 if byte & 128 else 0) if nibble & 8 else byte)
    return int.from_bytes(bytes(result), "little")


@pytest.mark.parametrize("selector", [0x3210, 0x5410, 0x7632, 0x3340, 0x7531, 0x8888, 0xBA98, 0x0123, 0x4F2C, 0x7777])
def test_prmt_with_a_literal_selector(selector: int) -> None:
    got = over(f"prmt.b32 %r0, %r1, %r2, {selector};", r1=A, r2=B)["r0"]
    assert words(got) == [prmt(a, b, selector) for a, b in zip(words(A), words(B), strict=True)]


def test_prmt_with_any_selector() -> None:
    got = over("prmt.b32 %r0, %r1, %r2, %r3;", r1=A, r2=B, r3=C)["r0"]
    assert words(got) == [prmt(a, b, c) for a, b, c in zip(words(A), words(B), words(C), strict=True)]


PRMT_MODES = {
    "f4e": lambda d, i: [d[i + k] for k in range(4)],
    "b4e": lambda d, i: [d[(i - k) % 8] for k in range(4)],
    "rc8": lambda d, i: [d[i]] * 4,
    "ecl": lambda d, i: [d[max(i, k)] for k in range(4)],
    "ecr": lambda d, i: [d[min(i, k)] for k in range(4)],
    "rc16": lambda d, i: [d[2 * (i & 1)], d[2 * (i & 1) + 1]] * 2,
}


@pytest.mark.parametrize("mode", PRMT_MODES)
def test_prmt_modes(mode: str) -> None:
    got = over(f"prmt.b32.{mode} %r0, %r1, %r2, %r3;", r1=A, r2=B, r3=C)["r0"]
    for a, b, c, result in zip(words(A), words(B), words(C), words(got), strict=True):
        data = [*a.to_bytes(4, "little"), *b.to_bytes(4, "little")]
        assert list(result.to_bytes(4, "little")) == PRMT_MODES[mode](data, c & 3)


@pytest.mark.parametrize(("bits", "stem"), [(16, "h"), (32, "r"), (64, "q")])
def test_shifts_by_any_count(bits: int, stem: str) -> None:
    a = RANDOM.integers(0, 2**bits, 32, f"u{bits // 8}")
    ops = (f"shl.b{bits}", f"shr.u{bits}", f"shr.s{bits}")
    text = "".join(f"{op} %{stem}{i}, %{stem}5, %r9;" for i, op in enumerate(ops))
    got = Instructions(text)(**{f"{stem}5": a, "r9": COUNTS})
    for i, (value, n) in enumerate(zip(words(a), words(COUNTS), strict=True)):
        n = min(n, bits)
        negative = value >> (bits - 1)
        assert got[f"{stem}0"][i] == (value << n) % (1 << bits)
        assert got[f"{stem}1"][i] == value >> n
        assert got[f"{stem}2"][i] == ((value - (negative << bits)) >> n) % (1 << bits)


@pytest.mark.parametrize("mode", ["wrap", "clamp"])
@pytest.mark.parametrize("direction", ["l", "r"])
def test_funnel_shift(direction: str, mode: str) -> None:
    got = Instructions(f"shf.{direction}.{mode}.b32 %r0, %r1, %r2, %r3;")(r1=A[:32], r2=B[:32], r3=COUNTS)["r0"]
    for low, high, n, result in zip(words(A[:32]), words(B[:32]), words(COUNTS), words(got), strict=True):
        n = n % 32 if mode == "wrap" else min(n, 32)
        both = high << 32 | low
        assert result == ((both << n >> 32) & ONES if direction == "l" else (both >> n) & ONES)


def test_counts_of_bits() -> None:
    ops = ("popc.b32", "clz.b32", "brev.b32", "bfind.u32", "bfind.s32", "bfind.shiftamt.u32")
    text = "".join(f"{op} %r{i}, %r9;" for i, op in enumerate(ops))
    values = np.array([0, 1, 2, 255, 256, 2**31, ONES, ONES - 1] * 4, np.uint32)
    got = Instructions(text)(r9=values)
    for i, value in enumerate(words(values)):
        text_bits = f"{value:032b}"
        assert got["r0"][i] == text_bits.count("1")
        assert got["r1"][i] == len(text_bits) - len(text_bits.lstrip("0"))
        assert got["r2"][i] == int(text_bits[::-1], 2)
        highest = value.bit_length() - 1
        assert got["r3"][i] == highest % 2**32
        signed_bits = value if value < 2**31 else ~value & ONES
        assert got["r4"][i] == (signed_bits.bit_length() - 1) % 2**32
        assert got["r5"][i] == (31 - highest if value else ONES)


def test_popc_and_clz_of_64_bits() -> None:
    values = np.array([0, 1, 2**40, 2**64 - 1] * 8, np.uint64)
    got = Instructions("popc.b64 %r0, %q9; clz.b64 %r1, %q9;")(q9=values)
    assert words(got["r0"][:4]) == [0, 1, 1, 64]
    assert words(got["r1"][:4]) == [64, 63, 23, 0]


FIELDS = [(0, 0), (0, 8), (4, 4), (31, 1), (24, 16), (32, 4), (7, 32), (255, 255), (0, 32), (31, 255)]


@pytest.mark.parametrize(("position", "length"), FIELDS)
def test_bit_fields(position: int, length: int) -> None:
    text = "bfe.u32 %r0, %r9, %r7, %r8; bfe.s32 %r1, %r9, %r7, %r8; bfi.b32 %r2, %r9, %r6, %r7, %r8;"
    got = Instructions(text)(r9=A[:32], r6=B[:32], r7=position, r8=length)
    for i, (a, b) in enumerate(zip(words(A[:32]), words(B[:32]), strict=True)):
        padded = [a >> k & 1 if k < 32 else 0 for k in range(600)]
        field = [padded[position + k] if k < length else 0 for k in range(32)]
        assert got["r0"][i] == sum(bit << k for k, bit in enumerate(field))
        sign = 0 if length == 0 else a >> min(position + length - 1, 31) & 1
        extended = [a >> position + k & 1 if k < length and position + k < 32 else sign for k in range(32)]
        assert got["r1"][i] == sum(bit << k for k, bit in enumerate(extended))
        inserted = [a >> k - position & 1 if position <= k < position + length else b >> k & 1 for k in range(32)]
        assert got["r2"][i] == sum(bit << k for k, bit in enumerate(inserted))


def test_masks_and_extensions() -> None:
    ops = ("bmsk.clamp.b32 %r0, %r8", "bmsk.wrap.b32 %r1, %r8", "szext.clamp.s32 %r2, %r7", "szext.wrap.u32 %r3, %r7")
    text = "".join(f"{op}, %r9;" for op in ops)
    lengths = np.array([0, 1, 8, 31, 32, 33, 40, 4] * 4, np.uint32)
    got = Instructions(text)(r7=A[:32], r8=4, r9=lengths)
    for i, (a, n) in enumerate(zip(words(A[:32]), words(lengths), strict=True)):
        assert got["r0"][i] == ((1 << min(n, 32)) - 1 << 4) & ONES
        assert got["r1"][i] == ((1 << n % 32) - 1 << 4) & ONES
        clamped = min(n, 32)
        low = a & (1 << clamped) - 1
        sign = clamped > 0 and low >> clamped - 1
        assert got["r2"][i] == (low - (sign << clamped)) % 2**32
        assert got["r3"][i] == a & (1 << n % 32) - 1


@pytest.mark.parametrize("types", [("u32", "u32"), ("s32", "s32"), ("u32", "s32"), ("s32", "u32")])
def test_dp4a(types: tuple[str, str]) -> None:
    got = over(f"dp4a.{types[0]}.{types[1]} %r0, %r1, %r2, %r3;", r1=A, r2=B, r3=C)["r0"]

    def bytes_of(word: int, type_name: str) -> list[int]:
        return np.array([word], "<u4").view("i1" if type_name == "s32" else "u1").astype(int).tolist()

    for a, b, c, result in zip(words(A), words(B), words(C), words(got), strict=True):
        dot = sum(x * y for x, y in zip(bytes_of(a, types[0]), bytes_of(b, types[1]), strict=True))
        assert result == (c + dot) % 2**32


def test_logic_of_all_widths() -> None:
    for bits, stem in ((16, "h"), (32, "r"), (64, "q")):
        a, b = (RANDOM.integers(0, 2**bits, 32, f"u{bits // 8}") for _ in range(2))
        text = "".join(f"{op}.b{bits} %{stem}{i}, %{stem}8, %{stem}9;" for i, op in enumerate(("and", "or", "xor")))
        got = Instructions(text + f"not.b{bits} %{stem}3, %{stem}8; cnot.b{bits} %{stem}4, %{stem}8;")(
            **{f"{stem}8": a, f"{stem}9": b}
        )
        for i, wanted in enumerate((a & b, a | b, a ^ b, ~a, (a == 0).astype(a.dtype))):
            np.testing.assert_array_equal(got[f"{stem}{i}"], wanted)


def test_logic_of_predicates() -> None:
    p, q = np.array([True, False] * 16), np.array([True, True, False, False] * 8)
    got = Instructions("and.pred %p0, %p8, %p9; or.pred %p1, %p8, %p9; xor.pred %p2, %p8, %p9; not.pred %p3, %p8;")(
        p8=p, p9=q
    )
    for i, wanted in enumerate((p & q, p | q, p ^ q, ~p)):
        np.testing.assert_array_equal(got[f"p{i}"], wanted)


def test_two_bytes_make_a_half_word() -> None:
    (packed,) = results(
        ".reg .b8 %c<4>; cvt.u8.u32 %c0, %t; mov.b16 %h1, {%c0, 7}; mov.b16 {%c1, %c2}, %h1; "
        "mov.b16 %h2, {%c2, %c1}; mov.b32 %r0, {%h1, %h2};"
    )
    assert packed.tolist() == [t | 7 << 8 | 7 << 16 | t << 24 for t in range(32)]
