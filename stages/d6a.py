"""D6a: lists of keys as callers have them: a flat tensor of keys, any number of heads and indices, any strides."""

import math

import pytest

from stages.caches import Paged, Served
from stages.calls import callers
from stages.case import Case
from stages.device import Device

SINKS = (0.0, 4.0, -math.inf, -4.0, 20.0, math.inf, -80.0)


def flat(heads: int, tokens: int, keys: int, topk: int, lens: tuple[int, ...] | None = None, **more: object) -> Case:
    """Return a case whose tokens list `topk` of `keys` keys each. Options are those of Served, then those of Case."""
    options = {name: more.pop(name) for name in ("maxima", "ascending", "empty_lse") if name in more}
    served = Served((Paged(keys, 1, topk, lens=lens),), flat=True, **options)  # type: ignore[arg-type]
    return Case("D6a", 512, 0, heads, tokens, 1, None, True, False, served=served, **more)  # type: ignore[arg-type]


CASES = (
    flat(64, 2, 592, 128),
    flat(128, 3, 153, 256, (0, 256, 200), maxima=True, empty_lse=math.inf, sinks=SINKS, sms=2),
    flat(16, 1, 1521, 512, ascending=True, maxima=True, scale=0.03),
    flat(8, 33, 95, 40, sinks=SINKS, sms=4),
    flat(64, 3, 592, 133, (133, 0, 5), sinks=SINKS, strided=True, maxima=True),
    flat(1, 33, 95, 3),
    flat(100, 1, 95, 128, strided=True, sinks=SINKS),
    # Peaked, with several row tiles per CTA.
    flat(64, 3, 592, 330, (330, 133, 64), maxima=True, sms=2, peak=32),
    flat(128, 3, 592, 330, (330, 133, 64), maxima=True, sms=2, peak=128, empty_lse=math.inf),
    flat(8, 16, 592, 330, ascending=True, peak=128),
    # Split keys.
    flat(8, 3, 592, 333, (0, 333, 70), splits=4, maxima=True, empty_lse=math.inf, sinks=SINKS),
    flat(64, 1, 592, 333, splits=2, maxima=True, peak=32),
)
SEEDS = (1,)
BAD_ARGUMENTS = ("serving", "sparse", "operator")


@pytest.mark.parametrize("table", BAD_ARGUMENTS)
def test_it_says_it_rejects_bad_arguments(table: str, device: Device) -> None:
    """kernel.serving, and operators of torch, reject bad arguments by name, before anything is launched."""
    accepted = callers[-1].accepted(table, device.torch_device)
    assert not accepted, "\n".join(accepted)
