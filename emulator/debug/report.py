"""The reports of `blame`: which elements of an output are wrong, what made one of them, where two versions diverge."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final

import numpy as np

from ..progress import doing
from ..ptx.kinds import Kind
from ..ptx.syntax import Imm, Instr
from ..tensors import MANTISSA, NamedTensor, element, place, shown
from .addresses import UNKNOWN
from .blame import Blame, Wrong, find, wrong
from .events import Copied, Executed, Multiplied
from .exact import Value
from .places import brief, shortened, warp_name
from .recording import Recording, WarpKey
from .slicing import Node

SHOWN: Final = 5
PRODUCTS: Final = frozenset({Kind.TENSOR_MMA, Kind.GROUP_MMA, Kind.WARP_MMA})
ROUNDING: Final = 2.0**-6
"""The relative difference up to which two values count as equal: some units in the last place of bf16."""


class Versions:
    """A wrong version's slice of an element, compared with that of a right version.

    rtol: the relative difference of numbers that counts as rounding.
    """

    def __init__(self, wrong: Blame, right: Blame, rtol: float = ROUNDING) -> None:
        self._wrong, self._right, self._rtol = wrong, right, rtol
        self._same = aligned(wrong.recording, right.recording)
        self._back = {there: here for here, there in self._same.items()}
        self._executions = {id(r): _executions(r) for r in (wrong.recording, right.recording)}
        self._parts = {id(r): _parts(r) for r in (wrong.recording, right.recording)}

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        parted: dict[int, str] = {}
        for value, text in self._parted():
            parted.setdefault(self._wrong.instruction(value), text)
        visited = dict.fromkeys(map(self._wrong.instruction, [*self._wrong.sources, *self._wrong.conditions]))
        for at in visited:
            if at in self._same and at not in parted and self._does_other(at):
                parted[at] = "with the same value here, the last time"
        changed = [at for at in parted if self._changed(at)]
        if not parted:
            yield "the slices of both versions have the same values, up to rounding"
        else:
            yield "the versions diverge here: changed instructions first, then in the order of execution"
        for at in [*changed, *(at for at in parted if at not in changed)][:SHOWN]:
            yield f"  {brief(self._wrong.recording.kernel, at)}"
            yield f"      {parted[at]}"
            if at in changed:
                yield f"      the right version has: {self._changed(at)}"
        counts = list(self._counts())
        if counts:
            yield "values that reach the element, by instruction"
            yield from counts[:SHOWN]
        yield from self._only("only the right version computes it by", self._right, self._back)
        yield from self._only("only the wrong version computes it by", self._wrong, self._same)

    def _parted(self) -> Iterator[tuple[Value, str]]:
        """Yield the values that differ, with both, in the order in which the wrong version made them."""
        values = [*self._wrong.sources, *self._wrong.conditions]
        for value in sorted(values, key=lambda each: each[0].event):
            here = self._wrong.instruction(value)
            if here not in self._same:
                continue
            other = self._counterpart(value[0])
            if other is None:
                by = warp_name(self._wrong.recording.issuer(self._wrong.recording.events[value[0].event]).warp)
                yield value, f"the right version does not execute it so often, in {by}"
                continue
            text = self._difference(value, other)
            if text is not None:
                yield value, text

    def _difference(self, value: Value, other: Node) -> str | None:
        """Describe how a value differs from that of the right version; None if it does not, or is a pointer."""
        node, kind, offset = value
        here, there = self._origin(self._wrong, value), self._origin(self._right, (other, kind, offset))
        if here != there and here is not None:
            return f"it {here}, where the right version {there}"
        mine, theirs = (b.slicer.value(n, kind, offset) for b, n in ((self._wrong, node), (self._right, other)))
        if mine is None or theirs is None or (kind not in MANTISSA and kind != "pred" and self._is_pointer(node)):
            return None
        if _close(float(mine), float(theirs), self._rtol if kind in MANTISSA else 0):
            return None
        who = warp_name(self._wrong.recording.issuer(self._wrong.recording.events[node.event]).warp)
        texts = (_text(number, kind) for number in (mine, theirs))
        return "{}, where the right version has {}, ".format(*texts) + who

    def _is_pointer(self, node: Node) -> bool:
        """Return whether a value may be an address of memory that lies elsewhere in the two runs: one of 64 bits."""
        event = self._wrong.recording.events[node.event]
        if not isinstance(event, Executed) or node.slot[0] < 0:
            return True
        return self._wrong.recording.effects[event.at].writes[node.slot[0]].type == "b64"

    def _origin(self, blame: Blame, value: Value) -> str | None:
        """Describe the element of the program's tensors that an instruction or copy takes or writes; None for none."""
        node, _, offset = value
        event = blame.recording.events[node.event]
        address, verb = UNKNOWN, "takes"
        if isinstance(event, Copied):
            address = int(event.sources[node.slot[0]])
            if address == UNKNOWN:
                return "takes what lies outside of the tensor"
            address += node.slot[1] + offset
        elif isinstance(event, Executed) and event.access is not None:
            index = node.slot[0] if node.slot[0] >= 0 else ~node.slot[0]
            if index < len(event.access.places):
                address = int(event.access.places[index, 0, node.slot[1]])
            verb = "takes" if node.slot[0] >= 0 else "writes"
        found = None if address == UNKNOWN else place(blame.recording.tensors, address)
        return None if found is None else f"{verb} {element(*found)}"

    def _counterpart(self, node: Node) -> Node | None:
        """Return the same value of the right version: of the same instruction, executed as often before."""
        wrong, right = self._wrong.recording, self._right.recording
        event = wrong.events[node.event]
        by = wrong.issuer(event)
        key = (by.warp.cta.ctaid, by.warp.index), by.at
        number = bisect_left(self._executions[id(wrong)][key], by.number)
        there = self._executions[id(right)].get((key[0], self._same[by.at]), [])
        if number >= len(there):
            return None
        if isinstance(event, Executed):
            other = right.events[there[number]]
            assert isinstance(other, Executed)
            fits = ~node.slot[0] < _stored(other) if node.slot[0] < 0 else node.slot[0] < len(other.values)
            return Node(there[number], node.slot) if fits else None
        part = self._parts[id(wrong)][by.number].index(event.number)
        parts = self._parts[id(right)].get(there[number], [])
        return Node(parts[part], node.slot) if part < len(parts) and _fits(right, parts[part], node) else None

    def _changed(self, at: int) -> str:
        """Return the right version's text of an instruction if it differs, else an empty string."""
        mine, theirs = self._wrong.recording.kernel.instrs[at], self._right.recording.kernel.instrs[self._same[at]]
        return shortened(theirs.text) if mine.text.split() != theirs.text.split() else ""

    def _does_other(self, at: int) -> bool:
        """Return whether an instruction has another operation or other constants in the right version."""
        mine, theirs = self._wrong.recording.kernel.instrs[at], self._right.recording.kernel.instrs[self._same[at]]
        return (mine.opcode, mine.modifiers, _constants(mine)) != (theirs.opcode, theirs.modifiers, _constants(theirs))

    def _counts(self) -> Iterator[str]:
        """Yield instructions that the slices hold a different number of times, the products first."""
        here, there = (Counter(b.instruction(v) for v in b.sources) for b in (self._wrong, self._right))
        effects = self._wrong.recording.effects
        for at, other in sorted(self._same.items(), key=lambda pair: effects[pair[0]].instr.kind not in PRODUCTS):
            if here[at] != there[other] and there[other]:
                text = brief(self._wrong.recording.kernel, at)
                yield f"  {text}: {here[at]} values, where the right version has {there[other]}"

    def _only(self, title: str, blame: Blame, known: Mapping[int, int]) -> Iterator[str]:
        found = dict.fromkeys(at for value in blame.sources if (at := blame.instruction(value)) not in known)
        lines = dict.fromkeys(brief(blame.recording.kernel, at) for at in found)
        if lines:
            yield title
            yield from (f"  {line}" for line in [*lines][:SHOWN])


def aligned(wrong: Recording, right: Recording) -> dict[int, int]:
    """Return the instruction of the right version's kernel for each of the wrong one's that it has too."""
    here, there = ([_shape(instr) for instr in r.kernel.instrs] for r in (wrong, right))
    found: dict[int, int] = {}
    for tag, a, b, c, d in SequenceMatcher(None, here, there, autojunk=False).get_opcodes():
        if tag == "equal" or (tag == "replace" and b - a == d - c):
            found |= dict(zip(range(a, b), range(c, d), strict=True))
    return found


def _shape(instr: Instr) -> tuple[Any, ...]:
    """Key of an instruction that is equal in two versions: everything except registers and constants."""
    return instr.opcode, instr.modifiers, tuple(type(operand).__name__ for operand in instr.operands)


def _constants(instr: Instr) -> list[str]:
    return [str(operand) for operand in instr.operands if isinstance(operand, Imm)]


def _executions(recording: Recording) -> dict[tuple[WarpKey, int], list[int]]:
    """Return the events of each instruction of each warp, in order."""
    found: dict[tuple[WarpKey, int], list[int]] = defaultdict(list)
    for event in recording.events:
        if isinstance(event, Executed):
            found[(event.warp.cta.ctaid, event.warp.index), event.at].append(event.number)
    return found


def _parts(recording: Recording) -> dict[int, list[int]]:
    """Return the copies and products of each executed instruction, in order."""
    found: dict[int, list[int]] = defaultdict(list)
    for event in recording.events:
        if not isinstance(event, Executed):
            found[recording.issuer(event).number].append(event.number)
    return found


def _stored(event: Executed) -> int:
    return 0 if event.access is None else len(event.access.places)


def _fits(recording: Recording, number: int, node: Node) -> bool:
    event = recording.events[number]
    if isinstance(event, Copied):
        return node.slot[0] < len(event.values) and node.slot[1] < event.width
    return isinstance(event, Multiplied) and all(i < n for i, n in zip(node.slot, event.values.shape, strict=True))


def _close(a: float, b: float, rtol: float) -> bool:
    return a == b or (a != a and b != b) or abs(a - b) <= rtol * max(abs(a), abs(b))


def _text(value: float, kind: str) -> str:
    if kind == "pred":
        return str(bool(value)).lower()
    return shown(value, kind) if kind in MANTISSA else f"{int(value)} ({int(value):#x})"


@dataclass(frozen=True)
class Question:
    """A question about an output.

    output: its name, or a tensor; None for what the launch wrote. element: an index; None for the one with the largest
    error. rtol, atol: tolerated differences, None for defaults. launch: the number of a recorded launch; None for the
    last that wrote the output. explains: also an element that is tolerated.
    """

    output: Any
    expected: Any = None
    element: tuple[int, ...] | None = None
    rtol: float | None = None
    atol: float | None = None
    launch: int | None = None
    explains: bool = False


def report(
    recordings: Mapping[int, Recording], asked: Question, right: Mapping[int, Recording] | None = None
) -> Iterator[str]:
    """Yield the report. right: recordings of a right version of the program, to compare with. Raises ValueError."""
    expected = asked.expected
    size = None if expected is None else np.size(expected)
    recording, tensor = find(recordings, asked.output, asked.launch, size)
    other = None if right is None else find(right, asked.output, asked.launch, size)
    if expected is None and other is not None:
        expected = other[0].values(other[1])
    values = tensor.values() if asked.launch is None else recording.values(tensor)
    off = None if expected is None else wrong(tensor, values, expected, asked.rtol, asked.atol)
    if off is not None:
        yield _summary(tensor, off)
    within = off is not None and not off.count and asked.element is None
    if within and not asked.explains:
        return
    index = _element(tensor, off, asked.element)
    with doing(f"following the values of {element(tensor, index)}"):
        blame = Blame(recording, tensor, index)
    if other is not None:
        yield from Versions(blame, Blame(*other, index), ROUNDING if asked.rtol is None else asked.rtol).lines()
    yield from blame.lines(None if off is None else float(off.expected[index]))


def _summary(tensor: NamedTensor, off: Wrong) -> str:
    if not off.count:
        worst = off.worst
        held, wanted = float(off.values[worst]), float(off.expected[worst])
        if held == wanted or off.values.size == 0 or held != held:
            return f"{tensor.name} is as expected"
        most = f"the largest error is that of {element(tensor, worst)}, {abs(held - wanted):.2g} of {wanted:.9g}"
        return f"{tensor.name} is as expected, within the tolerance: {most}"
    factor = "" if off.factor is None else f", each about {off.factor:.5g} times what is expected"
    return f"{off.count} of {off.mask.size} elements of {tensor.name} are wrong: {tensor.name}[{off.where()}]{factor}"


def _element(tensor: NamedTensor, off: Wrong | None, element: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the element to explain. Raises ValueError."""
    if element is None:
        if off is None:
            raise ValueError("which element? give the expected output, a right version, or an element")
        return off.worst
    inside = len(element) == len(tensor.shape) and all(0 <= i < n for i, n in zip(element, tensor.shape, strict=True))
    if not inside:
        raise ValueError(f"element {element}; {tensor.name} has the shape {tensor.shape}")
    return element
