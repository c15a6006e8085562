"""Tests of the milestones whose caches have codes. EVERY_CODE of a module has cases whose tokens list one key each."""

from dataclasses import replace

import torch

from stages.case import Case
from stages.device import Device
from stages.inputs import draw
from stages.served import with_nan_codes
from stages.verify import launched


def test_every_code_and_scale_is_exact(code: Case, device: Device) -> None:
    """The output of a token that lists one key is that key, bit for bit, with codes times scales rounded once."""
    o = launched(code, 1, device).o[0].cpu().double()
    keys = draw(code, 1).caches[0].keys[: code.tokens, None, : code.value_dim].double().expand_as(o)
    differs = (o != keys).nonzero()
    assert torch.isfinite(keys).all()
    assert not len(differs), f"{len(differs)} of {keys.numel()} elements differ, first {differs[:1].tolist()}"


def test_a_code_of_nan_gives_nan(code: Case, device: Device) -> None:
    """A token gets the mean of its two keys, which have no logits, or NaN if the first one has a code of NaN.

    One lane converts both, and only one of them may have scales above 1.
    """
    inputs, tokens = draw(code, 1), torch.arange(code.tokens)
    cache = with_nan_codes(inputs.caches[0])
    listed = cache.indices.clone()
    listed[..., 8] = (tokens // 2 * 2 + 20) % cache.paged.keys  # an even key, without a code of NaN
    cache = cache.with_lists(listed, cache.counts)
    o = launched(code, 1, device, replace(inputs, caches=(cache,))).o[0].cpu().double()
    keys = cache.keys[listed[0, :, ::8], : code.value_dim].double()
    mean = keys.mean(1)[:, None].where(tokens[:, None, None] % 2 == 0, torch.nan)
    wrong = (o - mean).abs() > keys.abs().amax(1)[:, None] * 2.0**-7 + 2.0**-126
    wrong |= o.isnan() != mean.isnan()
    assert not wrong.any(), f"{wrong.sum()} elements are not their keys' mean, first {wrong.nonzero()[:1].tolist()}"
