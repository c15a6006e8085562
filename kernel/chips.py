"""The chips that the kernel is written for, and the choice among them: the only place where it is made.

Importing the kernel touches no GPU, so that a process may be forked afterwards. The device of a call decides.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernel.errors import ArgumentError
from kernel.fmha import Fmha
from kernel.problem import Problem
from kernel.sm90 import choice as sm90
from kernel.sm90.config import HopperConfig
from kernel.sm90.fmha import Hopper
from kernel.sm100 import choice as sm100
from kernel.sm100 import hardware
from kernel.sm100.config import FmhaConfig
from kernel.sm100.fmha import Blackwell
from kernel.sm100.swapped import SwappedBlackwell

Config = FmhaConfig | HopperConfig


@dataclass(frozen=True)
class Chip:
    """A generation of chips.

    arch: the target that the kernel is compiled for. sms: CTAs that are launched at most unless keys are split.
    configuration: the choice of the configuration that computes a problem. kernel: finds the class of the device code
    of a configuration.
    """

    arch: str
    sms: int
    configuration: Callable[[Problem], Config]
    kernel: Callable[[Any], type[Fmha]]

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Return whether a GPU of a compute capability runs code for `arch`: of a family (sm_100f) newer ones do."""
        code, family = self.arch[3:].rstrip("af"), self.arch.endswith("f")
        major, minor = int(code[:-1]), int(code[-1])
        return capability == (major, minor) or (family and capability[0] == major and capability[1] > minor)


def kernel_of(config: FmhaConfig) -> type[Fmha]:
    """Return the class of the device code of a configuration on sm_100."""
    return SwappedBlackwell if config.variant.swapped else Blackwell


HOPPER = Chip("sm_90a", sm90.SMS, sm90.configuration, lambda config: Hopper)
BLACKWELL = Chip("sm_100a", hardware.SMS, sm100.configuration, kernel_of)
TARGET = re.compile(r"sm_(90|10\d)[af]")  # of CUTE_DSL_ARCH


_planned: list[tuple[torch.device, list[Config]]] = []


@contextmanager
def planning(device: torch.device) -> Iterator[list[Config]]:
    """Choose configurations of calls on meta tensors for a device, not for a B200, and list them."""
    chosen: list[Config] = []
    _planned.append((device, chosen))
    try:
        yield chosen
    finally:
        _planned.pop()


def chip(device: torch.device | None = None) -> Chip:
    """Return the chip that CUTE_DSL_ARCH names; if it is not set, that of a GPU, else a B200: compiling needs no GPU.

    Raises ArgumentError for a variable or a GPU that the kernel does not support.
    """
    if (arch := os.environ.get("CUTE_DSL_ARCH")) is not None:
        if TARGET.fullmatch(arch) is None:
            raise ArgumentError("CUTE_DSL_ARCH", repr(arch), "sm_90a, sm_100a or sm_103a")
        return replace(HOPPER if arch.startswith("sm_90") else BLACKWELL, arch=arch)
    if device is not None and device.type == "meta" and _planned:
        device = _planned[-1][0]
    if device is None or device.type != "cuda":
        return BLACKWELL
    found = torch.cuda.get_device_capability(device)
    for each in (HOPPER, BLACKWELL):
        if each.runs_on(found):
            return each
    raise ArgumentError(
        "q.device",
        f"{device}, of compute capability {found[0]}.{found[1]}",
        "9.0 (H200) or 10.0 (B200); code for 10.3 is compiled with CUTE_DSL_ARCH=sm_103a, and was never run there",
    )


def chip_of(config: Config) -> Chip:
    """Return the chip that a configuration is for."""
    chosen = chip()
    of_config = HOPPER if isinstance(config, HopperConfig) else BLACKWELL
    return chosen if chosen.kernel is of_config.kernel else of_config


def configuration(problem: Problem, device: torch.device | None = None) -> Config:
    """Return the configuration with which a problem is computed on a device (see `chip`). Raises ArgumentError."""
    chosen = chip(device).configuration(problem)
    if _planned:
        _planned[-1][1].append(chosen)
    return chosen
