"""The result of timing a kernel that fails. Timing itself needs a GPU: test_gpu_time.py."""

from __future__ import annotations

from typing import NoReturn

import pytest

from harness.judge import measure
from harness.judge.gpu_time import OURS
from harness.judge.measure import shapes, timed


@pytest.fixture(autouse=True)
def launched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launch without a GPU, and time nothing."""
    monkeypatch.setattr(measure, "measure", lambda launch, cold: launch())


def fails() -> NoReturn:
    raise RuntimeError("no kernel image")


def test_a_peer_that_fails_has_a_row_with_its_error() -> None:
    found = timed("plain", "a peer", fails, cold=True, flops=1e9)
    assert (found.case, found.what, found.times, found.rate) == ("plain", "a peer", None, "")
    assert found.error == "RuntimeError: no kernel image"


def test_the_kernel_itself_must_not_fail() -> None:
    with pytest.raises(RuntimeError, match="no kernel image"):
        timed("plain", OURS, fails, cold=True)


def test_a_glob_that_no_shape_matches_is_refused_before_anything_is_launched() -> None:
    with pytest.raises(ValueError, match=r"no shape 'nothing-\*'; there are prefill-128h-csa, "):
        shapes("nothing-*")
