"""cvt: exhaustive over the small formats against torch and numpy, and at edge values against exact references."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from emulator.errors import UnknownInstruction
from tests.emulator.one_instruction import Instructions, over

CODES16 = np.arange(2**16, dtype=np.uint16)
RANDOM = np.random.default_rng(17)
ONES = 0xFFFF_FFFF


def as_f32(words: np.ndarray) -> np.ndarray:
    return words.view(np.float32)


def every_half_and_between(code_bits: int) -> np.ndarray:
    """Return f32 patterns on, next to and halfway between the values of a format that cuts `code_bits` bits."""
    tops = np.arange(2**16, dtype=np.uint32) << 16
    half = 1 << code_bits - 1
    offsets = np.array([0, 1, half - 1, half, half + 1, (1 << code_bits) - 1], np.uint32)
    wild = RANDOM.integers(0, 2**32, 4096, np.uint32)
    return np.concatenate([(tops[:: 7 if code_bits < 16 else 1, None] | offsets).ravel(), wild])


def same_floats(got: np.ndarray, wanted: np.ndarray) -> None:
    nan = np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(got), nan)
    np.testing.assert_array_equal(got[~nan].view(np.uint32), wanted[~nan].view(np.uint32))


def test_every_bf16_and_f16_becomes_its_f32() -> None:
    got = over("cvt.f32.bf16 %r0, %h2; cvt.f32.f16 %r1, %h2;", h2=CODES16)
    same_floats(as_f32(got["r0"]), as_f32(CODES16.astype(np.uint32) << 16))
    same_floats(as_f32(got["r1"]), CODES16.view(np.float16).astype(np.float32))


def test_f32_to_bf16_is_torchs() -> None:
    bits = every_half_and_between(16)
    got = over("cvt.rn.bf16.f32 %h0, %r1;", r1=bits)["h0"]
    wanted = torch.from_numpy(as_f32(bits).copy()).bfloat16().view(torch.int16).numpy().view(np.uint16)
    nan = np.isnan(as_f32(bits))
    np.testing.assert_array_equal(got[~nan], wanted[~nan])
    assert (got[nan] == 0x7FFF).all()


def test_f32_to_f16_is_numpys() -> None:
    bits = every_half_and_between(13)
    got = over("cvt.rn.f16.f32 %h0, %r1;", r1=bits)["h0"]
    with np.errstate(all="ignore"):
        wanted = as_f32(bits).astype(np.float16).view(np.uint16)
    nan = np.isnan(as_f32(bits))
    np.testing.assert_array_equal(got[~nan], wanted[~nan])
    assert (got[nan] == 0x7FFF).all()


@pytest.mark.parametrize(("rounding", "toward"), [("rm", -np.inf), ("rp", np.inf)])
def test_toward_infinity_is_the_nearest_on_that_side(rounding: str, toward: float) -> None:
    """Beside numpy's rounding to nearest, stepped to the other neighbour if it lies on the wrong side."""
    bits = every_half_and_between(13)
    value = as_f32(bits)
    got = over(f"cvt.{rounding}.f16.f32 %h0, %r1;", r1=bits)["h0"]
    with np.errstate(all="ignore"):
        nearest = value.astype(np.float16)
        wrong = (nearest - value) * toward < 0
        wanted = np.where(wrong, np.nextafter(nearest, np.float16(toward)), nearest).view(np.uint16)
    number = ~np.isnan(value) & ~((nearest == 0) & (value != 0))
    np.testing.assert_array_equal(got[number], wanted[number])
    tiny = (nearest == 0) & (value != 0)
    up = np.where(value[tiny] < 0, 0x8000, 0x0001) if toward > 0 else np.where(value[tiny] < 0, 0x8001, 0x0000)
    np.testing.assert_array_equal(got[tiny], up)
    assert (got[np.isnan(value)] == 0x7FFF).all()


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_toward_zero_is_the_nearest_not_larger(name: str) -> None:
    bits = every_half_and_between(16 if name == "bf16" else 13)
    value = as_f32(bits)
    value = value[np.isfinite(value)]
    got = over(f"cvt.rz.{name}.f32 %h0, %r1;", r1=value.view(np.uint32))["h0"]
    magnitudes = CODES16[: 0x7F80 if name == "bf16" else 0x7C00]
    table = decoded(magnitudes, name).astype(np.float64)
    place = np.searchsorted(table, np.abs(value.astype(np.float64)), side="right") - 1
    np.testing.assert_array_equal(got & 0x7FFF, magnitudes[place])
    np.testing.assert_array_equal(got >> 15 == 1, np.signbit(value))


def decoded(codes: np.ndarray, name: str) -> np.ndarray:
    return as_f32(codes.astype(np.uint32) << 16) if name == "bf16" else codes.view(np.float16).astype(np.float32)


@pytest.mark.parametrize("name", ["f16x2", "bf16x2"])
def test_pairs_put_the_first_source_above(name: str) -> None:
    a, b = (RANDOM.normal(size=32).astype(np.float32) for _ in range(2))
    got = Instructions(f"cvt.rn.{name}.f32 %r0, %r1, %r2; cvt.rn.relu.{name}.f32 %r3, %r1, %r2;")(r1=a, r2=b)
    dtype = torch.float16 if name == "f16x2" else torch.bfloat16

    def codes(v: np.ndarray) -> np.ndarray:
        return torch.from_numpy(v).to(dtype).view(torch.int16).numpy().view(np.uint16).astype(np.uint32)

    np.testing.assert_array_equal(got["r0"], codes(a) << 16 | codes(b))
    np.testing.assert_array_equal(got["r3"], codes(np.maximum(a, 0)) << 16 | codes(np.maximum(b, 0)))


def test_satfinite_stops_at_the_largest_number() -> None:
    values = np.resize(np.array([3.4e38, -3.4e38, math.inf, -math.inf, 1.0, math.nan], np.float32), 32)
    text = "cvt.rn.satfinite.f16.f32 %h0, %r2; cvt.rn.satfinite.bf16.f32 %h1, %r2;"
    got = Instructions(text)(r2=values)
    assert [hex(v) for v in got["h0"][:6]] == ["0x7bff", "0xfbff", "0x7bff", "0xfbff", "0x3c00", "0x7fff"]
    assert [hex(v) for v in got["h1"][:6]] == ["0x7f7f", "0xff7f", "0x7f7f", "0xff7f", "0x3f80", "0x7fff"]


FP8 = {"e4m3": (torch.float8_e4m3fn, 448.0), "e5m2": (torch.float8_e5m2, 57344.0)}


@pytest.mark.parametrize("name", FP8)
def test_every_fp8_code_becomes_its_f16(name: str) -> None:
    got = over(f"cvt.rn.f16x2.{name}x2 %r0, %h1;", h1=CODES16)["r0"]
    codes = torch.from_numpy(CODES16.view(np.uint8).copy()).view(FP8[name][0])
    wanted = codes.to(torch.float16).numpy()
    result = got.view(np.float16)
    nan = np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(result), nan)
    np.testing.assert_array_equal(result[~nan].view(np.uint16), wanted[~nan].view(np.uint16))


def fp8_table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return codes and values of the finite non-negative numbers, in order."""
    codes = np.arange(128, dtype=np.uint8)
    values = torch.from_numpy(codes).view(FP8[name][0]).to(torch.float64).numpy()
    keep = np.isfinite(values)
    return codes[keep], values[keep]


MINI = {
    "e2m1": [0, 0.5, 1, 1.5, 2, 3, 4, 6],
    "e2m3": [i / 8 for i in range(16)] + [2 + i / 4 for i in range(8)] + [4 + i / 2 for i in range(8)],
    "e3m2": [i / 16 for i in range(4)] + [2.0**e * (1 + i / 4) for e in range(-2, 5) for i in range(4)],
}


@pytest.mark.parametrize("name", [*FP8, *MINI])
def test_to_small_floats_is_nearest_even(name: str) -> None:
    codes, values = fp8_table(name) if name in FP8 else (np.arange(len(MINI[name])), np.array(MINI[name]))
    middles = (values[1:] + values[:-1]) / 2
    inputs = np.concatenate([values, middles, np.nextafter(middles, 0, dtype=np.float64), middles * (1 + 1e-6)])
    inputs = np.concatenate([inputs, [values[-1] * 1.5, 1e30, math.inf], RANDOM.uniform(0, values[-1], 500)])
    x = np.concatenate([inputs, -inputs]).astype(np.float32)
    low = np.float32(1.0)
    got = over(f"cvt.rn.satfinite.{name}x2.f32 %h0, %r1, %r2;", r1=x, r2=np.full_like(x, low))["h0"]
    width = 4 if name == "e2m1" else 8
    upper = got >> width
    sign_bit = {"e4m3": 7, "e5m2": 7, "e2m1": 3, "e2m3": 5, "e3m2": 5}[name]
    np.testing.assert_array_equal(upper >> sign_bit & 1, np.signbit(x))
    size = np.minimum(np.abs(x.astype(np.float64)), values[-1])
    above = np.searchsorted(values, size).clip(0, len(values) - 1)
    below = (above - 1).clip(0)
    to_above, to_below = values[above] - size, size - values[below]
    even = np.where(codes[above] % 2 == 0, codes[above], codes[below])
    wanted = np.where(to_above == to_below, even, np.where(to_above < to_below, codes[above], codes[below]))
    np.testing.assert_array_equal(upper & (1 << sign_bit) - 1, wanted)
    one = codes[values == 1.0][0]
    assert (got & (1 << width) - 1 == one).all()


@pytest.mark.parametrize("name", MINI)
def test_small_floats_to_f16(name: str) -> None:
    width = 4 if name == "e2m1" else 8
    values = MINI[name]
    codes = np.arange(2 * len(values), dtype=np.uint16)
    got = over(f"cvt.rn.f16x2.{name}x2 %r0, %h1;", h1=codes | (codes << width))["r0"].view(np.float16)
    wanted = np.array(values + [-v for v in values])
    np.testing.assert_array_equal(got[0::2], wanted)
    np.testing.assert_array_equal(got[1::2], wanted)


def every_value(name: str) -> np.ndarray:
    """Return the values of all codes of a small format, float64; NaN where a code is NaN."""
    if name in FP8:
        return torch.arange(256, dtype=torch.uint8).view(FP8[name][0]).to(torch.float64).numpy()
    positive = np.array(MINI[name], np.float64)
    return np.concatenate([positive, -positive])


def as_bf16(values: np.ndarray) -> np.ndarray:
    """Round values that f32 holds to the codes of bf16; NaN is 0x7fff."""
    with np.errstate(over="ignore"):
        codes = torch.from_numpy(values.astype(np.float32)).bfloat16().view(torch.int16).numpy().view(np.uint16)
    return np.where(np.isnan(values), 0x7FFF, codes)


def bf16_pair(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the upper and lower halves of 32-bit words."""
    return (words >> 16).astype(np.uint16), (words & 0xFFFF).astype(np.uint16)


@pytest.mark.parametrize("name", [*FP8, *MINI])
@pytest.mark.parametrize("modifiers", ["", ".relu", ".satfinite", ".relu.satfinite"])
def test_every_pair_of_small_codes_to_bf16(name: str, modifiers: str) -> None:
    values, width = every_value(name), 4 if name == "e2m1" else 8
    codes = np.arange(len(values), dtype=np.uint16)
    upper, lower = (half.ravel() for half in np.meshgrid(codes, codes, indexing="ij"))
    got = over(f"cvt.rn{modifiers}.bf16x2.{name}x2 %r0, %h1;", h1=upper << width | lower)["r0"]
    wanted = as_bf16(values)
    if "relu" in modifiers:
        wanted = np.where(wanted >> 15, 0, wanted).astype(np.uint16)
    if "satfinite" in modifiers:
        wanted = np.where(wanted & 0x7FFF == 0x7F80, wanted - 1, wanted)
    for half, of in zip(bf16_pair(got), (upper, lower), strict=True):
        np.testing.assert_array_equal(half, wanted[of])


@pytest.mark.parametrize("finite", ["", ".satfinite"])
@pytest.mark.parametrize("name", [*FP8, *MINI])
def test_every_small_code_times_every_scale(name: str, finite: str) -> None:
    """Each half has a scale of its own. Products are exact but for bf16's subnormals and overflow."""
    values, width = every_value(name), 4 if name == "e2m1" else 8
    powers = np.append(2.0 ** np.arange(-127, 128), np.nan)
    codes, scales = (g.ravel() for g in np.meshgrid(np.arange(len(values)), np.arange(256), indexing="ij"))
    other, lower_scale = (codes * 5 + 3) % len(values), (scales * 3 + codes) % 256
    registers = {"h1": codes << width | other, "h2": scales << 8 | lower_scale}
    text = f"cvt.rn{finite}.scaled::n2::ue8m0.bf16x2.{name}x2 %r0, %h1, %h2;"
    got = bf16_pair(over(text, **{name: held.astype(np.uint16) for name, held in registers.items()})["r0"])
    for half, code, scale in zip(got, (codes, other), (scales, lower_scale), strict=True):
        wanted = as_bf16(values[code] * powers[scale])
        if finite:
            wanted = np.where(wanted & 0x7FFF == 0x7F80, wanted - 1, wanted)
        np.testing.assert_array_equal(half, wanted)


@pytest.mark.parametrize("source", ["f16", "bf16"])
@pytest.mark.parametrize("name", [*FP8, *MINI])
def test_every_half_to_small_floats_is_as_from_f32(name: str, source: str) -> None:
    halves = CODES16.astype(np.uint32)
    f32 = as_f32(halves << 16) if source == "bf16" else CODES16.view(np.float16).astype(np.float32)
    pair, ones = halves << 16 | halves[::-1], f32[::-1].copy()
    got = over(f"cvt.rn.satfinite.{name}x2.{source}x2 %h0, %r1;", r1=pair)["h0"]
    wanted = over(f"cvt.rn.satfinite.{name}x2.f32 %h0, %r1, %r2;", r1=f32, r2=ones)["h0"]
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    "text",
    [
        "cvt.rz.bf16x2.e4m3x2 %r0, %h1;",
        "cvt.rn.scaled::n2::ue8m0.f16x2.e4m3x2 %r0, %h1, %h2;",
        "cvt.rn.scaled::n2::ue8m0.bf16x2.e4m3x2 %r0, %h1;",
        "cvt.rn.scaled::n2::ue8m0.bf16x2.ue8m0x2 %r0, %h1, %h2;",
        "cvt.rn.satfinite.scaled::n2::ue8m0.e4m3x2.bf16x2 %h0, %r1, %h2;",
    ],
)
def test_forms_of_small_floats_that_ptx_lacks(text: str) -> None:
    with pytest.raises(UnknownInstruction):
        Instructions(text)


def test_nan_to_fp8() -> None:
    got = Instructions("cvt.rn.satfinite.e4m3x2.f32 %h0, %r1, %r1; cvt.rn.satfinite.e5m2x2.f32 %h2, %r1, %r1;")(
        r1=np.full(32, math.nan, np.float32)
    )
    assert got["h0"][0] == got["h2"][0] == 0x7F7F


def test_scale_factors_ue8m0() -> None:
    codes = np.resize(np.array([127 << 8 | 128, 0x0000, 0xFFFE], np.uint16), 32)
    got = as_f32(Instructions("cvt.rn.bf16x2.ue8m0x2 %r0, %h1;")(h1=codes)["r0"])
    words = got.view(np.uint32)
    assert as_f32(np.array([words[0] & 0xFFFF0000, words[0] << 16], np.uint32)).tolist() == [1.0, 2.0]
    assert as_f32(np.array([words[1] << 16], np.uint32))[0] == 2.0**-127
    assert np.isnan(as_f32(np.array([words[2] & 0xFFFF0000], np.uint32))[0])


@pytest.mark.parametrize("mode", ["rna", "rn", "rz"])
def test_tf32_keeps_ten_bits(mode: str) -> None:
    bits = RANDOM.integers(0, 0x7F00_0000, 4096, np.uint32)
    bits[:1024] = bits[:1024] & ~np.uint32(0x1FFF) | 0x1000
    got = over(f"cvt.{mode}.tf32.f32 %r0, %r1;", r1=bits)["r0"].astype(np.int64)
    whole, rest = bits.astype(np.int64) >> 13, bits.astype(np.int64) & 0x1FFF
    up = {"rz": rest < 0, "rna": rest >= 0x1000, "rn": (rest > 0x1000) | (rest == 0x1000) & (whole % 2 == 1)}[mode]
    np.testing.assert_array_equal(got, whole + up << 13)


EDGES = np.array(
    [
        *(0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, -2.5, 3.7, -3.7, 1e10, -1e10, 1e-40, 0.49999997),
        *(2.0**31, -(2.0**31), 2.0**32, 2.0**63, 2.0**64, 254.5, 255.5, 127.5, -128.5, 65535.5),
        *(math.inf, -math.inf, math.nan),
    ],
    np.float32,
)
LIMITS = {
    f"{s}{b}": (0, 2**b - 1) if s == "u" else (-(2 ** (b - 1)), 2 ** (b - 1) - 1) for s in "us" for b in (8, 16, 32, 64)
}
ROUND: dict[str, Callable[[float], int]] = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


@pytest.mark.parametrize("mode", ROUND)
@pytest.mark.parametrize("to", LIMITS)
def test_floats_to_integers_saturate(to: str, mode: str) -> None:
    bits = int(to[1:])
    stem = {8: "h", 16: "h", 32: "r", 64: "q"}[bits]
    got = over(f"cvt.{mode}.{to}.f32 %{stem}0, %r1;", r1=EDGES)[f"{stem}0"]
    register = {"h": 16, "r": 32, "q": 64}[stem]
    low, high = LIMITS[to]
    for x, result in zip(EDGES.tolist(), got.tolist(), strict=True):
        if math.isnan(x):
            wanted = 1 << 63 if bits == 64 else 0
        elif math.isinf(x):
            wanted = high if x > 0 else low
        else:
            wanted = min(max(ROUND[mode](x), low), high)
        assert result == wanted % (1 << register), x


WIDEST = {"f32": 64, "f64": 64, "bf16": 64, "f16": 64}


@pytest.mark.parametrize(
    ("source", "result"), [(s, r) for r, widest in WIDEST.items() for s in LIMITS if int(s[1:]) <= widest]
)
def test_integers_to_floats(source: str, result: str) -> None:
    bits = int(source[1:])
    stem = {8: "h", 16: "h", 32: "r", 64: "q"}[bits]
    edges = np.array([0, 1, 2**bits - 1, 2 ** (bits - 1)], np.uint64)
    codes = np.concatenate([RANDOM.integers(0, 2**bits, 500, np.uint64), edges])
    register = {"h": np.uint16, "r": np.uint32, "q": np.uint64}[stem]
    to = {"f32": "r", "f64": "q", "bf16": "h", "f16": "h"}[result]
    got = over(f"cvt.rn.{result}.{source} %{to}50, %{stem}1;", **{f"{stem}1": codes.astype(register)})[f"{to}50"]
    numbers = [int(c) - (1 << bits) if source[0] == "s" and int(c) >> bits - 1 else int(c) for c in codes]
    for number, code in zip(numbers, got, strict=True):
        assert value_of(int(code), result) == nearest_float(number, result), number


def value_of(code: int, name: str) -> float:
    if name == "f64":
        return float(np.array([code], np.uint64).view(np.float64)[0])
    if name == "f16":
        return float(np.array([code], np.uint16).view(np.float16)[0])
    return float(np.array([code << 16 if name == "bf16" else code], np.uint32).view(np.float32)[0])


def nearest_float(number: int, name: str) -> float:
    """Round an integer to nearest even with this many significant bits."""
    precision = {"f64": 53, "f32": 24, "bf16": 8, "f16": 11}[name]
    size = abs(number)
    cut = max(size.bit_length() - precision, 0)
    quotient, rest = size >> cut, size & (1 << cut) - 1
    half = 1 << cut >> 1
    quotient += rest > half or (cut > 0 and rest == half and quotient & 1)
    value = math.ldexp(quotient, cut)
    if name == "f16" and value > 65504:
        value = math.inf
    return math.copysign(value, number) if number else 0.0


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
@pytest.mark.parametrize("source", ["s32", "u32", "s64", "u64"])
def test_integers_to_f64_in_a_direction(source: str, mode: str) -> None:
    """Python compares integers with floats exactly."""
    bits, stem = int(source[1:]), {"32": "r", "64": "q"}[source[1:]]
    edges = [0, 1, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1]
    codes = np.array(
        [each % 2**bits for each in edges] + RANDOM.integers(0, 2**bits, 500, np.uint64).tolist(), f"u{bits // 8}"
    )
    got = over(f"cvt.{mode}.f64.{source} %q50, %{stem}1;", **{f"{stem}1": codes})["q50"].view(np.float64)
    for code, value in zip(codes.tolist(), got.tolist(), strict=True):
        number = code - (1 << bits) if source[0] == "s" and code >> bits - 1 else code
        toward = math.copysign(math.inf, number) if number and mode == "rz" else {"rm": math.inf}.get(mode, -math.inf)
        assert value <= number if toward > 0 else value >= number, (number, value)
        assert math.nextafter(value, toward) > number if toward > 0 else math.nextafter(value, toward) < number


INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("result", INTEGERS)
@pytest.mark.parametrize("saturate", [False, True])
def test_between_integers(source: str, result: str, saturate: bool) -> None:
    bits, wanted_bits = int(source[1:]), int(result[1:])
    stems = {8: "h", 16: "h", 32: "r", 64: "q"}
    widths = {"h": 16, "r": 32, "q": 64}
    stem, to = stems[bits], stems[wanted_bits]
    top = 1 << bits
    codes = [0, 1, 5, 127, 128, 255, top - 1, top // 2, top // 2 - 1, top - 128, top - 129, top - 2] * 3
    codes = [c % top for c in codes][:32]
    registers = {f"{stem}1": np.array(codes, f"u{widths[stem] // 8}")}
    got = Instructions(f"cvt{'.sat' if saturate else ''}.{result}.{source} %{to}50, %{stem}1;")(**registers)[f"{to}50"]
    low, high = LIMITS[result]
    for code, out in zip(codes, got.tolist(), strict=True):
        number = code - top if source[0] == "s" and code >> bits - 1 else code
        value = min(max(number, low), high) if saturate else number % (1 << wanted_bits)
        if not saturate and result[0] == "s" and value >> wanted_bits - 1:
            value -= 1 << wanted_bits
        assert out == value % (1 << widths[to]), (number, saturate)


def test_between_f32_and_f64() -> None:
    x = np.concatenate(
        [RANDOM.normal(size=28) * 10.0 ** RANDOM.integers(-44, 39, 28), [math.inf, -math.inf, 1e300, 1e-300]]
    )
    got = Instructions("cvt.rn.f32.f64 %r0, %q2; cvt.f64.f32 %q1, %r0;")(q2=x)
    with np.errstate(all="ignore"):
        same_floats(as_f32(got["r0"]), x.astype(np.float32))
        np.testing.assert_array_equal(got["q1"].view(np.float64), x.astype(np.float32).astype(np.float64))


def test_rounding_to_integral_floats() -> None:
    got = over("".join(f"cvt.{m}.f32.f32 %r{i}, %r9;" for i, m in enumerate(ROUND)), r9=EDGES)
    for i, function in enumerate((np.rint, np.trunc, np.floor, np.ceil)):
        same_floats(as_f32(got[f"r{i}"]), function(EDGES))


def test_values_of_narrow_registers() -> None:
    got = Instructions("cvt.u16.u32 %h0, %r1; cvt.s8.s32 %h2, %r1; cvt.s64.s32 %q0, %r1; cvt.u64.u32 %q1, %r1;")(
        r1=0xFFFF_FF85
    )
    assert hex(got["h0"][0]) == "0xff85"
    assert hex(got["h2"][0]) == "0xff85"
    assert hex(got["q0"][0]) == "0xffffffffffffff85"
    assert hex(got["q1"][0]) == "0xffffff85"


@pytest.mark.parametrize(
    "text",
    [
        "cvt.rm.bf16.s64 %h0, %q1;",
        "cvt.rn.f16x2.f32 %r0, %r1;",
        "cvt.rn.e4m3x2.f32 %h0, %r1, %r2;",
        "cvt.rm.bf16.f32 %h0, %r1;",
        "cvt.rn.f32.s32.sat %r0, %r1;",
        "cvt.rn.brand.f32 %h0, %r1;",
    ],
)
def test_other_forms_are_refused_by_name(text: str) -> None:
    with pytest.raises(UnknownInstruction, match="PTX line 4: not implemented") as caught:
        Instructions(text)
    assert text.rstrip(";") in str(caught.value)


@pytest.mark.parametrize("finite", ["", ".satfinite"])
@pytest.mark.parametrize("rounding", ["rp", "rz"])
def test_scale_factors_to_ue8m0(rounding: str, finite: str) -> None:
    """The smallest power of two not below |a|, or the largest not above it, within 2^-127 to 2^127."""
    bits = np.random.default_rng(0).integers(0, 1 << 32, 4096, np.uint32)
    edges = np.array([0, 1, 0x400000, 0x400001, 0x7FFFFF, 0x800000, 0x7F000000, 0x7F000001, 0x7F800000], np.uint32)
    values = np.concatenate([bits, edges]).view(np.float32)
    got = over(f"cvt.{rounding}{finite}.ue8m0x2.f32 %h0, %r0, %r1;", r0=values, r1=values)["h0"]
    mantissa, exponent = np.frexp(np.abs(np.nan_to_num(values).astype(np.float64)))
    power = exponent - 1 + ((mantissa > 0.5) & (rounding == "rp"))
    wanted = np.clip(power + 127, 0, 254 if finite else 255)
    wanted[values == 0] = 0
    wanted[np.isinf(values)] = 254 if finite else 255
    wanted[np.isnan(values)] = 255
    np.testing.assert_array_equal(got >> 8, wanted)
    np.testing.assert_array_equal(got & 0xFF, wanted)


@pytest.mark.parametrize("to", ["u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"])
def test_packing_of_clamped_integers(to: str) -> None:
    bits = int(to[1:])
    low, high = (0, 2**bits - 1) if to[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    numbers = [[int(n) for n in RANDOM.integers(-3 * 2**bits, 3 * 2**bits, 32)] for _ in range(2)]
    c = RANDOM.integers(0, 2**32, 32, np.uint32)
    a, b = (np.array(n, np.int32).view(np.uint32) for n in numbers)
    more = "" if bits == 16 else ".b32 %r0, %r1, %r2, %r3"
    program = Instructions(f"cvt.pack.sat.{to}.s32{more or ' %r0, %r1, %r2'};")
    got = program(r1=a, r2=b, **({"r3": c} if more else {}))["r0"]
    for lane, (x, y) in enumerate(zip(*numbers, strict=True)):
        x, y = (min(max(v, low), high) % 2**bits for v in (x, y))
        above = int(c[lane]) << 2 * bits if more else 0
        assert got[lane] == (above | x << bits | y) % 2**32


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_rounding_to_integral_halves(kind: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    got = over("".join(f"cvt.{m}.{kind}.{kind} %h{i}, %h9;" for i, m in enumerate(ROUND)), h9=every)
    wide = every.view(np.float16).astype(np.float32) if kind == "f16" else as_f32(every.astype(np.uint32) << 16)
    for i, function in enumerate((np.rint, np.trunc, np.floor, np.ceil)):
        codes = got[f"h{i}"]
        values = codes.view(np.float16).astype(np.float32) if kind == "f16" else as_f32(codes.astype(np.uint32) << 16)
        with np.errstate(invalid="ignore"):
            same_floats(values, function(wide))
