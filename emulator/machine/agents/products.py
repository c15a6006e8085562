"""The wgmma products of a warp, in groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..order.access import missing_release
from ..synchronisation.pipe import Pipe

if TYPE_CHECKING:
    from ..order.access import Access
    from ..topology import Warp


class Products(Pipe):
    """The wgmma.mma_async of a warp, which complete in order: the warp's quarter of the rows of each.

    A product reads its matrices and writes its registers at issue. The hardware may do so until wgmma.wait_group; the
    checks of shared memory and of registers assume that it does.
    """

    began = "issued at"
    fenced = False

    def __init__(self, warp: Warp) -> None:
        component = warp.cta.cluster.history.component((warp.cta.rank, warp.index, "wgmma"))
        super().__init__(warp, "wgmma.wait_group", component, (component,))
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

    def release(self) -> None:
        """Let the warp's next release cover what was waited for."""
        self.warp.clock.advance(self.component, self.waited)

    def missing(self, access: Access, me: Access) -> str:
        """Describe what must order `me` after `access`, for the report of a conflict."""
        if access.time <= self.waited:
            return missing_release(self.warp, self.waiting_for, me)
        group = "" if self.committed and access.time <= self.committed[-1] else "wgmma.commit_group and "
        wait = f"{group}{self.waiting_for} in {self.warp} after PTX line {access.instr.line}"
        return wait if me.warp is self.warp else f"{wait}, and {missing_release(self.warp, self.waiting_for, me)}"


def products(warp: Warp) -> Products:
    """Return the products of a warp."""
    found: Products | None = warp.products
    if found is None:
        found = warp.products = Products(warp)
    return found
