"""Forms of instructions that act on memory, barriers and other lanes: a small kernel for each, compared with NumPy.

test_silicon.py compares them with a GPU, where there is one.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from ptx_kernel import launch, source

T = np.arange(32, dtype=np.uint32)
WORDS = np.random.default_rng(5).integers(0, 1 << 32, 32, dtype=np.uint32)
SHARED = ".shared .align 16 .b8 memory[512];"
"""Registers of a body: %t the lane, %a1 its word of WORDS, %r1 that word, %r2 its 16 bytes of shared memory."""
HEAD = f"{SHARED} add.u64 %a1, %a1, %b; ld.global.u32 %r1, [%a1]; mov.u32 %r2, memory; mad.lo.u32 %r2, %t, 16, %r2;"
CASES: list[tuple[str, str, np.ndarray]] = []


def case(body: str, expected: np.ndarray) -> None:
    """Add a case: a body that leaves a word of each lane in %r0."""
    CASES.append((body, body, expected.astype(np.uint32)))


def each(forms: str, template: str, expected: np.ndarray) -> None:
    """Add a case for each of the forms, which replace FORM in the template."""
    for form in forms.split():
        CASES.append((form, template.replace("FORM", form), expected.astype(np.uint32)))


each(
    "ld.global.relaxed.gpu.b32 ld.global.acquire.gpu.b32 ld.global.acquire.sys.b32 ld.global.volatile.b32 "
    "ld.global.relaxed.cta.b32 ld.global.L1::no_allocate.b32 ld.global.L2::128B.b32 ld.global.ca.b32 ld.global.cg.b32 "
    "ld.global.nc.b32 ldu.global.b32 ld.global.nc.L1::no_allocate.L2::256B.b32",
    "FORM %r0, [%a1];",
    WORDS,
)
each(
    "st.global.relaxed.gpu.b32 st.global.release.gpu.b32 st.global.volatile.b32 st.global.L1::no_allocate.b32 "
    "st.global.wb.b32 st.global.cg.b32 st.global.relaxed.sys.b32",
    "add.u64 %a2, %a0, %b; FORM [%a2], %r1; ld.global.b32 %r0, [%a2];",
    WORDS,
)
each(
    "fence.sc.cta fence.sc.gpu fence.sc.sys fence.sc.cluster fence.acq_rel.cta fence.acq_rel.gpu fence.acq_rel.sys "
    "fence.acq_rel.cluster membar.cta membar.gl membar.sys fence.proxy.alias fence.proxy.async "
    "fence.proxy.async.global fence.proxy.async.shared::cta fence.proxy.async.shared::cluster "
    "fence.proxy.tensormap::generic.release.cta "
    "fence.proxy.tensormap::generic.release.cluster fence.proxy.tensormap::generic.release.sys "
    "fence.release.sync_restrict::shared::cta.cluster fence.acquire.sync_restrict::shared::cluster.cluster "
    "griddepcontrol.launch_dependents griddepcontrol.wait",
    "st.shared.b32 [%r2], %r1; FORM; ld.shared.b32 %r0, [%r2];",
    WORDS,
)
case("add.u64 %a2, %a0, %b; st.global.b8 [%a2], %r1; ld.global.u8 %r0, [%a2];", WORDS & 255)
case("st.shared::cta.b32 [%r2], %r1; ld.shared::cta.b32 %r0, [%r2];", WORDS)
case(
    "createpolicy.fractional.L2::evict_first.b64 %q0, 0f3F800000; ld.global.L2::cache_hint.b32 %r0, [%a1], %q0;",
    WORDS,
)
case(
    "and.b64 %a2, %a1, -16; ld.global.b128 %w, [%a2]; mov.b128 {%q2, %q3}, %w; cvt.u32.u64 %r0, %q3;",
    WORDS.reshape(8, 4)[:, 2].repeat(4),
)
case(".local .b32 kept[4]; st.local.b32 [kept], %r1; ld.local.b32 %r0, [kept];", WORDS)
case("prefetch.global.L2 [%a1]; prefetchu.L1 [%a1]; ld.global.b32 %r0, [%a1];", WORDS)
case("cvta.global.u64 %q0, %a1; cvta.to.global.u64 %q1, %q0; ld.global.b32 %r0, [%q1];", WORDS)
STORED = "st.shared.b32 [%r2], %r1; cvt.u64.u32 %q0, %r2;"
case(f"{STORED} mapa.shared::cluster.u64 %q1, %q0, 0; ld.shared::cluster.b32 %r0, [%q1];", WORDS)
case(f"{STORED} cvta.shared.u64 %q0, %q0; mapa.u64 %q1, %q0, 0; ld.b32 %r0, [%q1];", WORDS)
case(
    f"{STORED} cvta.shared.u64 %q0, %q0; cvta.to.shared.u64 %q1, %q0; cvt.u32.u64 %r3, %q1; ld.shared.b32 %r0, [%r3];",
    WORDS,
)
case("and.b64 %a2, %a1, -128; applypriority.global.L2::evict_normal [%a2], 128; ld.global.b32 %r0, [%a1];", WORDS)
case("barrier.cluster.arrive.relaxed; barrier.cluster.wait; mov.b32 %r0, %r1;", WORDS)
case("bra.uni NEXT; mov.b32 %r1, 0; NEXT: mov.b32 %r0, %r1;", WORDS)
case("pmevent 1; barrier.sync.aligned 0, 32; barrier.cta.sync 0; mov.b32 %r0, %r1;", WORDS)
case("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned; mov.b32 %r0, %r1;", WORDS)
case("add.cc.u32 %r3, %r1, %r1; addc.cc.u32 %r4, %r1, 0; addc.u32 %r0, %r4, %r4;", (WORDS + (WORDS >> 31)) * 2)
case("sub.cc.u32 %r3, %t, 16; subc.cc.u32 %r4, %r1, 0; subc.u32 %r0, %r4, 0;", WORDS - (T < 16))
case(
    "mad.lo.cc.u32 %r3, %r1, %r1, %r1; madc.hi.cc.u32 %r4, %r1, %r1, 7; madc.lo.u32 %r0, %r4, 1, 0;",
    ((WORDS.astype(object) * WORDS + WORDS >> 32) + 7) & 0xFFFFFFFF,
)

MIN_S, MAX_U = WORDS.view(np.int32).min().view(np.uint32), WORDS.max()
TOTAL = int(WORDS.sum(dtype=np.uint64))
REDUCED = {
    "add.u32": (7, "%r1", 7 + TOTAL),
    "min.s32": (0x7FFFFFFF, "%r1", MIN_S),
    "max.u32": (0, "%r1", MAX_U),
    "and.b32": (-1, "%r1", np.bitwise_and.reduce(WORDS)),
    "or.b32": (0, "%r1", np.bitwise_or.reduce(WORDS)),
    "xor.b32": (0, "%r1", np.bitwise_xor.reduce(WORDS)),
    "inc.u32": (0, "20", 32 % 21),
    "dec.u32": (5, "20", (5 - 32) % 21),
}
"""Reductions of one word by all lanes: setup, operation, result."""
TOGETHER = (
    "mov.u32 %r5, memory; mov.b32 %r6, START; setp.eq.u32 %p0, %t, 0; @%p0 st.SPACE.b32 [AT], %r6; bar.warp.sync -1;"
    "FORM[AT], OPERAND; bar.warp.sync -1; ld.SPACE.b32 %r0, [AT]; bar.warp.sync -1;"
)
for space, at in (("global", "%a0"), ("shared::cta", "%r5"), ("shared::cluster", "%r5")):
    for what, (start, operand, end) in REDUCED.items():
        for scope in ("", "relaxed.gpu.", "acq_rel.sys.", "relaxed.cluster.") if what == "add.u32" else ("",):
            body = TOGETHER.replace("START", str(start)).replace("SPACE", space).replace("AT", at)
            body = body.replace("OPERAND", operand)
            release = scope.replace("acq_rel", "release")
            for form in (f"atom.{scope}{space}.{what} %r3, ", f"red.{release}{space}.{what} "):
                CASES.append((form, body.replace("FORM", form), np.full(32, int(end) & 0xFFFFFFFF, np.uint32)))
each(
    "atom.global.add.u64 atom.global.max.s64 atom.global.exch.b64 atom.global.max.u64",
    "add.u64 %a2, %a0, %b; and.b64 %a2, %a2, -8; and.b32 %r7, %t, 1; setp.eq.u32 %p0, %r7, 0; mov.b64 %q0, 0;"
    "@%p0 st.global.b64 [%a2], %q0; bar.warp.sync -1; mov.b64 %q1, {%t, 1};"
    "@%p0 FORM %q2, [%a2], %q1; bar.warp.sync -1; ld.global.b32 %r0, [%a2]; bar.warp.sync -1;",
    T & ~np.uint32(1),
)
ALONE = (
    "add.u64 %a2, %a0, %b; mov.b32 %r4, 0; st.global.b32 [%a2], %r4; and.b32 %r1, %r1, 0x3fff3fff;"
    "FORM [%a2], %r1; ld.global.b32 %r0, [%a2];"
)
each("red.global.add.noftz.bf16x2 red.global.add.noftz.f16x2", ALONE, WORDS & 0x3FFF3FFF)
NORMAL = np.where(WORDS & 0x3F800000, WORDS & 0x3FFF3FFF, 0)  # a sum in global memory has no subnormal numbers
each("red.global.add.f32", ALONE, NORMAL)
each("atom.global.add.f32", ALONE.replace("FORM", "FORM %r3,"), NORMAL)
each("red.global.max.s32 red.global.max.u32", ALONE, WORDS & 0x3FFF3FFF)
each("red.global.min.u32 red.global.min.s32", ALONE, T * 0)
each(
    "atom.global.add.noftz.f16x2 atom.global.add.noftz.bf16x2 atom.global.exch.b32",
    ALONE.replace("FORM", "FORM %r3,"),
    WORDS & 0x3FFF3FFF,
)
each(
    "atom.global.cas.b32 atom.global.acquire.gpu.cas.b32 atom.global.relaxed.sys.cas.b32",
    "add.u64 %a2, %a0, %b; st.global.b32 [%a2], %t; FORM %r3, [%a2], 5, %r1; ld.global.b32 %r0, [%a2];",
    np.where(T == 5, WORDS, T),
)
each(
    "vote.sync.all.pred vote.sync.any.pred vote.sync.uni.pred",
    "setp.lt.u32 %p0, %t, 40; FORM %p1, %p0, -1; selp.b32 %r0, 1, 0, %p1;",
    T * 0 + 1,
)
case(
    "and.b32 %r3, %r1, 1; setp.eq.u32 %p0, %r3, 1; vote.sync.ballot.b32 %r0, %p0, -1;",
    T * 0 + np.bitwise_or.reduce((WORDS & 1) << T),
)
case("and.b32 %r3, %t, 3; match.any.sync.b32 %r0, %r3, -1;", 0x11111111 << (T & 3))
case("mov.b64 %q0, {%r1, 0}; match.all.sync.b64 %r0|%p0, %q0, -1;", np.zeros(32))
for how, by in (("up", "3, 0"), ("down", "3, 31"), ("bfly", "5, 31"), ("idx", "9, 31")):
    there = {"up": np.maximum(T.astype(int) - 3, 0), "down": T + 3, "bfly": T ^ 5, "idx": T * 0 + 9}[how]
    there = np.where((how == "up") & (T < 3) | (there > 31), T, there)
    case(f"shfl.sync.{how}.b32 %r0|%p0, %r1, {by}, -1;", WORDS[there])
for what, (*_, end) in REDUCED.items():
    if what[:3] not in ("inc", "dec"):
        case(f"redux.sync.{what} %r0, %r1, -1;", T * 0 + (TOTAL & 0xFFFFFFFF if what == "add.u32" else end))
MATES = "and.b32 %r3, %t, 3; match.any.sync.b32 %r3, %r3, -1;"  # every fourth lane, by a register
for what in ("add.u32", "max.u32", "xor.b32"):
    fold = {"add.u32": np.add, "max.u32": np.maximum, "xor.b32": np.bitwise_xor}[what].reduce
    case(f"{MATES} redux.sync.{what} %r0, %r1, %r3;", np.tile(fold(WORDS.reshape(8, 4)), 8))
case(f"{MATES} setp.ne.u32 %p0, %t, 5; vote.sync.ballot.b32 %r0, %p0, %r3;", (0x11111111 << (T & 3)) & ~np.uint32(32))
case(f"{MATES} elect.sync %r0|%p0, %r3;", T & 3)
BARRIER = (
    "mov.u32 %r5, memory; setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared::cta.b64 [%r5], 32; bar.warp.sync -1;"
    "ARRIVE WAIT: TEST @!%p1 bra WAIT; mov.b32 %r0, %r1;"
)
ARRIVALS = (
    "mbarrier.arrive.release.cta.shared::cta.b64 %q0, [%r5];",
    "mbarrier.arrive.relaxed.cluster.shared::cta.b64 %q0, [%r5];",
    "mbarrier.arrive.shared::cluster.b64 _, [%r5];",
    "@%p0 mbarrier.arrive.noComplete.shared::cta.b64 %q0, [%r5], 1; @!%p0 mbarrier.arrive.shared::cta.b64 %q0, [%r5];",
    "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r5], 16;"
    "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r5], 16; mbarrier.arrive.shared::cta.b64 %q0, [%r5];",
    "mbarrier.expect_tx.relaxed.cluster.shared::cta.b64 [%r5], 16;"
    "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r5], 16; mbarrier.arrive.shared::cta.b64 %q0, [%r5];",
    "mbarrier.arrive.expect_tx.shared::cluster.b64 _, [%r5], 0;",
    "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r5];",
    "cp.async.mbarrier.arrive.shared::cta.b64 [%r5]; mbarrier.arrive.shared::cta.b64 %q0, [%r5];",
)
TESTS = (
    "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r5], 0;",
    "mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 %p1, [%r5], 0;",
    "mbarrier.test_wait.parity.relaxed.cluster.shared::cta.b64 %p1, [%r5], 0;",
    "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [%r5], 0;",
    "mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p1, [%r5], 0;",
    "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r5], 0, 1000;",
)
STATES = ("mbarrier.test_wait.shared::cta.b64 %p1, [%r5], %q0;", "mbarrier.try_wait.shared::cta.b64 %p1, [%r5], %q0;")
for arrive in ARRIVALS:
    CASES.append((arrive.split()[0], BARRIER.replace("ARRIVE", arrive).replace("TEST", TESTS[0]), WORDS))
for test in (*TESTS, *STATES):
    CASES.append((test.split()[0], BARRIER.replace("ARRIVE", ARRIVALS[0]).replace("TEST", test), WORDS))


def run(body: str) -> np.ndarray:
    out = np.zeros(32, np.uint32)
    tail = "add.u64 %a3, %a0, %b; st.global.b32 [%a3], %r0; ret;"
    text = source(f".reg .b128 %w; {HEAD} {body} {tail}", 2)
    launch(text, out, WORDS.copy(), completion="lazy")
    return out


def named(cases: Iterable[tuple[str, str, np.ndarray]]) -> list[object]:
    return [
        pytest.param(body, expected, id=f"{i} {name[:60].strip()}") for i, (name, body, expected) in enumerate(cases)
    ]


@pytest.mark.parametrize(("body", "expected"), named(CASES))
def test_form(body: str, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(run(body), expected)
