"""Microbenchmarks of tcgen05 in PTX, for a B200. lab/silicon.py runs them and compares them with the clock.

They follow the scheme of microbenchmarks.py. Operands, accumulators and scale factors are set to zero, so that the
emulated device, which reports reads of unwritten memory, can run them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lab.clock import KIND, rows
from lab.microbenchmarks import NEXT_ROUND, START_CLOCK, STOP_CLOCK, STORE_CYCLES, UNREACHED, Micro, entry

Row = Mapping[str, str]
OPERANDS, COLUMNS, THREADS = 12288, 512, 128
"""Bytes of A and B together, at offset 1024; all columns of tensor memory; the four warps that reach all its lanes."""
A_COLUMN, A_SCALES, B_SCALES, B_START = 256, 288, 320, 4096
MEET: Final = """tcgen05.fence::before_thread_sync; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
tcgen05.fence::after_thread_sync;"""
WIDE: Final = 32
"""Columns per store when tensor memory is cleared."""


def _program(body: str, group: int = 1) -> str:
    """Return a program that measures `body`. %r8: the tensor memory address; %r9: the warp's lanes of it."""
    zeros = ", ".join(["%r10"] * WIDE)
    clear = "".join(
        f"tcgen05.st.sync.aligned.32x32b.x{WIDE}.b32 [%r9+{column}], {{{zeros}}};\n"
        for column in range(0, COLUMNS, WIDE)
    )
    return entry(
        "u64 out,u32 rounds",
        f""".reg .b32 %t<128>;
mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; mov.u32 %r3, %cluster_ctarank; mov.u32 %r4, pool; mov.u32 %r10, 0;
setp.lt.u32 %p1, %r1, 32; setp.eq.u32 %p2, %r1, 0; mad.lo.u32 %r5, %r1, 16, %r4; add.u32 %r6, %r4, {1024 + OPERANDS};
ZERO: st.shared.v4.b32 [%r5+1024], {{%r10, %r10, %r10, %r10}}; add.u32 %r5, %r5, {16 * THREADS};
add.u32 %r7, %r5, 1024; setp.lt.u32 %p3, %r7, %r6; @%p3 bra ZERO;
@%p2 mbarrier.init.shared.b64 [%r4], 1; @%p2 fence.mbarrier_init.release.cluster;
{MEET}
@!%p1 bra ALLOCATED; add.u32 %r6, %r4, 8;
tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%r6], {COLUMNS};
tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;
ALLOCATED: fence.proxy.async; {MEET}
ld.shared.u32 %r8, [%r4+8]; shl.b32 %r9, %r2, 21; add.u32 %r9, %r9, %r8;
{clear}tcgen05.wait::st.sync.aligned; {MEET}
{body}
{STOP_CLOCK} {MEET}
@%p1 tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %r8, {COLUMNS};
{STORE_CYCLES}""",
        "8.8",
        "sm_100a",
    )


def mma(row: Row) -> Micro:
    """Measure the cycles of one MMA: a round is `in_flight` MMAs, a commit, and a wait by all warps."""
    kind, idesc = KIND[row["kind"]]
    ctas, count = int(row["ctas"]), int(row["in_flight"])
    a = "[%r11]" if row["a_from"] == "tmem" else "%d1"
    scales = ", [%r12], [%r13]" if kind.startswith("kind::mx") else ""
    form = f"tcgen05.mma.cta_group::{ctas}.{kind}{'.block_scale' if scales else ''}"
    product = f"@%p5 {form} [%r8], {a}, %d2, %r14{scales}, %p6;"
    to = ".multicast::cluster.b64 [%r4], %h1" if ctas == 2 else ".b64 [%r4]"
    body = f"""add.u32 %r11, %r8, {A_COLUMN}; add.u32 %r12, %r8, {A_SCALES}; add.u32 %r13, %r8, {B_SCALES};
mov.u32 %r14, {idesc | int(row["n"]) >> 3 << 17 | int(row["m"]) >> 4 << 24}; mov.b16 %h1, 3; setp.eq.u32 %p6, %r4, %r4;
add.u32 %r15, %r4, 1024; add.u32 %r16, %r15, {B_START}; shr.u32 %r15, %r15, 4; shr.u32 %r16, %r16, 4;
cvt.u64.u32 %d1, %r15; cvt.u64.u32 %d2, %r16; mov.u64 %d3, {8 << 16 | 16 << 32 | 1 << 46};
or.b64 %d1, %d1, %d3; or.b64 %d2, %d2, %d3;
or.b32 %r17, %r2, %r3; setp.ne.b32 %p4, %r17, 0; mov.u32 %r18, 0;
{START_CLOCK}
ROUND: @%p4 bra WAIT; elect.sync _|%p5, -1;
{product * count}
@%p5 tcgen05.commit.cta_group::{ctas}.mbarrier::arrive::one.shared::cluster{to};
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r4], %r18; @%p3 bra DONE; bra WAIT;
DONE: xor.b32 %r18, %r18, 1; {NEXT_ROUND}"""
    return Micro(_program(body, ctas), THREADS, ctas, ctas, 1024 + OPERANDS, (10, 60), count)


def tensor_memory(row: Row) -> Micro:
    """Measure a round of tcgen05.ld or .st: each of four warps issues `in_flight` of `columns` columns and waits."""
    columns, count, op = int(row["columns"]), int(row["in_flight"]), row["op"]
    each = [[f"%t{i}" for i in range(k * columns, (k + 1) * columns)] for k in range(count)]
    form = f"tcgen05.{op}.sync.aligned.32x32b.x{columns}.b32"
    at = [f"[%r9+{k * columns}]" for k in range(count)]
    steps = "".join(
        f"{form} {{{', '.join(names)}}}, {place};" if op == "ld" else f"{form} {place}, {{{', '.join(names)}}};"
        for names, place in zip(each, at, strict=True)
    )
    zeros = "".join(f"mov.b32 {name}, 0;" for names in each for name in names)
    used = "".join(f"xor.b32 %r20, %r20, {names[-1]};" for names in each)
    body = f"""{zeros} mov.b32 %r20, 0;
{START_CLOCK}
ROUND: {steps} tcgen05.wait::{op}.sync.aligned; {used}
{NEXT_ROUND}
mov.b32 %f0, %r20; setp.eq.f32 %p4, %f0, {UNREACHED}; ld.param.u64 %d46, [out]; @%p4 st.global.f32 [%d46], %f0;"""
    return Micro(_program(body), THREADS, shared=1024 + OPERANDS)


MMA_ROWS: Final = [r for r in rows("umma_in_flight") if r["in_flight"] == "64" and r["n"] in ("64", "128", "256")]
"""The published B200 measurements that `make silicon` repeats."""
MEMORY_ROWS: Final = [
    {"op": op, "columns": str(columns), "in_flight": str(count)}
    for op in ("ld", "st")
    for columns, count in ((32, 1), (32, 2), (32, 4), (64, 1), (64, 2), (128, 1))
]
KINDS: Final = (("tcgen05.mma", mma, MMA_ROWS), ("tcgen05.ld and .st", tensor_memory, MEMORY_ROWS))
