"""bar and barrier.cta in all forms, and the remaining mbarrier instructions: drop and inval."""

import re

import numpy as np
import pytest
from ptx_kernel import launch, source

from emulator.errors import BarrierError, DataRace, Deadlock, Fault, Level, UnwrittenRead

CELLS = ".shared .align 4 .b8 cells[512]; mov.u32 %r1, cells; shl.b32 %r2, %t, 2; add.u32 %r2, %r1, %r2;"
MODES = ["eager", "lazy", "random"]
AGAIN = "barrier.cluster.arrive a second time before barrier.cluster.wait"


def exchanged(barrier: str, completion: str = "lazy") -> list[int]:
    """Four warps write their threads' numbers, wait at `barrier`, and read the numbers of the opposite threads."""
    out = np.zeros(128, np.uint32)
    body = f"""{CELLS}
    st.shared.u32 [%r2], %t; {barrier}
    mov.u32 %r3, 508; shl.b32 %r4, %t, 2; sub.u32 %r3, %r3, %r4; add.u32 %r3, %r3, %r1; ld.shared.u32 %r5, [%r3];
    add.u64 %q0, %a0, %b; st.global.u32 [%q0], %r5; ret;"""
    launch(source(body, block=128), out, block=128, completion=completion)
    return out.tolist()


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(
    "barrier",
    ["bar.sync 0;", "bar.sync 3, 128;", "barrier.sync 1;", "barrier.cta.sync.aligned 2, 128;", "bar.cta.sync 1;"],
)
def test_all_meet(barrier: str, completion: str) -> None:
    assert exchanged(barrier, completion) == [*range(127, -1, -1)]


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("count", [96, 128])
def test_who_meets_names_one_count(count: int, completion: str) -> None:
    """A missing count is a different count: an H200 ends the launch with error 715 whatever the other count is."""
    either = f"setp.lt.u32 %p0, %t, 64; @%p0 bra COUNTED; bar.sync 1; bra MET; COUNTED: bar.sync 1, {count}; MET:"
    with pytest.raises(BarrierError, match=rf"is used with ({count}|all) threads while others wait there for"):
        exchanged(either, completion)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("barrier", ["bar.sync", "bar.red.popc.u32 %r7,", "barrier.sync"])
@pytest.mark.parametrize(("number", "named"), [("%t", "several barriers"), ("%r6", "barrier 16"), ("16", "barrier 16")])
def test_a_warp_names_one_of_16_barriers(barrier: str, number: str, named: str, completion: str) -> None:
    vote = ", %p0" if "red" in barrier else ""
    with pytest.raises(BarrierError, match=rf"names {named}; allowed is one of 0 to 15"):
        exchanged(
            f"setp.eq.u32 %p0, %t, %t; add.u32 %r6, %r1, 16; sub.u32 %r6, %r6, %r1; {barrier} {number}{vote};",
            completion,
        )


def test_two_that_meet_are_not_four() -> None:
    half = "setp.lt.u32 %p0, %t, 64; @%p0 bar.sync 1, 64; @!%p0 bar.sync 2, 64;"
    with pytest.raises((DataRace, UnwrittenRead), match=r"ld\.shared reads shared memory"):
        exchanged(half)


def handed_over(arrive: str, wait: str, completion: str = "lazy") -> list[int]:
    """Warps 0 to 2 write and arrive; warp 3 waits and reads the numbers of warp 0."""
    out = np.zeros(32, np.uint32)
    body = f"""{CELLS}
    setp.ge.u32 %p0, %t, 96; @%p0 bra READ;
    st.shared.u32 [%r2], %t; {arrive} bra END;
    READ: {wait} add.u32 %r3, %r2, -384; ld.shared.u32 %r5, [%r3];
    add.u64 %q0, %a0, %b; st.global.u32 [%q0+-384], %r5;
    END: ret;"""
    launch(source(body, block=128), out, block=128, completion=completion)
    return out.tolist()


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("family", ["bar", "barrier", "bar.cta", "barrier.cta"])
def test_arrivals_do_not_wait(family: str, completion: str) -> None:
    assert handed_over(f"{family}.arrive 1, 128;", f"{family}.sync 1, 128;", completion) == [*range(32)]


def test_an_arrival_that_is_missing_is_a_deadlock_that_counts() -> None:
    arrive = "setp.lt.u32 %p1, %t, 64; @%p1 bar.arrive 1, 128;"
    with pytest.raises(Deadlock, match=r"barrier 1 of CTA .*: 96 of 128 threads arrived, from warps 0 .*, 1 .*, 3"):
        handed_over(arrive, "bar.sync 1, 128;")


def test_a_deadlock_says_who_completed_the_barrier_before() -> None:
    with pytest.raises(Deadlock, match=r"completed before \(3 times\) by warps 0 \(line \d+\), then 1 .*, then 2 "):
        handed_over("bar.arrive 2, 32;", "bar.sync 2, 128;")


@pytest.mark.parametrize(
    ("sync", "times"),
    [("bar.sync 1, 32;", 2), ("bar.sync 1, 32;" * 2, 4), ("@!%p1 bar.sync 1, 32; @%p1 bar.sync 2, 32;", 0)],
    ids=["once", "twice", "other barrier"],
)
@pytest.mark.parametrize("reader", ["lt", "ge"])
def test_a_race_says_who_completed_the_barrier_in_between(reader: str, sync: str, times: int) -> None:
    """Both warps wait for their own 32 threads, so neither waits for the other."""
    body = f"""{CELLS} setp.ge.u32 %p1, %t, 32; st.shared.u32 [%r2], %t; {sync}
    xor.b32 %r3, %t, 32; mov.u32 %r4, cells; mad.lo.u32 %r3, %r3, 4, %r4;
    setp.{reader}.u32 %p2, %t, 32; @!%p2 ret; ld.shared.u32 %r5, [%r3]; add.u64 %q0, %a0, %b; st.global.u32 [%q0], %r5;
    ret;"""
    with pytest.raises((DataRace, UnwrittenRead)) as raised:
        launch(source(body, block=64), np.zeros(64, np.uint32), block=64)
    said = re.search(
        r"barrier 1 of CTA .* completed \((\d) times(, the last 3)?\) by warps (.*): warps (.*) did not meet",
        raised.value.missing,
    )
    assert (said is not None) == (times > 0)
    if said is not None:
        assert (int(said[1]), said[2] is None, said[4]) == (
            times,
            times < 4,
            "0 and 1" if reader == "lt" else "1 and 0",
        )
        assert said[3].count("(line ") == min(times, 3)


def test_counts_that_differ_are_refused() -> None:
    with pytest.raises(BarrierError, match="is used with"):
        handed_over("bar.arrive 1, 64;", "bar.sync 1, 128;")


@pytest.mark.parametrize(
    ("operation", "wants", "expected"),
    [("popc.u32", "%r9", 40), ("and.pred", "%p5", 0), ("or.pred", "%p5", 1)],
)
@pytest.mark.parametrize("family", ["bar", "barrier.cta"])
def test_reductions(family: str, operation: str, wants: str, expected: int) -> None:
    out = np.zeros(64, np.uint32)
    body = f"""setp.lt.u32 %p0, %t, 40; {family}.red.{operation} {wants}, 0, %p0;
    {"" if wants == "%r9" else "selp.u32 %r9, 1, 0, %p5;"} add.u64 %q0, %a0, %b; st.global.u32 [%q0], %r9; ret;"""
    launch(source(body, block=64), out, block=64)
    assert set(out.tolist()) == {expected}


MBARRIER = """.shared .align 8 .b8 bar[8]; setp.ne.u32 %p0, %t, 0; @%p0 bra READY;
mbarrier.init.shared::cta.b64 [bar], 2; READY: bar.sync 0; setp.eq.u32 %p1, %t, 0;"""


def phase_ends(body: str) -> bool:
    """Return True if phase 1 of an mbarrier with two arrivals completes."""
    wait = "L: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 1; @%p2 bra END; bra L; END: ret;"
    try:
        launch(source(f"{MBARRIER} {body} {wait}"), np.zeros(1))
    except Deadlock:
        return False
    return True


def test_who_drops_out_is_not_expected_again() -> None:
    arrive = "@%p1 mbarrier.arrive.shared::cta.b64 _, [bar];"
    drop = "@%p1 mbarrier.arrive_drop.shared::cta.b64 _, [bar];"
    assert not phase_ends(arrive * 3)
    assert phase_ends(arrive * 4)
    assert phase_ends(arrive + drop + arrive)


def test_an_invalidated_mbarrier_is_memory_again() -> None:
    end = "mbarrier.inval.shared::cta.b64 [bar]; st.shared.u64 [bar], %q1;"
    launch(source(f"{MBARRIER} @!%p1 bra END; mov.b64 %q1, 5; {end} END: ret;"), np.zeros(1))
    with pytest.raises(BarrierError, match="holds an mbarrier"):
        launch(source(f"{MBARRIER} @!%p1 bra END; mov.b64 %q1, 5; {end[38:]} END: ret;"), np.zeros(1))
    with pytest.raises(BarrierError, match="no mbarrier was initialised"):
        launch(
            source(f"{MBARRIER} @!%p1 bra END; mov.b64 %q1, 5; {end} mbarrier.arrive.shared.b64 _, [bar]; END: ret;"),
            np.zeros(1),
        )


def test_an_mbarrier_that_was_found_before_is_looked_for_again_once_it_is_gone() -> None:
    arrive, again = "mbarrier.arrive.shared.b64 _, [bar];", "mbarrier.init.shared.b64 [bar], 1;"
    gone = f"@!%p1 bra END; {arrive} mbarrier.inval.shared::cta.b64 [bar];"
    launch(source(f"{MBARRIER} {gone} {again} {arrive} END: ret;"), np.zeros(1))
    with pytest.raises(BarrierError, match="no mbarrier was initialised"):
        launch(source(f"{MBARRIER} {gone} {arrive} END: ret;"), np.zeros(1))


@pytest.mark.parametrize(
    ("verbs", "says"),
    [
        (
            "arrive arrive wait",
            {"fault": "two barrier.cluster.arrive, but only one barrier.cluster.wait", "formal": AGAIN},
        ),
        ("arrive arrive wait wait", {"formal": AGAIN}),
        ("arrive wait wait", {"fault": "barrier.cluster.wait without an arrive before it"}),
    ],
)
def test_a_cluster_barrier_out_of_turn(verbs: str, says: dict[str, str]) -> None:
    """Undefined in PTX. Memory is unchanged, so the launch may continue; the error is reported once."""
    out = np.zeros(64, np.uint32)
    body = " ".join(f"barrier.cluster.{verb};" for verb in verbs.split())
    text = source(f"{body} add.u64 %q0, %a0, %b; st.global.u32 [%q0], 7; ret;", block=64)
    for level, words in says.items():
        with pytest.raises(BarrierError, match=words):
            launch(text, out, block=64, level=Level[level.upper()])
    findings: list[Fault] = []
    launch(text, out, block=64, findings=findings)
    assert {str(finding.level): str(finding).splitlines()[0] for finding in findings}.items() == says.items()
    assert out.tolist() == [7] * 64
