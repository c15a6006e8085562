"""FlashAttention-4's own forward under the clock, beside what its authors measured: bench/data/b200/fa4_forward.csv.

It takes PyPI's `flash-attn-4` and `triton`, which are not in requirements.lock. Hidden size 2,048: 32 heads of 64, 16
of 128. Causal flops are half of all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Final

import emulator

HIDDEN: Final = 2048
FITTED: Final = 2
"""Every so-manyth row, from the first on, may be fitted to; the others never are."""


def installed() -> bool:
    """Whether there is a FlashAttention-4 to run."""
    return find_spec("flash_attn") is not None


def forward(rows: list[Mapping[str, str]]) -> Iterator[float]:
    """Predicted TFLOP/s of each row."""
    os.environ.setdefault("FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED", "0")
    from emulator.host.session import emulated_host

    with emulated_host(), emulator.emulate(clock="b200") as device:
        import flash_attn.cute
        import torch

        for row in rows:
            batch, length, width, causal = (int(row[c]) for c in ("batch", "seqlen", "head_dim", "causal"))
            shape = (batch, length, HIDDEN // width, width)
            q, k, v = (torch.empty(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
            flash_attn.cute.flash_attn_func(q, k, v, causal=bool(causal))
            seconds = sum(launch.prediction.seconds for launch in device.launches if launch.prediction is not None)
            device.launches.clear()
            yield 4 * batch * HIDDEN * length**2 / (1 + causal) / seconds / 1e12
