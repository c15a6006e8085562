"""One basic block as a Python function, which calls segments and handlers in order and returns the next block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import CodeType
from typing import Any, NoReturn

import numpy as np

from ..chip import ALL_LANES
from ..errors import Decoding
from ..isa.ld_st import MemoryOp
from ..isa.registry import BLOCK, Action, Flush, Handler
from ..isa.special_registers import changes
from ..machine.compiled.accesses import admitted_now, follow_clock
from ..machine.convergence import (
    has_constant_lanes,
    receiving_lanes,
    report_nonmembers,
    report_reads_of_ended,
    report_reads_of_unnamed,
)
from ..machine.reports.suspects import SuspectLoad
from ..ptx.flow import EXIT, BasicBlock, Flow
from ..ptx.kinds import Kind
from ..ptx.syntax import Imm, Instr, Special
from .divergence import ArmsApart, active, diverge, first, lanes_of, leave
from .effects import Effect
from .fetch import Fetcher
from .segments import Chain, Segment
from .static_faults import EarlyUse, StaticFault, first_uses

BLOCKED = -2
BlockFunction = Callable[[Any], int]


@dataclass(frozen=True)
class Instructions:
    """Everything that executes or checks single instructions, each by the id of the instruction's effect.

    handlers: actions of instructions that are not machine code. early_uses: the loads whose registers an instruction
    may use while they are outstanding. faults: faults of an instruction that do not depend on its operands.
    """

    handlers: Mapping[int, Action]
    early_uses: Mapping[int, Sequence[EarlyUse]]
    faults: Mapping[int, Sequence[StaticFault]]


class BlockWriter:
    """Writes the source of one block's function `f(w)`; `w` is the warp.

    The function returns the index of the next block, or BLOCKED if the warp waits. If the active lanes end, the next
    block is the one at which other lanes may wait for them.
    """

    def __init__(
        self,
        flow: Flow,
        fetcher: Fetcher,
        segments: Sequence[Sequence[Segment]],
        chains: Mapping[int, Chain],
        runner: Any,
        instructions: Instructions,
    ) -> None:
        self._flow, self._fetcher, self._segments, self._chains = flow, fetcher, segments, chains
        self._runner, self._instructions = runner, instructions
        meets = [flow.post_dominator[block.index] for block in flow.blocks if len(block.successors) > 1]
        self._meets = Counter(meets)
        self._deferred: tuple[Flush, Instr] | None = None
        """Work deferred by handlers in the function being written, and the last instruction that deferred some."""

    def function(self, block: BasicBlock) -> BlockFunction:
        """Compile the function of a block, and of the blocks after it as long as a branch only skips one block."""
        names = {**_NAMES, "run": self._runner, "handle": {}}
        lines = ["def f(w):", " r = w.registers; bits = w.bits; mask = w.mask; lane = w.lane"]
        at = block
        while (skipped := self.skipped(at)) is not None:
            lines += self._body(at, names)
            lines += self._skip(at, skipped, names)
            at = self._flow.blocks[skipped.successors[0]]
        lines += self._body(at, names)
        lines += self._do_deferred(names)
        last = self._segments[at.index][-1].effects[0]
        if last.entry is None:
            lines += [*self._checks([last], at, names), *self._end(last, at)]
        else:
            lines.append(f" return {_to(at.successors[0])}")
        made: BlockFunction = _defined(lines, names)
        return made

    def _body(self, block: BasicBlock, names: dict[str, Any]) -> list[str]:
        """Write a block without its branch or end."""
        lines = []
        left = list(self._segments[block.index])
        while left and left[0].effects[0].entry is not None:
            effect = left[0].effects[0]
            chain = self._chains.get(id(effect))
            together = left[: chain.segments if chain is not None else 1]
            later = effect.entry.flush if isinstance(effect.entry, Handler) and chain is None else None
            waiting = None if self._deferred is None else self._deferred[0]
            if chain.stops if chain is not None else later is not waiting:
                lines += self._do_deferred(names)
            lines += self._checks([effect for segment in together for effect in segment.effects], block, names)
            lines += self._chain(chain, block, names) if chain is not None else self._call(effect, names)
            if later is not None:
                self._deferred = later, effect.instr
            del left[: len(together)]
        return lines

    def _do_deferred(self, names: dict[str, Any]) -> list[str]:
        lines = [" " + line for line in self._deferred_call(names)]
        self._deferred = None
        return lines

    def _deferred_call(self, names: dict[str, Any]) -> list[str]:
        if self._deferred is None:
            return []
        later, instr = self._deferred
        return _attempt([f"{_named(later, names)}(w)"], instr, "bits", names)

    def skipped(self, block: BasicBlock) -> BasicBlock | None:
        """Return the block that some lanes skip by the branch at the end of `block`, if one function can run both.

        Lanes that diverge for one block need no entry of the warp's stack if nothing reads the entry. So the block
        has no exchange between lanes, no barrier and no end of a thread, and no other branch's lanes meet after it.
        """
        end = self._segments[block.index][-1].effects[0]
        if end.instr.kind is not Kind.BRANCH or end.instr.guard is None or len(block.successors) != 2:
            return None
        target, following = block.successors
        if following != block.index + 1 or target != following + 1 or self._meets[target] > 1:
            return None
        inside, then = self._effects(following), self._effects(target)
        if self._flow.blocks[following].successors != (target,) or then[0].instr.kind is Kind.EXIT:
            return None
        if any(e.blocking or e.membermask is not None for e in inside) or then[0].blocking:
            return None
        if any(isinstance(s, Special) and changes(s) for e in (*inside, *then) for s in e.reads):
            return None  # a clock counts the instructions executed before its block
        return self._flow.blocks[following]

    def _effects(self, block: int) -> list[Effect]:
        return [effect for segment in self._segments[block] for effect in segment.effects]

    def _skip(self, block: BasicBlock, skipped: BasicBlock, names: dict[str, Any]) -> list[str]:
        """Write the branch at the end of `block` and the block after it, for the lanes that do not skip it."""
        branch = self._segments[block.index][-1].effects
        guard = branch[0].instr.guard
        assert guard is not None
        held, target = self._fetcher.predicate_bits(guard[0]), skipped.successors[0]
        deferred, checks = self._deferred, self._checks(branch, block, names)
        body = [*self._body(skipped, names), *_counted(skipped)]
        self._deferred = self._deferred or deferred  # the lanes that would do the work may all skip this
        return [
            *checks,
            f" taken = {'~' + held if guard[1] else held} & bits",
            " if taken:",
            "  everyone = bits, mask, lane; bits = taken; mask = active(taken); lane = first(taken)",
            *(" " + line for line in body),
            "  bits, mask, lane = everyone",
            *_if("w.yielded", [*self._deferred_call(names), f"return {target}"]),
            *_counted(self._flow.blocks[target]),
        ]

    def _checks(self, effects: Sequence[Effect], block: BasicBlock, names: dict[str, Any]) -> list[str]:
        """Write the checks that run before instructions which run as one."""
        lines = []
        deferred = self._deferred_call(names)
        for pipe, kind in (("loads", Kind.TENSOR_LOAD), ("products", Kind.GROUP_MMA)):
            if uses := first_uses(effects, self._instructions.early_uses, kind):
                report = f"w.{pipe}.report_early_uses({_named(uses, names)})"
                lines += _if(f"w.{pipe} and w.{pipe}.issued", [*deferred, report])
        for effect in effects:
            for fault in self._instructions.faults.get(id(effect), ()):
                lines += [" " + line for line in (*deferred, f"{_named(fault, names)}.report(w)")]
            instr = effect.instr
            if instr.guard is not None:
                continue
            members = effect.membermask
            named = members.value & ALL_LANES if isinstance(members, Imm) else None
            if named is not None:
                lines += self._arms(effects[0].instr, named, deferred, names)
                if others := ~named & ALL_LANES:
                    parted = block.index in self.parted
                    outside = f"report_nonmembers({_named(instr, names)}, w, bits, {named}, {parted})"
                    lines += _if(f"bits & {others}", [*deferred, outside])
            if has_constant_lanes(instr):
                lines += _if("w.ended", [*deferred, f"report_reads_of_ended({_named(instr, names)}, w, bits)"])
                if named is not None and (getting := receiving_lanes(instr, ~named & ALL_LANES) & named):
                    unnamed = f"report_reads_of_unnamed({_named(instr, names)}, w, bits & {getting})"
                    lines += _if(f"bits & {getting}", [*deferred, unnamed], "elif")
        return lines

    def _arms(self, first: Instr, named: int, deferred: Sequence[str], names: dict[str, Any]) -> list[str]:
        """Write the check that the lanes of an exchange are together. first: of the instructions that run as one."""
        condition = f"w.stack and w.elsewhere(bits) & {named}"
        return _if(condition, [*deferred, f"raise ArmsApart({_named(first, names)}, bits)"])

    @cached_property
    def parted(self) -> frozenset[int]:
        """The blocks that a branch on a varying predicate may lead some lanes to and others not."""
        ends = [(block, self._segments[block.index][-1].effects[0].instr) for block in self._flow.blocks]
        return frozenset().union(
            *(
                self._flow.divergent_region(block)[0]
                for block, end in ends
                if end.kind is Kind.BRANCH and end.guard is not None and not self._fetcher.is_uniform(end.guard[0])
            )
        )

    def _chain(self, chain: Chain, block: BasicBlock, names: dict[str, Any]) -> list[str]:
        """Write a run of the chain. Where it stops, the access's handler runs, then the rest of the chain."""
        if not chain.stops:
            return [f" run(r.base, bits, {chain.start})"]
        for effect, at, after in chain.stops:
            lines = ["def f(w, r, bits, mask, lane):"]
            op = MemoryOp(effect.instr)
            if op.space == "shared" and not op.own_cta:
                lines.append(f" if admitted_now(w): return run(r.base, bits, {at})")
            lines += self._call(effect, names)
            names["handle"][at] = _defined([*lines, f" return run(r.base, bits, {after})"], names)
        clock = " if w.clock.v is not w.memory_clock: follow_clock(w)"
        return [clock, f" at = run(r.base, bits, {chain.start})", " while at: at = handle[at](w, r, bits, mask, lane)"]

    def _call(self, effect: Effect, names: dict[str, Any]) -> list[str]:
        guard = effect.instr.guard
        if guard is None:
            return [" " + line for line in self._guarded_call(effect, "bits", names)]
        bits = self._fetcher.predicate_bits(guard[0])
        return [
            f" taken = {bits if guard[1] else '~' + bits} & bits",
            " if taken:",
            "  saved = bits, mask, lane; bits = taken; mask = active(taken); lane = first(taken)",
            *("  " + line for line in self._guarded_call(effect, "saved[0]", names)),
            "  bits, mask, lane = saved",
        ]

    def _guarded_call(self, effect: Effect, arrived: str, names: dict[str, Any]) -> list[str]:
        """Write the call of a handler. arrived: an expression for the lanes that reach it, before its guard."""
        instr, destinations = effect.instr, effect.destinations
        if len(destinations) == 1:
            stores = self._fetcher.store(destinations[0], "v")
        else:
            each = enumerate(destinations)
            stores = [line for i, to in each for line in self._fetcher.store(to, f"v[{i}]")]
        if not isinstance(effect.entry, Handler):
            changing = next(s for s in effect.reads if isinstance(s, Special) and changes(s))
            return _attempt([f"v = w.sreg({changing.name!r})", *stores], instr, arrived, names)
        with Decoding(instr):
            operands = "".join(f", {self._fetcher.source(operand, instr)}" for operand in effect.sources)
        call = f"v = {_named(self._instructions.handlers[id(effect)], names)}(w, mask{operands})"
        if not effect.entry.blocking:
            return _attempt([call, *stores], instr, arrived, names)
        attempts = _attempt([call], instr, arrived, names)
        return [*attempts, "if v is BLOCK: return -2", *_attempt(stores, instr, arrived, names)]

    def _end(self, effect: Effect, block: BasicBlock) -> list[str]:
        instr = effect.instr
        taken = self._flow.target(instr) if instr.kind is Kind.BRANCH else EXIT
        if instr.guard is None:
            return [f" return {_to(taken)}"]
        register, wanted = instr.guard
        bits = self._fetcher.predicate_bits(register)
        following = block.successors[-1]
        if self._fetcher.is_uniform(register):
            yes, no = (taken, following) if wanted else (following, taken)
            return [f" return {_to(yes)} if {bits} >> lane & 1 else {_to(no)}"]
        meet = self._flow.post_dominator[block.index]
        return [
            f" taken = {bits if wanted else '~' + bits} & bits",
            f" if taken == bits: return {_to(taken)}",
            f" if not taken: return {_to(following)}",
            f" return diverge(w, taken, {taken}, {following}, {meet})",
        ]


def _defined(lines: list[str], names: dict[str, Any]) -> Any:
    """Define the function `f` with these names, and return it."""
    exec(_code("\n".join(lines)), names)
    return names["f"]


@lru_cache(maxsize=1 << 13)
def _code(text: str) -> CodeType:
    """Compile a function. The results are shared, because similar programs have many equal functions."""
    return compile(text, "<PTX block>", "exec")


def _to(block: int) -> str:
    """Write the next block, or the end of the active lanes."""
    return "leave(w, bits)" if block == EXIT else str(block)


def _counted(block: BasicBlock) -> list[str]:
    """Count a block that another block's function runs, and its instructions."""
    return [f" w.executed += {block.end - block.start}; w.passed[{block.start}] += 1"]


def _if(condition: str, body: Sequence[str], keyword: str = "if") -> list[str]:
    return [f" {keyword} {condition}:", *("  " + line for line in body)]


def _attempt(statements: Sequence[str], instr: Instr, arrived: str, names: dict[str, Any]) -> list[str]:
    """Write simple statements that execute `instr`, so that their exceptions get its instruction and lanes.

    They share a line with `try`: then Python emits no instruction for it, and statements that succeed cost nothing.
    """
    if not statements:
        return []
    return [
        f"try: {'; '.join(statements)}",
        f"except Exception as error: fail(error, {_named(instr, names)}, {arrived})",
    ]


def fail(error: Exception, instr: Instr, lanes: int) -> NoReturn:
    """Raise the error of an instruction of these lanes (bits), as UnknownInstruction unless it is a report."""
    if isinstance(error, SuspectLoad):
        error.lanes = lanes
        raise error
    with Decoding(instr):
        raise error


def _named(value: Any, names: dict[str, Any]) -> str:
    name = f"value{len(names)}"
    names[name] = value
    return name


def put(rows: np.ndarray, row: int, value: Any, mask: np.ndarray | None) -> None:
    """Assign a register in the lanes of the mask."""
    if mask is None:
        rows[row] = value
    else:
        np.copyto(rows[row], value, where=mask, casting="unsafe")


def put_rows(rows: np.ndarray, values: Any, mask: np.ndarray | None) -> None:
    """Assign neighbouring registers: from an array [n, 32], or from n arrays or ints."""
    if isinstance(values, np.ndarray):
        if mask is None:
            rows[:] = values
        else:
            np.copyto(rows, values, where=mask, casting="unsafe")
        return
    for row, value in enumerate(values):
        put(rows, row, value, mask)


def put_predicate(words: memoryview, index: int, value: Any, bits: int) -> None:
    """Assign a predicate from a bool or bool[32]."""
    word = words[index]
    if isinstance(value, np.ndarray):
        wanted = int.from_bytes(np.packbits(value, bitorder="little").tobytes(), "little")
    else:
        wanted = ALL_LANES if value else 0
    words[index] = (word & ~bits) | (wanted & bits)


_NAMES: dict[str, Any] = {"BLOCK": BLOCK, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64} | {
    function.__name__: function
    for function in (
        *(follow_clock, admitted_now, report_reads_of_ended, report_nonmembers),
        *(report_reads_of_unnamed, active, first, diverge, fail, leave, lanes_of, put, put_rows, put_predicate),
        ArmsApart,
        *(np.stack, np.full),
    )
}
"""The names that the functions of blocks use, besides those of their instructions."""
