"""Predict FlashAttention-4's forward kernel, for comparison with lab/data/b200/fa4_*.csv.

This needs PyPI's `flash-attn-4` and `triton`, which are not in requirements.lock. Causal attention counts half the
flops of full attention.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import emulator
from emulator.chip import VARIABLE
from emulator.clock.chips import chip
from emulator.clock.conditions import Conditions
from emulator.clock.prediction import Prediction

FITTED: Final = 2
"""The clock's parameters may be fitted to every FITTED-th row from the first; never to the others."""


def installed() -> bool:
    """Return True if FlashAttention-4 is installed."""
    return find_spec("flash_attn") is not None


def forward(rows: Sequence[Mapping[str, str]]) -> Iterator[float]:
    """Yield the predicted TFLOP/s of each row.

    `max_ghz` is the locked frequency; power may lower it further.
    """
    launch_s = chip("b200").launch_us * 1e-6
    for row in rows:
        call, flops = attending(row)
        seconds = sum(p.cycles / (1e9 * min(p.ghz, float(row["max_ghz"]))) + launch_s for p in predictions(call))
        yield flops / seconds / 1e12


def attending(row: Mapping[str, str]) -> tuple[Callable[[], object], float]:
    """Return (a call of a row's attention, its flops)."""
    batch, length, width, causal, heads = (int(row[c]) for c in ("batch", "seqlen", "head_dim", "causal", "heads"))
    call = partial(called, [(batch, length, heads, width)] * 3, bool(causal))
    return call, 4.0 * batch * heads * width * length**2 / (1 + causal)


def at_locked_rate(rows: Sequence[Mapping[str, str]], on: str) -> list[float]:
    """Return the predicted TFLOP/s of each row at its `ghz`, from a process that emulates that chip."""
    command, variables = [sys.executable, "-m", "lab.fa4", on], {VARIABLE: on, "CUTE_DSL_ARCH": "sm_103a"}
    given, root = json.dumps([dict(row) for row in rows]), Path(__file__).parents[1]
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, check=True, cwd=root, env=os.environ | variables
    )
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Read rows as JSON, and print their predicted TFLOP/s on the chip that the command line names."""
    found = []
    for row in json.load(sys.stdin):
        call, flops = attending(row)
        found.append(flops / sum(p.seconds for p in predictions(call, sys.argv[1], float(row["ghz"]))) / 1e12)
    print(json.dumps(found))


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


def predictions(call: Callable[[], object], on: str = "b200", ghz: float | None = None) -> list[Prediction]:
    """Return the predictions for all launches of a call on a chip. ghz: its locked clock rate."""
    from emulator.host.session import emulated_host

    with emulated_host(), emulator.emulate(clock=on, conditions=Conditions(ghz=ghz, ranges=False)) as device:
        call()
    return [launch.prediction for launch in device.launches if launch.prediction is not None]


if __name__ == "__main__":
    main()
