"""D5b: branches with a launch each, merged in Python with sinks of any size; branches may be empty, or all of them."""

import math

from stages.case import Case, Compressed

SINKS = (-math.inf, -80.0, 0.0, 80.0, math.inf)
#: Both branches; no compressed key yet; no window; neither.
LENS, PAST = (150, 3, 0, 0), (100, 0, 300, 0)
CASES = tuple(
    Case(
        "D5b", hd, 170, 16, 2, 4, None, True, False,
        lens=LENS, causal=True, window=128, compressed=compressed, sinks=SINKS, merged=True, scale=scale,
    )
    for hd, compressed, scale in (
        (64, None, None),
        (64, Compressed(PAST, ratio=4), None),
        (64, Compressed(PAST, ratio=4, topk=60), 0.05),
        (512, Compressed(PAST, ratio=4), None),
    )
)  # fmt: skip
SEEDS = (1,)
