"""`python -m lab.clock`: compare the clock with measurements of real GPUs, one line per set of measurements.

Small PTX programs with the microbenchmarks' instruction streams run under the clock. No measured value is looked up.
The measurements are in lab/data. The first lines of each file name its source.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np

from emulator.clock.chips import ERRORS, Chip, chip
from emulator.clock.operations import find
from emulator.clock.skeleton import Analysis, Skeleton, skeleton
from emulator.clock.timeline import Timeline
from emulator.machine.launch.launch import Launch
from emulator.program import Program
from emulator.ptx.parser import parse
from lab import fa4, kernels, microbenchmarks

DATA: Final = Path(__file__).parent / "data" / "b200"
B200: Final = chip("b200")
H200: Final = chip("h200")
MOST_GROUPS: Final = 8
"""The maximum number of groups of cp.async that CUDA's `__pipeline_wait_prior` leaves in flight."""
Row = Mapping[str, str]


@dataclass(frozen=True)
class Comparison:
    """The clock's relative error at each point of a set of measurements, with the goals for mean and worst error."""

    name: str
    errors: Sequence[tuple[float, str]]
    mean_goal: float
    worst_goal: float | None = None

    def __str__(self) -> str:
        mean, (worst, where) = self.mean, max(self.errors, key=lambda e: abs(e[0]))
        held = mean <= self.mean_goal and (self.worst_goal is None or abs(worst) <= self.worst_goal)
        goal = f"{self.mean_goal:.0%}" + ("" if self.worst_goal is None else f" / {self.worst_goal:.0%}")
        mark = "ok" if held else "MISSED"
        return f"{self.name:<44}{len(self.errors):>6}{mean:>9.1%}{worst:>+9.1%}   {goal:<12}{mark:<8}worst: {where}"

    @property
    def mean(self) -> float:
        """The mean of the errors' absolute values."""
        return sum(abs(error) for error, _ in self.errors) / len(self.errors)


def main() -> None:
    """Print a line for each set of measurements, then whole kernels."""
    parser = argparse.ArgumentParser(prog="python -m lab.clock", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the errors to emulator/clock/errors.toml")
    write = parser.parse_args().write
    print(f"{'set':<44}{'points':>6}{'mean':>9}{'worst':>9}   {'goal':<12}")
    of_b200 = (
        umma,
        in_flight,
        umma_ws,
        tensor_memory,
        tma_throughput,
        tma_rows,
        tma_multicast,
        cp_async_throughput,
        cp_async_latency,
    )
    means: dict[str, float] = {}
    for measure in (*of_b200, hopper, fa4_forward):
        for found in measure():
            print(found, flush=True)
            if isinstance(found, Comparison):
                means[found.name] = found.mean
    if write:
        ERRORS.write_text(with_errors(ERRORS.read_text(), means))
    print()
    print(*kernels.table([*kernels.known(), *kernels.on_h200()]), sep="\n")


def with_errors(text: str, means: Mapping[str, float]) -> str:
    """Return the text of errors.toml with the mean errors of the sets that were compared."""

    def renewed(entry: re.Match[str]) -> str:
        sets = json.loads(entry["sets"])
        known = [means[name] for name in sets if name in means]
        error = entry["error"] if len(known) < len(sets) else f"{sum(known) / len(known):.3f}"
        return f"{entry['head']}{entry['sets']}, error = {error}"

    return re.sub(r"(?P<head>\{ sets = )(?P<sets>\[.*?\]), error = (?P<error>[0-9.]+)", renewed, text)


def rows(name: str) -> list[Row]:
    """Read a file of measurements."""
    lines = (DATA / f"{name}.csv").read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def compared(
    name: str, points: Sequence[Row], measured: str, model: Callable[[Row], float], goals: Sequence[float]
) -> Comparison:
    """Compare a model with one measured column."""
    shown = [column for column in points[0] if column not in ("dram_bytes", "loads")]
    errors = [
        (model(row) / float(row[measured]) - 1, ", ".join(f"{c}={row[c]}" for c in shown if c != measured))
        for row in points
    ]
    return Comparison(name, errors, *goals)


# ---- programs ----


@cache
def lowered(text: str, chip: Chip) -> tuple[Skeleton, Program]:
    (kernel,) = parse(text).kernels.values()
    made = skeleton(Analysis(kernel, {}), chip)
    return made, Program(made.kernel, {}, find)


def cycles(
    text: str,
    arguments: Sequence[int | bytes],
    *,
    threads: int,
    cluster: int = 1,
    resident: int = 1,
    shared: int = 0,
    chip: Chip = B200,
    **shares: Any,
) -> Timeline:
    """Run one cluster of a program (or `resident` CTAs on one SM) under the clock. shares: options of Timeline."""
    made, program = lowered(text, chip)
    params = np.zeros(made.kernel.param_bytes + 64, np.uint8)
    start = -params.ctypes.data % 64
    for param, argument in zip(made.kernel.params, arguments, strict=True):
        raw = argument if isinstance(argument, bytes) else argument.to_bytes(param.size, "little")
        params[start + param.offset : start + param.offset + param.size] = np.frombuffer(raw, np.uint8)
    launch = Launch(
        made.kernel,
        (cluster * resident, 1, 1),
        (threads, 1, 1),
        params.ctypes.data + start,
        params,
        (cluster, 1, 1),
        shared,
    )
    timeline = Timeline(chip, launch, program, made.segments, **{"sharers": chip.sms, "misses": {}, **shares})
    timeline.run([(i, 0, 0) for i in range(resident)], resident)
    return timeline


def end(timeline: Timeline) -> float:
    """Return the cycle at which the last cluster ended, counted from its first instruction."""
    return max(cluster.end for cluster in timeline.finished) - timeline.chip.cta_launch


def entry(params: str, body: str) -> str:
    """Return a PTX module with one kernel."""
    listed = ", ".join(f".param .{p.split()[0]} {p.split()[1]}" for p in params.split(",") if p)
    registers = ".reg .pred %p<9>; .reg .b16 %h<4>; .reg .b32 %r<40>; .reg .b64 %d<40>;"
    head = ".version 8.8\n.target sm_100a\n.address_size 64"
    return f"{head}\n.visible .entry k({listed})\n{{\n{registers}\n{body}\n}}\n"


# ---- the tensor core ----

KIND: Final = {
    "BF16": ("kind::f16", 1 << 4 | 1 << 7 | 1 << 10),
    "E4M3": ("kind::f8f6f4", 1 << 4),
    "F4": ("kind::f8f6f4", 1 << 4 | 5 << 7 | 5 << 10),
    "S8": ("kind::i8", 2 << 4 | 1 << 7 | 1 << 10),
    "MXF8": ("kind::mxf8f6f4", 1 << 23),
    "MXF4": ("kind::mxf8f6f4", 5 << 7 | 5 << 10 | 1 << 23),
}
"""The MMA kind of each measured type, and its bits of the instruction descriptor."""
UNROLLED: Final = 16


@cache
def mma_program(kind: str, a_in_tmem: bool, ctas: int) -> str:
    """Return a program of `rounds` rounds: 16 * `sixteens` + `ones` MMAs, one commit, a wait by all warps."""
    name, a = KIND[kind][0], "[%r9]" if a_in_tmem else "%d1"
    scales = ", [%r9], [%r9]" if name.startswith("kind::mx") else ""
    scaled = ".block_scale" if scales else ""
    mma = f"@%p1 tcgen05.mma.cta_group::{ctas}.{name}{scaled} [%r8], {a}, %d2, %r1{scales}, %p2;"
    return entry(
        "u32 idesc,u32 rounds,u32 sixteens,u32 ones",
        f"""
.shared .align 8 .b8 bar[8];
ld.param.u32 %r1, [idesc]; ld.param.u32 %r2, [rounds]; ld.param.u32 %r3, [sixteens]; ld.param.u32 %r4, [ones];
mov.u32 %r5, %tid.x; shr.u32 %r6, %r5, 5; mov.u32 %r7, %cluster_ctarank; mov.b32 %r10, bar; mov.b16 %h1, 3;
mov.b32 %r8, 0; mov.b32 %r9, 256; mov.b64 %d1, 0; mov.b64 %d2, 0; mov.b32 %r13, 0;
setp.eq.u32 %p0, %r5, 0; setp.eq.u32 %p2, %r5, 0;
@%p0 mbarrier.init.shared.b64 [%r10], 1;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
or.b32 %r11, %r6, %r7; setp.ne.b32 %p4, %r11, 0;
ROUND:
@%p4 bra WAIT;
elect.sync _|%p1, -1;
mov.b32 %r12, 0;
setp.eq.u32 %p3, %r3, 0; @%p3 bra SINGLE;
SIXTEEN:
{mma * UNROLLED}
add.u32 %r12, %r12, 1; setp.lt.u32 %p3, %r12, %r3; @%p3 bra SIXTEEN;
SINGLE:
setp.eq.u32 %p3, %r4, 0; @%p3 bra COMMIT;
{mma}
COMMIT:
@%p1 tcgen05.commit.cta_group::{ctas}.mbarrier::arrive::one.shared::cluster{
            ".multicast::cluster.b64 [%r10], %h1" if ctas == 2 else ".b64 [%r10]"
        };
WAIT: mbarrier.try_wait.parity.shared.b64 %p5, [%r10], %r13; @%p5 bra DONE; bra WAIT;
DONE: xor.b32 %r13, %r13, 1; sub.u32 %r2, %r2, 1; setp.ne.u32 %p6, %r2, 0; @%p6 bra ROUND;
ret;""",
    )


def group_cycles(row: Row, in_flight: int) -> float:
    """Return the cycles of a round with `in_flight` MMAs."""
    text = mma_program(row["kind"], row["a_from"] == "tmem", int(row["ctas"]))
    idesc = KIND[row["kind"]][1] | int(row["n"]) >> 3 << 17 | int(row["m"]) >> 4 << 24
    few, many = (
        end(cycles(text, [idesc, rounds, *divmod(in_flight, UNROLLED)], threads=128, cluster=int(row["ctas"])))
        for rounds in (1, 3)
    )
    return (many - few) / 2


def umma() -> Iterator[Comparison]:
    """Compare the latency of one MMA and the interval that each further MMA adds."""
    overhead = B200.mma_group_overhead
    points = rows("umma")
    yield compared("umma: latency", points, "latency", lambda row: group_cycles(row, 1) - overhead, (0.05, 0.15))
    yield compared(
        "umma: interval", points, "interval", lambda r: (group_cycles(r, 64) - group_cycles(r, 32)) / 32, (0.02, 0.10)
    )


def in_flight() -> Iterator[Comparison]:
    """Compare groups of MMAs with one commit."""

    def each(row: Row) -> float:
        return group_cycles(row, int(row["in_flight"])) / int(row["in_flight"])

    yield compared("umma: in flight", rows("umma_in_flight"), "cycles_each", each, (0.05,))


@cache
def ws_program(a_in_tmem: bool, collector: str) -> str:
    """Return a program of one round: `threes` times three tcgen05.mma.ws, the rest, one commit, a wait by all warps."""
    a = "[%r9]" if a_in_tmem else "%d1"
    uses = ("fill", "use", "use") if collector == "reuse" else ("discard",) * 3
    name = f"tcgen05.mma.ws.cta_group::1.{KIND['BF16'][0]}"
    mmas = "\n".join(f"@%p1 {name}.collector::b0::{use} [%r8], {a}, %d2, %r1, %p2;" for use in uses)
    text = mma_program("BF16", a_in_tmem, 1)
    plain = f"@%p1 tcgen05.mma.cta_group::1.{KIND['BF16'][0]} [%r8], {a}, %d2, %r1, %p2;"
    return text.replace(plain * UNROLLED, mmas).replace(plain, mmas.splitlines()[-1])


def umma_ws() -> Iterator[Comparison]:
    """Compare groups of tcgen05.mma.ws with one commit, in which each or every third MMA loads B."""

    def each(count: int, row: Row) -> float:
        idesc = KIND["BF16"][1] | int(row["n"]) >> 3 << 17 | int(row["m"]) >> 4 << 24
        text = ws_program(row["a"] == "tmem", row["collector"])
        few, many = (end(cycles(text, [idesc, rounds, *divmod(count, 3)], threads=128)) for rounds in (1, 3))
        return (many - few) / 2 / count

    for count in (16, 64, 256):
        goals = (0.02,) if count == 256 else (0.05,)
        yield compared(f"umma.ws: {count} in flight", rows("umma_ws"), f"cycles_{count}", partial(each, count), goals)


@cache
def transfer_program(op: str, repeats: int, each: int) -> str:
    """Return a program in which a warp loads or stores tensor memory, with a wait after `each` instructions."""
    registers = [f"%r{10 + i}" for i in range(repeats)]
    names = f"{{{', '.join(registers)}}}"
    one = f"tcgen05.{op}.sync.aligned.32x32b.x{repeats}.b32 " + (
        f"{names}, [%r8];" if op == "ld" else f"[%r8], {names};"
    )
    uses = "max.u32 %r9, %r9, %r10;" if op == "ld" else ""
    lines = "\n".join([*[one] * each, f"tcgen05.wait::{op}.sync.aligned; {uses}"] * UNROLLED)
    return entry(
        "u32 rounds",
        f"""
ld.param.u32 %r3, [rounds]; mov.b32 %r8, 0; mov.b32 %r9, 0; {"".join(f"mov.b32 {r}, 0;" for r in registers)}
ROUND: {lines}
sub.u32 %r3, %r3, 1; setp.ne.u32 %p3, %r3, 0; @%p3 bra ROUND;
ret;""",
    )


@cache
def tensor_copy_program() -> str:
    """Return a program in which each warp copies to tensor memory, commits and waits."""
    return entry(
        "u32 rounds",
        f"""
.shared .align 8 .b8 bars[256];
ld.param.u32 %r3, [rounds]; mov.b32 %r8, 0; mov.b64 %d1, 0; elect.sync _|%p1, -1;
mov.u32 %r4, %tid.x; shr.u32 %r4, %r4, 5; shl.b32 %r4, %r4, 3; mov.b32 %r5, bars; add.u32 %r9, %r4, %r5;
@%p1 mbarrier.init.shared.b64 [%r9], 1;
ROUND: {"@%p1 tcgen05.cp.cta_group::1.128x256b [%r8], %d1;" * UNROLLED}
sub.u32 %r3, %r3, 1; setp.ne.u32 %p3, %r3, 0; @%p3 bra ROUND;
@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r9];
WAIT: mbarrier.try_wait.parity.shared.b64 %p5, [%r9], 0; @!%p5 bra WAIT;
ret;""",
    )


def tensor_memory() -> Iterator[Comparison]:
    """Compare tcgen05.ld, tcgen05.st and tcgen05.cp."""

    def rate(row: Row) -> float:
        each, repeats = int(row["each"]), int(row["repeats"])
        text = transfer_program(row["op"], repeats, each)
        few, many = (end(cycles(text, [n], threads=32)) for n in ROUNDS)
        return 128 * repeats * each * UNROLLED * (ROUNDS[1] - ROUNDS[0]) / (many - few)

    yield compared("tensor memory: ld, st", rows("tmem"), "bytes_per_cycle", rate, (0.15,))

    def copied(row: Row) -> float:
        warps = int(row["warps"])
        few, many = (end(cycles(tensor_copy_program(), [n], threads=32 * warps)) for n in ROUNDS)
        return 4096 * UNROLLED * warps * (ROUNDS[1] - ROUNDS[0]) / (many - few)

    yield compared("tensor memory: cp", rows("tensor_copy"), "bytes_per_cycle", copied, (0.05,))


# ---- copies ----


TENSOR: Final = 1 << 20
"""The address of the tensor in all tensor maps."""


def tensor_map(columns: int, height: int, box: tuple[int, int]) -> bytes:
    """Return the 128 bytes of a tensor map of fp32 [height, columns]. The clock reads no data through it."""
    words = [TENSOR, 2 | 1 << 4 | 7 << 7 | 1 << 18 | (4 * columns >> 4) << 32, 0, 0]
    words += [columns - 1 | (height - 1) << 32, 0, (box[0] - 1) << 56, box[1] - 1]
    return struct.pack("<8Q", *words) + bytes(64)


TMA_LOAD: Final = "cp.async.bulk.tensor.2d.shared::{to}.global.mbarrier::complete_tx::bytes{more}"


@cache
def ring_program(stages: int) -> str:
    """Return a program in which one thread keeps `stages` TMA loads in flight and all threads wait for them."""
    load = f"""
@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r4], %r2;
@%p0 {TMA_LOAD.format(to="cta", more="")} [%r5], [%d0, {{%r10, %r10}}], [%r4];"""
    return entry(
        "b64 map,u32 bytes,u32 loads",
        f"""
.shared .align 8 .b8 bar[64];
mov.b64 %d0, map; cvta.param.u64 %d0, %d0;
ld.param.u32 %r2, [bytes]; ld.param.u32 %r3, [loads];
mov.u32 %r1, %tid.x; setp.eq.u32 %p0, %r1, 0; mov.b32 %r6, bar; mov.b32 %r7, 0; mov.b32 %r10, 0; mov.b32 %r11, 0;
INIT: shl.b32 %r8, %r7, 3; add.u32 %r4, %r6, %r8;
@%p0 mbarrier.init.shared.b64 [%r4], 1;
add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, {stages}; @%p1 bra INIT;
bar.sync 0; mov.b32 %r7, 0;
FILL: shl.b32 %r8, %r7, 3; add.u32 %r4, %r6, %r8; mul.lo.u32 %r5, %r7, %r2; {load}
add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, {stages}; @%p1 bra FILL;
mov.b32 %r7, 0;
NEXT: shl.b32 %r8, %r7, 3; add.u32 %r4, %r6, %r8; mul.lo.u32 %r5, %r7, %r2;
WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r4], %r11; @%p2 bra DONE; bra WAIT;
DONE: {load}
add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, {stages}; @%p1 bra SAME; mov.b32 %r7, 0; xor.b32 %r11, %r11, 1;
SAME: sub.u32 %r3, %r3, 1; setp.ne.u32 %p3, %r3, 0; @%p3 bra NEXT;
ret;""".replace("mov.b64 %d0, map; cvta.param.u64 %d0, %d0;", "mov.b64 %d1, map; cvta.param.u64 %d0, %d1;"),
    ).replace(".param .b64 map", ".param .align 64 .b8 map[128]")


LOADS: Final = (40, 200)
"""Loads of a short and of a long run. Their difference is the steady state."""


def tma_throughput() -> Iterator[Comparison]:
    """Compare 2D TMA loads from HBM by all SMs."""

    def each(row: Row) -> float:
        box = int(row["box_columns"]), int(row["box_rows"])
        text, size = ring_program(int(row["stages"])), 4 * box[0] * box[1]
        few, many = (end(cycles(text, [tensor_map(box[0], 1 << 20, box), size, n], threads=32)) for n in LOADS)
        return (many - few) / (LOADS[1] - LOADS[0])

    yield compared("TMA: throughput", rows("tma_throughput"), "cycles_per_load", each, (0.10,))


TALL: Final = 128
"""The rows of a box whose rows are narrow."""


def tma_rows() -> Iterator[Comparison]:
    """Compare how many rows of a box an SM loads from L2, by the width of the rows."""

    def rate(row: Row) -> float:
        box = int(row["row_bytes"]) // 4, TALL
        size = 4 * box[0] * box[1]
        given: list[int | bytes] = [tensor_map(box[0], 1 << 20, box), size]
        few, many = (end(cycles(ring_program(8), [*given, n], threads=32, misses={TENSOR: 0.0})) for n in LOADS)
        return TALL * (LOADS[1] - LOADS[0]) / (many - few) * float(row["ghz"])

    yield compared("TMA: rows", rows("tma_rows"), "rows_per_ns", rate, (0.10,))


@cache
def cluster_program(multicast: bool) -> str:
    """Return a program whose rounds are: each of four warps loads a box and waits, then a cluster barrier.

    multicast: only the first CTA issues the loads, for all CTAs.
    """
    to = "cluster" if multicast else "cta"
    load = TMA_LOAD.format(to=to, more=".multicast::cluster" if multicast else "")
    mask, by = (", %h1", "%p4") if multicast else ("", "%p1")
    return entry(
        "b64 map,u32 bytes,u32 rounds,u16 ranks",
        f"""
.shared .align 8 .b8 bar[32]; .shared .align 128 .b8 window[128];
mov.b64 %d1, map; cvta.param.u64 %d0, %d1;
ld.param.u32 %r2, [bytes]; ld.param.u32 %r3, [rounds]; ld.param.u16 %h1, [ranks];
mov.u32 %r1, %tid.x; shr.u32 %r4, %r1, 5; and.b32 %r5, %r1, 31; setp.eq.u32 %p1, %r5, 0;
mov.u32 %r9, %cluster_ctarank; setp.eq.and.u32 %p4, %r9, 0, %p1;
mov.b32 %r6, bar; shl.b32 %r7, %r4, 3; add.u32 %r6, %r6, %r7; mov.b32 %r10, 0; mov.b32 %r11, 0;
@%p1 mbarrier.init.shared.b64 [%r6], 1;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
mul.lo.u32 %r8, %r4, %r2; mov.b32 %r12, window; add.u32 %r8, %r8, %r12;
ROUND:
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r6], %r2;
@{by} {load} [%r8], [%d0, {{%r10, %r10}}], [%r6]{mask};
WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r6], %r11; @%p2 bra DONE; bra WAIT;
DONE: xor.b32 %r11, %r11, 1;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
sub.u32 %r3, %r3, 1; setp.ne.u32 %p3, %r3, 0; @%p3 bra ROUND;
ret;""",
    ).replace(".param .b64 map", ".param .align 64 .b8 map[128]")


WARPS: Final = 4
ROUNDS: Final = (8, 24)


def tma_multicast() -> Iterator[Comparison]:
    """Compare loads of the same boxes by all CTAs of a cluster, with and without multicast."""

    def whole(row: Row) -> float:
        cluster, box = int(row["cluster"]), (int(row["box_columns"]), int(row["box_rows"]))
        text, multicast = cluster_program(row["mode"] == "1"), row["mode"] == "1"
        misses = {TENSOR: 1.0 if multicast else 1 / cluster}
        merged = {} if multicast else {TENSOR: 1 - 1 / cluster}
        shares: dict[str, Any] = {"misses": misses, "merged": merged, "cluster": cluster, "threads": 32 * WARPS}
        few, many = (
            end(cycles(text, [tensor_map(box[0], 1 << 20, box), int(row["bytes"]), n, (1 << cluster) - 1], **shares))
            for n in ROUNDS
        )
        clusters = int(B200.sms) // cluster
        rounds = int(row["loads"]) / (clusters * cluster * WARPS)
        return (many - few) / (ROUNDS[1] - ROUNDS[0]) * rounds * -(-clusters // B200.slots(cluster))

    yield compared("TMA: multicast", rows("tma_multicast"), "sm_cycles", whole, (0.15,))


@cache
def copy_program(stages: int, size: int) -> str:
    """Return a program in which each thread copies `size` bytes per round, with at most `stages` rounds in flight.

    The measured program waits by `__pipeline_wait_prior`.
    """
    return entry(
        "u32 rounds",
        f"""
.shared .align 16 .b8 window[16384];
ld.param.u32 %r3, [rounds]; mov.u32 %r1, %tid.x; mul.lo.u32 %r2, %r1, {size}; mov.b32 %r4, window;
add.u32 %r2, %r2, %r4; mov.b64 %d1, 4096;
ROUND: cp.async.wait_group {min(stages - 1, MOST_GROUPS)};
cp.async.ca.shared.global [%r2], [%d1], {size};
cp.async.commit_group;
sub.u32 %r3, %r3, 1; setp.ne.u32 %p3, %r3, 0; @%p3 bra ROUND;
cp.async.wait_group 0;
ret;""",
    )


def cp_async_throughput() -> Iterator[Comparison]:
    """Compare the throughput of cp.async from HBM by all SMs."""

    def rate(row: Row) -> float:
        stages, threads, size, ctas = (int(row[c]) for c in ("stages", "threads", "bytes_a_thread", "ctas_per_sm"))
        text = copy_program(stages, size)
        few, many = (end(cycles(text, [n], threads=threads, resident=ctas)) for n in ROUNDS)
        each = (many - few) / (ROUNDS[1] - ROUNDS[0])
        return threads * size * ctas / each * B200.sms * B200.max_clock_ghz * 1e9

    yield compared("cp.async: throughput", rows("cp_async_throughput"), "bytes_per_s", rate, (0.15,))


def cp_async_latency() -> Iterator[Comparison]:
    """Compare the latency of one cp.async by all threads. The measurements are medians, with a spread of 2x."""

    def latency(row: Row) -> float:
        threads, size, ctas = (int(row[c]) for c in ("threads", "bytes_a_thread", "ctas_per_sm"))
        return end(cycles(copy_program(1, size), [1], threads=threads, resident=ctas))

    yield compared("cp.async: latency", rows("cp_async_latency"), "cycles_median", latency, (0.15,))


# ---- an H200 ----


def round_cycles(micro: microbenchmarks.Micro, chip: Chip) -> float:
    """Return the predicted cycles of one operation of a microbenchmark's round."""
    source: list[int | bytes] = []
    more: list[int] = []
    if micro.box is not None:
        columns, _rows = micro.box
        source, more = [tensor_map(columns, micro.tensor // (4 * columns), micro.box)], [(1 << 20) - 1]
    elif micro.tensor:
        source, more = [TENSOR], [0]
    shares: dict[str, Any] = {"threads": micro.threads, "cluster": micro.cluster, "shared": micro.shared, "chip": chip}
    shares["holds"] = bool(micro.tensor) and not micro.misses
    shares |= {"misses": {TENSOR: micro.misses}, "sharers": micro.ctas}
    few, many = (end(cycles(micro.text, [*source, 0, n, *more], **shares)) for n in micro.rounds)
    return (many - few) / (micro.rounds[1] - micro.rounds[0]) / micro.each


def hopper() -> Iterator[Comparison]:
    """Compare the microbenchmarks that this project measured on an H200."""
    for kind in microbenchmarks.KINDS:

        def model(row: Row, kind: microbenchmarks.Kind = kind) -> float:
            return round_cycles(kind.program(row), H200)

        yield compared(kind.name, microbenchmarks.rows(kind.file), "cycles", model, kind.goals)


# ---- FlashAttention-4 ----


def fa4_forward() -> Iterator[Comparison | str]:
    """Compare FlashAttention-4's forward kernel.

    The clock's parameters may be fitted to one half of the points. They are never fitted to the other sets: the other
    half, another build on the same B200, a build without register spills on a second B200, and other people's B200s.
    """
    if not fa4.installed():
        yield "FlashAttention-4 is not predicted: pip install flash-attn-4 triton"
        return
    points, unspilled, elsewhere = rows("fa4_forward"), rows("fa4_registers"), rows("fa4_elsewhere")
    known = [*points, *unspilled, *elsewhere]
    predicted = dict(zip(map(id, known), fa4.forward(known), strict=True))
    halves = [points[first :: fa4.FITTED] for first in range(fa4.FITTED)]
    sets = (
        ("may be fitted to", halves[0], "tflops"),
        ("never fitted to", halves[1], "tflops"),
        ("another build", points, "other_build"),
        ("without spills", unspilled, "tflops"),
        ("other B200s", elsewhere, "tflops"),
    )
    for name, some, measured in sets:
        yield compared(f"FlashAttention-4: {name}", some, measured, lambda row: predicted[id(row)], (0.10, 0.20))
    locked = rows("fa4_gb300")
    predicted |= dict(zip(map(id, locked), fa4.at_locked_rate(locked, "gb300"), strict=True))
    yield compared("FlashAttention-4: GB300", locked, "tflops", lambda row: predicted[id(row)], (0.10, 0.20))
    pairs = [
        (float(a["tflops"]) - float(b["tflops"])) * (predicted[id(a)] - predicted[id(b)])
        for a, b in combinations(points, 2)
    ]
    yield f"FlashAttention-4: {sum(same > 0 for same in pairs)} of {len(pairs)} pairs of points in the order measured"


if __name__ == "__main__":
    main()
