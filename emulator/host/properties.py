"""The emulated B200's device properties and attributes."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from .. import chip

# Attributes by CUdevice_attribute name without the prefix CU_DEVICE_ATTRIBUTE_. Any other attribute is 0, the value
# that a driver returns for a missing feature.
_LIMITS: Final[dict[str, int]] = {
    "MAX_THREADS_PER_BLOCK": chip.MAX_THREADS_A_CTA,
    "MAX_BLOCK_DIM_X": 1024,
    "MAX_BLOCK_DIM_Y": 1024,
    "MAX_BLOCK_DIM_Z": 64,
    "MAX_GRID_DIM_X": 2**31 - 1,
    "MAX_GRID_DIM_Y": 65535,
    "MAX_GRID_DIM_Z": 65535,
    "TOTAL_CONSTANT_MEMORY": 64 * 1024,
    "MAX_PITCH": 2**31 - 1,
    "CLOCK_RATE": chip.SM_CLOCK_KHZ,
    "MEMORY_CLOCK_RATE": chip.MEMORY_CLOCK_KHZ,
    "GLOBAL_MEMORY_BUS_WIDTH": chip.MEMORY_BUS_BITS,
    "MAX_BLOCKS_PER_MULTIPROCESSOR": chip.CTAS_AN_SM,
    "RESERVED_SHARED_MEMORY_PER_BLOCK": chip.RESERVED_SHARED_BYTES,
    "ASYNC_ENGINE_COUNT": 1,
    "CONCURRENT_KERNELS": 1,
    "UNIFIED_ADDRESSING": 1,
    "STREAM_PRIORITIES_SUPPORTED": 1,
    "GLOBAL_L1_CACHE_SUPPORTED": 1,
    "LOCAL_L1_CACHE_SUPPORTED": 1,
    "COOPERATIVE_LAUNCH": 1,
    "CLUSTER_LAUNCH": 1,
    "TENSOR_MAP_ACCESS_SUPPORTED": 1,
    "UNIFIED_FUNCTION_POINTERS": 1,
    "MEMORY_POOLS_SUPPORTED": 1,
}
BUS: Final = "0000:00:00.0"
"""The device's PCI bus id."""
_NUMBERS: Final = {
    1: "MAX_THREADS_PER_BLOCK",
    2: "MAX_BLOCK_DIM_X",
    3: "MAX_BLOCK_DIM_Y",
    4: "MAX_BLOCK_DIM_Z",
    5: "MAX_GRID_DIM_X",
    6: "MAX_GRID_DIM_Y",
    7: "MAX_GRID_DIM_Z",
    8: "MAX_SHARED_MEMORY_PER_BLOCK",
    9: "TOTAL_CONSTANT_MEMORY",
    10: "WARP_SIZE",
    11: "MAX_PITCH",
    12: "MAX_REGISTERS_PER_BLOCK",
    13: "CLOCK_RATE",
    16: "MULTIPROCESSOR_COUNT",
    31: "CONCURRENT_KERNELS",
    36: "MEMORY_CLOCK_RATE",
    37: "GLOBAL_MEMORY_BUS_WIDTH",
    38: "L2_CACHE_SIZE",
    39: "MAX_THREADS_PER_MULTIPROCESSOR",
    40: "ASYNC_ENGINE_COUNT",
    41: "UNIFIED_ADDRESSING",
    75: "COMPUTE_CAPABILITY_MAJOR",
    76: "COMPUTE_CAPABILITY_MINOR",
    78: "STREAM_PRIORITIES_SUPPORTED",
    79: "GLOBAL_L1_CACHE_SUPPORTED",
    80: "LOCAL_L1_CACHE_SUPPORTED",
    81: "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    82: "MAX_REGISTERS_PER_MULTIPROCESSOR",
    95: "COOPERATIVE_LAUNCH",
    97: "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    106: "MAX_BLOCKS_PER_MULTIPROCESSOR",
    111: "RESERVED_SHARED_MEMORY_PER_BLOCK",
    115: "MEMORY_POOLS_SUPPORTED",
    120: "CLUSTER_LAUNCH",
    127: "TENSOR_MAP_ACCESS_SUPPORTED",
    129: "UNIFIED_FUNCTION_POINTERS",
}
"""The names by CUdevice_attribute number."""


def _host_memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


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
    total_memory: int = _host_memory_bytes()
    is_integrated: bool = False
    is_multi_gpu_board: bool = False
    driver_version: int = 13000

    def attribute(self, name: str) -> int:
        """Return a CUdevice_attribute by its name, with or without the prefix CU_DEVICE_ATTRIBUTE_."""
        short = name.removeprefix("CU_DEVICE_ATTRIBUTE_")
        own = {
            "COMPUTE_CAPABILITY_MAJOR": self.major,
            "COMPUTE_CAPABILITY_MINOR": self.minor,
            "MULTIPROCESSOR_COUNT": self.multi_processor_count,
            "WARP_SIZE": self.warp_size,
            "MAX_THREADS_PER_MULTIPROCESSOR": self.max_threads_per_multi_processor,
            "MAX_REGISTERS_PER_BLOCK": self.regs_per_multiprocessor,
            "MAX_REGISTERS_PER_MULTIPROCESSOR": self.regs_per_multiprocessor,
            "MAX_SHARED_MEMORY_PER_BLOCK": self.shared_memory_per_block,
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": self.shared_memory_per_block_optin,
            "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": self.shared_memory_per_multiprocessor,
            "L2_CACHE_SIZE": self.L2_cache_size,
        }
        return own.get(short, _LIMITS.get(short, 0))

    def numbered(self, number: int) -> int:
        """Return a CUdevice_attribute by its number. cudaDeviceAttr has the same numbers."""
        return self.attribute(_NUMBERS.get(number, ""))

    def active_clusters(self, cluster_size: int) -> int:
        """Return how many clusters of `cluster_size` CTAs run at once, one CTA per SM. Each lies in one GPC.

        Of a device with fewer SMs than its chip, those in the first GPCs exist.
        """
        from ..clock.chips import chip as clock_chip  # few programs ask

        whole = clock_chip(chip.NAME)
        ends = accumulate(whole.gpc_sms)
        there = (max(sms - max(end - chip.SMS, 0), 0) for sms, end in zip(whole.gpc_sms, ends, strict=True))
        return replace(whole, gpc_sms=tuple(there)).slots(cluster_size)


B200: Final = DeviceProperties()
