"""The data-flow solver, dominators and reachability, against walks over random graphs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from emulator.ptx.flow import dominators, predecessors, reachable, solve

OUTSIDE = 99
Graph = dict[int, list[int]]
graphs = st.integers(1, 8).flatmap(
    lambda n: st.fixed_dictionaries(
        {block: st.lists(st.sampled_from([*range(n), OUTSIDE]), max_size=3, unique=True) for block in range(n)}
    )
)


def walked(ways: Graph, start: int, without: int | None = None) -> set[int]:
    """Return the blocks on paths from `start` that avoid a block."""
    seen: set[int] = set()
    work = [start]
    while work:
        at = work.pop()
        if at in ways and at not in seen and at != without:
            seen.add(at)
            work += ways[at]
    return seen


def passed(block: int, before: frozenset[int]) -> frozenset[int]:
    return before | {block}


@given(graphs)
def test_forward_joins_what_all_paths_to_a_block_pass(ways: Graph) -> None:
    found = solve(ways, {0: frozenset[int]()}, passed, frozenset.union)
    assert found.keys() == walked(ways, 0)
    for block, before in found.items():
        on_the_way = {at for at in found if any(block in walked(ways, after) for after in ways[at])}
        assert before == on_the_way


@given(graphs)
def test_the_direction_changes_the_order_alone(ways: Graph) -> None:
    entry, into = dict.fromkeys(ways, frozenset[int]()), predecessors(ways)
    assert solve(into, entry, passed, frozenset.union, -1) == solve(into, entry, passed, frozenset.union)


@given(graphs)
def test_a_dominator_is_on_every_path_from_the_root(ways: Graph) -> None:
    found = dominators(ways, 0)
    assert found.keys() == walked(ways, 0)
    for block, bits in found.items():
        for other in found:
            assert bool(bits >> other + 1 & 1) == (other == block or block not in walked(ways, 0, other))


@given(graphs)
def test_reachable_asks_once_for_each_node(ways: Graph) -> None:
    asked: list[int] = []

    def following(block: int) -> list[int]:
        asked.append(block)
        return ways.get(block, [])

    assert reachable([0], following) - {OUTSIDE} == walked(ways, 0)
    assert len(asked) == len(set(asked))
