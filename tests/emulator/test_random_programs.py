"""Random programs with arbitrary branches, against an interpreter that runs one thread at a time.

The engine runs 32 threads at once, and passes handlers one number for a register that it proves uniform. The
interpreter does neither. Programs jump forwards and backwards between blocks, also into the middle of loops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest

from tests.emulator.ptx_kernel import launch, source

PROGRAMS, SHORT = 150, 50
BLOCK = 40
LOG = 64
"""Values in a thread's log before it wraps around."""
JUMPS_BACK = 5
WORD = 0xFFFF_FFFF
REGISTERS = [f"%r{i}" for i in range(14)]
COMMON = frozenset(REGISTERS[3:])
"""Registers that are only computed from each other, so that they differ between threads only by control flow."""
CTA = "%r24"
"""The CTA's number, always 0."""
PREDICATES = [f"%p{i}" for i in range(5)]
COMMON_PREDICATES = PREDICATES[:3]
TABLE = [i * i * 2654435761 & WORD for i in range(32)]
ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add.u32": lambda a, b: a + b,
    "sub.u32": lambda a, b: a - b,
    "mul.lo.u32": lambda a, b: a * b,
    "xor.b32": lambda a, b: a ^ b,
    "and.b32": lambda a, b: a & b,
    "min.u32": min,
}
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "ge": lambda a, b: a >= b,
}


class Thread:
    """A thread: its registers, its log, and its next block (None: the following one)."""

    def __init__(self, number: int) -> None:
        self.values = dict.fromkeys(PREDICATES, 0) | {r: 3 * i + 1 for i, r in enumerate(REGISTERS)}
        self.values |= {"%t": number, CTA: 0, "fuel": JUMPS_BACK}
        self.values |= {"%p3": int(number & 5 != 0), "%p4": int(number & 8 != 0)}
        self.log = [0] * LOG
        self.logged = 0

    def __getitem__(self, operand: str) -> int:
        return self.values[operand] if operand in self.values else int(operand)


@dataclass(frozen=True)
class Step:
    """A PTX statement and its effect on a thread, which returns the block to jump to, -1 to end, or None."""

    text: str
    effect: Callable[[Thread], int | None]

    def guarded(self, predicate: str, wanted: bool) -> Step:
        """Apply the effect only if a predicate has the required value."""
        effect = self.effect
        return Step(
            f"@{'' if wanted else '!'}{predicate} {self.text}",
            lambda t: effect(t) if bool(t[predicate]) is wanted else None,
        )


def assign(target: str, value: Callable[[Thread], int]) -> Callable[[Thread], None]:
    """Return the effect of an assignment."""

    def effect(thread: Thread) -> None:
        thread.values[target] = value(thread) & WORD

    return effect


def operand(random: Random, to: str) -> str:
    """Draw an operand for computing register `to`."""
    constants = [str(random.randrange(40)), CTA]
    return random.choice([*sorted(COMMON), *constants] if to in COMMON else [*REGISTERS, *constants, "%t"])


def step(random: Random) -> list[Step]:
    """Draw one statement of a block, or a few that belong together."""
    kind = random.choice(["arithmetic", "arithmetic", "mov", "setp", "setp", "selp", "table", "log", "log"])
    if kind == "log":
        return [logged(random.choice(REGISTERS))]
    *before, last = computed(random, kind)
    guarded = random.random() < 0.2
    return [*before, last.guarded(random.choice(PREDICATES), random.random() < 0.5) if guarded else last]


def computed(random: Random, kind: str) -> list[Step]:
    """Draw a statement that computes a register or a predicate, after its preparation."""
    to = random.choice(REGISTERS)
    a, b, predicate = operand(random, to), operand(random, to), random.choice(COMMON_PREDICATES)
    match kind:
        case "arithmetic":
            name = random.choice(list(ARITHMETIC))
            return [Step(f"{name} {to}, {a}, {b};", assign(to, lambda t: ARITHMETIC[name](t[a], t[b])))]
        case "mov":
            return [Step(f"mov.u32 {to}, {a};", assign(to, lambda t: t[a]))]
        case "setp":
            name = random.choice(list(COMPARISONS))
            a, b = operand(random, min(COMMON)), operand(random, min(COMMON))
            effect = assign(predicate, lambda t: int(COMPARISONS[name](t[a], t[b])))
            return [Step(f"setp.{name}.u32 {predicate}, {a}, {b};", effect)]
        case "selp":
            effect = assign(to, lambda t: t[a] if t[predicate] else t[b])
            return [Step(f"selp.b32 {to}, {a}, {b}, {predicate};", effect)]
    place = f"and.b32 %r20, {a}, 31; mul.wide.u32 %q1, %r20, 4; add.u64 %q1, %q1, %a1;"
    load = Step(f"ld.global.u32 {to}, [%q1];", assign(to, lambda t: TABLE[t[a] % 32]))
    return [Step(place, lambda t: None), load]


def logged(register: str) -> Step:
    """Write a register to the thread's log. A handler receives its value."""

    def effect(thread: Thread) -> None:
        thread.log[thread.logged % LOG] = thread[register]
        thread.logged += 1

    return Step(
        f"mul.wide.u32 %q2, %r21, {4 * BLOCK}; add.u64 %q2, %q2, %a0; add.u64 %q2, %q2, %b; "
        f"st.global.u32 [%q2], {register}; add.u32 %r21, %r21, 1; and.b32 %r21, %r21, {LOG - 1};",
        effect,
    )


def sorted_out(random: Random, predicate: str) -> list[Step]:
    """Draw code that makes a predicate differ between threads; rarely nothing."""
    if random.random() < 0.3:
        return []
    bits = random.randrange(1, 32)
    text = f"and.b32 %r23, %t, {bits}; setp.ne.u32 {predicate}, %r23, 0;"
    return [Step(text, assign(predicate, lambda t: int(t["%t"] & bits != 0)))]


def end(random: Random, here: int, blocks: int) -> list[Step]:
    """Draw the end of a block: a jump, a return, or nothing."""
    if random.random() < 0.15:
        return []
    if random.random() < 0.4:
        return leave(random, here, blocks, random.choice(COMMON_PREDICATES))
    predicate = random.choice(PREDICATES[len(COMMON_PREDICATES) :])
    return [*sorted_out(random, predicate), *leave(random, here, blocks, predicate)]


def leave(random: Random, here: int, blocks: int, predicate: str) -> list[Step]:
    """Draw a jump (backwards only while the thread has fuel) or a return, usually guarded by a predicate."""
    target, wanted = random.randrange(blocks), random.random() < 0.5
    if random.random() < 0.08:
        return [Step("ret;", lambda t: -1).guarded(predicate, wanted)]
    if target > here:
        jump = Step(f"bra L{target};", lambda t: target)
        return [jump.guarded(predicate, wanted) if random.random() < 0.85 else jump]

    def back(thread: Thread) -> int | None:
        thread.values["fuel"] -= 1
        return target if thread["fuel"] > 0 and bool(thread[predicate]) is wanted else None

    text = (
        f"sub.s32 %r22, %r22, 1; setp.gt.and.s32 %p9, %r22, 0, {'' if wanted else '!'}{predicate}; @%p9 bra L{target};"
    )
    return [Step(text, back)]


def program(random: Random) -> list[list[Step]]:
    """Draw blocks of statements. The last block logs every register and returns."""
    blocks = random.randrange(2, 10)
    body = [
        [s for _ in range(random.randrange(1, 4)) for s in step(random)] + end(random, i, blocks) for i in range(blocks)
    ]
    return [*body[:-1], [logged(register) for register in REGISTERS]]


def start_text() -> str:
    """Return code that initialises every register."""
    start = "".join(f"mov.b32 {r}, {3 * i + 1}; " for i, r in enumerate(REGISTERS))
    start += f"mov.b32 %r21, 0; mov.b32 %r22, {JUMPS_BACK}; mov.u32 {CTA}, %ctaid.x;"
    clear = "".join(f"setp.ne.u32 {p}, 0, 0; " for p in COMMON_PREDICATES)
    clear += "".join(f"and.b32 %r23, %t, {b}; setp.ne.u32 {p}, %r23, 0; " for p, b in (("%p3", 5), ("%p4", 8)))
    return f"{start}\n{clear}"


def text_of(blocks: list[list[Step]]) -> str:
    """Return the program as the body of a kernel."""
    lines = [f"L{i}: {' '.join(s.text for s in block)}" for i, block in enumerate(blocks)]
    return "\n".join([start_text(), *lines, "ret;"])


def interpreted(blocks: list[list[Step]], number: int) -> list[int]:
    """Interpret one thread and return its log."""
    thread, at = Thread(number), 0
    while 0 <= at < len(blocks):
        following = (target for s in blocks[at] if (target := s.effect(thread)) is not None)
        at = next(following, at + 1)
    return thread.log


@pytest.mark.parametrize(
    "seed", [*range(SHORT), *(pytest.param(i, marks=pytest.mark.thorough) for i in range(SHORT, PROGRAMS))]
)
def test_every_thread_does_what_it_would_do_alone(seed: int) -> None:
    blocks = program(Random(seed))
    log = np.zeros((LOG, BLOCK), np.uint32)
    text = text_of(blocks)
    launch(source(text, 2, block=BLOCK), log, np.array(TABLE, np.uint32), block=BLOCK)
    wanted = np.array([interpreted(blocks, t) for t in range(BLOCK)], np.uint32).T
    np.testing.assert_array_equal(log, wanted, err_msg=text)
