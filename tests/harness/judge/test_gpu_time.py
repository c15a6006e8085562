"""Times by CUDA events on a real GPU, for kernels of torch whose relative times are known."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

from harness.judge.gpu_time import measure
from harness.judge.measure import peers, timed
from stages.case import Case
from stages.expected import reference
from stages.inputs import draw

pytestmark = pytest.mark.gpu


def matrices(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    a, b = (torch.randn(n, n, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    return a, b


def test_twice_the_rows_take_twice_as_long() -> None:
    a, b = matrices(8192)
    whole, half = measure(lambda: a @ b, cold=False), measure(lambda: a[:4096] @ b, cold=False)
    assert whole.median / half.median == pytest.approx(2.0, rel=0.15), (whole, half)
    assert whole.low <= whole.median <= whole.high < 1.3 * whole.low, whole
    assert whole.sm_mhz > 300 and whole.watts > 50, whole


def test_events_agree_with_the_clock_on_the_wall() -> None:
    a, b = matrices(8192)
    found = measure(lambda: a @ b, cold=False)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(100):
        a @ b
    torch.cuda.synchronize()
    assert found.median == pytest.approx((time.perf_counter() - began) / 100, rel=0.15)


def test_what_l2_holds_is_read_faster_than_what_it_lost() -> None:
    kept = torch.zeros(
        4 << 20, dtype=torch.float32, device="cuda"
    )  # 16 MB, which fit in the L2 of a Hopper or Blackwell
    warm, cold = (measure(kept.sum, cold=cold) for cold in (False, True))
    assert cold.median > 1.15 * warm.median, (warm, cold)


def test_a_short_kernel_does_not_wait_for_the_processor() -> None:
    """Enqueueing it takes longer than running it, which the times must not include."""
    one = torch.zeros(1, device="cuda")
    assert measure(lambda: one.add_(1), cold=False).median < 8e-6


def test_a_peer_computes_what_the_case_asks() -> None:
    case = Case("D2", head_dim=64, keys=200, heads=16, tokens=3, batch=2)
    inputs = draw(case, 1)
    o = peers(case, inputs)["torch's scaled_dot_product_attention"]().transpose(1, 2)
    got = o.flatten(0, 2).double().cpu().numpy()
    assert float(np.abs(got - reference(case, inputs)["O"]).max()) < 0.02
    times = timed(case.name, "a peer", lambda: o.sum(), cold=False).times
    assert times is not None and times.median > 0
    assert "ZeroDivisionError" in timed(case.name, "a peer", lambda: 1 // 0, cold=False).error
