"""Keys with a code of NaN: the output of a token that lists one is NaN, and no other output is.

`python test_nan_codes.py HEADS` checks all layouts on the chip that CUTE_DSL_ARCH names.
"""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import emulator
from emulator.bridge.patches import ORIGINAL_ENVIRONMENT
from kernel.serving import IndexedCache, attention
from stages.cache_layouts import V4, V32, V41, E4m3, V41Fp4
from tests.tiers import tier

ROOT = Path(__file__).resolve().parents[2]
Quantised = V4 | V32 | V41 | V41Fp4 | E4m3
LAYOUTS: tuple[Quantised, ...] = (V4(), V32(), V41(), V41Fp4(), E4m3())
#: (heads, index in LAYOUTS): each number of heads and each layout once.
IN_CI = {(8, 3), (32, 4), (64, 1), (128, 2)}
KEYS = 32
NANS = torch.tensor([0x7F, 0xFF], dtype=torch.uint8)


@pytest.mark.parametrize(
    ("layout", "heads"),
    [
        pytest.param(
            layout,
            heads,
            marks=tier((heads, place) == (8, 0), (heads, place) in IN_CI),
            id=f"{heads}-{type(layout).__name__}",
        )
        for heads in (8, 32, 64, 128)
        for place, layout in enumerate(LAYOUTS)
    ],
)
def test_a_code_of_nan_gives_nan(layout: Quantised, heads: int) -> None:
    check(layout, heads)


@pytest.mark.parametrize(
    "layout",
    [pytest.param(each, marks=tier(False, type(each) is V41Fp4)) for each in LAYOUTS],
    ids=lambda layout: type(layout).__name__,
)
@pytest.mark.parametrize("heads", [64, 128])
def test_a_code_of_nan_gives_nan_at_every_place_of_a_kv_tile(layout: Quantised, heads: int) -> None:
    """Each token lists the key with the code once, and another key at all other places.

    The layouts with codes of 8 bits place them alike.
    """
    places = 128
    rows, _ = layout.every_code(KEYS)
    rows[1, 256 if isinstance(layout, V41Fp4) else 5] = NANS[0]
    pages = layout.pages(rows, torch.ones(KEYS, dtype=torch.bool), 2, 0, math.nan)
    indices = 2 - torch.eye(places, dtype=torch.int32)[None]
    q = torch.zeros(1, places, heads, layout.columns).bfloat16()
    with emulator.emulate():
        assert attention(q, IndexedCache(pages, indices), splits=1).o.isnan().all()


@pytest.mark.thorough
def test_a_code_of_nan_gives_nan_on_hopper() -> None:
    environment = ORIGINAL_ENVIRONMENT | {"CUTE_DSL_ARCH": "sm_90a", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, __file__, "8"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def check(layout: Quantised, heads: int) -> None:
    """Check tokens that list a key each, and indices that name none. Odd keys have a code of NaN.

    Queries are 0, so that the output is the key. FP4 has no code of NaN; a scale is NaN there. So has key 0, which no
    token lists; its bytes are read in place of those of a key that does not exist.
    """
    rows, values = layout.every_code(KEYS)
    first, count = (256, 32) if isinstance(layout, V41Fp4) else (0, layout.codes)
    odd = torch.arange(1, KEYS, 2)
    rows[odd, first + odd * 97 % count] = NANS.repeat(KEYS // 4)
    rows[0, first] = NANS[0]
    pages = layout.pages(rows, torch.ones(KEYS, dtype=torch.bool), 2, 0, math.nan)
    indices = torch.full((1, KEYS - 1, 3), -1, dtype=torch.int32)
    indices[0, :, 1], indices[:, :, 2] = torch.arange(1, KEYS), KEYS
    q = torch.zeros(1, KEYS - 1, heads, layout.columns).bfloat16()
    with emulator.emulate():
        o = attention(q, IndexedCache(pages, indices)).o[0]
    assert o[::2].isnan().all()
    assert torch.equal(o[1::2], values[2::2, None, :512].expand_as(o[1::2]))


if __name__ == "__main__":
    for each in LAYOUTS:
        check(each, int(sys.argv[1]))
