"""Integer arithmetic against Python's unbounded integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.errors import UnknownInstruction
from tests.emulator.one_instruction import Instructions

STEM = {16: "h", 32: "r", 64: "q"}
FEW = settings(max_examples=20)


def rows(bits: int) -> st.SearchStrategy[np.ndarray]:
    """Return values of 32 lanes, half of them at the edges of the range. Two draws are fast, 32 are slow."""
    top, dtype = 1 << bits, f"u{bits // 8}"
    edges = np.array([0, 1, 2, 3, top - 1, top - 2, top // 2, top // 2 - 1, top // 2 + 1], dtype)

    def mixed(drawn: tuple[bytes, bytes]) -> np.ndarray:
        values, chosen = np.frombuffer(drawn[0], dtype), np.frombuffer(drawn[1], np.uint8)
        return np.where(chosen < 128, edges[chosen % len(edges)], values)

    size = 32 * bits // 8
    return st.tuples(st.binary(min_size=size, max_size=size), st.binary(min_size=32, max_size=32)).map(mixed)


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def number(value: int, type_name: str) -> int:
    """Interpret a register's bits as a number of the type."""
    return signed(int(value), int(type_name[1:])) if type_name[0] == "s" else int(value)


def clamp(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


BINARY = {
    "add": lambda a, b, t: a + b,
    "sub": lambda a, b, t: a - b,
    "mul.lo": lambda a, b, t: a * b,
    "mul.hi": lambda a, b, t: a * b >> int(t[1:]),
    "min": lambda a, b, t: min(a, b),
    "max": lambda a, b, t: max(a, b),
}


@pytest.mark.parametrize("type_name", ["u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("op", BINARY)
def test_binary(op: str, type_name: str) -> None:
    bits = int(type_name[1:])
    stem = STEM[bits]
    program = Instructions(f"{op}.{type_name} %{stem}0, %{stem}1, %{stem}2;")

    @FEW
    @given(rows(bits), rows(bits))
    def check(a: np.ndarray, b: np.ndarray) -> None:
        got = program(**{f"{stem}1": a, f"{stem}2": b})[f"{stem}0"]
        wanted = [
            BINARY[op](number(x, type_name), number(y, type_name), type_name) % (1 << bits)
            for x, y in zip(a, b, strict=True)
        ]
        assert got.tolist() == wanted

    check()


@pytest.mark.parametrize("type_name", ["u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("op", ["div", "rem"])
def test_division_truncates_toward_zero(op: str, type_name: str) -> None:
    bits = int(type_name[1:])
    stem = STEM[bits]
    program = Instructions(f"{op}.{type_name} %{stem}0, %{stem}1, %{stem}2;")

    def wanted(a: int, b: int) -> int:
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if op == "div" else a - quotient * b

    @FEW
    @given(rows(bits), rows(bits).map(lambda b: np.where(b == 0, b + b.dtype.type(7), b)))
    def check(a: np.ndarray, b: np.ndarray) -> None:
        got = program(**{f"{stem}1": a, f"{stem}2": b})[f"{stem}0"]
        expected = [wanted(number(x, type_name), number(y, type_name)) % (1 << bits) for x, y in zip(a, b, strict=True)]
        assert got.tolist() == expected

    check()


@pytest.mark.parametrize("bits", [32, 64])
def test_division_by_zero_neither_traps_nor_depends_on_other_lanes(bits: int) -> None:
    stem = STEM[bits]
    divisors = np.array([0, 3] * 16, f"u{bits // 8}")
    got = Instructions(f"div.u{bits} %{stem}0, %{stem}1, %{stem}2;")(**{f"{stem}1": 10, f"{stem}2": divisors})[
        stem + "0"
    ]
    assert got.tolist() == [(1 << bits) - 1, 3] * 16


@pytest.mark.parametrize(("type_name", "wide"), [("u16", "r"), ("s16", "r"), ("u32", "q"), ("s32", "q")])
def test_wide_product_and_sum(type_name: str, wide: str) -> None:
    bits = int(type_name[1:])
    stem = STEM[bits]
    program = Instructions(
        f"mul.wide.{type_name} %{wide}3, %{stem}1, %{stem}2;"
        f"mad.wide.{type_name} %{wide}4, %{stem}1, %{stem}2, %{wide}5;"
    )

    @FEW
    @given(rows(bits), rows(bits), rows(2 * bits))
    def check(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        got = program(**{f"{stem}1": a, f"{stem}2": b, f"{wide}5": c})
        products = [number(x, type_name) * number(y, type_name) for x, y in zip(a, b, strict=True)]
        limit = 1 << 2 * bits
        assert got[f"{wide}3"].tolist() == [p % limit for p in products]
        assert got[f"{wide}4"].tolist() == [(p + int(z)) % limit for p, z in zip(products, c, strict=True)]

    check()


@pytest.mark.parametrize("op", ["lo", "hi"])
@pytest.mark.parametrize("type_name", ["u32", "s32", "s64", "u64"])
def test_mad(op: str, type_name: str) -> None:
    bits = int(type_name[1:])
    stem = STEM[bits]
    program = Instructions(f"mad.{op}.{type_name} %{stem}0, %{stem}1, %{stem}2, %{stem}3;")

    @FEW
    @given(rows(bits), rows(bits), rows(bits))
    def check(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        got = program(**{f"{stem}1": a, f"{stem}2": b, f"{stem}3": c})[f"{stem}0"]
        for x, y, z, result in zip(a, b, c, got, strict=True):
            product = number(x, type_name) * number(y, type_name)
            part = product if op == "lo" else product >> bits
            assert int(result) == (part + int(z)) % (1 << bits)

    check()


@pytest.mark.parametrize("op", ["add", "sub"])
def test_saturating_sum_stays_in_range(op: str) -> None:
    program = Instructions(f"{op}.sat.s32 %r0, %r1, %r2;")

    @FEW
    @given(rows(32), rows(32))
    def check(a: np.ndarray, b: np.ndarray) -> None:
        got = program(r1=a, r2=b)["r0"]
        for x, y, result in zip(a, b, got, strict=True):
            exact = signed(int(x), 32) + (1 if op == "add" else -1) * signed(int(y), 32)
            assert signed(int(result), 32) == clamp(exact, -(2**31), 2**31 - 1)

    check()


def test_abs_neg_sad() -> None:
    program = Instructions(
        "abs.s32 %r0, %r3; neg.s32 %r1, %r3; sad.s32 %r2, %r3, %r4, %r5; sad.u32 %r6, %r3, %r4, %r5;"
    )

    @FEW
    @given(rows(32), rows(32), rows(32))
    def check(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        got = program(r3=a, r4=b, r5=c)
        for i, (x, y, z) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
            assert got["r0"][i] == abs(signed(x, 32)) % 2**32
            assert got["r1"][i] == -x % 2**32
            assert got["r2"][i] == (z + abs(signed(x, 32) - signed(y, 32))) % 2**32
            assert got["r6"][i] == (z + abs(x - y)) % 2**32

    check()


def test_min_relu_is_never_negative() -> None:
    got = Instructions("min.relu.s32 %r0, %r1, %r2;")(r1=np.array([5, 2**32 - 4] * 16, np.uint32), r2=7)["r0"]
    assert got.tolist() == [5, 0] * 16


@pytest.mark.parametrize(("op", "wanted"), [("max.relu", 0x0005_0000), ("max", 0x0005_FFFE), ("min.relu", 0)])
def test_relu_of_packed_halves(op: str, wanted: int) -> None:
    got = Instructions(f"{op}.s16x2 %r0, %r1, %r2;")(r1=0x0005_FFFE, r2=0xFFFF_FFF0)["r0"]
    assert hex(got[0]) == hex(wanted)


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("kind", ["u32", "u16x2", "f32", "f16x2", "bf16x2"])
def test_relu_of_other_types_is_refused(kind: str, op: str) -> None:
    with pytest.raises(UnknownInstruction, match=rf"\.relu of {kind}"):
        Instructions(f"{op}.relu.{kind} %r0, %r1, %r2;")


def test_packed_halves_do_not_carry_into_each_other() -> None:
    got = Instructions("add.u16x2 %r0, %r1, %r2; max.s16x2 %r3, %r1, %r2;")(r1=0x0001FFFF, r2=0x00010001)
    assert hex(got["r0"][0]) == "0x20000"
    assert hex(got["r3"][0]) == "0x10001"


CHAINS = {
    "sums": ("add.cc.{t} %{s}1, %{s}2, %{s}3; addc.cc.{t} %{s}4, %{s}5, %{s}6; addc.{t} %{s}7, %{s}8, %{s}9;", 1),
    "differences": (
        "sub.cc.{t} %{s}1, %{s}2, %{s}3; subc.cc.{t} %{s}4, %{s}5, %{s}6; subc.{t} %{s}7, %{s}8, %{s}9;",
        -1,
    ),
}


@pytest.mark.parametrize("type_name", ["u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("chain", CHAINS)
def test_carries_make_numbers_of_three_words(chain: str, type_name: str) -> None:
    bits = int(type_name[1:])
    stem = STEM[bits]
    text, sign = CHAINS[chain]
    program = Instructions(text.format(t=type_name, s=stem))

    @FEW
    @given(st.tuples(*[rows(bits)] * 6))
    def check(words: tuple[np.ndarray, ...]) -> None:
        got = program(**{f"{stem}{i}": w for i, w in zip((2, 3, 5, 6, 8, 9), words, strict=True)})
        for lane in range(32):
            a, b = (sum(int(w[lane]) << bits * i for i, w in enumerate(words[first::2])) for first in (0, 1))
            result = sum(int(got[f"{stem}{r}"][lane]) << bits * i for i, r in enumerate((1, 4, 7)))
            assert result == (a + sign * b) % (1 << 3 * bits)

    check()


@pytest.mark.parametrize("bits", [32, 64])
def test_carries_make_products_of_two_words(bits: int) -> None:
    s, t = STEM[bits], f"u{bits}"
    program = Instructions(
        f"mad.lo.cc.{t} %{s}1, %{s}2, %{s}3, %{s}4; madc.hi.cc.{t} %{s}5, %{s}2, %{s}3, %{s}6; addc.{t} %{s}7, 0, 0;"
    )

    @FEW
    @given(st.tuples(*[rows(bits)] * 4))
    def check(words: tuple[np.ndarray, ...]) -> None:
        got = program(**{f"{s}{i}": w for i, w in zip((2, 3, 4, 6), words, strict=True)})
        for lane, (a, b, low, high) in enumerate(zip(*(w.tolist() for w in words), strict=True)):
            result = sum(int(got[f"{s}{r}"][lane]) << bits * i for i, r in enumerate((1, 5, 7)))
            assert result == a * b + low + (high << bits)

    check()


def test_a_carry_outlives_blocks_and_other_lanes_keep_theirs() -> None:
    first = Instructions(
        "setp.lt.u32 %p0, %r9, 16; @%p0 add.cc.u32 %r0, %r1, -1; @!%p0 add.cc.u32 %r0, 0, 0; addc.u32 %r2, 0, 0;"
    )
    got = first(r1=1, r9=np.arange(32, dtype=np.uint32))
    assert got["r2"].tolist() == [1] * 16 + [0] * 16


@pytest.mark.parametrize("type_name", ["u32", "s32"])
@pytest.mark.parametrize("part", ["lo", "hi"])
def test_products_of_24_bits(part: str, type_name: str) -> None:
    program = Instructions(f"mul24.{part}.{type_name} %r0, %r1, %r2; mad24.{part}.{type_name} %r3, %r1, %r2, %r4;")

    @FEW
    @given(rows(32), rows(32), rows(32))
    def check(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        got = program(r1=a, r2=b, r4=c)
        for lane, (x, y, z) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
            x, y = (v % 2**24 if type_name == "u32" else signed(v % 2**24, 24) for v in (x, y))
            product = x * y >> 16 if part == "hi" else x * y
            assert got["r0"][lane] == product % 2**32
            assert got["r3"][lane] == (product + z) % 2**32

    check()


def test_high_products_saturate() -> None:
    program = Instructions("mad.hi.sat.s32 %r0, %r1, %r2, %r3; mad24.hi.sat.s32 %r4, %r1, %r2, %r3;")

    @FEW
    @given(rows(32), rows(32), rows(32))
    def check(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        got = program(r1=a, r2=b, r3=c)
        for lane, (x, y, z) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
            whole = signed(x, 32) * signed(y, 32) >> 32
            narrow = signed(x % 2**24, 24) * signed(y % 2**24, 24) >> 16
            for register, product in (("r0", whole), ("r4", narrow)):
                exact = product + signed(z, 32)
                assert signed(int(got[register][lane]), 32) == clamp(exact, -(2**31), 2**31 - 1)

    check()


@pytest.mark.parametrize("of_b", ["u32", "s32"])
@pytest.mark.parametrize("of_a", ["u32", "s32"])
@pytest.mark.parametrize("part", ["lo", "hi"])
def test_dp2a(part: str, of_a: str, of_b: str) -> None:
    program = Instructions(f"dp2a.{part}.{of_a}.{of_b} %r0, %r1, %r2, %r3;")

    @FEW
    @given(rows(32), rows(32), rows(32))
    def check(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        halves = a.view(np.int16 if of_a == "s32" else np.uint16).reshape(32, 2).astype(object)
        some = b.view(np.int8 if of_b == "s32" else np.uint8).reshape(32, 2, 2).astype(object)[:, int(part == "hi")]
        wanted = [(int(z) + int(h @ y)) % 2**32 for z, h, y in zip(c, halves, some, strict=True)]
        assert program(r1=a, r2=b, r3=c)["r0"].tolist() == wanted

    check()
