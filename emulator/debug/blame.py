"""The search for a wrong value: which instructions and inputs made one element of a launch's output."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..machine.formats.descriptors import MatrixDescriptor
from ..machine.launch.names import kernel_name
from ..machine.launch.shared_names import shared_variable, source_name
from ..machine.launch.source import source_place
from ..ptx.kinds import Kind
from ..tensors import MANTISSA, TYPES, NamedTensor, element, named, place, shown, width_of
from .addresses import UNKNOWN, describe
from .events import Copied, Executed, Multiplied
from .exact import PASSING, Exact, Value
from .places import brief, warp_name
from .recording import Recording
from .slicing import DATA, FILL, Node, Slicer, Source, result_kind

MOST_VALUES: Final = 200_000
"""The number of values that a search visits."""
MOST_CONDITIONS: Final = 400
MOST_ELEMENTS: Final = 2**16
"""The elements of an output that are looked at to say which of them were written."""
SHOWN_LINES: Final = 40
SHOWN_CONDITIONS: Final = 12
SHOWN_CULPRITS: Final = 3
SHOWN_INSIDE: Final = 6
SHOWN_PRODUCTS: Final = 8
SHOWN_RUNS: Final = 6
NEAR: Final = 0.02
"""The share of an error that a factor may leave unexplained, as the rounding of bf16 does for 1.4427."""
MOST_COPIES: Final = 64
"""The number of copies through which an operand's element is followed."""


@dataclass(frozen=True)
class Wrong:
    """The elements of an output that differ from the expected output."""

    mask: np.ndarray
    values: np.ndarray
    expected: np.ndarray
    kind: str

    @property
    def count(self) -> int:
        """The number of wrong elements."""
        return int(self.mask.sum())

    @property
    def worst(self) -> tuple[int, ...]:
        """The index of the element with the largest error; NaN and infinity count as the largest if they are wrong."""
        with np.errstate(invalid="ignore"):
            off = np.abs(self.values.astype(np.float64) - self.expected)
        off = np.where(np.isfinite(off), off, np.where(self.mask, np.inf, 0.0))
        if self.count:
            off = np.where(self.mask, off, -1.0)
        return tuple(int(i) for i in np.unravel_index(int(off.argmax()), off.shape))

    @property
    def factor(self) -> float | None:
        """The factor between all wrong elements and the expected ones, None if there is no common one."""
        held, wanted = self.values[self.mask].astype(np.float64), self.expected[self.mask]
        if self.count < 2 or not (np.isfinite(held).all() and np.isfinite(wanted).all() and wanted.all()):
            return None
        middle = float(np.median(held / wanted))
        if not middle:
            return None
        off = np.linalg.norm(held - middle * wanted)
        return middle if off < NEAR * np.linalg.norm(held - wanted) else None

    def where(self) -> str:
        """Describe the indices with wrong elements, dimension by dimension."""
        return region(self.mask)


def wrong(tensor: NamedTensor, values: np.ndarray, expected: Any, rtol: float | None, atol: float | None) -> Wrong:
    """Compare the values of a tensor with the expected output. Raises ValueError for another shape.

    rtol, atol: tolerated differences, relative and absolute. Default: 8 units in the last place of the tensor's type,
    and as much of the root mean square of `expected`.
    """
    reference = np.asarray(expected, np.float64)
    if reference.shape != values.shape:
        raise ValueError(f"expected has shape {reference.shape}; {tensor.name} has {values.shape}")
    unit = 8 * 2.0 ** -MANTISSA.get(tensor.kind, 1074)
    relative = unit if rtol is None else rtol
    finite = reference[np.isfinite(reference)]
    size = math.sqrt(float((finite**2).mean())) if finite.size else 0.0
    absolute = unit * size if atol is None else atol
    have = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        close = np.abs(have - reference) <= absolute + relative * np.abs(reference)
    same = (have == reference) | (np.isnan(have) & np.isnan(reference))
    return Wrong(~(close | same), values, reference, tensor.kind)


def region(mask: np.ndarray) -> str:
    """Describe the indices of a mask, dimension by dimension."""
    axes = []
    for axis in range(mask.ndim):
        others = tuple(i for i in range(mask.ndim) if i != axis)
        axes.append(pattern(np.flatnonzero(mask.any(others)), mask.shape[axis]))
    return ", ".join(axes)


def pattern(indices: np.ndarray, size: int) -> str:
    """Describe a sorted set of indices below `size`: `:`, `3`, `0:64`, `8:16 of every 16`, or the first few."""
    if indices.size == size:
        return ":"
    if indices.size == 1:
        return str(int(indices[0]))
    runs = np.split(indices, np.flatnonzero(np.diff(indices) != 1) + 1)
    if len(runs) == 1:
        return _range(runs[0])
    starts, sizes = np.array([run[0] for run in runs]), {run.size for run in runs}
    steps = set(np.diff(starts).tolist())
    if len(steps) == 1 and len(sizes) == 1 and len(runs) > 2:
        step, first, length = steps.pop(), int(starts[0]), sizes.pop()
        last = f" from {first} to {int(indices[-1])}" if size - int(indices[-1]) > step or first >= step else ""
        inside = first % step
        return f"{inside if length == 1 else f'{inside}:{inside + length}'} of every {step}{last}"
    shown_runs = ", ".join(_range(run) for run in runs[:4])
    return f"{{{shown_runs}{', ...' if len(runs) > 4 else ''}}}"


def _range(run: np.ndarray) -> str:
    return str(int(run[0])) if run.size == 1 else f"{int(run[0])}:{int(run[-1]) + 1}"


class Blame:
    """The origin of one element of a tensor that a recorded launch wrote."""

    def __init__(self, recording: Recording, tensor: NamedTensor, index: tuple[int, ...]) -> None:
        self.recording, self.tensor, self.index = recording, tensor, index
        self.slicer = Slicer(recording)
        self.start: Value | None = None
        self.sources: dict[Value, list[Source]] = {}
        """The values that the element was computed from, and the sources of each."""
        self.conditions: dict[Value, list[Source]] = {}
        """Predicates and addresses that decided between values."""
        self.left = 0
        """Values that were not visited, because there were too many."""
        found = self.slicer.at_address(tensor.at(index))
        if found is not None:
            self.start = found[0], tensor.kind, found[1]
            parts = [self.slicer.at_address(tensor.at(index) + byte) for byte in range(1, tensor.width)]
            self._follow([self.start, *((n, "", at) for n, at in filter(None, parts) if n.event != found[0].event)])
        self.held = recording.values(tensor)[index]
        """The number that the launch left in the element."""
        self.exact = Exact(self.slicer, self.sources, {self.start: float(self.held)} if self.start else {})

    def _follow(self, parts: Sequence[Value]) -> None:
        """Visit the values from which the element was computed, latest event first. parts: the values that hold it."""
        seen = set(parts)
        queue = [(-part[0].event, -number, part) for number, part in enumerate(seen)]
        heapq.heapify(queue)
        decided: list[Value] = []
        number = 0
        while queue:
            _, _, value = heapq.heappop(queue)
            node, kind, offset = value
            if len(self.sources) >= MOST_VALUES:
                self.left = len(queue) + 1
                break
            found = self.sources[value] = list(self.slicer.sources(node, kind, offset))
            for source in found:
                if source.node is None:
                    continue
                each = source.node, source.kind, source.offset
                if source.role not in DATA:
                    decided.append(each)
                elif each not in seen:
                    seen.add(each)
                    number += 1
                    heapq.heappush(queue, (-source.node.event, number, each))
        self._decide(decided)

    def _decide(self, values: Sequence[Value]) -> None:
        """Visit the predicates and addresses, and their sources once for each instruction."""
        queue, instructions = list(dict.fromkeys(values)), set[int]()
        direct = len(queue)
        for number, value in enumerate(queue):
            at = self.instruction(value)
            again = at in instructions and (number >= direct or value[1] != "pred")
            if len(self.conditions) >= MOST_CONDITIONS or value in self.sources or again:
                continue
            instructions.add(at)
            node, kind, offset = value
            found = self.conditions[value] = list(self.slicer.sources(node, kind, offset))
            queue += [(s.node, s.kind, s.offset) for s in found if s.node is not None]

    def instruction(self, value: Value) -> int:
        events = self.recording.events
        return self.recording.issuer(events[value[0].event]).at

    # text ----------------------------------------------------------------------------------------------------------

    def lines(self, expected: float | None = None) -> Iterator[str]:
        """Yield the report. expected: the right value."""
        name = element(self.tensor, self.index)
        held, now = (shown(v, self.tensor.kind) for v in (self.held, self.tensor.values()[self.index]))
        wanted = "" if expected is None else f", expected {shown(expected, self.tensor.kind)}"
        yield f"{name} is {held}{wanted}"
        if now != held:
            yield f"  it is {now} now: something after this launch wrote it"
        if self.start is None:
            kernel = kernel_name(self.recording.kernel)
            yield f"  this launch of {kernel} did not write it: no store reached this address"
            yield from self._written()
            return
        yield from self._steps()
        yield "inputs that reach it"
        yield from (f"  {line}" for line in self.inputs())
        yield from self._decisions()
        yield from self._first_nan()
        yield from self._judged(float(self.held), expected)

    def _written(self) -> Iterator[str]:
        """Yield which elements of the tensor the launch wrote, and the lines that did."""
        indices = itertools.islice(np.ndindex(self.tensor.shape), MOST_ELEMENTS)
        values = {index: self.slicer.at_address(self.tensor.at(index)) for index in indices}
        mask = np.zeros(self.tensor.shape, bool)
        for index in (index for index, found in values.items() if found is not None):
            mask[index] = True
        stores = [(found[0], "", 0) for found in values.values() if found is not None]
        if stores:
            yield f"  it wrote {self.tensor.name}[{region(mask)}], by"
        for same in self._by_line(stores)[:SHOWN_LINES]:
            yield f"  {brief(self.recording.kernel, self.instruction(same[0]))}"

    def _steps(self) -> Iterator[str]:
        yield "computed by, the last line first"
        groups = self._by_line(self.sources)
        for lines in groups[:SHOWN_LINES]:
            yield f"  {brief(self.recording.kernel, self.instruction(lines[0]))}"
            yield f"      {self._said(lines)}"
            products = [value for value in lines if isinstance(self.recording.events[value[0].event], Multiplied)]
            for value in products[:SHOWN_PRODUCTS]:
                yield f"      {self._operands(value)}"
        if len(groups) > SHOWN_LINES:
            yield f"  {len(groups) - SHOWN_LINES} more lines"
        if self.left:
            yield f"  {self.left} values were not followed: the search ends after {MOST_VALUES}"

    def _operands(self, value: Value) -> str:
        """Describe the elements of the program's tensors that a product read as A's and B's rows, in the order of K."""
        n, m = value[0].slot
        texts = []
        for role, row in (("a", m), ("b", n)):
            elements = [source for source in self.sources[value] if source.role == role]
            origins = [self._origin(source) for source in elements]
            text = self._stores(elements) if not any(origins) else ""
            texts.append(f"{role.upper()} row {row} is {text or _runs(origins)}")
        return "; ".join(texts)

    def _stores(self, elements: Sequence[Source]) -> str:
        """Describe the stores of a computed row whose elements, in the order of K, are not stored in that order.

        Empty if they are, or if something else than stores of threads wrote them.
        """
        stores = []
        for each in elements:
            event = None if each.node is None else self.recording.events[each.node.event]
            if each.node is None or not isinstance(event, Executed) or each.node.slot[0] >= 0:
                return ""
            stores.append((event.at, ~each.node.slot[0]))
        order = {store: rank for rank, store in enumerate(sorted(set(stores)))}
        ranks = np.array([order[store] for store in stores])
        runs = np.split(np.arange(ranks.size), np.flatnonzero((np.diff(ranks) < 0) | (np.diff(ranks) > 1)) + 1)
        if len(runs) == 1:
            return ""
        line = [self.recording.kernel.instrs[at].line for at, _ in stores]
        texts = [f"{line[run[0]]} to {line[run[-1]]}" for run in runs[:SHOWN_RUNS]]
        more = f", and {len(runs) - SHOWN_RUNS} more" if len(runs) > SHOWN_RUNS else ""
        return f"computed, K in the order of the stores of PTX lines {', '.join(texts)}{more}"

    def _origin(self, source: Source) -> tuple[str, tuple[int, ...]] | None:
        """Return the tensor element that a value is a copy of; None if the value was computed or is in no tensor."""
        for _ in range(MOST_COPIES):
            if source.node is None:
                if source.text == FILL:
                    return FILL, ()
                found = None if source.address < 0 or source.text else place(self.recording.tensors, source.address)
                return None if found is None else (found[0].name, found[1])
            event = self.recording.events[source.node.event]
            key = source.node, source.kind, source.offset
            known = self.sources.get(key)
            values = [each for each in (known or ()) if each.role in DATA]
            if len(values) != 1 or (isinstance(event, Executed) and not self._copies(event, source.node)):
                return None
            source = values[0]
        return None

    def _copies(self, event: Executed, node: Node) -> bool:
        kind = self.recording.effects[event.at].instr.kind
        return node.slot[0] < 0 or kind in PASSING

    def _by_line(self, values: Iterable[Value]) -> list[list[Value]]:
        """Return values by source line, and by call of a function, else by instruction, without moves."""
        groups: dict[Any, list[Value]] = {}
        for value in values:
            at = self.instruction(value)
            place = source_place(self.recording.kernel, at)
            if self.recording.effects[at].instr.kind not in (Kind.MOVE, Kind.PARAMETER) or value == self.start:
                line = at if place is None else place if place.inlined else (place.file, place.line)
                groups.setdefault(line, []).append(value)
        return list(groups.values())

    def _said(self, values: Sequence[Value]) -> str:
        """Describe the values of one line: the latest one, and the range of the others."""
        value = values[0]
        event = self.recording.events[value[0].event]
        text = f"{self._number(value)}{self._detail(event, value)}, {self._who(event, value[0])}"
        if len(values) > 1:
            same = [v for v in values if self.instruction(v) == self.instruction(value)]
            numbers = [a for v in same if (a := self.exact.actual.get(v)) is not None and math.isfinite(a)]
            spread = f", from {min(numbers):.6g} to {max(numbers):.6g}" if len(same) > 1 and numbers else ""
            count = len({self.instruction(v) for v in values})
            text += f"; {len(values)} values" + (f" of {count} instructions" if count > 1 else spread)
        return text + "".join(f"\n        {part}" for part in self._inside(values))

    def _inside(self, values: Sequence[Value]) -> Iterator[str]:
        """Yield the other instructions of a source line, if they are few, each with its latest value."""
        latest = {self.instruction(value): value for value in reversed(values)}
        others = sorted((at for at in latest if at != self.instruction(values[0])), reverse=True)
        for at in others if len(others) <= SHOWN_INSIDE else ():
            value = latest[at]
            detail = self._detail(self.recording.events[value[0].event], value)
            yield f"{self.recording.kernel.instrs[at].opcode}: {self._number(value)}{detail}"

    def _number(self, value: Value) -> str:
        node, kind, offset = value
        kind = kind if kind in MANTISSA else self._computed_as(value) or kind
        held = self.slicer.value(node, kind, offset)
        if held is None:
            return "a value that is not kept"
        return shown(held, kind) if kind in MANTISSA or kind else f"{held:#x}"

    def _computed_as(self, value: Value) -> str:
        """Return the float type as which a value was computed that is read as an integer; empty if there is none."""
        kind = value[1]
        for _ in range(MOST_COPIES if kind in TYPES else 0):
            event = self.recording.events[value[0].event]
            if isinstance(event, Executed) and not self._copies(event, value[0]):
                found = result_kind(self.recording.effects[event.at])
                return found if found in MANTISSA and width_of(found) == width_of(kind) else ""
            known = [s for s in self.sources.get(value, ()) if s.role in DATA and s.node is not None]
            if len(known) != 1 or known[0].node is None:
                return ""
            value = known[0].node, known[0].kind, known[0].offset
        return ""

    def _who(self, event: object, node: Node) -> str:
        assert isinstance(event, Executed | Copied | Multiplied)
        by = self.recording.issuer(event)
        lane = f" lane {node.slot[1]}" if isinstance(event, Executed) else ""
        return f"{warp_name(by.warp)}{lane}"

    def _detail(self, event: object, value: Value) -> str:
        """Describe where a value went or came from."""
        node, _, offset = value
        first, second = node.slot
        if isinstance(event, Copied):
            source = int(event.sources[first])
            origin = "outside of the tensor" if source == UNKNOWN else self._place(source + second + offset)
            return f" from {origin} to {self._place(int(event.targets[first]) + second + offset)}"
        if isinstance(event, Multiplied):
            return self._product(event, first, second)
        assert isinstance(event, Executed)
        if event.access is None:
            return ""
        index = ~first if first < 0 else first
        if index >= len(event.access.places):
            return ""
        piece, inside = divmod(offset, event.access.width)
        address = int(event.access.places[index, min(piece, event.access.places.shape[1] - 1), second]) + inside
        return f" {'to' if first < 0 else 'from'} {self._place(address)}"

    def _product(self, event: Multiplied, n: int, m: int) -> str:
        """Describe one element of a product: its place, its rows of A and B, and the descriptors."""
        step = event.product.steps[0]
        more = "" if event.old is None else f" added to {event.old[n, m]:.6g}"
        a, b = event.a_of(n), event.b
        left = "tensor memory" if step.a_in_tmem else self._descriptor(step.a)
        return (
            f" in {self._place(int(event.places[n, m]))}: K = {b.values.shape[1]}{more}; "
            f"A row {m} {_preview(a.values[m])}, {a.kind}, {left}; B row {n} {_preview(b.values[n])}, {b.kind}, "
            f"{self._descriptor(step.b)}; D is {event.product.shape.idesc.d}"
        )

    def _descriptor(self, bits: int) -> str:
        found = MatrixDescriptor.decode(bits)
        array = shared_variable(self.recording.kernel, found.start, found.start)
        start = f"{found.start:#x}" if array is None else f"{source_name(array.name)} ({found.start:#x})"
        return f"at {start} with LBO {found.leading}, SBO {found.stride}, {found.pattern}"

    def _place(self, address: int) -> str:
        found = place(self.recording.tensors, address)
        return element(*found) if found is not None else describe(address, self.recording.kernel)

    def inputs(self) -> Iterator[str]:
        """Yield the elements of each tensor that reach the value, and other inputs."""
        reached: dict[str, set[tuple[int, ...]]] = {}
        other: dict[str, None] = {}
        for sources in self.sources.values():
            for source in sources:
                if source.node is not None or source.role not in DATA:
                    continue
                found = None if source.address < 0 or source.text else place(self.recording.tensors, source.address)
                if found is not None:
                    reached.setdefault(found[0].name, set()).add(found[1])
                else:
                    other.setdefault(source.text or describe(source.address, self.recording.kernel))
        for name, indices in reached.items():
            yield f"{name}[{_box(indices, self.recording.tensors[name].shape)}]"
        constants = [text for text in other if text and not text.startswith("%")]
        if constants:
            yield f"constants and parameters: {', '.join(_constant(text) for text in constants[:12])}"

    def _decisions(self) -> Iterator[str]:
        predicates = [value for value in self.conditions if value[1] == "pred"]
        addresses = [value for value in self.conditions if value[1] != "pred"]
        for title, values in (
            ("conditions that selected values", predicates),
            ("addresses and conditions come from", addresses),
        ):
            groups = self._by_line(values)
            if groups:
                yield title
            for value, *_ in groups[:SHOWN_CONDITIONS]:
                yield f"  {brief(self.recording.kernel, self.instruction(value))}"
                yield f"      {self._condition(value)}, {self._who(self.recording.events[value[0].event], value[0])}"
            if len(groups) > SHOWN_CONDITIONS:
                yield f"  {len(groups) - SHOWN_CONDITIONS} more"

    def _condition(self, value: Value) -> str:
        held = self.slicer.bits(value[0])
        if held is None:
            return "a value that is not kept"
        operands = ", ".join(self._operand(source) for source in self.conditions[value][:4])
        result = str(bool(held)).lower() if value[1] == "pred" else str(held)
        return f"{result} of {operands}" if operands else result

    def _operand(self, source: Source) -> str:
        if source.node is None:
            return _constant(source.text) or self._place(source.address)
        held = self.slicer.value(source.node, source.kind, source.offset)
        return "?" if held is None else shown(held, source.kind) if source.kind in MANTISSA else str(_signed(int(held)))

    def _first_nan(self) -> Iterator[str]:
        """Name the first of the values that is NaN, if there is one."""
        found = [value for value, actual in self.exact.actual.items() if actual is not None and math.isnan(actual)]
        if not found:
            return
        first = min(found, key=lambda value: value[0].event)
        operands = ", ".join(self._operand(source) for source in self.sources[first][:4] if source.role in DATA)
        yield "the first value that is NaN"
        yield f"  {brief(self.recording.kernel, self.instruction(first))}"
        yield f"      of {operands}, {self._who(self.recording.events[first[0].event], first[0])}"

    def _judged(self, held: float, expected: float | None) -> Iterator[str]:
        """Say whether rounding explains the difference, and which instruction's."""
        if self.start is None or self.tensor.kind not in MANTISSA:
            return
        exact = self.exact.without()[self.start]
        if exact is None or all(r is None for r in self.exact.rounding.values()):
            yield "float64: not known, because integer or bit operations made the value"
            return
        yield f"the same operations without rounding, in float64, give {exact:.9g}"
        if expected is None or not math.isfinite(expected) or not math.isfinite(held):
            return
        off, left = abs(held - expected), abs(exact - expected)
        unknown = self.exact.unknown()
        if left > 0.25 * off and unknown:
            yield "  whether rounding is the cause is not known, because float64 does not follow"
            yield from (f"  {brief(self.recording.kernel, at)}" for at in unknown[:SHOWN_CULPRITS])
            return
        if left > 0.25 * off:
            yield "  so rounding is not the cause: an operation, an address, a condition or an input above is wrong"
            return
        yield "  so rounding made the difference; without the rounding of"
        for at, without, count in self.exact.culprits(self.start, expected)[:SHOWN_CULPRITS]:
            yield f"  {brief(self.recording.kernel, at)}"
            yield f"      it would be {without:.9g} ({count} values rounded)"


def _runs(origins: Sequence[tuple[str, tuple[int, ...]] | None]) -> str:
    """Describe a row of elements by the ranges of the tensors' elements that follow one another in it."""
    runs: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = []
    for origin in origins:
        name, index = origin or ("computed", ())
        if runs and runs[-1][0] == name and _follows(runs[-1][1], runs[-1][2], index):
            runs[-1] = name, runs[-1][1], index
        else:
            runs.append((name, index, index))
    texts = [name if not first else f"{name}[{_span(first, last)}]" for name, first, last in runs[:SHOWN_RUNS]]
    return ", ".join(texts) + (f", and {len(runs) - SHOWN_RUNS} more ranges" if len(runs) > SHOWN_RUNS else "")


def _follows(first: tuple[int, ...], last: tuple[int, ...], index: tuple[int, ...]) -> bool:
    """Return whether an element is the next one of a range along one dimension, or none has an index."""
    if not index:
        return True
    steps = [i - at for at, i in zip(last, index, strict=True)]
    moved = [axis for axis, step in enumerate(steps) if step]
    along = [axis for axis, (a, b) in enumerate(zip(first, last, strict=True)) if a != b]
    return len(moved) == 1 and steps[moved[0]] == 1 and along in ([], moved)


def _span(first: tuple[int, ...], last: tuple[int, ...]) -> str:
    return ", ".join(str(a) if a == b else f"{a}:{b + 1}" for a, b in zip(first, last, strict=True))


def _preview(values: np.ndarray) -> str:
    texts = [f"{float(v):.4g}" for v in values[:4]]
    return f"[{', '.join(texts)}{', ...' if values.size > 4 else ''}]"


def _signed(value: int) -> int:
    return value - (1 << 32) if 1 << 31 <= value < 1 << 32 else value


def _constant(text: str) -> str:
    if text.startswith("0f"):
        return shown(np.array([int(text[2:], 16)], np.uint32).view(np.float32)[0], "f32")
    return text


def _box(indices: set[tuple[int, ...]], shape: tuple[int, ...]) -> str:
    """Describe a set of indices: each dimension's pattern, and their number unless it is the product."""
    axes = [np.unique([index[axis] for index in indices]) for axis in range(len(shape))]
    text = ", ".join(pattern(axis, 0 if axis.size > 1 else size) for axis, size in zip(axes, shape, strict=True))
    total = math.prod(axis.size for axis in axes)
    return text if total == len(indices) else f"{text}; {len(indices)} of these {total} elements"


def find(
    recordings: Mapping[int, Recording], output: Any, launch: int | None = None, size: int | None = None
) -> tuple[Recording, NamedTensor]:
    """Return the last recorded launch that wrote an output, and the output.

    output: its name where the script launches, or the tensor itself; None for the one that the launch wrote. launch:
    the number of a launch. size: the output's elements, if known: others of its name are left out. Raises ValueError.
    """
    if launch is not None and launch not in recordings:
        raise ValueError(f"launch {launch} was not recorded; recorded were {sorted(recordings) or 'none'}")
    chosen = [launch] if launch is not None else sorted(recordings, reverse=True)
    known: set[str] = set()
    fallback: tuple[Recording, NamedTensor] | None = None
    for number in chosen:
        recording = recordings[number]
        known.update(recording.tensors)
        found = [each for each in _tensors(recording, output) if size in (None, math.prod(each.shape))]
        written = {each.address: each for each in found if recording.writes(each)}
        if len(written) > 1:
            names = ", ".join(each.name for each in written.values())
            raise ValueError(f"which output? launch {number} wrote {names}: give --output NAME")
        if written:
            return recording, next(iter(written.values()))
        fallback = fallback or next(((recording, each) for each in _tensors(recording, output)), None)
    if fallback is not None and output is not None:
        return fallback
    raise ValueError(
        f"output {output!r}: no launch had a tensor of that name; there were {', '.join(sorted(known)) or 'none'}"
        if output is not None
        else f"no launch wrote a tensor of {size} elements: give --output NAME, of {', '.join(sorted(known)) or 'none'}"
    )


def _tensors(recording: Recording, output: Any) -> list[NamedTensor]:
    """Return the tensors that may be meant by an output: those of its name, itself, or all."""
    if output is None:
        return list(recording.tensors.values())
    found = recording.tensors.get(output) if isinstance(output, str) else named("output", output)
    return [] if found is None else [found]
