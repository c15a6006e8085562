"""Litmus tests: small programs with an outcome that only weak memory gives, and whether PTX allows it.

A thread is a list of accesses: "x=1" stores, "x" loads into the next register of the thread, "|" is the fence. PTX ISA
9.1, chapter 8, decides. All accesses are relaxed, of the scope of the fences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

import emulator
from emulator.errors import Fault

PLACES: Final = "xyz"
FENCES: Final = ("", "fence.acq_rel", "fence.sc")
SCOPES: Final = ("cta", "cluster", "gpu", "sys")
SEEDS: Final = 200
"""The seeds tried to see an outcome that PTX allows."""
FEW: Final = 40
"""The seeds tried for one that it forbids."""


@dataclass(frozen=True)
class Litmus:
    """A test. weak: values of the registers of all threads, then of the places in `final`.

    forbidden: the fences of `FENCES` with which PTX forbids the weak outcome.
    """

    name: str
    threads: Sequence[str]
    weak: tuple[int, ...]
    forbidden: tuple[str, ...]
    final: str = ""


SC: Final = ("fence.sc",)
BOTH: Final = ("fence.acq_rel", "fence.sc")
ALL: Final = ("", *BOTH)
TESTS: Final = (
    Litmus("message passing", ("x=1 | y=1", "y | x"), (1, 0), BOTH),
    Litmus("store buffering", ("x=1 | y", "y=1 | x"), (0, 0), SC),
    Litmus("load buffering", ("x | y=1", "y | x=1"), (1, 1), BOTH),
    Litmus("2+2W", ("x=1 | y=2", "y=1 | x=2"), (1, 1), SC, "xy"),
    Litmus("S", ("x=2 | y=1", "y | x=1"), (1, 2), BOTH, "x"),
    Litmus("R", ("x=1 | y=1", "y=2 | x"), (0, 2), SC, "y"),
    Litmus("IRIW", ("x=1", "y=1", "x | y", "y | x"), (1, 0, 1, 0), SC),
    Litmus("WRC", ("x=1", "x | y=1", "y | x"), (1, 1, 0), BOTH),
    Litmus("ISA2", ("x=1 | y=1", "y | z=1", "z | x"), (1, 1, 0), BOTH),
    Litmus("read-read coherence", ("x=1", "x x"), (1, 0), ALL),
    Litmus("write-write coherence", ("x=1 x=2",), (1,), ALL, "x"),
    Litmus("write-read coherence", ("x=1 x", "x=2"), (0,), ALL),
)


def source(test: Litmus, fence: str, scope: str, narrow: str = "") -> str:
    """Return the PTX of a test. narrow: the scope of the fences, if not that of the accesses."""
    lines, result = list[str](), 0
    for number, thread in enumerate(test.threads):
        lines.append(f"setp.ne.u32 %p0, %me, {number}; @%p0 bra T{number};")
        loads = list[str]()
        for access in thread.split():
            if access == "|":
                lines += [f"{fence}.{narrow or scope};"] if fence else []
            elif "=" in access:
                lines.append(f"st.relaxed.{scope}.global.u32 [%a0+{128 * PLACES.index(access[0])}], {access[2:]};")
            else:
                loads.append(f"st.global.u32 [%a1+{4 * (result + len(loads))}], %r{len(loads)};")
                lines.append(f"ld.relaxed.{scope}.global.u32 %r{len(loads) - 1}, [%a0+{128 * PLACES.index(access)}];")
        result += len(loads)
        lines += [*loads, f"T{number}:"]
    body = "\n".join(lines)
    return f""".version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1) {{
.reg .pred %p<2>; .reg .b32 %r<9>, %me, %l; .reg .b64 %a<2>;
ld.param.u64 %a0, [p0]; ld.param.u64 %a1, [p1];
mov.u32 %l, %tid.x; and.b32 %l, %l, 31; setp.ne.u32 %p0, %l, 0; @%p0 bra END;
mov.u32 %me, %tid.x; shr.u32 %me, %me, 5; mov.u32 %l, %ctaid.x; add.u32 %me, %me, %l;
{body}
END: ret;
}}"""


def outcome(
    test: Litmus, text: str, scope: str, level: str = "fault", **how: object
) -> tuple[tuple[int, ...], list[Fault]]:
    """Run a test once. Return its outcome and what is reported."""
    places, registers = np.zeros(32 * len(PLACES), np.uint32), np.zeros(16, np.uint32)
    count = len(test.threads)
    with emulator.emulate(diagnostics="report", level=level, **how) as device:  # type: ignore[arg-type]
        emulator.launch(
            text,
            "k",
            [places, registers],
            grid=1 if scope == "cta" else count,
            block=32 * count if scope == "cta" else 32,
            cluster=count if scope == "cluster" else None,
        )
    loads = sum(access in PLACES for thread in test.threads for access in thread.split())
    final = [int(places[32 * PLACES.index(place)]) for place in test.final]
    return (*registers[:loads].tolist(), *final), list(device.launches[-1].findings)


@dataclass(frozen=True)
class Seen:
    """The emulator's treatment of a weak outcome. shown: some seed of random completion gives it."""

    shown: bool
    reported: bool

    def __str__(self) -> str:
        return " and ".join(word for word, it in (("shown", self.shown), ("reported", self.reported)) if it) or "never"


def seen(test: Litmus, fence: str, scope: str, narrow: str = "", seeds: int = SEEDS) -> Seen:
    """Run a test with random completion and several seeds, of those that show the outcome only the first few."""
    text = source(test, fence, scope, narrow)
    shown = reported = False
    for seed in range(seeds):
        values, findings = outcome(test, text, scope, "formal", completion="random", seed=seed)
        shown, reported = shown or values == test.weak, reported or bool(findings)
        if shown and (reported or seed >= FEW):
            break
    return Seen(shown, reported)


def judged(test: Litmus, fence: str, scope: str) -> tuple[bool, Seen]:
    """Return whether PTX allows the weak outcome of a test, and what the emulator does with it."""
    allowed = fence not in test.forbidden
    return allowed, seen(test, fence, scope, seeds=SEEDS if allowed else FEW)


def table() -> Iterator[str]:
    """Yield the lines of the table of docs/reference/litmus.md."""
    yield "| test | threads | weak outcome | no fence | `fence.acq_rel` | `fence.sc` |"
    yield "|---|---|---|---|---|---|"
    for test in TESTS:
        loads = ["r" + str(n) for n in range(len(test.weak) - len(test.final))]
        weak = ", ".join(f"{name}={value}" for name, value in zip([*loads, *test.final], test.weak, strict=True))
        cells = []
        for fence in FENCES:
            allowed, it = judged(test, fence, "gpu")
            cells.append(f"{'allowed' if allowed else 'forbidden'}: {it}")
        threads = " ‖ ".join(f"`{thread.replace(' |', ';')}`" for thread in test.threads)
        yield f"| {test.name} | {threads} | {weak} | {' | '.join(cells)} |"
