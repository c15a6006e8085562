"""Distributed shared memory: mapa, and st.async and red.async, which complete bytes on an mbarrier."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..chip import RANK_SHIFT
from ..errors import UnknownInstruction
from ..machine.formats.tensormap import reduced
from ..machine.memory.shared import OFFSET_MASK, SharedMemory
from ..machine.order.access import CLUSTER as CLUSTER_SCOPE
from ..machine.order.access import Access
from ..machine.order.completion import AsyncOperation
from ..machine.synchronisation.mbarrier import MBarrier, Party
from ..machine.topology import Warp
from ..ptx.syntax import Instr
from .atomics import DTYPES
from .lane_values import active_lanes, lane_rows, of_lane
from .ld_st import MemoryOp, active_addresses
from .mbarrier import mbarrier_at
from .registry import SHARED, Action, Modifiers, Publishes, executes, if_sources_uniform, never_communicates

COMPLETE_TX: Final = frozenset({"mbarrier::complete_tx::bytes"})
CLUSTER: Final = frozenset({"shared::cluster"})
STORED: Final = frozenset(f"{kind}{bits}" for kind in "bsuf" for bits in (32, 64))
REDUCED: Final = {
    "u32": {"inc", "dec", "min", "max", "add", "and", "or", "xor"},
    "s32": {"min", "max", "add"},
    "u64": {"add"},
    "b32": {"and", "or", "xor"},
}


class Remote(MemoryOp):
    """A store, or reduction with `operation`, of `count` elements per lane of numpy type `dtype`."""

    def __init__(self, ins: Instr, kind: str, count: int, operation: str | None) -> None:
        self.ins, self.space, self.own_cta = ins, "shared", False
        self.dtype, self.operation, self.count = DTYPES[kind], operation, count
        self.width = np.dtype(self.dtype).itemsize
        self.bytes = self.width * count
        self.what = ins.opcode

    def issue(
        self,
        warp: Warp,
        memory: SharedMemory,
        offsets: np.ndarray,
        values: np.ndarray,
        lanes: np.ndarray,
        mbar: MBarrier,
    ) -> None:
        """Check the words for one CTA and queue them; they are written and reported when they arrive."""
        index = self.checked(memory, offsets, warp)
        me = Access(mbar.component, mbar.phase + 1, True, self.ins, warp, self.what, via=mbar)
        me.strong = CLUSTER_SCOPE if self.operation is not None else 0
        cells = memory.cells(index, self.bytes)
        if self.operation is None:
            memory.check_overlap(index, values, lanes, me)
        else:
            memory.shadow.read(cells, me, warp.clock)
        memory.shadow.write(cells, me, warp.clock)
        party = Party(self.ins, warp, self.what, (me.component, me.time))
        mbar.copies.append(party)
        view = memory.views[self.width]

        def perform() -> None:
            for at, value in zip((index // self.width).tolist(), values, strict=True):
                words = slice(at, at + self.count)
                old = view[words]
                view[words] = value if self.operation is None else reduced(old, value, self.dtype, self.operation)
            mbar.complete_tx(values.nbytes, party)

        warp.cta.cluster.agents.issue(AsyncOperation((mbar,), perform))


@executes("st.async", publishes=Publishes.WORK, communicates=never_communicates)
def _store(ins: Instr) -> Action:
    _, _, _, vector, kind = Modifiers(ins).pick({"weak"}, CLUSTER, COMPLETE_TX, {"v2", "v4"}, STORED)
    if kind is None or "shared::cluster" not in ins.modifiers or not COMPLETE_TX & set(ins.modifiers):
        raise UnknownInstruction(ins, "only .shared::cluster.mbarrier::complete_tx::bytes is supported")
    return _run(Remote(ins, f"b{kind[1:]}", int(vector[1:]) if vector else 1, None))


@executes("red.async", publishes=Publishes.WORK, communicates=never_communicates)
def _reduce(ins: Instr) -> Action:
    _, _, _, _, operation, kind = Modifiers(ins).pick(
        {"relaxed"}, {"cluster"}, CLUSTER, COMPLETE_TX, REDUCED["u32"], REDUCED
    )
    if kind is None or operation not in REDUCED[kind] or "shared::cluster" not in ins.modifiers:
        raise UnknownInstruction(ins, f".{operation}.{kind}; allowed is {REDUCED}")
    return _run(Remote(ins, kind, 1, operation))


def _run(op: Remote) -> Action:
    def run(warp: Warp, mask: Any, address: Any, value: Any, barrier: Any) -> None:
        addresses = op.aligned(active_addresses(warp, mask, address), warp)
        values = lane_rows(value, op.count, np.dtype(f"u{op.width}"))
        values = values if mask is None else values[mask]
        barriers = np.array([of_lane(barrier, lane) for lane in active_lanes(mask)])
        lanes = np.uint32(1) << np.array(active_lanes(mask), np.uint32)
        for signalled in np.unique(barriers).tolist():
            these = barriers == signalled
            for memory, where, places in op.parts(warp, addresses[these]):
                words, by = values[these], lanes[these]
                if where is not None:
                    words, by = words[where], by[where]
                op.issue(warp, memory, places, words, by, mbarrier_at(warp, signalled, op.ins))

    return run


@executes("mapa", dst=1, uniform=if_sources_uniform, communicates=never_communicates)
def _mapa(ins: Instr) -> Action:
    _, kind = Modifiers(ins).pick(SHARED, {"u32", "u64"})
    keep = OFFSET_MASK if kind == "u32" else (1 << 64) - 1 & ~(0xFF << RANK_SHIFT)

    def run(warp: Warp, mask: Any, address: Any, rank: Any) -> Any:
        if isinstance(address, np.ndarray) or isinstance(rank, np.ndarray):
            dtype = np.uint32 if kind == "u32" else np.uint64
            address, rank = np.asarray(address, dtype), np.asarray(rank).astype(dtype)
            return (address & dtype(keep)) | rank << dtype(RANK_SHIFT)
        return address & keep | rank << RANK_SHIFT

    return run
