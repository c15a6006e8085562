"""Post-dominators and the separation of branches, against walks over all paths of random graphs."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.ptx.flow import EXIT, Flow
from emulator.ptx.parser import parse
from emulator.ptx.syntax import Instr


def flow_of(edges: list[tuple[int, int | None]]) -> Flow:
    """Return a flow graph. Block i branches, guarded, to edges[i][0] and falls through, or jumps, or returns (None)."""
    lines = []
    for i, (target, kind) in enumerate(edges):
        lines.append(f"L{i}: nop;")
        if kind is None:
            lines.append("ret;")
        else:
            lines.append(f"{'@%p0 ' if kind else ''}bra L{target};")
    body = "\n".join(lines)
    text = f".version 8.8\n.target sm_100a\n.entry k() {{ .reg .pred %p<1>;\n{body}\nret; }}"
    kernel = next(iter(parse(text).kernels.values()))
    return Flow(kernel, lambda instr: False)


graphs = st.integers(2, 9).flatmap(
    lambda n: st.lists(st.tuples(st.integers(0, n - 1), st.sampled_from([1, 1, 0, None])), min_size=n, max_size=n)
)


def reaches(flow: Flow, start: int, without: int) -> bool:
    """Return True if the end is reachable from `start` on a path that avoids a block."""
    seen, work = set(), [start]
    while work:
        at = work.pop()
        if at == EXIT:
            return True
        if at in seen or at == without:
            continue
        seen.add(at)
        work.extend(flow.continuing_successors[at])
    return False


@settings(max_examples=300)
@given(graphs)
def test_immediate_post_dominators(edges: list[tuple[int, int | None]]) -> None:
    flow = flow_of(edges)
    for block in flow.blocks:
        if not reaches(flow, block.index, without=-2):
            continue
        dominators = [b.index for b in flow.blocks if b is not block and not reaches(flow, block.index, b.index)]
        immediate = flow.post_dominator[block.index]
        if not dominators:
            assert immediate == EXIT
            continue
        assert immediate in dominators
        others = [d for d in dominators if d != immediate]
        assert not any(reaches(flow, immediate, other) for other in others)


@settings(max_examples=300)
@given(graphs)
def test_lanes_that_end_are_not_waited_for(edges: list[tuple[int, int | None]]) -> None:
    """A removed edge leads to the end, past blocks that no other lanes reach, and is never the last path to the end."""
    flow = flow_of(edges)
    for block, kept in zip(flow.blocks, flow.continuing_successors, strict=True):
        assert kept == block.successors or reaches(flow, kept[0], without=-2)
        for left in set(block.successors) - set(kept):
            ways = [b.successors if b is not block else kept for b in flow.blocks]
            assert not (gone_through(ways, 0) & gone_through([b.successors for b in flow.blocks], left)) - flow.leaves


def gone_through(ways: Sequence[tuple[int, ...]], start: int) -> set[int]:
    """Return the reachable blocks."""
    seen, work = set[int](), [start]
    while work:
        if (at := work.pop()) not in seen:
            seen.add(at)
            work.extend(ways[at] if at != EXIT else ())
    return seen


def test_if_else_and_what_it_keeps_apart() -> None:
    text = """.version 8.8
.target sm_100a
.entry k() { .reg .pred %p<2>; .reg .b32 %r<2>;
 @%p0 bra ELSE;
 mov.b32 %r0, 1;
 bra END;
ELSE: mov.b32 %r0, 2;
END: mov.b32 %r1, %r0;
 ret; }"""
    flow = Flow(parse(text).kernels["k"], lambda instr: False)
    assert flow.post_dominator == (3, 3, 3, EXIT)
    assert flow.divergent_region(flow.blocks[0]) == (frozenset({1, 2}), frozenset({3}))


def test_a_loop_exit_meets_behind_the_loop() -> None:
    text = """.version 8.8
.target sm_100a
.entry k() { .reg .pred %p<2>; .reg .b32 %r<2>;
 mov.b32 %r0, 1;
LOOP: add.s32 %r0, %r0, 1;
 @%p0 bra LOOP;
 ret; }"""
    flow = Flow(parse(text).kernels["k"], lambda instr: False)
    assert flow.divergent_region(flow.blocks[1]) == (frozenset({1}), frozenset({2}))


def test_blocking_instructions_start_blocks() -> None:
    text = """.version 8.8
.target sm_100a
.entry k() { .reg .b32 %r<2>; mov.b32 %r0, 1; stop; mov.b32 %r0, 2; stop; stop; ret; }"""

    def blocking(instr: Instr) -> bool:
        return instr.opcode == "stop"

    flow = Flow(parse(text).kernels["k"], blocking)
    assert [(b.start, b.end) for b in flow.blocks] == [(0, 1), (1, 3), (3, 4), (4, 6)]
