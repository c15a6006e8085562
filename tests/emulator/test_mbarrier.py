"""mbarriers as PTX defines them: phases, counts, bytes that arrive before they are expected, and errors."""

from __future__ import annotations

import itertools
import re
import signal

import numpy as np
import pytest
from ptx_launch import kernel, launch

from emulator import errors

MODES = ("eager", "lazy", "random")
LABELS = itertools.count()


def run(body: str, warps: int = 1, completion: str = "lazy", **options: int) -> np.ndarray:
    """Run a body in which %r2 is the warp, %r3 an mbarrier initialised by thread 0, [%rd1] 64 words of results."""
    out = np.zeros(64, np.uint32)
    text = kernel(
        "barriers",
        ".param .u64 out",
        f"""
.reg .b32 %r<40>; .reg .b64 %rd<16>; .reg .pred %p<8>;
.shared .align 8 .b8 bar[16]; .shared .align 128 .b8 data[256];
mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; shfl.sync.idx.b32 %r2, %r2, 0, 31, -1;
mov.b32 %r3, bar; mov.b32 %r4, data; ld.param.b64 %rd1, [out];
setp.eq.u32 %p1, %r1, 0; elect.sync _|%p2, -1; setp.eq.u32 %p3, %r2, 0;
{body}
ret;""",
    )
    launch(text, [out], block=(32 * warps, 1, 1), completion=completion, **options)
    return out


def init(count: int, at: int = 0) -> str:
    return f"@%p1 mbarrier.init.shared.b64 [%r3+{at}], {count}; fence.mbarrier_init.release.cluster; bar.sync 0;"


def ask(parity: int, at: int) -> str:
    test = f"mbarrier.test_wait.parity.shared.b64 %p4, [%r3], {parity};"
    return f"{test} selp.b32 %r9, 1, 0, %p4; st.global.b32 [%rd1+{4 * at}], %r9;"


def arrive(how: str = "arrive", amount: str = "") -> str:
    return f"@%p1 mbarrier.{how}.shared.b64 _, [%r3]{amount};"


def deliver(size: int) -> str:
    return f"@%p1 mbarrier.complete_tx.relaxed.cluster.shared::cta.b64 [%r3], {size};"


def wait(parity: int, at: int = 0) -> str:
    label = f"L{next(LABELS)}"
    return f"{label}: mbarrier.try_wait.parity.shared.b64 %p5, [%r3+{at}], {parity}; @!%p5 bra {label};"


def test_the_phase_before_the_first_counts_as_complete() -> None:
    out = run(f"{init(1)} {ask(1, 0)} {ask(0, 1)} {arrive()} {ask(0, 2)} {ask(1, 3)}")
    assert out[:4].tolist() == [1, 0, 1, 0]


def test_every_lane_arrives() -> None:
    out = run(
        f"{init(64)} mbarrier.arrive.shared.b64 _, [%r3]; {ask(0, 0)} mbarrier.arrive.shared.b64 _, [%r3]; {ask(0, 1)}"
    )
    assert out[:2].tolist() == [0, 1]


def test_an_arrival_may_count_for_many() -> None:
    out = run(f"{init(5)} {arrive('arrive', ', 4')} {ask(0, 0)} {arrive()} {ask(0, 1)}")
    assert out[:2].tolist() == [0, 1]


def test_the_state_of_an_arrival_names_its_phase() -> None:
    out = run(
        f"{init(32)} mbarrier.arrive.shared.b64 %rd2, [%r3]; mbarrier.test_wait.shared.b64 %p4, [%r3], %rd2;"
        "selp.b32 %r9, 1, 0, %p4; st.global.b32 [%rd1], %r9;"
        "mbarrier.arrive.shared.b64 %rd3, [%r3];"
        "mbarrier.test_wait.shared.b64 %p4, [%r3], %rd3; selp.b32 %r9, 1, 0, %p4; st.global.b32 [%rd1+4], %r9;"
    )
    assert out[:2].tolist() == [1, 1]


def test_bytes_hold_a_phase_open() -> None:
    out = run(
        f"{init(1)} {arrive('arrive.expect_tx', ', 48')} {ask(0, 0)}{deliver(32)} {ask(0, 1)}{deliver(16)} {ask(0, 2)}"
    )
    assert out[:3].tolist() == [0, 0, 1]


def test_bytes_may_come_before_they_are_expected() -> None:
    out = run(f"{init(1)} {deliver(32)} {ask(0, 0)}{arrive('arrive.expect_tx', ', 32')} {ask(0, 1)}")
    assert out[:2].tolist() == [0, 1]


def test_arrive_drop_lowers_the_next_phases() -> None:
    out = run(f"{init(2)} {arrive('arrive_drop')} {arrive()} {ask(0, 0)}{arrive()} {ask(1, 1)}")
    assert out[:2].tolist() == [1, 1]


def test_too_many_arrivals_in_an_open_phase() -> None:
    with pytest.raises(errors.BarrierError, match="expects only 0 more of 1"):
        run(f"{init(1)} {arrive('arrive.expect_tx', ', 16')} {arrive()}")


def test_a_transaction_count_out_of_range() -> None:
    with pytest.raises(errors.BarrierError, match=r"transaction count .* becomes 1048576"):
        run(f"{init(1)} @%p1 mbarrier.expect_tx.relaxed.cta.shared.b64 [%r3], 1048576;")


def test_bytes_that_are_expected_at_the_end_are_a_tail() -> None:
    """A producer that releases its stages arms the next phase, in which nothing arrives and for which nobody waits."""
    armed = f"{init(1)} {arrive('arrive.expect_tx', ', 16')}"
    run(armed)
    with pytest.raises(errors.BarrierError, match="ends with 16 bytes outstanding"):
        run(armed, level=errors.Level.PEDANTIC)


def test_bytes_that_nobody_expected() -> None:
    with pytest.raises(errors.BarrierError, match="ends with -16 bytes outstanding"):
        run(f"{init(2)} {arrive()} {deliver(16)}")


@pytest.mark.parametrize("completion", MODES)
def test_a_peek_that_is_answered_no_goes_on(completion: str) -> None:
    """One thread tests whether the phase is complete, then completes it itself. The test must not block."""
    out = run(
        f"{init(1)} mbarrier.try_wait.parity.shared.b64 %p4, [%r3], 0; selp.b32 %r9, 1, 0, %p4;"
        f"st.global.b32 [%rd1], %r9; {arrive()} {ask(0, 1)}",
        completion=completion,
    )
    assert out[:2].tolist() == [0, 1]


@pytest.mark.parametrize("completion", MODES)
def test_polling_two_barriers_in_turn(completion: str) -> None:
    """Warp 0 polls two barriers alternately until either is complete. Warp 1 completes the second."""
    body = f"""
{init(1)} {init(1, 8)}
setp.eq.u32 %p5, %r2, 1;
@%p5 bra OTHER;
LOOP: mbarrier.test_wait.parity.shared.b64 %p4, [%r3], 0; @%p4 bra OUT;
mbarrier.test_wait.parity.shared.b64 %p4, [%r3+8], 0; @%p4 bra OUT; bra LOOP;
OTHER: bar.sync 1, 32; @%p2 mbarrier.arrive.shared.b64 _, [%r3+8];
OUT: mov.b32 %r9, 1; @%p1 st.global.b32 [%rd1], %r9;"""
    assert run(body, 2, completion)[0] == 1


def test_polling_for_ever_is_a_deadlock() -> None:
    with pytest.raises(errors.Deadlock, match=r"test_wait waits for parity 0 \(phase 0\) of bar\[[01]\]"):
        run(
            f"{init(1)} {init(1, 8)} LOOP: mbarrier.test_wait.parity.shared.b64 %p4, [%r3], 0; @%p4 bra OUT;"
            "mbarrier.test_wait.parity.shared.b64 %p4, [%r3+8], 0; @%p4 bra OUT; bra LOOP; OUT:"
        )


def test_a_budget_ends_a_loop_with_the_table() -> None:
    with pytest.raises(errors.BudgetExceeded, match=r"warp 0 of CTA .*: running"):
        run("LOOP: add.s32 %r9, %r9, 1; bra LOOP;", budget=1000)


def test_ctrl_c_shows_the_table() -> None:
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(errors.Interrupted, match=r"warp 0 of CTA .*: running"):
            run("LOOP: nanosleep.u32 1; bra LOOP;")
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("arrivals", [1, 2])
def test_an_arrival_that_promises_not_to_end_the_phase(arrivals: int) -> None:
    body = f"{init(3)} {arrive('arrive.noComplete', ', 2')} {arrive() if arrivals == 1 else ''} {ask(0, 0)}"
    if arrivals == 1:
        assert run(body)[0] == 1
        return
    with pytest.raises(errors.BarrierError, match="which end phase 0: it expects 1 more"):
        run(f"{body} {arrive('arrive.noComplete', ', 1')}")


def turns(answered: bool) -> str:
    """Return a program: warp 0 arrives three times, warp 1 waits for each and answers. answered: warp 0 waits too."""
    says = [f"@%p2 {arrive()[5:]} {wait(i % 2, at=8) if answered else ''}" for i in range(3)]
    hears = [f"{wait(i % 2)} @%p2 mbarrier.arrive.shared.b64 _, [%r3+8];" for i in range(3)]
    return f"{init(1)} {init(1, at=8)} @!%p3 bra HEARS; {' '.join(says)} bra END; HEARS: {' '.join(hears)} END:"


@pytest.mark.parametrize("completion", MODES)
def test_phases_that_are_waited_for_in_turn(completion: str) -> None:
    run(turns(answered=True), warps=2, completion=completion)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("waits", ["try_wait", "test_wait"])
def test_an_answer_that_nobody_reads_waits_for_nothing(waits: str, completion: str) -> None:
    """On an H100 test_wait returns false and continues; try_wait does so after its time limit."""
    copy = (
        "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 128;"
        "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd1], 128, [%r3];"
    )
    asked, read = wait(0).replace("try_wait", waits), "ld.shared.b32 %r9, [%r4]; st.global.b32 [%rd1+128], %r9;"
    run(f"{init(1)} {copy} {asked} {read}", completion=completion)
    for unread in (asked[: asked.index("@")], asked.replace("@!%p5", "setp.eq.b32 %p5, %r1, 99; @%p5")):
        with pytest.raises(errors.MissingWait, match=rf"the result of mbarrier\.{waits} at PTX line \d+ is never read"):
            run(f"{init(1)} {copy} {unread} {read}", completion=completion)


@pytest.mark.parametrize("completion", ["eager", "lazy"])
def test_a_wait_two_phases_late(completion: str) -> None:
    with pytest.raises(errors.BarrierError, match=r"parity 0 of bar\[0\] .* comes two phases late") as found:
        run(turns(answered=False), warps=2, completion=completion)
    assert "warp 1 of CTA (0,0,0) knows of 0 completed phases, 3 are" in str(found.value)


def test_a_wait_two_phases_late_that_is_ordered() -> None:
    """Three arrivals before the waiter's bar.sync. The parity then means the current phase."""
    late = f"{arrive()} bar.sync 1; {arrive()} {arrive()} bar.sync 1;"
    waits = f"{wait(0)} bar.sync 1; bar.sync 1; {wait(1)}"
    with pytest.raises(errors.Deadlock, match=r"it has seen 1 phases complete, 2 have passed since: two phases late\?"):
        run(f"{init(1)} @!%p3 bra WAITS; {late} bra END; WAITS: {waits} END:", warps=2)


@pytest.mark.parametrize("completion", MODES)
def test_lanes_that_arrive_as_one_have_one_state(completion: str) -> None:
    """All lanes get the state before the arrivals, as on an H200; with .noComplete each gets a state of its own."""
    pending = "mbarrier.pending_count.b64 %r5, %rd2; st.global.b32 [%rd4], %r5;"
    body = "mul.wide.u32 %rd4, %r1, 4; add.u64 %rd4, %rd4, %rd1; {} mbarrier.arrive{}.shared.b64 %rd2, [%r3]{}; {}"
    assert run(body.format(init(32), "", "", pending), completion=completion)[:32].tolist() == [32] * 32
    one_by_one = run(body.format(init(40), ".noComplete", ", 1", pending), completion=completion)[:32]
    assert one_by_one.tolist() == [*range(40, 8, -1)]
    two = "and.b32 %r6, %r1, 8; add.u32 %r3, %r3, %r6;"
    assert (
        run(body.format(init(16) + init(16, 8) + two, "", "", pending), completion=completion)[:32].tolist()
        == [16] * 32
    )


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(("state", "count"), [("%rd2", 20), ("_", 16), ("_", 1)])
def test_lanes_that_arrive_as_one_may_not_be_more_than_are_pending(state: str, count: int, completion: str) -> None:
    """An H200 ends the launch, also if the arrivals would be those of two consecutive phases."""
    with pytest.raises(errors.BarrierError, match=f"makes 32 arrivals on .* expects only {count} more of {count}"):
        run(f"{init(count)} mbarrier.arrive.shared.b64 {state}, [%r3];", completion=completion)


@pytest.mark.parametrize("completion", MODES)
def test_a_state_of_two_phases_ago(completion: str) -> None:
    state = "@%p1 mbarrier.arrive.shared.b64 %rd2, [%r3];"
    asked = "@%p1 mbarrier.test_wait.shared.b64 %p4, [%r3], %rd2; @%p4 st.global.b32 [%rd1], 1;"
    late = f"{init(1)} {state} {{}} {asked}"
    run(late.format(""), completion=completion)
    with pytest.raises(errors.BarrierError, match=r"for the state of phase 0 of bar\[0\] .* two phases late"):
        run(late.format(arrive()), completion=completion)


def test_counts_that_no_mbarrier_has() -> None:
    run(f"{init(1)} {arrive(amount=', 1')}")
    for count in (0, 1 << 20):
        with pytest.raises(errors.BarrierError, match=f"with a count of {count}; allowed is 1 to 1048575"):
            run(init(count))
    with pytest.raises(errors.BarrierError, match=r"mbarrier\.arrive makes no arrivals on .* allowed is 1 to 1048575"):
        run(f"{init(1)} {arrive(amount=', 0')}")


@pytest.mark.parametrize("completion", MODES)
def test_the_arrival_of_copies_tells_what_their_issuer_waited_for(completion: str) -> None:
    """Warp 0 observes four phases and copies. Warp 1 waits for the copies, then for the last of those phases."""
    phases = " ".join(f"{arrive()} {wait(i % 2)}" for i in range(4))
    copies = "cp.async.ca.shared.global [%r4], [%rd1], 4; cp.async.mbarrier.arrive.noinc.shared.b64 [%r3+8];"
    observe = f"{wait(0, at=8)} {wait(1)}"
    body = f"{init(1)} {init(32, at=8)} @!%p3 bra OBSERVE; {phases} {copies} bra END; OBSERVE: {observe} END:"
    run(body, warps=2, completion=completion)


@pytest.mark.parametrize("completion", MODES)
def test_the_arrival_of_copies_releases_stores_that_level_formal_does_not_count(completion: str) -> None:
    """Lanes of warp 0 without data to copy store zeros. Warp 1 waits for the copies, and reads both."""
    place = "and.b32 %r5, %r1, 31; shl.b32 %r6, %r5, 2; add.u32 %r7, %r4, %r6;"
    place += "cvt.u64.u32 %rd3, %r6; add.u64 %rd4, %rd1, %rd3;"
    filled = "setp.lt.u32 %p5, %r5, 20; @%p5 cp.async.ca.shared.global [%r7], [%rd4], 4; @!%p5 st.shared.b32 [%r7], 7;"
    observe = f"{wait(0)} ld.shared.b32 %r8, [%r7]; st.global.b32 [%rd4+128], %r8;"
    arrival = "cp.async.mbarrier.arrive.noinc.shared.b64 [%r3];"
    body = f"{place} {init(32)} @!%p3 bra OBSERVE; {filled} {arrival} bra END; OBSERVE: {observe} END:"
    assert run(body, warps=2, completion=completion)[32:].tolist() == [0] * 20 + [7] * 12
    with pytest.raises(errors.DataRace, match=r"ld\.shared reads .* not ordered after st\.shared that wrote it"):
        run(body, warps=2, completion=completion, level=errors.Level.FORMAL)


def test_the_state_of_an_arrival_holds_what_was_pending() -> None:
    observe = "mbarrier.pending_count.b64 %r9, %rd9; st.global.b32 [%rd1+{at}], %r9;"
    arrivals = "".join(
        f"mbarrier.arrive.shared.b64 %rd9, [%r3], {count}; {observe.format(at=4 * i)}"
        for i, count in enumerate((1, 2, 3))
    )
    later = "mbarrier.test_wait.shared.b64 %p5, [%r3], %rd9; selp.b32 %r9, 1, 0, %p5; st.global.b32 [%rd1+12], %r9;"
    out = run(f"{init(6)} @!%p1 ret; {arrivals} {later}")
    assert out[:4].tolist() == [6, 5, 3, 1]


def test_a_race_names_an_mbarrier_whose_count_is_too_small() -> None:
    """Three warps write and arrive, and a fourth reads what the third wrote after a phase that ended without it."""
    body = """
        .reg .b32 %r<6>; .reg .pred %p<4>; .shared .b32 words[128]; .shared .align 8 .b64 full;
        mov.u32 %r1, %tid.x; mov.u32 %r2, full; mov.u32 %r3, words; setp.ne.u32 %p1, %r1, 0;
        @!%p1 mbarrier.init.shared.b64 [%r2], 2; bar.sync 0;
        setp.ge.u32 %p2, %r1, 96; @%p2 bra reader;
        mad.lo.u32 %r4, %r1, 4, %r3; st.shared.b32 [%r4], %r1; and.b32 %r5, %r1, 31; setp.ne.u32 %p3, %r5, 0;
        bar.warp.sync -1; @!%p3 mbarrier.arrive.shared.b64 _, [%r2]; ret;
        reader: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; @!%p3 bra reader;
        mad.lo.u32 %r4, %r1, 4, %r3; ld.shared.b32 %r5, [%r4-128]; st.shared.b32 [%r4], %r5; ret;
    """
    found = list[errors.Fault]()
    launch(kernel("counted", "", body), [], block=(128, 1, 1), findings=found)
    (race,) = found
    text = r"warp 3 .* waited for phase 0 of full .*warp 2 .* came in phase 1: is a count of 2 too small"
    assert isinstance(race, errors.DataRace) and re.search(text, race.missing)
    right = list[errors.Fault]()
    launch(kernel("counted", "", body.replace("[%r2], 2;", "[%r2], 3;")), [], block=(128, 1, 1), findings=right)
    assert not right
