"""Launches of kernels given as PTX text, over numpy arrays or torch tensors."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from .bridge.allocations import Memory, argument_memory
from .bridge.device import LaunchingDevice
from .bridge.driver import current
from .bridge.launchconfig import Arguments, LaunchConfig
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
    arguments = Arguments([_bytes(value, param) for value, param in zip(args, params, strict=True)])
    shape = None if cluster is None else _dim3(cluster)
    config = LaunchConfig(_dim3(grid), _dim3(block), shape, dynamic_shared_bytes, (), 0)
    device = current() or LaunchingDevice()
    assert isinstance(device, LaunchingDevice)
    with device.calling(None, _memory(args, [param.name for param in params])):
        device.launch(device.handle(module, kernel), config, arguments.address)
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
    if (address := _address(value)) is not None:
        value = address
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


def _address(value: Any) -> int | None:
    """Address that a numpy array or a torch tensor passes; None for other values."""
    if isinstance(value, np.ndarray):
        return value.ctypes.data
    return value.data_ptr() if callable(getattr(value, "untyped_storage", None)) else None


def _memory(args: Sequence[Any], names: Sequence[str]) -> Memory:
    """Find the memory of the arguments. It is complete if no argument can be, or contain, another address."""
    named = dict(zip(names, args, strict=True))
    numbers_and_arrays = {k: v for k, v in named.items() if isinstance(v, int | float) or _address(v) is not None}
    known = argument_memory(numbers_and_arrays)
    return Memory(known.allocations, known.closed and len(numbers_and_arrays) == len(args))
