"""Conversion of operand bits to float32, as the tensor core reads f16, bf16, tf32, small floats and 8-bit integers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from .descriptors import B1, BF16, E4M3, E5M2, F16, S8, TF32, U8, ElementType

TF32_MASK = np.uint32(0xFFFFE000)
HOLDER_SHIFT = {8: 0, 6: 1, 4: 2}
"""The bit position of an element within its byte of tensor memory, by its number of bits: in the middle."""


@dataclass(frozen=True)
class Format:
    """A binary format of `exponent` and `mantissa` bits.

    largest: the code of the greatest finite value. infinity, nan: codes, None if the format has none.
    """

    exponent: int
    mantissa: int
    largest: int
    infinity: int | None
    nan: int | None

    @property
    def bias(self) -> int:
        return (1 << self.exponent - 1) - 1

    @property
    def sign(self) -> int:
        return 1 << self.exponent + self.mantissa

    def value(self, code: int) -> float:
        """Return the value of a finite positive code."""
        exponent, mantissa = code >> self.mantissa, code & (1 << self.mantissa) - 1
        if exponent == 0:
            return float(mantissa) * 2.0 ** (1 - self.bias - self.mantissa)
        return (1.0 + mantissa * 2.0**-self.mantissa) * 2.0 ** (exponent - self.bias)


MINIFLOATS: Final = {
    "e4m3": Format(4, 3, 0x7E, None, 0x7F),
    "e5m2": Format(5, 2, 0x7B, 0x7C, 0x7F),
    "e2m3": Format(2, 3, 0x1F, None, None),
    "e3m2": Format(3, 2, 0x1F, None, None),
    "e2m1": Format(2, 1, 0x7, None, None),
}


@cache
def table(element: ElementType) -> np.ndarray:
    """Return float32[256], the value of each 8-bit code (smaller types in the low bits)."""
    codes = np.arange(256, dtype=np.uint8)
    if element is E5M2:
        return (codes.astype(np.uint16) << 8).view(np.float16).astype(np.float32)
    if element is U8:
        return codes.astype(np.float32)
    if element is S8:
        return codes.view(np.int8).astype(np.float32)
    if element is B1:
        return (codes & 1).astype(np.float32)
    fmt = MINIFLOATS[element.name]
    sizes = [np.nan if code == fmt.nan else fmt.value(code) for code in range(fmt.sign)]
    signed = np.array([*sizes, *(-size for size in sizes)], np.float32)
    signed[np.isnan(signed)] = np.nan  # without a sign
    return np.resize(signed, 256)


@cache
def scale_table(kind: str) -> np.ndarray:
    """Return float64[256], the value of each code of a scale factor, "ue8m0" or "ue4m3"."""
    if kind == "ue4m3":
        return table(E4M3).take(np.arange(256) & 0x7F).astype(np.float64)
    values = 2.0 ** (np.arange(256) - 127.0)
    values[255] = np.nan
    return values


def widen(chunks: np.ndarray, element: ElementType) -> np.ndarray:
    """Return the elements of 16-byte chunks (complex128[rows, n]) as float32[rows, elements]."""
    if element is BF16:
        wide = chunks.view(np.uint16).astype(np.uint32)
        wide <<= np.uint32(16)
        return wide.view(np.float32)
    if element is F16:
        return chunks.view(np.float16).astype(np.float32)
    if element is TF32:
        return (chunks.view(np.uint32) & TF32_MASK).view(np.float32)
    codes = chunks.view(np.uint8)
    if element is B1:
        return np.unpackbits(codes, axis=-1, bitorder="little").astype(np.float32)
    if element.bits == 8:
        return table(element).take(codes)
    if element.packed:
        return table(element).take(nibbles(codes))
    return table(element).take(unpacked(codes, element.bits))


def nibbles(codes: np.ndarray) -> np.ndarray:
    """Return the two 4-bit codes of each byte along the last axis, the low one first."""
    return np.stack([codes & 15, codes >> 4], -1).reshape(*codes.shape[:-1], -1)


def unpacked(codes: np.ndarray, bits: int) -> np.ndarray:
    """Return the sixteen 6- or 4-bit codes at the start of each 16-byte chunk, one per byte."""
    packed = codes.reshape(*codes.shape[:-1], -1, 16)[..., : 2 * bits]
    spread = np.unpackbits(packed, axis=-1, bitorder="little")
    spread = spread.reshape(*packed.shape[:-1], 16, bits)
    weights = (1 << np.arange(bits)).astype(np.uint8)
    values: np.ndarray = (spread * weights).sum(-1, dtype=np.uint8)
    return values.reshape(codes.shape)


def from_columns(cells: np.ndarray, element: ElementType) -> np.ndarray:
    """Convert operand A from tensor memory: uint32[columns, lanes], packed along K -> float32[K, lanes]."""
    columns, lanes = cells.shape
    if element is TF32:
        return (cells & TF32_MASK).view(np.float32)
    bits = element.bits if element.packed else max(element.bits, 8)
    parts = 32 // bits
    out = np.empty((columns, parts, lanes), np.float32)
    for part in range(parts):
        if element is BF16:
            high = cells & np.uint32(0xFFFF0000) if part else cells << np.uint32(16)
            out[:, part] = high.view(np.float32)
        elif element is F16:
            out[:, part] = (cells >> np.uint32(16 * part)).astype(np.uint16).view(np.float16)
        else:
            shift = bits * part + (0 if element.packed else HOLDER_SHIFT[element.bits])
            out[:, part] = table(element)[cells >> np.uint32(shift) & np.uint32((1 << element.bits) - 1)]
    return out.reshape(columns * parts, lanes)


def unpacked_halves(registers: np.ndarray) -> np.ndarray:
    """Return the f16 pairs in uint32[n, lanes] as float32[n, 2, lanes], the low one first."""
    halves = np.stack([registers & 0xFFFF, registers >> 16], 1)
    return halves.astype(np.uint16).view(np.float16).astype(np.float32)


def packed_halves(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return two arrays of floats as f16 pairs, uint32."""
    bits = [half.astype(np.float16).view(np.uint16).astype(np.uint32) for half in (low, high)]
    return bits[0] | bits[1] << np.uint32(16)


def bf16_from(bits: np.ndarray) -> np.ndarray:
    """Convert bf16 bits to float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def bf16_to(values: np.ndarray) -> np.ndarray:
    """Convert float32 to bf16 bits, to nearest even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)))) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint32(0x7FFF), rounded).astype(np.uint16)
