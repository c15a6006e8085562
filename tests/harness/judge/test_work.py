"""Predictions must have the work of the launch: sleeps, waits, loads and operations behind comparisons of data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain, count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from emulator import launch
from harness.host.verdict import Verdict
from harness.judge import predict
from harness.judge.predict import UnseenWork, lacking, same_work, timed
from harness.judge.run import hold, in_time, time_cases
from harness.report.record import Phase, Prediction, Record, Tree
from lab import clock as bench
from remote.device import Emulated
from stages.catalog import GATE, find
from stages.verify import Trial, launched_clusters, total

#: Does something in the CTAs for which a comparison holds.
HIDDEN = """
ld.param.u64 %d1, [values]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r1, 32, %r2;
mad.wide.u32 %d1, %r3, 4, %d1; COMPARISON mov.u32 %r3, 0;
BODY
st.global.u32 [%d1], %r3; ret;"""
#: Of three clusters the middle one is executed to see how a launch branches.
NOT_THE_MIDDLE = "cvt.rn.f32.u32 %r2, %r1; setp.ne.f32 %p1, %r2, 0f3F800000;"
THE_FIRST = "cvt.rn.f32.u32 %r2, %r1; setp.eq.f32 %p1, %r2, 0f00000000;"
OF_DATA = "ld.global.f32 %r2, [%d1]; setp.ne.f32 %p1, %r2, 0f00000000;"
SKIPPED = "@!%p1 bra END; {} END:"
LOOP = SKIPPED.format("mov.u32 %r4, TIMES; AGAIN: {} sub.u32 %r4, %r4, 1; setp.ne.u32 %p2, %r4, 0; @%p2 bra AGAIN;")
SPIN = "mul.lo.u32 %r3, %r3, %r3;"
SLEEP = "selp.u32 %r5, 1000000, 0, %p1; nanosleep.u32 %r5;"
#: Two mbarriers, of which the first never completes a phase.
NEVER = """
.shared .align 8 .b64 never[2]; mov.u32 %r6, never; mov.u32 %r7, %tid.x; setp.eq.u32 %p3, %r7, 0;
@%p3 mbarrier.init.shared.b64 [%r6], 1; @%p3 mbarrier.init.shared.b64 [%r6+8], 32; bar.sync 0;
"""
WAIT = "mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r6], 0, 10000000;"
GIVES_UP = NEVER + LOOP.format(f"{WAIT} @%p4 add.u32 %r3, %r3, 1; mbarrier.arrive.shared.b64 _, [%r6+8];")
UNREAD = NEVER + LOOP.format(WAIT)
BODIES = [
    ("nanosleep", SKIPPED.format("nanosleep.u32 0;")),
    ("ns of nanosleep", SLEEP),
    ("atom", LOOP.format("atom.global.add.u32 %r5, [%d1], 0;")),
    ("bytes loaded by warps", LOOP.format("ld.global.u32 %r5, [%d1]; add.u32 %r3, %r3, %r5;")),
    ("bytes stored", LOOP.format("st.global.u32 [%d1], %r4;")),
    ("instructions", LOOP.format(SPIN)),
    ("instructions of the longest warp", LOOP.format(SPIN)),
    ("waits for mbarriers that gave up", GIVES_UP),
    ("waits for mbarriers that gave up", UNREAD),
]
#: Of equal numbers of instructions: those that wait for the one before them, or sleep longer, and others.
TWINS = [
    ("mul.lo.u32 %r3, %r3, %r3;" * 200, "".join(f"mul.lo.u32 %r{8 + i % 8}, %r3, %r3;" for i in range(200))),
    ("nanosleep.u32 1300;", "nanosleep.u32 1000;"),
]
CASE = find("D1.2").load().CASES[0]


@dataclass(frozen=True)
class Hiding:
    """A kernel that hides something from a prediction, and what its launch does."""

    device: Emulated
    done: Trial


@pytest.fixture
def hiding(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Hiding]:
    """Return a function that launches such a kernel in place of each case."""

    def launched(body: str, comparison: str = NOT_THE_MIDDLE, times: int = 50, grid: int = 3) -> Hiding:
        text = HIDDEN.replace("COMPARISON", comparison).replace("BODY", body).replace("TIMES", str(times))
        ptx, values = bench.entry("u64 values", text), np.zeros(32 * grid, np.float32)
        values[-32:] = 1

        def launches() -> Any:
            return launch(ptx, args=[values.copy()], grid=grid, block=32)

        device = Emulated()
        with device.running("eager", 1) as ran:
            launches()
        monkeypatch.setattr(predict, "launching", lambda case, seed: launches)
        monkeypatch.setattr(predict, "_mbarriers", lambda case: {})
        done: Any = ran.launches  # type: ignore[attr-defined]
        return Hiding(device, Trial("eager", 0.0, None, None, total(done), launched_clusters(done)))

    return launched


def timed_alone(launched: Hiding) -> float:
    """Return the predicted cycles of the kernel's only launch."""
    (found,) = timed(CASE, launched.device, 1, launched.done)
    cycles: float = found.cycles
    return cycles


@pytest.mark.parametrize(("kind", "body"), BODIES)
def test_work_that_one_cluster_does_not_do_is_missed(kind: str, body: str, hiding: Callable[..., Hiding]) -> None:
    """All comparisons are taken to be false, and the executed cluster is the only one that does not do the work."""
    launched = hiding(body)
    with pytest.raises(UnseenWork, match=rf"its launches do [0-9,]+ {kind}, its prediction has [0-9,]+ of them"):
        timed(CASE, launched.device, 1, replace(launched.done, work=Counter({kind: launched.done.work[kind]})))


@pytest.mark.parametrize("comparison", [THE_FIRST, OF_DATA], ids=["of its number", "of data"])
@pytest.mark.parametrize(
    ("body", "times"),
    [(SLEEP, 1), (LOOP.format(SPIN), 5000), (GIVES_UP, 60), (UNREAD, 250)],
    ids=["sleeps", "spins", "gives up", "ignores answers"],
)
def test_a_millisecond_in_one_of_many_ctas_is_missed(
    body: str, times: int, comparison: str, hiding: Callable[..., Hiding]
) -> None:
    """A wait that gives up takes 4 us. The spin is of a hundredth of a millisecond, for the emulator's sake."""
    launched = hiding(body, comparison, times, grid=100)
    with pytest.raises(UnseenWork, match="its launches do"):
        timed(CASE, launched.device, 1, launched.done)


@pytest.mark.parametrize(("slow", "fast"), TWINS, ids=["waits for results", "sleeps"])
def test_a_cluster_that_takes_longer_for_equal_work_is_timed(
    slow: str, fast: str, hiding: Callable[..., Hiding]
) -> None:
    """The last of three clusters is slow. Its sums are those of the others, or few among those of all."""
    twins = "setp.eq.u32 %p1, %r1, 2; @%p1 bra SLOW; {} bra.uni END; SLOW: {} bra.uni END; END:"
    alike, differing = (timed_alone(hiding(twins.format(fast, last))) for last in (fast, slow))
    assert differing > 1.2 * alike


def test_the_work_of_a_right_kernel_is_not_missed(hiding: Callable[..., Hiding]) -> None:
    launched = hiding(SPIN)
    (found,) = timed(CASE, launched.device, 1, launched.done)
    assert found.work["bytes stored"] == 3 * 128 and found.work["instructions"] > 20


def test_a_few_operations_may_be_missed_that_rescale() -> None:
    """The rows of another cluster may need a rescaled O."""
    found = [SimpleNamespace(work={"instructions": 10_000.0, "tcgen05.st": 0.0, "nanosleep": 0.0})]
    assert lacking({"instructions": 10_000, "tcgen05.st": 20}, found) == ""
    assert lacking({"instructions": 10_000, "tcgen05.st": 80}, found) == "80 tcgen05.st, its prediction has 0 of them"
    assert lacking({"instructions": 10_000, "nanosleep": 1}, found).startswith("1 nanosleep")
    assert lacking({"instructions": 15_000}, found).startswith("15,000 instructions")
    assert lacking({"fence.proxy": 900}, found) == "", "it is one of the instructions"


@pytest.mark.parametrize(
    ("without", "said"),
    [
        ({}, ""),
        ({"instructions": 12_000, "instructions of the longest warp": 390}, ""),
        ({"instructions": 13_000}, "10,000 instructions, but 13,000 if the call allocates"),
        ({"instructions": 7_000}, "10,000 instructions, but 7,000 if"),
        ({"instructions of the longest warp": 500}, "200 instructions of the longest warp, but 500 if"),
        ({"ns of nanosleep": 1}, "0 ns of nanosleep, but 1 if"),
        ({"tcgen05.mma": 0}, "8 tcgen05.mma, but 0 if"),
    ],
)
def test_a_call_without_buffers_must_do_the_work_of_one_with_them(without: dict[str, int], said: str) -> None:
    """Users make it, and the other one is predicted."""
    work = {"instructions": 10_000, "instructions of the longest warp": 200, "tcgen05.mma": 8}
    with pytest.raises(UnseenWork, match=said) if said else nullcontext():
        same_work(GATE.load().CASES[0], work, work | without)


@dataclass(frozen=True)
class FakeCase:
    """A case that has a name alone."""

    name: str

    def __str__(self) -> str:
        return self.name


def timed_record(**cycles: float) -> Record:
    """Return the record of a run whose first case is as fast as its pin."""
    record = Record("run", "D1.1", "sim", "2026-11-30T00:00:00Z", Tree("0" * 40, []))
    record.prediction = Prediction("first", "B200", 100.0, 1e-6, 105.0, "latency", {}, [], [])
    record.cycles, record.most_cycles = {"first": 100.0, **cycles}, {"first": 105.0, "second": 205.0, "third": 305.0}
    record.phases = [Phase("stage", "2026-11-30T00:00:00Z", "passed", 100.0)]
    return record


def test_each_case_is_held_to_its_pin() -> None:
    assert hold(GATE, timed_record(second=204.0, third=1.0, without_a_pin=9e9)) == (Verdict.ACCEPT, "")
    verdict, reason = hold(GATE, timed_record(second=1_971_439.0, third=306.0))
    assert verdict is Verdict.REJECT_GATE
    assert reason.startswith(
        "slower: D1.1 second: 1,971,439 cycles (at most 205) (and 1 more cases); if that is intended"
    )


@pytest.mark.parametrize(
    ("done", "slow"),
    [
        ({"instructions": 9e9, "instructions of the longest warp": 205}, False),
        ({"instructions of the longest warp": 206}, True),
        ({"ns of nanosleep": 1}, True),
        ({"waits for mbarriers that gave up": 1}, True),
    ],
)
def test_a_case_that_may_be_slow_is_predicted_in_every_run(
    done: dict[str, float], slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no time for others, and the first case is predicted anyway."""
    first, second, third = map(FakeCase, ("first", "second", "third"))
    timed_cases: list[FakeCase] = []
    monkeypatch.setattr("harness.judge.run.in_time", lambda cases, recorder: [])
    monkeypatch.setattr("harness.judge.run.most_cycles", lambda *_: {"first": 105.0, "second": 205.0, "third": 305.0})
    monkeypatch.setattr(predict, "predict", lambda *_: ())

    def noted(case: FakeCase, *_: object) -> list[Any]:
        timed_cases.append(case)
        return []

    monkeypatch.setattr(predict, "timed", noted)
    works = {"first": {}, "second": done, "third": {"instructions of the longest warp": 206}}
    recorder: Any = SimpleNamespace(
        record=timed_record(),
        fresh_seed=7,
        launched={name: SimpleNamespace(work=work) for name, work in works.items()},
        unguarded=works,
        phase=lambda name: nullcontext(),
        predicted=lambda: None,
        cycles=lambda *_: None,
    )
    milestone: Any = SimpleNamespace(id="D1.1", load=lambda: SimpleNamespace(CASES=(first, second, third)))
    assert time_cases(milestone, Emulated(), recorder)[0] is Verdict.ACCEPT
    assert timed_cases == [second] * slow
    recorder.unguarded = works | {"third": {"instructions of the longest warp": 900}}
    verdict, reason = time_cases(milestone, Emulated(), recorder)
    assert verdict is Verdict.REJECT_STAGE and "900 if the call allocates its results" in reason


def test_cases_are_predicted_while_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the 100 s of the stage: each takes 10 s, so that a third one would end after 30 s."""
    clock = chain([0.0], count(0.0, 10.0))
    monkeypatch.setattr("harness.judge.run.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    cases: Any = ["a", "b", "c", "d"]
    recorder: Any = SimpleNamespace(record=timed_record())
    assert list(in_time(cases, recorder)) == cases[:2]
