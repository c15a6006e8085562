"""Asynchronous copies of a few bytes per lane from global to shared memory (cp.async), and their groups."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..errors import OutOfBounds, UnknownInstruction
from ..leniency import Leniency
from ..machine.agents.bulk import suspended_for, warp_copies
from ..machine.agents.copies import Copy, issue_copies
from ..machine.convergence import lane_bits
from ..machine.memory.shared import along
from ..machine.order.clocks import Clock
from ..machine.order.completion import AsyncOperation
from ..machine.synchronisation.mbarrier import Party
from ..machine.topology import Warp
from ..ptx.syntax import Imm, Instr, Not, Reg
from .lane_values import active_lanes, per_lane, same
from .ld_st import MemoryOp, active_addresses
from .mbarrier import mbarrier_at
from .registry import BLOCK, CACHE_HINT, SHARED, Action, Modifiers, executes, never_communicates, performs

PREFETCH = frozenset({"L2::64B", "L2::128B", "L2::256B"})


@executes("cp.async", communicates=never_communicates, flush=issue_copies)
def _copy(ins: Instr) -> Action:
    _, _, _, hint, _ = Modifiers(ins).pick({"ca", "cg"}, SHARED, {"global"}, CACHE_HINT, PREFETCH)
    size = ins.operands[2]
    if not isinstance(size, Imm) or size.value not in (4, 8, 16):
        raise UnknownInstruction(ins, f"size {size}; allowed is 4, 8, 16")
    sized = len(ins.operands) - (hint is not None) > 3
    to, by_predicate = _Target(ins, size.value), sized and is_predicate(ins.operands[3])

    def run(warp: Warp, mask: Any, target: Any, source: Any, _size: int, *rest: Any) -> None:
        real = rest[0] if sized else size.value
        sizes = np.where(np.broadcast_to(real, 32), 0, size.value) if by_predicate else real
        alone = partial(copy, warp, mask, target, source, sizes)
        warp.queued_copies.append(Copy(ins, size.value, mask, target, source, sizes, alone))

    def copy(warp: Warp, mask: Any, target: Any, source: Any, real: Any) -> None:
        sizes = per_lane(real, np.uint32)
        sizes = sizes if mask is None else sizes[mask]
        sources, targets = active_addresses(warp, mask, source), to.aligned(active_addresses(warp, mask, target), warp)
        to.aligned(sources[sizes > 0] if sized else sources, warp)
        if sized and int(sizes.max()) > size.value:
            what = f"cp.async of {size.value} bytes from a source of {int(sizes.max())}"
            raise OutOfBounds(what, ins, warp, (("missing", f"a size of the source of at most {size.value}"),))
        ((memory, _, places),) = to.parts(warp, targets)
        offsets = to.checked(memory, places, warp)
        copies = warp_copies(warp)
        copies.made_by(lane_bits(mask))
        cells, lanes, me = memory.cells(offsets, size.value), to.lanes(warp, None), copies.access(ins, "cp.async")
        several = memory.shadow.write(cells, me, warp.clock, along(lanes, cells))
        if warp.cta.launch.memory.tracked and (sizes > 0).any():
            reading = copies.access(ins, "cp.async")
            warp.cta.cluster.outside.read(sources[sizes > 0], int(sizes.max()), reading, warp.clock)

        def values() -> np.ndarray:
            found = np.zeros((sources.size, size.value), np.uint8)
            for n in set(sizes[sizes > 0].tolist()):
                these = sizes == n
                found[these, :n] = warp.cta.launch.memory.load(sources[these], 1, n, ins, warp, "cp.async")
            return found

        def move() -> None:
            memory.bytes[offsets[:, None] + np.arange(size.value)] = values()

        if several:
            memory.check_overlap(offsets, values(), lanes, me)
        copies.issue(ins, move)
        warp.cta.launch.stats.copied_in_bytes += size.value * sizes.size

    return run


class _Target(MemoryOp):
    """The destination of a cp.async: `size` bytes per lane in this CTA's shared memory."""

    def __init__(self, ins: Instr, size: int) -> None:
        self.ins, self.space, self.own_cta = ins, "shared", True
        self.bytes, self.what = size, ins.opcode


def is_predicate(operand: Any) -> bool:
    """Return True for a register of predicates or its negation."""
    return isinstance(operand, Not) or (isinstance(operand, Reg) and operand.type == "pred")


@executes("cp.async.commit_group", communicates=never_communicates)
def _commit(ins: Instr) -> Action:
    Modifiers(ins).done()
    return lambda warp, mask: warp_copies(warp).commit(lane_bits(mask))


@performs("cp.async.wait_group", "cp.async.wait_all", blocking=True, communicates=never_communicates)
def _wait(ins: Instr, warp: Warp, mask: Any, allowed: Any = None) -> Any:
    copies, lanes = warp_copies(warp), lane_bits(mask)
    if allowed is None:
        copies.commit(lanes)
    count = 0 if allowed is None else int(allowed)
    if suspended_for(copies.unfinished(count, lanes), warp, ins, "cp.async"):
        return BLOCK
    copies.waited(count, ins, lanes)
    return None


def _phases_known(warp: Warp) -> Clock:
    """Return a clock that contains only the mbarrier phases that `warp` knows to be complete.

    The arrival of copies does not publish the warp's earlier writes, but the copies were issued after its waits.
    """
    clock = warp.cta.cluster.history.clock()
    for barrier in (barrier for cta in warp.cta.cluster.ctas for barrier in cta.smem.mbarriers.values()):
        if known := warp.clock.at(barrier.over):
            clock.advance(barrier.over, known)
    return clock


@executes("cp.async.mbarrier.arrive", communicates=never_communicates)
def _arrive(ins: Instr) -> Action:
    """Arrive when the copies complete.

    PTX lets this arrival publish the copies alone. An H100 does not expose the thread's own earlier stores, and cuDNN's
    kernels rely on that: they store zeros where there is nothing to copy. Only level `formal` enforces PTX's rule.
    """
    no_increment, *_ = Modifiers(ins).pick({"noinc"}, SHARED, {"b64"})

    def run(warp: Warp, mask: Any, address: Any) -> None:
        at = same(address, mask)
        if at is None:
            raise UnknownInstruction(ins, "lanes name different mbarriers")
        barrier, count, copies = mbarrier_at(warp, at, ins), len(active_lanes(mask)), warp_copies(warp)
        if no_increment is None:
            barrier.pending += count
        clock = _phases_known(warp) if warp.cta.launch.enforces(Leniency.STORES_BESIDE_COPIES) else warp.clock.compact()
        clock.advance(copies.component, copies.made_up_to(lane_bits(mask)), visible=copies.published)
        party = Party(ins, warp, "cp.async")
        operation = AsyncOperation((barrier,), lambda: barrier.arrive(count, party, clock), copies.queue)
        warp.cta.cluster.agents.issue(operation)
        warp.tick()

    return run
