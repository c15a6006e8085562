"""The products of wgmma: what a warp issued of them, in groups, and what waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..order.access import missing_release
from ..synchronisation.pipe import Pipe

if TYPE_CHECKING:
    from ..order.access import Access
    from ..topology import Warp


class Products(Pipe):
    """The wgmma.mma_async of a warp, which complete in order: its quarter of the rows of each.

    A product reads its matrices when it is issued, and its registers are written at once. That they may be later, until
    wgmma.wait_group, is what the checks of matrices and registers know.
    """

    began = "issued at"

    def __init__(self, warp: Warp) -> None:
        component = warp.cta.cluster.history.component((warp.cta.rank, warp.index, "wgmma"))
        super().__init__(warp, "wgmma.wait_group", component, (component,))
        self.committed: list[int] = []
        """How many products were issued until each group that was not waited for was committed."""

    @property
    def count(self) -> int:
        """How many were issued."""
        return self.waited + len(self.issued)

    def commit(self) -> None:
        """Close the open group."""
        self.committed.append(self.count)

    def wait_for_all_but(self, allowed: int) -> None:
        """All committed groups but the latest `allowed` are complete."""
        covered = self.committed[: max(len(self.committed) - allowed, 0)]
        if covered:
            self.wait(covered[-1] - self.waited)
            del self.committed[: len(covered)]

    def release(self) -> None:
        """What was waited for goes along with the warp's next release."""
        self.warp.clock.advance(self.component, self.waited)

    def missing(self, access: Access, me: Access) -> str:
        """What orders `me` after `access`, for the report of a conflict."""
        if access.time <= self.waited:
            return missing_release(self.warp, self.waiting_for, me)
        group = "" if self.committed and access.time <= self.committed[-1] else "wgmma.commit_group and "
        wait = f"{group}{self.waiting_for} in {self.warp} after PTX line {access.instr.line}"
        return wait if me.warp is self.warp else f"{wait}, and {missing_release(self.warp, self.waiting_for, me)}"


def products(warp: Warp) -> Products:
    """The products of a warp."""
    found: Products | None = warp.products
    if found is None:
        found = warp.products = Products(warp)
    return found
