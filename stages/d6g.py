"""D6g: caches of DeepSeek-V4.1, in FP8 of 528 bytes a key and in FP4 of 288, and caches in FP8 without scales."""

import math
from dataclasses import replace

from stages.caches import Paged, Served
from stages.case import Case

SINKS = (0.0, 4.0, -math.inf, -4.0, math.inf, -80.0)
OPTIONS = ("maxima", "ascending", "empty_lse", "twice", "codes")  # of Served


def served(heads: int, batch: int, tokens: int, *caches: Paged, **more: object) -> Case:
    """Return a case with one or two caches."""
    options = {name: more.pop(name) for name in OPTIONS if name in more}
    caches_and_options = Served(caches, **options)  # type: ignore[arg-type]
    rest: dict[str, object] = {"served": caches_and_options, **more}
    return Case("D6g", 512, 0, heads, tokens, batch, None, True, False, **rest)  # type: ignore[arg-type]


def fp8(pages: int, size: int, topk: int, lens: tuple[int, ...] | None = None, **more: int) -> Paged:
    """Return a cache of 528 bytes a key."""
    return Paged(pages, size, topk, layout="v41", lens=lens, **more)


def fp4(pages: int, size: int, topk: int, lens: tuple[int, ...] | None = None, **more: int) -> Paged:
    """Return a cache of 288 bytes a key."""
    return Paged(pages, size, topk, layout="v41_fp4", lens=lens, **more)


def e4m3(pages: int, size: int, topk: int, lens: tuple[int, ...] | None = None, **more: int) -> Paged:
    """Return a cache of 512 bytes a key, without scales."""
    return Paged(pages, size, topk, layout="e4m3", lens=lens, **more)


def page_scales(case: Case) -> Case:
    """Return a case with the codes of a page's keys before their scales."""
    assert case.served is not None
    caches = (replace(each, layout=f"{each.layout}_page_scales") for each in case.served.caches)  # type: ignore[arg-type]
    return replace(case, served=replace(case.served, caches=tuple(caches)))


#: A token has both, the window alone, compressed keys alone, or nothing.
EITHER, OTHER = (128, 70, 0, 0), (70, 0, 133, 0)
CASES = (
    served(64, 2, 1, fp8(2, 256, 128), fp4(12, 64, 512)),
    served(64, 4, 1, fp8(3, 123, 128, EITHER, gap=528), fp4(3, 64, 133, OTHER), sinks=SINKS, sms=2, maxima=True),
    served(128, 2, 2, fp8(9, 53, 128, EITHER), fp4(80, 1, 133, OTHER, gap=16), empty_lse=math.inf, sms=2),
    served(128, 1, 1, fp8(2, 256, 128, (100,)), fp8(150, 2, 200, gap=48), sinks=SINKS),
    served(16, 2, 8, fp8(4, 64, 64, (64, 5)), fp8(4, 64, 64), twice=True, strided=True),
    served(8, 2, 2, fp8(20, 64, 0, (300, 1), window=128), fp4(5, 69, 133), sinks=SINKS, empty_lse=math.inf),
    served(64, 2, 2, fp8(4, 256, 128), fp4(9, 61, 200, (200, 3)), peak=32, sms=2, maxima=True),
    served(128, 2, 2, fp8(4, 256, 128, (3, 128)), fp4(90, 2, 200), peak=128, sms=2, ascending=True),
    # One cache.
    served(64, 3, 1, fp8(61, 5, 200, (200, 0, 65))),
    served(100, 1, 2, fp4(4, 64, 133), maxima=True),
    # Split keys: tiles of both caches are divided together.
    served(8, 2, 2, fp8(3, 256, 128), fp4(9, 64, 512, (512, 0)), splits=4, maxima=True, empty_lse=math.inf),
    served(64, 1, 1, fp8(3, 256, 128), fp4(300, 2, 400), splits=8, sinks=SINKS, peak=32),
    # Pages with all codes before the scales: of one kernel each with 64, 128, 8 and 32 heads.
    page_scales(served(64, 2, 1, fp8(3, 61, 128, (100, 5), gap=48), fp4(70, 2, 133, (133, 0)), sinks=SINKS)),
    page_scales(served(128, 2, 1, fp8(2, 64, 128), fp4(3, 64, 133), sms=2, maxima=True)),
    page_scales(served(8, 2, 2, fp8(20, 64, 0, (300, 1), window=128), fp4(5, 69, 133), splits=2, empty_lse=math.inf)),
    page_scales(served(32, 1, 2, fp8(3, 64, 128), fp4(30, 2, 60, (60, 3)), splits=2, sinks=SINKS)),
    # FP8 without scales, the same.
    served(64, 2, 1, e4m3(3, 61, 128, (100, 5), gap=48), e4m3(70, 2, 133, (133, 0)), sinks=SINKS, peak=32),
    served(128, 2, 1, e4m3(2, 64, 128), e4m3(3, 64, 133), sms=2, maxima=True),
    served(8, 2, 2, e4m3(20, 64, 0, (300, 1), window=128), e4m3(5, 69, 133), splits=2, empty_lse=math.inf),
    served(32, 1, 2, e4m3(3, 64, 128), e4m3(30, 2, 60, (60, 3)), splits=2, sinks=SINKS),
)
SEEDS = (1,)
#: Every code and every scale that is finite: the only key of a token is its output. By each kernel.
EVERY_CODE = (
    page_scales(served(1, 1, 40, fp8(20, 2, 9), codes=True, sms=2)),
    page_scales(served(1, 1, 40, fp4(20, 2, 9), codes=True, sms=2)),
    *(
        served(*shape, layout(20, 2, 9), codes=True, sms=2)
        for shape in ((1, 1, 40), (64, 1, 6), (128, 1, 6))
        for layout in (fp8, fp4, e4m3)
    ),
)
TWINS = EVERY_CODE
