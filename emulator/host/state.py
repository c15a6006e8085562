"""State of the driver and the runtime between calls."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ..bridge.callers import caller
from ..bridge.order import Order, footprint_of, report
from . import code
from .captures import Captures, Work, new_handle
from .errors import INVALID_VALUE, CudaError, not_emulated
from .guard import Guard
from .memory import Allocations, Kind, address_of

Box = tuple[int, int, int]
"""A box of memory: its address, and the bytes from one row and from one plane to the next."""


class DriverState:
    """The device's memory, context, captures and events, and the runtime's last error."""

    def __init__(self) -> None:
        self.allocations = Allocations(code.variable_around)
        self.context = new_handle()
        self.captures = Captures()
        self.allocations.on_free = self.captures.order.freed
        self.allocations.report = partial(report, stop=False)
        self.captures.order.pinned = lambda: [piece for piece in self.allocations.pieces() if piece.host]
        self.guard = Guard(self.captures.order, self.allocations)
        self.event_times: dict[int, float] = {}
        self.last_error = 0
        self.sticky_error = 0
        """The code of the error that ended a kernel: CUDA then returns it from every call until the process ends."""

    def copy(self, destination: Any, source: Any, size: Any, kind: int = Kind.DEFAULT, stream: Any = None) -> None:
        """Copy `size` bytes, now or, if the stream is capturing, when the graph is replayed. Raises CudaError then."""
        self.copy_rows(destination, 0, source, 0, size, 1, kind, stream)

    def copy_rows(
        self, to: Any, to_pitch: int, source: Any, pitch: int, width: Any, height: int, kind: int, stream: Any = None
    ) -> None:
        """Copy `height` rows of `width` bytes that start a pitch of bytes apart, at the same time as `copy` would."""
        self.copy_box(
            (address_of(to), to_pitch, 0), (address_of(source), pitch, 0), (int(width), height, 1), kind, stream
        )

    def copy_box(self, to: Box, source: Box, size: tuple[int, int, int], kind: int, stream: Any = None) -> None:
        """Copy a box at the same time as `copy` would. size: bytes of a row, rows, planes."""
        width, height, depth = size
        written, read = (self._in_device_memory(at) for at, _, _ in (to, source))
        rows = [[(at + i * plane, pitch, width, height) for i in range(depth)] for at, pitch, plane in (to, source)]

        name = "cudaMemcpy" if stream is None else "cudaMemcpyAsync"
        at, on_host = caller(), "host" in (read, written)
        accessed = footprint_of(name, at, rows[1] if read else (), rows[0] if written else ())

        def work() -> None:
            for (there, step, _, _), (here, pitch, _, _) in zip(*rows, strict=True):
                self.allocations.copy_rows(there, step, here, pitch, width, height, kind)
            self.order.submit(int(stream or 0), name, lambda: accessed, at, on_host)

        self._submit(stream, work)
        # API synchronization behavior: a copy without a stream returns when it is complete, except within device
        # memory; one to pageable memory always does.
        host = not written or (stream is None and not (written == read == "device"))
        if host and not self.captures.capturing(stream or 0):
            self.order.synchronize(int(stream or 0))

    def fill(self, to: Any, pitch: int, value: int, width: int, count: Any, height: int, stream: Any = None) -> None:
        """Write `height` rows of `count` values of `width` bytes, at the same time as `copy` would."""
        name = "cudaMemset" if stream is None else "cudaMemsetAsync"
        at = caller()
        start = address_of(to)
        accessed = footprint_of(name, at, writes=[(start, pitch, width * int(count), height)])
        on_host = self._in_device_memory(start) == "host"

        def work() -> None:
            for row in range(height):
                self.allocations.fill(start + row * pitch, value, count, width)
            self.order.submit(int(stream or 0), name, lambda: accessed, at, on_host)

        self._submit(stream, work)

    def write_word(self, stream: int, address: int, value: int, width: int, fenced: bool) -> None:
        """Write a word in a stream's order. fenced: whoever acquires it sees all work of the stream before it."""
        name, at, on_host = f"cuStreamWriteValue{8 * width}", caller(), self._in_device_memory(address) == "host"

        def work() -> None:
            self.allocations.fill(address, value, 1, width)
            self.order.write_word(stream, name, (address, width), at, on_host, fenced)

        self._submit(stream, work)

    def wait_for_word(self, stream: int, address: int, width: int, holds: Callable[[int], bool]) -> None:
        """Let a stream wait until a word holds what it shall. Raises NotEmulated unless it does already."""
        name, at, where = f"cuStreamWaitValue{8 * width}", caller(), self._in_device_memory(address)
        if not where:
            raise CudaError(INVALID_VALUE)

        def work() -> None:
            if not holds(int.from_bytes(ctypes.string_at(address, width), "little")):
                how = "submit the work that writes the value first: work runs when it is submitted"
                raise not_emulated(f"{name} for a value that is written later", how)
            self.order.wait_for_word(stream, name, (address, width), at, where == "host")

        self._submit(stream, work)

    def allocate_in_order(self, size: int, stream: int) -> int:
        """Allocate memory in the order of a stream, or whenever its graph is replayed, and return its address."""
        address, name, at = self.allocations.allocate(size), "cudaMallocAsync", caller()
        whole, captured = footprint_of(name, at, writes=[(address, 0, size, 1)]), self.captures.capturing(stream)

        def work() -> None:
            if captured:
                self.allocations.renew(address)
            self.order.submit(stream, name, lambda: whole, at)

        if captured:
            self.allocations.keep(address)
        self._submit(stream, work)
        return address

    def free(self, pointer: Any, by: str, stream: Any = None) -> bool:
        """Free memory, in a stream's order or, without one, after all work. Return False if nothing is there."""
        if stream is None:
            self.order.synchronize()
        elif (piece := self.allocations.containing(address_of(pointer))) is not None:
            at, address = caller(), piece.address
            whole = footprint_of(by, at, writes=[(address, 0, piece.size, 1)])

            def work() -> None:
                self.order.submit(int(stream), by, lambda: whole, at)
                self.allocations.free(address, by)

            self._submit(stream, work)
            return True
        return self.allocations.free(pointer, by)

    @property
    def order(self) -> Order:
        """The order of the session's operations."""
        return self.captures.order

    def _in_device_memory(self, address: int) -> str:
        """Return "device" or "host" for memory that the device may access; empty for pageable memory."""
        piece = self.allocations.containing(address)
        if piece is None:
            return "" if code.variable_around(address) is None else "device"
        return "host" if piece.host else "device"

    def _submit(self, stream: Any, work: Work) -> None:
        if stream is None:
            work()
        else:
            self.captures.submit(stream, work)

    def elapsed_ms(self, start: Any, end: Any) -> float | None:
        """Return the milliseconds between two recorded events, None if one was not recorded."""
        first, last = self.event_times.get(int(start)), self.event_times.get(int(end))
        return None if first is None or last is None else max((last - first) * 1e3, 1e-6)

    def record(self, event: Any, stream: Any, external: bool = False) -> None:
        """Record an event on a stream: all work before it is done or captured. external: as a node of a graph."""
        self.event_times[int(event)] = time.perf_counter()
        self.captures.record(event, stream, external=external)
