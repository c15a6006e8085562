"""Work stealing (clusterlaunchcontrol): a running cluster takes the work of a cluster that was not launched."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..chip import RANK_SHIFT
from ..errors import CancelError, UnknownInstruction, place
from ..leniency import Leniency
from ..machine.agents.bulk import aligned, fill
from ..machine.synchronisation.mbarrier import MBarrier
from ..machine.topology import Cta, Warp
from ..ptx.syntax import Instr
from .lane_values import active_lanes, of_lane
from .mbarrier import check_initialised, mbarrier_at
from .registry import SHARED, Action, Modifiers, executes, if_sources_uniform

RESPONSE_BYTES = 16
NO_CTA = (0xFFFF_FFFF,) * 3
"""The first CTA in the response of a failed request; PTX leaves it undefined."""
FIRST = ("get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z")


@executes("clusterlaunchcontrol.try_cancel")
def _try_cancel(ins: Instr) -> Action:
    """Request a cluster. The response happens after everything that the requesting warp has observed."""
    _, _, _, everyone, _ = Modifiers(ins).pick(
        {"async"}, SHARED, {"mbarrier::complete_tx::bytes"}, {"multicast::cluster::all"}, {"b128"}
    )

    def run(warp: Warp, mask: Any, target: Any, barrier: Any) -> None:
        cluster, smem = warp.cta.cluster, warp.cta.smem
        if warp.denied is not None:
            read = (("read at", place(warp.denied, warp)),)
            cluster.launch.report(
                CancelError("try_cancel after a failed request, which PTX leaves undefined", ins, warp, read)
            )
        seen = warp.clock.copy()
        warp.tick()
        for lane in active_lanes(mask):
            offset, signal = (smem.local_offset(of_lane(at, lane), ins, warp, ins.opcode) for at in (target, barrier))
            aligned(offset, RESPONSE_BYTES, "the response of try_cancel", ins, warp)
            taken = cluster.take_over()
            response = np.array([taken is not None, *(taken or NO_CTA)], np.uint32).view(np.uint8)
            for cta in cluster.ctas if everyone else (warp.cta,):
                signalled = mbarrier_at(warp, signal | cta.rank << RANK_SHIFT, ins)
                check_initialised(signalled, ins, warp)

                def move(
                    to: Cta = cta, at: int = offset, response: np.ndarray = response, by: MBarrier = signalled
                ) -> None:
                    to.smem.bytes[at : at + RESPONSE_BYTES] = response
                    by.gathering.merge(seen)

                fill(ins, warp, cta, offset, RESPONSE_BYTES, signalled, "the response of try_cancel", move)

    return run


@executes("clusterlaunchcontrol.query_cancel", dst=1, uniform=if_sources_uniform)
def _query_cancel(ins: Instr) -> Action:
    what, *_ = Modifiers(ins).pick({"is_canceled", "get_first_ctaid", *FIRST}, {"pred", "b32", "v4"}, {"b32"}, {"b128"})
    if what is None:
        raise UnknownInstruction(ins, "missing .is_canceled or .get_first_ctaid")

    def run(warp: Warp, mask: Any, response: np.ndarray) -> Any:
        words = np.ascontiguousarray(response.T).view(np.uint32).T
        if what == "is_canceled":
            taken = words[0] != 0
            if not (taken if mask is None or taken.size == 1 else taken[mask]).all():
                warp.denied = ins
            return taken
        if not (words[0] if mask is None or words[0].size == 1 else words[0][mask]).all():
            which = "query_cancel asks a failed request for its first CTA, which PTX leaves undefined"
            warp.cta.launch.report(CancelError(which, ins, warp, level=Leniency.NEGATIVE_FIRST))
        if what in FIRST:
            return words[1 + FIRST.index(what)]
        return np.concatenate([words[1:], np.zeros((1, 32), np.uint32)])

    return run
