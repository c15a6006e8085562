"""The chips that the kernel is written for, and the choice among them: the only place where it is made.

CuTeDSL compiles for one architecture per process, which CUTE_DSL_ARCH names when it is imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernel import choice, fmha, hardware
from kernel.config import FmhaConfig
from kernel.errors import ArgumentError
from kernel.problem import Problem
from kernel.sm90 import choice as sm90_choice
from kernel.sm90 import fmha as sm90_fmha
from kernel.sm90.config import HopperConfig
from kernel.sm100 import swapped

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
    kernel: Callable[[Any], type[fmha.Fmha] | type[sm90_fmha.Fmha]]


def kernel_of(config: FmhaConfig) -> type[fmha.Fmha]:
    """Return the class of the device code of a configuration on sm_100."""
    return swapped.SwappedFmha if config.variant.swapped else fmha.Fmha


CHIPS = {
    "sm_90": Chip(9, sm90_choice.SMS, sm90_choice.configuration, lambda config: sm90_fmha.Fmha),
    "sm_10": Chip(10, hardware.SMS, choice.configuration, kernel_of),
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
