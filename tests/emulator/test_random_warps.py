"""Random programs with shuffles, votes, matches and reductions under divergence, against independent threads.

The reference runs each thread alone until it has to meet others. The member mask of a branch is the ballot of the
threads that take it, as in real GPU programs: every thread in a mask reaches the instruction, converged or not.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import count
from operator import and_, or_, xor
from random import Random

import numpy as np
import pytest

from tests.emulator.ptx_kernel import launch, source
from tests.emulator.test_random_programs import (
    BLOCK,
    COMMON,
    LOG,
    PREDICATES,
    REGISTERS,
    TABLE,
    WORD,
    Step,
    Thread,
    logged,
    start_text,
    step,
)

PROGRAMS, SHORT = 150, 50
DEPTH = 3
VARYING = [r for r in REGISTERS if r not in COMMON]
MASKS = [f"%r{60 + depth}" for depth in range(DEPTH + 2)]
"""The member mask of each depth of branches. Depth 0 is the whole warp."""


@dataclass(frozen=True)
class Meeting:
    """A thread at a warp-wide instruction: its member mask and the value it contributes."""

    at: Warpwide
    mask: int
    given: int


Life = Generator[Meeting, dict[int, int], None]
"""A thread: it yields its meetings, and receives the contribution of each member by lane."""


class Node:
    """A part of a program: its text, and its effect on a thread."""

    text: str

    def run(self, thread: Thread) -> Life:
        raise NotImplementedError


class Plain(Node):
    """A statement without jumps that concerns one thread only."""

    def __init__(self, statement: Step) -> None:
        self.text, self._effect = statement.text, statement.effect

    def run(self, thread: Thread) -> Life:
        self._effect(thread)
        yield from ()


@dataclass(frozen=True, eq=False)
class Warpwide(Node):
    """A warp-wide instruction. effect(thread, lane, contributions): assigns its results."""

    text: str
    mask: str
    given: Callable[[Thread], int]
    effect: Callable[[Thread, int, dict[int, int]], None]

    def run(self, thread: Thread) -> Life:
        heard = yield Meeting(self, thread[self.mask], self.given(thread))
        self.effect(thread, thread["%t"] % 32, heard)


@dataclass(frozen=True)
class Branch(Node):
    """if (predicate) yes else no, each side with its own member mask."""

    label: int
    predicate: str
    outer: str
    inner: str
    yes: Sequence[Node]
    no: Sequence[Node]

    @property
    def text(self) -> str:  # type: ignore[override]
        return (
            f"vote.sync.ballot.b32 {self.inner}, {self.predicate}, {self.outer};\n"
            f"@!{self.predicate} bra E{self.label};\n"
            f"{text_of(self.yes)}\nbra J{self.label};\n"
            f"E{self.label}: xor.b32 {self.inner}, {self.inner}, {self.outer};\n{text_of(self.no)}\nJ{self.label}:"
        )

    def run(self, thread: Thread) -> Life:
        taken = bool(thread[self.predicate])
        yes = yield from ballot(self, thread, self.outer, taken)
        thread.values[self.inner] = yes if taken else yes ^ thread[self.outer]
        for node in self.yes if taken else self.no:
            yield from node.run(thread)


@dataclass(frozen=True)
class Loop(Node):
    """A loop whose trip count is two bits of a register. Its members are the threads that are still in it."""

    label: int
    counter: str
    start: str
    outer: str
    inner: str
    body: Sequence[Node]

    @property
    def text(self) -> str:  # type: ignore[override]
        return (
            f"and.b32 {self.counter}, {self.start}, 3; mov.b32 {self.inner}, {self.outer};\n"
            f"W{self.label}: setp.ne.u32 %p9, {self.counter}, 0;\n"
            f"vote.sync.ballot.b32 {self.inner}, %p9, {self.inner};\n"
            f"@!%p9 bra X{self.label};\nsub.u32 {self.counter}, {self.counter}, 1;\n{text_of(self.body)}\n"
            f"bra W{self.label};\nX{self.label}:"
        )

    def run(self, thread: Thread) -> Life:
        left = thread[self.start] & 3
        thread.values[self.inner] = thread[self.outer]
        while True:
            thread.values[self.inner] = yield from ballot(self, thread, self.inner, left > 0)
            if not left:
                return
            left -= 1
            for node in self.body:
                yield from node.run(thread)


def ballot(at: Node, thread: Thread, mask: str, vote: bool) -> Generator[Meeting, dict[int, int], int]:
    """Return the ballot of the members."""
    heard = yield Meeting(at, thread[mask], int(vote))  # type: ignore[arg-type]
    return sum(1 << lane for lane, given in heard.items() if given)


def lived(nodes: Sequence[Node], threads: Sequence[Thread]) -> None:
    """Run the threads of a warp, each alone until it meets others."""
    lives = {t["%t"] % 32: life_of(nodes, t) for t in threads}
    waiting = {lane: meeting for lane, life in lives.items() if (meeting := next(life, None)) is not None}
    while waiting:
        meeting = next(meeting for meeting in waiting.values() if complete(meeting, waiting))
        members = [lane for lane in range(32) if meeting.mask >> lane & 1]
        heard = {o: waiting.pop(o).given for o in members}
        for other in members:
            try:
                waiting[other] = lives[other].send(heard)
            except StopIteration:
                continue


def complete(meeting: Meeting, waiting: Mapping[int, Meeting]) -> bool:
    """Return True if all members have arrived with the same mask."""
    members = [waiting.get(lane) for lane in range(32) if meeting.mask >> lane & 1]
    return all(m is not None and m.at is meeting.at and m.mask == meeting.mask for m in members)


def life_of(nodes: Sequence[Node], thread: Thread) -> Life:
    """Run a thread from the first node to the last."""
    for node in nodes:
        yield from node.run(thread)


def text_of(nodes: Sequence[Node]) -> str:
    """Concatenate the nodes' texts."""
    return "\n".join(node.text for node in nodes)


def signed(value: int) -> int:
    """Interpret a word as a signed number."""
    return value - (value >> 31 << 32)


REDUCTIONS: dict[str, Callable[[list[int]], int]] = {
    "add.u32": sum,
    "min.u32": min,
    "max.s32": lambda values: max(values, key=signed),
    "and.b32": lambda values: reduce(and_, values),
    "or.b32": lambda values: reduce(or_, values),
    "xor.b32": lambda values: reduce(xor, values),
}


def warpwide(random: Random, mask: str) -> Node:
    """Draw one warp-wide instruction under a member mask."""
    kind = random.choice(["shuffle", "shuffle", "vote", "ballot", "match", "all", "redux", "elect", "sync"])
    to, here, a = random.choice(REGISTERS), random.choice(VARYING), random.choice(REGISTERS)
    predicate = random.choice(PREDICATES)
    match kind:
        case "shuffle":
            return shuffle(random, mask, here, a)
        case "vote":
            name = random.choice(["all", "any", "uni"])

            def vote(thread: Thread, lane: int, heard: dict[int, int]) -> None:
                said = set(heard.values())
                thread.values[predicate] = {"all": 0 not in said, "any": 1 in said, "uni": len(said) == 1}[name]

            return Warpwide(f"vote.sync.{name}.pred {predicate}, {predicate}, {mask};", mask, of(predicate), vote)
        case "ballot":
            text = f"vote.sync.ballot.b32 {to}, {predicate}, {mask};"
            return Warpwide(text, mask, of(predicate), put(to, lambda _, h: sum(1 << n for n in h if h[n])))
        case "match":
            text = f"match.any.sync.b32 {here}, {a}, {mask};"
            return Warpwide(text, mask, of(a), put(here, lambda me, h: sum(1 << n for n in h if h[n] == h[me])))
        case "all":
            text = f"match.all.sync.b32 {here}|%p8, {a}, {mask}; @%p8 add.u32 {here}, {here}, 1;"
            agree = put(here, lambda _, h: sum(1 << n for n in h) + 1 if len(set(h.values())) == 1 else 0)
            return Warpwide(text, mask, of(a), agree)
        case "redux":
            name = random.choice(list(REDUCTIONS))
            text = f"redux.sync.{name} {to}, {a}, {mask};"
            return Warpwide(text, mask, of(a), put(to, lambda _, h: REDUCTIONS[name](list(h.values()))))
        case "elect":
            text = f"elect.sync {here}|%p8, {mask}; selp.b32 {here}, 77, {here}, %p8;"
            return Warpwide(text, mask, of(a), put(here, lambda me, h: 77 if me == min(h) else min(h)))
    return Warpwide(f"bar.warp.sync {mask};", mask, of(a), lambda *_: None)


def of(operand: str) -> Callable[[Thread], int]:
    """Return a thread's contribution from a register."""
    return lambda thread: int(thread[operand])


def put(to: str, value: Callable[[int, dict[int, int]], int]) -> Callable[[Thread, int, dict[int, int]], None]:
    """Return the effect that assigns a register a function of all contributions."""

    def effect(thread: Thread, lane: int, heard: dict[int, int]) -> None:
        thread.values[to] = value(lane, heard) & WORD

    return effect


def shuffle(random: Random, mask: str, to: str, a: str) -> Node:
    """Draw a shuffle. A thread whose source is not a member keeps its value, because PTX does not define the result."""
    mode, distance = random.choice(["up", "down", "bfly", "idx"]), random.randrange(32)
    clamp = 0 if mode == "up" else 31
    source_of: dict[str, Callable[[int], int]] = {
        "up": lambda lane: lane - distance if lane >= distance else lane,
        "down": lambda lane: lane + distance if lane + distance < 32 else lane,
        "bfly": lambda lane: lane ^ distance,
        "idx": lambda lane: distance,
    }
    place = {"up": "sub.u32", "down": "add.u32", "bfly": "xor.b32", "idx": "add.u32"}[mode]
    text = (
        f"and.b32 %r30, %t, 31; {'mov.b32 %r31, 0' if mode == 'idx' else 'mov.b32 %r31, %r30'};"
        f" {place} %r31, %r31, {distance}; shfl.sync.{mode}.b32 %r32|%p8, {a}, {distance}, {clamp}, {mask};"
        f" selp.b32 %r31, %r31, %r30, %p8; shr.u32 %r31, {mask}, %r31; and.b32 %r31, %r31, 1;"
        f" setp.ne.u32 %p8, %r31, 0; selp.b32 {to}, %r32, {a}, %p8;"
    )

    def chosen(lane: int, heard: dict[int, int]) -> int:
        return heard.get(source_of[mode](lane), heard[lane])

    return Warpwide(text, mask, of(a), put(to, chosen))


def program(random: Random, depth: int, labels: count[int]) -> list[Node]:
    """Draw statements, warp-wide instructions, branches and loops at one depth."""
    nodes: list[Node] = []
    for _ in range(random.randrange(2, 6)):
        kind = random.choice(["plain", "plain", "warp", "warp", "branch", "loop"])
        outer, inner = MASKS[depth], MASKS[depth + 1]
        if kind == "warp" or (depth == DEPTH and kind != "plain"):
            nodes.append(warpwide(random, outer))
        elif kind == "plain":
            nodes += [Plain(s) for s in step(random)]
        elif kind == "branch":
            sides = [program(random, depth + 1, labels) for _ in range(2)]
            nodes.append(Branch(next(labels), random.choice(PREDICATES), outer, inner, *sides))
        else:
            body = program(random, depth + 1, labels)
            counter = f"%r{70 + depth}"
            nodes.append(Loop(next(labels), counter, random.choice(REGISTERS), outer, inner, body))
    return nodes


@pytest.mark.parametrize(
    "seed", [*range(SHORT), *(pytest.param(i, marks=pytest.mark.thorough) for i in range(SHORT, PROGRAMS))]
)
def test_threads_that_meet_under_divergence(seed: int) -> None:
    random = Random(seed)
    nodes = [*program(random, 0, count()), *(Plain(logged(register)) for register in REGISTERS)]
    members = random.choice(["setp.lt.u32 %p9, %t, 32; selp.b32 %r60, -1, 255, %p9;", "activemask.b32 %r60;"])
    text = "\n".join([start_text(), members, text_of(nodes), "ret;"])
    log = np.zeros((LOG, BLOCK), np.uint32)
    launch(source(text, 2, block=BLOCK), log, np.array(TABLE, np.uint32), block=BLOCK)
    threads = [Thread(number) for number in range(BLOCK)]
    for first in range(0, BLOCK, 32):
        warp = threads[first : first + 32]
        for thread in warp:
            thread.values[MASKS[0]] = (1 << len(warp)) - 1
        lived(nodes, warp)
    np.testing.assert_array_equal(log, np.array([t.log for t in threads], np.uint32).T, err_msg=text)
