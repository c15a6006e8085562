"""D5b: one launch per branch, merged in Python with sinks of any size. Some or all branches may be empty."""

import math

from stages.calls import callers
from stages.case import Case, Compressed
from stages.device import Device

SINKS = (-math.inf, -80.0, 0.0, 80.0, math.inf)
#: By sequence: keys in both branches; no compressed key; no window key; no key.
LENS, PAST = (150, 3, 0, 0), (100, 0, 300, 0)
CASES = tuple(
    Case(
        "D5b", hd, 170, 16, 2, 4, None, True, False,
        lens=LENS, causal=True, window=128, compressed=compressed, sinks=sinks, merged=True, scale=scale,
    )
    for hd, compressed, sinks, scale in (
        (64, None, SINKS, None),
        (64, None, None, None),
        (64, Compressed(PAST, ratio=4), SINKS, None),
        (64, Compressed(PAST, ratio=4, topk=60), SINKS, 0.05),
        (512, Compressed(PAST, ratio=4), SINKS, None),
    )
)  # fmt: skip
SEEDS = (1,)
BAD_ARGUMENTS = ("merge",)


def test_says_it_rejects_bad_arguments(device: Device) -> None:
    """kernel.merge rejects bad arguments by name."""
    accepted = callers[-1].accepted("merge", device.torch_device)
    assert not accepted, "\n".join(accepted)
