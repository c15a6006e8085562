"""D5b: one launch per branch, merged in Python with sinks of any size. Some or all branches may be empty."""

import math
from typing import Literal

import pytest

from stages.calls import callers
from stages.case import Case, Compressed
from stages.device import Device

BY_OUTPUTS: Literal["outputs"] = "outputs"
SINKS = (-math.inf, -80.0, 0.0, 80.0, math.inf)
#: By sequence: keys in both branches; no compressed key; no window key; no key.
LENS, PAST = (150, 3, 0, 0), (100, 0, 300, 0)
CASES = tuple(
    Case(
        "D5b", hd, 170, 16, 2, 4, None, True, False,
        lens=LENS, causal=True, window=128, compressed=compressed, sinks=sinks, merged=merged, scale=scale,
    )
    for hd, compressed, sinks, merged, scale in (
        (64, None, SINKS, True, None),
        (64, None, None, True, None),
        (64, Compressed(PAST, ratio=4), SINKS, True, None),
        (64, Compressed(PAST, ratio=4, topk=60), SINKS, True, 0.05),
        (512, Compressed(PAST, ratio=4), SINKS, True, None),
        (64, Compressed(PAST, ratio=4), SINKS, BY_OUTPUTS, None),
        (64, Compressed(PAST, ratio=4), None, BY_OUTPUTS, None),
    )
)  # fmt: skip
SEEDS = (1,)
BAD_ARGUMENTS = ("merge", "merge_outputs")


@pytest.mark.parametrize("table", BAD_ARGUMENTS)
def test_says_it_rejects_bad_arguments(table: str, device: Device) -> None:
    """kernel.merge and kernel.merge_outputs reject bad arguments by name."""
    accepted = callers[-1].accepted(table, device.torch_device)
    assert not accepted, "\n".join(accepted)
