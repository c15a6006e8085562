"""Attention for DeepSeek-V4 on Blackwell's tensor cores: the kernel, its host call and its float64 reference."""

import os

os.environ.setdefault("CUTE_DSL_ARCH", "sm_100a")  # read when cutlass is imported: compile without a GPU

from kernel import dsv4, reference
from kernel.choice import configuration
from kernel.compiled import CompiledFmha, compile
from kernel.config import FmhaConfig
from kernel.errors import ArgumentError
from kernel.host import fmha
from kernel.merge import merge
from kernel.problem import Problem
from kernel.tensors import AllBlocks, Attention, TopkBlocks

__all__ = [
    "AllBlocks",
    "ArgumentError",
    "Attention",
    "CompiledFmha",
    "FmhaConfig",
    "Problem",
    "TopkBlocks",
    "compile",
    "configuration",
    "dsv4",
    "fmha",
    "merge",
    "reference",
]
