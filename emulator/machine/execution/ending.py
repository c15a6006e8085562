"""Checks when a CTA ends: tensor memory still allocated, bytes outstanding, work on its shared memory in flight."""

from __future__ import annotations

from ...errors import BarrierError, DataRace, Level, MissingWait, TensorMemoryError
from ...leniency import Grade, Leniency
from ...ptx.kinds import Kind
from ...ptx.syntax import Instr
from ..agents.bulk import CopyThread
from ..agents.products import WARPS, WarpGroupBarrier
from ..compiled.accesses import CompiledAccesses
from ..compiled.records import CompiledRecords
from ..memory.tmem import DEALLOC
from ..order.access import Access
from ..order.clocks import Clock
from ..order.shadow import distinct
from ..reports.suspects import PendingOverwrites
from ..synchronisation.mbarrier import MBarrier
from ..topology import Cluster, Cta, Warp


def finish(cluster: Cluster) -> None:
    """Finish a cluster whose warps have ended: complete outstanding work, check its end, add up its counts.

    Raises TensorMemoryError; reports BarrierError, DataRace and MissingWait.
    """
    cluster.agents.drain()
    for cta in cluster.ctas:
        _tensor_memory(cta)
        for group in cta.warpgroups.values():
            _products(group, cta.warps[group.index : group.index + WARPS])
        seen = _seen(cta)
        late = _work_on_shared_memory(cta, seen)
        for barrier in cta.smem.mbarriers.values():
            _bytes_outstanding(cta, barrier)
            _arrivals(cta, barrier, seen, late)
    for warp in cluster.warps:
        _cluster_arrivals(warp)
    overwritten: PendingOverwrites | None = cluster.launch.registry.get(PendingOverwrites)
    if overwritten is not None:
        overwritten.report_ended(cluster.launch)
    cluster.launch.raise_held()
    _count(cluster)
    cluster.outside.release(cluster.index)


def _count(cluster: Cluster) -> None:
    """Add the counts of the warps and mbarriers to those of the launch."""
    stats = cluster.launch.stats
    for warp in cluster.warps:
        stats.add_warp(warp.index, warp.executed, [barrier.order for barrier in warp.phases])
    stats.add_path(cluster.index, [warp.passed for warp in cluster.warps])
    for cta in cluster.ctas:
        for barrier in (*cta.smem.retired, *cta.smem.mbarriers.values()):
            stats.add_mbarrier(barrier.order, barrier.offset, barrier.waits, barrier.phase)
    compiled: CompiledAccesses | None = cluster.launch.registry.get(CompiledAccesses)
    if compiled is not None:
        compiled.flush(stats)
    stats.count_wavefronts()


def _tensor_memory(cta: Cta) -> None:
    if "tmem" not in vars(cta):
        return  # never accessed
    for column, (columns, instr, warp) in cta.tmem.allocations.items():
        raise TensorMemoryError(
            f"CTA {cta.name} ends with tensor memory columns {column} to {column + columns - 1} allocated",
            instr,
            warp,
            (("missing", "tcgen05.dealloc before the CTA ends"),),
        )


def _products(group: WarpGroupBarrier, warps: list[Warp]) -> None:
    """Report warps of a warpgroup that ended without an MMA that other warps of it executed."""
    for warp in warps:
        count = 0 if warp.products is None else warp.products.count
        if count < len(group.products):
            ins = group.products[count]
            what = f"{warp} ends without {ins.opcode}, which other warps of its warpgroup execute"
            warp.cta.launch.report(BarrierError(what, ins, warp))


def _bytes_outstanding(cta: Cta, barrier: MBarrier) -> None:
    """Report bytes that arrived on an mbarrier without being expected.

    Expected bytes that no copy delivers are a pedantic finding, because a producer's last iteration may arm a phase
    that no warp waits for.
    """
    party = barrier.last_tx or barrier.last
    if party is not None and barrier.tx:
        cta.launch.report(
            BarrierError(
                f"CTA {cta.name} ends with {barrier.tx} bytes outstanding on {barrier}: "
                "expected and delivered bytes differ",
                party.instr,
                party.warp,
                (("state", barrier.state()),),
                Level.FAULT if barrier.tx < 0 else Leniency.LAST_BYTES,
            )
        )


def _seen(cta: Cta) -> Clock:
    """Return the merged clock of a CTA's warps at their end. The CTA existed until then."""
    seen = cta.warps[0].clock.copy()
    for warp in cta.warps[1:]:
        seen.merge(warp.clock)
    return seen


def _work_on_shared_memory(cta: Cta, seen: Clock) -> list[Instr]:
    """Report work on a CTA's shared memory that may outlast its warps. Return the instructions of that work."""
    late: list[Instr] = []
    if len(cta.cluster.ctas) == 1 and not cta.launch.enforces(Leniency.LAST_WORK) and not _sends(cta, seen):
        return late
    shadow = cta.smem.shadow
    if isinstance(shadow.records, CompiledRecords) and shadow.records.unseen(seen):
        shadow.records.flush_all()
    for kind, numbers in (("writes", shadow.writer), ("reads", shadow.reader)):
        for access in cta.cluster.history.unseen(seen, distinct(numbers)):
            if _may_come_late(access, cta, kind):
                _report_late(access, cta, kind)
                late.append(access.instr)
    return late


def _sends(cta: Cta, seen: Clock) -> bool:
    """Return whether a bulk store of the CTA may still read its shared memory."""
    threads = (thread for warp in cta.warps for thread in warp.bulk.values())
    return any(seen.at(thread.component) < thread.issued for thread in threads)


def _may_come_late(access: Access, cta: Cta, kind: str) -> bool:
    """Return whether an access has to be complete before the CTA ends.

    These are accesses by other CTAs, and the CTA's own bulk stores and copies to other CTAs, which would send the next
    CTA's bytes. NVIDIA's programs do not wait for the last of their other copies and products: level `pedantic` reports
    those, except cp.async, whose threads end after it.
    """
    if access.what == DEALLOC:
        return False  # not an access of shared memory
    if access.warp.cta is not cta or _of_bulk_group(access) or (kind == "reads" and _reports_to_another(access, cta)):
        # Distributed shared memory must exist while it is accessed (test_a_peer_may_not_end_before_its_words_are_read).
        return True
    return cta.launch.enforces(Leniency.LAST_WORK) and access.via is not None and not access.generic


def _of_bulk_group(access: Access) -> bool:
    return isinstance(access.via, CopyThread) and not access.via.generic


def _reports_to_another(access: Access, cta: Cta) -> bool:
    """Return whether an access belongs to a bulk copy that reports to an mbarrier of another CTA."""
    return isinstance(access.via, MBarrier) and access.via.cta is not cta


def _report_late(access: Access, cta: Cta, kind: str) -> None:
    """Report an access that may come after the CTA's end.

    On an H100, reading another CTA that has ended is an error of the launch, and a store there is dropped. An H200
    keeps a CTA until its own bulk and TMA stores have read its shared memory.
    """
    reads = kind == "reads" or access.instr.kind is Kind.ATOMIC
    level: Grade = Level.FAULT if reads else Leniency.ENDED_CTA
    fault: type[DataRace] = MissingWait
    missing = f"a wait for {access.what} (PTX line {access.instr.line})"
    last = f"and that a warp of CTA {cta.name} waits for before it ends"
    if access.via is None:
        fault, missing = DataRace, f"a barrier that {access.warp} arrives on after PTX line {access.instr.line}"
    elif access.warp.cta is cta and _of_bulk_group(access):
        missing, last, level = access.via.missing(access, access), "before the CTA ends", Leniency.OWN_COPIES_AT_END
    elif access.warp.cta is cta:
        sends = kind == "reads" and _reports_to_another(access, cta)
        level = Leniency.OWN_COPIES_AT_END if sends else Leniency.LAST_WORK
    cta.launch.report(
        fault(
            f"{access.what} {kind} shared memory of CTA {cta.name}, which may have ended by then: "
            "none of its warps waits for it",
            access.instr,
            access.warp,
            (_ends(cta), ("missing", f"{missing}, {last}")),
            level,
        )
    )


def _arrivals(cta: Cta, barrier: MBarrier, seen: Clock, late: list[Instr]) -> None:
    """Report arrivals from other CTAs that may come after the CTA's end, except those of copies in `late`.

    They are formal: an H100 drops them.
    """
    for component, (time, phase, party) in barrier.foreign.items():
        if party.instr not in late and seen.at(barrier.component) <= phase and seen.at(component) < time:
            cta.launch.report(
                DataRace(
                    f"{party.what} arrives on {barrier} of CTA {cta.name}, which may have ended by then: "
                    "none of its warps waits for it",
                    party.instr,
                    party.warp,
                    (_ends(cta), ("missing", f"a wait of a warp of CTA {cta.name} for phase {phase} of {barrier}")),
                    Leniency.ENDED_CTA,
                )
            )


def _cluster_arrivals(warp: Warp) -> None:
    """Report two arrivals at the cluster barrier with a wait for one of them only."""
    if warp.arrived_again is not None and warp.cluster_arrivals:
        what = "two barrier.cluster.arrive, but only one barrier.cluster.wait"
        warp.cta.launch.report(BarrierError(what, warp.arrived_again, warp))


def _ends(cta: Cta) -> tuple[str, str]:
    lines = [instr.line for instr in cta.launch.kernel.instrs if instr.kind is Kind.EXIT]
    return f"CTA {cta.name}", f"ends at PTX line {' or '.join(map(str, lines))}"
