"""Launches from the host: the memory that they may access, and their capture into graphs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from ..bridge.allocations import Allocation, Memory
from ..bridge.device import NO_MEMORY, LaunchingDevice
from ..bridge.launchconfig import Arguments, LaunchConfig, values_at
from ..bridge.order import Order
from ..machine.order.operations import Surroundings
from ..modules import LoadedKernel
from ..patching import Patches
from .captures import Captures
from .memory import Allocations


def install(patches: Patches, memory: Allocations, captures: Captures) -> None:
    """Give the emulated device the host's allocations, and submit its launches through `captures`."""
    patches.set(LaunchingDevice, "launch", _capturing(LaunchingDevice.launch, captures, memory))
    patches.set(LaunchingDevice, "memory", _with_host_memory(LaunchingDevice.memory, memory))
    patches.set(LaunchingDevice, "surroundings", _surroundings(captures.order))
    end = captures.order.end
    patches.set(LaunchingDevice, "ended", lambda _, launch, to: end(launch, to.stream, to.event, to.event_at_start))
    patches.set(LaunchingDevice, "call", _without_cpu_tensors(LaunchingDevice.call, memory))


def _surroundings(order: Order) -> Callable[[LaunchingDevice, LoadedKernel, LaunchConfig], Surroundings | None]:
    def surroundings(device: LaunchingDevice, kernel: LoadedKernel, config: LaunchConfig) -> Surroundings | None:
        return order.begin(config.stream, config.programmatic, kernel.syntax.triggers_dependents)

    return surroundings


def _without_cpu_tensors(original: Callable[..., int], host: Allocations) -> Callable[..., int]:
    """Return LaunchingDevice.call that lets a compiled CuTeDSL function access device memory only, as a GPU does.

    On a device that a script enters itself, CPU tensors may be accessed too.
    """

    def call(device: LaunchingDevice, compiled: Any, arguments: Sequence[Any], visible: Memory = NO_MEMORY) -> int:
        if device.nested:
            return original(device, compiled, arguments, visible)
        pieces = host.ranges()
        inside = [a for a in visible.allocations if any(start <= a[0] < start + size for start, size in pieces)]
        return original(device, compiled, arguments, Memory(tuple(inside), visible.closed))

    return call


def _with_host_memory(
    original: Callable[[LaunchingDevice], Memory], host: Allocations
) -> Callable[[LaunchingDevice], Memory]:
    """Return LaunchingDevice.memory with all live device memory. Nothing else may be accessed.

    On a device that a script enters itself, memory that the arguments may point to can be accessed too.
    """

    def memory(device: LaunchingDevice) -> Memory:
        seen = original(device)
        closed = seen.closed or not device.nested
        return Memory(tuple(named_ranges(host.ranges(), seen.allocations)), closed, host.freed_at)

    return memory


def named_ranges(pieces: Sequence[tuple[int, int]], visible: Sequence[Allocation]) -> list[Allocation]:
    """Name each piece of device memory after the first argument in it; append the arguments outside of them."""
    found = [(address, size, _inside(address, size, visible) or "device memory") for address, size in pieces]
    known = sorted(pieces)
    starts = [address for address, _ in known]

    def elsewhere(address: int) -> bool:
        at = bisect_right(starts, address) - 1
        return at < 0 or address >= known[at][0] + known[at][1]

    return found + [allocation for allocation in visible if elsewhere(allocation[0])]


def _inside(address: int, size: int, visible: Sequence[Allocation]) -> str | None:
    return next((name for start, _, name in visible if address <= start < address + size), None)


def _capturing(original: Callable[..., None], captures: Captures, host: Allocations) -> Callable[..., None]:
    """Return LaunchingDevice.launch that a graph replays without access to new allocations at freed addresses."""

    def launch(device: LaunchingDevice, kernel: int, config: LaunchConfig, arguments: int) -> None:
        if not captures.capturing(config.stream):
            original(device, kernel, config, arguments)
            return
        values = values_at(arguments, device.parameter_bytes(kernel))
        kept, words = Arguments(values), (value[i : i + 8] for value in values for i in range(0, len(value) - 7, 8))
        pointed = [piece for word in words if (piece := host.containing(int.from_bytes(word, "little"))) is not None]

        def replay() -> None:
            with host.without([piece for piece in pointed if piece.freed]):
                original(device, kernel, config, kept.address)

        captures.submit(config.stream, replay, config.programmatic)
        if config.event:
            captures.record(config.event, config.stream, early=True)

    return launch
