"""D6h: few heads at full speed, by products with operands swapped: keys are the rows, heads the columns.

The cases of D6d and D6f with up to 64 heads are launched in the same way, and are in those modules.
"""

import math
from dataclasses import replace

from stages import d6f
from stages.caches import Paged, Served
from stages.case import Case


def few(heads: int, batch: int, tokens: int, *caches: Paged, maxima: bool = False, **more: object) -> Case:
    """Return a case of its own."""
    served = Served(caches, maxima=maxima, empty_lse=math.inf)
    return Case("D6h", 512, 0, heads, tokens, batch, None, True, False, served=served, **more)  # type: ignore[arg-type]


def fp8(pages: int, size: int, topk: int, lens: tuple[int, ...] | None = None, **more: int) -> Paged:
    """Return a cache of 584 bytes a key."""
    return Paged(pages, size, topk, layout="v4", lens=lens, **more)


CASES = (
    few(16, 2, 1, fp8(3, 256, 128), fp8(12, 64, 512), sinks=d6f.SINKS),
    # More heads than rows of a row tile, rows of several row tiles, and heads that fill none.
    few(32, 3, 2, fp8(3, 256, 128, (128, 5, 0)), fp8(90, 2, 133, (133, 0, 0), gap=48), sms=2, maxima=True),
    few(20, 2, 2, fp8(20, 64, 0, (300, 70), window=128), fp8(9, 64, 200), sinks=d6f.SINKS, peak=32, maxima=True),
    few(48, 2, 3, fp8(4, 64, 133), sms=2, peak=128, maxima=True),
    few(32, 2, 1, Paged(3, 256, 128, layout="v41"), Paged(300, 2, 400, layout="v41_fp4"), splits=4),
    few(32, 2, 2, Paged(4, 61, 133, lens=(133, 64)), sinks=d6f.SINKS, maxima=True, peak=32),
    # D6f's with splits that the caller chooses: only then the variant depends on the number of heads alone.
    *(replace(case, milestone="D6h", splits=8) for case in d6f.CASES if case.heads == 32),
)
SEEDS = (1,)
