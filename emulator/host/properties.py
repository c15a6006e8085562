"""The emulated B200's device properties and attributes."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from .. import chip

BUS: Final = "0000:00:00.0"
"""The device's PCI bus id."""


@dataclass(frozen=True)
class DeviceProperties:
    """Properties of the device, named as torch names them. Sizes are in bytes.

    Global memory is host memory, so `total_memory` is that of this machine and not that of a B200.
    """

    name: str = f"NVIDIA {chip.DEVICE.name} (emulated)"
    major: int = chip.COMPUTE_CAPABILITY[0]
    minor: int = chip.COMPUTE_CAPABILITY[1]
    multi_processor_count: int = chip.SMS
    warp_size: int = chip.LANES
    max_threads_per_block: int = chip.MAX_THREADS_A_CTA
    max_threads_per_multi_processor: int = chip.THREADS_AN_SM
    regs_per_multiprocessor: int = chip.REGISTERS_AN_SM
    shared_memory_per_block: int = 48 * 1024
    shared_memory_per_block_optin: int = chip.MAX_SHARED_BYTES_A_CTA
    shared_memory_per_multiprocessor: int = chip.SHARED_BYTES_AN_SM
    L2_cache_size: int = chip.L2_BYTES
    total_memory: int = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # of the host
    is_integrated: bool = False
    is_multi_gpu_board: bool = False
    runtime_version: int = 13000
    driver_version: int = 13990
    """Newer than the toolkit of any program: Warp compiles to machine code if the driver is older."""

    def attribute(self, number: int) -> int:
        """Value of a CUdevice_attribute or cudaDeviceAttr, which have the same numbers; 0 for a missing feature."""
        value = _ATTRIBUTES.get(number, 0)
        return int(getattr(self, value)) if isinstance(value, str) else value

    def active_clusters(self, cluster_size: int) -> int:
        """Return how many clusters of `cluster_size` CTAs run at once, one CTA per SM. Each lies in one GPC.

        Of a device with fewer SMs than its chip, those in the first GPCs exist.
        """
        from ..clock.chips import chip as clock_chip  # few programs ask

        whole = clock_chip(chip.NAME)
        ends = accumulate(whole.gpc_sms)
        there = (max(sms - max(end - chip.SMS, 0), 0) for sms, end in zip(whole.gpc_sms, ends, strict=True))
        return replace(whole, gpc_sms=tuple(there)).slots(cluster_size)


_ATTRIBUTES: Final[dict[int, int | str]] = {
    1: "max_threads_per_block",
    2: 1024,  # MAX_BLOCK_DIM_X
    3: 1024,
    4: 64,
    5: 2**31 - 1,  # MAX_GRID_DIM_X
    6: 65535,
    7: 65535,
    8: "shared_memory_per_block",
    9: 64 * 1024,  # TOTAL_CONSTANT_MEMORY
    10: "warp_size",
    11: 2**31 - 1,  # MAX_PITCH
    12: "regs_per_multiprocessor",  # MAX_REGISTERS_PER_BLOCK
    13: chip.SM_CLOCK_KHZ,
    16: "multi_processor_count",
    31: 1,  # CONCURRENT_KERNELS
    36: chip.MEMORY_CLOCK_KHZ,
    37: chip.MEMORY_BUS_BITS,
    38: "L2_cache_size",
    39: "max_threads_per_multi_processor",
    40: 1,  # ASYNC_ENGINE_COUNT
    41: 1,  # UNIFIED_ADDRESSING
    75: "major",
    76: "minor",
    78: 1,  # STREAM_PRIORITIES_SUPPORTED
    79: 1,  # GLOBAL_L1_CACHE_SUPPORTED
    80: 1,  # LOCAL_L1_CACHE_SUPPORTED
    81: "shared_memory_per_multiprocessor",
    82: "regs_per_multiprocessor",
    95: 1,  # COOPERATIVE_LAUNCH
    97: "shared_memory_per_block_optin",
    106: chip.CTAS_AN_SM,
    111: chip.RESERVED_SHARED_BYTES,
    115: 1,  # MEMORY_POOLS_SUPPORTED
    120: 1,  # CLUSTER_LAUNCH
    122: 1,  # CAN_USE_64_BIT_STREAM_MEM_OPS
    123: 1,  # CAN_USE_STREAM_WAIT_VALUE_NOR
    127: 1,  # TENSOR_MAP_ACCESS_SUPPORTED
    129: 1,  # UNIFIED_FUNCTION_POINTERS
}
"""Values by CUdevice_attribute, or the names of the properties that they are."""
PROPERTIES: Final = DeviceProperties()
"""The properties of the emulated device."""
