"""The chips that the kernel is written for, and the choice among them: the only place where it is made.

CuTeDSL compiles for one architecture per process, which CUTE_DSL_ARCH names when it is imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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

    major: of its compute capability. sms: CTAs that are launched at most unless keys are split. configuration: the
    choice of the configuration that computes a problem. kernel: finds the class of the device code of a configuration.
    """

    major: int
    sms: int
    configuration: Callable[[Problem], Config]
    kernel: Callable[[Any], type[Fmha]]


def kernel_of(config: FmhaConfig) -> type[Fmha]:
    """Return the class of the device code of a configuration on sm_100."""
    return SwappedBlackwell if config.variant.swapped else Blackwell


CHIPS = {
    "sm_90": Chip(9, sm90.SMS, sm90.configuration, lambda config: Hopper),
    "sm_10": Chip(10, hardware.SMS, sm100.configuration, kernel_of),
}


def chip() -> Chip:
    """Return the chip that this process compiles for. Raises ArgumentError."""
    arch = os.environ["CUTE_DSL_ARCH"]
    for prefix, found in CHIPS.items():
        if arch.startswith(prefix):
            return found
    raise ArgumentError("CUTE_DSL_ARCH", repr(arch), "sm_90a, sm_100a or sm_103a, set before CuTeDSL is imported")


def configuration(problem: Problem) -> Config:
    """Return the configuration with which a problem is computed on this process's chip. Raises ArgumentError."""
    return chip().configuration(problem)
