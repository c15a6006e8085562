"""Attention for DeepSeek-V4 on the tensor cores of Blackwell and Hopper: kernels, host call, float64 reference."""

from kernel import dsv4, operators, reference, serving
from kernel.chips import configuration
from kernel.compiled import CompiledFmha, compile, keep_on_disk
from kernel.errors import ArgumentError
from kernel.host import fmha
from kernel.merge import merge, merge_outputs
from kernel.problem import Problem
from kernel.sm100.config import FmhaConfig
from kernel.tensors import AllBlocks, Attention, TopkBlocks
from kernel.warm import warm_up

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
    "keep_on_disk",
    "merge",
    "merge_outputs",
    "operators",
    "reference",
    "serving",
    "warm_up",
]
