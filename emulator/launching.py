"""Launches of kernels given as PTX text, over numpy arrays or torch tensors."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .bridge.allocations import ADDRESSES_FROM, Allocation, Memory
from .bridge.device import LaunchingDevice
from .bridge.driver import current
from .bridge.launchconfig import LaunchConfig
from .bridge.result import LaunchResult
from .chip import DEVICE, VARIABLE
from .errors import LaunchError
from .machine.launch.launch import Dim3
from .modules import LoadedModule, load
from .ptx.syntax import Param

_FLOATS = {2: "<e", 4: "<f", 8: "<d"}


def launch(
    ptx: str,
    kernel: str | None = None,
    args: Sequence[Any] = (),
    *,
    grid: int | Sequence[int] = 1,
    block: int | Sequence[int] = 32,
    cluster: int | Sequence[int] | None = None,
    dynamic_shared_bytes: int = 0,
) -> LaunchResult:
    """Run a kernel of a PTX module to its end, on the device that `emulate` made current or on a default one.

    - `kernel`: its name; None if the module has only one.
    - `args`: one for each parameter. A numpy array or a torch tensor in CPU memory passes its address, and the kernel
      may access its memory. An int or float passes its value in the parameter's width; a numpy scalar in its own.
      bytes, ctypes structures and ctypes arrays pass their bytes (a tensor map: its 128 bytes).
    - `grid`, `cluster`: number of CTAs, as x or (x, y, z).
    - `block`: number of threads, as x or (x, y, z).
    - `dynamic_shared_bytes`: size of dynamic shared memory.

    Raises EmulatorError for errors of the program, LaunchError for a launch that the device would reject, an unknown
    kernel or an invalid argument.
    """
    module = load(ptx)
    kernel = _chosen(module, kernel)
    params = module.kernel(kernel).params
    if len(args) != len(params):
        raise LaunchError(f"{len(args)} arguments for {kernel}; it has {len(params)} parameters")
    values = [_bytes(value, param) for value, param in zip(args, params, strict=True)]
    copies = [ctypes.create_string_buffer(value, len(value)) for value in values]
    pointers = (ctypes.c_void_p * len(copies))(*map(ctypes.addressof, copies))
    shape = None if cluster is None else _dim3(cluster)
    config = LaunchConfig(_dim3(grid), _dim3(block), shape, dynamic_shared_bytes, (), 0)
    device = current() or LaunchingDevice()
    assert isinstance(device, LaunchingDevice)
    with device.calling(None, _memory(args, [param.name for param in params])):
        device.launch(device.handle(module, kernel), config, ctypes.addressof(pointers))
    return device.launches[-1]


def _dim3(shape: int | Sequence[int]) -> Dim3:
    x, y, z = (*((shape,) if isinstance(shape, int) else shape), 1, 1)[:3]
    return x, y, z


def _chosen(module: LoadedModule, kernel: str | None) -> str:
    """Return the name of the kernel to launch. Raises LaunchError if there is none, or the device cannot run it."""
    target = module.syntax.target
    if target.endswith("a") and target != DEVICE.target:
        what = f"PTX for {target}, which runs on no other chip; the device has {DEVICE.target}"
        raise LaunchError(f"{what}: compile for it, or choose the device by the variable {VARIABLE}")
    known = (*module.syntax.kernels, *module.syntax.rejected)
    names = ", ".join(known) or "none"
    if kernel is None and len(known) != 1:
        raise LaunchError(f"no kernel is named; the module has {names}")
    if kernel is not None and kernel not in known:
        raise LaunchError(f"kernel is {kernel!r}; the module has {names}")
    return known[0] if kernel is None else kernel


def _bytes(value: Any, param: Param) -> bytes:
    """Return a parameter's bytes. Raises LaunchError for a value that does not fit."""
    size, name = param.size, param.name
    if isinstance(value, float | np.floating) and param.type[:1] in ("u", "s"):
        raise LaunchError(f"{name} is {value!r}; the parameter is .{param.type}: pass an integer")
    if (place := _place(value)) is not None:
        value = place.address
    if isinstance(value, int) and -(1 << 8 * size - 1) <= value < 1 << 8 * size:
        found = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
    elif isinstance(value, float) and not isinstance(value, np.generic) and size in _FLOATS:
        found = struct.pack(_FLOATS[size], value)
    elif isinstance(value, np.generic):
        found = value.tobytes()
    elif isinstance(value, bytes | ctypes.Structure | ctypes.Array | ctypes._SimpleCData):
        found = bytes(value)
    else:
        raise LaunchError(f"{name} is {value!r}; allowed: an array, a number or bytes that {size} bytes hold")
    if len(found) != size:
        raise LaunchError(f"{name} is {value!r} of {len(found)} bytes; the parameter has {size}")
    return found


@dataclass(frozen=True)
class _Place:
    """An array: the address that it passes, its memory, and whether that may contain addresses of other memory."""

    address: int
    start: int
    bytes: int
    may_hold_addresses: bool


def _place(value: Any) -> _Place | None:
    """Return the place of a numpy array or a torch tensor; None for other values."""
    if isinstance(value, np.ndarray):
        low, high = np.lib.array_utils.byte_bounds(value)
        number = value.dtype.kind == "f" or value.itemsize not in (1, 8)
        return _Place(value.ctypes.data, low, high - low, not number)
    if callable(getattr(value, "untyped_storage", None)):
        storage, kind = value.untyped_storage(), value.dtype
        number = kind.is_floating_point or kind.itemsize not in (1, 8)
        return _Place(value.data_ptr(), storage.data_ptr(), storage.nbytes(), not number)
    return None


def _memory(args: Sequence[Any], names: Sequence[str]) -> Memory:
    """Return the memory of the arguments. It is complete if no argument can be, or contain, another address."""
    found: list[Allocation] = []
    closed = True
    for value, name in zip(args, names, strict=True):
        if (place := _place(value)) is not None:
            found.append((place.start, place.bytes, name))
            closed = closed and not place.may_hold_addresses
        elif isinstance(value, int):
            closed = closed and abs(value) < ADDRESSES_FROM
        else:
            closed = closed and isinstance(value, float)
    return Memory(tuple(found), closed)
