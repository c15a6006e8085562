"""Predict FlashAttention-4's forward kernel, for comparison with bench/data/b200/fa4_*.csv.

This needs PyPI's `flash-attn-4` and `triton`, which are not in requirements.lock. Causal attention counts half the
flops of full attention.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, Final

import emulator
from emulator.clock.chips import chip
from emulator.clock.conditions import Conditions
from emulator.clock.prediction import Prediction

FITTED: Final = 2
"""The clock's parameters may be fitted to every FITTED-th row from the first; never to the others."""


def installed() -> bool:
    """Return True if FlashAttention-4 is installed."""
    return find_spec("flash_attn") is not None


def forward(rows: list[Mapping[str, str]]) -> Iterator[float]:
    """Yield the predicted TFLOP/s of each row, in continuous work.

    `max_ghz` is the locked frequency; power may lower it further.
    """
    launch_s = chip("b200").launch_us * 1e-6
    for row in rows:
        batch, length, width, causal, heads = (int(row[c]) for c in ("batch", "seqlen", "head_dim", "causal", "heads"))
        made = predictions(partial(called, [(batch, length, heads, width)] * 3, bool(causal)))
        paces = [p.sustained for p in made]
        seconds = sum(p.cycles / (1e9 * min(p.ghz, float(row["max_ghz"]))) + launch_s for p in paces)
        yield 4 * batch * heads * width * length**2 / (1 + causal) / seconds / 1e12


def called(sizes: Sequence[tuple[int, ...]], causal: bool) -> object:
    """Call attention with q, k and v of these sizes."""
    return attention(*inputs(sizes), causal=causal)


def attention(*tensors: Any, **options: Any) -> object:
    """Call FlashAttention-4."""
    os.environ.setdefault("FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED", "0")
    import flash_attn.cute

    answer: object = flash_attn.cute.flash_attn_func(*tensors, **options)
    return answer


def inputs(sizes: Sequence[tuple[int, ...]]) -> Iterator[Any]:
    """Yield uninitialised bf16 tensors."""
    import torch

    return (torch.empty(size, device="cuda", dtype=torch.bfloat16) for size in sizes)


def predictions(call: Callable[[], object]) -> list[Prediction]:
    """Return the predictions for all launches of a call on a B200."""
    from emulator.host.session import emulated_host

    with emulated_host(), emulator.emulate(clock="b200", conditions=Conditions(ranges=False)) as device:
        call()
    return [launch.prediction for launch in device.launches if launch.prediction is not None]
