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
    """A token that lists a key with a code of NaN gets NaN, and no other token does."""
    inputs = draw(code, 1)
    changed = replace(inputs, caches=tuple(with_nan_codes(each) for each in inputs.caches))
    nan = launched(code, 1, device, changed).o[0].cpu().isnan()
    expected = (torch.arange(code.tokens) % 2 == 1)[:, None, None].expand_as(nan)
    wrong = (nan != expected).nonzero()
    assert not len(wrong), f"{len(wrong)} elements are NaN or not against their key, first {wrong[:1].tolist()}"
