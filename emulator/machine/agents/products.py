"""The warpgroup MMAs of a warp, in groups, and the barrier at which four warps meet before them."""

from __future__ import annotations

from typing import Final

from ...leniency import Leniency
from ...ptx.kinds import Kind
from ...ptx.syntax import Instr
from ..order.access import Access, missing_release
from ..order.owner import CtaOwner
from ..synchronisation.barriers import NamedBarrier
from ..synchronisation.pipe import Pipe
from ..topology import Warp

WARPS: Final = 4
"""The warps of a warpgroup."""


class Products(Pipe):
    """A warp's part of its warpgroup MMAs, a quarter of the rows. They complete in order.

    A product reads its matrices and writes its registers at issue. The hardware may do so until the wait; the checks of
    shared memory and of registers assume that it does.
    """

    began, used_early = "issued at", Leniency.PRODUCT_USED_EARLY
    fenced = False

    def __init__(self, warp: Warp) -> None:
        component = warp.cta.cluster.history.component(warp.cta.rank, warp.index, Kind.GROUP_MMA)
        super().__init__(warp, Kind.GROUP_MMA_WAIT.opcode, component, (component,))
        self.committed: list[int] = []
        """The number of products issued before the commit of each group that was not waited for."""

    @property
    def count(self) -> int:
        """The number of products issued."""
        return self.waited + len(self.issued)

    def commit(self) -> None:
        """Close the open group."""
        self.committed.append(self.count)

    def wait_for_all_but(self, allowed: int) -> None:
        """Complete all committed groups except the latest `allowed`."""
        covered = self.committed[: max(len(self.committed) - allowed, 0)]
        if covered:
            self.wait(covered[-1] - self.waited)
            del self.committed[: len(covered)]

    def missing(self, access: Access, me: Access) -> str:
        """Describe what must order `me` after `access`, for the report of a conflict."""
        if access.time <= self.waited:
            return missing_release(self.warp, self.waiting_for, me)
        group = "" if self.committed and access.time <= self.committed[-1] else f"{Kind.GROUP_MMA_COMMIT.opcode} and "
        wait = f"{group}{self.waiting_for} in {self.warp} after PTX line {access.instr.line}"
        return wait if me.warp is self.warp else f"{wait}, and {missing_release(self.warp, self.waiting_for, me)}"


class WarpGroupBarrier(NamedBarrier):
    """The barrier at the fence of the four warps from number `first`."""

    def __init__(self, cta: CtaOwner, first: int) -> None:
        super().__init__(cta, first)
        self.products: list[Instr] = []
        """The products that each of the four warps has to execute, in the order of the first warp that did."""

    def __str__(self) -> str:
        return f"{Kind.GROUP_MMA_FENCE.opcode} of warps {self.index} to {self.index + WARPS - 1} of CTA {self.cta.name}"


def products(warp: Warp) -> Products:
    """Return the products of a warp."""
    found: Products | None = warp.products
    if found is None:
        found = warp.products = Products(warp)
    return found


def warpgroup(warp: Warp) -> WarpGroupBarrier:
    """Return the barrier of a warp's warpgroup, created at its first use."""
    index = warp.index // WARPS
    found: WarpGroupBarrier | None = warp.cta.warpgroups.get(index)
    if found is None:
        found = warp.cta.warpgroups[index] = WarpGroupBarrier(warp.cta, WARPS * index)
    return found
