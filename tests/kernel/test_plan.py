"""Launch plans: a second call does little on the host, and a plan is used for calls with the same facts only."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import kernel
from flash_mla import flash_mla_sparse_fwd
from kernel import host, plan, serving
from kernel.arguments import Arguments, Operands
from lab.host_time import rows

NAMES = (*Operands._fields, *Arguments._fields)
MOST_CALLS = 39  # of Python and C functions


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Replace the compiled function by one that keeps its arguments."""
    found: list[Any] = []
    function = SimpleNamespace(function=lambda operands, arguments: found.append(arguments))
    monkeypatch.setattr(plan, "compile", lambda config: function)
    monkeypatch.setattr(plan, "check_device", lambda device, major: None)
    return found


def calls_in(call: Callable[[], object]) -> int:
    """Return the number of functions that a call enters: Python's, and C functions and methods."""
    events: list[str] = []
    sys.setprofile(lambda frame, event, argument: events.append(event))
    try:
        call()
    finally:
        sys.setprofile(None)
    return sum(event in ("call", "c_call") for event in events)


def test_a_second_call_makes_few_calls(launched: list[Any]) -> None:
    for name, call, _ in rows("cpu"):
        call()
        assert calls_in(call) <= MOST_CALLS, name


def test_a_misaligned_address_is_named_though_there_is_a_plan(
    launched: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiled function raises ValueError for an address, and the checks then say which argument has it."""
    q, k = torch.zeros(1, 2, 4, 64).bfloat16(), torch.zeros(1, 9, 64).bfloat16()
    kernel.fmha(q, k)
    (planned,) = host.PLANS._plans.values()

    def refuse(operands: object, arguments: object) -> None:
        raise ValueError("Misaligned Tensor data")

    monkeypatch.setattr(planned, "_function", refuse)
    odd = torch.zeros(q.numel() + 1).bfloat16()[1:].view(q.shape)
    with pytest.raises(kernel.ArgumentError, match=r"^q\.data_ptr\(\) % 16 is 2"):
        kernel.fmha(odd, k)


def test_plans_are_bounded(launched: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MOST_PLANS", 3)
    q = torch.zeros(1, 2, 4, 64).bfloat16()
    for keys in range(1, 9):
        kernel.fmha(q, torch.zeros(1, keys, 64).bfloat16())
    assert len(host.PLANS._plans) == 3 and len(launched) == 8


def test_options_that_are_equal_but_of_another_type_are_checked(launched: list[Any]) -> None:
    q, k = torch.zeros(1, 2, 4, 64).bfloat16(), torch.zeros(1, 9, 64).bfloat16()
    kernel.fmha(q, k, sms=4)
    with pytest.raises(kernel.ArgumentError, match=r"^sms is 4\.0"):
        kernel.fmha(q, k, sms=4.0)  # type: ignore[arg-type]


def whole_options(integer: Callable[[int], Any]) -> None:
    """Make calls with all their options that are integers."""
    q, k, lens = torch.zeros(1, 2, 4, 64).bfloat16(), torch.zeros(1, 9, 64).bfloat16(), torch.ones(1).int()
    kernel.fmha(q, k, causal=True, window=integer(5), splits=integer(2), sms=integer(4))
    options: Any = {"seq_lens": lens, "compress_ratio": integer(4), "window": integer(5), "splits": integer(1)}
    kernel.dsv4.attention(q, k, cmp_kv=k, **options)
    q, kv, indices = torch.zeros(1, 2, 4, 512).bfloat16(), torch.zeros(9, 1, 512).bfloat16(), torch.zeros(1, 2, 8).int()
    cache = serving.TableCache(kv, indices[0, :1], lens, window=integer(5))
    serving.attention(q, cache, splits=integer(1), sms=integer(4))
    serving.sparse_attention(q[0], kv[:, 0], indices[0], splits=integer(1), sms=integer(4))
    flash_mla_sparse_fwd(q[0], kv, indices[0][:, None], 0.1, integer(512), indexer_topk=integer(3))


@pytest.mark.parametrize("integer", [np.int32, np.int64, np.uint8])
def test_options_may_be_integers_of_numpy(launched: list[Any], integer: Any) -> None:
    """They reach the kernel as Python's."""
    for number in (int, lambda value: integer(value) if value < 256 else np.int16(value)):
        whole_options(number)
    numbers = [[each for each in call if not isinstance(each, torch.Tensor)] for call in launched]
    half = len(numbers) // 2
    assert numbers[:half] == numbers[half:] and half == 6
    assert {type(each) for call in numbers for each in call} <= {int, float, type(None)}


def test_a_first_call_in_a_capture_is_rejected_by_name(launched: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a kernel is not allowed there. Later calls, also of other shapes with the same kernel, are."""
    config = kernel.configuration(kernel.Problem(head_dim=64, heads=4, keys=9, tokens=2, partials=False))
    capturing = iter([True, False])
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: next(capturing))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    places = [plan.Plan(torch.device("cpu"), {}) for _ in range(3)]
    for each in places:
        monkeypatch.setattr(each, "_device", torch.device("cuda", 0))
    with pytest.raises(kernel.ArgumentError, match="before the capture"):
        places[0].set_launch(config, dict.fromkeys(NAMES, 1), [None] * 5)
    for each in places[1:]:
        each.set_launch(config, dict.fromkeys(NAMES, 1), [None] * 5)
