"""Places where recordings are replayed: the emulated device, or this machine's GPU through the driver's API."""

from __future__ import annotations

import ctypes
from typing import Any, Final

from emulator.bridge.allocations import Allocation
from emulator.machine.formats.tensormap import MAP_BYTES, TensorMap
from emulator.recordings.format import Launched, Module
from emulator.recordings.replay import Emulated as EmulatedLauncher
from emulator.recordings.replay import Launcher
from emulator.recordings.values import NotRecordable
from remote.device import Emulated
from stages.device import Device

HOPPER: Final = 9
BLACKWELL_MAP_BYTE, BLACKWELL_MAP = 8, 2
"""The byte and bit that tiled tensor maps for sm_100 have, and that maps for sm_90 must not have."""


def launcher(device: Device) -> Launcher:
    """Return the launcher of a device."""
    return EmulatedLauncher() if isinstance(device, Emulated) else Gpu()


class GpuError(RuntimeError):
    """A call of the CUDA driver failed."""


class Gpu:
    """Launches on this machine's GPU, on torch's current stream. Each module is loaded from its machine code."""

    def __init__(self) -> None:
        import torch

        self._kernels: dict[tuple[str, str], Any] = {}
        self._hopper = torch.cuda.get_device_capability()[0] == HOPPER

    def launch(
        self, module: Module, launched: Launched, parameters: list[bytes], memory: list[Allocation]
    ) -> frozenset[int]:
        """Enqueue a launch. Return an empty set: its writes are not known. Raises GpuError."""
        import torch
        from cuda.bindings import driver

        given = map(hopper_map, parameters) if self._hopper else parameters
        copies = [ctypes.create_string_buffer(each, len(each)) for each in given]
        pointers = (ctypes.c_void_p * len(copies))(*map(ctypes.addressof, copies))
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = launched.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = launched.block
        config.sharedMemBytes = launched.shared_bytes
        config.hStream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
        config.attrs = self._attributes(driver, launched)
        config.numAttrs = len(config.attrs)
        function = self._function(driver, module, launched)
        checked(driver.cuLaunchKernelEx(config, function, ctypes.addressof(pointers), 0))
        return frozenset()

    def _attributes(self, driver: Any, launched: Launched) -> list[Any]:
        """Return the launch attributes that change what is computed: the cluster, and a cooperative launch."""
        found = []
        if launched.cluster is not None:
            cluster = driver.CUlaunchAttribute()
            cluster.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            cluster.value.clusterDim.x, cluster.value.clusterDim.y, cluster.value.clusterDim.z = launched.cluster
            found.append(cluster)
        if launched.cooperative:
            together = driver.CUlaunchAttribute()
            together.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            together.value.cooperative = 1
            found.append(together)
        return found

    def _function(self, driver: Any, module: Module, launched: Launched) -> Any:
        """Return a kernel that may use as much shared memory as its launch, and clusters of any size."""
        key = module.digest, launched.kernel
        if key not in self._kernels:
            if not module.cubin:
                raise NotRecordable(f"{launched.kernel}: the recording has no machine code of it")
            library = checked(driver.cuLibraryLoadData(module.cubin, None, None, 0, None, None, 0))
            kernel = checked(driver.cuLibraryGetKernel(library, launched.kernel.encode()))
            function = checked(driver.cuKernelGetFunction(kernel))
            limits = driver.CUfunction_attribute
            larger = limits.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            checked(driver.cuFuncSetAttribute(function, larger, 1))
            self._kernels[key] = function
        function = self._kernels[key]
        shared = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        checked(driver.cuFuncSetAttribute(function, shared, launched.shared_bytes))
        return function


def hopper_map(parameter: bytes) -> bytes:
    """Return a tiled tensor map in sm_90's format. Any other parameter is returned unchanged.

    The recording process encodes maps in sm_100's format for every chip.
    """
    try:
        is_map = len(parameter) == MAP_BYTES and bool(TensorMap.decode(parameter))
    except ValueError:
        is_map = False
    if not is_map:
        return parameter
    changed = bytearray(parameter)
    changed[BLACKWELL_MAP_BYTE] &= ~BLACKWELL_MAP
    return bytes(changed)


def checked(answer: Any) -> Any:
    """Return the result of a driver call. Raises GpuError if it failed."""
    code, *results = answer
    if int(code):
        raise GpuError(f"the CUDA driver answered {code.name}")
    return results[0] if results else None
