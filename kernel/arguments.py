"""The table of kernel arguments: name, dtype, rank, the configurations that have it, and its meaning.

An argument takes a row here, a value in `kernel.host`, and its use on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import cutlass
import cutlass.cute as cute
import torch
from cutlass import BFloat16, Float32, Int32
from cutlass.cute.runtime import from_dlpack, make_fake_tensor

from kernel.problem import Features

TMA_ALIGN_BYTES = 16  # alignment of addresses and strides that a tensor map requires


@dataclass(frozen=True)
class Spec:
    """A kernel argument: a row-major tensor with a dimension per word of `dims`, or a scalar if `dims` is empty.

    mapped: a tensor map describes it, for TMA. when: true for configurations that have it; for others it is None.
    """

    dtype: type[cutlass.Numeric]
    dims: str
    mapped: bool
    when: Callable[[Features], bool]

    @property
    def rank(self) -> int:
        """Number of dimensions; 0 is a scalar."""
        return len(self.dims.split())

    @property
    def align_bytes(self) -> int:
        """Alignment of the first element and of the strides, in bytes."""
        return TMA_ALIGN_BYTES if self.mapped else self.dtype.width // 8

    def fake(self) -> Any:
        """Return the placeholder with which the kernel is compiled.

        All of a tensor's shape is symbolic, even the head dim: a launch passes whole shapes and strides, and the layout
        that the compiled function reads must be the one that is passed.
        """
        if self.rank == 0:
            return self.dtype(0)
        unit = self.align_bytes * 8 // self.dtype.width
        shape = tuple(cute.sym_int() for _ in range(self.rank))
        strides = tuple(cute.sym_int64(divisibility=unit) for _ in range(self.rank - 1))
        return make_fake_tensor(self.dtype, shape, (*strides, 1), assumed_align=self.align_bytes)

    def bind(self, value: Any) -> Any:
        """Convert a torch tensor or a number for CuTeDSL, which reads shape and strides at the launch."""
        if self.rank == 0:
            return self.dtype(value)
        tensor = from_dlpack(value.detach(), assumed_align=self.align_bytes)
        return tensor.mark_layout_dynamic(leading_dim=self.rank - 1)


def argument(
    dtype: type[cutlass.Numeric],
    dims: str = "",
    mapped: bool = False,
    when: Callable[[Features], bool] = lambda config: True,
) -> Any:
    """Declare a row of a table, with the fields of Spec."""
    return field(metadata={"spec": Spec(dtype, dims, mapped, when)})


def partials(config: Features) -> bool:
    """Return whether a configuration writes U and m."""
    return config.partials


def compressed(config: Features) -> bool:
    """Return whether a configuration has compressed keys."""
    return config.compressed != "none"


def topk(config: Features) -> bool:
    """Return whether tokens have top-k indices."""
    return config.compressed == "topk"


@dataclass(frozen=True)
class Operands:
    """Tensors that TMA moves: G groups of R rows (see RowTile), B sequences of S keys, head dim D."""

    q: Any = argument(BFloat16, "G R D", mapped=True)
    k: Any = argument(BFloat16, "B S D", mapped=True)
    v: Any = argument(BFloat16, "B S D", mapped=True)  # k again if V is K
    o: Any = argument(BFloat16, "G R D", mapped=True)
    u: Any = argument(Float32, "G R D", mapped=True, when=partials)
    compressed: Any = argument(BFloat16, "B S_c D", mapped=True, when=compressed)  # [1, B * S_c, D] with top-k indices


@dataclass(frozen=True)
class Arguments:
    """Tensors that threads read and write, and scalars."""

    lse: Any = argument(Float32, "G R")
    m: Any = argument(Float32, "G R", when=partials)
    sink: Any = argument(Float32, "H", when=lambda config: config.sink)
    lens: Any = argument(Int32, "B", when=lambda config: config.mask != "none")  # keys that hold something
    # tokens of the sequence up to its last query
    positions: Any = argument(Int32, "B", when=lambda config: config.compressed == "blocks")
    topk_indices: Any = argument(Int32, "G K", when=topk)
    topk_lens: Any = argument(Int32, "G", when=topk)  # indices that count
    rows: Any = argument(Int32)  # R
    heads: Any = argument(Int32)  # H
    tokens: Any = argument(Int32)  # queries of a sequence
    keys: Any = argument(Int32)  # S
    window: Any = argument(Int32)  # maximum of keys that a query sees, its own included
    compressed_keys: Any = argument(Int32)  # S_c
    ratio: Any = argument(Int32)  # tokens of a compressed block
    ctas: Any = argument(Int32)  # maximum of CTAs in the grid, unless keys are split
    scale_log2: Any = argument(Float32)  # factor from raw logits to exponents of two


Table = TypeVar("Table", Operands, Arguments)


def fakes(table: type[Table], config: Features) -> Table:
    """Return the placeholders with which a configuration is compiled."""
    return _filled(table, config, lambda name, spec: spec.fake())


def bound(table: type[Table], config: Features, values: Mapping[str, torch.Tensor | float | None]) -> Table:
    """Return the arguments of a launch, from torch tensors and numbers by name."""
    return _filled(table, config, lambda name, spec: spec.bind(values[name]))


def _filled(table: type[Table], config: Features, make: Callable[[str, Spec], Any]) -> Table:
    rows = {row.name: row.metadata["spec"] for row in fields(table)}
    return table(**{name: make(name, spec) if spec.when(config) else None for name, spec in rows.items()})
