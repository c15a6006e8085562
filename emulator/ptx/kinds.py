"""The kinds of instructions that analyses, reports and the clock distinguish."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

FIXED_PARAMETER: Final = "ld.param at a constant"
"""The opcode of an ld.param whose address is a constant, after lowering."""


class Kind(Enum):
    """A kind of instruction."""

    OTHER = auto()
    BRANCH = auto()
    EXIT = auto()
    TRAP = auto()
    FENCE = auto()
    CTA_BARRIER = auto()
    """Waits for other warps of the CTA."""
    CTA_BARRIER_ARRIVE = auto()
    CTA_BARRIER_REDUCTION = auto()
    """Like CTA_BARRIER, with a vote or a count."""
    CLUSTER_BARRIER = auto()
    """Arrives at the barrier of the cluster, or waits there."""
    WARP_BARRIER = auto()
    MBARRIER_UPDATE = auto()
    """Initialises or invalidates an mbarrier, arrives at it, or changes its byte count."""
    MBARRIER_WAIT = auto()
    """Waits for a phase, for a limited time."""
    MBARRIER_TEST = auto()
    """Tests for the end of a phase without waiting."""
    LOAD = auto()
    PARAMETER = auto()
    """Loads a parameter from a constant address."""
    STORE = auto()
    ATOMIC = auto()
    REDUCTION = auto()
    """Like ATOMIC, without a result."""
    REMOTE_STORE = auto()
    """Stores asynchronously to shared memory of a CTA of the cluster."""
    REMOTE_REDUCTION = auto()
    MATRIX_LOAD = auto()
    MATRIX_STORE = auto()
    BULK_COPY = auto()
    """An asynchronous copy of contiguous bytes."""
    BULK_REDUCTION = auto()
    """Like BULK_COPY; it combines the bytes with those at the target."""
    BOX_COPY = auto()
    """A copy of a box of a tensor by the tensor memory accelerator."""
    BOX_REDUCTION = auto()
    BULK_WAIT = auto()
    """Waits for the lane's own bulk copies."""
    LANE_COPY = auto()
    """An asynchronous copy of a few bytes per lane."""
    MOVE = auto()
    ADDRESS = auto()
    """Converts an address between state spaces."""
    SELECT = auto()
    COMPARE = auto()
    ADD = auto()
    SUBTRACT = auto()
    MULTIPLY = auto()
    MULTIPLY_ADD = auto()
    AND = auto()
    OR = auto()
    XOR = auto()
    SHIFT_LEFT = auto()
    SHIFT_RIGHT = auto()
    CONVERT = auto()
    SHUFFLE = auto()
    VOTE = auto()
    WARP_REDUCTION = auto()
    ELECTION = auto()
    WARP_MMA = auto()
    TENSOR_ALLOCATION = auto()
    TENSOR_FREE = auto()
    TENSOR_LOAD = auto()
    """From tensor memory; its registers are written until TENSOR_LOAD_WAIT."""
    TENSOR_LOAD_WAIT = auto()
    TENSOR_STORE = auto()
    TENSOR_COPY = auto()
    """From shared to tensor memory."""
    TENSOR_SHIFT = auto()
    TENSOR_MMA = auto()
    GROUP_MMA = auto()
    """A product of four warps (wgmma); its registers are read and written until GROUP_MMA_WAIT."""
    GROUP_MMA_COMMIT = auto()
    GROUP_MMA_WAIT = auto()
    GROUP_MMA_FENCE = auto()
    REGISTER_POOL = auto()
    """Moves registers between the warps of a CTA."""
    WORK_STEALING = auto()
    """Requests the work of a cluster that is not launched yet."""

    @property
    def ends_block(self) -> bool:
        """True for an instruction after which control may go elsewhere."""
        return self in (Kind.BRANCH, Kind.EXIT)

    @property
    def is_barrier(self) -> bool:
        """True for a barrier of a warp, a CTA or a cluster; an mbarrier is none."""
        return self.is_cta_barrier or self in (Kind.WARP_BARRIER, Kind.CLUSTER_BARRIER)

    @property
    def is_cta_barrier(self) -> bool:
        """True for a named barrier of a CTA."""
        return self in (Kind.CTA_BARRIER, Kind.CTA_BARRIER_ARRIVE, Kind.CTA_BARRIER_REDUCTION)

    @property
    def is_mbarrier(self) -> bool:
        """True for an instruction that changes an mbarrier or waits for its phase."""
        return self.asks_mbarrier or self is Kind.MBARRIER_UPDATE

    @property
    def asks_mbarrier(self) -> bool:
        """True for an instruction whose result says if a phase of an mbarrier has ended."""
        return self in (Kind.MBARRIER_WAIT, Kind.MBARRIER_TEST)

    @property
    def opcode(self) -> str:
        """Opcode of the kind, the first if it has several."""
        return next(opcode for opcode, kind in KINDS.items() if kind is self)

    @property
    def is_read_modify_write(self) -> bool:
        """True for an atomic update of memory, with or without a result."""
        return self in (Kind.ATOMIC, Kind.REDUCTION)


KINDS: Final[dict[str, Kind]] = {
    opcode: kind
    for kind, opcodes in {
        Kind.BRANCH: ("bra",),
        Kind.EXIT: ("ret", "exit"),
        Kind.TRAP: ("trap", "brkpt"),
        Kind.FENCE: ("fence", "membar"),
        Kind.CTA_BARRIER: ("bar.sync", "barrier.sync"),
        Kind.CTA_BARRIER_ARRIVE: ("bar.arrive", "barrier.arrive"),
        Kind.CTA_BARRIER_REDUCTION: ("bar.red", "barrier.red"),
        Kind.CLUSTER_BARRIER: ("barrier.cluster",),
        Kind.WARP_BARRIER: ("bar.warp.sync",),
        Kind.MBARRIER_UPDATE: (
            "mbarrier.init",
            "mbarrier.inval",
            "mbarrier.arrive",
            "mbarrier.arrive_drop",
            "mbarrier.expect_tx",
            "mbarrier.complete_tx",
        ),
        Kind.MBARRIER_WAIT: ("mbarrier.try_wait",),
        Kind.MBARRIER_TEST: ("mbarrier.test_wait",),
        Kind.LOAD: ("ld",),
        Kind.PARAMETER: (FIXED_PARAMETER,),
        Kind.STORE: ("st",),
        Kind.ATOMIC: ("atom",),
        Kind.REDUCTION: ("red",),
        Kind.REMOTE_STORE: ("st.async",),
        Kind.REMOTE_REDUCTION: ("red.async",),
        Kind.MATRIX_LOAD: ("ldmatrix",),
        Kind.MATRIX_STORE: ("stmatrix",),
        Kind.BULK_COPY: ("cp.async.bulk",),
        Kind.BULK_REDUCTION: ("cp.reduce.async.bulk",),
        Kind.BOX_COPY: ("cp.async.bulk.tensor",),
        Kind.BOX_REDUCTION: ("cp.reduce.async.bulk.tensor",),
        Kind.BULK_WAIT: ("cp.async.bulk.wait_group",),
        Kind.LANE_COPY: ("cp.async",),
        Kind.MOVE: ("mov",),
        Kind.ADDRESS: ("cvta",),
        Kind.SELECT: ("selp",),
        Kind.COMPARE: ("setp",),
        Kind.ADD: ("add",),
        Kind.SUBTRACT: ("sub",),
        Kind.MULTIPLY: ("mul",),
        Kind.MULTIPLY_ADD: ("fma", "mad"),
        Kind.AND: ("and",),
        Kind.OR: ("or",),
        Kind.XOR: ("xor",),
        Kind.SHIFT_LEFT: ("shl",),
        Kind.SHIFT_RIGHT: ("shr",),
        Kind.CONVERT: ("cvt",),
        Kind.SHUFFLE: ("shfl.sync",),
        Kind.VOTE: ("vote.sync",),
        Kind.WARP_REDUCTION: ("redux.sync",),
        Kind.ELECTION: ("elect.sync",),
        Kind.WARP_MMA: ("mma",),
        Kind.TENSOR_ALLOCATION: ("tcgen05.alloc",),
        Kind.TENSOR_FREE: ("tcgen05.dealloc",),
        Kind.TENSOR_LOAD: ("tcgen05.ld",),
        Kind.TENSOR_LOAD_WAIT: ("tcgen05.wait::ld",),
        Kind.TENSOR_STORE: ("tcgen05.st",),
        Kind.TENSOR_COPY: ("tcgen05.cp",),
        Kind.TENSOR_SHIFT: ("tcgen05.shift",),
        Kind.TENSOR_MMA: ("tcgen05.mma",),
        Kind.GROUP_MMA: ("wgmma.mma_async",),
        Kind.GROUP_MMA_COMMIT: ("wgmma.commit_group",),
        Kind.GROUP_MMA_WAIT: ("wgmma.wait_group",),
        Kind.GROUP_MMA_FENCE: ("wgmma.fence",),
        Kind.REGISTER_POOL: ("setmaxnreg",),
        Kind.WORK_STEALING: ("clusterlaunchcontrol.try_cancel",),
    }.items()
    for opcode in opcodes
}
