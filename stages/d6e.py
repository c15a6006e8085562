"""D6e: keys of 576 columns whose first 512 are the values: bf16, and FP8 of DeepSeek-V3.2, 656 bytes a key."""

import math

from stages.caches import Paged, Served
from stages.case import Case

SINKS = (0.0, 4.0, -math.inf, -4.0, math.inf, -80.0)


OPTIONS = ("maxima", "ascending", "empty_lse", "twice", "flat", "codes")  # of Served


def wide(heads: int, batch: int, tokens: int, *caches: Paged, **more: object) -> Case:
    """Return a case with one or two caches."""
    options = {name: more.pop(name) for name in OPTIONS if name in more}
    served = Served(caches, **options)  # type: ignore[arg-type]
    return Case("D6e", 576, 0, heads, tokens, batch, None, True, False, served=served, **more)  # type: ignore[arg-type]


def v32(pages: int, size: int, topk: int, lens: tuple[int, ...] | None = None, **more: int) -> Paged:
    """Return a cache of 656 bytes a key. `gap`: the bytes between pages, by default those of a key."""
    return Paged(pages, size, topk, layout="v32", lens=lens, **{"gap": 656, **more})


CASES = (
    wide(64, 2, 1, v32(11, 53, 128)),
    wide(128, 1, 2, v32(3, 64, 330, (330, 133)), sinks=SINKS, maxima=True, sms=2),
    wide(64, 2, 2, v32(4, 61, 133, (0, 133, 5, 64), gap=16), sinks=SINKS, empty_lse=math.inf, sms=2),
    wide(100, 1, 1, v32(9, 64, 64), strided=True),
    wide(64, 1, 2, v32(5, 64, 330), maxima=True, sms=2, peak=32),
    wide(8, 2, 4, v32(70, 1, 330, (330, 70)), ascending=True, maxima=True, peak=128),
    wide(128, 1, 1, v32(2, 256, 330), sms=2, peak=128),
    wide(16, 2, 8, v32(4, 64, 64, (64, 5)), v32(40, 2, 64), twice=True, strided=True, sinks=SINKS),
    wide(16, 3, 2, v32(20, 64, 0, (300, 1, 129), window=128), empty_lse=math.inf),
    # Split keys.
    wide(64, 1, 1, v32(40, 64, 2048), splits=16),
    wide(8, 2, 4, v32(9, 64, 576, (576, 0)), splits=4, sinks=SINKS, empty_lse=math.inf, maxima=True),
    wide(64, 1, 1, v32(9, 64, 333), splits=2, peak=32),
    # Keys in bf16.
    wide(64, 3, 1, Paged(4, 64, 133, gap=64, lens=(133, 0, 5)), sinks=SINKS, maxima=True),
    wide(128, 1, 3, Paged(592, 1, 330, lens=(330, 133, 64)), flat=True, maxima=True, sms=2, peak=32, strided=True),
    wide(8, 1, 16, Paged(4, 61, 200), splits=2, peak=128),
    wide(128, 2, 2, Paged(14, 64, 0, gap=128, lens=(400, 131), window=math.inf), sinks=SINKS, maxima=True, sms=2),
    wide(64, 2, 2, Paged(6, 192, 0, lens=(500, 70), window=math.inf), splits=4, peak=32),
)
SEEDS = (1,)
#: Every code, and scales of all magnitudes: the only key of a token is its output. By each kernel.
EVERY_CODE = tuple(wide(*shape, v32(20, 2, 9), codes=True, sms=2) for shape in ((1, 1, 40), (64, 1, 6), (128, 1, 6)))
TWINS = EVERY_CODE
