"""The CUDA driver and runtime entry points that compiled host functions call, implemented by the current device.

An exception cannot pass through compiled code. It is stored on the device, the entry point returns a CUDA error code,
and the caller of the host function raises the stored exception. A cooperative launch that is too large is only a CUDA
error, because programs probe for it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import llvmlite.binding as llvm

from ..errors import CooperativeLaunchTooLarge, EmulatorError
from .launchconfig import LaunchConfig
from .prototypes import Prototype, prototype

SUCCESS: Final = 0
LAUNCH_FAILURE: Final = 719
COOPERATIVE_LAUNCH_TOO_LARGE: Final = 720
_POINTER, _INT, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t


class NotEmulated(EmulatorError):
    """An unsupported feature of CUDA or CuTeDSL. The message names the feature and the reason."""


class Device(Protocol):
    """The interface of the emulated device that the entry points use. Handles are small integers."""

    error: BaseException | None

    def fail(self, error: BaseException) -> None:
        """Record an error of a launch."""

    def load_library(self) -> int:
        """Return the handle of the module that is being loaded."""

    def kernel(self, library: int, name: str) -> int:
        """Return the handle of a kernel."""

    def kernel_attribute(self, kernel: int, attribute: int) -> int:
        """Return a CUfunction_attribute."""

    def device_attribute(self, attribute: int) -> int:
        """Return a cudaDeviceAttr."""

    def set_kernel_attribute(self, kernel: int, attribute: int, value: int) -> None:
        """Set a cudaFuncAttribute."""

    def launch(self, kernel: int, config: LaunchConfig, arguments: int) -> None:
        """Run a kernel. arguments: the address of the array of pointers to its parameters."""

    def encode_tensor_map(self, *fields: Any) -> None:
        """Write a tensor map, as cuTensorMapEncodeTiled does."""

    def encode_im2col_map(self, *fields: Any) -> None:
        """Write a tensor map, as cuTensorMapEncodeIm2col does."""


_current: list[Device] = []


def make_current(device: Device) -> None:
    """Make this device receive calls until `release`."""
    _current.append(device)


def release(device: Device) -> None:
    """Undo the last `make_current`, which must have been for this device."""
    if not _current or _current[-1] is not device:
        raise RuntimeError("emulated devices must be left in the reverse order of entering them")
    _current.pop()


def current() -> Device | None:
    """Return the innermost current device, None if there is none."""
    return _current[-1] if _current else None


def is_entered() -> bool:
    """Return True inside `emulate()`: launches run on the emulated device, on CPU tensors."""
    return bool(_current)


def _put(address: int, kind: Any, value: int) -> None:
    kind.from_address(address).value = value


def _load(device: Device, library: int, *_: Any) -> None:
    _put(library, _SIZE, device.load_library())


def _get_kernel(device: Device, kernel: int, library: int, name: int) -> None:
    _put(kernel, _SIZE, device.kernel(library, ctypes.string_at(name).decode()))


def _kernel_attribute(device: Device, value: int, attribute: int, kernel: int, _: int) -> None:
    _put(value, _INT, device.kernel_attribute(kernel, attribute))


def _device(_: Device, ordinal: int) -> None:
    _put(ordinal, _INT, 0)


def _device_attribute(device: Device, value: int, attribute: int, _: int) -> None:
    _put(value, _INT, device.device_attribute(attribute))


def _set_attribute(device: Device, kernel: int, attribute: int, value: int, *_: int) -> None:
    device.set_kernel_attribute(kernel, attribute, value)


def _launch(device: Device, config: int, kernel: int, arguments: int) -> None:
    device.launch(kernel, LaunchConfig.read(config), arguments)


def _encode(device: Device, *fields: Any) -> None:
    device.encode_tensor_map(*fields)


def _encode_im2col(device: Device, *fields: Any) -> None:
    device.encode_im2col_map(*fields)


def callback(function: Callable[..., int | None], types: Prototype) -> Any:
    """Make a C function from one that returns its result, or None for 0. An exception becomes a CUDA error code.

    The device records every error and keeps the first exception, to be raised where Python can see it.
    """

    def call(*arguments: Any) -> int:
        try:
            return function(*arguments) or SUCCESS
        except CooperativeLaunchTooLarge:
            return COOPERATIVE_LAUNCH_TOO_LARGE
        except BaseException as error:
            device = current()
            if device is None:
                raise
            device.fail(error)
            if device.error is None:
                device.error = error
            elif not isinstance(error, EmulatorError):
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return LAUNCH_FAILURE

    return ctypes.CFUNCTYPE(types.result, *types.parameters)(call)


def _entry_point(name: str, function: Callable[..., None]) -> Any:
    return callback(lambda *arguments: function(_current[-1], *arguments), prototype(name))


_FUNCTIONS: Final[dict[str, Callable[..., None]]] = {
    "cudaLibraryLoadData": _load,
    "cudaLibraryGetKernel": _get_kernel,
    "cuKernelGetAttribute": _kernel_attribute,
    "cudaGetDevice": _device,
    "cudaDeviceGetAttribute": _device_attribute,
    "cudaFuncSetAttribute": _set_attribute,
    "cudaKernelSetAttributeForDevice": _set_attribute,
    "cuTensorMapEncodeTiled": _encode,
    "cuTensorMapEncodeIm2col": _encode_im2col,
}
_ENTRY_POINTS: Final = {f"_{name}": _entry_point(name, function) for name, function in _FUNCTIONS.items()} | {
    "_cudaLaunchKernelEx": _entry_point("cudaLaunchKernelExC", _launch)
}
"""CuTeDSL's host code calls CUDA's functions by names with an underscore."""


def define_entry_points(needed: Sequence[str]) -> None:
    """Register the entry points with llvmlite's linker. Raises NotEmulated for a name that is defined nowhere."""
    for name in needed:
        if name in _ENTRY_POINTS:
            llvm.add_symbol(name, ctypes.cast(_ENTRY_POINTS[name], _POINTER).value)
        elif not llvm.address_of_symbol(name) and not hasattr(ctypes.CDLL(None), name):
            raise NotEmulated(f"{name}, which the compiled host function calls, is not emulated")
