"""Instructions by which the lanes of one warp talk: elect, shfl, vote, match, redux, activemask."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from emulator.errors import Fault, UnknownInstruction
from emulator.isa.modifiers import pick
from emulator.isa.registry import Run, executes, lanes
from emulator.ptx.syntax import Dual, Instr

if TYPE_CHECKING:
    from emulator.machine.warp import Warp

LANE: Final = np.arange(32, dtype=np.int64)
FULL: Final = 0xFFFF_FFFF


def _members(mask: np.ndarray | None, members: Any) -> np.ndarray:
    """bool[32]: active lanes that the member mask names."""
    bits = int(members if not isinstance(members, np.ndarray) else members[_first(mask)])
    named = (bits >> LANE & 1).astype(bool)
    return named if mask is None else named & mask


def _first(mask: np.ndarray | None) -> int:
    return 0 if mask is None else int(mask.argmax())


@executes("elect.sync", dst=1)
def _elect(ins: Instr) -> Run:
    pick(ins)
    first_lane = LANE == 0

    def run(warp: Warp, mask: Any, members: Any) -> Any:
        if mask is None and not isinstance(members, np.ndarray) and members & 1:
            return 0, first_lane
        leader = int(_members(mask, members).argmax())
        return leader, leader == LANE

    return run


@executes("activemask", dst=1)
def _activemask(ins: Instr) -> Run:
    pick(ins, {"b32"})
    return lambda warp, mask: FULL if mask is None else _ballot(mask)


def _ballot(votes: np.ndarray) -> int:
    return int(np.packbits(votes, bitorder="little").view(np.uint32)[0])


@executes("vote.sync", dst=1)
def _vote(ins: Instr) -> Run:
    mode, _ = pick(ins, {"all", "any", "uni", "ballot"}, {"pred", "b32"})

    def run(warp: Warp, mask: Any, vote: Any, members: Any) -> Any:
        named = _members(mask, members)
        votes = lanes(vote, bool) & named
        if mode == "ballot":
            return _ballot(votes)
        count = int(np.count_nonzero(votes))
        total = int(np.count_nonzero(named))
        return {"all": count == total, "any": count > 0, "uni": count in (0, total)}[mode or ""]

    return run


@executes("match.any.sync", "match.all.sync", "match.sync", dst=1)
def _match(ins: Instr) -> Run:
    _, kind = pick(ins, {"any", "all"}, {"b32", "b64"})
    every = "all" in ins.opcode or "all" in ins.modifiers
    with_predicate = isinstance(ins.operands[0], Dual)
    dtype = np.uint32 if kind == "b32" else np.uint64

    def run(warp: Warp, mask: Any, value: Any, members: Any) -> Any:
        named = _members(mask, members)
        values = lanes(value, dtype)
        if every:
            alike = bool((values[named] == values[named][0]).all())
            found = _ballot(named) if alike else 0
            return (found, alike) if with_predicate else found
        out = np.zeros(32, np.uint32)
        for one in set(values[named].tolist()):
            out[values == one] = _ballot(named & (values == one))
        return out

    return run


@executes("redux.sync", dst=1)
def _redux(ins: Instr) -> Run:
    operation, absolute, nan, kind = pick(
        ins, {"add", "min", "max", "and", "or", "xor"}, {"abs"}, {"NaN"}, {"u32", "s32", "b32", "f32"}
    )
    reduce = {
        "add": np.add.reduce, "min": np.minimum.reduce, "max": np.maximum.reduce,
        "and": np.bitwise_and.reduce, "or": np.bitwise_or.reduce, "xor": np.bitwise_xor.reduce,
    }[operation or ""]
    if kind == "f32":
        reduce = {
            ("min", True): np.minimum.reduce, ("max", True): np.maximum.reduce,
            ("min", False): np.fmin.reduce, ("max", False): np.fmax.reduce,
        }[operation or "", nan is not None]
    dtype = {"u32": np.uint32, "b32": np.uint32, "s32": np.int32, "f32": np.float32}[kind or ""]

    def run(warp: Warp, mask: Any, value: Any, members: Any) -> Any:
        values = lanes(value, np.uint32)[_members(mask, members)].view(dtype)
        result = reduce(np.abs(values) if absolute else values, dtype=dtype)
        return int(np.asarray(result, dtype).view(np.uint32))

    return run


def _shuffle_source(mode: str, lane: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(source lane, whether it is in range) for each lane: PTX ISA 9.1, 9.7.9.6."""
    bound, segment = c & 31, c >> 8 & 31
    low = lane & segment
    high = low | bound & ~segment
    match mode:
        case "up":
            source = lane - b
            inside = source >= high
        case "down":
            source = lane + b
            inside = source <= high
        case "bfly":
            source = lane ^ b
            inside = source <= high
        case _:
            source = low | b & ~segment
            inside = source <= high
    return np.where(inside, source, lane), inside


@executes("shfl.sync", dst=1, uniform=True)
def _shfl(ins: Instr) -> Run:
    mode, _ = pick(ins, {"up", "down", "bfly", "idx"}, {"b32"})
    with_predicate = isinstance(ins.operands[0], Dual)
    known: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def sources(b: Any, c: Any) -> tuple[np.ndarray, np.ndarray]:
        if isinstance(b, np.ndarray) or isinstance(c, np.ndarray):
            wide = [lanes(x, np.int64).astype(np.int64) & 31 if x is b else lanes(x, np.int64).astype(np.int64) for x in (b, c)]
            return _shuffle_source(mode or "", LANE, *wide)
        if (b, c) not in known:
            known[b, c] = _shuffle_source(mode or "", LANE, np.full(32, b & 31), np.full(32, c))
        return known[b, c]

    def run(warp: Warp, mask: Any, value: Any, b: Any, c: Any, members: Any) -> Any:
        if not isinstance(value, np.ndarray) and not with_predicate:
            return value
        source, inside = sources(b, c)
        named = _members(mask, members)
        wanted = named[source]
        if not wanted[named].all():
            lane = int(np.flatnonzero(named & ~wanted)[0])
            raise Fault(
                f"shfl.sync: lane {lane} reads lane {int(source[lane])}, which does not take part", ins, warp
            )
        result = lanes(value, np.uint32)[source]
        return (result, inside) if with_predicate else result

    return run


