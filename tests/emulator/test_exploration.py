"""`completion="all"`: orders of synchronisation events, each run once, and faults that only some of them show."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import kernel

from emulator import EmulatorError, Verdict, emulate, errors, launch
from emulator.exploration import explorer
from emulator.exploration.execution import Step, Touch, set_clocks
from emulator.machine.order.completion import Completion
from lab.bugs.corpus import run

HEAD = """
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<4>; .shared .align 8 .b8 bar[16]; .shared .align 8 .b8 words[16];
mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; setp.ne.u32 %p0, %r1, 0;
mov.u32 %r2, bar; mov.u32 %r3, words; ld.param.u64 %d0, [out];
setp.eq.u32 %p1, %r0, 0;
@%p1 mbarrier.init.shared.b64 [%r2], 1; @%p1 mbarrier.init.shared.b64 [%r2+8], 1;
@%p1 st.shared.v2.b32 [%r3], {0, 0};
bar.sync 0;
elect.sync _|%p1, -1;
"""
LOCK = "{n}: @%p1 atom.acquire.cta.shared.cas.b32 %r4, [%r3+{at}], 0, 1; @!%p1 mov.b32 %r4, 0;"
LOCK += "setp.ne.u32 %p2, %r4, 0; @%p2 bra {n};"
UNLOCK = "@%p1 atom.release.cta.shared.exch.b32 %r4, [%r3+{at}], 0;"


def locks(first: int, second: int) -> str:
    """Return a body in which warp 0 takes lock 0, then 4, and warp 1 takes the locks `first` and `second`."""
    mine = [LOCK.format(n="A", at=0), LOCK.format(n="B", at=4)]
    theirs = [LOCK.format(n="C", at=first), LOCK.format(n="D", at=second)]
    free = UNLOCK.format(at=0) + UNLOCK.format(at=4)
    return f"{HEAD} @%p0 bra OTHER; {''.join(mine)} {free} bra END; OTHER: {''.join(theirs)} {free} END: ret;"


TICKETS = """
@%p1 atom.relaxed.cta.shared.add.u32 %r4, [%r3], 1;
shfl.sync.idx.b32 %r4, %r4, 0, 31, -1;
setp.eq.u32 %p2, %r4, {ticket};
@!%p2 bra WAIT;
@%p1 mbarrier.arrive.shared.b64 _, [%r2];
bra END;
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; @%p3 bra END; bra WAIT;
END: ret;"""
WARP_ZERO_IS_LAST = HEAD + TICKETS.format(ticket=1).replace(
    "setp.eq.u32 %p2, %r4, 1;", "setp.ne.u32 %p2, %r4, %r1; setp.eq.and.u32 %p2, %r4, 1, %p2;"
)
ONLY_SOMETIMES = {
    "two locks in opposite orders": locks(4, 0),
    "the second ticket is taken for warp 0's": WARP_ZERO_IS_LAST,
}
ALWAYS = {"two locks in one order": locks(0, 4), "whoever comes second arrives": HEAD + TICKETS.format(ticket=1)}
BUGS = [("spectator", "window"), ("tail", "owner"), ("counter_reset", "reset")]


def outcome(body: str, completion: Completion = "all", schedule: str = "") -> Verdict:
    with emulate(completion, schedule=schedule) as device:
        try:
            ptx = kernel("k", ".param .u64 out", body)
            launch(ptx, None, [np.zeros(4, np.uint32)], block=64)
        except EmulatorError:
            pass
    return Verdict.of(device)


@pytest.mark.parametrize("body", ONLY_SOMETIMES.values(), ids=ONLY_SOMETIMES)
def test_an_order_is_found_and_runs_again(body: str) -> None:
    (finding,) = outcome(body).findings
    assert isinstance(finding.error, errors.Deadlock)
    (note,) = finding.error.__notes__
    (again,) = outcome(body, schedule=note.rpartition("schedule=")[2].strip("'")).findings
    assert str(again.error) == str(finding.error)


def test_a_mode_may_miss_it() -> None:
    assert outcome(WARP_ZERO_IS_LAST, completion="lazy").word == "clean"


@pytest.mark.parametrize("body", ALWAYS.values(), ids=ALWAYS)
def test_no_order_shows_anything(body: str) -> None:
    assert outcome(body).word == "clean"


@pytest.mark.parametrize(("program", "bug"), BUGS)
def test_a_public_bug_that_few_orders_show(program: str, bug: str) -> None:
    assert run(program, bug, "lazy").word == "clean"
    assert run(program, bug, "all").word == "fault"


def test_what_is_left_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "RUNS", 2)
    found = outcome(ALWAYS["two locks in one order"])
    assert found.word == "incomplete" and found.launches
    assert "2 orders gave no error, at least" in str(found.findings[0].error)


def test_memory_holds_the_results_of_the_first_run() -> None:
    """The order of the two warps decides what is stored last; both orders are correct."""
    body = f"{HEAD} @%p1 st.relaxed.gpu.global.b32 [%d0], %r1; ret;"
    runs = []
    for _ in range(2):
        out = np.full(4, 9, np.uint32)
        with emulate(completion="all"):
            launch(kernel("k", ".param .u64 out", body), None, [out], block=64)
        runs.append(out.tolist())
    assert runs == [[0, 9, 9, 9]] * 2


def test_a_program_without_choices_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[explorer.Explorer] = []
    search = explorer.Explorer.run

    def counted(self: explorer.Explorer) -> None:
        runs.append(self)
        search(self)

    monkeypatch.setattr(explorer.Explorer, "run", counted)
    assert run("release", None, "all").right and runs[0].runs == 1
    assert run("counter_reset", None, "all").right and runs[1].runs > 1


@pytest.mark.parametrize("schedule", ["7", "a:b", "1:2:3"])
def test_a_schedule_is_pairs_of_numbers(schedule: str) -> None:
    with pytest.raises(ValueError, match="STEP:OPTION"), emulate(completion="all", schedule=schedule):
        pass


def test_a_debugger_runs_one_order() -> None:
    with emulate(completion="all") as device:
        for start in (device.debug, device.record):
            with pytest.raises(ValueError, match="completion is 'all'"):
                start()


def steps(*taken: tuple[str, Touch]) -> list[Step]:
    return [Step([(name,)], 0, 0, (touch,)) for name, touch in taken]


def test_pairs_whose_order_could_have_been_the_other() -> None:
    arrive, ends = Touch("arrive", "m", 0), Touch("arrive", "m", 0, ends=True)
    wait, early = Touch("wait", "m", 1), Touch("arrive", "m", 1)
    together = steps(("a", arrive), ("b", ends), ("a", wait))
    assert set_clocks(together, {}) == []
    assert together[2].clock == {("a",): 2, ("b",): 1}
    assert set_clocks(steps(("a", arrive), ("a", ends), ("b", early)), {}) == [(1, 2)]
    assert set_clocks(steps(("a", ends), ("b", wait), ("b", early)), {}) == []
    spectator = steps(("a", ends), ("b", wait), ("a", Touch("arrive", "m", 1, ends=True)))
    assert set_clocks(spectator, {}) == [(1, 2)]
    added = ("c", Touch("add", "y")), ("d", Touch("add", "y"))
    written = steps(("a", Touch("write", "x")), ("b", Touch("read", "x")), *added)
    assert set_clocks(written, {}) == [(0, 1)]
