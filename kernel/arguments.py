"""The kernel's arguments, once: what each is called, its dtype and rank, when it is there, and what it means.

A row here, its value in `kernel.host.launch` and its use on the device is all that an argument takes.
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

from kernel.config import FmhaConfig

TMA_ALIGN_BYTES = 16  # what a tensor map asks of addresses and strides


@dataclass(frozen=True)
class Spec:
    """A kernel argument: a row-major tensor with a dimension for each word of `dims`, or a scalar where that is empty.

    mapped: TMA moves it, by a tensor map. when: whether a configuration has it; without it the argument is None.
    """

    dtype: type[cutlass.Numeric]
    dims: str
    mapped: bool
    when: Callable[[FmhaConfig], bool]

    @property
    def rank(self) -> int:
        return len(self.dims.split())

    @property
    def align_bytes(self) -> int:
        return TMA_ALIGN_BYTES if self.mapped else self.dtype.width // 8

    def fake(self) -> Any:
        """What stands for the argument when the kernel is compiled.

        Nothing of a tensor's shape is fixed, head dim included: a launch passes whole shapes and strides, and what is
        read must be laid out as what is passed.
        """
        if self.rank == 0:
            return self.dtype(0)
        unit = self.align_bytes * 8 // self.dtype.width
        shape = tuple(cute.sym_int() for _ in range(self.rank))
        strides = tuple(cute.sym_int64(divisibility=unit) for _ in range(self.rank - 1))
        return make_fake_tensor(self.dtype, shape, (*strides, 1), assumed_align=self.align_bytes)

    def bind(self, value: Any) -> Any:
        """`value`, a torch tensor or a number, as CuTeDSL takes it; shape and strides are read at the launch."""
        if self.rank == 0:
            return self.dtype(value)
        tensor = from_dlpack(value.detach(), assumed_align=self.align_bytes)
        return tensor.mark_layout_dynamic(leading_dim=self.rank - 1)


def argument(
    dtype: type[cutlass.Numeric],
    dims: str = "",
    mapped: bool = False,
    when: Callable[[FmhaConfig], bool] = lambda config: True,
) -> Any:
    return field(metadata={"spec": Spec(dtype, dims, mapped, when)})


def partials(config: FmhaConfig) -> bool:
    return config.partials


def compressed(config: FmhaConfig) -> bool:
    return config.compressed != "none"


def topk(config: FmhaConfig) -> bool:
    return config.compressed == "topk"


@dataclass(frozen=True)
class Operands:
    """What TMA moves. G groups of R rows: see RowTile. B sequences of S keys, D the head dim."""

    q: Any = argument(BFloat16, "G R D", mapped=True)
    k: Any = argument(BFloat16, "B S D", mapped=True)
    v: Any = argument(BFloat16, "B S D", mapped=True)  # k again where V is K
    o: Any = argument(BFloat16, "G R D", mapped=True)
    u: Any = argument(Float32, "G R D", mapped=True, when=partials)
    compressed: Any = argument(BFloat16, "B S_c D", mapped=True, when=compressed)  # [1, B * S_c, D] where listed


@dataclass(frozen=True)
class Arguments:
    """What the device reads and writes itself."""

    lse: Any = argument(Float32, "G R")
    m: Any = argument(Float32, "G R", when=partials)
    sink: Any = argument(Float32, "H", when=lambda config: config.sink)
    lens: Any = argument(Int32, "B", when=lambda config: config.mask != "none")  # keys that hold something
    # tokens of the sequence up to the last query's
    positions: Any = argument(Int32, "B", when=lambda config: config.compressed == "blocks")
    topk_indices: Any = argument(Int32, "G K", when=topk)
    topk_lens: Any = argument(Int32, "G", when=topk)  # how many indices count
    rows: Any = argument(Int32)  # R
    heads: Any = argument(Int32)  # H
    tokens: Any = argument(Int32)  # queries of a sequence
    keys: Any = argument(Int32)  # S
    window: Any = argument(Int32)  # keys that a query sees at most, its own included
    compressed_keys: Any = argument(Int32)  # S_c
    ratio: Any = argument(Int32)  # tokens of a compressed block
    ctas: Any = argument(Int32)  # of the grid at most, where keys are not split
    scale_log2: Any = argument(Float32)  # what logits are multiplied by, for exponents of two


Table = TypeVar("Table", Operands, Arguments)


def fakes(table: type[Table], config: FmhaConfig) -> Table:
    """The arguments that a configuration is compiled with."""
    return _filled(table, config, lambda name, spec: spec.fake())


def bound(table: type[Table], config: FmhaConfig, values: Mapping[str, torch.Tensor | float | None]) -> Table:
    """The arguments of a launch, from torch tensors and numbers by name."""
    return _filled(table, config, lambda name, spec: spec.bind(values[name]))


def _filled(table: type[Table], config: FmhaConfig, make: Callable[[str, Spec], Any]) -> Table:
    rows = {row.name: row.metadata["spec"] for row in fields(table)}
    return table(**{name: make(name, spec) if spec.when(config) else None for name, spec in rows.items()})
