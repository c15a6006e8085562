"""Conversion of operand bits to float32, as the tensor core reads f16, bf16, tf32, small floats and 8-bit integers."""

from __future__ import annotations

from functools import cache

import numpy as np

from .descriptors import B1, BF16, E4M3, E5M2, F16, S8, TF32, U8, ElementType

TF32_MASK = np.uint32(0xFFFFE000)
SMALL = {"e4m3": (4, 3, 7), "e2m3": (2, 3, 1), "e3m2": (3, 2, 3), "e2m1": (2, 1, 1)}
"""(exponent bits, mantissa bits, bias) of the floats without infinities."""
HOLDER_SHIFT = {8: 0, 6: 1, 4: 2}
"""The bit position of an element of so many bits in its byte of tensor memory: in the middle."""


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
    exponent_bits, mantissa_bits, bias = SMALL[element.name]
    code = codes.astype(np.int64)
    mantissa = code & (1 << mantissa_bits) - 1
    exponent = code >> mantissa_bits & (1 << exponent_bits) - 1
    sign = np.where(code >> exponent_bits + mantissa_bits & 1, -1.0, 1.0)
    fraction = mantissa / (1 << mantissa_bits)
    value = np.where(exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - bias))
    if element.name == "e4m3":
        value = np.where(code & 0x7F == 0x7F, np.nan, value)
    return (sign * value).astype(np.float32)


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


def bf16_from(bits: np.ndarray) -> np.ndarray:
    """Convert bf16 bits to float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def bf16_to(values: np.ndarray) -> np.ndarray:
    """Convert float32 to bf16 bits, to nearest even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)))) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint32(0x7FFF), rounded).astype(np.uint16)
