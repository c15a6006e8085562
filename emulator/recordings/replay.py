"""Replay a recording on tensors of the recorded layout: its launches, and the torch operations between them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Protocol

import torch

from .. import chip
from ..bridge.allocations import Allocation, Memory
from ..bridge.device import current_device
from ..bridge.launchconfig import Arguments, LaunchConfig
from ..modules import load
from .capture import NO_NAMES, WORD
from .format import Constant, HostOp, Launched, Module, Recording
from .values import EMPTY, FACTORIES, VIEWS, NotRecordable, Rules, decoded, dtype, extent, layout, tensors_in

POISON_BYTE = 0xFF
MOST_WORKSPACE_BYTES = 1 << 30


class Launcher(Protocol):
    """The device of a replay."""

    def launch(
        self, module: Module, launched: Launched, parameters: list[bytes], memory: list[Allocation]
    ) -> frozenset[int]:
        """Run a launch. parameters: with addresses in place; memory: all that it may access.

        Return the addresses of the memory that it wrote, as far as the device knows.
        """


class Emulated:
    """Launches on the emulated device that is current."""

    def launch(
        self, module: Module, launched: Launched, parameters: list[bytes], memory: list[Allocation]
    ) -> frozenset[int]:
        """Run a launch to its end, of a module that nothing ran before. Raises EmulatorError."""
        device, loaded = current_device(), load(module.ptx)
        if not chip.runs_here(loaded.syntax.target):
            raise NotRecordable(
                f"{launched.kernel} is compiled for {loaded.syntax.target}, not for {chip.DEVICE.target}"
            )
        loaded.initialise()  # or a launch could count those before it
        sizes = [param.size for param in loaded.kernel(launched.kernel).params]
        if sizes != [len(each) for each in parameters]:
            raise NotRecordable(f"{launched.kernel} has parameters of {sizes} bytes, recorded were other sizes")
        arguments = Arguments(parameters)
        config = LaunchConfig(
            launched.grid, launched.block, launched.cluster, launched.shared_bytes, (), 0, launched.cooperative
        )
        with _naming(device, launched.names), device.calling(None, Memory(tuple(memory), closed=True)):
            device.launch(device.handle(loaded, launched.kernel), config, arguments.address)
        return device.launches[-1].written


def replay(
    recording: Recording,
    tensors: Mapping[str, torch.Tensor],
    launcher: Launcher,
    readable: frozenset[str] = NO_NAMES,
    writable: frozenset[str] | None = None,
    most_host_bytes: int = MOST_WORKSPACE_BYTES,
) -> dict[str, torch.Tensor]:
    """Replay a recording on these tensors. Return the tensors that the recorded call returned, by name.

    writable: the tensors that launches may write; None: all. most_host_bytes: what host code may compute, if it may not
    compute with the call's tensors. Memory that host code left unwritten holds NaN. Raises
    NotRecordable for a step that the rules do not admit, tensors of another layout, or a launch that writes another
    tensor, and EmulatorError for a fault of a launch.
    """
    for name, recorded in recording.tensors.items():
        if name not in tensors or not recorded.lies_like(layout(tensors[name])):
            raise NotRecordable(f"{recording.name}: {name} was recorded with another layout: {recorded}")
    if set(tensors) != set(recording.tensors):
        raise NotRecordable(f"{recording.name}: recorded with {sorted(recording.tensors)}, not {sorted(tensors)}")
    given = {name: tensors[name] for name in recording.tensors}
    running = _Replay(recording, given, launcher, readable, writable, most_host_bytes)
    for step in recording.steps:
        running.take(step)
    return {name: running.value(number) for name, number in recording.results.items()}


class _Replay:
    """The values of a replay so far."""

    def __init__(
        self,
        recording: Recording,
        tensors: Mapping[str, torch.Tensor],
        launcher: Launcher,
        readable: frozenset[str],
        writable: frozenset[str] | None,
        most_host_bytes: int,
    ) -> None:
        self._recording, self._launcher = recording, launcher
        self._names = list(tensors)
        self._values = dict(enumerate(tensors.values()))
        self._device = next(iter(tensors.values())).device.type
        self._rules = Rules(tensors, readable)
        self._made_bytes = self._host_bytes = 0
        self._most_host_bytes = MOST_WORKSPACE_BYTES if readable else most_host_bytes
        self._inputs = {} if writable is None else {n: t for n, t in tensors.items() if n not in writable}

    def value(self, number: int) -> torch.Tensor:
        """Return a value. Raises NotRecordable if there is none of that number yet."""
        if number not in self._values:
            raise NotRecordable(f"{self._recording.name}: a step uses value {number}, which no step before it makes")
        return self._values[number]

    def take(self, step: Any) -> None:
        """Replay one step."""
        if isinstance(step, Launched):
            self._launch(step)
        elif isinstance(step, HostOp):
            self._operate(step)
        elif isinstance(step, Constant):
            data = torch.frombuffer(bytearray(step.data), dtype=torch.uint8) if step.data else torch.empty(0)
            self._make(step.value, data.view(dtype(step.dtype)).view(step.shape).to(self._device))

    def _operate(self, step: HostOp) -> None:
        op = operation(step.op)
        args = decoded(step.args, self.value, self._device)
        kwargs = {name: decoded(each, self.value, self._device) for name, each in step.kwargs.items()}
        inputs = list(tensors_in([args, kwargs]))
        holds = self._rules.admit(op, [self._root(tensor) for tensor in inputs])
        self._make_room(step, op, args, kwargs)
        made = list(tensors_in(op(*args, **kwargs)))
        for tensor in made:
            _check_bounds(step, tensor)
        if str(op).removesuffix(".default") in EMPTY:
            for tensor in made:
                tensor.untyped_storage().copy_(_poison(tensor))
        if len(made) != len(step.values):
            raise NotRecordable(f"{step.op} gave {len(made)} results, recorded were {len(step.values)}")
        for number, tensor in zip(step.values, made, strict=True):
            if number not in self._values:
                self._make(number, tensor)
            if holds:
                self._rules.hold(self._root(tensor))

    def _make_room(self, step: HostOp, op: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        """Count the memory of an operation's results before it is allocated. Raises NotRecordable past a limit."""
        name, nbytes = str(op).removesuffix(".default"), 0
        if name in FACTORIES:
            made = tensors_in(op(*args, **{**kwargs, "device": "meta"}))
            nbytes = sum(each.untyped_storage().nbytes() for each in made)
        elif name.split(".")[1] not in VIEWS:
            nbytes = _most_bytes(list(tensors_in([args, kwargs])))
        self._made_bytes += nbytes
        self._host_bytes += nbytes if name not in EMPTY else 0
        if self._made_bytes > MOST_WORKSPACE_BYTES:
            raise NotRecordable(f"{self._recording.name}: {step.op} makes more tensors than the at most 1 GiB allowed")
        if self._host_bytes > self._most_host_bytes:
            most = f"{self._most_host_bytes:,} bytes: fill memory in the kernel, whose time counts"
            raise NotRecordable(f"{self._recording.name}: {step.op} computes more than the allowed {most}")

    def _launch(self, step: Launched) -> None:
        parameters = [bytearray(each) for each in step.parameters]
        memory: dict[int, Allocation] = {}
        for each in step.relocations:
            tensor = self.value(each.value)
            storage = tensor.untyped_storage()
            if not 0 <= each.offset <= storage.nbytes():
                place = f"{each.offset} bytes into a tensor of {storage.nbytes()}"
                raise NotRecordable(f"{step.kernel}: an address {place}")
            address = storage.data_ptr() + each.offset
            parameters[each.parameter][each.at : each.at + WORD] = address.to_bytes(WORD, "little")
            memory[each.value] = (*extent(tensor), self._name(each.value))
            self._rules.hold(self._root(tensor))
        module = self._recording.modules[step.module]
        written = self._launcher.launch(module, step, list(map(bytes, parameters)), list(memory.values()))
        for name, tensor in self._inputs.items():
            storage = tensor.untyped_storage()
            if any(storage.data_ptr() <= at < storage.data_ptr() + storage.nbytes() for at in written):
                raise NotRecordable(f"{step.kernel} writes to {name}, an input of the call")

    def _make(self, number: int, tensor: torch.Tensor) -> None:
        if number in self._values:  # the tensor of that number would lose the name by which the rules know it
            raise NotRecordable(f"{self._recording.name}: two steps make value {number}")
        self._values[number] = tensor

    def _name(self, number: int) -> str:
        return self._names[number] if number < len(self._names) else f"buffer {number} of the host's"

    def _root(self, tensor: torch.Tensor) -> int:
        """Return the first value that shares the storage of a tensor."""
        at = tensor.untyped_storage().data_ptr()
        shared = (number for number, each in self._values.items() if each.untyped_storage().data_ptr() == at)
        return min(shared, default=-1)


@cache
def operation(name: str) -> Any:
    """Return one of torch's own operations, such as aten.view.default. Raises NotRecordable."""
    parts = name.split(".")
    if len(parts) != 3 or parts[0] != "aten" or not all(part.isidentifier() for part in parts[1:]):
        raise NotRecordable(f"{name!r} is none of torch's own operations")
    try:
        return getattr(getattr(torch.ops.aten, parts[1]), parts[2])
    except AttributeError as error:
        raise NotRecordable(f"{name!r} is none of torch's own operations") from error


def _most_bytes(given: list[torch.Tensor]) -> int:
    """Return the most bytes of the results of an elementwise operation, a reduction or a concatenation."""
    elements = sum(each.numel() for each in given)
    with suppress(RuntimeError):  # a concatenation of other shapes
        elements = max(elements, math.prod(torch.broadcast_shapes(*(each.shape for each in given))))  # type: ignore[no-untyped-call]
    return elements * WORD


def _check_bounds(step: HostOp, tensor: torch.Tensor) -> None:
    """Raise NotRecordable for a view that reaches beyond its storage. Torch makes some without a check."""
    at, nbytes = extent(tensor)
    storage = tensor.untyped_storage()
    if nbytes and not storage.data_ptr() <= at <= at + nbytes <= storage.data_ptr() + storage.nbytes():
        raise NotRecordable(f"{step.op} makes a view of {nbytes} bytes in a storage of {storage.nbytes()}")


def _poison(tensor: torch.Tensor) -> Any:
    nbytes = tensor.untyped_storage().nbytes()
    return torch.full((nbytes,), POISON_BYTE, dtype=torch.uint8, device=tensor.device).untyped_storage()


@contextmanager
def _naming(device: Any, names: Mapping[int, str]) -> Iterator[None]:
    """Give a device the names of a launch's mbarriers while the context is open."""
    before, device.names = device.names, lambda kernel: names
    try:
        yield
    finally:
        device.names = before
