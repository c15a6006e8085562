"""Loads and stores in loops: handlers do the first ones, machine code the others, and results must not differ."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest

from emulator.errors import (
    DataRace,
    EmulatorError,
    Fault,
    Level,
    Misaligned,
    MissingProxyFence,
    OutOfBounds,
    UnwrittenRead,
)
from emulator.machine.launch.globalmem import GlobalMemory
from emulator.machine.launch.statistics import Stats
from emulator.machine.memory.shared import SharedMemory
from emulator.program import Program
from emulator.ptx.parser import parse
from tests.emulator import ptx_kernel
from tests.emulator.ptx_kernel import launch, source
from tests.emulator.ptx_launch import launch as cluster_launch

RNG = np.random.default_rng(0)
ROUNDS = 5
LOOP = """
mov.b32 %r90, 0;
LOOP:
{body}
add.u32 %r90, %r90, 1; setp.lt.u32 %p39, %r90, {rounds}; @%p39 bra LOOP;
ret;
"""


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the accesses of global memory that handlers do."""
    return _handled(GlobalMemory, monkeypatch)


def _handled(memory: type, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []
    for name in ("load", "store"):
        monkeypatch.setattr(memory, name, _counting(getattr(memory, name), name, seen))
    return seen


def _counting(real, name, seen):  # type: ignore[no-untyped-def]
    def call(*arguments):  # type: ignore[no-untyped-def]
        seen.append(name)
        return real(*arguments)

    return call


def looped(
    body: str,
    *arrays: np.ndarray,
    rounds: int = ROUNDS,
    block: int = 32,
    processes: int = 1,
    before: str = "",
    findings: list[Fault] | None = None,
) -> Stats:
    """Run a body several times, with the round in %r90."""
    text = source(before + LOOP.format(body=body, rounds=rounds), len(arrays), block=block)
    return launch(text, *arrays, block=block, processes=processes, level=Level.FORMAL, findings=findings)


def aligned(array: np.ndarray) -> np.ndarray:
    """Return a copy that starts at a multiple of 64 bytes."""
    buffer = np.zeros(array.nbytes + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    copy = buffer[start : start + array.nbytes].view(array.dtype)
    copy[:] = array
    return copy


def each(size: int) -> str:
    """Return code that sets %q0 and %q1 to the thread's `size` bytes of a round in arrays 0 and 1."""
    return (
        f"mad.lo.u32 %r91, %r90, 32, %t; mul.wide.u32 %q9, %r91, {size}; add.u64 %q0, %a0, %q9; add.u64 %q1, %a1, %q9;"
    )


def operand(bits: int, vector: int) -> tuple[str, str]:
    """Return the type suffix of an access, and its registers."""
    stem = {16: "h", 32: "r", 64: "q"}[bits]
    names = [f"%{stem}{20 + i}" for i in range(vector)]
    return (f"v{vector}.b{bits}", f"{{{', '.join(names)}}}") if vector > 1 else (f"b{bits}", names[0])


@pytest.mark.parametrize(("bits", "vector"), [*product((16, 32, 64), (1, 2, 4)), (32, 8)])
def test_every_round_copies_its_elements(bits: int, vector: int, handled: list[str]) -> None:
    size = bits // 8 * vector
    form, values = operand(bits, vector)
    given = aligned(RNG.integers(0, 256, ROUNDS * 32 * size, np.uint8))
    out = aligned(np.zeros_like(given))
    stats = looped(f"{each(size)} ld.global.{form} {values}, [%q0]; st.global.{form} [%q1], {values};", given, out)
    np.testing.assert_array_equal(out, given)
    assert stats.global_load_bytes == stats.global_store_bytes == given.size
    assert handled == ["load", "store"]


@pytest.mark.parametrize("kind", ["u8", "s8", "u16", "s16"])
def test_narrow_loads_are_extended_and_narrow_stores_cut(kind: str) -> None:
    dtype = np.dtype({"u8": np.uint8, "s8": np.int8, "u16": np.uint16, "s16": np.int16}[kind])
    given = RNG.integers(0, 256, ROUNDS * 32 * dtype.itemsize, np.uint8).view(dtype)
    wide, narrow = np.zeros(ROUNDS * 32, np.int32), np.zeros_like(given)
    body = f"""
    {each(dtype.itemsize)} ld.global.{kind} %r1, [%q0];
    mul.wide.u32 %q8, %r91, 4; add.u64 %q2, %a2, %q8; st.global.b32 [%q2], %r1;
    add.u32 %r1, %r1, 0x5500; st.global.{kind} [%q1], %r1;
    """
    looped(body, given, narrow, wide)
    np.testing.assert_array_equal(wide, given)
    np.testing.assert_array_equal(narrow, (given.astype(np.int32) + 0x5500).astype(dtype))


def test_generic_accesses_of_global_memory(handled: list[str]) -> None:
    given = aligned(RNG.integers(0, 1 << 32, ROUNDS * 32, np.uint32))
    out = aligned(np.zeros_like(given))
    stats = looped(f"{each(4)} ld.u32 %r20, [%q0]; st.u32 [%q1], %r20;", given, out)
    np.testing.assert_array_equal(out, given)
    assert stats.global_load_bytes == stats.global_store_bytes == given.nbytes
    assert handled == ["load", "store"]


def test_a_generic_access_of_another_memory_each_round_and_in_each_lane() -> None:
    """Odd lanes go through shared memory, in odd rounds all lanes; the others go through global memory."""
    given, out = (aligned(np.arange(ROUNDS * 32, dtype=np.uint32)) for _ in range(2))
    out[:] = 0
    body = f"""
    {each(4)} ld.global.u32 %r20, [%q0]; or.b32 %r21, %t, %r90; and.b32 %r21, %r21, 1; setp.ne.u32 %p1, %r21, 0;
    mov.u64 %q6, box; cvta.shared.u64 %q6, %q6; add.u64 %q6, %q6, %b; selp.b64 %q7, %q6, %q1, %p1;
    st.u32 [%q7], %r20; ld.u32 %r22, [%q7]; add.u32 %r22, %r22, %r21; st.global.u32 [%q1], %r22;
    """
    looped(body, given, out, before=".shared .align 128 .b8 box[128];")
    rounds, lanes = np.divmod(np.arange(ROUNDS * 32), 32)
    np.testing.assert_array_equal(out, given + ((rounds | lanes) & 1))


def test_only_the_lanes_whose_guard_holds() -> None:
    """Lanes below the round load, the others store a constant. In round 0 no lane loads."""
    given, out = RNG.integers(0, 99, ROUNDS * 32, np.uint32), np.zeros(ROUNDS * 32, np.uint32)
    body = f"""
    {each(4)} mov.b32 %r1, 7; setp.lt.u32 %p1, %t, %r90;
    @%p1 ld.global.u32 %r1, [%q0]; st.global.u32 [%q1], %r1; @!%p1 st.global.u32 [%q1], -3;
    """
    stats = looped(body, given, out)
    below = np.arange(32) < np.arange(ROUNDS)[:, None]
    np.testing.assert_array_equal(out, np.where(below.ravel(), given, np.uint32(2**32 - 3)))
    assert stats.global_load_bytes == 4 * below.sum()
    assert stats.global_store_bytes == 4 * (out.size + (~below).sum())


def test_lanes_that_left_the_loop_keep_what_they_loaded() -> None:
    given, out = RNG.integers(0, 99, 64, np.uint32), np.zeros(32, np.uint32)
    body = """
    mov.b32 %r1, 0;
    AGAIN: add.u32 %r2, %t, %r1; mul.wide.u32 %q1, %r2, 4; add.u64 %q2, %a0, %q1; ld.global.u32 %r3, [%q2];
    add.u32 %r1, %r1, 1; setp.le.u32 %p1, %r1, %t; @%p1 bra AGAIN;
    add.u64 %q3, %a1, %b; st.global.u32 [%q3], %r3; ret;
    """
    launch(source(body, 2), given, out)
    np.testing.assert_array_equal(out, given[2 * np.arange(32)])


def test_one_address_for_all_lanes_counts_once() -> None:
    given, out = RNG.integers(0, 99, ROUNDS, np.uint32), np.zeros(ROUNDS, np.uint32)
    body = """
    mul.wide.u32 %q9, %r90, 4; add.u64 %q0, %a0, %q9; add.u64 %q1, %a1, %q9;
    ld.global.u32 %r1, [%q0]; st.global.u32 [%q1], %r1;
    """
    stats = looped(body, given, out)
    np.testing.assert_array_equal(out, given)
    assert stats.global_load_bytes == stats.global_store_bytes == given.nbytes


def test_the_last_of_the_lanes_that_store_to_one_place() -> None:
    out, found = np.zeros(ROUNDS, np.uint32), list[Fault]()
    body = "mul.wide.u32 %q9, %r90, 4; add.u64 %q0, %a0, %q9; add.u32 %r1, %t, %r90; st.global.u32 [%q0], %r1;"
    looped(body, out, findings=found)
    assert [fault.times for fault in found] == [ROUNDS]
    np.testing.assert_array_equal(out, 31 + np.arange(ROUNDS))


def test_an_access_that_goes_from_one_array_to_the_other() -> None:
    given = [RNG.integers(0, 99, 32, np.uint32) for _ in range(2)]
    out = np.zeros(ROUNDS * 32, np.uint32)
    body = """
    and.b32 %r1, %r90, 1; setp.eq.u32 %p1, %r1, 1; selp.b64 %q0, %a1, %a0, %p1; add.u64 %q0, %q0, %b;
    ld.global.u32 %r2, [%q0]; mad.lo.u32 %r91, %r90, 32, %t; mul.wide.u32 %q9, %r91, 4; add.u64 %q1, %a2, %q9;
    st.global.u32 [%q1], %r2;
    """
    looped(body, *given, out)
    np.testing.assert_array_equal(out, np.concatenate([given[i % 2] for i in range(ROUNDS)]))


@pytest.mark.parametrize("access", ["ld.global.u32 %r1, [%q0];", "st.global.u32 [%q0], %r90;"])
def test_the_round_that_leaves_the_array_is_refused(access: str) -> None:
    array = np.zeros((ROUNDS - 1) * 32, np.uint32)
    with pytest.raises(OutOfBounds, match=f"{array.ctypes.data + array.nbytes:#x}"):
        looped(f"mad.lo.u32 %r91, %r90, 32, %t; mul.wide.u32 %q9, %r91, 4; add.u64 %q0, %a0, %q9; {access}", array)
    assert array.tolist() == ([0] * array.size if access[0] == "l" else np.repeat(range(ROUNDS - 1), 32).tolist())


@pytest.mark.parametrize("access", ["ld.global.u32 %r1, [%q0];", "st.global.u32 [%q0], %t;"])
def test_the_round_that_is_misaligned_is_refused(access: str) -> None:
    array = np.zeros(64, np.uint32)
    with pytest.raises(Misaligned, match="not a multiple of 4"):
        looped(
            f"mul.wide.u32 %q9, %r90, 5; and.b64 %q9, %q9, 7; add.u64 %q0, %a0, %b; add.u64 %q0, %q0, %q9; {access}",
            array,
        )


def test_stores_of_another_process_reach_the_arrays() -> None:
    out = np.zeros(8 * 32 * ROUNDS, np.uint32)
    body = f"""
    mov.u32 %r80, %ctaid.x; mad.lo.u32 %r81, %r80, {ROUNDS}, %r90; mad.lo.u32 %r82, %r81, 32, %t;
    mul.wide.u32 %q1, %r82, 4; add.u64 %q0, %a0, %q1; st.global.u32 [%q0], %r82;
    """
    launch(source(LOOP.format(body=body, rounds=ROUNDS)), out, grid=8, processes=2)
    np.testing.assert_array_equal(out, np.arange(out.size))


# shared memory ------------------------------------------------------------------------------------------------------

WORDS = 256
SHARED = f"""
.shared .align 128 .b8 box[{4 * WORDS}]; .shared .align 8 .b8 bar[8];
mov.u32 %r50, box; mov.u32 %r51, bar; shl.b32 %r52, %t, 2; add.u32 %r52, %r52, %r50; shr.u32 %r53, %t, 5;
shfl.sync.idx.b32 %r53, %r53, 0, 31, -1;
"""
"""%r50: box; %r51: bar; %r52: the thread's word of box; %r53: its warp."""


@pytest.fixture
def handled_shared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the accesses of shared memory that handlers do."""
    return _handled(SharedMemory, monkeypatch)


def shared_loop(body: str, *arrays: np.ndarray, block: int = 32) -> Stats:
    """Run a body several times, with the round in %r90."""
    return looped(body, *arrays, block=block, before=SHARED)


@pytest.mark.parametrize(("bits", "vector"), [*product((16, 32), (1, 2, 4)), *product((64,), (1, 2))])
def test_every_round_passes_its_elements_on(bits: int, vector: int, handled_shared: list[str]) -> None:
    """A round's elements go through shared memory to the mirrored lane."""
    size = bits // 8 * vector
    form, values = operand(bits, vector)
    given = aligned(RNG.integers(0, 256, ROUNDS * 32 * size, np.uint8))
    out = aligned(np.zeros_like(given))
    body = f"""
    {each(size)} mad.lo.u32 %r60, %t, {size}, %r50; sub.u32 %r61, 31, %t; mad.lo.u32 %r61, %r61, {size}, %r50;
    ld.global.{form} {values}, [%q0]; st.shared.{form} [%r60], {values}; bar.sync 0;
    ld.shared.{form} {values}, [%r61]; st.global.{form} [%q1], {values}; bar.sync 0;
    """
    stats = shared_loop(body, given, out)
    rounds = given.reshape(ROUNDS, 32, size)
    np.testing.assert_array_equal(out.reshape(rounds.shape), rounds[:, ::-1])
    assert handled_shared == ["store", "load"]
    assert stats.shared_accesses == 2 * ROUNDS
    assert stats.shared_wavefronts == 2 * ROUNDS * max(size // 4, 1)
    assert stats.shared_conflicts == 0


def test_warps_whose_lanes_are_in_another_order(handled_shared: list[str]) -> None:
    """Each warp asks once: the second warp's lanes store and load in the opposite order."""
    out = np.zeros(64, np.uint32)
    body = """
    mul.lo.u32 %r60, %r53, 124; xor.b32 %r60, %r60, %r52; st.shared.u32 [%r60], %t; bar.sync 0;
    ld.shared.u32 %r61, [%r60]; add.u64 %q1, %a0, %b; st.global.u32 [%q1], %r61; bar.sync 0;
    """
    stats = shared_loop(body, out, block=64)
    np.testing.assert_array_equal(out, np.arange(64))
    assert sorted(handled_shared) == ["load", "load", "store", "store"]
    assert (stats.shared_accesses, stats.shared_conflicts) == (4 * ROUNDS, 0)


@pytest.mark.parametrize("met", ["barrier.cluster.arrive; barrier.cluster.wait;", "bar.sync 0;"])
def test_lanes_that_load_from_several_ctas(met: str, handled_shared: list[str]) -> None:
    """Each lane loads the word of the lane before it from the CTA with the lane's number modulo 4."""
    both = "barrier.cluster.arrive; barrier.cluster.wait;"
    body = f"""
    mov.u32 %r54, %cluster_ctarank; and.b32 %r55, %t, 3; add.u32 %r57, %t, 31; and.b32 %r57, %r57, 31;
    mad.lo.u32 %r58, %r90, 100, %r54; mad.lo.u32 %r58, %r58, 100, %t; mad.lo.u32 %r56, %r57, 4, %r50;
    mapa.shared::cluster.u32 %r56, %r56, %r55;
    st.shared.u32 [%r52], %r58; {met} ld.shared::cluster.u32 %r59, [%r56]; {both}
    """
    after = (
        "mad.lo.u32 %r70, %r54, 32, %t; mul.wide.u32 %q1, %r70, 4; add.u64 %q0, %a0, %q1; st.global.u32 [%q0], %r59;"
    )
    text = source(SHARED + both + LOOP.format(body=body, rounds=ROUNDS).replace("ret;", f"{after} ret;"), 1)
    out = np.zeros(4 * 32, np.uint32)

    def run() -> Stats:
        return cluster_launch(text, [out], grid=(4, 1, 1), cluster=(4, 1, 1), block=(32, 1, 1), level=Level.FAULT)

    if met != both:
        with pytest.raises(DataRace, match=r"not ordered after"):
            run()
        return
    stats = run()
    lane = np.arange(32)
    want = ((ROUNDS - 1) * 100 + lane % 4) * 100 + (lane + 31) % 32
    np.testing.assert_array_equal(out.reshape(4, 32), [want] * 4)
    assert handled_shared == ["store", *["load"] * 4]
    assert (stats.shared_accesses, stats.shared_conflicts) == (ROUNDS * 4 * 5, 0)


@pytest.mark.parametrize(("stride", "wavefronts"), [(1, 1), (2, 2), (3, 1), (4, 4), (0, 1)])
def test_bank_conflicts_are_counted_every_round(stride: int, wavefronts: int) -> None:
    """Lane i reads word i * stride. Four warps wrote the words without conflicts."""
    out = np.zeros(128, np.uint32)
    body = f"""
    st.shared.u32 [%r52], %t; bar.sync 0; and.b32 %r60, %t, 31; mul.lo.u32 %r60, %r60, {4 * stride};
    add.u32 %r60, %r60, %r50; ld.shared.u32 %r1, [%r60]; add.u64 %q0, %a0, %b; st.global.u32 [%q0], %r1; bar.sync 0;
    """
    stats = shared_loop(body, out, block=128)
    np.testing.assert_array_equal(out, np.arange(128) % 32 * stride)
    assert stats.shared_accesses == 2 * 4 * ROUNDS
    assert stats.shared_wavefronts == 4 * ROUNDS * (1 + wavefronts)
    assert stats.shared_conflicts == 4 * ROUNDS * (wavefronts - 1)


PASS_ON = """
setp.ne.u32 %p2, %r90, 3; and.b32 %r60, %r52, 127; or.b32 %r60, %r60, %r50; setp.eq.u32 %p3, %r53, {writer};
"""
"""%p2: not in round 3. %r60: the lane's word of the first 32, the same for all warps. %p3: true in the writing warp."""


@pytest.mark.parametrize("writer", [0, 1])
def test_the_round_without_a_barrier_before_its_reads(writer: int) -> None:
    body = (
        PASS_ON.format(writer=writer)
        + "@%p3 st.shared.u32 [%r60], %t; @%p2 bar.sync 0; ld.shared.u32 %r1, [%r60]; bar.sync 0;"
    )
    with pytest.raises(DataRace) as raised:
        shared_loop(body, block=64)
    report = str(raised.value)
    assert "shared memory 0x400 to 0x47f" in report
    assert "bar" in report


@pytest.mark.parametrize("writer", [0, 1, 2])
def test_the_round_without_a_barrier_after_its_reads(writer: int) -> None:
    body = (
        PASS_ON.format(writer=writer)
        + "@%p3 st.shared.u32 [%r60], %t; bar.sync 0; ld.shared.u32 %r1, [%r60]; @%p2 bar.sync 0;"
    )
    with pytest.raises(DataRace) as raised:
        shared_loop(body, block=96)
    assert "ld.shared" in str(raised.value)


def test_the_round_in_which_two_warps_write() -> None:
    body = PASS_ON.format(writer=0) + "or.pred %p3, %p3, !%p2; @%p3 st.shared.u32 [%r60], %t; bar.sync 0;"
    with pytest.raises(DataRace, match=r"st\.shared"):
        shared_loop(body, block=64)


def test_an_unwritten_word_is_found_in_any_round() -> None:
    body = "mad.lo.u32 %r60, %r90, 32, %r52; setp.lt.u32 %p1, %t, 28; @%p1 st.shared.u32 [%r52], %t;"
    body += "bar.warp.sync -1; setp.lt.u32 %p2, %t, 25;"
    body += "add.u32 %r61, %t, %r90; shl.b32 %r61, %r61, 2; add.u32 %r61, %r61, %r50;"
    with pytest.raises(UnwrittenRead, match="0x470"):
        shared_loop(body + "@%p2 ld.shared.u32 %r1, [%r61]; bar.warp.sync -1;")


def test_what_a_program_learned_lets_no_later_launch_off(
    monkeypatch: pytest.MonkeyPatch, handled_shared: list[str]
) -> None:
    """In the program's second launch handlers do no access. In later launches one round lacks a barrier."""
    parsed, made = cache(parse), dict[int, Program]()
    monkeypatch.setattr(ptx_kernel, "parse", parsed)
    monkeypatch.setattr(ptx_kernel, "Program", lambda kernel: made.setdefault(id(kernel), Program(kernel)))
    body = """
    ld.global.u32 %r60, [%a0]; setp.ne.u32 %p2, %r90, %r60; xor.b32 %r61, %r52, 128;
    st.shared.u32 [%r52], %t; @%p2 bar.sync 0; ld.shared.u32 %r1, [%r61]; bar.sync 0;
    """
    without = np.full(1, 99, np.uint32)
    counts = [shared_loop(body, without, block=64) for _ in range(2)]
    assert handled_shared == ["store", "load"]
    assert counts[0] == counts[1]
    assert counts[0].shared_accesses == 2 * 2 * ROUNDS
    for round_, found in ((0, UnwrittenRead), (1, DataRace)):
        known, without[:] = dict(made), round_
        with pytest.raises(found) as raised:
            shared_loop(body, without, block=64)
        made.clear()
        with pytest.raises(found) as anew:
            shared_loop(body, without, block=64)
        assert str(raised.value) == str(anew.value)
        made.update(known)


def test_bulk_copies_see_what_was_stored() -> None:
    """Each round's words leave shared memory by a bulk copy. Without the fence in round 2 the copy is an error."""
    out = aligned(np.zeros(ROUNDS * 32, np.uint32))
    body = """
    mad.lo.u32 %r1, %r90, 100, %t; st.shared.u32 [%r52], %r1; setp.ne.u32 %p4, %r90, {without};
    @%p4 fence.proxy.async.shared::cta; bar.sync 0;
    mul.wide.u32 %q1, %r90, 128; add.u64 %q1, %q1, %a0; setp.eq.u32 %p5, %t, 0;
    @%p5 cp.async.bulk.global.shared::cta.bulk_group [%q1], [%r50], 128;
    @%p5 cp.async.bulk.commit_group; @%p5 cp.async.bulk.wait_group 0; bar.sync 0;
    """
    shared_loop(body.format(without=-1), out)
    np.testing.assert_array_equal(out.reshape(ROUNDS, 32), 100 * np.arange(ROUNDS)[:, None] + np.arange(32))
    with pytest.raises(MissingProxyFence, match=r"st\.shared"):
        shared_loop(body.format(without=2), out)


def test_cells_become_bytes(handled_shared: list[str]) -> None:
    """In round 2 each thread also reads and writes the second byte of its word. Handlers do no access twice."""
    out = np.zeros(32, np.uint32)
    body = """
    setp.ne.u32 %p1, %r90, 2; ld.shared.u32 %r1, [%r52]; @%p1 bra WHOLE;
    ld.shared.u8 %r2, [%r52+1]; add.u32 %r2, %r2, 7; st.shared.u8 [%r52+1], %r2; ld.shared.u32 %r1, [%r52];
    WHOLE: add.u32 %r1, %r1, 1; st.shared.u32 [%r52], %r1;
    """
    text = source(
        f"{SHARED} st.shared.u32 [%r52], %t; "
        + LOOP.format(body=body, rounds=ROUNDS).replace("ret;", "ld.shared.u32 %r3, [%r52];")
        + "add.u64 %q0, %a0, %b; st.global.u32 [%q0], %r3; ret;",
    )
    launch(text, out)
    np.testing.assert_array_equal(out, np.arange(32) + ROUNDS + 0x700)
    assert len(handled_shared) == 8


KINDS = ("ld", "st", "ld.v2", "st.v2", "ld one", "st one", "atom", "bar", "bar", "bar")
BYTES = ("ld byte", "st byte", "st byte of a word")


def random_program(rng: np.random.Generator, kinds: tuple[str, ...]) -> str:
    """Draw accesses of a few words by three warps, with some lanes each, and occasional barriers."""
    lines = []
    for i in range(int(rng.integers(3, 9))):
        kind = kinds[rng.integers(len(kinds))]
        word = int(rng.integers(0, 3)) * 16
        guard = f"@%p{10 + rng.integers(4)}"
        match kind:
            case "ld":
                lines.append(f"{guard} ld.shared.u32 %r1, [%r55+{4 * word}]; {guard} add.u32 %r2, %r2, %r1;")
            case "st":
                lines.append(f"{guard} st.shared.u32 [%r55+{4 * word}], %r2;")
            case "ld.v2":
                lines.append(
                    f"{guard} ld.shared.v2.u32 {{%r1, %r3}}, [%r56+{4 * word}]; {guard} add.u32 %r2, %r2, %r3;"
                )
            case "st.v2":
                lines.append(f"{guard} st.shared.v2.u32 [%r56+{4 * word}], {{%r2, %r90}};")
            case "ld one":
                lines.append(f"{guard} ld.shared.u32 %r1, [%r50+{4 * word}]; {guard} add.u32 %r2, %r2, %r1;")
            case "st one":
                lines.append(f"{guard} st.shared.u32 [%r50+{4 * word}], {i};")
            case "ld byte":
                lines.append(f"{guard} ld.shared.u8 %r1, [%r57+{4 * word}]; {guard} add.u32 %r2, %r2, %r1;")
            case "st byte":
                lines.append(f"{guard} st.shared.u8 [%r57+{4 * word}], %r2;")
            case "st byte of a word":
                lines.append(f"{guard} st.shared.u8 [%r55+{4 * word + 1}], %r2;")
            case "atom":
                lines.append(f"{guard} atom.shared.add.u32 %r1, [%r55+{4 * word}], 3;")
            case "bar":
                lines.append("bar.sync 0;")
    return "\n".join(lines)


def outcome(text: str) -> tuple[str, Stats | None, list[int]]:
    """Return the finding and its warp and line, the counts, and the result."""
    out = np.zeros(96, np.uint32)
    try:
        stats = launch(text, out, block=96, level=Level.FORMAL)
    except EmulatorError as error:
        at, by = str(error).splitlines()[1:3]
        return f"{type(error).__name__} {at} {by}", None, []
    return "", stats, out.tolist()


@pytest.mark.parametrize(("seed", "kinds"), [*product(range(40), (KINDS,)), *product(range(20), (KINDS + 3 * BYTES,))])
def test_with_or_without_machine_code(seed: int, kinds: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    preparation = """
    and.b32 %r54, %t, 31; shl.b32 %r55, %r54, 2; add.u32 %r55, %r55, %r50; shl.b32 %r56, %r54, 3;
    add.u32 %r56, %r56, %r50; mov.b32 %r2, %t; setp.eq.u32 %p10, %r53, 0; setp.eq.u32 %p11, %r53, 1;
    setp.eq.u32 %p12, %r53, 2; setp.lt.u32 %p13, %t, 16; add.u32 %r57, %r54, %r50; st.shared.u32 [%r52], %t; bar.sync 0;
    """
    end = "add.u64 %q0, %a0, %b; st.global.u32 [%q0], %r2; ret;"
    body = LOOP.format(body=random_program(rng, kinds), rounds=ROUNDS).replace("ret;", end)
    text = source(SHARED + preparation + body, block=96)
    with_code = outcome(text)
    monkeypatch.setattr("emulator.engine.fetch.load_store", lambda *_: None)
    assert with_code == outcome(text)
