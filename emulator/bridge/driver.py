"""The current device, and the entry points of CUDA's driver and runtime by which compiled host functions call it.

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

from ..errors import CooperativeLaunchTooLarge, EmulatorError, Fault, Misaligned, OutOfBounds, Stopped
from .prototypes import Prototype, prototype

SUCCESS: Final = 0
ILLEGAL_ADDRESS, MISALIGNED_ADDRESS, LAUNCH_FAILURE, COOPERATIVE_LAUNCH_TOO_LARGE = 700, 716, 719, 720
_CODES: Final = {
    OutOfBounds: ILLEGAL_ADDRESS,
    Misaligned: MISALIGNED_ADDRESS,
    CooperativeLaunchTooLarge: COOPERATIVE_LAUNCH_TOO_LARGE,
}


class NotEmulated(EmulatorError):
    """An unsupported feature of CUDA or CuTeDSL. The message names the feature and the reason."""


class Device(Protocol):
    """A device that can be current. Its methods marked with `entry` are the entry points."""

    error: BaseException | None

    def fail(self, error: BaseException) -> None:
        """Record an error of a launch."""


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


def put(address: int, kind: Any, value: float) -> None:
    """Write an output parameter. A null address is skipped: the caller does not want the value."""
    if address:
        kind.from_address(address).value = value


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
            return code_of(error)

    return ctypes.CFUNCTYPE(types.result, *types.parameters)(call)


def code_of(error: BaseException) -> int:
    """Return the CUDA error code by which a program sees an error."""
    return _CODES.get(type(error), LAUNCH_FAILURE)


def is_sticky(error: BaseException) -> bool:
    """Return True if an error ended a kernel, so that CUDA returns it from all later calls of the process."""
    return isinstance(error, Fault | Stopped)


_entry_points: dict[str, Any] = {}
"""The C functions by name. CuTeDSL's host code calls CUDA's functions by names with an underscore."""


def entry(*names: str) -> Callable[[Callable[..., None]], Any]:
    """Mark a method of the device as the entry point for these C functions. It gets their parameters."""

    def mark(method: Callable[..., None]) -> Any:
        for name in names:
            called = callback(lambda *arguments: method(_current[-1], *arguments), prototype(name))
            _entry_points[f"_{name.removesuffix('C')}"] = called
        return method

    return mark


def define_entry_points(needed: Sequence[str]) -> None:
    """Register the entry points with llvmlite's linker. Raises NotEmulated for a name that is defined nowhere."""
    for name in needed:
        if name in _entry_points:
            llvm.add_symbol(name, ctypes.cast(_entry_points[name], ctypes.c_void_p).value)
        elif not llvm.address_of_symbol(name) and not hasattr(ctypes.CDLL(None), name):
            raise NotEmulated(f"{name}, which the compiled host function calls, is not emulated")
