"""st.async and red.async between the CTAs of a cluster: correct programs and broken variants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ptx_launch import kernel, launch

from emulator import errors
from emulator.machine.compiled import accesses
from emulator.machine.launch.statistics import Stats
from emulator.machine.order.completion import Completion

MODES = ("eager", "lazy", "random")
STORE = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{} [%r5], {}, [%r6];"
REDUCE = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{} [%r5], %r7, [%r6];"
WAIT = "LOOP: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @%p2 bra GO; bra LOOP; GO:"


def run(
    act: str,
    size: int,
    out: np.ndarray,
    wait: str = WAIT,
    completion: Completion = "lazy",
    away: int = 1,
    bytes_: int = 512,
) -> None:
    """Each thread acts on its word (%r5) of the CTA at this distance. Then each CTA stores its own words."""
    text = kernel(
        "remote",
        ".param .u64 out",
        f"""
.reg .b32 %r<20>; .reg .b64 %q<8>; .reg .pred %p<4>;
.shared .align 1024 .b8 data[{bytes_}]; .shared .align 8 .b8 full[8];
mov.u32 %r1, %tid.x; mov.b32 %r2, data; mov.b32 %r3, full; mov.u32 %r4, %cluster_ctarank; ld.param.b64 %q0, [out];
setp.eq.u32 %p1, %r1, 0;
@%p1 mbarrier.init.shared.b64 [%r3], 1;
shl.b32 %r8, %r1, 4; add.s32 %r9, %r2, %r8;
mov.b32 %r10, 100; st.shared.v4.b32 [%r9], {{%r10, %r10, %r10, %r10}};
fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], {size};
xor.b32 %r11, %r4, {away}; mapa.shared::cluster.u32 %r5, %r9, %r11; mapa.shared::cluster.u32 %r6, %r3, %r11;
shl.b32 %r7, %r4, 8; add.s32 %r7, %r7, %r1;
{act}
{wait}
ld.shared.v4.b32 {{%r12, %r13, %r14, %r15}}, [%r9];
shl.b32 %r16, %r4, 9; add.s32 %r16, %r16, %r8; cvt.u64.u32 %q1, %r16; add.s64 %q0, %q0, %q1;
st.global.v4.b32 [%q0], {{%r12, %r13, %r14, %r15}};
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
ret;""",
    )
    launch(text, [out], grid=(2, 1, 1), block=(32, 1, 1), cluster=(2, 1, 1), completion=completion)


def sent() -> np.ndarray:
    """Return what each CTA receives: [CTA, thread]."""
    return np.stack([256 + np.arange(32), np.arange(32)])


CASES = [
    (STORE.format(".b32", "%r7"), 128, lambda old, new: [new, old, old, old]),
    (STORE.format(".v4.b32", "{%r7, %r1, %r7, %r7}"), 512, lambda old, new: [new, new % 256, new, new]),
    (REDUCE.format("add.u32"), 128, lambda old, new: [old + new, old, old, old]),
    (REDUCE.format("max.s32"), 128, lambda old, new: [np.maximum(old, new), old, old, old]),
    (REDUCE.format("xor.b32"), 128, lambda old, new: [old ^ new, old, old, old]),
]


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(("act", "size", "becomes"), CASES)
def test_words_arrive(act: str, size: int, becomes: object, completion: Completion) -> None:
    out = np.zeros((2, 32, 4), np.uint32)
    run(act, size, out, completion=completion)
    new = sent()
    assert callable(becomes)
    np.testing.assert_array_equal(out, np.stack(becomes(np.full_like(new, 100), new), -1))


@pytest.mark.parametrize("completion", MODES)
def test_words_arrive_at_home(completion: Completion) -> None:
    out = np.zeros((2, 32, 4), np.uint32)
    run(STORE.format(".b32", "%r7"), 128, out, completion=completion, away=0)
    np.testing.assert_array_equal(out[..., 0], sent()[::-1])


def test_an_address_tells_its_cta() -> None:
    """getctarank of mapa's result, for a shared and a generic address."""
    out = np.full((2, 32, 4), 7, np.uint32)
    rank = """cvt.u64.u32 %q3, %r5; cvta.shared::cluster.u64 %q3, %q3; getctarank.u64 %r18, %q3;
getctarank.shared::cluster.u32 %r17, %r5; mad.lo.s32 %r17, %r17, 16, %r18;"""
    run(f"{rank} {STORE.format('.b32', '%r17')}", 128, out)
    np.testing.assert_array_equal(out[:, :, 0], [[0] * 32, [17] * 32])


@pytest.mark.parametrize("completion", MODES)
def test_the_wait_is_needed(completion: Completion) -> None:
    with pytest.raises(errors.MissingWait, match=r"st\.async"):
        run(CASES[0][0], 128, np.zeros((2, 32, 4), np.uint32), wait="barrier.cluster.arrive; barrier.cluster.wait;",
            completion=completion)  # fmt: skip


ONE_PLACE = "and.b32 %r17, %r5, 0xFFFFFC00;"


def at_one_place(act: str) -> str:
    """Return code in which all lanes act on the first word of the target CTA."""
    return ONE_PLACE + act.replace("[%r5]", "[%r17]")


@pytest.mark.parametrize("completion", MODES)
def test_lanes_send_one_word_to_one_place(completion: Completion) -> None:
    """Equal values; or different values, of which an undefined one stays; or different values that are added."""
    out = np.zeros((2, 32, 4), np.uint32)
    run(at_one_place(STORE.format(".b32", "%r4")), 128, out, completion=completion)
    assert out[:, 0, 0].tolist() == [1, 0]
    run(at_one_place(REDUCE.format("add.u32")), 128, out, completion=completion)
    assert out[:, 0, 0].tolist() == [100 + int(sums) for sums in sent().sum(1)]
    with pytest.raises(errors.DataRace, match=r"st\.async"):
        run(at_one_place(STORE.format(".b32", "%r7")), 128, out, completion=completion)


@pytest.mark.parametrize("completion", MODES)
def test_what_is_folded_into_was_written(completion: Completion) -> None:
    act = "add.u32 %r5, %r5, 512;" + REDUCE.format("add.u32")
    with pytest.raises(errors.UnwrittenRead, match=r"red\.async reads shared memory"):
        run(act, 128, np.zeros((2, 32, 4), np.uint32), completion=completion, bytes_=1024)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("lanes", ["mov.b32 %r17, %r6;", "setp.lt.u32 %p3, %r1, 16; selp.b32 %r17, %r6, %r3, %p3;"])
def test_an_mbarrier_of_another_cta_is_not_waited_for(lanes: str, completion: Completion) -> None:
    """By all lanes, or by some."""
    wait = lanes + WAIT.replace("[%r3]", "[%r17]")
    with pytest.raises(
        errors.BarrierError, match=r"mbarrier\.try_wait in warp .* waits for full \(mbarrier #0 .* of CTA"
    ):
        run(CASES[0][0], 128, np.zeros((2, 32, 4), np.uint32), wait=wait, completion=completion)


def test_bytes_are_counted() -> None:
    with pytest.raises((errors.Deadlock, errors.BarrierError)):
        run(CASES[0][0], 132, np.zeros((2, 32, 4), np.uint32))


@pytest.mark.parametrize(
    "act",
    [
        REDUCE.format("add.f32"),
        "st.async.weak.shared::cluster.b32 [%r5], %r7, [%r6];",
        "mbarrier.arrive.release.cluster.shared::cluster.b64 %q3, [%r6];",
        "multimem.red.relaxed.sys.global.add.u32 [%q0], %r7;",
    ],
)
def test_what_is_refused(act: str) -> None:
    with pytest.raises(errors.UnknownInstruction):
        run(act, 128, np.zeros((2, 32, 4), np.uint32))


OWN_ONLY = {
    "mbarrier.arrive": "@%p1 mbarrier.arrive.shared::cta.b64 _, [{mbarrier}];",
    "mbarrier.expect_tx": "@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{mbarrier}], 0;",
    "mbarrier.complete_tx": "@%p1 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [{mbarrier}], 0;",
    "mbarrier.inval": "@%p1 mbarrier.inval.shared.b64 [{mbarrier}];",
    "mbarrier.init": "@%p1 mbarrier.inval.shared.b64 [%r3]; @%p1 mbarrier.init.shared.b64 [{mbarrier}], 1;",
    "a bulk store": "fence.proxy.async; setp.eq.and.u32 %p3, %r4, 0, %p1;"
    "@%p3 cp.async.bulk.global.shared::cta.bulk_group [%q0], [{data}], 16; cp.async.bulk.commit_group;"
    "cp.async.bulk.wait_group 0; bar.warp.sync -1;",
    "a bulk copy to another CTA": "fence.proxy.async; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    "@%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r5+256], [{data}], 16, [%r6];",
    "a bulk copy to its own CTA": "fence.proxy.async; mul.wide.u32 %q2, %r4, 512; add.s64 %q2, %q2, %q0;"
    "@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [{data}], [%q2], 16, [%r3];",
    "where try_cancel answers": "fence.proxy.async; @%p1 "
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [{data}], [%r3];",
    "whom try_cancel tells": "fence.proxy.async; @%p1 "
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r9], [{mbarrier}];",
    "tensormap.replace": "mov.b64 %q7, 4096; "
    "@%p1 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [{data}], %q7;",
    "tcgen05.alloc": "mapa.shared::cluster.u32 %r6, %r2, %r11; mov.b32 %r5, %r2; mov.b32 %r3, {word};"
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 32; ld.shared.b32 %r3, [%r3];"
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;",
}


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("what", OWN_ONLY)
def test_what_is_only_for_its_own_cta_refuses_another_s(what: str, completion: Completion) -> None:
    def tried(**places: str) -> None:
        text, brought = OWN_ONLY[what].format(**places), 16 * ("complete_tx::bytes" in OWN_ONLY[what])
        act, wait = (text, WAIT) if brought else ("", WAIT + text)
        run(act, brought, np.zeros((2, 32, 4), np.uint32), wait, completion)

    tried(mbarrier="%r3", data="%r9", word="%r5")
    with pytest.raises(errors.OutOfBounds, match=r" at .* in the window of CTA rank \d; this is rank \d"):
        tried(mbarrier="%r6", data="%r5", word="%r6")


STARTED = """
    .reg .pred %p; .reg .b32 %r<9>; .shared .align 16 .b8 word[4];
    mov.u32 %r0, %cluster_ctarank; xor.b32 %r1, %r0, 1; mov.b32 %r2, word; mapa.shared::cluster.u32 %r3, %r2, %r1;
    mov.u32 %r4, %tid.x; setp.eq.u32 %p, %r4, 32;
    BARRIER @%p st.shared::cluster.b32 [%r3], %r0; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;
"""


@pytest.mark.parametrize("completion", ["eager", "lazy", "random"])
def test_another_cta_must_have_started(completion: str) -> None:
    def run(barrier: str) -> None:
        text = kernel("k", "", STARTED.replace("BARRIER", barrier))
        options = {"grid": (2, 1, 1), "cluster": (2, 1, 1), "block": (64, 1, 1), "level": errors.Level.FORMAL}
        launch(text, [], completion=completion, **options)

    run("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;")
    run("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;")
    with pytest.raises(
        errors.DataRace, match=r"st\.shared::cluster reaches shared memory of CTA \(\d,0,0\), which may not have"
    ):
        run("bar.sync 0;")


# ld and st of any CTA's memory: handlers do the first, machine code the others ---------------------------------------

PREPARED = """
.reg .b32 %r<40>; .reg .b64 %q<8>; .reg .pred %p<10>; .shared .align 128 .b8 box[1024];
mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, %cluster_nctarank; mov.b32 %r4, box;
shl.b32 %r5, %r1, 2; add.u32 %r5, %r5, %r4; and.b32 %r6, %r1, 31; shl.b32 %r7, %r6, 3; shl.b32 %r6, %r6, 2;
add.u32 %r6, %r6, %r4; add.u32 %r7, %r7, %r4; add.u32 %r8, %r2, 1; rem.u32 %r8, %r8, %r3; mov.b32 %r9, %r1;
mapa.shared::cluster.u32 %r10, %r4, %r8; mapa.shared::cluster.u32 %r11, %r6, %r8;
mapa.shared::cluster.u32 %r12, %r7, %r8; mapa.shared::cluster.u32 %r13, %r6, %r2;
add.u32 %r14, %r1, %r2; and.b32 %r14, %r14, 1; mapa.shared::cluster.u32 %r15, %r6, %r14; setp.eq.u32 %p4, %r1, %r1;
setp.lt.u32 %p0, %r1, 32; not.pred %p1, %p0; and.b32 %r16, %r1, 31; setp.lt.u32 %p2, %r16, 16; setp.eq.u32 %p3, %r2, 0;
st.shared.b32 [%r5], %r1; st.shared.b32 [%r5+256], %r1; mov.b32 %r20, 0;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
LOOP:
"""
"""%r6: the lane's word of box; %r7: its two words. %r10, %r11, %r12: box and those words of the next CTA.
%r13: the word in its own CTA. %r15: the word in one of two CTAs, by lane and rank.
"""
TOGETHER = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
ADD = "add.u32 %r9, %r9, %r21;"
ACCESSES = (
    "ld.shared::cluster.u32 %r21, [%r11+{at}];",
    "st.shared::cluster.u32 [%r11+{at}], %r9;",
    "ld.shared::cluster.v2.u32 {{%r21, %r22}}, [%r12+{at}];",
    "st.shared::cluster.v2.u32 [%r12+{at}], {{%r9, %r20}};",
    "ld.shared::cluster.u32 %r21, [%r10+{at}];",
    "st.shared::cluster.u32 [%r10+{at}], 7;",
    "ld.shared::cluster.u32 %r21, [%r13+{at}];",
    "st.shared::cluster.u32 [%r13+{at}], %r9;",
    "ld.shared::cluster.u32 %r21, [%r15+{at}];",
    "ld.shared.u32 %r21, [%r6+{at}];",
    "st.shared.u32 [%r6+{at}], %r9;",
    "ld.shared.u32 %r21, [%r4+{at}];",
    "bar.sync 0;",
    *(TOGETHER,) * 5,
)


AGAIN = "add.u32 %r20, %r20, 1; setp.lt.u32 %p9, %r20, 5; @%p9 bra LOOP;"
OUT = """
mad.lo.u32 %r2, %r2, 64, %r1; ld.param.b64 %q0, [out]; mul.wide.u32 %q1, %r2, 4; add.u64 %q0, %q0, %q1;
st.global.b32 [%q0], %r9; ret;
"""


def looped(body: str, ctas: int = 2, last: str = TOGETHER) -> tuple[Stats, np.ndarray]:
    """Run five rounds of a body, with the round in %r20. Return %r9 of each thread, [CTA, thread]."""
    out = np.zeros((ctas, 64), np.uint32)
    text = kernel("looped", ".param .u64 out", f"{PREPARED} {body} {AGAIN} {last} {OUT}")
    stats = launch(text, [out], grid=(ctas, 1, 1), block=(64, 1, 1), cluster=(ctas, 1, 1))
    return stats, out


def test_words_go_around_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each round the second warp adds the next CTA's word and stores it there. Handlers run once per warp."""
    learned = []
    real = accesses.CompiledAccesses.allow_shared

    def learn(*given: Any) -> None:
        learned.append(given)
        real(*given)

    monkeypatch.setattr(accesses.CompiledAccesses, "allow_shared", learn)
    body = f"@%p1 ld.shared::cluster.u32 %r21, [%r11]; {TOGETHER} @%p1 {ADD} @%p1 st.shared::cluster.u32 [%r11], %r9;"
    stats, out = looped(f"{body} {TOGETHER}", ctas=4)
    held, sums = np.tile(np.arange(32), (4, 1)), np.tile(np.arange(64), (4, 1))
    for _ in range(5):
        sums[:, 32:] += np.roll(held, -1, 0)
        held = np.roll(sums[:, 32:], 1, 0)
    np.testing.assert_array_equal(out, sums)
    assert stats.shared_accesses == 4 * (2 * 2 + 5 * 2)
    assert len(learned) <= 4 * (2 * 2 + 2)


@pytest.mark.parametrize("without", ["before", "after"])
def test_the_round_without_a_barrier_of_the_cluster(without: str) -> None:
    """CTA 0 reads what CTA 1 stored. In round 3 nothing orders the load after the store, or the next store."""
    all_but_one = f"setp.ne.u32 %p8, %r20, 3; @!%p8 bra ON; {TOGETHER} ON:"
    before, after = (all_but_one if side == without else TOGETHER for side in ("before", "after"))
    body = f"setp.ne.u32 %p7, %r2, 0; @%p7 st.shared.u32 [%r6], 1; {before} @%p3 ld.shared::cluster.u32 %r9, [%r11];"
    with pytest.raises(errors.DataRace) as raised:
        looped(f"{body} {after}")
    assert "ld.shared::cluster" in str(raised.value)
    assert "st.shared" in str(raised.value)


def test_a_peer_may_not_end_before_its_words_are_read() -> None:
    body = f"ld.shared::cluster.u32 %r21, [%r11]; {ADD}"
    looped(body)
    with pytest.raises(errors.DataRace, match=r"ld\.shared::cluster reads .*, which may have ended by then"):
        looped(body, last="")


def random_program(rng: np.random.Generator) -> str:
    """Draw five rounds of accesses of a few words, each by some threads of a cluster, with occasional barriers."""
    lines = []
    for _ in range(int(rng.integers(3, 9))):
        access = ACCESSES[rng.integers(len(ACCESSES))].format(at=64 * int(rng.integers(4)))
        guard = "" if "bar" in access else f"@%p{rng.integers(5)} "
        lines += [f"{guard}{access}", *([guard + ADD] if access.startswith("ld") else [])]
    return f"""{PREPARED} {" ".join(lines)} {"bar.warp.sync -1;" if rng.integers(2) else ""} {AGAIN} {TOGETHER} {OUT}"""


def outcome(text: str, ctas: int) -> tuple[str, object, list[int]]:
    """Return the finding and its warp and line, the counts, and the result."""
    out = np.zeros(64 * ctas, np.uint32)
    try:
        grid = (ctas, 1, 1)
        stats = launch(text, [out], grid=grid, block=(64, 1, 1), cluster=grid, level=errors.Level.FORMAL)
    except errors.EmulatorError as error:
        at, by = str(error).splitlines()[1:3]
        return f"{type(error).__name__} {at} {by}", None, []
    return "", stats, out.tolist()


@pytest.mark.parametrize("seed", range(40))
def test_with_or_without_machine_code(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    ctas = int(rng.choice([1, 2, 2, 4]))
    text = kernel("random", ".param .u64 out", random_program(rng))
    with_code = outcome(text, ctas)
    monkeypatch.setattr("emulator.engine.fetch.load_store", lambda *_: None)
    assert with_code == outcome(text, ctas)
