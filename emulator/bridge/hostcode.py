"""Load compiled CuTeDSL host functions from object code, linked to the emulated device's entry points."""

from __future__ import annotations

import ctypes
import tempfile
from pathlib import Path
from typing import Any, Final

import llvmlite.binding as llvm

from ..native.machine import host_machine
from .driver import NotEmulated, define_entry_points
from .elf import undefined_symbols

_PACKED: Final = "_mlir__mlir_ciface_"
_LINKER_OWN: Final = "_GLOBAL_OFFSET_TABLE_"


def object_code(compiled: Any) -> bytes:
    """Write the object file of a compiled function's host code and read it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "host.o")
        compiled.engine.dump_to_object_file(str(path))
        return path.read_bytes()


def linked(code: bytes) -> Any:
    """Load an object file into an llvmlite engine, linked to the emulated device's entry points."""
    define_entry_points([name for name in undefined_symbols(code) if name != _LINKER_OWN])
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), host_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


class HostCode:
    """A compiled function that can be called repeatedly."""

    def __init__(self, compiled: Any) -> None:
        if compiled.engine is None:
            raise NotEmulated(f"calling {compiled.function_name} is not emulated: it was compiled without host code")
        self._engine = linked(object_code(compiled))
        self._run = self._function(_PACKED + compiled.function_name)
        self._has_kernels = compiled.has_gpu_module
        self._library = ctypes.c_void_p()
        self._loaded = False

    def __call__(self, arguments: list[Any]) -> int:
        """Call the function with the addresses of its arguments and return its CUDA error code."""
        if self._has_kernels and not self._loaded:
            failure = self._load()
            if failure:
                return failure
        status = ctypes.c_int(0)
        self._run(_packed([_address(argument) for argument in arguments] + [ctypes.addressof(status)]))
        return status.value

    def _load(self) -> int:
        library, ordinal, status = ctypes.pointer(self._library), ctypes.c_int(0), ctypes.c_int(0)
        place, device, answer = map(ctypes.addressof, (library, ordinal, status))
        self._function("_mlir_cuda_init")(_packed([place, answer]))
        self._function("_mlir_cuda_load_to_device")(_packed([place, device, answer]))
        self._loaded = status.value == 0
        return status.value

    def _function(self, name: str) -> Any:
        return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._engine.get_function_address(name))


def _packed(addresses: list[int | None]) -> Any:
    return (ctypes.c_void_p * len(addresses))(*addresses)


def _address(argument: Any) -> int | None:
    return argument.value if isinstance(argument, ctypes.c_void_p) else ctypes.c_void_p(argument).value
