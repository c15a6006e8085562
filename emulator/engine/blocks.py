"""One basic block as a Python function: compiled segments and handlers called in order, then where to go on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import TakingApart
from ..isa.registry import BLOCK, Handler
from ..isa.special_registers import changes
from ..machine.compiled_accesses import follow_clock
from ..machine.convergence import note_apart
from ..ptx.flow import EXIT, BasicBlock, Flow
from ..ptx.syntax import Imm, Instr, Special
from .early_uses import LOAD, PRODUCT, EarlyUse, first_uses
from .effects import Effect
from .fetch import Fetcher
from .segments import Chain, Segment
from .unwritten import Unwritten, refuse_unwritten

EXCHANGES = frozenset(
    {"bar.warp.sync", "elect.sync", "match.all.sync", "match.any.sync", "redux.sync", "shfl.sync", "vote.sync"}
)
BLOCKED = -2
_CALLED = re.compile(r"\b(call\d+)\(")
ALL = 0xFFFF_FFFF
BlockFunction = Callable[[Any], int]


class BlockWriter:
    """Writes the source of one block's function `f(w)`; `w` is the warp.

    It answers the index of the next block, EXIT if the warp's active lanes end, or BLOCKED. early: the loads whose
    registers an instruction may use while they are outstanding; undefined: what it reads that nothing wrote; both by
    the id of its effect.
    """

    def __init__(
        self,
        flow: Flow,
        fetcher: Fetcher,
        chains: Mapping[int, Chain],
        runner: Any,
        handlers: Mapping[int, Any],
        early: Mapping[int, Sequence[EarlyUse]],
        undefined: Mapping[int, Unwritten],
    ) -> None:
        self._flow, self._fetcher = flow, fetcher
        self._chains, self._runner, self._handlers = chains, runner, handlers
        self._early, self._undefined = early, undefined

    def function(self, block: BasicBlock, segments: Sequence[Segment], diverge: Callable[..., int]) -> BlockFunction:
        """The compiled function of a block."""
        names: dict[str, Any] = {
            "BLOCK": BLOCK,
            "run": self._runner,
            "handle": {},
            "follow": follow_clock,
            "apart": note_apart,
            "undefined": refuse_unwritten,
            "active": active,
            "first": first,
            "diverge": diverge,
            "lanes_of": lanes_of,
            "put": put,
            "put_rows": put_rows,
            "put_predicate": put_predicate,
            "stack": np.stack,
            "full": np.full,
            "sources": {},
            "instrs": {},
            "u16": np.uint16,
            "u32": np.uint32,
            "u64": np.uint64,
        }
        lines = ["def f(w):", " r = w.registers; bits = w.bits; mask = w.mask; lane = w.lane"]
        left = list(segments)
        while left:
            effect = left[0].effects[0]
            chain = self._chains.get(id(effect))
            together = left[: chain.segments if chain is not None else 1]
            lines += self._checks([effect for segment in together for effect in segment.effects], names)
            if chain is not None:
                lines += self._chain(chain, block, names)
            else:
                lines += self._end(effect, block) if effect.entry is None else self._call(effect, names)
            del left[: len(together)]
        if segments[-1].effects[0].entry is not None:
            lines.append(f" return {block.successors[0]}")
        made: BlockFunction = self._defined(lines, block, names)
        return made

    def _defined(self, lines: list[str], block: BasicBlock, names: dict[str, Any]) -> Any:
        file = f"<PTX block {block.index}, part {len(names['sources'])}>"
        names["sources"][file] = lines
        exec(compile("\n".join(lines), file, "exec"), names)
        return names["f"]

    def _checks(self, effects: Sequence[Effect], names: dict[str, Any]) -> list[str]:
        """What is asked before instructions that run as one, where some of them may be wrong."""
        lines = []
        for pipe, opcode in (("loads", LOAD), ("products", PRODUCT)):
            if uses := first_uses(effects, self._early, opcode):
                lines.append(f" if w.{pipe} and w.{pipe}.issued: w.{pipe}.refuse_early({_named(uses, names)})")
        for effect in effects:
            if (read := self._undefined.get(id(effect))) is not None:
                lines.append(f" undefined({_named(read, names)}, w)")
            instr = effect.instr
            members = instr.operands[-1] if instr.opcode in EXCHANGES and instr.guard is None else None
            if isinstance(members, Imm):
                lines.append(f" if w.stack or w.missed: apart({_named(instr, names)}, w, bits, {members.value & ALL})")
        return lines

    def _chain(self, chain: Chain, block: BasicBlock, names: dict[str, Any]) -> list[str]:
        """Run the chain; where it stops, call the handler of the access and run the rest."""
        if not chain.stops:
            return [f" run(r.base, bits, {chain.start})"]
        for effect, at, after in chain.stops:
            lines = ["def f(w, r, bits, mask, lane):", *self._call(effect, names)]
            names["handle"][at] = self._defined([*lines, f" return run(r.base, bits, {after})"], block, names)
        clock = [" if w.clock.v is not w.memory_clock: follow(w)"] if chain.shared else []
        return [*clock, f" at = run(r.base, bits, {chain.start})", " while at: at = handle[at](w, r, bits, mask, lane)"]

    def _call(self, effect: Effect, names: dict[str, Any]) -> list[str]:
        name = f"call{len(names)}"
        if isinstance(effect.entry, Handler):
            names[name] = self._handlers[id(effect)]
            names["instrs"][name] = effect.instr
        guard = effect.instr.guard
        body = self._guarded_call(effect, name)
        if guard is None:
            return [" " + line for line in body]
        bits = self._fetcher.predicate_bits(guard[0])
        return [
            f" taken = {bits if guard[1] else '~' + bits} & bits",
            " if taken:",
            "  saved = bits, mask, lane; bits = taken; mask = active(taken); lane = first(taken)",
            *("  " + line for line in body),
            "  bits, mask, lane = saved",
        ]

    def _guarded_call(self, effect: Effect, name: str) -> list[str]:
        instr = effect.instr
        if not isinstance(effect.entry, Handler):
            changing = next(s for s in effect.reads if isinstance(s, Special) and changes(s))
            lines = [f"v = w.sreg({changing.name!r})"]
        else:
            with TakingApart(instr):
                operands = "".join(f", {self._fetcher.source(operand, instr)}" for operand in effect.sources)
            lines = [f"v = {name}(w, mask{operands})"]
            if effect.entry.blocking:
                lines.append("if v is BLOCK: return -2")
        stores: list[str] = []
        destinations = effect.destinations
        if len(destinations) == 1:
            stores = self._fetcher.store(destinations[0], "v")
        else:
            for i, destination in enumerate(destinations):
                stores += self._fetcher.store(destination, f"v[{i}]")
        return lines + stores

    def _end(self, effect: Effect, block: BasicBlock) -> list[str]:
        instr = effect.instr
        taken = self._flow.target(instr) if instr.opcode == "bra" else EXIT
        if instr.guard is None:
            return [f" return {taken}"]
        register, wanted = instr.guard
        bits = self._fetcher.predicate_bits(register)
        following = block.successors[-1]
        if self._fetcher.is_uniform(register):
            yes, no = (taken, following) if wanted else (following, taken)
            return [f" return {yes} if {bits} >> lane & 1 else {no}"]
        meet = self._flow.post_dominator[block.index]
        return [
            f" taken = {bits if wanted else '~' + bits} & bits",
            f" if taken == bits: return {taken}",
            f" if not taken: return {following}",
            f" return diverge(w, taken, {taken}, {following}, {meet})",
        ]


def executed(error: BaseException) -> Instr | None:
    """The instruction whose handler a block's function had called last when `error` was raised, if any."""
    at = error.__traceback__
    while at is not None:
        frame = at.tb_frame
        lines = frame.f_globals.get("sources", {}).get(frame.f_code.co_filename, ())
        for line in reversed(lines[: at.tb_lineno]):
            if called := _CALLED.search(line):
                instr: Instr = frame.f_globals["instrs"][called[1]]
                return instr
        at = at.tb_next
    return None


def _named(value: Any, names: dict[str, Any]) -> str:
    name = f"value{len(names)}"
    names[name] = value
    return name


@lru_cache(maxsize=4096)
def lanes_of(bits: int) -> np.ndarray:
    """A word as bool[32], lane 0 from the lowest bit. Shared: not to be written to."""
    return np.array([bits >> lane & 1 for lane in range(32)], dtype=bool)


def active(bits: int) -> np.ndarray | None:
    """A word as the mask that handlers take: None if all lanes are active."""
    return None if bits == ALL else lanes_of(bits)


def first(bits: int) -> int:
    """The lowest active lane."""
    return (bits & -bits).bit_length() - 1


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
        wanted = ALL if value else 0
    words[index] = (word & ~bits) | (wanted & bits)
