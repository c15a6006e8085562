"""Guarded and gapped tensors: they show accesses outside a tensor, and output elements that were not written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

import kernel

GUARD = 1024  # elements on either side of an output; a multiple of every head dim, which keeps the alignment
GUARD_VALUE = -7.25  # exact in bf16; a kernel that overwrites guards writes other values
ROW_GAP = 8  # elements after every row of a strided tensor: 16 bytes of bf16, as TMA requires
BATCH_GAP = 3  # rows after every sequence of a strided tensor


class WroteOutside(AssertionError):
    """Guard elements around an output changed, or bytes of an input or between its slices."""


@dataclass(frozen=True)
class Poisoned:
    """Outputs filled with NaN, each inside a buffer with guard elements before it, after it and in its gaps."""

    attention: kernel.Attention
    wholes: dict[str, torch.Tensor]

    @staticmethod
    def like(
        q: torch.Tensor, partials: bool, strided: bool = False, flat: bool = False, maxima: bool = False
    ) -> Poisoned:
        """Make buffers for the outputs of q [batch, tokens, heads, head_dim], on its device.

        strided: add gaps after rows and sequences. flat: add gaps after rows only, so that batch and tokens can be
        viewed as one dimension. maxima: m is an output, without u.
        """
        shapes = {"o": (q.shape, torch.bfloat16), "lse": (q.shape[:3], torch.float32)}
        if partials:
            shapes |= {"u": (q.shape, torch.float32), "m": (q.shape[:3], torch.float32)}
        if maxima:
            shapes |= {"m": (q.shape[:3], torch.float32)}
        wholes, views = {}, {}
        for name, (shape, dtype) in shapes.items():
            strides = gapped_strides(shape, flat, rows=len(shape) == 4) if strided else dense_strides(shape)
            length = extent(shape, strides)
            whole = torch.full((length + 2 * GUARD,), GUARD_VALUE, dtype=dtype, device=q.device)
            wholes[name] = whole
            views[name] = whole.as_strided(shape, strides, GUARD).fill_(torch.nan)
        return Poisoned(kernel.Attention(**views), wholes)

    def check_guards(self) -> None:
        """Check the guards. Raises WroteOutside naming the output and the guard elements that were overwritten."""
        for name, whole in self.wholes.items():
            output = getattr(self.attention, name)
            outside = torch.ones_like(whole, dtype=torch.bool)
            outside.as_strided(output.shape, output.stride(), GUARD).fill_(False)
            touched = ((whole != GUARD_VALUE) & outside).nonzero()[:, 0] - GUARD
            end = len(whole) - 2 * GUARD
            before, after = touched < 0, touched >= end
            places = {
                f"of the {GUARD} elements before": touched[before] + GUARD,
                f"of the {GUARD} elements after": touched[after] - end,
                "elements in the gaps of": touched[~before & ~after],
            }
            for place, elements in places.items():
                if len(elements):
                    count = f"{len(elements)} {place} {name} were overwritten"
                    raise WroteOutside(f"{count}: elements {int(elements[0])} to {int(elements[-1])}")


def bytes_of(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the bytes of the memory of each tensor, uint8 [bytes]: with guards, and what lies between slices."""
    return {name: memory_of(tensor, torch.uint8) for name, tensor in tensors.items()}


def check_inputs(before: Mapping[str, torch.Tensor], tensors: Mapping[str, torch.Tensor]) -> None:
    """Compare the memory of inputs with `before`, copies of its bytes. Raises WroteOutside naming the first change."""
    for name, now in bytes_of(tensors).items():
        if not torch.equal(now, before[name]):
            changed = (now != before[name]).nonzero()[:, 0]
            place = f"bytes {int(changed[0])} to {int(changed[-1])} of its memory"
            raise WroteOutside(f"{len(changed)} bytes of the input {name}, or between its slices, changed: {place}")


def moved(tensor: torch.Tensor, torch_device: str) -> torch.Tensor:
    """Return a tensor on a device, in a copy of its whole memory: strides and offset stay, and what lies around it."""
    whole = memory_of(tensor, tensor.dtype).to(torch_device)
    return whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def memory_of(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the whole memory of a tensor as elements of a dtype, [elements]. It is not copied."""
    return torch.empty(0, dtype=dtype, device=tensor.device).set_(tensor.untyped_storage())


def gapped(tensor: torch.Tensor, flat: bool) -> torch.Tensor:
    """Copy a tensor [batch, ..., head_dim] into a strided slice of a larger tensor of NaN.

    flat: gaps only after rows.
    """
    strides = gapped_strides(tensor.shape, flat)
    size = extent(tensor.shape, strides) + 2 * GUARD
    whole = torch.full((size,), torch.nan, dtype=tensor.dtype, device=tensor.device)
    return whole.as_strided(tensor.shape, strides, GUARD).copy_(tensor)


def gapped_strides(shape: torch.Size, flat: bool, rows: bool = True) -> tuple[int, ...]:
    """Return strides with a gap after every row, if `rows`, and after every sequence, unless `flat`."""
    row = shape[-1] + ROW_GAP * rows
    inner = dense_strides(torch.Size((*shape[1:-1], row))) if rows else dense_strides(shape[1:])
    return (shape[1] * inner[0] + (0 if flat else BATCH_GAP * (row if rows else 1)), *inner)


def dense_strides(shape: torch.Size) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor."""
    return torch.empty(shape, device="meta").stride()


def extent(shape: torch.Size, strides: tuple[int, ...]) -> int:
    """Return the number of elements from the first to the last of a tensor, both included; 0 if it is empty."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
