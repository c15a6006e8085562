"""Races in global memory between lanes, warps, CTAs and clusters: correct programs and twins that lack one thing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emulator.errors import DataRace, Fault, Level, MissingProxyFence, UnwrittenRead
from emulator.machine.execution import scheduler
from tests.emulator.ptx_kernel import source
from tests.emulator.ptx_launch import launch

MODES = ("eager", "lazy", "random")
START = """
mov.u32 %r0, %ctaid.x; mov.u32 %r1, %nctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r0, %r2, %t;
setp.eq.u32 %p0, %t, 0; setp.eq.u32 %p1, %r0, 0; mul.wide.u32 %q9, %r3, 4; add.u64 %q0, %a0, %q9; // the thread's word
mul.lo.u32 %r4, %r1, %r2; xor.b32 %r5, %r2, 32; add.u32 %r5, %r3, {away}; rem.u32 %r5, %r5, %r4;
mul.wide.u32 %q8, %r5, 4; add.u64 %q1, %a0, %q8; // another's
mov.b32 %r60, 0; mov.b32 %r90, 0; LOOP:
"""
AGAIN = "add.u32 %r90, %r90, 1; setp.lt.u32 %p39, %r90, {rounds}; @%p39 bra LOOP;"
END = "add.u64 %q2, %a1, %q9; st.global.u32 [%q2], %r60; ret;"


def run(
    body: str,
    completion: Any = "lazy",
    *,
    grid: int = 1,
    cluster: int = 1,
    block: int = 64,
    away: int = 32,
    rounds: int = 1,
    level: Level = Level.FORMAL,
    findings: list[Fault] | None = None,
    seed: int = 0,
) -> np.ndarray:
    """Run a body for several rounds and return %r60 of each thread. %q0: a word of each thread, %q1: another's."""
    words, out = (np.zeros(block * grid + 4, np.uint32) for _ in range(2))
    again = AGAIN.format(rounds=rounds)
    text = source(f"{START.format(away=away)} {body} {again} {END}", 2, block=block)
    options: dict[str, Any] = {"completion": completion, "seed": seed, "level": level, "findings": findings}
    if findings is not None:
        options["diagnostics"] = "report"
    sizes: dict[str, Any] = {"grid": (grid, 1, 1), "block": (block, 1, 1), "cluster": (cluster, 1, 1)}
    launch(text, [words, out], **sizes, **options)
    return out[: block * grid]


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(("space", "there"), [("shared", "%r50"), ("global", "%a0")])
def test_atomics_do_not_hide_the_store_before_them(space: str, there: str, completion: str) -> None:
    """One thread sets a counter and all threads increment it."""
    counter = ".shared .align 4 .b8 counter[4]; mov.u32 %r50, counter;"
    body = f"{counter} @%p0 st.{space}.u32 [{there}], 0; BETWEEN atom.{space}.add.u32 %r60, [{there}], 1; bar.sync 0;"
    assert sorted(run(body.replace("BETWEEN", "bar.sync 0;"), completion)) == list(range(64))
    with pytest.raises((DataRace, UnwrittenRead), match=r"not ordered after|which nothing had written"):
        run(body.replace("BETWEEN", ""), completion)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(("space", "there"), [("shared", "%r50"), ("global", "%a0")])
def test_atomics_do_not_hide_the_load_before_them(space: str, there: str, completion: str) -> None:
    """A thread reads a counter. It, the next warp's first thread, and the third warp's increment it."""
    start = f"setp.eq.u32 %p5, %t, 32; @%p5 st.{space}.u32 [{there}], 0; bar.sync 0;"
    leaders = "and.b32 %r51, %t, 31; setp.eq.u32 %p2, %r51, 0; setp.lt.u32 %p3, %t, 64; and.pred %p4, %p2, %p3;"
    load, count = f"@%p0 ld.{space}.u32 %r60, [{there}];", f"atom.{space}.add.u32 %r61, [{there}], 1;"
    body = f".shared .align 4 .b8 counter[4]; mov.u32 %r50, counter; {start} {leaders} {load} MET @%p4 {count}"
    assert run(f"{body.replace('MET', 'bar.sync 0;')} @!%p3 {count}", completion, block=96)[0] == 0
    for late in ("", "bar.sync 0;"):
        with pytest.raises(DataRace, match="not ordered after"):
            run(f"{body.replace('MET', '')} {late} @!%p3 {count}", completion, block=96)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("add", ["red.relaxed.gpu.global.add.u32 [%a0],", "atom.global.add.u32 %r61, [%a0],"])
def test_the_last_cta_reads_what_all_added(add: str, completion: str) -> None:
    """A ticket tells which CTA is last. Without a fence the others' sums need not precede its load."""
    body = f"""@!%p0 bra DONE; {add} 5; FENCE atom.relaxed.gpu.global.add.u32 %r62, [%a0+4], 1; FENCE
setp.ne.u32 %p2, %r62, 3; @%p2 bra DONE; ld.global.u32 %r60, [%a0]; st.global.u32 [%a0+4], 0; DONE:"""
    assert run(body.replace("FENCE", "fence.acq_rel.gpu;"), completion, grid=4, block=16).max() == 20
    with pytest.raises(DataRace, match=r"ld\.global reads .* not ordered after (red|atom)\.global that wrote it"):
        run(body.replace("FENCE", ""), completion, grid=4, block=16)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("arrive", ["fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%a0], 2;", "red", "atom"])
@pytest.mark.parametrize("poll", ["ld.acquire.gpu.global.u32 %r60", "ld.volatile.global.u32 %r60"])
def test_who_saw_a_flag_may_reset_it_by_a_weak_store(poll: str, arrive: str, completion: str) -> None:
    """The observed store precedes what the observing warp does next, but not what another warp does."""
    if len(arrive) == 4 or arrive == "red":
        to = "%r61, " * (arrive == "atom")
        arrive = f"fence.acq_rel.gpu; {arrive}.relaxed.gpu.global.add.u32 {to}[%a0], 1; " * 2
    body = f"""mov.b32 %r60, 2; @%p1 bra WAIT; @%p0 bra ARRIVE; bra DONE; ARRIVE: {arrive} bra DONE;
WAIT: @!%p0 bra RESET; SPIN: {poll}, [%a0]; setp.lt.u32 %p3, %r60, 2; @%p3 bra SPIN;
RESET: WAIT setp.eq.u32 %p4, %t, WHO; @%p4 st.global.u32 [%a0], 0; DONE:"""
    assert run(body.replace("RESET: WAIT", "RESET:").replace("WHO", "0"), completion, grid=2)[0] == 2
    both = body.replace("RESET: WAIT", "RESET: bar.sync 0;").replace("WHO", "32")
    assert run(both, completion, grid=2)[0] == 2
    with pytest.raises(DataRace, match=r"st\.global writes|not ordered after st\.global"):
        run(both.replace("RESET: bar.sync 0;", "RESET:"), completion, grid=2)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("grid", [1, 2])
def test_a_loop_of_weak_loads_lets_others_store(grid: int, completion: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first warp or CTA polls a word that another stores once."""
    monkeypatch.setattr(scheduler, "QUANTUM", 512)
    spin = "SPIN: LOAD.global.u32 %r60, [%a1+256]; setp.eq.u32 %p3, %r60, 0; @%p3 bra SPIN; bra DONE;"
    first = "setp.lt.u32 %p2, %r3, 32; @!%p2 bra STORE;"
    body = f"{first} {spin} STORE: st.relaxed.gpu.global.u32 [%a1+256], 7; DONE:"
    assert (
        run(body.replace("LOAD", "ld.relaxed.gpu"), completion, grid=grid, block=64 // grid)[:32].tolist() == [7] * 32
    )
    with pytest.raises(DataRace, match=r"not ordered after (st|ld)\.global"):
        run(body.replace("LOAD", "ld"), completion, grid=grid, block=64 // grid)


def test_in_random_mode_ctas_come_in_any_order() -> None:
    """A flag is read once, without waiting. It is set by then if the other CTA runs first."""
    flagged = (
        "@!%p1 bra SEES; st.global.u32 [%q0], 7; bar.sync 0; @%p0 st.release.gpu.global.u32 [%a1+512], 1; bra DONE;"
        "SEES: ld.acquire.gpu.global.u32 %r61, [%a1+512]; AGAIN ld.global.u32 %r60, [%q1]; DONE:"
    )
    polled = flagged.replace("AGAIN", "setp.eq.u32 %p3, %r61, 0; @%p3 bra SEES;")
    for seed in range(8):
        assert run(polled, "random", grid=2, away=64, seed=seed)[64:].tolist() == [7] * 64
    with pytest.raises(DataRace):
        for seed in range(8):
            run(flagged.replace("AGAIN", ""), "random", grid=2, away=64, seed=seed)


BARRIER = "bar.sync 0;"
WARPS = {
    "read after write": ("st.global.u32 [%q0], %t; {0} ld.global.u32 %r60, [%q1]; {1}", 64),
    "write after read": ("ld.global.u32 %r60, [%q1]; {0} st.global.u32 [%q0], %t; {1}", 64),
    "write after write": ("st.global.u32 [%q0], %t; {0} st.global.u32 [%q1], 7; {1}", 64),
    "an atomic, then a weak read": ("atom.global.add.u32 %r61, [%q0], 1; {0} ld.global.u32 %r60, [%q1]; {1}", 64),
    "a byte": ("st.global.u8 [%q0], %t; {0} ld.global.u8 %r60, [%q1]; {1}", 64),
    "half a word beside another's": ("st.global.u16 [%q0], %t; {0} ld.global.u16 %r60, [%q1]; {1}", 64),
}


@pytest.mark.parametrize("rounds", [1, 9])
@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("name", WARPS)
def test_warps_of_a_cta(name: str, completion: str, rounds: int) -> None:
    body, block = WARPS[name]
    run(body.format(BARRIER, BARRIER), completion, block=block, rounds=rounds)
    with pytest.raises(DataRace, match=r"global memory 0x.*, not ordered after .* that (wrote|reads) it") as caught:
        run(body.format("", BARRIER), completion, block=block, rounds=rounds)
    assert "arrives on after PTX line" in str(caught.value)


@pytest.mark.parametrize("completion", MODES)
def test_machine_code_asks_where_warps_did_not_meet_in_the_last_round(completion: str) -> None:
    body = WARPS["read after write"][0]
    late = "setp.ne.u32 %p7, %r90, 8; @%p7 bar.sync 0;"
    with pytest.raises(DataRace, match="not ordered after"):
        run(body.format(late, BARRIER), completion, rounds=9)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("name", ["read after write", "write after read"])
def test_lanes_of_a_warp(name: str, completion: str) -> None:
    body, sync = WARPS[name][0], "bar.warp.sync -1;"
    assert run(body.format(sync, sync), completion, block=32, away=1, rounds=9) is not None
    with pytest.raises(DataRace, match=r"not ordered after .* of the same warp"):
        run(body.format("", sync), completion, block=32, away=1, rounds=9)


@pytest.mark.parametrize("between", ["", "@%p1 bra ON; mov.b32 %r60, 9; ON:"], ids=["in a row", "past a branch"])
def test_one_lane_stores_what_an_instruction_has_loaded_for_all(between: str) -> None:
    """Triton does this with a scalar. If the storing lane has not loaded the word, it is a fault."""
    found: list[Fault] = []
    body = "{0} ld.global.u32 %r60, [%a0]; {1} @%p0 st.global.u32 [%a0], %r60;"
    run(body.format("", between), block=32, findings=found)
    assert [(type(fault), fault.level) for fault in found] == [(DataRace, Level.FORMAL)]
    found.clear()
    run(body.format("@!%p0", between), block=32, findings=found)
    assert [(type(fault), fault.level) for fault in found] == [(DataRace, Level.FAULT)]


def test_neighbours_in_a_word_do_not_race() -> None:
    at = "mul.wide.u32 %q7, %t, 2; add.u64 %q6, %a0, %q7;"
    run(at + "st.global.u16 [%q6], %t; ld.global.u16 %h1, [%q6]; add.u16 %h1, %h1, 1; st.global.u16 [%q6], %h1;")


def test_each_thread_its_own_word() -> None:
    body = "ld.global.u32 %r60, [%q0]; add.u32 %r60, %r60, %t; st.global.u32 [%q0], %r60;"
    assert run(body, grid=3, rounds=20).tolist() == [20 * t for _ in range(3) for t in range(64)]


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("cluster", [1, 2])
def test_ctas_that_do_not_meet(completion: str, cluster: int) -> None:
    run("st.global.u32 [%q0], %t; bar.sync 0;", completion, grid=2, cluster=cluster)
    for body in (
        "st.global.u32 [%q0], %t; bar.sync 0; ld.global.u32 %r60, [%q1];",
        "ld.global.u32 %r60, [%q1]; bar.sync 0; st.global.u32 [%q0], %t;",
        "st.global.u32 [%a0], %r3;",
        "ld.global.u32 %r60, [%a0]; add.u32 %r60, %r60, 1; @%p0 st.global.u32 [%a0], %r60;",  # a lost update
    ):
        with pytest.raises(DataRace, match=r"not ordered after|either value may remain"):
            run(body, completion, grid=2, cluster=cluster, away=64)
    both = "atom.global.add.u32 %r60, [%a0], 1;"
    assert sorted(run(both, completion, grid=2, cluster=cluster)) == list(range(128))


def test_a_place_for_each_multiprocessor() -> None:
    """CTAs store at %smid, which no two resident CTAs share while there are enough multiprocessors."""
    own = "mov.u32 %r8, %smid; and.b32 %r9, %r8, MASK; mad.wide.u32 %a0, %r9, 4, %a0; st.global.b32 [%a0], %r8;"
    out = np.zeros(148, np.uint32)
    launch(source(own.replace("MASK", "255"), block=1), [out], grid=(37, 2, 2), block=(1, 1, 1))
    assert out.tolist() == [*range(148)]
    with pytest.raises(DataRace):
        launch(source(own.replace("MASK", "127"), block=1), [out], grid=(37, 2, 2), block=(1, 1, 1))


def test_equal_bits_are_formal() -> None:
    found = list[Fault]()
    run("st.global.u32 [%a0], 7;", grid=2, level=Level.FAULT, findings=found)
    assert {fault.level for fault in found} == {Level.FORMAL}


def levels_of(body: str, completion: Any, rounds: int = 1, grid: int = 2, seed: int = 0) -> set[Level]:
    """Return the levels of what CTAs of two warps find."""
    found = list[Fault]()
    run(body, completion, grid=grid, rounds=rounds, level=Level.FAULT, findings=found, seed=seed)
    return {fault.level for fault in found}


EQUAL = "@%p0 st.global.u32 [%a0], 7; bar.sync 0; ld.global.u32 %r60, [%a0]; bar.sync 0;"


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("rounds", [1, 9])
def test_ctas_that_load_the_equal_bits_that_each_stored(rounds: int, completion: str) -> None:
    """7 in every order. Bits that are equal by chance are a fault: nothing says that the load should see them."""
    for seed in range(4 if completion == "random" else 1):
        assert levels_of(EQUAL, completion, rounds, 3, seed) == {Level.FORMAL}
    unwritten = f"@!%p1 bra LOAD; {EQUAL.replace('7', '0')} bra DONE; LOAD: ld.global.u32 %r60, [%a0]; DONE:"
    assert Level.FAULT in levels_of(unwritten, completion, rounds)
    early = f"{EQUAL} ld.global.u32 %r60, [%a0]; @%p0 st.global.u32 [%a0], 7; bar.sync 0;"
    assert Level.FAULT in levels_of(early, completion, rounds, grid=1)


@pytest.mark.parametrize("between", ["", "bar.sync 0;"])
@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("rounds", [1, 9])
def test_a_store_of_other_bits_before_those_that_both_ctas_store(rounds: int, completion: str, between: str) -> None:
    """CTA 0 stores 5 and then, like CTA 1, 7. CTA 1 may load 5 after its 7; CTA 0 may not."""
    first = f"@!%p1 bra SEVEN; @%p0 st.global.u32 [%a0], 5; {between} SEVEN: {EQUAL.partition('ld')[0]}"
    load = "LOAD ld.global.u32 %r60, [%a0]; DONE: bar.sync 0;"
    assert Level.FAULT in levels_of(first + load.replace("LOAD", "@%p1 bra DONE;"), completion, rounds)


@pytest.mark.parametrize("who, level", [("@%p1", Level.FORMAL), ("@!%p1", Level.FAULT)])
def test_machine_code_tells_that_it_stored_other_bits_before(who: str, level: Level) -> None:
    """One store of CTA 0 stores 5 eight times, then 7. CTA 1 stores 7."""
    last = "setp.eq.u32 %p4, %r90, 8; mov.b32 %r8, 7; @%p4 bra STORE; @%p1 mov.b32 %r8, 5; STORE:"
    body = f"{last} @%p0 st.global.u32 [%a0], %r8; bar.sync 0; @!%p4 bra DONE; {who} ld.global.u32 %r60, [%a0]; DONE:"
    found = levels_of(body, "lazy", 9)
    assert max(found) == Level.FORMAL and min(found) == level


@pytest.mark.parametrize("completion", ["eager", "lazy"])
def test_a_store_of_other_bits_that_no_load_may_see(completion: str) -> None:
    """CTA 0 stores 5 and 7, CTA 1 stores 7. CTA 0 loads, or CTA 1 stores after it has seen the 5."""
    first = f"@!%p1 bra SEVEN; @%p0 st.global.u32 [%a0], 5; SEVEN: {EQUAL.partition('ld')[0]}"
    assert levels_of(first, completion) == {Level.FORMAL}
    assert levels_of(f"{first} @%p1 ld.global.u32 %r60, [%a0];", completion) == {Level.FORMAL}
    flag = "add.u64 %q5, %a0, 512; "
    give = "fence.acq_rel.gpu; @%p0 st.relaxed.gpu.global.u32 [%q5], 1;"
    take = "SPIN: ld.acquire.gpu.global.u32 %r7, [%q5]; setp.eq.u32 %p3, %r7, 0; @%p3 bra SPIN; bar.sync 0;"
    seen = f"{flag} @!%p1 bra TAKE; @%p0 st.global.u32 [%a0], 5; {give} bra SEVEN; TAKE: {take} SEVEN: {EQUAL}"
    assert levels_of(seen, completion) == {Level.FORMAL}


@pytest.mark.parametrize("completion", ["eager", "lazy"])
def test_a_store_of_other_bits_after_equal_ones(completion: str) -> None:
    """CTAs 0 and 1 store 7. CTA 1 then stores 8, in order after its own 7 but not after the other's."""
    body = f"{EQUAL.partition('ld')[0]} @%p1 bra DONE; @%p0 st.global.u32 [%a0], 8; DONE:"
    assert levels_of(body, completion) == {Level.FORMAL, Level.FAULT}


LOADED = "ld.global.u32 %r60, [%q6];"
PUT_BACK = "add.u64 %q6, %a0, {0}; {1} {2} st.global.u32 [%q6], {3}; bar.warp.sync -1; ld.global.u32 %r60, [%q6];"


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("rounds", [1, 9])
@pytest.mark.parametrize(("place", "who"), [("%q8", ""), ("0", "@%p0")], ids=["a lane a word", "one lane"])
def test_ctas_that_put_back_what_they_loaded(place: str, who: str, rounds: int, completion: str) -> None:
    """Formal, as in Triton's cooperative grids, or if all store equal bits. A fault if a CTA changes the word."""

    def levels(load: str, stored: str) -> set[Level]:
        found, body = list[Fault](), f"mul.wide.u32 %q8, %t, 4; {PUT_BACK.format(place, load, who, stored)}"
        run(body, completion, grid=2, block=32, rounds=rounds, level=Level.FAULT, findings=found)
        return {fault.level for fault in found}

    assert levels(LOADED, "%r60") == {Level.FORMAL}
    assert levels("", "0") == {Level.FORMAL}
    assert Level.FAULT in levels(LOADED, "%r3")
    assert Level.FAULT in levels(f"{LOADED} {who} st.global.u32 [%q6], 5;", "%r60")


FLAG = "add.u64 %q5, %a0, 512; setp.ne.u32 %p2, %r0, 0; @%p2 bra TAKE;"
HAND = """
FLAG @%p0 st.global.u32 [%a0], 42; SYNC
@%p0 RELEASE bra DONE;
TAKE: @!%p0 bra GO; SPIN: ACQUIRE setp.eq.u32 %p3, %r7, 0; @%p3 bra SPIN; FENCE
GO: MEET ld.global.u32 %r60, [%a0]; DONE:
"""
GOOD = {"FLAG": FLAG, "SYNC": BARRIER, "MEET": BARRIER, "FENCE": ""}
RELEASES = {
    "st.release": "st.release.gpu.global.u32 [%q5], 1;",
    "fence and relaxed": "fence.acq_rel.gpu; @%p0 st.relaxed.gpu.global.u32 [%q5], 1;",
    "membar and volatile": "membar.gl; @%p0 st.volatile.global.u32 [%q5], 1;",
    "atom": "atom.release.gpu.global.add.u32 %r8, [%q5], 1;",
    "red": "red.release.gpu.global.add.u32 [%q5], 1;",
    "fence.sc and atom": "fence.sc.gpu; @%p0 atom.relaxed.gpu.global.exch.b32 %r8, [%q5], 1;",
    "handed on by another atomic": "st.release.gpu.global.u32 [%q5], 1; @%p0 red.relaxed.gpu.global.add.u32 [%q5], 1;",
}
ACQUIRES = {
    "ld.acquire": ("ld.acquire.gpu.global.u32 %r7, [%q5];", ""),
    "relaxed and fence": ("ld.relaxed.gpu.global.u32 %r7, [%q5];", "fence.acq_rel.gpu;"),
    "volatile and membar": ("ld.volatile.global.u32 %r7, [%q5];", "membar.gl;"),
    "atom": ("atom.acquire.gpu.global.or.b32 %r7, [%q5], 0;", ""),
}
LACKING = {
    "relaxed store": {"RELEASE": "st.relaxed.gpu.global.u32 [%q5], 1;"},
    "a release of this CTA only": {"RELEASE": "st.release.cta.global.u32 [%q5], 1;"},
    "a fence of this CTA only": {"RELEASE": "fence.acq_rel.cta; @%p0 st.relaxed.gpu.global.u32 [%q5], 1;"},
    "relaxed load": {"ACQUIRE": "ld.relaxed.gpu.global.u32 %r7, [%q5];"},
    "an acquire of this CTA only": {"ACQUIRE": "ld.acquire.cta.global.u32 %r7, [%q5];"},
    "the data after the flag": {"SYNC": "", "RELEASE": "st.release.gpu.global.u32 [%q5], 1; st.global.u32 [%a0], 43;"},
    "only one thread acquired": {"MEET": ""},
}


def handed(parts: dict[str, str]) -> str:
    text = HAND
    for name, part in parts.items():
        text = text.replace(name, part)
    return text


def flags(completion: Any, parts: dict[str, str], cluster: int = 1) -> np.ndarray:
    words, out = np.zeros(512, np.uint32), np.zeros(512, np.uint32)
    text = source(START.format(away=32) + handed(parts) + END, 2, block=64)
    sizes: dict[str, Any] = {"grid": (2, 1, 1), "block": (64, 1, 1), "cluster": (cluster, 1, 1)}
    launch(text, [words, out], **sizes, completion=completion, level=Level.FORMAL)
    return out[64:128]


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("acquire", ACQUIRES)
@pytest.mark.parametrize("release", RELEASES)
def test_a_flag(release: str, acquire: str, cluster: int, completion: str) -> None:
    load, fence = ACQUIRES[acquire]
    parts = {**GOOD, "RELEASE": RELEASES[release], "ACQUIRE": load, "FENCE": fence}
    assert flags(completion, parts, cluster).tolist() == [42] * 64


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("lacking", LACKING)
def test_a_flag_that_lacks_something(lacking: str, cluster: int, completion: str) -> None:
    parts = {**GOOD, "RELEASE": RELEASES["st.release"], "ACQUIRE": ACQUIRES["ld.acquire"][0], **LACKING[lacking]}
    with pytest.raises(DataRace, match="not ordered after"):
        flags(completion, parts, cluster)


WRITES_OVER = """
setp.ne.u32 %p9, %t, 0; @%p9 ret; setp.eq.u32 %p2, %r0, 1; setp.eq.u32 %p3, %r0, 2; add.u64 %q5, %a0, 512;
@%p1 st.global.u32 [%a0], 42; @%p1 st.release.gpu.global.u32 [%q5], 1; @%p2 {0};
@%p3 ld.acquire.gpu.global.u32 %r7, [%q5]; @%p3 ld.global.u32 %r60, [%a0];
"""


TOKEN = """setp.ne.u32 %p2, %t, 0; @%p2 bra OUT; mov.b32 %r10, 0;
ROUND: mad.lo.u32 %r11, %r10, 2, %r0;
POLL: ld.LOADED.gpu.global.b32 %r12, [%a0]; setp.ne.u32 %p3, %r12, %r11; @%p3 bra POLL;
ld.global.b32 %r60, [%a0+64]; add.u32 %r60, %r60, 1; st.global.b32 [%a0+64], %r60;
add.u32 %r11, %r11, 1; st.STORED.gpu.global.b32 [%a0], %r11;
add.u32 %r10, %r10, 1; setp.lt.u32 %p4, %r10, 4; @%p4 bra ROUND; OUT:"""


@pytest.mark.parametrize("completion", MODES)
def test_a_token_that_two_ctas_pass_to_and_fro(completion: str) -> None:
    """A cluster ends while its accesses have been recorded several times."""
    right = TOKEN.replace("LOADED", "acquire").replace("STORED", "release")
    assert run(right, completion, grid=2)[[0, 64]].tolist() == [7, 8]
    for old, new in (("ld.acquire", "ld.relaxed"), ("st.release", "st.relaxed")):
        with pytest.raises(DataRace, match=r"ld\.global reads global memory"):
            run(right.replace(old, new), completion, grid=2)


def test_a_read_modify_write_hands_a_release_on_and_a_store_does_not() -> None:
    run(WRITES_OVER.format("red.relaxed.gpu.global.add.u32 [%q5], 1"), grid=3)
    with pytest.raises(
        DataRace, match=r"a release of warp 0 of CTA \(0,0,0\) after .* an acquire of warp 0 of CTA \(2,"
    ):
        run(WRITES_OVER.format("st.relaxed.gpu.global.u32 [%q5], 2"), grid=3)


@pytest.mark.parametrize("completion", MODES)
def test_the_non_coherent_path_reads_nothing_that_is_written_in_the_launch(completion: str) -> None:
    own = "st.global.u32 [%q0], %t; bar.sync 0; ld.global{0}.u32 %r60, [%q0];"
    run(own.format(""), completion, rounds=5)
    with pytest.raises(DataRace, match=r"ld.global.nc reads .* wrote in this launch"):
        run(own.format(".nc"), completion, rounds=5)
    run("ld.global.nc.u32 %r60, [%q0]; bar.sync 0; st.global.u32 [%q0], %t;", completion)


@pytest.mark.parametrize(
    ("scope", "cluster", "races"), [("gpu", 1, False), ("cluster", 2, False), ("cluster", 1, True), ("cta", 2, True)]
)
def test_strong_accesses_race_outside_of_each_others_scope(scope: str, cluster: int, races: bool) -> None:
    body = f"@%p0 red.relaxed.{scope}.global.add.u32 [%a0], 1;"
    if races:
        with pytest.raises(DataRace, match="not ordered after"):
            run(body, grid=2, cluster=cluster)
    else:
        run(body, grid=2, cluster=cluster)


BULK_COPY_OF_ANOTHER_CTA = """
.shared .align 16 .b8 copied[16]; .shared .align 8 .b64 full; mov.u32 %r50, copied; mov.u32 %r51, full;
setp.ne.u32 %p9, %t, 0; @%p9 ret; add.u64 %q5, %a0, 512; @!%p1 bra POLL;
st.global.u32 [%a0], 42; st.release.gpu.global.u32 [%q5], 1; bra OUT;
POLL: ld.acquire.gpu.global.u32 %r7, [%q5]; setp.eq.u32 %p2, %r7, 0; @%p2 bra POLL;
mbarrier.init.shared.b64 [%r51], 1; fence.mbarrier_init.release.cluster; FENCE
mbarrier.arrive.expect_tx.shared.b64 _, [%r51], 16;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r50], [%a0], 16, [%r51];
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r51], 0; @!%p3 bra WAIT;
ld.shared.u32 %r60, [%r50]; OUT:
"""


def test_a_proxy_fence_covers_what_was_acquired_from_another_cluster() -> None:
    assert run(BULK_COPY_OF_ANOTHER_CTA.replace("FENCE", "fence.proxy.async.global;"), grid=2)[64] == 42
    with pytest.raises(MissingProxyFence):
        run(BULK_COPY_OF_ANOTHER_CTA.replace("FENCE", ""), grid=2)


@pytest.mark.parametrize(
    ("reads", "races"),
    [
        ("red.relaxed.gpu.global.add.u32 [%q5], 0;", True),
        ("atom.relaxed.gpu.global.add.u32 %r7, [%q5], 0; add.u32 %r60, %r60, %r7;", False),
    ],
)
def test_a_reduction_acquires_nothing(reads: str, races: bool) -> None:
    """The second CTA runs when the first has ended."""
    store = "@%p0 st.global.u32 [%a0], 42; @%p0 st.release.gpu.global.u32 [%q5], 1;"
    load = f"{reads} fence.acq_rel.gpu; ld.global.u32 %r60, [%a0];"
    second = f"SECOND: setp.ne.u32 %p9, %t, 0; @%p9 ret; {load} OUT:"
    body = f"add.u64 %q5, %a0, 512; @!%p1 bra SECOND; {store} bra OUT; {second}"
    if races:
        with pytest.raises(DataRace, match="not ordered after"):
            run(body, grid=2)
    else:
        assert run(body, grid=2)[64] == 42
