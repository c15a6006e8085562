"""Launches as the host sees them: what memory they may touch, and whether a graph keeps them for later."""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from ..bridge.allocations import Allocation, Memory
from ..bridge.device import EmulatedDevice
from ..bridge.launchconfig import LaunchConfig
from .captures import Captures
from .memory import Allocations
from .patching import Patches


def install(patches: Patches, memory: Allocations, captures: Captures) -> None:
    """Let the emulated device know the host's memory, and its launches go through the captures."""
    patches.set(EmulatedDevice, "launch", _capturing(EmulatedDevice.launch, captures))
    patches.set(EmulatedDevice, "memory", _closed(EmulatedDevice.memory, memory))


def _closed(original: Callable[[EmulatedDevice], Memory], host: Allocations) -> Callable[[EmulatedDevice], Memory]:
    """All that lives on the device, when a launch begins: there is nothing else to touch."""

    def memory(device: EmulatedDevice) -> Memory:
        return Memory(tuple(named(host.all(), original(device).allocations)), closed=True)

    return memory


def named(pieces: Sequence[tuple[int, int]], visible: Sequence[Allocation]) -> list[Allocation]:
    """All pieces of the device's memory, each called after the first argument in it; then the arguments elsewhere."""
    found = [(address, size, _inside(address, size, visible) or "device memory") for address, size in pieces]
    known = sorted(pieces)
    starts = [address for address, _ in known]

    def elsewhere(address: int) -> bool:
        at = bisect_right(starts, address) - 1
        return at < 0 or address >= known[at][0] + known[at][1]

    return found + [allocation for allocation in visible if elsewhere(allocation[0])]


def _inside(address: int, size: int, visible: Sequence[Allocation]) -> str | None:
    return next((name for start, _, name in visible if address <= start < address + size), None)


def _capturing(original: Callable[..., None], captures: Captures) -> Callable[..., None]:
    def launch(device: EmulatedDevice, kernel: int, config: LaunchConfig, arguments: int) -> None:
        if not captures.capturing(config.stream):
            original(device, kernel, config, arguments)
            return
        kept = _KeptArguments(arguments, device.parameter_bytes(kernel))
        captures.submit(config.stream, lambda: original(device, kernel, config, kept.address))

    return launch


class _KeptArguments:
    """Copies of a launch's parameters, and an array of pointers to them like the one that the launch came with."""

    def __init__(self, arguments: int, sizes: Sequence[int]) -> None:
        pointers = (ctypes.c_void_p * len(sizes)).from_address(arguments) if sizes else ()
        self._copies: list[Any] = [
            ctypes.create_string_buffer(ctypes.string_at(pointer, size), size)
            for pointer, size in zip(pointers, sizes, strict=True)
        ]
        self._array = (ctypes.c_void_p * len(sizes))(*map(ctypes.addressof, self._copies))
        self.address = ctypes.addressof(self._array)
