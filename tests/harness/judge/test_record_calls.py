"""The results of a candidate's process: the text of a compile error, and recordings of calls."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import kernel
from emulator.recordings import NotRecordable
from harness.judge import recordings
from harness.judge.kept import KeptKernels
from harness.judge.record_calls import described, record_cases
from harness.judge.recordings import Replayed, record_case
from harness.judge.replay_on import launcher
from kernel import compiled, plan
from kernel.plan import Plans
from remote.device import Emulated
from stages import d1_1, d5b
from stages.calls import Outputs, Python, Tensors
from stages.case import Case
from stages.catalog import GATE
from stages.inputs import draw
from stages.launch import placed


def test_an_error_names_the_line_of_the_kernel_from_which_it_came() -> None:
    """Also if the compiler raises another error for it."""
    with pytest.raises(RuntimeError) as caught:
        try:
            kernel.fmha(None, None, None)  # type: ignore[arg-type]
        except Exception as error:
            raise RuntimeError("\x1b[31mno kernel") from error
    said = described(caught.value).splitlines()
    assert re.match(r"kernel/[\w/]+\.py:\d+ in \w+: \w+Error: ", said[0]) and said[-1] == "RuntimeError: no kernel"


def test_another_process_has_another_date_and_time_of_day() -> None:
    code = """
import time
before = time.time()
from harness.judge.record_calls import be_at_another_time
be_at_another_time(40_000_000)
import datetime
first = datetime.datetime.now()
for seconds in (time.time(), time.time_ns() / 1e9, time.mktime(time.localtime()), first.timestamp()):
    assert before + 39_999_999 < seconds < before + 40_001_000, seconds
assert time.localtime(0).tm_year < 1971 and time.gmtime().tm_year >= time.gmtime(before).tm_year + 1
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


def test_a_call_that_allocates_its_results_is_replayed_too(tmp_path: Path) -> None:
    device, cases = Emulated(), dict(enumerate((*d1_1.CASES[:1], *d5b.CASES[:1])))
    record_cases(GATE, cases, tmp_path)
    replayed = Replayed(tmp_path / "recordings", launcher(device))
    for case in cases.values():
        tensors = placed(case, draw(case, 1), "cpu")
        with device.running("eager", 1):
            found = replayed.call(case, tensors, [None, None])
        assert set(found.tensors) - {None} and found.o.shape == tensors["q"].shape and not found.o.isnan().any()


def test_results_of_another_shape_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def call(self: Python, case: Case, tensors: Tensors, out: Outputs) -> kernel.Attention:
        found = right(self, case, tensors, out)
        return replace(found, o=found.o.view(-1))

    right, device, case = Python.call, Emulated(), d1_1.CASES[0]
    monkeypatch.setattr(Python, "call", call)
    record_cases(GATE, {0: case}, tmp_path)
    replayed = Replayed(tmp_path / "recordings", launcher(device))
    with pytest.raises(NotRecordable, match="the returned o is"), device.running("eager", 1):
        replayed.call(case, placed(case, draw(case, 1), "cpu"), [None])


@pytest.mark.parametrize("most", ["MOST_HOST_S", "MOST_WHOLE_S"])
def test_a_call_that_always_takes_long_on_the_host_is_refused(monkeypatch: pytest.MonkeyPatch, most: str) -> None:
    Emulated()
    monkeypatch.setattr(recordings, most, 0.0)
    with pytest.raises(NotRecordable, match="a call like an earlier one compiles 0 kernels and takes"):
        record_case(d1_1.CASES[0])


def test_a_call_that_always_compiles_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the judge's cache of kernels answers it at once."""
    kept = KeptKernels(tmp_path, Emulated())
    monkeypatch.setattr(compiled, "keepers", [kept])
    monkeypatch.setattr(plan, "compile", compiled.compile.__wrapped__)
    monkeypatch.setattr(Plans, "find", lambda self, call, *rest: self._planned(*call))
    with pytest.raises(NotRecordable, match="a call like an earlier one compiles 1 kernels"):
        record_case(d1_1.CASES[0])
