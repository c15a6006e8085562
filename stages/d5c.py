"""D5c: window and compressed keys in one launch, all visible blocks (HCA) or those that a token lists (CSA)."""

from dataclasses import replace

from stages.case import Case, Compressed, draw, outputs_of, reference
from stages.check import compare, failing
from stages.device import Device
from stages.verify import launched

#: Both branches; no compressed key yet; no window; neither.
LENS, PAST = (150, 3, 0, 0), (100, 0, 300, 0)
CASES = tuple(
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
SEEDS = (1,)


def test_one_launch_equals_one_a_branch(case: Case, seed: int, device: Device) -> None:
    """Two launches and a merge lie within the pins that one launch of both branches is held to.

    Both are held to the reference: between two results, each with its rounding, the errors of both would count.
    """
    merged = replace(case, partials=False, merged=True)
    apart = outputs_of(merged, launched(merged, seed, device))
    outside = failing(compare(case, apart, reference(case, draw(case, seed)), ("O", "lse")))
    assert not outside, f"{case.milestone} {case.name} seed={seed}: {', '.join(map(str, outside))}"
