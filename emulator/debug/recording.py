"""A recording of a launch: every executed instruction with its results, and who wrote each byte that was read."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..engine.divergence import lanes_of
from ..engine.effects import Effect
from ..errors import EmulatorError
from ..isa.registry import Handler
from ..machine.agents.boxes import Store
from ..machine.agents.tensorcore import Product
from ..machine.execution.scheduler import RunOptions, run
from ..machine.launch.globalmem import host_bytes
from ..machine.launch.launch import Launch
from ..machine.order.completion import AsyncOperation
from ..machine.topology import Warp
from ..modules import LoadedKernel, execute
from ..program import Program
from ..ptx.kinds import Kind
from ..ptx.syntax import Reg
from ..tensors import NamedTensor, tensors_of_callers, tensors_of_parameters
from .addresses import CTA_SHIFT, SHARED, UNKNOWN, Writers, shared_base, tensor_base
from .decode import Operands, Pieces, access, copies, loaded, stored
from .events import Access, Copied, Event, Executed, Multiplied, multiplied, results
from .stepping import Observer, SteppedProgram

MOST_EVENTS = 20_000_000
WarpKey = tuple[tuple[int, int, int], int]
"""CTA and index of a warp."""


@dataclass
class _Issued:
    """An asynchronous operation in flight: its instruction, and its pieces if it is a copy."""

    by: Executed
    pieces: list[Pieces]
    reduces: bool
    product: Product | None


@dataclass
class _Moving:
    """A copy or product that is being performed, with its operands."""

    copies: list[Copied]
    products: list[Multiplied]


class Recording:
    """The events of one launch, in order, and the tables by which values are followed back."""

    def __init__(self, launch: Launch, program: SteppedProgram, tensors: dict[str, NamedTensor]) -> None:
        self.launch, self.kernel = launch, launch.kernel
        self.effects: Sequence[Effect] = program.effects
        self.tensors = tensors
        self.events: list[Event] = []
        self.writers = Writers()
        self.definitions: dict[tuple[WarpKey, Reg], list[int]] = defaultdict(list)
        """The events that wrote each register of each warp, in order."""
        self._left: dict[tuple[int, int], np.ndarray] = {}
        """The bytes of each span in which the launch wrote a tensor, at its end."""

    def writes(self, tensor: NamedTensor) -> bool:
        """Return whether the launch wrote bytes of a tensor."""
        return self.writers.touched(*tensor.span)

    def keep(self) -> None:
        """Keep what the launch left in the tensors that it wrote: later work may overwrite them."""
        spans = {tensor.span for tensor in self.tensors.values() if self.writes(tensor)}
        self._left = {span: host_bytes(*span).copy() for span in spans}

    def values(self, tensor: NamedTensor) -> np.ndarray:
        """Return the numbers that the launch left in a tensor; those that it has now if it wrote none of its names."""
        low, size = tensor.span
        for (start, length), kept in self._left.items():
            if start <= low and low + size <= start + length:
                return tensor.values(kept[low - start : low - start + size])
        return tensor.values()

    def definition(self, warp: Warp, register: Reg, lane: int, before: int) -> int | None:
        """Return the last event before `before` that wrote a register in a lane; None if nothing did."""
        known = self.definitions.get(((warp.cta.ctaid, warp.index), register), [])
        at = bisect_left(known, before)
        while at > 0:
            at -= 1
            event = self.events[known[at]]
            assert isinstance(event, Executed)
            if event.lanes >> lane & 1:
                return event.number
        return None

    def issuer(self, event: Event) -> Executed:
        """Return the executed instruction of an event, the first of several."""
        if isinstance(event, Executed):
            return event
        return event.issuer if isinstance(event, Copied) else event.issuers[0]


class LaunchRecorder:
    """Runs launches one instruction at a time and records them. chosen: their numbers, from 1; None for all."""

    def __init__(self, chosen: Collection[int] | None = None) -> None:
        self._chosen = chosen
        self.launches = 0
        self.recordings: dict[int, Recording] = {}
        """The recordings by the number of the launch."""
        self.last: Recording | None = None
        """The recording of the last launch; None if it was not chosen."""

    def run(self, launch: Launch, kernel: LoadedKernel, options: RunOptions) -> Mapping[str, Any]:
        """Run a launch and record it."""
        self.launches += 1
        self.last = None
        if self._chosen is not None and self.launches not in self._chosen:
            return execute(launch, kernel, options)
        observer = _Observer(launch, kernel.program, tensors_of_callers() or tensors_of_parameters(launch))
        self.recordings[self.launches] = self.last = observer.recording
        try:
            run(launch, observer.program, replace(options, processes=1, keeps_ended=True))
        finally:
            self.last.keep()
        return {"recording": self.last}


class _Observer(Observer):
    """Fills a recording while its launch runs."""

    def __init__(self, launch: Launch, program: Program, tensors: dict[str, NamedTensor]) -> None:
        self.program = SteppedProgram(program, self)
        self.recording = Recording(launch, self.program, tensors)
        self._writers = self.recording.writers
        self._reads_memory = [isinstance(effect.entry, Handler) for effect in self.program.effects]
        self._access: Access | None = None
        self._pieces: list[list[Pieces]] = []
        self._flying: dict[AsyncOperation, _Issued] = {}
        self._moving: _Moving | None = None
        self._of_products: dict[int, list[Executed]] = defaultdict(list)
        self._current: Executed | None = None
        """The instruction that is being executed, if it may issue work."""

    def before(self, warp: Warp, at: int) -> None:
        """Decode the memory that the instruction is about to access."""
        self._access, self._pieces, self._current = None, [], None
        if not self._reads_memory[at]:
            return
        effect = self.program.effects[at]
        lanes = self.program.executing(warp, effect)
        if not lanes:
            return
        self._current = Executed(UNKNOWN, warp, at, lanes, ())
        values = Operands(self.program, warp)
        with suppress(ValueError, IndexError):  # operands that the instruction itself is about to report
            self._access = access(effect, warp, values)
            self._pieces = copies(effect, warp, lanes, values)
        found = self._access
        if found is not None and found.reads:
            found.writers = self._writers.read(found.places, found.width)
            if found.stores:
                found.before = _of_lanes(warp, found, lanes)

    def after(self, warp: Warp, at: int, lanes: int) -> None:
        """Record the instruction."""
        recording, number = self.recording, len(self.recording.events)
        if number >= MOST_EVENTS:
            raise EmulatorError(
                f"a recording of more than {MOST_EVENTS} events; record one launch of a smaller problem"
            )
        effect = self.program.effects[at]
        values = tuple(self.program.value(warp, register) for register in effect.writes) if lanes else ()
        done = self._current or Executed(UNKNOWN, warp, at, lanes, ())
        done.number, done.values, done.access = number, values, self._access
        recording.events.append(done)
        if not lanes:
            return
        for register in effect.writes:
            recording.definitions[(warp.cta.ctaid, warp.index), register].append(number)
        found = self._access
        if found is not None and found.stores:
            found.after = None if found.before is None else _of_lanes(warp, found, lanes)
            self._writers.write(found.places[..., lanes_of(lanes)], found.width, number)
        if effect.instr.kind is Kind.TENSOR_MMA:
            for lane, queue in warp.tensor.items():
                if lanes >> lane & 1 and queue.open is not None:
                    self._of_products[id(queue.open)].append(done)

    def issued(self, operation: AsyncOperation) -> None:
        """Store the pieces that the operation will copy, or its product."""
        about, current = operation.about, self._current
        if current is None:
            return
        reduces = self.program.effects[current.at].instr.kind in (Kind.BULK_REDUCTION, Kind.BOX_REDUCTION)
        if isinstance(about, list):
            pieces = [loaded(load) for load in about]
        elif isinstance(about, Store):
            pieces = [stored(about)]
        elif isinstance(about, Product):
            pieces = []
        elif self._pieces:
            pieces = self._pieces.pop(0)
        else:
            return
        product = about if isinstance(about, Product) else None
        self._flying[operation] = _Issued(current, pieces, reduces, product)

    def completing(self, operation: AsyncOperation) -> None:
        """Look up the writers of the operands that the operation is about to read."""
        issued = self._flying.get(operation)
        if issued is None:
            return
        moved = [self._copied(issued, pieces) for pieces in issued.pieces]
        products = multiplied(issued.product, self._writers) if issued.product is not None else []
        self._moving = _Moving(moved, products)

    def completed(self, operation: AsyncOperation) -> None:
        """Record the results of the operation."""
        issued, moving, recording = self._flying.pop(operation, None), self._moving, self.recording
        if issued is None or moving is None:
            return
        self._moving = None
        for copied in moving.copies:
            copied.number = len(recording.events)
            copied.values = _bytes(issued.by.warp, copied.targets, copied.width)
            recording.events.append(copied)
            self._writers.write(copied.targets, copied.width, copied.number)
        for product in moving.products:
            product.number = len(recording.events)
            product.issuers = self._of_products.get(id(product.product)) or [issued.by]
            product.values = results(product)
            recording.events.append(product)
            self._writers.write(product.places, 4, product.number)

    def _copied(self, issued: _Issued, pieces: Pieces) -> Copied:
        targets, sources, width = pieces
        by = self._writers.read(np.where(sources == UNKNOWN, 0, sources), width)
        by = np.where((sources == UNKNOWN)[:, None], UNKNOWN, by)
        before = self._writers.read(targets, width) if issued.reduces else None
        old = _bytes(issued.by.warp, targets, width) if issued.reduces else None
        return Copied(UNKNOWN, issued.by, targets, sources, width, by, before, old, np.zeros(0, np.uint8))


def _of_lanes(warp: Warp, access: Access, lanes: int) -> np.ndarray:
    """Return the bytes that the active lanes of an access address, as they are; 0 for the other lanes."""
    found, active = np.zeros((*access.places.shape, access.width), np.uint8), lanes_of(lanes)
    places = access.places[..., active]
    found[..., active, :] = _bytes(warp, places.reshape(-1), access.width).reshape(*places.shape, access.width)
    return found


def _bytes(warp: Warp, first: np.ndarray, width: int) -> np.ndarray:
    """Return the bytes at addresses as they are, uint8[n, width], in the memory of a warp's cluster."""
    if not first.size or int(first.min()) < SHARED:
        return np.array([host_bytes(at, width) for at in first.tolist()], np.uint8).reshape(-1, width)
    memories = {shared_base(cta) >> CTA_SHIFT: cta.smem.bytes for cta in warp.cta.cluster.ctas}
    for cta in warp.cta.cluster.ctas:
        memories[tensor_base(cta) >> CTA_SHIFT] = cta.tmem.cells.reshape(-1).view(np.uint8)
    found = np.zeros((first.size, width), np.uint8)
    for base in np.unique(first >> CTA_SHIFT).tolist():
        here = first >> CTA_SHIFT == base
        found[here] = memories[base][(first[here] & (1 << CTA_SHIFT) - 1)[:, None] + np.arange(width)]
    return found
