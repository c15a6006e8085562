"""Streams and events of the emulated device. Every launch is synchronous."""

from __future__ import annotations

import time
from typing import Any, Final

import torch

from .captures import Captures, new_handle
from .errors import not_emulated

DEVICE: Final = torch.device("cuda", 0)


class Stream:
    """torch.cuda.Stream. Its work is done immediately in program order, or captured."""

    def __init__(self, device: Any = None, priority: int = 0, *, handle: int | None = None) -> None:
        self.cuda_stream = new_handle() if handle is None else handle
        if handle is None:
            Current.captures.order.create(self.cuda_stream, blocking=False)  # torch creates its streams so
        self.priority = priority
        self.device = DEVICE
        self.device_index = 0
        self._outer: Stream = self

    @property
    def stream_id(self) -> int:
        return self.cuda_stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.cuda_stream

    def synchronize(self) -> None:
        Current.captures.synchronize(self.cuda_stream)

    def wait_stream(self, stream: Stream) -> None:
        self.wait_event(stream.record_event())

    def wait_event(self, event: Event) -> None:
        Current.captures.wait(self.cuda_stream, event.cuda_event, event.external)

    def query(self) -> bool:
        return Current.captures.query(self.cuda_stream)

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        self._outer = Current.stream
        Current.stream = self
        return self

    def __exit__(self, *_error: object) -> None:
        Current.stream = self._outer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.cuda_stream == self.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)


class ExternalStream(Stream):
    """torch.cuda.ExternalStream: an existing stream by its handle."""

    def __init__(self, stream_ptr: int, device: Any = None) -> None:
        super().__init__(device, handle=stream_ptr)


class Event:
    """torch.cuda.Event. Times are the host's wall-clock times: they measure the emulator, not a B200."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> None:
        if interprocess:
            raise not_emulated("torch.cuda.Event(interprocess=True)", "the device lives in one process")
        self.cuda_event = new_handle()
        self.device = DEVICE
        self.external = external
        self._at: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        self._at = time.perf_counter()
        stream = stream or Current.stream
        Current.captures.record(self.cuda_event, stream.cuda_stream, external=self.external)

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds from this event to `end_event`. Raises RuntimeError if one was not recorded."""
        if self._at is None or end_event._at is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return max((end_event._at - self._at) * 1e3, 1e-6)

    def wait(self, stream: Stream | None = None) -> None:
        (stream or Current.stream).wait_event(self)

    def synchronize(self) -> None:
        Current.captures.synchronize_event(self.cuda_event)

    def query(self) -> bool:
        return Current.captures.query_event(self.cuda_event)


DEFAULT_STREAM: Final = Stream(handle=0)


class Current:
    """torch's current stream, and the captures of the session."""

    stream: Stream = DEFAULT_STREAM
    captures: Captures = Captures()


class StreamContext:
    """torch.cuda.stream(stream); None leaves the current one."""

    def __init__(self, stream: Stream | None) -> None:
        self._stream = stream or Current.stream

    def __enter__(self) -> None:
        self._stream.__enter__()

    def __exit__(self, *error: object) -> None:
        self._stream.__exit__(*error)


class Generator(torch.Generator):
    """torch.Generator, on the CPU whichever device is given."""

    def __new__(cls, device: Any = None) -> Generator:
        return super().__new__(cls)
