"""The table of kernel arguments: name, dtype, rank, the configurations that have it, and its meaning.

An argument takes a row here, a value in `kernel.host`, and its use on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int32, Int64, Uint8
from cutlass.cute.runtime import make_fake_tensor

from kernel.problem import CacheKind, Features

TMA_ALIGN_BYTES = 16  # alignment of addresses and strides that a tensor map requires


@dataclass(frozen=True)
class Spec:
    """A kernel argument: a row-major tensor with a dimension per word of `dims`, or a scalar if `dims` is empty.

    aligned: address and strides are multiples of 16 bytes, as tensor maps and copies of 16 bytes require. when: true
    for configurations that have it; for others it is None.
    """

    dtype: type[cutlass.Numeric]
    dims: str
    aligned: bool
    when: Callable[[Features], bool]

    def of(self, config: Features) -> Spec:
        """Return the argument for a configuration: of flat tensors, and with pages of bf16 or bytes."""
        dims = self.dims.replace("B T H", "T H").replace("N 1", "N") if config.flat else self.dims
        dtype = BFloat16 if self.dtype is Uint8 and not config.quantised else self.dtype
        return replace(self, dims=dims, dtype=dtype)

    @property
    def rank(self) -> int:
        """Number of dimensions; 0 is a scalar."""
        return len(self.dims.split())

    @property
    def align_bytes(self) -> int:
        """Alignment of the first element and of the strides, in bytes."""
        return TMA_ALIGN_BYTES if self.aligned else self.dtype.width // 8

    def fake(self) -> Any:
        """Return the placeholder with which the kernel is compiled.

        All of a tensor's shape is symbolic, even the head dim: a launch passes whole shapes and strides, and the layout
        that the compiled function reads must be the one that is passed.
        """
        if self.rank == 0:
            return self.dtype(0)
        unit = self.align_bytes * 8 // self.dtype.width
        shape = tuple(cute.sym_int() for _ in range(self.rank))
        units = [unit] + [1 if self.dims.startswith("P") else unit] * (self.rank - 2)  # keys of a page may be 584 bytes
        strides = tuple(cute.sym_int64(divisibility=each) for each in units[: self.rank - 1])
        return make_fake_tensor(self.dtype, shape, (*strides, 1), assumed_align=self.align_bytes)


def argument(
    dtype: type[cutlass.Numeric],
    dims: str = "",
    aligned: bool = False,
    when: Callable[[Features], bool] = lambda config: True,
) -> Any:
    """Declare a row of a table: the default of a field is its Spec."""
    return Spec(dtype, dims, aligned, when)


def partials(config: Features) -> bool:
    """Return whether a configuration writes U."""
    return config.partials


def maxima(config: Features) -> bool:
    """Return whether a configuration writes m."""
    return config.partials or config.maxima


def dense(config: Features) -> bool:
    """Return whether a configuration has keys in a tensor, not in caches."""
    return not config.caches


def cached(number: int, what: Callable[[CacheKind], bool] = lambda kind: True) -> Callable[[Features], bool]:
    """Return whether a configuration has cache `number`, of a kind for which `what` is true."""
    return lambda config: number < len(config.caches) and what(config.caches[number])


def listed(kind: CacheKind) -> bool:
    """Return whether indices list the keys of a kind of cache."""
    return not kind.table


def counted(kind: CacheKind) -> bool:
    """Return whether a kind of cache has lengths."""
    return kind.lens


def compressed(config: Features) -> bool:
    """Return whether a configuration has compressed keys."""
    return config.compressed != "none"


def topk(config: Features) -> bool:
    """Return whether tokens have top-k indices."""
    return config.compressed == "topk"


class Operands(NamedTuple):
    """Tensors that TMA moves: T tokens of H heads in B sequences of S keys, head dim D. Flat ones have no B."""

    q: Any = argument(BFloat16, "B T H D", aligned=True)
    k: Any = argument(BFloat16, "B S D", aligned=True, when=dense)
    v: Any = argument(BFloat16, "B S D", aligned=True, when=lambda config: dense(config) and not config.shared_kv)
    o: Any = argument(BFloat16, "B T H D", aligned=True)
    u: Any = argument(Float32, "B T H D", aligned=True, when=partials)
    compressed: Any = argument(BFloat16, "B S_c D", aligned=True, when=compressed)


class Arguments(NamedTuple):
    """Tensors that threads read and write, and scalars."""

    lse: Any = argument(Float32, "B T H")
    m: Any = argument(Float32, "B T H", when=maxima)
    sink: Any = argument(Float32, "H", when=lambda config: config.sink)
    lens: Any = argument(Int32, "B", when=lambda config: config.mask != "none")  # keys that hold something
    # tokens of the sequence up to its last query
    positions: Any = argument(Int32, "B", when=lambda config: config.compressed == "blocks")
    topk_indices: Any = argument(Int32, "B T K", when=topk)
    topk_lens: Any = argument(Int32, "B T", when=topk)  # indices that count
    # Caches: pages of keys (a flat tensor has S pages of one key); indices of each token (flat: [T, 1, K]), or the
    # pages of each sequence; how many keys count, for a sequence or its tokens, with the numbers from a sequence to the
    # next and of a sequence; keys in all pages, keys of a page, and bytes from a key to the next in its page.
    main: Any = argument(Uint8, "P N 1 X", aligned=True, when=cached(0))
    main_indices: Any = argument(Int32, "B T K", when=cached(0, listed))
    main_table: Any = argument(Int32, "B N", when=cached(0, lambda kind: kind.table))
    main_lens: Any = argument(Int32, "L", when=cached(0, counted))
    main_lens_step: Any = argument(Int64, when=cached(0, counted))
    main_lens_tokens: Any = argument(Int32, when=cached(0, counted))
    main_keys: Any = argument(Int32, when=cached(0))
    main_page: Any = argument(Int32, when=cached(0))
    main_row: Any = argument(Int32, when=cached(0))
    extra: Any = argument(Uint8, "P N 1 X", aligned=True, when=cached(1))
    extra_indices: Any = argument(Int32, "B T K", when=cached(1))
    extra_lens: Any = argument(Int32, "L", when=cached(1, counted))
    extra_lens_step: Any = argument(Int64, when=cached(1, counted))
    extra_lens_tokens: Any = argument(Int32, when=cached(1, counted))
    extra_keys: Any = argument(Int32, when=cached(1))
    extra_page: Any = argument(Int32, when=cached(1))
    extra_row: Any = argument(Int32, when=cached(1))
    empty_lse: Any = argument(Float32, when=lambda config: bool(config.caches))  # lse of a row that sees no key
    rows: Any = argument(Int32)  # of a group: of a sequence, or of a token if tokens have keys of their own
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
    return filled(table, config, lambda name, spec: spec.fake())


def filled(table: type[Table], config: Features, make: Callable[[str, Spec], Any]) -> Table:
    """Return a table with values from `make` for the arguments that a configuration has, None for others."""
    rows: Mapping[str, Spec] = table._field_defaults
    return table(**{name: make(name, spec.of(config)) if spec.when(config) else None for name, spec in rows.items()})
