"""Bulk operations on contiguous bytes: cp.async.bulk, cp.reduce.async.bulk and their groups, and st.bulk."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from ..chip import RANK_SHIFT, SHARED_BASE
from ..errors import Misaligned, OutOfBounds, UnknownInstruction
from ..leniency import Leniency
from ..machine.agents.bulk import bulk_thread, fill, suspended_for
from ..machine.formats.tensormap import reduced
from ..machine.launch.globalmem import host_bytes
from ..machine.memory.shared import OFFSET_MASK
from ..machine.order.access import Access
from ..machine.order.cells import pieces
from ..machine.synchronisation.mbarrier import MBarrier
from ..machine.topology import Cta, Warp
from ..ptx.syntax import Imm, Instr
from .atomics import DTYPES
from .lane_values import active_lanes, of_lane
from .mbarrier import check_initialised, mbarrier_at
from .registry import BLOCK, CACHE_HINT, SHARED, Action, Modifiers, Publishes, executes, never_communicates, performs

GLOBAL: Final = frozenset({"global"})
OWN: Final = frozenset({"shared::cta"})
COMPLETE_TX: Final = frozenset({"mbarrier::complete_tx::bytes"})
MULTICAST: Final = frozenset({"multicast::cluster"})
BULK_GROUP: Final = frozenset({"bulk_group"})
REDUCTIONS: Final = frozenset({"add", "min", "max", "inc", "dec", "and", "or", "xor"})
BULK_ALIGNMENT: Final = 16
REDUCED: Final = {
    "shared::cluster": {
        "add": ("u32", "s32", "u64"),
        **dict.fromkeys(("min", "max"), ("u32", "s32")),
        **dict.fromkeys(("inc", "dec"), ("u32",)),
        **dict.fromkeys(("and", "or", "xor"), ("b32",)),
    },
    "global": {
        "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"),
        **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64", "f16", "bf16")),
        **dict.fromkeys(("inc", "dec"), ("u32",)),
        **dict.fromkeys(("and", "or", "xor"), ("b32", "b64")),
    },
}
"""The types of each reduction, by target space (PTX ISA 9.1, 9.7.9.25.4.2)."""
Combine = Callable[[np.ndarray, np.ndarray], None]
"""A function (old bytes, new bytes) that writes a copy's or reduction's result into the old bytes."""


def targets(
    ins: Instr, warp: Warp, target: int, barrier: int, ranks: int | None, paired: bool
) -> list[tuple[Cta, int, MBarrier]]:
    """Return (CTA, offset, mbarrier) of each copy. ranks: CTA mask of a multicast; paired: .cta_group::2."""
    if not OWN.isdisjoint(ins.modifiers) and not GLOBAL.isdisjoint(ins.modifiers):
        warp.cta.smem.local_offset(target, ins, warp, f"the destination of {ins.opcode}")
    if ranks is None:
        copies = [(target >> RANK_SHIFT & 0xFF, barrier >> RANK_SHIFT & 0xFF)]
    else:
        chosen = [rank for rank in range(16) if ranks >> rank & 1]
        copies = [(rank, rank & ~1 | barrier >> RANK_SHIFT & 1 if paired else rank) for rank in chosen]
    found = []
    for rank, signalled in copies:
        cta = cta_of(ins, warp, rank)
        mbar = mbarrier_at(warp, barrier & OFFSET_MASK | signalled << RANK_SHIFT, ins)
        check_initialised(mbar, ins, warp)
        found.append((cta, target & OFFSET_MASK, mbar))
    return found


def cta_of(ins: Instr, warp: Warp, rank: int) -> Cta:
    ctas = warp.cta.cluster.ctas
    if rank >= len(ctas):
        raise OutOfBounds(f"{ins.opcode} to CTA rank {rank} of a cluster of {len(ctas)}", ins, warp)
    return ctas[rank]


@executes("cp.async.bulk", publishes=Publishes.WORK, communicates=never_communicates)
def _bulk(ins: Instr) -> Action:
    if "bulk_group" in ins.modifiers:
        _, _, _, hint, masked = Modifiers(ins).pick(GLOBAL, SHARED, BULK_GROUP, CACHE_HINT, {"cp_mask"})
        if masked is not None:
            return _bulk_out(ins, "a bulk store", masked=4 if hint else 3)
        return _bulk_out(ins, "a bulk store")
    target = ins.modifiers[0]
    if "global" in ins.modifiers:
        Modifiers(ins).pick(SHARED, GLOBAL, COMPLETE_TX, MULTICAST, CACHE_HINT)
        return _bulk_in(ins)
    if target != "shared::cluster" or "shared::cta" not in ins.modifiers:
        raise UnknownInstruction(ins, "unsupported combination of state spaces")
    Modifiers(ins).pick({"shared::cluster"}, {"shared::cta"}, COMPLETE_TX)
    return _bulk_across(ins, "a bulk copy")


@executes("cp.reduce.async.bulk", publishes=Publishes.WORK)
def _reduce(ins: Instr) -> Action:
    """Reduce in bulk. Each element is combined atomically, so reductions of the same bytes do not race."""
    spaces, completions = {"global", "shared::cluster"}, BULK_GROUP | COMPLETE_TX
    target, _, completion, _, operation, exact, kind = Modifiers(ins).pick(
        spaces, {"shared::cta"}, completions, CACHE_HINT, REDUCTIONS, {"noftz"}, set(DTYPES)
    )
    allowed = REDUCED.get(target or "", {})
    if kind is None or operation is None or kind not in allowed.get(operation, ()):
        raise UnknownInstruction(ins, f".{operation}.{kind} to .{target}; allowed is {allowed}")
    if (completion in BULK_GROUP) != (target == "global"):
        raise UnknownInstruction(ins, f".{completion} for a reduction to .{target}")
    if (kind in ("f16", "bf16") and operation == "add") != (exact is not None):
        raise UnknownInstruction(ins, ".noftz is required for, and only for, .add.f16 and .add.bf16")
    if target == "global":
        return _bulk_out(ins, "a bulk reduction", _reducing(kind, operation))
    return _bulk_across(ins, "a bulk reduction", _reducing(kind, operation))


def _reducing(kind: str, operation: str) -> Combine:
    dtype = DTYPES[kind]
    width = 2 if dtype == "bf16" else np.dtype(dtype).itemsize

    def combine(there: np.ndarray, new: np.ndarray) -> None:
        """Combine. f32 sums keep subnormals: PTX says that they are flushed, but an H200 keeps them."""
        old, values = (np.ascontiguousarray(x.view(f"u{width}")) for x in (there, new))
        there[:] = np.ascontiguousarray(reduced(old, values, dtype, operation)).view(np.uint8)

    return combine


def copy(there: np.ndarray, new: np.ndarray) -> None:
    """Copy bytes unchanged."""
    there[:] = new


def _check_units(ins: Instr, warp: Warp, what: str, address: int, size: int, *offsets: int) -> None:
    """Raise Misaligned unless size, global address and shared offsets are multiples of 16."""
    places = [("global address", hex(address), address), ("size", size, size)]
    for name, shown, value in places + [("shared offset", hex(offset), offset) for offset in offsets]:
        if value % BULK_ALIGNMENT:
            raise Misaligned(f"{what} with {name} {shown}, which is not a multiple of {BULK_ALIGNMENT}", ins, warp)


def _bulk_in(ins: Instr) -> Action:
    multicast = "multicast::cluster" in ins.modifiers

    def run(warp: Warp, mask: Any, target: Any, source: Any, size: Any, barrier: Any, *rest: Any) -> None:
        memory = warp.cta.launch.memory
        for lane in active_lanes(mask):
            address, count = of_lane(source, lane), of_lane(size, lane)
            _check_units(ins, warp, "a bulk copy", address, count, of_lane(target, lane))
            memory.readable(address, address + count, ins, warp, "a bulk copy")
            ranks = of_lane(rest[0], lane) if multicast else None
            for cta, offset, mbar in targets(ins, warp, of_lane(target, lane), of_lane(barrier, lane), ranks, False):
                if memory.tracks(address):
                    reading = Access(mbar.component, mbar.phase + 1, False, ins, warp, "a bulk copy", via=mbar)
                    warp.cta.cluster.outside.read(np.array([address], np.uint64), count, reading, warp.clock)

                def move(cta: Cta = cta, offset: int = offset, address: int = address, count: int = count) -> None:
                    cta.smem.bytes[offset : offset + count] = np.frombuffer(ctypes.string_at(address, count), np.uint8)

                fill(ins, warp, cta, offset, count, mbar, "a bulk copy", move)

    return run


def _bulk_out(ins: Instr, what: str, combine: Combine = copy, masked: int | None = None) -> Action:
    """Return the action of a bulk store or reduction to global memory.

    masked: the operand with the byte mask of every 16 bytes. Masked-out bytes are neither read nor written.
    """

    def run(warp: Warp, mask: Any, target: Any, source: Any, size: Any, *rest: Any) -> None:
        memory, smem = warp.cta.launch.memory, warp.cta.smem
        for lane in active_lanes(mask):
            address, count = of_lane(target, lane), of_lane(size, lane)
            offset = smem.local_offset(of_lane(source, lane), ins, warp, what)
            _check_units(ins, warp, what, address, count, offset)
            memory.writable(address, address + count, ins, warp, what)
            smem.check_span(offset, count, ins, warp, what)
            chosen: Any = None
            cells, there, width = smem.span(offset, count), np.array([address], np.uint64), count
            if masked is not None:
                chosen = _chosen(count, of_lane(rest[masked - 3], lane))
                if not chosen.size:
                    continue
                cells, width = pieces(smem.cells(chosen + offset, 1), 1), 1
                there = chosen.astype(np.uint64) + np.uint64(address)
            warp.cta.launch.stats.copied_out_bytes += there.size * width
            copies = bulk_thread(warp, lane)
            smem.shadow.read(cells, copies.access(ins, what), warp.clock)
            writing = copies.writes.access(ins, what, combine is not copy)
            warp.cta.cluster.outside.write_by_agent(there, width, writing, warp.clock)

            def move(address: int = address, count: int = count, offset: int = offset, chosen: Any = chosen) -> None:
                there, new = host_bytes(address, count), smem.bytes[offset : offset + count]
                if chosen is None:
                    combine(there, new)
                else:
                    there[chosen] = new[chosen]

            copies.issue(ins, partial(writing.complete, move))

    return run


def _chosen(count: int, byte_mask: int) -> np.ndarray:
    """Return the indices of the `count` bytes that a mask of every 16 selects: intp[n]."""
    return np.flatnonzero(byte_mask >> np.arange(count) % BULK_ALIGNMENT & 1)


def _bulk_across(ins: Instr, what: str, combine: Combine = copy) -> Action:
    def run(warp: Warp, mask: Any, target: Any, source: Any, size: Any, barrier: Any) -> None:
        smem = warp.cta.smem
        for lane in active_lanes(mask):
            count, offset = of_lane(size, lane), smem.local_offset(of_lane(source, lane), ins, warp, what)
            _check_units(ins, warp, what, 0, count, offset, of_lane(target, lane))
            ((cta, there, mbar),) = targets(ins, warp, of_lane(target, lane), of_lane(barrier, lane), None, False)
            smem.check_span(offset, count, ins, warp, what)
            reading = Access(mbar.component, mbar.phase + 1, False, ins, warp, what, via=mbar)
            smem.shadow.read(smem.span(offset, count), reading, warp.clock)

            def move(cta: Cta = cta, there: int = there, offset: int = offset, count: int = count) -> None:
                combine(cta.smem.bytes[there : there + count], smem.bytes[offset : offset + count])

            route = (warp.cta.rank, offset, there, count)
            fill(ins, warp, cta, there, count, mbar, what, move, reduces=combine is not copy, route=route)

    return run


@performs("cp.async.bulk.prefetch", modifiers=({"L2"}, GLOBAL, CACHE_HINT), communicates=never_communicates)
def _prefetch(ins: Instr, warp: Warp, mask: Any, source: Any, size: Any, *_policy: Any) -> None:
    """Do nothing. Level `pedantic` reports a prefetch outside every allocation: no known hardware shows it."""
    launch = warp.cta.launch
    if launch.enforces(Leniency.PREFETCH_OUTSIDE):
        for lane in active_lanes(mask):
            low, high = of_lane(source, lane), of_lane(source, lane) + of_lane(size, lane)
            if launch.memory.find(low, high) is None:
                what = f"a bulk prefetch of {high - low} bytes at {low:#x} lies outside every allocation"
                launch.report(OutOfBounds(what, ins, warp, level=Leniency.PREFETCH_OUTSIDE))


@performs("cp.async.bulk.commit_group", communicates=never_communicates)
def _commit(ins: Instr, warp: Warp, mask: Any) -> None:
    for lane in active_lanes(mask):
        if lane in warp.bulk:
            warp.bulk[lane].commit()


@executes("cp.async.bulk.wait_group", blocking=True, communicates=never_communicates)
def _wait(ins: Instr) -> Action:
    (read_only,) = Modifiers(ins).pick({"read"})

    def run(warp: Warp, mask: Any, allowed: Any) -> Any:
        threads = [warp.bulk[lane] for lane in active_lanes(mask) if lane in warp.bulk]
        count = of_lane(allowed, 0)
        if suspended_for([group for t in threads for group in t.unfinished(count)], warp, ins, "bulk"):
            return BLOCK
        for t in threads:
            t.waited(count, ins)
            if not read_only:
                t.writes.waited(count)
        return None

    return run


UNIT: Final = 8
"""The required alignment of address and size in bytes (PTX ISA 9.1, 9.7.9.13)."""


@executes("st.bulk", communicates=never_communicates)
def _st_bulk(ins: Instr) -> Action:
    _, space = Modifiers(ins).pick({"weak"}, {"shared::cta"})
    if ins.operands[2] != Imm(0):
        raise UnknownInstruction(ins, "the value must be 0")

    def run(warp: Warp, mask: Any, address: Any, size: Any, _value: Any) -> None:
        smem = warp.cta.smem
        for lane in active_lanes(mask):
            start, count = of_lane(address, lane), of_lane(size, lane)
            if space is None and start >> 32 != SHARED_BASE >> 32:
                raise OutOfBounds(f"st.bulk at {start:#x}, which is not in shared memory", ins, warp)
            offset = smem.local_offset(start, ins, warp, "st.bulk")
            if (offset | count) % UNIT:
                raise Misaligned(f"st.bulk of {count} bytes at {start:#x}: both are multiples of {UNIT}", ins, warp)
            if not count:
                continue
            smem.check_span(offset, count, ins, warp, "st.bulk")
            offsets = np.arange(offset, offset + count, UNIT)
            by = np.full(offsets.size, 1 << lane, np.uint32)
            smem.store(offsets, np.zeros((offsets.size, 1), np.uint64), warp.access(ins, "st.bulk"), warp.clock, by)

    return run
