"""The entry points of the CUDA driver and runtime that compiled host functions call, answered by the emulated device.

Every call goes to the device that is `current`. An exception cannot cross the compiled code between: it is kept on the
device, the call answers an error, and whoever called the host function raises it again. What programs try on purpose, a
cooperative launch that is too large, is an error of CUDA only.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import llvmlite.binding as llvm

from ..errors import CooperativeLaunchTooLarge, EmulatorError
from .launchconfig import LaunchConfig

SUCCESS: Final = 0
LAUNCH_FAILURE: Final = 719
COOPERATIVE_LAUNCH_TOO_LARGE: Final = 720
_POINTER, _INT, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t


class NotEmulated(EmulatorError):
    """Something of CUDA or CuTeDSL that the emulated device does not offer. The message names it and says why."""


class Device(Protocol):
    """What the entry points need of the emulated device. Handles are small integers."""

    error: BaseException | None

    def load_library(self) -> int:
        """The handle of the module that is being loaded."""

    def kernel(self, library: int, name: str) -> int:
        """The handle of a kernel."""

    def kernel_attribute(self, kernel: int, attribute: int) -> int:
        """A CUfunction_attribute."""

    def device_attribute(self, attribute: int) -> int:
        """A cudaDeviceAttr."""

    def set_kernel_attribute(self, kernel: int, attribute: int, value: int) -> None:
        """A cudaFuncAttribute."""

    def launch(self, kernel: int, config: LaunchConfig, arguments: int) -> None:
        """Run a kernel; `arguments` is the address of the pointers to its parameters."""

    def encode_tensor_map(self, *fields: Any) -> None:
        """cuTensorMapEncodeTiled."""

    def encode_im2col_map(self, *fields: Any) -> None:
        """cuTensorMapEncodeIm2col."""


_current: list[Device] = []


def make_current(device: Device) -> None:
    """Let calls go to this device until `release`."""
    _current.append(device)


def release(device: Device) -> None:
    """Undo the last `make_current`, which was this device's."""
    if not _current or _current[-1] is not device:
        raise RuntimeError("emulated devices must be left in the opposite order of entering")
    _current.pop()


def current() -> Device | None:
    """The innermost device entered, if any."""
    return _current[-1] if _current else None


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


def callback(answer: Callable[..., int | None], types: Sequence[Any], result: Any = _INT) -> Any:
    """A C function that answers an error code of CUDA, None as success. What it raises first the device keeps; what it
    raises later, in another test perhaps, is printed at once."""

    def call(*arguments: Any) -> int:
        try:
            return answer(*arguments) or SUCCESS
        except CooperativeLaunchTooLarge:
            return COOPERATIVE_LAUNCH_TOO_LARGE
        except BaseException as error:
            device = current()
            if device is None:
                raise
            if device.error is None:
                device.error = error
            else:
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return LAUNCH_FAILURE

    return ctypes.CFUNCTYPE(result, *types)(call)


def _callback(answer: Callable[..., None], types: Sequence[Any]) -> Any:
    return callback(lambda *arguments: answer(_current[-1], *arguments), types)


_ENTRY_POINTS: Final = {
    "_cudaLibraryLoadData": _callback(_load, [_POINTER] * 4 + [ctypes.c_uint] + [_POINTER] * 2 + [ctypes.c_uint]),
    "_cudaLibraryGetKernel": _callback(_get_kernel, [_POINTER, _SIZE, _POINTER]),
    "_cuKernelGetAttribute": _callback(_kernel_attribute, [_POINTER, _INT, _SIZE, _INT]),
    "_cudaGetDevice": _callback(_device, [_POINTER]),
    "_cudaDeviceGetAttribute": _callback(_device_attribute, [_POINTER, _INT, _INT]),
    "_cudaFuncSetAttribute": _callback(_set_attribute, [_SIZE, _INT, _INT]),
    "_cudaKernelSetAttributeForDevice": _callback(_set_attribute, [_SIZE, _INT, _INT, _INT]),
    "_cudaLaunchKernelEx": _callback(_launch, [_POINTER, _SIZE, _POINTER]),
    "_cuTensorMapEncodeTiled": _callback(
        _encode,
        [_POINTER, _INT, ctypes.c_uint, _POINTER, _POINTER, _POINTER, _POINTER, _POINTER, _INT, _INT, _INT, _INT],
    ),
    "_cuTensorMapEncodeIm2col": _callback(
        _encode_im2col,
        [*[_POINTER, _INT, ctypes.c_uint], *[_POINTER] * 5, ctypes.c_uint, ctypes.c_uint, _POINTER, *[_INT] * 4],
    ),
}


def define_entry_points(needed: Sequence[str]) -> None:
    """Make the entry points known to llvmlite's linker. Raises NotEmulated for a name nobody defines."""
    for name in needed:
        if name in _ENTRY_POINTS:
            llvm.add_symbol(name, ctypes.cast(_ENTRY_POINTS[name], _POINTER).value)
        elif not llvm.address_of_symbol(name) and not hasattr(ctypes.CDLL(None), name):
            raise NotEmulated(f"{name}, which the compiled host function calls, is not emulated")
