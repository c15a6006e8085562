"""The conditions of a launch that its PTX does not show: what L2 holds, the data, the clock rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

L2State = Literal["cold", "warm", "dirty"]
Data = Literal["random", "zeros"]
Branches = Literal["assumed", "executed"]


@dataclass(frozen=True)
class Conditions:
    """The conditions of a launch.

    l2: "cold" if L2 holds nothing that the launch reads; "warm" if the same launch was made before it; "dirty" if it
    is full of other data that HBM does not have yet, as after a flush that writes.
    data: the operands of the tensor cores, which decide their power.
    ghz: a fixed clock rate; None for the chip's own, which power limits.
    branches: the outcomes of branches that depend on comparisons of data: "assumed" if the comparisons are taken to be
    false, "executed" if one cluster is executed on the launch's inputs and all clusters branch as it did.
    clusters: indices of clusters that are executed besides those with the most work. The launch takes as much longer as
    the longest of them does.
    ranges: show the range of the time.
    """

    l2: L2State = "cold"
    data: Data = "random"
    ghz: float | None = None
    branches: Branches = "assumed"
    clusters: frozenset[tuple[int, int, int]] = frozenset()
    ranges: bool = True

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid condition."""
        for name, kind in (("l2", L2State), ("data", Data), ("branches", Branches)):
            if getattr(self, name) not in get_args(kind):
                allowed = " or ".join(map(repr, get_args(kind)))
                raise ValueError(f"{name} is {getattr(self, name)!r}; allowed: {allowed}")
        if self.ghz is not None and not 0.1 <= self.ghz <= 5:
            raise ValueError(f"ghz is {self.ghz}; allowed: None or 0.1 to 5")


USUAL: Final = Conditions()
