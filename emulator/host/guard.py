"""Accesses of pinned and managed memory by the program's own code before it has waited for operations there.

Between two CUDA calls the pages of such operations are protected: against all accesses if an operation writes them,
else against writes. The signal handler reports the access. While a function runs that a stream calls on the host, all
pages are protected: its accesses become an operation of the stream.
"""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from mmap import PAGESIZE
from typing import Any, Final

from ..bridge.callers import caller
from ..bridge.driver import current
from ..bridge.order import Order, footprint_of
from ..errors import EmulatorError
from .memory import Allocations

_NONE, _READ, _ALL = 0, 1, 3
ADDRESS_AT, STACK_AT, CODE_AT, _ERROR_AT, _WRITE = 16, 160, 168, 192, 2
"""Offsets of si_addr in siginfo_t, of rsp, rip and the error code in ucontext_t of x86-64, and a write's bit in it."""
_SA_SIGINFO: Final = 4
_libc: Final = ctypes.CDLL(None, use_errno=True)
Handler: Final = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Action(ctypes.Structure):
    """sigaction of signal.h on x86-64."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


def handle(signal_number: int, handler: Any) -> _Action:
    """Let a `Handler` handle a signal, and return the previous action."""
    action, before = _Action(ctypes.cast(handler, ctypes.c_void_p), flags=_SA_SIGINFO), _Action()
    _libc.sigaction(signal_number, ctypes.byref(action), ctypes.byref(before))
    return before


class Guard:
    """The protection of a session's pinned and managed memory."""

    def __init__(self, order: Order, allocations: Allocations) -> None:
        self._order, self._allocations = order, allocations
        self._pages: dict[int, int] = {}
        """The protected pages, with the protection of each."""
        self._before: _Action | None = None
        self._depth = 0
        self._made: list[tuple[int, bool]] | None = None
        """While a stream calls a function on the host: the addresses that it accessed, and whether it wrote."""
        self._handler = Handler(self._touched)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Let the emulator access all memory while the context is open."""
        self._depth += 1
        self.open()
        try:
            yield
        finally:
            self._depth -= 1
            if self._order.on_host and not self._depth:
                self._close()

    def call(self, stream: int, function: Callable[[], None]) -> None:
        """Call a function of the program on the host, as an operation of a stream."""
        self._made = made = list[tuple[int, bool]]()
        for piece in self._allocations.pieces():
            self._pages.update(dict.fromkeys(piece.pages, _NONE))
        self._protect_all()
        try:
            function()
        finally:
            self._made = None
            self.open()
        reads, writes = ([(address, 0, 1, 1) for address, wrote in made if wrote == write] for write in (False, True))
        name = "cudaLaunchHostFunc's function"
        footprint = footprint_of(name, caller(), reads, writes)
        self._order.submit(stream, name, lambda: footprint, on_host=bool(made))

    def open(self) -> None:
        """End the protection."""
        for page in self._pages:
            _protect(page, _ALL)
        self._pages.clear()
        if self._before is not None:
            _libc.sigaction(signal.SIGSEGV, ctypes.byref(self._before), None)
            self._before = None

    def _close(self) -> None:
        pieces = [piece for piece in self._allocations.pieces() if piece.pages]
        footprints = self._order.footprints_on_host() if pieces else []
        for piece, runs in product(pieces, footprints):
            part = runs.within(piece.address, piece.end)
            for start, end, write in zip(part.starts.tolist(), part.ends.tolist(), part.writes.tolist(), strict=True):
                for page in range(max(start & -PAGESIZE, piece.pages.start), min(end, piece.pages.stop), PAGESIZE):
                    self._pages[page] = min(self._pages.get(page, _READ), _NONE if write else _READ)
        self._protect_all()

    def _protect_all(self) -> None:
        for page, allowed in self._pages.items():
            _protect(page, allowed)
        if self._pages:
            self._before = handle(signal.SIGSEGV, self._handler)

    def _touched(self, _signal: int, info: int, context: int) -> None:
        """Handle SIGSEGV: report an access of a protected page and unprotect it; else call the previous handler."""
        address = ctypes.c_uint64.from_address(info + ADDRESS_AT).value
        page = address & -PAGESIZE
        if page not in self._pages:
            self.open()  # the access is made again, and handled as before
            return
        write = bool(ctypes.c_uint64.from_address(context + _ERROR_AT).value & _WRITE)
        if self._made is not None:
            self._made.append((address, write))
            _protect(page, _ALL if write else _READ)
            return
        _protect(page, _ALL)
        del self._pages[page]
        rows = [(address, 0, 1, 1)]
        name = "an access"
        self._depth += 1  # the report calls functions of torch
        try:
            self._order.access(name, footprint_of(name, caller(), () if write else rows, rows if write else ()))
        except EmulatorError as error:
            device: Any = current()
            if device is not None and device.error is None:
                device.error = error
        finally:
            self._depth -= 1


def _protect(page: int, allowed: int) -> None:
    _libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGESIZE), allowed)
