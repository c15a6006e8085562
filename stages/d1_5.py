"""D1.5: O normalised in the epilogue, through one path from tensor memory: equal to the partials normalised outside."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from stages.case import Case
from stages.device import Device
from stages.expected import outputs_of
from stages.verify import launched

CASES = tuple(
    Case("D1.5", head_dim, 200, heads=64, partials=partials, scale=0.3 if head_dim == 256 else None)
    for head_dim in (64, 128, 256, 512)
    for partials in (False, True)
)
SEEDS = (1, 7)  # with 7, maxima of an H200 lag by factors that round

FP32_STEP = 2.0**-23  # relative
BF16_DIGITS = 8
ROUND = 2.0**-24  # relative, of one operation in fp32
LOG2 = 2.0**-22  # of lg2.approx, absolute within (0.5, 2) and relative elsewhere; also of 1/l with two products


@pytest.mark.parametrize("case", [case for case in CASES if case.partials], ids=str)
def test_equals_the_partials_normalised_outside(case: Case, seed: int, device: Device) -> None:
    """Every element of O is U exp(m - lse) rounded to bf16, and O has the same bits with and without partials.

    lse may differ in its last bit: without m as an output, the compiler fuses the product that gives m into the sum.
    """
    attention = launched(case, seed, device)
    got = outputs_of(case, attention)
    outside = got["U"] * np.exp(got["m"] - got["lse"])[:, None]
    half_step = np.ldexp(0.5, np.frexp(outside)[1] - BF16_DIGITS)
    log_of_sum = np.abs(got["lse"] - got["m"])
    error = LOG2 * (1 + np.maximum(log_of_sum, np.log(2))) + ROUND * (np.abs(got["lse"]) + np.abs(got["m"]))
    worst = np.max(np.abs(got["O"] - outside) / (half_step + error[:, None] * np.abs(outside)))
    where = f"{case.milestone} {case.name} seed={seed}"
    assert worst <= 1, f"{where}: O lies {worst:.4f} half steps of bf16 from its partials normalised outside"
    alone = launched(replace(case, partials=False), seed, device)
    assert torch.equal(attention.o, alone.o), f"{where}: O without partials differs in bits from O with partials"
    apart = np.abs(got["lse"] - outputs_of(replace(case, partials=False), alone)["lse"]) / np.abs(got["lse"])
    assert np.max(apart) <= FP32_STEP, f"{where}: lse without partials differs by more than one fp32 step"
