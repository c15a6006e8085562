"""D6b: caches in pages of any size and stride, with indices or with block tables."""

import math

from stages.caches import Paged, Served
from stages.case import Case

SINKS = (0.0, 4.0, -math.inf, -4.0, math.inf, -80.0)


def paged(heads: int, batch: int, tokens: int, cache: Paged, **more: object) -> Case:
    """Return a case with one cache."""
    options = {name: more.pop(name) for name in ("maxima", "ascending", "empty_lse") if name in more}
    served = Served((cache,), **options)  # type: ignore[arg-type]
    return Case("D6b", 512, 0, heads, tokens, batch, None, True, False, served=served, **more)  # type: ignore[arg-type]


CASES = (
    paged(64, 2, 1, Paged(11, 53, 128, gap=64)),
    paged(128, 2, 2, Paged(90, 2, 140, gap=16, lens=(140, 3)), sinks=SINKS, sms=2),
    paged(16, 2, 3, Paged(4, 61, 70, lens=(0, 70, 5, 64, 65, 1)), strided=True, maxima=True, sms=2),
    paged(8, 1, 2, Paged(2, 576, 200, gap=1024), empty_lse=math.inf, scale=0.03),
    paged(64, 2, 1, Paged(70, 1, 133, gap=32), ascending=True, peak=32),
    paged(128, 1, 3, Paged(3, 256, 330, gap=48), sms=2, peak=128),
    # Windows by block tables: sequences shorter than their tokens or longer than the table, and pages that are missing.
    paged(64, 5, 2, Paged(25, 64, 0, lens=(300, 1, 400, 5000, 129), gap=128, window=128, held=5), sinks=SINKS, sms=2),
    paged(128, 2, 2, Paged(18, 53, 0, lens=(400, 160), window=100), maxima=True, peak=32, sms=2),
    paged(16, 2, 4, Paged(160, 2, 0, lens=(140, 40), window=1000), empty_lse=math.inf, peak=128),
    paged(8, 2, 2, Paged(9, 256, 0, lens=(900, 0), gap=64, window=700), splits=4, sinks=SINKS),
    paged(64, 2, 1, Paged(9, 61, 300, lens=(300, 20)), splits=2, peak=32),
    # All keys of the pages.
    paged(64, 3, 2, Paged(15, 64, 0, lens=(260, 1, 400), gap=128, window=math.inf, held=5), sinks=SINKS, sms=2),
)
SEEDS = (1,)
