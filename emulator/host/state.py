"""What the driver and the runtime remember between calls."""

from __future__ import annotations

import time
from typing import Any

from . import memory
from .captures import Captures, new_handle
from .properties import DeviceProperties


class DriverState:
    """The device's memory, context, captures and events."""

    def __init__(self, properties: DeviceProperties) -> None:
        self.properties = properties
        self.allocations = memory.Allocations()
        self.context = new_handle()
        self.captures = Captures()
        self.event_times: dict[int, float] = {}

    def elapsed_ms(self, start: Any, end: Any) -> float | None:
        """Milliseconds between two recorded events, None if one was not recorded."""
        first, last = self.event_times.get(int(start)), self.event_times.get(int(end))
        return None if first is None or last is None else max((last - first) * 1e3, 1e-6)

    def record(self, event: Any, stream: Any) -> None:
        """An event of a stream has been reached: everything before it is done, or captured."""
        self.event_times[int(event)] = time.perf_counter()
        self.captures.record(event, stream)
