"""libcublas.so: cuBLASLt's matrix products computed by torch, for programs that compare their results with them."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any, Final

from ..bridge.driver import put
from .c_library import FLOAT, INT, LONG, CLibrary, entry
from .captures import new_handle
from .errors import not_emulated

_TYPES: Final = {0: "float32", 1: "float64", 2: "float16", 14: "bfloat16", 28: "float8_e4m3fn", 29: "float8_e5m2"}
"""The name of torch's dtype by cudaDataType."""
_TRANSPOSE_A, _TRANSPOSE_B = 3, 4
_PLAIN: Final = frozenset(range(5)) | {25}
"""The supported cublasLtMatmulDesc attributes: types, pointer mode, transposition, fast accumulation."""
_RESULT_BYTES: Final = 96
"""Size of a cublasLtMatmulHeuristicResult_t. All zeros means success without a workspace."""


@dataclass(frozen=True)
class _Layout:
    """A column-major matrix."""

    kind: int
    rows: int
    columns: int
    leading: int

    def at(self, address: int) -> Any:
        """Return the matrix at an address, a torch.Tensor."""
        if self.kind not in _TYPES:
            raise not_emulated(f"cublasLtMatmul of cudaDataType {self.kind}", f"known are {sorted(_TYPES)}")
        import torch

        dtype = getattr(torch, _TYPES[self.kind])
        count = self.leading * (self.columns - 1) + self.rows
        memory = (ctypes.c_byte * (count * dtype.itemsize)).from_address(address)
        return torch.frombuffer(memory, dtype=dtype).as_strided((self.rows, self.columns), (1, self.leading))


@dataclass
class _Product:
    """A cublasLtMatmulDesc: its attributes by number."""

    scale: int
    attributes: dict[int, int] = field(default_factory=dict)

    def factor(self, address: int) -> float:
        """Return alpha or beta from its host address."""
        kind = ctypes.c_double if _TYPES[self.scale] == "float64" else FLOAT
        return float(kind.from_address(address).value)


class LibCublas(CLibrary):
    """cuBLASLt's matrix products."""

    sonames = ("libcublas.so",)
    quiet = ("cublasLtDestroy", "cublasLtMatmulPreferenceDestroy", "cublasLtMatmulPreferenceSetAttribute")

    def __init__(self) -> None:
        self._layouts: dict[int, _Layout] = {}
        self._products: dict[int, _Product] = {}
        super().__init__()

    @entry("cublasLtCreate", "cublasLtMatmulPreferenceCreate")
    def create(self, handle: int) -> None:
        put(handle, LONG, new_handle())

    @entry("cublasLtMatrixLayoutCreate")
    def create_layout(self, handle: int, kind: int, rows: int, columns: int, leading: int) -> None:
        put(handle, LONG, known := new_handle())
        self._layouts[known] = _Layout(kind, rows, columns, leading)

    @entry("cublasLtMatrixLayoutDestroy")
    def destroy_layout(self, handle: int) -> None:
        self._layouts.pop(handle, None)

    @entry("cublasLtMatmulDescCreate")
    def create_product(self, handle: int, _compute: int, scale: int) -> None:
        put(handle, LONG, known := new_handle())
        self._products[known] = _Product(scale)

    @entry("cublasLtMatmulDescDestroy")
    def destroy_product(self, handle: int) -> None:
        self._products.pop(handle, None)

    @entry("cublasLtMatmulDescSetAttribute")
    def set_attribute(self, product: int, attribute: int, value: int, size: int) -> None:
        if attribute not in _PLAIN:
            why = "block scale factors and epilogues are not supported"
            raise not_emulated(f"attribute {attribute} of a cuBLASLt matmul", why)
        given = int.from_bytes(ctypes.string_at(value, size), "little")
        self._products[product].attributes[attribute] = given

    @entry("cublasLtMatmulAlgoGetHeuristic")
    def algorithm(self, *arguments: int) -> None:
        results, found = arguments[-2:]
        ctypes.memset(results, 0, _RESULT_BYTES)
        put(found, INT, 1)

    @entry("cublasLtMatmul")
    def multiply(self, _library: int, product: int, *given: int) -> None:
        alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, _algorithm, _space, _size, stream = given
        description, layouts = self._products[product], self._layouts
        left, right = layouts[a_layout].at(a), layouts[b_layout].at(b)
        added, result = layouts[c_layout].at(c), layouts[d_layout].at(d)
        product_factor, added_factor = description.factor(alpha), description.factor(beta)

        def work() -> None:
            wide = result.dtype if result.dtype.itemsize == ctypes.sizeof(ctypes.c_double) else result.float().dtype
            first = left.T if description.attributes.get(_TRANSPOSE_A) else left
            second = right.T if description.attributes.get(_TRANSPOSE_B) else right
            sums = product_factor * (first.to(wide) @ second.to(wide))
            result.copy_(sums + added_factor * added.to(wide) if added_factor else sums)

        self.session.captures.submit(stream, work)
