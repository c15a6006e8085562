"""Tests of the milestones whose caches have codes. EVERY_CODE of a module has cases whose tokens list one key each."""

from dataclasses import replace

import torch

from stages.case import Case
from stages.device import Device
from stages.inputs import draw
from stages.served import with_nan_codes
from stages.verify import launched

KEYS = 8  # of a warp at a time: a lane converts one of them, and then the same of the next
OTHER = 20  # keys later, scales are others


def test_every_code_and_scale_is_exact(code: Case, device: Device) -> None:
    """The output of a token that lists one key is that key, bit for bit, with codes times scales rounded once."""
    o = launched(code, 1, device).o[0].cpu().double()
    keys = draw(code, 1).caches[0].keys[: code.tokens, None, : code.value_dim].double().expand_as(o)
    differs = (o != keys).nonzero()
    assert torch.isfinite(keys).all()
    assert not len(differs), f"{len(differs)} of {keys.numel()} elements differ, first {differs[:1].tolist()}"


def test_a_code_of_nan_gives_nan(code: Case, device: Device) -> None:
    """A token that lists two keys, without a logit, gets their mean, or NaN if they have codes of NaN.

    The same lane converts both: one may have scales above 1, and the other not.
    """
    inputs = draw(code, 1)
    (cache,) = inputs.caches
    both = torch.stack([torch.arange(code.tokens), (torch.arange(code.tokens) + OTHER) % cache.paged.keys], 1)
    listed = torch.full((1, code.tokens, KEYS + 1), -1, dtype=torch.int32)
    listed[0, :, [0, KEYS]] = both.int()
    cache = with_nan_codes(cache).with_lists(listed, torch.full((1, code.tokens), KEYS + 1, dtype=torch.int32))
    o = launched(code, 1, device, replace(inputs, caches=(cache,))).o[0].cpu().double()
    odd = (torch.arange(code.tokens) % 2 == 1)[:, None, None]
    keys = cache.keys[both, : code.value_dim].double()
    expected = keys.mean(1)[:, None].expand_as(o).where(~odd, torch.nan)
    close = (o - expected).abs() <= keys.abs().amax(1)[:, None] * 2.0**-7 + 2.0**-126  # the smallest normal
    wrong = (~close & ~(odd & o.isnan())).nonzero()
    assert not len(wrong), f"{len(wrong)} elements are not their keys' mean, or not NaN, first {wrong[:1].tolist()}"
