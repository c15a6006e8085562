"""The origin of a value: one step back through registers, memory, copies and products."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ..chip import LANES
from ..engine.effects import Effect, registers
from ..isa.warp_matrices import COLUMNS, HIGH, LOW, ROWS
from ..ptx.kinds import Kind
from ..ptx.syntax import Address, Imm, Operand, Reg, Special, TensorAddress, Vector
from ..tensors import MANTISSA, TYPES, numbers, width_of
from .addresses import SHARED, UNKNOWN
from .events import Copied, Executed, Multiplied
from .recording import Recording

_FLOAT: Final = re.compile(r"(f64|f32|tf32|f16|bf16|e4m3|e5m2)(x2)?")
DATA: Final = frozenset({"value", "a", "b", "accumulator"})
"""The roles of sources whose values make the result."""
BITWISE: Final = frozenset({"mov", "cvt", "shl", "shr", "and", "or", "prmt"})
"""The instructions with which compilers take floats out of wider registers and put them together."""
FILL: Final = "a fill, outside of the tensor"
"""The text of a source that a copy filled, because it is outside of what it copies."""
_INTEGER: Final = re.compile(r"([usb])(8|16|32|64)")
Slot = tuple[int, int]
"""(register, lane) of an executed instruction, or (~register, lane) of the memory that a store wrote; (piece, byte) of
a copy; (n, m) of a product."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value: a part of the results of an event."""

    event: int
    slot: Slot


@dataclass(frozen=True, slots=True)
class Source:
    """Something that a value was computed from.

    role: "value", "address", "guard", "a", "b" or "accumulator". node: the value; None for an input: an address of
    global memory that the launch did not write, or a constant. offset: the relevant byte of the node's value.
    kind: the type as which it is read, "" if unknown. held: the bits at the address when they were read, if kept.
    """

    role: str
    node: Node | None
    address: int = UNKNOWN
    width: int = 0
    text: str = ""
    offset: int = 0
    kind: str = ""
    held: int = UNKNOWN


class Slicer:
    """Follows values of a recording back."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    def at_address(self, address: int) -> tuple[Node, int] | None:
        """Return the value of which a byte is part at the launch's end, and which byte; None if nothing wrote it."""
        event = self.recording.writers.last(address)
        if event == UNKNOWN:
            return None
        node = self._wrote(event, address)
        return node, self._offset(node, address)

    def sources(self, node: Node, kind: str = "", offset: int = 0) -> Iterator[Source]:
        """Yield the sources of a value. kind: the type as which the value is read, from a byte `offset` on."""
        event = self.recording.events[node.event]
        if isinstance(event, Copied):
            yield from self._of_copy(event, node.slot[0], node.slot[1] + offset, kind)
        elif isinstance(event, Multiplied):
            yield from self._of_product(event, *node.slot)
        elif node.slot[0] < 0:
            yield from self._of_store(event, ~node.slot[0], node.slot[1], kind, offset)
        else:
            yield from self._of_register(event, *node.slot, kind, offset)

    def bits(self, node: Node) -> int | None:
        """Return the bits of a value; None if they were not kept."""
        event, (first, second) = self.recording.events[node.event], node.slot
        if isinstance(event, Copied):
            return int.from_bytes(event.values[first, second : second + 8].tobytes(), "little")
        if isinstance(event, Multiplied):
            return int(event.values[first, second])
        if first < 0 and event.access is not None and event.access.after is not None:  # red, atom
            return int.from_bytes(event.access.after[~first, :, second].tobytes(), "little")
        if self.recording.effects[event.at].instr.kind is Kind.TENSOR_ALLOCATION:
            return None
        if first < 0:
            source = next((s for s in self._of_store(event, ~first, second, "") if s.role == "value"), None)
            if source is None:
                return None
            return _constant(source.text) if source.node is None else self.bits(source.node)
        row = event.values[first]
        if row is None:
            return None
        if row.ndim > 1:  # b128
            return int(row[0, second]) | int(row[1, second]) << 64
        return int(row[second])

    def value(self, node: Node, kind: str, offset: int = 0) -> float | int | None:
        """Return a value as a number of a type, from a byte on; None if other events wrote some of its bytes."""
        bits = self.bits(node)
        if bits is None or kind not in TYPES:
            return bits
        return number(bits >> 8 * offset, kind) if offset + width_of(kind) <= self._size(node) else None

    def _size(self, node: Node) -> int:
        """Return the bytes of a value whose bits are known."""
        event, (first, second) = self.recording.events[node.event], node.slot
        if isinstance(event, Copied):
            return event.width - second
        if isinstance(event, Multiplied):
            return 4
        if first >= 0:
            row = event.values[first]
            return 0 if row is None else row.itemsize * (2 if row.ndim > 1 else 1)
        return 0 if event.access is None else event.access.places.shape[1] * event.access.width

    # one step ------------------------------------------------------------------------------------------------------

    def _of_register(self, event: Executed, index: int, lane: int, kind: str, offset: int) -> Iterator[Source]:
        effect = self.recording.effects[event.at]
        if event.access is not None and event.access.reads and index < len(event.access.places):
            yield from self._loaded(event, index, lane, kind or result_kind(effect), offset)
            yield from self._registers(event, _addresses(effect), lane, "address")
        if effect.instr.kind is Kind.WARP_MMA:
            yield from self._of_warp_mma(event, effect, index, lane, offset)
        elif effect.instr.kind is Kind.GROUP_MMA:
            yield Source("value", None, text=f"the operands of {effect.instr.opcode}, which are not followed")
        elif effect.instr.kind is Kind.SHUFFLE:
            yield from self._registers(
                event, effect.sources[:1], self._shuffled(event, effect, lane), "value", kind, offset
            )
        elif effect.crosses_lanes and effect.instr.kind is not Kind.ELECTION:
            for other in range(LANES):
                if event.lanes >> other & 1:
                    yield from self._registers(event, effect.sources[:1], other, "value", operand_kind(effect))
        elif event.access is None:
            yield from self._computed(event, effect, index, lane, kind, offset)
        if effect.instr.guard is not None:
            yield from self._registers(event, (effect.instr.guard[0],), lane, "guard")

    def _computed(
        self, event: Executed, effect: Effect, index: int, lane: int, kind: str, offset: int
    ) -> Iterator[Source]:
        """Yield the operands of a lane-wise instruction; for moves and packed instructions only the relevant part."""
        if effect.instr.kind is Kind.PARAMETER:
            yield Source("value", None, text=_parameter(self.recording, effect), kind=kind)
            return
        if effect.instr.kind is Kind.SELECT:
            *_, by = effect.sources
            held = self._predicate(event, by, lane)
            chosen = effect.sources[:2] if held is None else (effect.sources[0 if held else 1],)
            yield from self._registers(event, chosen, lane, "value", kind or result_kind(effect), offset)
            yield from self._registers(event, (by,), lane, "guard")
            return
        moved = _moved_part(effect, index, offset, kind)
        if moved is not None:
            yield from self._registers(event, moved[:1], lane, "value", kind, moved[1])
            return
        same = self._same_bits(event, effect, index, lane, kind, offset)
        if same is not None:
            yield same
            return
        packed = any(m.endswith("x2") for m in effect.instr.modifiers)
        if packed and effect.instr.kind is Kind.CONVERT:
            of, to = operand_kind(effect), result_kind(effect)
            chosen = effect.sources[1:2] if offset == 0 and len(effect.sources) > 1 else effect.sources[:1]
            inside = offset * width_of(of) // width_of(to) if len(effect.sources) == 1 and of and to else 0
            yield from self._registers(event, chosen, lane, "value", of, inside)
            return
        first, last = effect.sources, effect.sources[:0]
        if _is_mixed(effect):
            first, last = effect.sources[:-1], effect.sources[-1:]
        yield from self._registers(event, first, lane, "value", operand_kind(effect) or kind, offset if packed else 0)
        yield from self._registers(event, last, lane, "value", result_kind(effect))

    def _same_bits(
        self, event: Executed, effect: Effect, index: int, lane: int, kind: str, offset: int
    ) -> Source | None:
        """Return the float of an operand that bit operations put at a byte of a result: the same bits, or a bf16's.

        The bits of a bf16 are the upper half of a float32. None if no operand has them.
        """
        row = event.values[index]
        integers = all(_FLOAT.fullmatch(modifier) is None for modifier in effect.instr.modifiers)
        if effect.instr.opcode not in BITWISE or not integers or kind not in MANTISSA or row is None or row.ndim > 1:
            return None
        width = width_of(kind)
        wanted = int(row[lane]) >> 8 * offset & (1 << 8 * width) - 1
        if not wanted:
            return Source("value", None, text="0", kind=kind)
        forms = [(kind, width, wanted)] + [("bf16", 2, wanted >> 16)] * (kind == "f32" and not wanted & 0xFFFF)
        for read, size, bits in forms:
            for source in self._registers(event, effect.sources, lane, "value", read):
                held = None if source.node is None else self.bits(source.node)
                for at in () if source.node is None or held is None else range(self._size(source.node) - size + 1):
                    if held is not None and held >> 8 * at & (1 << 8 * size) - 1 == bits:
                        return replace(source, offset=at)
        return None

    def _predicate(self, event: Executed, operand: Operand, lane: int) -> bool | None:
        if not isinstance(operand, Reg):
            return None
        known = self.recording.definition(event.warp, operand, lane, event.number)
        if known is None:
            return None
        node = self._register_node(known, operand, lane)
        bits = self.bits(node)
        return None if bits is None else bool(bits)

    def _registers(
        self, event: Executed, operands: tuple[Operand, ...], lane: int, role: str, kind: str = "", offset: int = 0
    ) -> Iterator[Source]:
        """Yield the registers and constants of operands, in a lane, as they were before an event."""
        for operand in operands:
            if isinstance(operand, Imm):
                yield Source(role, None, text=str(operand), kind=kind)
            for register in registers(operand):
                if isinstance(register, Special):
                    yield Source(role, None, text=register.name)
                    continue
                known = self.recording.definition(event.warp, register, lane, event.number)
                if known is None:
                    yield Source(role, None, text=f"{register.name}, which nothing wrote")
                else:
                    of = "pred" if register.type == "pred" else kind
                    yield Source(role, self._register_node(known, register, lane), offset=offset, kind=of)

    def _register_node(self, event: int, register: Reg, lane: int) -> Node:
        executed = self.recording.events[event]
        assert isinstance(executed, Executed)
        return Node(event, (self.recording.effects[executed.at].writes.index(register), lane))

    def _loaded(self, event: Executed, index: int, lane: int, kind: str, offset: int) -> Iterator[Source]:
        """Yield the memory that a lane's register was loaded from: the element of `kind` at a byte, else all."""
        access = event.access
        assert access is not None and access.writers is not None
        size = access.places.shape[1] * access.width
        width = min(width_of(kind), size) if kind in TYPES else min(size, 4)
        for byte in (offset,) if kind in TYPES and offset < size else range(0, size, width):
            bytes_of = [divmod(at, access.width) for at in range(byte, min(byte + width, size))]
            places = [int(access.places[index, piece, lane]) + inside for piece, inside in bytes_of]
            writers = [int(access.writers[index, piece, lane, inside]) for piece, inside in bytes_of]
            others = self._earlier(event, access.places[index, 0], lane) if access.before is not None else []
            if others and access.before is not None:
                piece, inside = divmod(byte, access.width)
                before = access.before[index, piece, lane, inside:]
                yield self._memory("accumulator", places[0], width, writers[0], kind, before)
            else:
                yield from self._all_of(places, writers, kind)
            for other in others:
                yield from self._registers(event, self.recording.effects[event.at].sources[1:2], other, "value", kind)

    def _earlier(self, event: Executed, places: np.ndarray, lane: int) -> list[int]:
        """Return the lanes whose operands are in what an atomic operation returns to a lane: those before it there."""
        same = np.flatnonzero(places[:lane] == places[lane]).tolist()
        lanes = [other for other in same if event.lanes >> other & 1]
        return lanes[-1:] if "exch" in self.recording.effects[event.at].instr.modifiers else lanes

    def _of_store(self, event: Executed, index: int, lane: int, kind: str, offset: int = 0) -> Iterator[Source]:
        effect = self.recording.effects[event.at]
        kind = kind or operand_kind(effect)
        data = effect.sources[-1] if effect.instr.kind is Kind.TENSOR_STORE else effect.sources[1]
        items: tuple[Operand, ...] = data.items if isinstance(data, Vector) else (data,)
        chosen = items[index : index + 1] if index < len(items) else items
        access, lanes = event.access, [lane]
        if access is not None and access.before is not None and access.writers is not None:  # red, atom
            piece, inside = divmod(offset, access.width)
            places = access.places[index, piece]
            lanes = [other for other in np.flatnonzero(places == places[lane]).tolist() if event.lanes >> other & 1]
            writer, before = int(access.writers[index, piece, lane, inside]), access.before[index, piece, lane, inside:]
            width = width_of(kind) if kind in TYPES else access.width
            yield self._memory("accumulator", int(places[lane]) + inside, width, writer, kind, before)
        for other in lanes:
            yield from self._registers(event, chosen, other, "value", kind, offset)
        yield from self._registers(event, _addresses(effect), lane, "address")
        if effect.instr.guard is not None:
            yield from self._registers(event, (effect.instr.guard[0],), lane, "guard")

    def _of_copy(self, event: Copied, piece: int, byte: int, kind: str) -> Iterator[Source]:
        width = min(width_of(kind), event.width - byte) if kind in TYPES else 1
        if event.before is not None:
            assert event.old is not None
            target, old = int(event.targets[piece]) + byte, event.old[piece, byte:]
            yield self._memory("accumulator", target, width, int(event.before[piece, byte]), kind, old)
        source = int(event.sources[piece])
        if source == UNKNOWN:
            yield Source("value", None, text=FILL, kind=kind)
        else:
            yield self._memory("value", source + byte, width, int(event.writers[piece, byte]), kind)
        yield from self._issued(event.issuer)

    def _of_product(self, event: Multiplied, n: int, m: int) -> Iterator[Source]:
        left, right = event.a_of(n), event.b
        for role, operand, row in (("a", left, m), ("b", right, n)):
            width = max(operand.bits // 8, 1)
            kind = "f32" if operand.kind == "tf32" else operand.kind
            for k in range(operand.values.shape[1]):
                place, writer = int(operand.places[row, k]), int(operand.writers[row, k])
                yield self._memory(role, place, width, writer, kind)
        if event.before is not None:
            place, before = int(event.places[n, m]), int(event.before[n, m])
            yield self._memory("accumulator", place, 4, before, event.product.shape.idesc.d)
        for issuer in event.issuers:
            yield from self._issued(issuer)

    def _issued(self, event: Executed) -> Iterator[Source]:
        """Yield the registers that an instruction passes to an agent: addresses, descriptors."""
        lane = (event.lanes & -event.lanes).bit_length() - 1
        yield from self._registers(event, self.recording.effects[event.at].sources, lane, "address")

    def _of_warp_mma(self, event: Executed, effect: Effect, index: int, lane: int, offset: int) -> Iterator[Source]:
        """Yield the element's row of A and column of B of mma.sync, each in the order of K, and its accumulator."""
        a, b, c = effect.sources
        result, of_a, of_b, of_c = effect.instr.modifiers[-4:]
        element = 2 * index + offset // 2 if result == "f16" else index
        for operand, wanted, role, kind in ((a, ROWS, "a", of_a), (b, COLUMNS, "b", of_b)):
            kind = "f32" if kind == "tf32" else kind
            count = max(4 // width_of(kind), 1)
            found: dict[int, tuple[Operand, int, int]] = {}
            for i, item in enumerate(operand.items if isinstance(operand, Vector) else (operand,)):
                own, group = (HIGH + 8 * (i % 2), i // 2) if role == "a" else (HIGH, i)
                for other in np.flatnonzero(own == wanted[element, lane]).tolist():
                    first = count * (int(LOW[other]) + 4 * group)
                    found |= {first + e: (item, other, e * width_of(kind)) for e in range(count)}
            for _, (item, other, byte) in sorted(found.items()):
                yield from self._registers(event, (item,), other, role, kind, byte)
        items = c.items if isinstance(c, Vector) else (c,)
        yield from self._registers(event, items[index : index + 1], lane, "accumulator", of_c, offset)

    def _shuffled(self, event: Executed, effect: Effect, lane: int) -> int:
        """Return the lane from which `lane` receives a value by shfl.sync."""
        _, distance, clamp, *_ = effect.sources
        b, c = (self._number(event, operand, lane) for operand in (distance, clamp))
        segment = c >> 8 & 31
        lowest = lane & segment
        highest = lowest | (c & 31 & ~segment)
        mode = next(m for m in effect.instr.modifiers if m in ("idx", "up", "down", "bfly"))
        match mode:
            case "idx":
                chosen = lowest | (b & 31 & ~segment)
            case "up":
                chosen = lane - (b & 31)
            case "down":
                chosen = lane + (b & 31)
            case _:
                chosen = lane ^ (b & 31)
        inside = chosen >= highest if mode == "up" else chosen <= highest
        return chosen if inside else lane

    def _number(self, event: Executed, operand: Operand, lane: int) -> int:
        if isinstance(operand, Imm):
            return operand.value
        source = next(self._registers(event, (operand,), lane, "value"))
        return 0 if source.node is None else self.bits(source.node) or 0

    def _memory(
        self, role: str, address: int, width: int, writer: int, kind: str, before: np.ndarray | None = None
    ) -> Source:
        """Return memory as a source. before: its bytes when it was read, if it is written afterwards."""
        if writer == UNKNOWN:
            text = "memory that no recorded instruction wrote" if address >= SHARED else ""
            held = UNKNOWN if before is None else int.from_bytes(before[:width].tobytes(), "little")
            return Source(role, None, address, width, text, kind=kind, held=held)
        node = self._wrote(writer, address)
        return Source(role, node, address, width, offset=self._offset(node, address), kind=kind)

    def _all_of(self, places: Sequence[int], writers: Sequence[int], kind: str) -> Iterator[Source]:
        """Yield the value that holds the first of some bytes, then those that hold the others, if there are several."""
        first = self._memory("value", places[0], len(places), writers[0], kind)
        yield first
        if first.node is None or self._size(first.node) - first.offset < len(places):
            others = {w: place for place, w in zip(places[1:], writers[1:], strict=True) if w != writers[0]}
            yield from (self._memory("value", place, 1, writer, "") for writer, place in others.items())

    def _wrote(self, writer: int, address: int) -> Node:
        """Return the value of an event that holds a byte that it wrote."""
        event = self.recording.events[writer]
        if isinstance(event, Copied):
            piece = event.piece(address)
            assert piece is not None
            return Node(writer, (piece, address - int(event.targets[piece])))
        if isinstance(event, Multiplied):
            found = event.element(address)
            assert found is not None
            return Node(writer, found)
        access = event.access
        assert access is not None
        holds = np.argwhere((access.places <= address) & (address < access.places + access.width)).tolist()
        index, _, lane = [each for each in holds if event.lanes >> each[2] & 1][-1]
        return Node(writer, (~index, lane))

    def _offset(self, node: Node, address: int) -> int:
        """Return the byte of a value at which an address lies."""
        event = self.recording.events[node.event]
        if isinstance(event, Multiplied):
            return address & 3
        if isinstance(event, Copied):
            return 0
        access = event.access
        assert access is not None
        index, lane = ~node.slot[0], node.slot[1]
        for piece in range(access.places.shape[1]):
            first = int(access.places[index, piece, lane])
            if first <= address < first + access.width:
                return piece * access.width + address - first
        return 0


def number(bits: int, kind: str) -> float | int:
    """Return the number that bits hold, as a type."""
    width = width_of(kind)
    found = numbers(np.array([bits & (1 << 8 * width) - 1], f"u{width}"), kind)[0]
    return float(found) if kind in MANTISSA else int(found)


def result_kind(effect: Effect) -> str:
    """Return the type of an instruction's result by its modifiers, "" if they do not tell."""
    for modifier in effect.instr.modifiers:
        match = _FLOAT.fullmatch(modifier)
        if match is not None:
            return "f32" if match[1] == "tf32" else match[1]
    found = next((m for m in effect.instr.modifiers if _INTEGER.fullmatch(m)), "")
    return "" if found.startswith("b") else found


def operand_kind(effect: Effect) -> str:
    """Return the type of an instruction's operands: the last one that its modifiers name, "" if none."""
    kinds = [m for m in effect.instr.modifiers if _FLOAT.fullmatch(m) or _INTEGER.fullmatch(m)]
    if not kinds:
        return ""
    match = _FLOAT.fullmatch(kinds[-1])
    found = kinds[-1] if match is None else "f32" if match[1] == "tf32" else match[1]
    return "" if found.startswith("b") and found != "bf16" else found


def _is_mixed(effect: Effect) -> bool:
    """Return whether an addition's last operand has the result's type, and the others another: add.f32.bf16."""
    if effect.instr.kind not in (Kind.ADD, Kind.SUBTRACT, Kind.MULTIPLY_ADD):
        return False
    return sum(_FLOAT.fullmatch(m) is not None for m in effect.instr.modifiers) == 2


def _addresses(effect: Effect) -> tuple[Operand, ...]:
    return tuple(operand for operand in effect.sources if isinstance(operand, Address | TensorAddress))


def _moved_part(effect: Effect, index: int, offset: int, kind: str) -> tuple[Operand, int] | None:
    """Return the operand, and the byte in it, that a move puts at a byte of destination `index`.

    None for other instructions, and if a value of `kind` has several operands.
    """
    if effect.instr.kind is not Kind.MOVE:
        return None
    (source,) = effect.sources
    (to,) = effect.destinations
    if isinstance(to, Vector):
        before = to.items[: [i for i, item in enumerate(to.items) if isinstance(item, Reg)][index]]
        width = _register_bytes(effect.writes[index])
        return source, len(before) * width + offset
    if isinstance(source, Vector):
        width = _register_bytes(effect.writes[index]) // len(source.items)
        fits = kind in TYPES and width_of(kind) <= width
        return (source.items[offset // width], offset % width) if fits else None
    return source, offset


def _register_bytes(register: Reg) -> int:
    return 1 if register.type == "pred" else int(register.type[1:]) // 8


def _parameter(recording: Recording, effect: Effect) -> str:
    """Name the parameter that an instruction loads."""
    address = effect.instr.operands[1]
    assert isinstance(address, Address) and isinstance(address.base, Imm)
    at = address.base.value
    for param in recording.kernel.params:
        if param.offset <= at < param.offset + param.size:
            inside = at - param.offset
            return f"parameter {param.name}" + (f" + {inside}" if inside else "")
    return "a parameter"


def _constant(text: str) -> int | None:
    if text.startswith(("0f", "0d")):
        return int(text[2:], 16)
    return int(text) if text.lstrip("-").isdecimal() else None
