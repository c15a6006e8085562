"""Descriptors of tensor core instructions: matrices in shared memory, instructions, and the chunks that they address.

Sources: PTX ISA 9.1, tables 40 and 42; the canonical layouts of section 9.7.16.10, which equal those of 9.7.15.5.1.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np

CHUNK = 16
ROWS = 8
"""Rows of a core matrix; the 128-byte swizzle with 32-byte atoms has half as many."""


@dataclass(frozen=True, slots=True, eq=False)
class Swizzle:
    """A permutation of address bits: XOR of `mask` bits from bit 7 onto bit `onto`. `span`: bytes of a pattern row.

    One object per swizzle.
    """

    name: str
    span: int
    mask: int
    onto: int
    rows: int = ROWS

    def __str__(self) -> str:
        return self.name

    def apply(self, address: np.ndarray, base_offset: int = 0) -> np.ndarray:
        """Return the physical byte addresses of absolute logical ones."""
        physical: np.ndarray = address ^ (((address >> 7) - base_offset & self.mask) << self.onto)
        return physical


@dataclass(frozen=True, slots=True)
class Pattern:
    """A swizzle and its base offset, in rows of 128 bytes, at which its pattern starts. number: unique for each."""

    swizzle: Swizzle
    base_offset: int
    number: int = field(init=False)

    def __post_init__(self) -> None:
        swizzle = self.swizzle
        object.__setattr__(
            self, "number", self.base_offset | swizzle.mask << 3 | swizzle.onto << 6 | swizzle.span >> 4 << 9
        )

    def __str__(self) -> str:
        return f"{self.swizzle} with base offset {self.base_offset}" if self.base_offset else str(self.swizzle)


NONE: Final = Swizzle("no swizzle", 16, 0, 4)
B32: Final = Swizzle("32-byte swizzle", 32, 1, 4)
B64: Final = Swizzle("64-byte swizzle", 64, 3, 4)
B128: Final = Swizzle("128-byte swizzle", 128, 7, 4)
B128_ATOM32: Final = Swizzle("128-byte swizzle of 32-byte atoms", 128, 3, 5, rows=4)
B128_ATOM64: Final = Swizzle("128-byte swizzle of 64-byte atoms", 128, 1, 6)
MATRIX_SWIZZLES: Final = {0: NONE, 1: B128_ATOM32, 2: B128, 4: B64, 6: B32}
WARPGROUP_SWIZZLES: Final = (NONE, B128, B64, B32)


@dataclass(frozen=True, slots=True)
class MatrixDescriptor:
    """A matrix in shared memory: byte offset in the CTA's window, byte strides between core matrices, swizzle."""

    start: int
    leading: int
    stride: int
    base_offset: int
    absolute_leading: bool
    swizzle: Swizzle

    @classmethod
    def decode(cls, bits: int) -> MatrixDescriptor:
        """Decode the 64 bits of a tcgen05 descriptor. Raises ValueError for an undefined swizzle code."""
        code = bits >> 61 & 7
        if code not in MATRIX_SWIZZLES:
            raise ValueError(
                f"swizzle code {code} in bits 61-63 of matrix descriptor {bits:#018x}; allowed is 0, 1, 2, 4, 6"
            )
        return cls(
            (bits & 0x3FFF) << 4,
            (bits >> 16 & 0x3FFF) << 4,
            (bits >> 32 & 0x3FFF) << 4,
            bits >> 49 & 7,
            bool(bits >> 52 & 1),
            MATRIX_SWIZZLES[code],
        )

    @classmethod
    def decode_warpgroup(cls, bits: int) -> MatrixDescriptor:
        """Decode the 64 bits of a warpgroup MMA descriptor: PTX ISA 9.1, 9.7.15.5.1.2.2."""
        start, leading, stride = ((bits >> at & 0x3FFF) << 4 for at in (0, 16, 32))
        return cls(start, leading, stride, bits >> 49 & 7, False, WARPGROUP_SWIZZLES[bits >> 62 & 3])

    @property
    def pattern(self) -> Pattern:
        """The layout of the matrix in shared memory."""
        return Pattern(self.swizzle, self.base_offset & self.swizzle.mask)

    def chunks(self, extent: int, k_bytes: int, mn_major: bool, elements: int = 0) -> np.ndarray:
        """Return the operand's 16-byte chunks, as chunk numbers from the window's start (intp).

        K-major: [extent rows, k_bytes / 16], `extent` counting rows of M or N.
        MN-major: [elements rows of K, extent / 16], `extent` counting bytes of M or N.
        """
        w, rows = self.swizzle.span, self.swizzle.rows
        if mn_major:
            k = np.arange(elements)[:, None]
            mn = np.arange(0, extent, CHUNK)[None, :]
            across, along = (self.leading, self.stride) if self.swizzle is not NONE else (self.stride, self.leading)
            logical = mn % w + mn // w * across + k % rows * w + k // rows * along
        else:
            r = np.arange(extent)[:, None]
            kb = np.arange(0, k_bytes, CHUNK)[None, :]
            beyond = kb // w * self.leading if self.swizzle is NONE else kb // w * w
            logical = r % rows * w + r // rows * self.stride + kb % w + beyond
        return self.swizzle.apply(self.start + logical, self.base_offset) // CHUNK


@dataclass(frozen=True, slots=True)
class ElementType:
    """The type of an operand's elements, by name and bits. packed: without padding to bytes."""

    name: str
    bits: int
    packed: bool = False


F16, BF16, TF32 = ElementType("f16", 16), ElementType("bf16", 16), ElementType("tf32", 32)
E4M3, E5M2 = ElementType("e4m3", 8), ElementType("e5m2", 8)
E2M3, E3M2, E2M1 = ElementType("e2m3", 6), ElementType("e3m2", 6), ElementType("e2m1", 4)
E2M1_PACKED = ElementType("e2m1", 4, packed=True)
U8, S8 = ElementType("u8", 8), ElementType("s8", 8)
B1 = ElementType("b1", 1, packed=True)


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A .kind of tcgen05.mma: elements of K per instruction, types by their codes.

    blocks: the numbers of elements of K that may share a scale factor, the default first; empty without scale factors.
    """

    name: str
    k: int
    container_bits: int
    types: dict[int, ElementType]
    results: dict[int, str]
    blocks: tuple[int, ...] = ()

    @property
    def k_bytes(self) -> int:
        """Bytes of K in one row of an operand in shared memory."""
        return self.k * self.container_bits // 8


FLOATS_OF_8_6_4_BITS: Final = {0: E4M3, 1: E5M2, 3: E2M3, 4: E3M2, 5: E2M1}
KINDS: Final = {
    "kind::f16": Kind("kind::f16", 16, 16, {0: F16, 1: BF16}, {0: "f16", 1: "f32"}),
    "kind::tf32": Kind("kind::tf32", 8, 32, {2: TF32}, {1: "f32"}),
    "kind::f8f6f4": Kind("kind::f8f6f4", 32, 8, FLOATS_OF_8_6_4_BITS, {0: "f16", 1: "f32"}),
    "kind::i8": Kind("kind::i8", 32, 8, {0: U8, 1: S8}, {2: "s32"}),
    "kind::mxf8f6f4": Kind("kind::mxf8f6f4", 32, 8, FLOATS_OF_8_6_4_BITS, {}, (32,)),
    "kind::mxf4": Kind("kind::mxf4", 64, 4, {1: E2M1_PACKED}, {}, (32,)),
    "kind::mxf4nvf4": Kind("kind::mxf4nvf4", 64, 4, {1: E2M1_PACKED}, {}, (16, 32)),
}
SCALE_TYPES: Final = ("ue4m3", "ue8m0")
SCALE_BYTES: Final = 3 << 4 | 3 << 29
"""The bits of an instruction descriptor that hold the starting bytes of the scale factors of B and A within a cell."""


@dataclass(frozen=True, slots=True)
class InstructionDescriptor:
    """The operation of a tcgen05.mma: types, signs, majorness, and the shape over all participating CTAs.

    scale: the type of the scale factors, if the kind has them.
    """

    m: int
    n: int
    a: ElementType
    b: ElementType
    d: str
    negate_a: bool
    negate_b: bool
    a_mn_major: bool
    b_mn_major: bool
    saturate: bool
    scale: str = ""

    @classmethod
    def decode(cls, bits: int, kind: Kind) -> InstructionDescriptor:
        """Decode the 32 bits of the descriptor. Raises ValueError for types that the kind does not have.

        PTX ISA 9.1, table 42 and, for kinds with scale factors, tables 43 and 44.
        """
        a, b, d = bits >> 7 & 7, bits >> 10 & (3 if kind.container_bits < 8 else 7), bits >> 4 & 3
        types = (("A", a, set(kind.types)), ("B", b, set(kind.types)), ("D", d, set(kind.results)))
        for name, code, known in types[:2] if kind.blocks else types:
            if code not in known:
                raise ValueError(
                    f"type code {code} of {name} in instruction descriptor {bits:#010x}; "
                    f"{kind.name} allows {sorted(known)}"
                )
        if "s32" in kind.results.values() and bits >> 13 & 3:
            raise ValueError(f"instruction descriptor {bits:#010x} negates integers")
        if bits & 4:
            raise ValueError(f"instruction descriptor {bits:#010x} asks for sparsity, which is not implemented")
        if kind.blocks and bits >> 31:
            raise ValueError(f"instruction descriptor {bits:#010x} asks for K=96, which sm_100a does not have")
        return cls(
            (bits >> 24 & 31) << 4,
            (bits >> 17 & 63) << 3,
            kind.types[a],
            kind.types[b],
            "f32" if kind.blocks else kind.results[d],
            bool(bits >> 13 & 1),
            bool(bits >> 14 & 1),
            bool(bits >> 15 & 1),
            bool(bits >> 16 & 1),
            not kind.blocks and bool(bits >> 3 & 1),
            SCALE_TYPES[bits >> 23 & 1] if kind.blocks else "",
        )


@lru_cache(maxsize=4096)
def operand_pattern(bits: int) -> Pattern:
    """Return the layout of an operand in shared memory, by its descriptor."""
    return MatrixDescriptor.decode(bits).pattern


@lru_cache(maxsize=4096)
def steps_chunks(bits: tuple[int, ...], extent: int, kind: Kind, mn_major: bool) -> np.ndarray:
    """Return the chunks of one operand over several steps of K, side by side."""
    parts = [operand_chunks(b, extent, kind, mn_major) for b in bits]
    return np.concatenate(parts, axis=0 if mn_major else 1)


@lru_cache(maxsize=4096)
def operand_chunks(bits: int, extent: int, kind: Kind, mn_major: bool) -> np.ndarray:
    """Return the chunks of one operand, rows of K or of M/N first, see MatrixDescriptor.chunks. Raises ValueError."""
    descriptor = MatrixDescriptor.decode(bits)
    if mn_major and kind.container_bits < 8:
        raise ValueError(f"an operand of {kind.name} that is not K-major")
    if mn_major and (kind.container_bits == 32) != (descriptor.swizzle is B128_ATOM32):
        raise ValueError(f"{descriptor.swizzle.name} of an operand of {kind.name} that is not K-major")
    if mn_major:
        return descriptor.chunks(extent * kind.container_bits // 8, 0, True, kind.k)
    if descriptor.swizzle is B128_ATOM32:
        raise ValueError("the 128-byte swizzle of 32-byte atoms is for MN-major operands only")
    return descriptor.chunks(extent, kind.k_bytes, False)
