"""D6d: FP8 caches of DeepSeek-V4, 584 bytes a key: codes, rotary columns in bf16, scales behind a page's keys."""

import math
from dataclasses import replace

from stages import d6c
from stages.caches import Paged, Served
from stages.case import Case


def quantised(case: Case) -> Case:
    """Return a case of D6c with V4's layout. A page's stride is a multiple of 16 bytes."""
    assert case.served is not None
    caches = tuple(replace(each, layout="v4", gap=each.gap + each.size % 2 * 8) for each in case.served.caches)
    return replace(case, milestone="D6d", served=replace(case.served, caches=caches))


def paged(heads: int, batch: int, tokens: int, cache: Paged, **more: object) -> Case:
    """Return a case with one cache in V4's layout."""
    served = Served((replace(cache, layout="v4"),), maxima=True, empty_lse=math.inf)
    return Case("D6d", 512, 0, heads, tokens, batch, None, True, False, served=served, **more)  # type: ignore[arg-type]


CASES = (
    *(quantised(case) for case in d6c.CASES),
    paged(128, 1, 2, Paged(3, 256, 133), sinks=d6c.SINKS, peak=32),
    paged(16, 3, 2, Paged(20, 64, 0, lens=(300, 1, 129), gap=128, window=128)),
    paged(8, 2, 6, Paged(70, 1, 133, gap=8, lens=(133, 70)), peak=128),
    paged(128, 2, 2, Paged(20, 64, 0, lens=(300, 1), gap=128, window=128), sms=2),
)
SEEDS = (1,)
KEYS = Paged(20, 2, 9, layout="v4")
#: Every code and every scale that is finite: the only key of a token is its output. By each kernel.
EVERY_CODE = tuple(
    Case("D6d", 512, 0, heads, tokens, 1, None, True, False, served=Served((KEYS,), codes=True), sms=2)
    for heads, tokens in ((1, 40), (64, 6), (128, 6))
)
TWINS = EVERY_CODE
