"""State of the driver and the runtime between calls."""

from __future__ import annotations

import time
from typing import Any

from . import code
from .captures import Captures, Work, new_handle
from .memory import Allocations, Kind


class DriverState:
    """The device's memory, context, captures and events, and the runtime's last error."""

    def __init__(self) -> None:
        self.allocations = Allocations(code.variable_around)
        self.context = new_handle()
        self.captures = Captures()
        self.event_times: dict[int, float] = {}
        self.last_error = 0
        self.sticky_error = 0
        """The code of the error that ended a kernel: CUDA then returns it from every call until the process ends."""

    def copy(self, destination: Any, source: Any, size: Any, kind: int = Kind.DEFAULT, stream: Any = None) -> None:
        """Copy `size` bytes, now or, if the stream is capturing, when the graph is replayed. Raises CudaError then."""
        self._submit(stream, lambda: self.allocations.copy(destination, source, size, kind))

    def fill(self, destination: Any, value: int, count: Any, width: int, stream: Any = None) -> None:
        """Write `count` values of `width` bytes, at the same time as `copy` would."""
        self._submit(stream, lambda: self.allocations.fill(destination, value, count, width))

    def _submit(self, stream: Any, work: Work) -> None:
        if stream is None:
            work()
        else:
            self.captures.submit(stream, work)

    def elapsed_ms(self, start: Any, end: Any) -> float | None:
        """Return the milliseconds between two recorded events, None if one was not recorded."""
        first, last = self.event_times.get(int(start)), self.event_times.get(int(end))
        return None if first is None or last is None else max((last - first) * 1e3, 1e-6)

    def record(self, event: Any, stream: Any) -> None:
        """Record an event on a stream: all work before it is done or captured."""
        self.event_times[int(event)] = time.perf_counter()
        self.captures.record(event, stream)
