"""The families of instructions by their dotted spellings, and the kinds that analyses, reports and the clock need.

The family of an instruction that is no entry of `FAMILIES` is its first part.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import Final

FAMILIES: Final[frozenset[str]] = frozenset(
    f"{first}.{rest}"
    for first, rests in {
        "cp": (
            "async",
            "async.commit_group",
            "async.wait_group",
            "async.wait_all",
            "async.mbarrier.arrive",
            "async.bulk",
            "async.bulk.tensor",
            "async.bulk.commit_group",
            "async.bulk.wait_group",
            "async.bulk.prefetch",
            "async.bulk.prefetch.tensor",
            "reduce.async.bulk",
            "reduce.async.bulk.tensor",
        ),
        "fence": ("proxy", "mbarrier_init"),
        "bar": ("sync", "arrive", "red", "warp.sync"),
        "barrier": ("sync", "arrive", "red", "cluster"),
        "shfl": ("sync",),
        "vote": ("sync",),
        "elect": ("sync",),
        "match": ("sync", "any.sync", "all.sync"),
        "redux": ("sync",),
        "st": ("async", "bulk"),
        "red": ("async",),
        "griddepcontrol": ("wait", "launch_dependents"),
        "tensormap": ("replace", "cp_fenceproxy"),
        "clusterlaunchcontrol": ("try_cancel", "query_cancel"),
        "multimem": ("ld_reduce", "st", "red"),
    }.items()
    for rest in rests
)
TWO_WORDS: Final[frozenset[str]] = frozenset({"mbarrier", "tcgen05", "wgmma", "wmma"})


@cache
def split(spelling: str) -> tuple[str, tuple[str, ...]]:
    """Split an instruction's dotted spelling into (family, modifiers).

    The first two parts of mbarrier, tcgen05, wgmma and wmma are the family. Otherwise the longest entry of
    `FAMILIES` wins. The qualifier `.cta` of a barrier is dropped: it is the default.
    """
    parts = spelling.split(".")
    if parts[0] in ("bar", "barrier") and "cta" in parts[1:2]:
        del parts[1]
    if parts[0] in TWO_WORDS:
        return ".".join(parts[:2]), tuple(parts[2:])
    for n in range(min(len(parts), 5), 1, -1):
        family = ".".join(parts[:n])
        if family in FAMILIES:
            return family, tuple(parts[n:])
    return parts[0], tuple(parts[1:])


FIXED_PARAMETER: Final = "ld.param at a constant"
"""The opcode of an ld.param whose address is a constant, after lowering."""


class Kind(Enum):
    """A kind of instruction. The value of each is its opcodes; OTHER has every opcode that no other kind names."""

    __hash__ = object.__hash__  # Enum's is written in Python
    OTHER = ("",)  # enum of Python 3.11.2 replaces an empty tuple by object()
    BRANCH = ("bra",)
    EXIT = ("ret", "exit")
    TRAP = ("trap", "brkpt")
    FENCE = ("fence", "membar")
    CTA_BARRIER = ("bar.sync", "barrier.sync")
    """Waits for other warps of the CTA."""
    CTA_BARRIER_ARRIVE = ("bar.arrive", "barrier.arrive")
    CTA_BARRIER_REDUCTION = ("bar.red", "barrier.red")
    """Like CTA_BARRIER, with a vote or a count."""
    CLUSTER_BARRIER = ("barrier.cluster",)
    """Arrives at the barrier of the cluster, or waits there."""
    WARP_BARRIER = ("bar.warp.sync",)
    MBARRIER_UPDATE = (
        "mbarrier.init",
        "mbarrier.inval",
        "mbarrier.arrive",
        "mbarrier.arrive_drop",
        "mbarrier.expect_tx",
        "mbarrier.complete_tx",
    )
    """Initialises or invalidates an mbarrier, arrives at it, or changes its byte count."""
    MBARRIER_WAIT = ("mbarrier.try_wait",)
    """Waits for a phase, for a limited time."""
    MBARRIER_TEST = ("mbarrier.test_wait",)
    """Tests for the end of a phase without waiting."""
    LOAD = ("ld",)
    PARAMETER = (FIXED_PARAMETER,)
    """Loads a parameter from a constant address."""
    STORE = ("st",)
    ATOMIC = ("atom",)
    REDUCTION = ("red",)
    """Like ATOMIC, without a result."""
    REMOTE_STORE = ("st.async",)
    """Stores asynchronously to shared memory of a CTA of the cluster."""
    REMOTE_REDUCTION = ("red.async",)
    MATRIX_LOAD = ("ldmatrix",)
    MATRIX_STORE = ("stmatrix",)
    BULK_COPY = ("cp.async.bulk",)
    """An asynchronous copy of contiguous bytes."""
    BULK_REDUCTION = ("cp.reduce.async.bulk",)
    """Like BULK_COPY; it combines the bytes with those at the target."""
    BOX_COPY = ("cp.async.bulk.tensor",)
    """A copy of a box of a tensor by the tensor memory accelerator."""
    BOX_REDUCTION = ("cp.reduce.async.bulk.tensor",)
    BULK_WAIT = ("cp.async.bulk.wait_group",)
    """Waits for the lane's own bulk copies."""
    LANE_COPY = ("cp.async",)
    """An asynchronous copy of a few bytes per lane."""
    MOVE = ("mov",)
    ADDRESS = ("cvta",)
    """Converts an address between state spaces."""
    SELECT = ("selp",)
    COMPARE = ("setp",)
    ADD = ("add",)
    SUBTRACT = ("sub",)
    MULTIPLY = ("mul",)
    MULTIPLY_ADD = ("fma", "mad")
    AND = ("and",)
    OR = ("or",)
    XOR = ("xor",)
    SHIFT_LEFT = ("shl",)
    SHIFT_RIGHT = ("shr",)
    CONVERT = ("cvt",)
    SHUFFLE = ("shfl.sync",)
    VOTE = ("vote.sync",)
    WARP_REDUCTION = ("redux.sync",)
    ELECTION = ("elect.sync",)
    WARP_MMA = ("mma",)
    TENSOR_ALLOCATION = ("tcgen05.alloc",)
    TENSOR_FREE = ("tcgen05.dealloc",)
    TENSOR_LOAD = ("tcgen05.ld",)
    """From tensor memory; its registers are written until TENSOR_LOAD_WAIT."""
    TENSOR_LOAD_WAIT = ("tcgen05.wait::ld",)
    TENSOR_STORE = ("tcgen05.st",)
    TENSOR_COPY = ("tcgen05.cp",)
    """From shared to tensor memory."""
    TENSOR_SHIFT = ("tcgen05.shift",)
    TENSOR_MMA = ("tcgen05.mma",)
    GROUP_MMA = ("wgmma.mma_async",)
    """A product of four warps (wgmma); its registers are read and written until GROUP_MMA_WAIT."""
    GROUP_MMA_COMMIT = ("wgmma.commit_group",)
    GROUP_MMA_WAIT = ("wgmma.wait_group",)
    GROUP_MMA_FENCE = ("wgmma.fence",)
    REGISTER_POOL = ("setmaxnreg",)
    """Moves registers between the warps of a CTA."""
    WORK_STEALING = ("clusterlaunchcontrol.try_cancel",)
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
        first: str = self.value[0]
        return first

    @property
    def is_read_modify_write(self) -> bool:
        """True for an atomic update of memory, with or without a result."""
        return self in (Kind.ATOMIC, Kind.REDUCTION)


KINDS: Final = {opcode: kind for kind in Kind for opcode in kind.value if kind is not Kind.OTHER}
