"""A compiled host function of CuTeDSL, loaded from its object code with the emulated device's entry points."""

from __future__ import annotations

import ctypes
import tempfile
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from emulator.bridge.driver import Device, NotEmulated, define_entry_points
from emulator.bridge.objectfile import undefined_symbols
from emulator.native.compile import host_machine

_PACKED = "_mlir__mlir_ciface_"


class HostCode:
    """One compiled function, any number of calls."""

    def __init__(self, compiled: Any) -> None:
        if compiled.engine is None:
            raise NotEmulated(f"a call of {compiled.function_name} is not emulated: it was compiled without host code")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "host.o")
            compiled.engine.dump_to_object_file(str(path))
            define_entry_points(undefined_symbols(path.read_bytes()))
            self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), host_machine())
            self._engine.add_object_file(str(path))
            self._engine.finalize_object()
        self._run = self._function(_PACKED + compiled.function_name)
        self._has_kernels = compiled.has_gpu_module
        self._library = ctypes.c_void_p()
        self._loaded = False

    def __call__(self, device: Device, arguments: list[Any]) -> int:
        """Call the function with addresses of its arguments; its CUDA error code. Raises what the device raised."""
        if self._has_kernels and not self._loaded:
            self._load(device)
        status = ctypes.c_int(0)
        packed = [_address(argument) for argument in arguments]
        self._call(device, self._run, *packed, ctypes.addressof(status))
        return status.value

    def _load(self, device: Device) -> None:
        library = ctypes.pointer(ctypes.pointer(self._library))
        ordinal, status = ctypes.pointer(ctypes.c_int(0)), ctypes.pointer(ctypes.c_int(0))
        self._call(device, self._function("_mlir_cuda_init"), *map(_reference, (library, status)))
        self._call(device, self._function("_mlir_cuda_load_to_device"), *map(_reference, (library, ordinal, status)))
        self._loaded = True

    def _function(self, name: str) -> Any:
        return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._engine.get_function_address(name))

    def _call(self, device: Device, function: Any, *packed: int | None) -> None:
        device.error = None
        function((ctypes.c_void_p * len(packed))(*packed))
        error, device.error = device.error, None
        if error is not None:
            raise error


def _address(argument: Any) -> int | None:
    return argument.value if isinstance(argument, ctypes.c_void_p) else ctypes.c_void_p(argument).value


def _reference(pointer: Any) -> int | None:
    return ctypes.cast(pointer, ctypes.c_void_p).value
