"""Microbenchmarks of Hopper in PTX. lab/clock.py runs them under the clock, lab/silicon.py on a GPU.

Each program reads clock64 before and after its rounds, and thread 0 of each CTA stores the difference. The time of one
round is the difference of a long and a short run over their difference in rounds. lab/data/h200 has the measurements
of an H200.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DATA: Final = Path(__file__).parent / "data" / "h200"
Row = Mapping[str, str]
REGISTERS: Final = ".reg .pred %p<10>; .reg .b16 %h<4>; .reg .b32 %r<64>; .reg .b64 %d<48>; .reg .f32 %f<160>;"
START_CLOCK: Final = "bar.sync 0; mov.u64 %d40, %clock64;"
STOP_CLOCK: Final = "bar.sync 0; mov.u64 %d42, %clock64;"
STORE_CYCLES: Final = """mov.u32 %r60, %tid.x; setp.ne.u32 %p9, %r60, 0; @%p9 ret;
mov.u32 %r61, %ctaid.x; ld.param.u64 %d44, [out]; mad.wide.u32 %d44, %r61, 8, %d44;
sub.u64 %d42, %d42, %d40; st.global.u64 [%d44], %d42; ret;"""
END: Final = f"{STOP_CLOCK}\n{STORE_CYCLES}"
NEXT_ROUND: Final = "sub.u32 %r50, %r50, 1; setp.ne.u32 %p8, %r50, 0; @%p8 bra ROUND;"
UNREACHED: Final = "0f3F9DF3B6"
"""A value that no result has. Comparing a result with it keeps the compiler from removing the computation."""


@dataclass(frozen=True)
class Micro:
    """One measurement: the cycles of one of the `each` operations of a round, from a short and a long run.

    rounds: the rounds of both runs. tensor: bytes that are loaded from; misses: the fraction of loads that miss L2.
    box: for TMA, fp32 columns and rows.
    """

    text: str
    threads: int = 32
    ctas: int = 1
    cluster: int = 1
    shared: int = 1024
    rounds: tuple[int, int] = (20, 120)
    each: int = 1
    box: tuple[int, int] | None = None
    tensor: int = 0
    misses: float = 0.0


def rows(name: str) -> list[Row]:
    """Read a file of an H200's measurements."""
    lines = (DATA / f"{name}.csv").read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def entry(params: str, body: str, version: str = "8.0", target: str = "sm_90a", threads: int = 256) -> str:
    """Return a PTX module with one kernel whose dynamic shared memory is `pool`. threads: the block size limit."""
    listed = ", ".join(f".param .{p.split()[0]} {p.split()[1]}" for p in params.split(","))
    listed = listed.replace(".param .b64 map", ".param .align 64 .b8 map[128]")
    head = f".version {version}\n.target {target}\n.address_size 64\n.extern .shared .align 1024 .b8 pool[];"
    load = "ld.param.u32 %r50, [rounds];"
    limit = f" .maxntid {threads}, 1, 1" if threads > 256 else ""
    return f"{head}\n.visible .entry k({listed}){limit}\n{{\n{REGISTERS}\n{load}\n{body}\n}}\n"


DESCRIPTORS: Final = f"""mov.u32 %r9, %tid.x; shr.u32 %r9, %r9, 7; shfl.sync.idx.b32 %r9, %r9, 0, 31, -1;
mov.u32 %r10, pool; mad.lo.u32 %r11, %r9, 8192, %r10; add.u32 %r12, %r10, 32768;
shr.u32 %r11, %r11, 4; shr.u32 %r12, %r12, 4; and.b32 %r11, %r11, 16383; and.b32 %r12, %r12, 16383;
cvt.u64.u32 %d1, %r11; cvt.u64.u32 %d2, %r12; mov.u64 %d3, {1 << 16 | 64 << 32 | 1 << 62};
or.b64 %d1, %d1, %d3; or.b64 %d2, %d2, %d3; setp.eq.u32 %p1, %r50, %r50;
"""
"""wgmma's matrix descriptors: A of this warpgroup, B shared by all."""


def _products(row: Row, count: int) -> tuple[str, str, str]:
    """Return a round of `count` MMAs in one wgmma group, the code before all rounds, and the code that uses results."""
    n = int(row["n"])
    k, types = (32, "e4m3.e4m3") if row.get("kind") == "e4m3" else (16, "bf16.bf16")
    in_registers = row["a_from"] == "registers"
    results = [f"%f{i}" for i in range(n // 2)]
    a = "{%r20, %r21, %r22, %r23}" if in_registers else "%d1"
    majors = ", 0" * ((k == 16) * (1 if in_registers else 2))
    name = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.f32.{types}"
    product = f"{name} {{{', '.join(results)}}}, {a}, %d2, %p1, 1, 1{majors};\n"
    zeros = "".join(f"mov.f32 {r}, 0f00000000;" for r in results) + "".join(f"mov.b32 %r{i}, 0;" for i in range(20, 24))
    work = f"""ROUND: wgmma.fence.sync.aligned;
{product * count}wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
{NEXT_ROUND}"""
    kept = f"""{"".join(f"add.f32 %f0, %f0, {r};" for r in results[1:])}
setp.eq.f32 %p4, %f0, {UNREACHED}; ld.param.u64 %d46, [out]; @%p4 st.global.f32 [%d46], %f0;"""
    return work, zeros + DESCRIPTORS, kept


def wgmma(row: Row) -> Micro:
    """Measure a round of wgmma: a group of MMAs, a commit, a wait."""
    work, before, kept = _products(row, int(row["in_flight"]))
    text = entry("u64 out,u32 rounds", f"{before}{START_CLOCK}\n{work}\nbar.sync 0; {kept}\n{END}")
    return Micro(text, threads=128 * int(row["groups"]), shared=98304)


CHAINS: Final = {
    "ffma": "fma.rn.f32 %f{i}, %f{i}, %f100, %f100;",
    "ex2": "ex2.approx.ftz.f32 %f{i}, %f{i};",
    "imad": "mad.lo.u32 %r{i}, %r{i}, %r41, %r40;",
    "prmt": "prmt.b32 %r{i}, %r{i}, %r41, %r40;",
    "cvt_bf16x2": "cvt.rn.bf16x2.f32 %r{i}, %f{i}, %f100; mov.b32 %f{i}, %r{i};",
    "shfl": "shfl.sync.bfly.b32 %r{i}, %r{i}, 1, 31, -1;",
}
UNROLLED: Final = 32


def pipes(row: Row) -> Micro:
    """Measure dependent chains of one instruction in each warp."""
    chains, op = int(row["chains"]), CHAINS[row["op"]]
    kept = "".join(
        f"cvt.rn.f32.s32 %f111, %r{i}; add.f32 %f{i}, %f{i}, %f111; add.f32 %f110, %f110, %f{i};" for i in range(chains)
    )
    text = entry(
        "u64 out,u32 rounds",
        f"""mov.u32 %r40, %tid.x; add.u32 %r41, %r40, 3; cvt.rn.f32.u32 %f100, %r40; mov.f32 %f110, 0f00000000;
{"".join(f"cvt.rn.f32.u32 %f{i}, %r40; add.u32 %r{i}, %r40, {i};" for i in range(chains))}
{START_CLOCK}
ROUND: {"".join(op.format(i=i) for i in range(chains)) * UNROLLED}
{NEXT_ROUND}
bar.sync 0; {kept} setp.eq.f32 %p4, %f110, {UNREACHED}; ld.param.u64 %d46, [out]; @%p4 st.global.f32 [%d46], %f110;
{END}""",
    )
    return Micro(text, threads=32 * int(row["warps"]), rounds=(4, 20), each=UNROLLED)


FMA: Final = "fma.rn.f32 %f{chain}, %f{chain}, %f{b}, %f{c};"
BESIDE_PRODUCTS, BESIDE_CHAINS, COLUMNS_AN_FMA = 8, 8, 4
"""MMAs per group; independent FMA chains; columns of an MMA per concurrent FMA."""


def with_fmas(row: Row) -> Micro:
    """Measure the cycles of one MMA of one or two warpgroups while FMAs run.

    The FMAs are the warpgroups' own, between issue and wait, or those of four other warps. They end before the MMAs.
    """
    groups, own = int(row["groups"]), row["by"] == "own warps"
    count = int(row["n"]) // COLUMNS_AN_FMA * (1 if own else groups)
    fmas = "".join(FMA.format(chain=128 + i, b=140 + i, c=148 + i) for i in range(BESIDE_CHAINS)) * count
    filled = "cvt.rn.f32.u32 %f110, %r51;" + "".join(f"mov.f32 %f{i}, %f110;" for i in range(128, 156))
    summed = "".join(f"add.f32 %f110, %f110, %f{128 + i};" for i in range(BESIDE_CHAINS))
    summed += f"setp.eq.f32 %p4, %f110, {UNREACHED}; ld.param.u64 %d46, [out]; @%p4 st.global.f32 [%d46], %f110;"
    work, before, kept = _products(row, BESIDE_PRODUCTS)
    if own:
        work = work.replace("wgmma.wait_group", f"{fmas}\nwgmma.wait_group")
    threads = 128 * groups + 128 * (not own)
    body = f"""mov.u32 %r51, %tid.x; {filled} setp.ge.u32 %p2, %r51, {128 * groups}; @%p2 bra OTHERS;
{before}
{START_CLOCK}
{work}
{STOP_CLOCK} {kept} {summed} {STORE_CYCLES}
OTHERS: {START_CLOCK}
BESIDE: {fmas}
sub.u32 %r50, %r50, 1; setp.ne.u32 %p3, %r50, 0; @%p3 bra BESIDE;
bar.sync 0; {summed} ret;"""
    text = entry("u64 out,u32 rounds", body, threads=threads)
    return Micro(text, threads=threads, shared=98304, each=BESIDE_PRODUCTS * groups)


WAIT: Final = "W{i}: mbarrier.try_wait.parity.shared.b64 %p3, [%r4], 1; @%p3 bra D{i}; bra W{i}; D{i}:"
STEPS: Final = {
    "wait": WAIT,
    "wait expect": WAIT + "@%p7 mbarrier.arrive.expect_tx.shared.b64 _, [%r5], 0;",
    "wait arrive": WAIT + "@%p7 mbarrier.arrive.shared.b64 _, [%r5];",
    "bar.sync": "bar.sync 0;",
    "barrier.cluster": "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
}
PING_PONG: Final = """@!%p2 bra SECOND;
ROUND: @%p7 mbarrier.arrive.shared.b64 _, [%r4];
W1: mbarrier.try_wait.parity.shared.b64 %p3, [%r5], %r6; @%p3 bra D1; bra W1;
D1: xor.b32 %r6, %r6, 1; sub.u32 %r50, %r50, 1; setp.ne.u32 %p8, %r50, 0; @%p8 bra ROUND; bra LAST;
SECOND: mbarrier.try_wait.parity.shared.b64 %p3, [%r4], %r6; @%p3 bra D2; bra SECOND;
D2: @%p7 mbarrier.arrive.shared.b64 _, [%r5];
xor.b32 %r6, %r6, 1; sub.u32 %r50, %r50, 1; setp.ne.u32 %p8, %r50, 0; @%p8 bra SECOND;
LAST:"""
PEER_SIGNALS: Final = {
    "peer arrive": ("", "@%p7 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8];"),
    "peer st.async": (
        "@%p7 mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 4;",
        "@%p7 st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r9], %r1, [%r8];",
    ),
}
"""A CTA's code before it waits, and its signal to the peer CTA."""
PEER_PING_PONG: Final = """mov.u32 %r2, %cluster_ctarank; xor.b32 %r3, %r2, 1; setp.ne.u32 %p2, %r2, 0;
mapa.shared::cluster.u32 %r8, %r4, %r3; add.u32 %r9, %r8, 64; @%p2 bra SECOND;
ROUND: ARM SEND
W1: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p3, [%r4], %r6; @%p3 bra D1; bra W1;
D1: xor.b32 %r6, %r6, 1; sub.u32 %r50, %r50, 1; setp.ne.u32 %p8, %r50, 0; @%p8 bra ROUND; bra LAST;
SECOND: ARM
W2: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p3, [%r4], %r6; @%p3 bra D2; bra W2;
D2: SEND xor.b32 %r6, %r6, 1; sub.u32 %r50, %r50, 1; setp.ne.u32 %p8, %r50, 0; @%p8 bra SECOND;
LAST: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""


def _sync_rounds(op: str) -> tuple[str, int]:
    """Return the rounds of a synchronisation measurement, and the operations per round."""
    if op in PEER_SIGNALS:
        arm, send = PEER_SIGNALS[op]
        return PEER_PING_PONG.replace("ARM", arm).replace("SEND", send), 1
    if op == "pingpong":
        return PING_PONG, 1
    return "ROUND:" + "".join(STEPS[op].replace("{i}", str(i)) for i in range(8)) + NEXT_ROUND, 8


def sync(row: Row) -> Micro:
    """Measure waits on completed mbarrier phases, barriers, and ping-pong between two warps or two CTAs."""
    body, each = _sync_rounds(row["op"])
    ctas = int(row["ctas"])
    meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if row["op"] in PEER_SIGNALS else ""
    text = entry(
        "u64 out,u32 rounds",
        f"""mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p2, %r1, 32; mov.u32 %r6, 0;
mov.u32 %r4, pool; add.u32 %r5, %r4, 8;
@%p1 mbarrier.init.shared.b64 [%r4], 1; @%p1 mbarrier.init.shared.b64 [%r5], 1;
fence.mbarrier_init.release.cluster; {meet}
{START_CLOCK} elect.sync _|%p7, -1;
{body}
{END}""",
        "8.1",
    )
    return Micro(text, 32 * int(row["warps"]), ctas, ctas, rounds=(50, 250), each=each)


PASSED: Final = "@%p7 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r9], [%r5], %r10, [%r8];"


def passed(row: Row) -> Micro:
    """Measure a round of bulk copies between CTAs of a cluster: each to the next CTA, or all to the first."""
    ctas, size, copies, all_to_first = int(row["ctas"]), int(row["bytes"]), int(row["copies"]), row["to"] == "first"
    senders = ctas - 1 if all_to_first else 1
    to = "mov.u32 %r3, 0;" if all_to_first else f"add.u32 %r3, %r2, 1; and.b32 %r3, %r3, {ctas - 1};"
    both = "setp.eq.u32 %p5, 0, 0; mov.pred %p6, %p5;"
    roles = "setp.ne.u32 %p5, %r2, 0; not.pred %p6, %p5;" if all_to_first else both
    text = entry(
        "u64 out,u32 rounds",
        f"""mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r6, 0; mov.u32 %r4, pool; add.u32 %r5, %r4, 1024;
@%p1 mbarrier.init.shared.b64 [%r4], 1; fence.mbarrier_init.release.cluster;
mov.u32 %r2, %cluster_ctarank; {to} {roles} mov.u32 %r10, {size};
mapa.shared::cluster.u32 %r8, %r4, %r3; add.u32 %r9, %r8, {1024 + size};
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
{START_CLOCK} elect.sync _|%p7, -1; and.pred %p4, %p6, %p7; and.pred %p7, %p7, %p5;
ROUND: @%p4 mbarrier.arrive.expect_tx.shared.b64 _, [%r4], {senders * copies * size};
{PASSED * copies}
@!%p6 bra MEET;
W: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p3, [%r4], %r6; @%p3 bra MEET; bra W;
MEET: xor.b32 %r6, %r6, 1; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
{NEXT_ROUND}
{END}""",
        "8.1",
    )
    return Micro(text, 32, ctas, ctas, 1024 + 2 * size, (50, 250))


TMA: Final = "cp.async.bulk.tensor.2d"
LOAD: Final = f"""@%p7 mbarrier.arrive.expect_tx.shared.b64 _, [%r4], %r2;
@%p7 {TMA}.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%d0, {{%r10, %r12}}], [%r4]; NEXTROW"""
NEXT_ROW: Final = "add.u32 %r12, %r12, %r13; and.b32 %r12, %r12, %r14;"
PLACE: Final = "shl.b32 %r8, %r7, 3; add.u32 %r4, %r6, %r8; mad.lo.u32 %r5, %r7, %r2, %r15;"


def _copies(row: Row, sharers: int, work: str, size: int) -> Micro:
    """Return a TMA program of one warp per CTA. The tensor's rows are dealt to groups of `sharers` CTAs round-robin."""
    columns, height, stages = (int(row[c]) for c in ("box_columns", "box_rows", "stages"))
    text = entry(
        "b64 map,u64 out,u32 rounds,u32 mask",
        f"""mov.b64 %d1, map; cvta.param.u64 %d0, %d1; ld.param.u32 %r14, [mask]; mov.u32 %r2, {size};
mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r6, pool; mov.u32 %r7, 0; mov.u32 %r10, 0; mov.u32 %r11, 0;
INIT: shl.b32 %r8, %r7, 3; add.u32 %r4, %r6, %r8; @%p1 mbarrier.init.shared.b64 [%r4], 1;
add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, {stages}; @%p2 bra INIT; fence.mbarrier_init.release.cluster;
add.u32 %r15, %r6, 1024; mov.u32 %r5, %r15; mov.u32 %r24, %ctaid.x; div.u32 %r24, %r24, {sharers};
mul.lo.u32 %r12, %r24, {height}; and.b32 %r12, %r12, %r14; mov.u32 %r13, %nctaid.x; mul.lo.u32 %r13, %r13, {height};
{START_CLOCK} elect.sync _|%p7, -1; mov.u32 %r7, 0;
{work.replace("NEXTROW", NEXT_ROW).replace("STAGES", str(stages))}
{END}""",
    )
    where, ctas = row["source"] if "source" in row else row["target"], int(row["ctas"])
    tensor = 1 << 24 if where == "L2" else 1 << 33
    misses = 1.0 if where == "HBM" else 0.0
    return Micro(text, 32, ctas, 1, 1024 + stages * size, (60, 260), 1, (columns, height), tensor, misses)


def tma(row: Row) -> Micro:
    """Measure TMA loads: a warp keeps `stages` in flight."""
    size = 4 * int(row["box_columns"]) * int(row["box_rows"])
    work = f"""FILL: {PLACE} {LOAD}
add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, STAGES; @%p2 bra FILL; mov.u32 %r7, 0;
ROUND: {PLACE}
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r4], %r11; @%p3 bra THERE; bra WAIT;
THERE: {LOAD}
add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, STAGES; @%p2 bra SAME; mov.u32 %r7, 0; xor.b32 %r11, %r11, 1;
SAME: {NEXT_ROUND}
mov.u32 %r16, STAGES;
DRAIN: {PLACE}
LEFT: mbarrier.try_wait.parity.shared.b64 %p3, [%r4], %r11; @%p3 bra GONE; bra LEFT;
GONE: add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, STAGES; @%p2 bra OTHER; mov.u32 %r7, 0; xor.b32 %r11, %r11, 1;
OTHER: sub.u32 %r16, %r16, 1; setp.ne.u32 %p8, %r16, 0; @%p8 bra DRAIN;"""
    return _copies(row, int(row["sharers"]), work, size)


def tma_store(row: Row) -> Micro:
    """Measure TMA stores: a warp keeps `stages` in flight that have not yet read their source."""
    size = 4 * int(row["box_columns"]) * int(row["box_rows"])
    work = f"""ROUND: @%p7 {TMA}.global.shared::cta.bulk_group [%d0, {{%r10, %r12}}], [%r5]; NEXTROW
@%p7 cp.async.bulk.commit_group; @%p7 cp.async.bulk.wait_group.read {int(row["stages"]) - 1};
{NEXT_ROUND} @%p7 cp.async.bulk.wait_group 0;"""
    return _copies(row, 1, work, size)


BARRIERS: Final = 1024
"""Bytes of shared memory before the slots of gathered rows, for mbarriers."""
GATHERED: Final = {"L2": 1 << 24, "HBM": 1 << 30}
"""The bytes of the tensor from which cp.async gathers rows."""
LANES_BYTES, ROWS_AT_ONCE = 128, 4
"""Contiguous bytes that one cp.async of 16 bytes per lane copies of a row; the rows of which it copies them."""
RANDOM: Final = "mad.lo.u32 %r6, %r6, 1664525, 1013904223;"
ARRIVED: Final = "{at}: mbarrier.try_wait.parity.shared.b64 %p3, [%r4], %r12; @%p3 bra {at}_END; bra {at}; {at}_END:"


def _gathers(row: Row) -> tuple[str, str, str]:
    """Return a round of a warp that gathers four random rows, the code before all rounds, and that after them.

    Each warp has `groups` slots in shared memory. %r3: the number of the warp. %d0: the tensor.
    """
    groups, width, on_barrier = int(row["groups"]), int(row["row_bytes"]), row["done_by"] == "mbarrier"
    slot, tensor = width * ROWS_AT_ONCE, GATHERED[row["source"]]
    mask = (1 << (tensor // width).bit_length() - 1) - 1
    copies = "".join(
        f"cp.async.cg.shared.global [%r10+{at * ROWS_AT_ONCE}], [%d1+{at}], 16;\n"
        for at in range(0, width, LANES_BYTES)
    )
    advance = f"""add.u32 %r10, %r10, {slot}; add.u32 %r4, %r4, 8; setp.ge.u32 %p2, %r4, %r11;
@%p2 sub.u32 %r10, %r10, {slot * groups}; @%p2 sub.u32 %r4, %r4, {8 * groups}; @%p2 xor.b32 %r12, %r12, 1;"""
    wait, done, left = f"cp.async.wait_group {groups - 1};", "cp.async.commit_group;", "cp.async.wait_group 0;"
    if on_barrier:
        wait, done = ARRIVED.replace("{at}", "WAIT"), "cp.async.mbarrier.arrive.noinc.shared.b64 [%r4];"
        left = f"""mov.u32 %r50, {groups};
DRAIN: {ARRIVED.replace("{at}", "LEFT")} {advance} sub.u32 %r50, %r50, 1; setp.ne.u32 %p8, %r50, 0; @%p8 bra DRAIN;"""
    before = f"""ld.param.u32 %r6, [seed]; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31; setp.eq.u32 %p1, %r2, 0;
mov.u32 %r8, %ctaid.x; mov.u32 %r9, %ntid.x; mad.lo.u32 %r8, %r8, %r9, %r1; shr.u32 %r8, %r8, 3;
add.u32 %r6, %r6, %r8; mul.lo.u32 %r6, %r6, 0x9E3779B1;
and.b32 %r5, %r2, 7; shl.b32 %r5, %r5, 4; cvt.u64.u32 %d1, %r5; add.u64 %d0, %d0, %d1;
mov.u32 %r9, pool; mad.lo.u32 %r4, %r3, 64, %r9; mad.lo.u32 %r10, %r3, {slot * groups}, %r9; shl.b32 %r2, %r2, 4;
add.u32 %r10, %r10, {BARRIERS}; add.u32 %r10, %r10, %r2; add.u32 %r11, %r4, {8 * groups}; mov.u32 %r12, 1;
{"".join(f"@%p1 mbarrier.init.shared.b64 [%r4+{8 * i}], 32;" for i in range(groups))}"""
    work = f"""{RANDOM} shr.u32 %r7, %r6, 8; and.b32 %r7, %r7, {mask}; mad.wide.u32 %d1, %r7, {width}, %d0;
{wait}
{copies}{done}
{advance}"""
    return work, before, left


def cp_async(row: Row) -> Micro:
    """Measure a group of cp.async: four random rows per warp, 16 bytes per lane. A warp keeps `groups` in flight.

    done_by: the completion that a warp waits for before it fills a slot again, of a group or on an mbarrier.
    """
    warps, ctas, source = int(row["warps"]), int(row["ctas"]), row["source"]
    work, before, left = _gathers(row)
    text = entry(
        "u64 data,u64 out,u32 rounds,u32 seed",
        f"""ld.param.u64 %d0, [data]; mov.u32 %r3, %tid.x; shr.u32 %r3, %r3, 5; shfl.sync.idx.b32 %r3, %r3, 0, 31, -1;
{before}
{START_CLOCK}
ROUND: {work} {NEXT_ROUND}
{left}
{END}""",
        threads=32 * warps,
    )
    shared = BARRIERS + warps * int(row["groups"]) * int(row["row_bytes"]) * ROWS_AT_ONCE
    misses = float(source == "HBM")
    return Micro(text, 32 * warps, ctas, 1, shared, (16, 64), 1, None, GATHERED[source], misses)


@dataclass(frozen=True)
class Kind:
    """One kind of measurement: its file, the program of a row, the goals for mean and worst error."""

    name: str
    file: str
    program: Callable[[Row], Micro]
    goals: tuple[float, ...]


KINDS: Final = (
    Kind("H200 wgmma", "wgmma", wgmma, (0.05, 0.15)),
    Kind("H200 wgmma beside FMAs", "beside", with_fmas, (0.05, 0.15)),
    Kind("H200 pipes", "pipes", pipes, (0.05,)),
    Kind("H200 synchronisation", "sync", sync, (0.15,)),
    Kind("H200 copies to other CTAs", "passed", passed, (0.15,)),
    Kind("H200 TMA loads", "tma", tma, (0.15,)),
    Kind("H200 TMA stores", "tma_store", tma_store, (0.15,)),
    Kind("H200 cp.async", "cp_async", cp_async, (0.15,)),
    Kind("H100 cp.async from L2", "cp_async_h100", cp_async, (0.15,)),
)
