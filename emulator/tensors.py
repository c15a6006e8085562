"""Tensors of the launching program by name, and numbers from bits."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from .machine.formats.descriptors import E4M3, E5M2
from .machine.formats.numbers import bf16_from, table
from .machine.launch.globalmem import host_bytes
from .machine.launch.launch import Launch
from .machine.launch.names import demangled

PACKAGE: Final = Path(__file__).parent
TYPES: Final = {
    "f64": "f8", "f32": "f4", "f16": "f2", "bf16": "u2", "e4m3": "u1", "e5m2": "u1", "s64": "i8", "s32": "i4",
    "s16": "i2", "s8": "i1", "u64": "u8", "u32": "u4", "u16": "u2", "u8": "u1", "b64": "u8", "b32": "u4", "b16": "u2",
    "b8": "u1",
}  # fmt: skip
"""The numpy type of each type's bits."""
TORCH_TYPES: Final = {
    "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "float16": "f16", "float32": "f32",
    "float64": "f64", "int8": "s8", "uint8": "u8", "int16": "s16", "int32": "s32", "int64": "s64", "bool": "u8",
}  # fmt: skip
CPP_TYPES: Final = {
    "double": "f64", "__half": "f16", "__nv_bfloat16": "bf16", "__nv_fp8_e4m3": "e4m3", "__nv_fp8_e5m2": "e5m2",
    "int": "s32", "unsigned int": "u32", "long": "s64", "unsigned long": "u64", "long long": "s64",
    "unsigned long long": "u64", "short": "s16", "unsigned short": "u16", "char": "s8", "signed char": "s8",
    "unsigned char": "u8", "bool": "u8",
}  # fmt: skip
MANTISSA: Final = {"f64": 52, "f32": 23, "f16": 10, "bf16": 7, "e4m3": 3, "e5m2": 2}
"""The stored bits of each floating-point type's mantissa."""


def width_of(kind: str) -> int:
    """Return the bytes of a type. Raises ValueError for an unknown one."""
    if kind not in TYPES:
        raise ValueError(f"type {kind!r}; allowed: {', '.join(TYPES)}")
    return int(TYPES[kind][1:])


def numbers(bits: np.ndarray, kind: str) -> np.ndarray:
    """Return the values of unsigned integers that hold a type: integers as they are, floats as float64."""
    width = width_of(kind)
    raw = np.ascontiguousarray(bits).astype(f"u{width}", copy=False)
    if kind == "bf16":
        return bf16_from(raw).astype(np.float64)
    if kind in ("e4m3", "e5m2"):
        return table(E4M3 if kind == "e4m3" else E5M2).take(raw).astype(np.float64)
    found: np.ndarray = raw.view(TYPES[kind])
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return found.astype(np.float64) if kind.startswith("f") else found


def is_float(kind: str) -> bool:
    """Return whether a type is a floating-point one."""
    return kind in MANTISSA


def shown(value: Any, kind: str) -> str:
    """Return a number as text, with as many digits as its type has."""
    if not is_float(kind):
        return f"{int(value):#x}" if kind.startswith("b") else str(int(value))
    digits = {"f64": 17, "f32": 9, "f16": 5, "bf16": 4}.get(kind, 4)
    return f"{float(value):.{digits}g}"


@dataclass(frozen=True)
class NamedTensor:
    """A tensor of the launching program: element [i, j] lies at address + i * strides[0] + j * strides[1], in bytes.

    owner: the array itself, kept alive.
    """

    name: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    kind: str
    owner: Any

    @property
    def width(self) -> int:
        return width_of(self.kind)

    def at(self, index: tuple[int, ...]) -> int:
        """Return the address of an element."""
        return self.address + sum(i * stride for i, stride in zip(index, self.strides, strict=True))

    def index(self, address: int) -> tuple[int, ...] | None:
        """Return the index of the element that holds a byte, or None."""
        left = address - self.address
        found = [0] * len(self.shape)
        order = sorted(range(len(self.shape)), key=lambda i: -abs(self.strides[i]))
        for i in order:
            if self.strides[i] and self.shape[i] > 1:
                found[i], left = divmod(left, self.strides[i])
                if not 0 <= found[i] < self.shape[i]:
                    return None
        return tuple(found) if 0 <= left < self.width else None

    @property
    def span(self) -> tuple[int, int]:
        """The address of the first byte of an element, and the number of bytes up to the last one."""
        if 0 in self.shape:
            return self.address, 0
        ends = [(n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)]
        low = self.address + sum(min(0, end) for end in ends)
        return low, self.address + sum(max(0, end) for end in ends) + self.width - low

    def values(self, memory: np.ndarray | None = None) -> np.ndarray:
        """Return the tensor's numbers in its shape. memory: the bytes of its span; None for those that it has now."""
        low, size = self.span
        if not size:
            return numbers(np.zeros(self.shape, f"u{self.width}"), self.kind)
        memory = host_bytes(low, size) if memory is None else memory
        view: np.ndarray = np.ndarray(self.shape, f"u{self.width}", memory, self.address - low, self.strides)
        return numbers(view.copy(), self.kind).reshape(self.shape)


def named(name: str, value: Any) -> NamedTensor | None:
    """Return a numpy array or a torch tensor by its name; None for other values, or types without numbers."""
    if isinstance(value, np.ndarray):
        kinds = {"f": "f", "i": "s", "u": "u", "b": "u"}
        kind = f"{kinds.get(value.dtype.kind, '')}{8 * value.itemsize}"
        if kind not in TYPES:
            return None
        return NamedTensor(name, value.ctypes.data, value.shape, value.strides, kind, value)
    if callable(getattr(type(value), "untyped_storage", None)) and callable(getattr(type(value), "data_ptr", None)):
        kind = TORCH_TYPES.get(str(value.dtype).removeprefix("torch."), "")
        if not kind or value.layout != sys.modules["torch"].strided:
            return None
        strides = tuple(stride * value.element_size() for stride in value.stride())
        return NamedTensor(name, value.data_ptr(), tuple(value.shape), strides, kind, value)
    return None


def tensors_of_parameters(launch: Launch) -> dict[str, NamedTensor]:
    """Return the allocations to which pointers among a launch's parameters point, as args[0] and so on.

    Element types are those of the kernel's C++ signature, f32 where its name does not tell.
    """
    found: dict[str, NamedTensor] = {}
    types = parameters(launch.kernel.name)
    for i, param in enumerate(launch.kernel.params):
        if param.size != 8:
            continue
        address = int.from_bytes(host_bytes(launch.params_address + param.offset, 8).tobytes(), "little")
        home = next((a for a in launch.memory.allocations if a.address <= address < a.address + a.size), None)
        if home is not None:
            type_of = types[i].removesuffix(" const*").rstrip("*") if i < len(types) else "float"
            kind = CPP_TYPES.get(type_of, "f32")
            width = width_of(kind)
            count = (home.address + home.size - address) // width
            found[f"args[{i}]"] = NamedTensor(f"args[{i}]", address, (count,), (width,), kind, home)
    return found


def register_text(value: Any) -> str:
    """Return a register's value in one lane in hexadecimal, one of 32 bits also as float; a predicate as it is."""
    if value.dtype == bool or value.ndim:
        return str(value)
    text = f"{int(value):#x}"
    return f"{text} ({shown(numbers(value.reshape(1), 'f32')[0], 'f32')} as f32)" if value.itemsize == 4 else text


def tensors_of_callers() -> dict[str, NamedTensor]:
    """Return the tensors in the variables of the program that launches now, inner functions first, by name."""
    found: dict[str, NamedTensor] = {}
    seen: set[int] = set()
    frame = sys._getframe(1)
    while frame is not None:
        if not Path(frame.f_code.co_filename).is_relative_to(PACKAGE) and is_the_users(frame.f_code.co_filename):
            for scope in (frame.f_locals, frame.f_globals):
                if id(scope) not in seen:
                    seen.add(id(scope))
                    _add(found, scope)
        frame = frame.f_back  # type: ignore[assignment]
    return found


def _add(found: dict[str, NamedTensor], scope: Mapping[str, Any]) -> None:
    for name, value in list(scope.items()):
        if name.startswith("__") or name in found:
            continue
        for key, each in _members(name, value):
            tensor = named(key, each)
            if tensor is not None:
                found.setdefault(key, tensor)


def _members(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield name, value
    if isinstance(value, list | tuple) and len(value) <= 64:
        yield from ((f"{name}[{i}]", each) for i, each in enumerate(value))
    elif isinstance(value, dict) and len(value) <= 64:
        yield from ((str(key), each) for key, each in value.items() if isinstance(key, str))


def is_the_users(file: str) -> bool:
    """Return whether a file belongs to the user, and not to an installed package or to Python itself."""
    parts = Path(file).parts
    return "site-packages" not in parts and "dist-packages" not in parts and not file.startswith("<frozen")


def place(tensors: Mapping[str, NamedTensor], address: int) -> tuple[NamedTensor, tuple[int, ...]] | None:
    """Return the tensor that holds a byte, and the index of its element; None if no named tensor does.

    The smallest such tensor is chosen; among equals, the first by name.
    """
    best: tuple[int, NamedTensor, tuple[int, ...]] | None = None
    for tensor in tensors.values():
        index = tensor.index(address)
        size = int(np.prod(tensor.shape)) * tensor.width
        if index is not None and (best is None or size < best[0]):
            best = size, tensor, index
    return None if best is None else (best[1], best[2])


def element(tensor: NamedTensor, index: tuple[int, ...]) -> str:
    """Return an element as the source writes it, like o[3, 17]."""
    return f"{tensor.name}[{', '.join(map(str, index))}]"


def parameters(name: str) -> list[str]:
    """Return the types of a mangled function's parameters; none if the symbol does not tell."""
    text = demangled(name).rstrip()
    if not text.endswith(")"):
        return []
    found, depth = [""], 0
    for letter in reversed(text):
        depth += (letter in ")>") - (letter in "(<")
        if not depth:
            break
        if letter == "," and depth == 1:
            found.append("")
        elif not (letter == ")" and depth == 1 and found == [""]):
            found[-1] = letter + found[-1]
    return [each.strip() for each in reversed(found)]
