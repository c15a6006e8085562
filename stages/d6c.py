"""D6c: two caches in one softmax, each with its own pages, indices and lengths."""

import math

from stages.caches import Paged, Served
from stages.case import Case

SINKS = (0.0, 4.0, -math.inf, -4.0, math.inf, -80.0)


def both(heads: int, batch: int, tokens: int, main: Paged, extra: Paged, **more: object) -> Case:
    """Return a case with two caches."""
    options = {name: more.pop(name) for name in ("maxima", "ascending", "empty_lse", "twice") if name in more}
    served = Served((main, extra), **options)  # type: ignore[arg-type]
    return Case("D6c", 512, 0, heads, tokens, batch, None, True, False, served=served, **more)  # type: ignore[arg-type]


#: A token has both, the window alone, compressed keys alone, or nothing.
EITHER, OTHER = (128, 70, 0, 0), (70, 0, 133, 0)
CASES = (
    both(64, 2, 1, Paged(2, 256, 128), Paged(12, 64, 512)),
    both(128, 1, 1, Paged(2, 256, 128, lens=(100,)), Paged(600, 2, 1024, gap=32), sinks=SINKS),
    both(64, 4, 1, Paged(3, 256, 128, lens=EITHER), Paged(3, 64, 133, lens=OTHER), sinks=SINKS, sms=2, maxima=True),
    both(128, 2, 2, Paged(9, 53, 128, lens=EITHER), Paged(40, 2, 133, gap=16, lens=OTHER), empty_lse=math.inf, sms=2),
    both(16, 2, 8, Paged(4, 64, 64, lens=(64, 5)), Paged(4, 64, 64), twice=True, strided=True),
    both(64, 2, 2, Paged(4, 256, 128), Paged(9, 61, 200, lens=(200, 3)), peak=32, sms=2, maxima=True),
    both(128, 2, 2, Paged(4, 256, 128, lens=(3, 128)), Paged(90, 2, 200), peak=128, sms=2, ascending=True),
    # A window by a block table, and indices; the last sequence is longer than the table.
    both(64, 3, 2, Paged(20, 64, 0, lens=(300, 1, 1 << 30), window=128, held=5), Paged(5, 64, 133), sinks=SINKS),
    # Split keys: tiles of both caches are divided together.
    both(8, 2, 2, Paged(3, 256, 128), Paged(9, 64, 512, lens=(512, 0)), splits=4, maxima=True, empty_lse=math.inf),
    both(64, 1, 1, Paged(3, 256, 128), Paged(300, 2, 400), splits=8, sinks=SINKS, peak=32),
)
SEEDS = (1,)
