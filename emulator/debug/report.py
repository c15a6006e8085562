"""The reports of `blame`: which elements of an output are wrong, and what made one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..tensors import NamedTensor
from .blame import Blame, Wrong, find, wrong
from .recording import Recording
from .versions import ROUNDING, Versions


@dataclass(frozen=True)
class Question:
    """A question about an output.

    element: an index; None for the one with the largest error. rtol, atol: tolerated differences, None for defaults.
    launch: the number of a recorded launch; None for the last that wrote the output.
    """

    output: Any
    expected: Any = None
    element: tuple[int, ...] | None = None
    rtol: float | None = None
    atol: float | None = None
    launch: int | None = None


def report(
    recordings: Mapping[int, Recording], asked: Question, right: Mapping[int, Recording] | None = None
) -> Iterator[str]:
    """Yield the report. right: recordings of a right version of the program, to compare with. Raises ValueError."""
    recording, tensor = find(recordings, asked.output, asked.launch)
    other = None if right is None else find(right, asked.output, asked.launch)
    expected = asked.expected
    if expected is None and other is not None:
        expected = other[1].values()
    off = None if expected is None else wrong(tensor, expected, asked.rtol, asked.atol)
    if off is not None:
        yield _summary(tensor, off)
    if off is not None and not off.count and asked.element is None:
        return
    index = _element(tensor, off, asked.element)
    blame = Blame(recording, tensor, index)
    if other is not None:
        yield from Versions(blame, Blame(*other, index), ROUNDING if asked.rtol is None else asked.rtol).lines()
    yield from blame.lines(None if off is None else float(off.expected[index]))


def _summary(tensor: NamedTensor, off: Wrong) -> str:
    if not off.count:
        return f"{tensor.name} is as expected"
    factor = "" if off.factor is None else f", each about {off.factor:.5g} times what is expected"
    return f"{off.count} of {off.mask.size} elements of {tensor.name} are wrong: {tensor.name}[{off.where()}]{factor}"


def _element(tensor: NamedTensor, off: Wrong | None, element: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the element to explain. Raises ValueError."""
    if element is None:
        if off is None:
            raise ValueError("which element? give the expected output, a right version, or an element")
        return off.worst
    inside = len(element) == len(tensor.shape) and all(0 <= i < n for i, n in zip(element, tensor.shape, strict=True))
    if not inside:
        raise ValueError(f"element {element}; {tensor.name} has the shape {tensor.shape}")
    return element
