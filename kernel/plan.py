"""Launch plans: what the shapes, dtypes, strides, devices and options of a call decide, worked out once.

A public call finds its plan by one look-up and launches it with its tensors. Only a call without a plan is checked,
chooses a configuration and compiles it. At every launch the compiled function checks the device, shape and strides of
each tensor, and the alignment of its address.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

import torch

from kernel.arguments import Arguments, Operands, Spec, filled
from kernel.checks import check_device
from kernel.chips import Config, chip
from kernel.compiled import compile
from kernel.tensors import Attention

MOST_PLANS = 1024  # of a public call; the oldest one makes way
MOST_FILLS = 256  # tensors that are never freed, because captured graphs may read them
RESULTS = "o", "lse", "u", "m"  # the last tensors of a call

Tensors = Sequence[torch.Tensor | None]


@dataclass(frozen=True)
class Fill:
    """A kernel argument in place of a tensor that the caller left out: equal elements on the device of the call."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    value: float

    def on(self, device: torch.device) -> torch.Tensor:
        """Return the tensor; on a GPU the same one for all calls, unless a graph is captured before it is there."""
        if (found := _fills.get((self, device))) is not None:
            return found
        made = torch.full(self.shape, self.value, dtype=self.dtype, device=device)
        on_gpu = made.untyped_storage().device.type == "cuda"  # no emulated one
        if on_gpu and len(_fills) < MOST_FILLS and not torch.cuda.is_current_stream_capturing():
            torch.cuda.current_stream(device).synchronize()  # later calls on other streams do not wait for this one
            _fills[self, device] = made
        return made


_fills: dict[tuple[Fill, torch.device], torch.Tensor] = {}

Values = Mapping[str, torch.Tensor | Fill | float | None]
"""The arguments of kernel.arguments by name."""


class Plan:
    """The launch of a compiled configuration for calls with the same facts. Without a launch it makes results only.

    device: that of the call's tensors. allocated: dtypes and shapes of the results for which a call has no buffer.
    about: facts that the caller keeps.
    """

    def __init__(
        self,
        device: torch.device,
        allocated: Mapping[str, tuple[torch.dtype, Sequence[int]]],
        about: Any = None,
    ) -> None:
        self.about = about
        self._device = device
        self._allocated = [
            (tuple(allocated[name][1]), allocated[name][0]) if name in allocated else None for name in RESULTS
        ]
        self._function: Callable[..., object] | None = None

    def stand_ins(self, tensors: Tensors) -> list[Any]:
        """Return tensors without memory in place of a call's, to compute the kernel's arguments with.

        tensors: those of the call, with its buffers for o, lse, u and m last. Each stand-in has a storage of its own,
        which tells the tensor that an argument is a view of.
        """
        found: list[Any] = [
            each if each is None else torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device="meta")
            for each in tensors
        ]
        for place, each in enumerate(self._allocated, len(found) - len(RESULTS)):
            if each is not None:
                found[place] = torch.empty(each[0], dtype=each[1], device="meta")
        return found

    def set_launch(self, config: Config, values: Values, stand_ins: Sequence[Any]) -> None:
        """Compile `config` unless it was compiled before, and launch it from now on. values: made of the stand-ins."""
        check_device(self._device, chip().major)
        self._function = compile(config).function
        self._several_devices = self._device.type == "cuda" and torch.cuda.device_count() > 1
        self._constants: list[float | None] = [None]
        self._fills: list[Fill] = []
        self._views: list[tuple[int, Callable[[torch.Tensor], torch.Tensor]]] = []
        storages = {each.untyped_storage()._cdata: i for i, each in enumerate(stand_ins) if each is not None}

        def source(name: str, spec: Spec) -> tuple[list[Any], int]:
            """Return where an argument comes from: a list of sources, and the place in it."""
            value = values[name]
            if isinstance(value, torch.Tensor):
                tensor = storages[value.untyped_storage()._cdata]
                if value is stand_ins[tensor]:
                    return tensors, tensor
                self._views.append((tensor, view(value, stand_ins[tensor])))
                return self._views, len(self._views) - 1
            of_kind: list[Any] = self._fills if isinstance(value, Fill) else self._constants
            of_kind.append(value)
            return of_kind, len(of_kind) - 1

        tensors = list(stand_ins)
        sources = [[each or (self._constants, 0) for each in filled(table, config, source)] for table in TABLES]
        first, lists = {}, (tensors, self._constants, self._fills, self._views)
        for number, each in enumerate(lists):
            first[id(each)] = sum(map(len, lists[:number]))
        places = [[first[id(of_kind)] + number for of_kind, number in table] for table in sources]
        self._operands, self._arguments = (itemgetter(*each) for each in places)

    def launch(self, tensors: Tensors) -> Attention:
        """Launch on the device's current stream, and return the results. tensors: of a call with the plan's facts."""
        held: list[Any] = [*tensors]
        for place, each in enumerate(self._allocated, len(held) - len(RESULTS)):
            if each is not None:
                held[place] = torch.empty(each[0], dtype=each[1], device=self._device)
        results = held[-len(RESULTS) :]
        if self._function is not None:
            held += self._constants
            for fill in self._fills:
                held.append(fill.on(self._device))
            for number, view in self._views:
                held.append(view(held[number]))
            operands, arguments = new_operands(self._operands(held)), new_arguments(self._arguments(held))
            if self._device.type != "cuda":
                check_device(self._device, chip().major)
            if self._several_devices and torch.cuda.current_device() != self._device.index:
                with torch.cuda.device(self._device):
                    self._function(operands, arguments)
            else:
                self._function(operands, arguments)
        return Attention(*results)


TABLES: tuple[Any, ...] = Operands, Arguments
new_operands, new_arguments = (partial(tuple.__new__, table) for table in TABLES)


def view(value: torch.Tensor, of: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that takes the view of a tensor that `value` is of `of`."""
    size, stride, offset = value.size(), value.stride(), value.storage_offset()

    def taken(tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor if value.dtype == of.dtype else tensor.view(value.dtype)
        return tensor.as_strided(size, stride, tensor.storage_offset() + offset)

    return taken


class Plans:
    """The plans of a public call, by what decides them."""

    def __init__(self, planned: Callable[..., Plan]) -> None:
        self._planned = planned
        self._plans: dict[tuple[object, ...], Plan] = {}
        _all.append(self)

    def find(self, call: tuple[Any, ...], options: tuple[object, ...], tensors: Tensors, anew: bool = False) -> Plan:
        """Return the plan of a call, a new one if there was no call like it, or if it is wanted.

        call: the arguments of the function that checks a call and plans it.
        """
        try:
            key = (
                *options,
                *map(type, options),
                torch.is_grad_enabled(),
                *[
                    None if each is None else (each.shape, each.stride(), each.dtype, each.device, each.requires_grad)
                    for each in tensors
                ],
            )
            plan = self._plans.get(key)
        except (AttributeError, TypeError):  # an argument of another type, which the checks name
            return self._planned(*call)
        if plan is None or anew:
            plan = self._planned(*call)
            if len(self._plans) >= MOST_PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[key] = plan
        return plan

    def launch(self, plan: Plan, call: tuple[Any, ...], tensors: Tensors) -> Attention:
        """Launch a plan. Raises the error of the checks if the compiled function refuses an address."""
        try:
            return plan.launch(tensors)
        except (TypeError, ValueError):
            self._planned(*call)
            raise

    def clear(self) -> None:
        """Drop all plans."""
        self._plans.clear()


_all: list[Plans] = []


def clear() -> None:
    """Drop the plans of all calls. Those that follow choose their configurations and compile them again."""
    for plans in _all:
        plans.clear()
