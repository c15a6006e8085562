"""Shared-memory matrix descriptors against CuTe's canonical layouts."""

from __future__ import annotations

import numpy as np
import pytest
from canonical import SWIZZLES, Operand
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.machine.formats.descriptors import B32, B64, B128, KINDS, NONE, MatrixDescriptor, operand_chunks
from emulator.machine.formats.tensormap import swizzled_chunks

BITS = {"kind::f16": 16, "kind::tf32": 32, "kind::f8f6f4": 8}


@st.composite
def operands(draw: st.DrawFn) -> tuple[str, Operand]:
    kind = draw(st.sampled_from(sorted(BITS)))
    bits, k = BITS[kind], KINDS[kind].k
    mn_major = draw(st.booleans())
    whole = "128B of 32B"
    swizzle = whole if mn_major and bits == 32 else draw(st.sampled_from(sorted({*SWIZZLES} - {whole})))
    span = SWIZZLES[swizzle][0]
    mn = draw(st.sampled_from([64, 128])) if mn_major else draw(st.sampled_from([8, 16, 64, 128, 256]))
    pattern = 8 * span
    start = 1024 * draw(st.integers(1, 20))
    if not mn_major and swizzle != "none":  # a step of K within the pattern
        start += 32 * draw(st.integers(0, span // 32 - 1))
    outer = pattern * draw(st.integers(1, 16))
    inner = pattern * draw(st.integers(1, 16))
    return kind, Operand(bits, mn, k, mn_major, swizzle, start, outer, inner)


@settings(max_examples=60)
@given(operands())
def test_descriptor_addresses_the_canonical_layout(case: tuple[str, Operand]) -> None:
    kind, operand = case
    chunks = operand_chunks(operand.descriptor, operand.mn, KINDS[kind], operand.mn_major)
    size = operand.bits // 8
    elements = (chunks[..., None] * 16 + np.arange(0, 16, size)).reshape(chunks.shape[0], -1)
    np.testing.assert_array_equal(elements.T if operand.mn_major else elements, operand.byte())


@settings(max_examples=60)
@given(
    st.sampled_from(["kind::f16", "kind::tf32", "kind::f8f6f4"]),
    st.sampled_from(["32B", "64B", "128B", "none"]),
    st.integers(8, 200),
    st.sampled_from([8, 64, 128]),
    st.data(),
)
def test_tma_lays_down_what_descriptors_read(kind: str, name: str, place: int, rows: int, data: st.DataObject) -> None:
    """A box of rows of one span, at any address that TMA allows: its K steps, and its transpose if the kind has one."""
    span, _, pattern = SWIZZLES[name]
    start, size = 128 * place, BITS[kind] // 8
    logical = start + np.arange(rows * span).reshape(rows, span)
    laid = logical if pattern is None else np.vectorize(pattern)(logical)
    swizzle = {"none": NONE, "32B": B32, "64B": B64, "128B": B128}[name]
    np.testing.assert_array_equal(swizzled_chunks(start, rows * span, swizzle), laid.reshape(-1)[::16] // 16)
    if name == "none":
        return
    step = data.draw(st.integers(0, span // 32 - 1))
    k_major = Operand(8 * size, rows, KINDS[kind].k, False, name, start + 32 * step, 8 * span, 16)
    chunks = operand_chunks(k_major.descriptor, rows, KINDS[kind], False)
    np.testing.assert_array_equal(chunks, laid[:, 32 * step : 32 * step + 32 : 16] // 16)
    if rows >= KINDS[kind].k and size < 4:
        transposed = Operand(8 * size, span // size, KINDS[kind].k, True, name, start, 16, 8 * span)
        chunks = operand_chunks(transposed.descriptor, span // size, KINDS[kind], True)
        np.testing.assert_array_equal(chunks, laid[: KINDS[kind].k, ::16] // 16)


@pytest.mark.parametrize(
    ("kind", "code", "mn_major"),
    [("kind::tf32", 2, True), ("kind::f16", 1, True), ("kind::f8f6f4", 1, True), ("kind::tf32", 1, False)],
)
def test_the_swizzle_of_32_byte_atoms_is_for_transposed_tf32(kind: str, code: int, mn_major: bool) -> None:
    with pytest.raises(ValueError, match="128-byte swizzle"):
        operand_chunks(64 | 1 << 46 | code << 61, 64, KINDS[kind], mn_major)


@pytest.mark.parametrize("code", [3, 5, 7])
def test_swizzle_codes_without_meaning(code: int) -> None:
    with pytest.raises(ValueError, match=f"swizzle code {code}"):
        MatrixDescriptor.decode(1 << 46 | code << 61)


def test_fields_of_a_descriptor_that_cutedsl_makes() -> None:
    """From the FMHA example: V, MN-major, 128-byte swizzle. The start address is added at run time."""
    found = MatrixDescriptor.decode(0x4000404004000000)
    assert (found.leading, found.stride, found.swizzle.span, found.base_offset) == (16384, 1024, 128, 0)
