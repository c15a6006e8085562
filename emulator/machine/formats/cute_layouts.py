"""CuTe layouts as text, such as `S<3,4,3> o 0 o (8,(64,2)):(64,(1,512))`, and the offsets that they give."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

_COMPOSED: Final = re.compile(
    r"\s*(?:Sw?<\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*>\s*o\s*(?:(\d+)\s*o\s*)?)?(.*)", re.DOTALL | re.IGNORECASE
)
_TOKEN: Final = re.compile(r"\s*([(),:]|\d+)")
Nested = int | tuple["Nested", ...]


@dataclass(frozen=True)
class Swizzle:
    """CuTe's Swizzle<bits, base, shift>: XOR of `bits` bits at base + shift onto those at `base`."""

    bits: int
    base: int
    shift: int

    def apply(self, offsets: np.ndarray) -> np.ndarray:
        """Return the swizzled offsets."""
        mask = (1 << self.bits) - 1 << self.base + self.shift
        swizzled: np.ndarray = offsets ^ ((offsets & mask) >> self.shift)
        return swizzled


SPANS: Final = {32: Swizzle(1, 4, 3), 64: Swizzle(2, 4, 3), 128: Swizzle(3, 4, 3)}
"""The swizzles of TMA and the tensor core, on byte addresses, by the bytes that they span."""


@dataclass(frozen=True)
class Layout:
    """A CuTe layout: nested shape and strides in elements, and a swizzle of element offsets."""

    shape: Nested
    stride: Nested
    swizzle: Swizzle | None = None
    offset: int = 0

    @property
    def modes(self) -> tuple[Nested, ...]:
        """The top-level modes of the shape."""
        return self.shape if isinstance(self.shape, tuple) else (self.shape,)

    def offsets(self) -> np.ndarray:
        """Return the element offset of each logical coordinate: intp, one dimension for each mode of the shape."""
        strides = self.stride if isinstance(self.stride, tuple) else (self.stride,)
        total = np.zeros((), np.intp)
        for mode, stride in zip(self.modes, strides, strict=True):
            total = total[..., None] + _column_major(mode, stride)
        total = total + self.offset
        return total if self.swizzle is None else self.swizzle.apply(total)


def parse(text: str) -> Layout:
    """Read a layout. Raises ValueError for other text."""
    match = _COMPOSED.fullmatch(text)
    assert match is not None
    swizzle = None if match[1] is None else Swizzle(int(match[1]), int(match[2]), int(match[3]))
    tokens = _TOKEN.findall(match[5])
    if "".join(tokens) != re.sub(r"\s", "", match[5]) or tokens.count(":") != 1:
        raise ValueError(f"layout {text!r}; allowed is SHAPE:STRIDE, such as (8,64):(64,1), after S<3,4,3> o 0 o")
    at = tokens.index(":")
    try:
        layout = Layout(_nested(tokens[:at]), _nested(tokens[at + 1 :]), swizzle, int(match[4] or 0))
        layout.offsets()
    except (IndexError, ValueError, TypeError):
        raise ValueError(f"layout {text!r}: shape and stride need the same parentheses") from None
    return layout


def flat(shape: Nested) -> tuple[int, ...]:
    """Return the numbers of a nested shape."""
    return (shape,) if isinstance(shape, int) else tuple(number for part in shape for number in flat(part))


def _nested(tokens: list[str]) -> Nested:
    found, left = _item(tokens)
    if left:
        raise ValueError
    return found


def _item(tokens: list[str]) -> tuple[Nested, list[str]]:
    if tokens[0] != "(":
        return int(tokens[0]), tokens[1:]
    items: list[Nested] = []
    left = tokens
    while left[0] in "(,":
        item, left = _item(left[1:])
        items.append(item)
    if left[0] != ")":
        raise ValueError
    return tuple(items), left[1:]


def _column_major(shape: Any, stride: Any) -> np.ndarray:
    """Return the offset of each index of one mode: its parts run with the leftmost fastest."""
    if isinstance(shape, int):
        if not isinstance(stride, int):
            raise TypeError
        return np.arange(shape, dtype=np.intp) * stride
    parts = [_column_major(s, d) for s, d in zip(shape, stride, strict=True)]
    total = np.zeros(1, np.intp)
    for part in parts:
        total = (part[:, None] + total[None, :]).reshape(-1)
    return total
