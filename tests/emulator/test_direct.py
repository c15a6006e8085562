"""Loads and stores in loops: their handlers do the first, machine code the others, and neither may show."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.errors import Misaligned, OutOfBounds
from emulator.machine.globalmem import GlobalMemory
from emulator.machine.scheduler import Stats
from tests.emulator.ptx_kernel import launch, source

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
    """The accesses of global memory that handlers did."""
    seen: list[str] = []
    for name in ("load", "store"):
        monkeypatch.setattr(GlobalMemory, name, _noted(getattr(GlobalMemory, name), name, seen))
    return seen


def _noted(real, name, seen):  # type: ignore[no-untyped-def]
    def call(*arguments):  # type: ignore[no-untyped-def]
        seen.append(name)
        return real(*arguments)

    return call


def looped(body: str, *arrays: np.ndarray, rounds: int = ROUNDS, block: int = 32, processes: int = 1) -> Stats:
    """Run a body a few times, with the round in %r90."""
    text = source(LOOP.format(body=body, rounds=rounds), len(arrays), block=block)
    return launch(text, *arrays, block=block, processes=processes)


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy that starts at a multiple of 64 bytes."""
    room = np.zeros(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start : start + array.nbytes].view(array.dtype)
    copy[:] = array
    return copy


def each(size: int) -> str:
    """%q0, %q1: the thread's `size` bytes of a round in the arrays 0 and 1."""
    return (
        f"mad.lo.u32 %r91, %r90, 32, %t; mul.wide.u32 %q9, %r91, {size}; add.u64 %q0, %a0, %q9; add.u64 %q1, %a1, %q9;"
    )


@pytest.mark.parametrize("vector", [1, 2, 4, 8])
@pytest.mark.parametrize("bits", [16, 32, 64])
def test_every_round_copies_its_elements(bits: int, vector: int, handled: list[str]) -> None:
    if bits * vector > 256:
        pytest.skip("no such vector in PTX")
    size = bits // 8 * vector
    stem = {16: "h", 32: "r", 64: "q"}[bits]
    names = [f"%{stem}{20 + i}" for i in range(vector)]
    form, values = (f"v{vector}.b{bits}", f"{{{', '.join(names)}}}") if vector > 1 else (f"b{bits}", names[0])
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


def test_only_the_lanes_whose_guard_holds() -> None:
    """Lanes below the round load, the others store a constant; in round 0 none loads."""
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
    out = np.zeros(ROUNDS, np.uint32)
    looped("mul.wide.u32 %q9, %r90, 4; add.u64 %q0, %a0, %q9; add.u32 %r1, %t, %r90; st.global.u32 [%q0], %r1;", out)
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


@pytest.mark.parametrize("access", ["ld.global.u32 %r1, [%q0];", "st.global.u32 [%q0], %r1;"])
def test_the_round_that_is_misaligned_is_refused(access: str) -> None:
    array = np.zeros(64, np.uint32)
    with pytest.raises(Misaligned, match="not a multiple of 4"):
        looped(
            f"mul.wide.u32 %q9, %r90, 5; and.b64 %q9, %q9, 7; add.u64 %q0, %a0, %b; add.u64 %q0, %q0, %q9; {access}",
            array,
        )


def test_another_process_notes_every_store() -> None:
    """Two processes: the stores of the second reach the arrays of the first."""
    out = np.zeros(8 * 32 * ROUNDS, np.uint32)
    body = f"""
    mov.u32 %r80, %ctaid.x; mad.lo.u32 %r81, %r80, {ROUNDS}, %r90; mad.lo.u32 %r82, %r81, 32, %t;
    mul.wide.u32 %q1, %r82, 4; add.u64 %q0, %a0, %q1; st.global.u32 [%q0], %r82;
    """
    launch(source(LOOP.format(body=body, rounds=ROUNDS)), out, grid=8, processes=2)
    np.testing.assert_array_equal(out, np.arange(out.size))
