"""D5d: a whole DSV4 attention layer in one launch. Sink merged in the epilogue, normalised O and lse, H=128 and 64."""

import math
from typing import Literal

from stages.case import Case, Compressed

WINDOW = 128
SINKS = (0.0, 4.0, -math.inf, -4.0, 80.0, math.inf, -80.0)
FLASH, PRO, SHARE = 64, 128, 8  # query heads of DeepSeek-V4-Flash and -Pro, and of one GPU of several


def layer(
    heads: int,
    tokens: int,
    lens: tuple[int, ...],
    compressed: Compressed | None,
    scale: float | None = None,
    splits: int | Literal["auto"] = 1,
    sms: int | None = None,
) -> Case:
    """Head dim 512, V = K, window and sink: as in the model."""
    return Case(
        "D5d", 512, WINDOW + 20, heads, tokens, len(lens), None, True, False,
        lens=lens, causal=True, window=WINDOW, compressed=compressed, sinks=SINKS, scale=scale, splits=splits,
        sms=sms,
    )  # fmt: skip


CASES = (
    layer(PRO, 1, (WINDOW + 1,), Compressed((8000,), ratio=4, topk=1024)),
    layer(FLASH, 2, (WINDOW + 1,), Compressed((4000,), ratio=4, topk=512), scale=0.3),
    layer(PRO, 1, (WINDOW, 7), Compressed((9000, 0), ratio=128), sms=2),
    layer(FLASH, 2, (WINDOW + 1, 1), Compressed((9000, 0), ratio=128), sms=2),
    layer(PRO, 1, (WINDOW + 1, 0), None, sms=2),
    layer(FLASH, 3, (WINDOW + 2, 2), None, sms=2),
    layer(PRO, 1, (WINDOW, 7), Compressed((9000, 0), ratio=128), splits=2),
    layer(SHARE, 2, (WINDOW + 1,), Compressed((4000,), ratio=4, topk=600), splits="auto"),
)
SEEDS = (1,)
