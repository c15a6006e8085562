"""What a CTA must not leave behind when it ends: tensor memory, bytes nobody asked for, work on its shared memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ...errors import BarrierError, DataRace, Level, MissingWait, TensorMemoryError
from ...ptx.kinds import Kind
from ..agents.bulk import CopyThread
from ..compiled.accesses import CompiledAccesses
from ..compiled.notes import Notes
from ..memory.tmem import DEALLOC
from ..order.clocks import ORDERED, Clock
from ..order.shadow import distinct
from ..reports.suspects import PendingOverwrites
from ..synchronisation.barriers import WarpGroupBarrier
from ..synchronisation.mbarrier import MBarrier

if TYPE_CHECKING:
    from ...ptx.syntax import Instr
    from ..order.access import Access
    from ..topology import Cluster, Cta, Warp


def finish(cluster: Cluster) -> None:
    """All warps of a cluster ended: complete what is outstanding, check what it leaves behind, count what it did.

    Raises TensorMemoryError; or, or notes under diagnostics "report", BarrierError, DataRace and MissingWait.
    """
    cluster.agents.drain()
    for cta in cluster.ctas:
        _tensor_memory(cta)
        for group in cta.warpgroups.values():
            _products(group, cta.warps[group.index : group.index + 4])
        seen = _seen(cta)
        late = _work_on_shared_memory(cta, seen)
        for barrier in cta.smem.mbarriers.values():
            _bytes_outstanding(cta, barrier)
            _arrivals(cta, barrier, seen, late)
    for warp in cluster.warps:
        _cluster_arrivals(warp)
    overwritten: PendingOverwrites | None = cluster.launch.registry.get(PendingOverwrites)
    if overwritten is not None:
        overwritten.judge(cluster.launch)
    cluster.outside.release_warps(cluster.warps)
    _count(cluster)


def _count(cluster: Cluster) -> None:
    """Add what the warps and mbarriers know to the launch's counts."""
    stats = cluster.launch.stats
    for warp in cluster.warps:
        stats.add_warp(warp.index, warp.executed, [barrier.order for barrier in warp.phases])
    for cta in cluster.ctas:
        for barrier in (*cta.smem.retired, *cta.smem.mbarriers.values()):
            stats.add_mbarrier(barrier.order, barrier.offset, barrier.waits, barrier.phase)
    compiled: CompiledAccesses | None = cluster.launch.registry.get(CompiledAccesses)
    if compiled is not None:
        compiled.flush(stats)
    stats.judge_patterns()


def _tensor_memory(cta: Cta) -> None:
    if "tmem" not in vars(cta):
        return  # nothing touched it
    for column, (columns, instr, warp) in cta.tmem.allocations.items():
        raise TensorMemoryError(
            f"CTA {cta.name} ends with tensor memory columns {column} to {column + columns - 1} allocated",
            instr,
            warp,
            (("missing", "tcgen05.dealloc before the CTA ends"),),
        )


def _products(group: WarpGroupBarrier, warps: list[Warp]) -> None:
    """Each of four warps executes what the others do of wgmma."""
    for warp in warps:
        count = 0 if warp.products is None else warp.products.count
        if count < len(group.products):
            ins = group.products[count]
            what = f"{warp} ends and never executes {ins.opcode}, as others of its four warps do"
            warp.cta.launch.report(BarrierError(what, ins, warp))


def _bytes_outstanding(cta: Cta, barrier: MBarrier) -> None:
    """Bytes that came and were never expected are a fault. Bytes that were expected and never asked for are none: a
    producer's tail arms the next phase, and nobody waits for it; only level `pedantic` asks."""
    party = barrier.last_tx or barrier.last
    if party is not None and barrier.tx:
        cta.launch.report(
            BarrierError(
                f"CTA {cta.name} ends with {barrier.tx} bytes outstanding on {barrier}: "
                "expected and delivered bytes differ",
                party.instr,
                party.warp,
                (("state", barrier.state()),),
                Level.FAULT if barrier.tx < 0 else Level.PEDANTIC,
            )
        )


def _seen(cta: Cta) -> Clock:
    """What some warp of a CTA has seen before it ended: that CTA still existed then."""
    seen = cta.cluster.history.clock()
    for warp in cta.warps:
        seen.merge(warp.clock)
    return seen


def _work_on_shared_memory(cta: Cta, seen: Clock) -> list[Instr]:
    """What is done to a CTA's shared memory must be over before its last warp ends. What may not be."""
    late: list[Instr] = []
    if len(cta.cluster.ctas) == 1 and not cta.launch.asks(Level.PEDANTIC) and not _sends(cta, seen):
        return late
    shadow = cta.smem.shadow
    if isinstance(shadow.notes, Notes) and shadow.notes.unseen(seen):
        shadow.notes.flush_all()
    unseen = cta.cluster.history.unseen(seen)
    if not any(_may_come_late(access, cta, kind) for access in unseen for kind in ("writes", "reads")):
        return late  # whatever memory they are of: nobody has to look who touched each cell of this one
    for kind, numbers in (("writes", shadow.writer), ("reads", shadow.reader)):
        for access in _accesses(cta, distinct(numbers)):
            if _may_come_late(access, cta, kind) and not access.seen_by(seen, ORDERED):
                _report_late(access, cta, kind)
                late.append(access.instr)
    return late


def _sends(cta: Cta, seen: Clock) -> bool:
    """Whether one of its bulk stores may still read its shared memory."""
    threads = (thread for warp in cta.warps for thread in warp.bulk.values())
    return any(seen.at(thread.component) < thread.issued for thread in threads)


def _accesses(cta: Cta, numbers: Iterable[int]) -> Iterator[Access]:
    for number in numbers:
        access = cta.cluster.history.accesses[number]
        if access is not None:
            yield from access.parts or (access,)


def _may_come_late(access: Access, cta: Cta, kind: str) -> bool:
    """Whatever another CTA does, and its own bulk stores and copies to another CTA: they would send bytes of the next
    CTA. Of its other copies and of products NVIDIA's programs leave the last ones to themselves: only level `pedantic`
    asks, but for cp.async, whose threads do not end before it."""
    if access.what == DEALLOC:
        return False  # of no shared memory
    if access.warp.cta is not cta or _of_bulk_group(access) or (kind == "reads" and _reports_to_another(access, cta)):
        return True
    return cta.launch.asks(Level.PEDANTIC) and access.via is not None and not access.generic


def _of_bulk_group(access: Access) -> bool:
    return isinstance(access.via, CopyThread) and not access.via.generic


def _reports_to_another(access: Access, cta: Cta) -> bool:
    """Whether it is of a bulk copy that reports to an mbarrier of another CTA."""
    return isinstance(access.via, MBarrier) and access.via.cta is not cta


def _report_late(access: Access, cta: Cta, kind: str) -> None:
    """On an H100 a read of another CTA that has ended is an error of the launch, and what is stored there is dropped.
    An H200 lets no CTA go before its own bulk and TMA stores have read its shared memory."""
    level = Level.FAULT if kind == "reads" else Level.FORMAL
    fault: type[DataRace] = MissingWait
    missing = f"a wait for {access.what} (PTX line {access.instr.line})"
    last = f"and that a warp of CTA {cta.name} waits for before it ends"
    if access.via is None:
        fault, missing = DataRace, f"a barrier that {access.warp} arrives on after PTX line {access.instr.line}"
    elif access.warp.cta is cta and _of_bulk_group(access):
        missing, last, level = access.via.missing(access, access), "before the CTA ends", Level.FORMAL
    elif access.warp.cta is cta:
        level = Level.FORMAL if kind == "reads" and _reports_to_another(access, cta) else Level.PEDANTIC
    cta.launch.report(
        fault(
            f"{access.what} {kind} shared memory of CTA {cta.name}, which may have ended by then: "
            "none of its warps waits for that",
            access.instr,
            access.warp,
            (_ends(cta), ("missing", f"{missing}, {last}")),
            level,
        )
    )


def _arrivals(cta: Cta, barrier: MBarrier, seen: Clock, late: list[Instr]) -> None:
    """Arrivals from other CTAs must have happened before the last warp ends; those of copies in `late` are told.

    Formal: on an H100 they are dropped.
    """
    for component, (time, phase, party) in barrier.foreign.items():
        if party.instr not in late and seen.at(barrier.component) <= phase and seen.at(component) < time:
            cta.launch.report(
                DataRace(
                    f"{party.what} arrives on {barrier} of CTA {cta.name}, which may have ended by then: "
                    "none of its warps waits for that",
                    party.instr,
                    party.warp,
                    (_ends(cta), ("missing", f"a wait of a warp of CTA {cta.name} for phase {phase} of {barrier}")),
                    Level.FORMAL,
                )
            )


def _cluster_arrivals(warp: Warp) -> None:
    """Of two arrivals at the cluster's barrier in a row both must have been waited for."""
    if warp.arrived_again is not None and warp.cluster_arrivals:
        what = "barrier.cluster.arrive twice, but barrier.cluster.wait once"
        warp.cta.launch.report(BarrierError(what, warp.arrived_again, warp))


def _ends(cta: Cta) -> tuple[str, str]:
    lines = [instr.line for instr in cta.launch.kernel.instrs if instr.kind is Kind.EXIT]
    return f"CTA {cta.name}", f"ends at PTX line {' or '.join(map(str, lines))}"
