"""The architecture that the kernel is compiled for, unless CUTE_DSL_ARCH names one."""

from __future__ import annotations

import torch


def default_arch() -> str:
    """Return the architecture of the first GPU, or that of a B200 if there is none: compiling needs no GPU."""
    hopper = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
    return "sm_90a" if hopper else "sm_100a"
