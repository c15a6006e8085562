"""What the driver and the runtime remember between calls."""

from __future__ import annotations

import time
from typing import Any

from . import code
from .captures import Captures, Work, new_handle
from .memory import Allocations, Kind
from .properties import DeviceProperties


class DriverState:
    """The device's memory, context, captures and events, and the runtime's last error."""

    def __init__(self, properties: DeviceProperties) -> None:
        self.properties = properties
        self.allocations = Allocations(code.variable_around)
        self.context = new_handle()
        self.captures = Captures()
        self.event_times: dict[int, float] = {}
        self.last_error = 0

    def copy(self, destination: Any, source: Any, size: Any, kind: int = Kind.DEFAULT, stream: Any = None) -> None:
        """Copy `size` bytes now, or when its graph is replayed if the stream captures; raises CudaError then."""
        self._submit(stream, lambda: self.allocations.copy(destination, source, size, kind))

    def fill(self, destination: Any, value: int, count: Any, width: int, stream: Any = None) -> None:
        """Write `count` values of `width` bytes, as `copy` copies."""
        self._submit(stream, lambda: self.allocations.fill(destination, value, count, width))

    def _submit(self, stream: Any, work: Work) -> None:
        if stream is None:
            work()
        else:
            self.captures.submit(stream, work)

    def elapsed_ms(self, start: Any, end: Any) -> float | None:
        """Milliseconds between two recorded events, None if one was not recorded."""
        first, last = self.event_times.get(int(start)), self.event_times.get(int(end))
        return None if first is None or last is None else max((last - first) * 1e3, 1e-6)

    def record(self, event: Any, stream: Any) -> None:
        """An event of a stream has been reached: everything before it is done, or captured."""
        self.event_times[int(event)] = time.perf_counter()
        self.captures.record(event, stream)
