"""D5a: partials (U, lse, m) of the window branch for every head dim and both places of P. Empty rows are exact."""

from dataclasses import replace
from itertools import product

import numpy as np

from stages.case import Case, PPath
from stages.device import Device
from stages.expected import outputs_of
from stages.verify import launched

KEYS = 300
LENS = (KEYS, 130, 1, 0)
PATHS: tuple[PPath, ...] = ("tmem", "smem")
EVEN = tuple(
    Case(
        "D5a", hd, KEYS, 16, 2, 4, p_path=path, shared_kv=hd == 512,
        lens=LENS, causal=True, window=128, scale=0.3 if hd == 256 else None,
        sms=2 if path == "smem" else None,
    )
    for hd, path in product((64, 128, 256, 512), PATHS)
    if (hd, path) != (512, "tmem")
)  # fmt: skip
CASES = (*EVEN, *(replace(case, scale=None, window=None, peak=32) for case in EVEN if case.p_path == "tmem"))
SEEDS = (1,)


def test_empty_rows_are_exact(case: Case, seed: int, device: Device) -> None:
    """O and U are 0, and lse and m are -inf, in rows that see no key: 3 of 4 tokens in the last two sequences."""
    got = outputs_of(case, launched(case, seed, device))
    empty = ~case.visible.any(2).repeat_interleave(case.heads, 1).flatten().numpy()
    assert empty.sum() == 3 * case.heads, f"{empty.sum()} rows are empty, not {3 * case.heads}"
    for name, value in {"O": 0.0, "U": 0.0, "lse": -np.inf, "m": -np.inf}.items():
        assert (got[name][empty] == value).all(), (
            f"{case.milestone} {case.name} seed={seed}: {name} of empty rows is not {value}"
        )
