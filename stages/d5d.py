"""D5d: a whole DeepSeek-V4 attention layer through kernel.dsv4.attention: sinks in the epilogue, O and lse."""

import math
from typing import Any, Literal

import pytest

from stages.calls import LAYER_WINDOW as WINDOW
from stages.calls import callers
from stages.case import Case, Compressed
from stages.device import Device

SINKS = (0.0, 4.0, -math.inf, -4.0, 80.0, math.inf, -80.0)
NEAR = (4.5, 5.5, 5.0)  # close to the lse of rows that see a full window of even scores
SMALL = (0.0, 4.0, -math.inf, -4.0, math.inf, -80.0)  # for peaked rows: without 80, beside which O underflows in bf16
AUTO: Literal["auto"] = "auto"
ALL_OR_NOTHING = (-math.inf, math.inf)
FLASH, PRO, SHARD = 64, 128, 8  # query heads of DeepSeek-V4-Flash, of -Pro, and of one tensor-parallel GPU


def layer(
    heads: int,
    tokens: int,
    lens: tuple[int, ...],
    compressed: Compressed | None,
    scale: float | None = None,
    splits: int | Literal["auto"] = 1,
    sms: int | None = None,
    *,
    head_dim: int = 512,
    keys: int = WINDOW + 20,
    sinks: tuple[float, ...] | None = SINKS,
    **more: Any,
) -> Case:
    """Return a case with V = K, window and sinks, as in the model."""
    return Case(
        "D5d", head_dim, keys, heads, tokens, len(lens), None, True, False,
        lens=lens, causal=True, window=WINDOW, compressed=compressed, sinks=sinks, scale=scale, splits=splits,
        sms=sms, layer=True, **more,
    )  # fmt: skip


CSA, HCA = Compressed((700, 0), ratio=4, topk=300), Compressed((9000, 0), ratio=128)
BLOCKS = Compressed((900, 0, 70), ratio=4)
CASES = (
    layer(PRO, 1, (WINDOW + 1,), Compressed((8000,), ratio=4, topk=1024)),
    layer(FLASH, 2, (WINDOW + 1,), Compressed((4000,), ratio=4, topk=512), scale=0.3),
    layer(PRO, 1, (WINDOW, 7), HCA, sms=2),
    layer(FLASH, 2, (WINDOW + 1, 1), HCA, sms=2),
    layer(PRO, 1, (WINDOW + 1, 0), None, sms=2),
    layer(FLASH, 3, (WINDOW + 2, 2), None, sms=2),
    layer(PRO, 1, (WINDOW, 7), HCA, splits=2),
    layer(SHARD, 2, (WINDOW + 1,), Compressed((4000,), ratio=4, topk=600), splits="auto"),
    # Peaked: every kind of layer, with the head counts of both models, and with split keys.
    *(
        layer(heads, 2, (WINDOW + 1, 5), kind, sms=2, sinks=SMALL, peak=32)
        for heads in (PRO, FLASH)
        for kind in (CSA, HCA, None)
    ),
    layer(PRO, 2, (WINDOW + 1, 5), CSA, sms=2, sinks=ALL_OR_NOTHING, peak=128),
    layer(PRO, 1, (WINDOW, 7), HCA, splits=2, sinks=ALL_OR_NOTHING, peak=128),
    layer(SHARD, 2, (WINDOW + 1,), Compressed((4000,), ratio=4, topk=600), splits="auto", sinks=SMALL, peak=32),
    layer(FLASH, 2, (400,), Compressed((900,), ratio=4), keys=400, sinks=SMALL, trend="growing"),
    # Sinks with as much weight as the keys; every optional argument of the layer omitted in some case.
    layer(FLASH, 2, (WINDOW + 1, WINDOW), None, sinks=NEAR, sms=2),
    layer(FLASH, 2, (WINDOW + 20, 9), Compressed((0, 0), ratio=4), sinks=None, sms=2),
    Case(
        "D5d", 512, 0, FLASH, 2, 2, None, True, False, causal=True, window=WINDOW, sinks=NEAR, sms=2, layer=True,
        lens=None, compressed=Compressed((500, 300), ratio=4, topk=150, lens=False),
    ),
    # Keys split over four CTAs; each keeps half of the rows of a row tile.
    layer(FLASH, 3, (WINDOW + 20, 9, 130), Compressed((2400, 0, 300), ratio=4), splits="auto", sinks=NEAR),
    # Other head dims: one and two Q tiles, CTA pairs, and split keys with the kernel's choice of splits.
    *(
        layer(heads, t, (WINDOW + 20, 130, 3), BLOCKS, splits=splits, sms=sms, head_dim=hd, sinks=NEAR)
        for hd, heads, t, sms, splits in (
            (64, 16, 2, 2, 1), (128, 16, 2, 2, 1), (256, 16, 2, 2, 1),
            (64, 64, 4, 2, 1), (128, 64, 4, 2, 1), (256, 64, 4, 2, 1),
            (64, 8, 2, None, AUTO), (128, 64, 1, None, AUTO), (256, 32, 2, None, 8),
        )
    ),
)  # fmt: skip
SEEDS = (1,)
BAD_ARGUMENTS = ("fmha", "layer")


@pytest.mark.parametrize("table", BAD_ARGUMENTS)
def test_it_says_it_rejects_bad_arguments(table: str, device: Device) -> None:
    """kernel.fmha and kernel.dsv4.attention reject bad arguments by their own names, before anything is launched."""
    accepted = callers[-1].accepted(table, device.torch_device)
    assert not accepted, "\n".join(accepted)
