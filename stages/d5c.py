"""D5c: window and compressed keys in one launch, with all visible blocks (HCA) or top-k indices per token (CSA)."""

from dataclasses import replace

import pytest

from stages.case import Case, Compressed
from stages.check import compare, failing
from stages.device import Device
from stages.expected import outputs_of
from stages.verify import expected, launched

#: By sequence: keys in both branches; no compressed key; no window key; no key.
LENS, PAST = (150, 3, 0, 0), (100, 0, 300, 0)
EVEN = tuple(
    Case(
        "D5c", hd, 170, heads, 2, 4, shared_kv=True,
        lens=LENS, causal=True, window=128, compressed=Compressed(PAST, ratio, topk), scale=scale, sms=sms,
    )
    for hd, heads, ratio, topk, scale, sms in (
        (64, 64, 4, None, None, None),
        (64, 64, 4, 150, None, 2),
        (256, 16, 128, None, 0.3, None),
        (128, 16, 4, 60, None, None),
        (512, 16, 4, None, None, None),
        (512, 16, 4, 70, 0.3, 2),
    )
)  # fmt: skip
CASES = (
    *EVEN,
    # Peaked: every kernel variant, with blocks or top-k indices and an unbounded window, with sinks and partials.
    *(
        Case(
            "D5c", hd, keys, heads, tokens, 2, shared_kv=True, causal=True, lens=(keys, 3),
            compressed=Compressed((900, 0), 4, topk, *more), splits=splits, sms=sms, sinks=(-80.0, -60.0), peak=32,
        )
        for hd, keys, heads, tokens, topk, more, splits, sms in (
            (64, 200, 64, 3, None, (), 1, 2),
            (256, 200, 64, 5, None, (), 1, 2),
            (256, 200, 16, 2, 150, (False,), 1, None),
            (256, 70, 144, 2, 150, (True, False), 1, 2),
            (512, 200, 128, 2, None, (), 1, 2),
            (512, 70, 128, 2, 330, (False, False), 1, 2),
            (64, 200, 16, 4, None, (), 4, None),
            (128, 200, 16, 2, 330, (), 2, None),
        )
    ),
    # The same with even scores: here the sinks' weight is comparable with that of the keys.
    Case(
        "D5c", 256, 200, 16, 2, 2, shared_kv=True, causal=True, lens=(200, 3),
        compressed=Compressed((900, 0), 4, 150, lens=False), sinks=(5.0, 6.0),
    ),
    # More visible blocks than rows, and rows in slices of larger tensors.
    Case(
        "D5c", 64, 170, 16, 6, 2, shared_kv=True,
        lens=(150, 3), causal=True, window=128, compressed=Compressed((900, 0), 4, blocks=150), strided=True,
    ),
    Case(
        "D5c", 512, 170, 16, 2, 2, shared_kv=True,
        lens=(150, 3), causal=True, window=128, compressed=Compressed((900, 0), 4, 70, out_of_range=True), strided=True,
    ),
)  # fmt: skip
SEEDS = (1,)
#: Launched in addition to CASES: one launch per branch, and a merge.
TWINS = tuple(replace(case, partials=False, merged=True) for case in EVEN)


@pytest.mark.parametrize("case", EVEN, ids=str)
def test_one_launch_per_branch_gives_the_same(case: Case, seed: int, device: Device) -> None:
    """One launch per branch, merged, stays within the pins of the launch with both branches.

    The merged result is compared with the reference, not with the other launch, whose own rounding would add to it.
    """
    merged = replace(case, partials=False, merged=True)
    apart = outputs_of(merged, launched(merged, seed, device))
    _, want, model = expected(case, seed, device.is_gpu)
    outside = failing(compare(case, apart, want, model, ("O", "lse")))
    assert not outside, f"{case.milestone} {case.name} seed={seed}: {', '.join(map(str, outside))}"
