"""Data-flow analysis: a solver over the blocks of a flow graph, and reachability over any graph."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeVar

State = TypeVar("State")
Node = TypeVar("Node", bound=Hashable)
Ways = Mapping[int, Sequence[int]]
"""The successors of each block by its number, in the order of the program. A successor without an entry is ignored."""


def solve(
    ways: Ways,
    entry: Mapping[int, State],
    transfer: Callable[[int, State], State],
    join: Callable[[State, State], State],
    direction: int = 1,
) -> dict[int, State]:
    """Iterate to the fixed point. Return the state before each block that is reachable from the blocks of `entry`.

    entry: initial states. transfer: returns the state after a block; it must not modify its argument.
    join: merges a known state with another one; repeated joins must reach a fixed point.
    direction: -1 for an analysis backward, whose `ways` are the `predecessors`: "before" a block then is at its end.
    The next block is the first in this direction.
    """
    found = dict(entry)
    work = [direction * node for node in entry]
    heapify(work)
    queued = set(entry)
    while work:
        node = direction * heappop(work)
        queued.remove(node)
        state = transfer(node, found[node])
        for following in ways[node]:
            if following not in ways:
                continue
            merged = join(found[following], state) if following in found else state
            if following in found and merged == found[following]:
                continue
            found[following] = merged
            if following not in queued:
                queued.add(following)
                heappush(work, direction * following)
    return found


def predecessors(ways: Ways) -> dict[int, list[int]]:
    """Return the predecessors of each block."""
    into: dict[int, list[int]] = {node: [] for node in ways}
    for node, successors in ways.items():
        for successor in successors:
            if successor in into:
                into[successor].append(node)
    return into


def dominators(ways: Ways, root: int, direction: int = 1) -> dict[int, int]:
    """Return the dominators of each block that is reachable from `root`, itself included, as bits (block + 1).

    direction: -1 if `ways` leads against the order of the program.
    """

    def including(node: int, strict: int) -> int:
        return strict | 1 << node + 1

    strict = solve(ways, {root: 0}, including, int.__and__, direction)
    return {node: including(node, bits) for node, bits in strict.items()}


def reachable(starts: Iterable[Node], following: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """Return all nodes that are reachable from `starts`, these included. `following` is asked once for each node."""
    work = list(starts)
    seen = set(work)
    while work:
        for node in following(work.pop()):
            if node not in seen:
                seen.add(node)
                work.append(node)
    return seen
