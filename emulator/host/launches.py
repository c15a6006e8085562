"""Launches on a stream that is being captured: kept with a copy of their parameters instead of run."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from emulator.bridge.device import EmulatedDevice
from emulator.bridge.launchconfig import LaunchConfig
from emulator.host.graphs import Captures
from emulator.host.patching import Patches


def install(patches: Patches, captures: Captures) -> None:
    """Let the emulated device's launches go through the captures."""
    patches.set(EmulatedDevice, "launch", _capturing(EmulatedDevice.launch, captures))


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
