"""elect, shuffles, votes, matches and reductions, also with some lanes inactive, against loops over lanes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from emulator.errors import UnknownInstruction
from tests.emulator.one_instruction import ALL, Instructions

LANES = range(32)
MASKS = [ALL, 0x8000_0000, 0x0000_FF00, 0x5555_5554, 1]
RANDOM = np.random.default_rng(23)


def active(mask: int) -> list[int]:
    return [lane for lane in LANES if mask >> lane & 1]


@pytest.mark.parametrize("mask", MASKS)
def test_elect_takes_the_lowest_active_member(mask: int) -> None:
    got = Instructions("elect.sync %r0|%p0, -1; elect.sync _|%p1, 0xfffffff0;")(mask, p0=False, p1=False, r0=99)
    first = active(mask)[0]
    assert [got["p0"][lane] for lane in active(mask)] == [lane == first for lane in active(mask)]
    assert all(got["r0"][lane] == (first if lane in active(mask) else 99) for lane in LANES)
    assert (
        got["p1"].tolist() == got["p0"].tolist()
    )  # a lane that a constant mask does not name takes part: as on an H200


def shuffled(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """Compute a shuffle by the PTX manual's pseudo-code."""
    b, clamp, segment = b & 31, c & 31, c >> 8 & 31
    top = lane & segment | clamp & ~segment
    bottom = lane & segment
    source = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": bottom | b & ~segment}[mode]
    inside = source >= top if mode == "up" else source <= top
    return (source if inside else lane), inside


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("control", [31, 0, 0x181F, 0x1807, 0x1C1F])
def test_shuffles(mode: str, control: int) -> None:
    values, distances = RANDOM.integers(0, 2**32, 32, np.uint32), RANDOM.integers(0, 40, 32, np.uint32)
    got = Instructions(f"shfl.sync.{mode}.b32 %r0|%p0, %r1, %r2, {control}, -1;")(r1=values, r2=distances)
    for lane in LANES:
        source, inside = shuffled(mode, lane, int(distances[lane]), control)
        assert got["r0"][lane] == values[source]
        assert got["p0"][lane] == inside


@pytest.mark.parametrize("mask", MASKS)
def test_votes_count_only_active_lanes(mask: int) -> None:
    text = "".join(f"vote.sync.{m}.pred %p{i}, %p9, -1;" for i, m in enumerate(("all", "any", "uni")))
    program = Instructions(text + "vote.sync.ballot.b32 %r0, %p9, -1; activemask.b32 %r1;")
    for votes in (np.zeros(32, bool), np.ones(32, bool), RANDOM.random(32) < 0.5):
        got = program(mask, p9=votes)
        lanes = active(mask)
        heard = [bool(votes[lane]) for lane in lanes]
        at = lanes[0]
        assert got["p0"][at] == all(heard)
        assert got["p1"][at] == any(heard)
        assert got["p2"][at] == (all(heard) or not any(heard))
        assert got["r0"][at] == sum(1 << lane for lane in lanes if votes[lane])
        assert got["r1"][at] == mask


@pytest.mark.parametrize("mask", MASKS)
def test_match(mask: int) -> None:
    values = RANDOM.integers(0, 3, 32).astype(np.uint32)
    text = "match.any.sync.b32 %r0, %r9, -1; match.all.sync.b32 %r1|%p1, %r9, -1; match.any.sync.b64 %r2, %q9, -1;"
    for column in (values, np.full(32, 4, np.uint32)):
        got = Instructions(text)(mask, r9=column, q9=column.astype(np.uint64) << np.uint64(40))
        lanes = active(mask)
        agree = len({int(column[lane]) for lane in lanes}) == 1
        for lane in lanes:
            same = sum(1 << other for other in lanes if column[other] == column[lane])
            assert got["r0"][lane] == got["r2"][lane] == same
            assert got["r1"][lane] == (mask if agree else 0)
            assert got["p1"][lane] == agree


REDUCTIONS: dict[str, Callable[[list[int]], int]] = {
    "add.u32": lambda v: sum(v) % 2**32,
    "min.u32": min,
    "max.u32": max,
    "min.s32": lambda v: min(v, key=lambda x: x - (x >> 31 << 32)),
    "max.s32": lambda v: max(v, key=lambda x: x - (x >> 31 << 32)),
    "and.b32": lambda v: int(np.bitwise_and.reduce(np.array(v, np.uint32))),
    "or.b32": lambda v: int(np.bitwise_or.reduce(np.array(v, np.uint32))),
    "xor.b32": lambda v: int(np.bitwise_xor.reduce(np.array(v, np.uint32))),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("op", REDUCTIONS)
def test_redux(op: str, mask: int) -> None:
    values = RANDOM.integers(0, 2**32, 32, np.uint32)
    got = Instructions(f"redux.sync.{op} %r0, %r1, -1;")(mask, r1=values)["r0"]
    lanes = active(mask)
    wanted = REDUCTIONS[op]([int(values[lane]) for lane in lanes])
    assert all(got[lane] == wanted for lane in lanes)


@pytest.mark.parametrize("op", ["add.f32", "and.u32", "xor.f32", "min.b32", "add.b32", "min.NaN.u32"])
def test_redux_of_types_that_it_does_not_have(op: str) -> None:
    with pytest.raises(UnknownInstruction):
        Instructions(f"redux.sync.{op} %r0, %r1, -1;")


LANE = np.arange(32, dtype=np.uint32)
GROUPS = {
    "four lanes each": np.uint32(0xF) << (LANE & ~np.uint32(3)),
    "every fourth": np.uint32(0x11111111) << (LANE & 3),
    "five, and the others": np.where(LANE < 5, np.uint32(0x1F), np.uint32(0xFFFFFFE0)),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("groups", GROUPS)
def test_lanes_of_several_groups_come_at_once(groups: str, mask: int) -> None:
    """Each lane passes the mask of its own group, as after a match, and receives the result of its group."""
    values, members, lanes = RANDOM.integers(0, 2**32, 32, np.uint32), GROUPS[groups], active(mask)
    mates = {lane: [mate for mate in lanes if members[lane] >> mate & 1] for lane in lanes}
    for op, fold in REDUCTIONS.items():
        got = Instructions(f"redux.sync.{op} %r0, %r1, %r2;")(mask, r1=values, r2=members)["r0"]
        assert [got[lane] for lane in lanes] == [fold([int(values[mate]) for mate in mates[lane]]) for lane in lanes]
    floats = RANDOM.normal(size=32).astype(np.float32)
    got = Instructions("redux.sync.max.f32 %r0, %r1, %r2;")(mask, r1=floats, r2=members)["r0"].view(np.float32)
    assert [got[lane] for lane in lanes] == [max(floats[mates[lane]]) for lane in lanes]
    elected = Instructions("elect.sync %r0|%p0, %r2; vote.sync.ballot.b32 %r1, %p1, %r2;")(mask, r2=members, p1=True)
    assert [elected["r0"][lane] for lane in lanes] == [mates[lane][0] for lane in lanes]
    assert [elected["r1"][lane] for lane in lanes] == [sum(1 << mate for mate in mates[lane]) for lane in lanes]


def test_inactive_lanes_keep_their_registers() -> None:
    got = Instructions("add.u32 %r0, %r1, 1; setp.eq.u32 %p0, %r1, %r1; add.u64 %q0, %q1, 1;")(
        0x0F, r0=7, r1=1, p0=False, q0=8, q1=1
    )
    assert got["r0"].tolist() == [2] * 4 + [7] * 28
    assert got["p0"].tolist() == [True] * 4 + [False] * 28
    assert got["q0"].tolist() == [2] * 4 + [8] * 28


def test_guards_of_pure_instructions() -> None:
    even = np.array([True, False] * 16)
    got = Instructions(
        "@%p0 mov.b32 %r0, 1; @!%p0 mov.b32 %r0, 2; @%p0 mov.b64 %q0, {%r0, %r0}; @%p0 setp.ne.u32 %p1, %r0, 1;"
    )(p0=even, r0=0, q0=3, p1=True)
    assert got["r0"].tolist() == [1, 2] * 16
    assert got["q0"].tolist() == [2**32 + 1, 3] * 16
    assert got["p1"].tolist() == [False, True] * 16


@pytest.mark.parametrize("mask", [ALL, 0x00F0F00F, 1 << 9])
@pytest.mark.parametrize("absolute", ["", ".abs"])
@pytest.mark.parametrize("op", ["min", "max"])
def test_redux_of_floats(op: str, absolute: str, mask: int) -> None:
    """NaN is ignored, or is the result with .NaN or if there is no number; -0 is less than +0."""
    values = np.random.default_rng(1).normal(size=32).astype(np.float32)
    signed, some, every = values.copy(), values.copy(), np.full(32, np.nan, np.float32)
    signed[:] = np.where(np.arange(32) % 2, 0.0, -0.0)
    some[[4, 9, 20]] = np.nan
    lanes = active(mask)
    for given in (values, signed, some, every):
        for nan in ("", ".NaN"):
            text = f"redux.sync.{op}{absolute}{nan}.f32 %r0, %r1, {mask};"
            got = Instructions(text)(mask, r1=given)["r0"][lanes[0]]
            taken = np.abs(given[lanes]) if absolute else given[lanes]
            kept = taken[~np.isnan(taken)]
            if kept.size == 0 or (nan and kept.size < taken.size):
                assert got == 0x7FFFFFFF
                continue
            order = sorted(kept.tolist(), key=lambda x: (x, math.copysign(1, x)))
            assert got == np.float32(order[0 if op == "min" else -1]).view(np.uint32)
