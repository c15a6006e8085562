"""The emulated chip: limits of a warp, a thread, a CTA, an SM and the device, and base addresses of state spaces.

The chip is the same for the whole process. EMULATOR_DEVICE chooses it before the emulator is imported. The default is
the chip that CUTE_DSL_ARCH compiles for, or a B200. EMULATOR_SMS gives it fewer SMs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Device:
    """The properties in which the chips differ, as their drivers report them. target: the compilation target."""

    name: str
    target: str
    sms: int
    l2_bytes: int
    sm_clock_khz: int
    memory_clock_khz: int
    memory_bus_bits: int


VARIABLE: Final = "EMULATOR_DEVICE"
SMS_VARIABLE: Final = "EMULATOR_SMS"
DEVICES: Final = {
    "b200": Device("B200", "sm_100a", 148, 126 << 20, 1_965_000, 3_996_000, 8192),
    "b300": Device("B300", "sm_103a", 148, 132_644_864, 2_032_000, 3_996_000, 8192),
    "gb300": Device("GB300", "sm_103a", 152, 132_644_864, 2_062_000, 3_996_000, 8192),
    "h200": Device("H200", "sm_90a", 132, 60 << 20, 1_980_000, 3_201_000, 6144),
    "h100": Device("H100", "sm_90a", 132, 50 << 20, 1_980_000, 2_619_000, 5120),
}


def _chosen(environment: Mapping[str, str]) -> str:
    target = environment.get("CUTE_DSL_ARCH")
    compiled_for = next((name for name, device in DEVICES.items() if device.target == target), "b200")
    name = environment.get(VARIABLE, compiled_for)
    if name not in DEVICES:
        raise ValueError(f"{VARIABLE} is {name!r}; allowed: {', '.join(DEVICES)}")
    return name


def _sms(environment: Mapping[str, str], most: int) -> int:
    text = environment.get(SMS_VARIABLE, str(most))
    if not (text.isdecimal() and 1 <= int(text) <= most):
        raise ValueError(f"{SMS_VARIABLE} is {text!r}; allowed: 1 to {most}, the SMs of the {NAME}")
    return int(text)


NAME: Final = _chosen(os.environ)
DEVICE: Final = DEVICES[NAME]

LANES: Final = 32
"""Lanes of a warp."""
ALL_LANES: Final = (1 << LANES) - 1
"""All lanes of a warp, as bits."""
MAX_REGISTERS_A_THREAD: Final = 255
REGISTER_STEP: Final = 8
"""The step in which setmaxnreg counts registers per thread."""

MAX_THREADS_A_CTA: Final = 1024
MAX_CTAS_A_CLUSTER: Final = 16
"""More than 8 is a non-portable cluster size, which a kernel has to request."""
NAMED_BARRIERS: Final = 16
TMEM_LANES, TMEM_COLUMNS = 128, 512
SHARED_BASE: Final = 0x7FFE_0000_0000_0000
LOCAL_BASE: Final = 0x7FFD_0000_0000_0000
WINDOW_BYTES: Final = 1 << 32
"""The windows of shared and local memory among generic addresses. Global and parameter memory use host addresses."""
RANK_SHIFT: Final = 24
"""An address of shared memory holds the rank of its CTA in the cluster above these bits."""
RESERVED_SHARED_BYTES: Final = 1024
"""The bytes at the start of a CTA's shared memory that the program cannot use."""
MAX_SHARED_BYTES_A_CTA: Final = 227 * 1024
"""Without the reserved bytes."""

SMS: Final = _sms(os.environ, DEVICE.sms)
CTAS_AN_SM: Final = 32
THREADS_AN_SM: Final = 2048
REGISTERS_AN_SM: Final = 64 * 1024
SHARED_BYTES_AN_SM: Final = 228 * 1024
SHARED_BANKS, BANK_BYTES = 32, 4

COMPUTE_CAPABILITY: Final = divmod(int(DEVICE.target.strip("sm_a")), 10)
TARGET: Final = re.compile(r"sm_(\d+)([af]?)")


def runs_here(target: str) -> bool:
    """Return True if the device can run PTX for this target, such as sm_100a, sm_100f or sm_80."""
    found = TARGET.fullmatch(target)
    if found is None:
        return False
    number, suffix, own = int(found[1]), found[2], 10 * COMPUTE_CAPABILITY[0] + COMPUTE_CAPABILITY[1]
    same_family = number // 10 == own // 10 and number <= own and suffix == "f"
    return number == own or same_family or (number < own and not suffix)


L2_BYTES: Final = DEVICE.l2_bytes
SM_CLOCK_KHZ, MEMORY_CLOCK_KHZ = DEVICE.sm_clock_khz, DEVICE.memory_clock_khz
MEMORY_BUS_BITS: Final = DEVICE.memory_bus_bits
