"""Launch plans: everything that follows from the shapes, dtypes, strides, device and options of a call, computed once.

A public call finds its plan by one look-up and launches it with its tensors. Only a call without a plan is checked,
chooses a configuration and compiles it. At every launch the compiled function checks the device, shape and strides of
each tensor, and the alignment of its address.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import torch

from kernel.arguments import Arguments, Operands, Spec, filled
from kernel.checks import check_device, check_disjoint
from kernel.chips import Config, chip_of
from kernel.compiled import compile
from kernel.errors import ArgumentError

MOST_PLANS = 1024  # of a public call; the oldest one makes way
MOST_FILLS = 256  # tensors that are never freed, because captured graphs may read them
RESULTS = "o", "lse", "u", "m"  # the last tensors of a call

Tensors = Sequence[torch.Tensor | None]
Form = tuple[torch.dtype, Sequence[int]]
"""Dtype and shape of a result."""


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

    device: that of the call's tensors. made: the results for which a call has no buffer. about: facts that the caller
    keeps.
    """

    def __init__(self, device: torch.device, made: Mapping[str, Form], about: Any = None) -> None:
        self.about = about
        self._device = device
        self._function: Callable[..., object] | None = None
        self._constants: list[Any] = []
        self._fills: list[tuple[int, Fill]] = []
        self._views: list[tuple[int, int, Callable[[torch.Tensor], torch.Tensor]]] = []
        # A result is made like a tensor of one element with strides of 0, which takes half as long as torch.empty.
        self._made = [
            (RESULTS.index(name) - len(RESULTS), torch.empty(1, dtype=dtype, device=device).expand(tuple(shape)))
            for name, (dtype, shape) in made.items()
        ]

    def stand_ins(self, tensors: Tensors) -> list[Any]:
        """Return tensors without memory in place of a call's, to compute the kernel's arguments with.

        tensors: those of the call, with its buffers for o, lse, u and m last. Each stand-in has its own storage, so
        that the tensor of which an argument is a view can be identified.
        """
        found: list[Any] = [
            each if each is None else torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device="meta")
            for each in tensors
        ]
        for place, like in self._made:
            found[place] = torch.empty(like.shape, dtype=like.dtype, device="meta")
        return found

    def set_launch(self, config: Config, values: Values, stand_ins: Sequence[Any]) -> None:
        """Compile `config` unless it was compiled before, and launch it from now on. values: made of the stand-ins."""
        for name, result in zip(RESULTS, stand_ins[-len(RESULTS) :], strict=True):
            if result is not None:
                check_disjoint(f"out.{name}", result)
        self._chip = chip_of(config)
        check_device(self._device, self._chip)
        if (config, self._device) not in _loaded and self._device.type == "cuda":
            if torch.cuda.is_current_stream_capturing():
                allowed = "a call with the same shapes and options before the capture, which loads its kernel"
                raise ArgumentError("q", "in the first call of its kernel, while a CUDA graph is captured", allowed)
            _loaded.add((config, self._device))
        self._function = compile(config).function
        self._several_devices = self._device.type == "cuda" and torch.cuda.device_count() > 1
        storages = {each.untyped_storage()._cdata: i for i, each in enumerate(stand_ins) if each is not None}
        count = len(stand_ins)
        self._made = [(count + place, like) for place, like in self._made]
        self._constants.append(None)

        def place(name: str, spec: Spec) -> int:
            """Return the place of an argument among the call's tensors and what a launch adds to them."""
            value = values[name]
            added = count + len(self._constants)
            if isinstance(value, torch.Tensor):
                tensor = storages[value.untyped_storage()._cdata]
                if value is stand_ins[tensor]:
                    return tensor
                self._views.append((added, tensor, view(value, stand_ins[tensor])))
                value = None
            if isinstance(value, Fill):
                fill, value = value, value.on(self._device)
                if (fill, self._device) not in _fills:
                    self._fills.append((added, fill))
            self._constants.append(value)
            return added

        tables = (filled(table, config, place) for table in TABLES)
        places = [[count if each is None else each for each in table] for table in tables]
        self._operands, self._arguments = (itemgetter(*each) for each in places)
        self._results = slice(count - len(RESULTS), count)

    def launch(self, tensors: Tensors) -> list[Any]:
        """Launch on the device's current stream, and return o, lse, u and m.

        tensors: of a call with the plan's facts.
        """
        held: list[Any] = [*tensors, *self._constants]
        for place, like in self._made:
            held[place] = torch.empty_like(like)
        if self._function is None:
            return held[-len(RESULTS) :]
        for place, fill in self._fills:
            held[place] = fill.on(self._device)
        for place, number, view in self._views:
            held[place] = view(held[number])
        operands, arguments = self._operands(held), self._arguments(held)
        if self._device.type != "cuda":
            check_device(self._device, self._chip)
            # the emulator's reports have the names of arguments
            operands, arguments = Operands(*operands), Arguments(*arguments)
        if self._several_devices and torch.cuda.current_device() != self._device.index:
            with torch.cuda.device(self._device):
                self._function(operands, arguments)
        else:
            self._function(operands, arguments)
        return held[self._results]


_loaded: set[tuple[Config, torch.device]] = set()
TABLES: tuple[Any, ...] = Operands, Arguments


def view(value: torch.Tensor, of: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that takes the view of a tensor that `value` is of `of`. Both begin at the same element."""
    size, stride = value.size(), value.stride()
    if value.dtype == of.dtype:
        return lambda tensor: tensor.as_strided(size, stride)
    if size == of.size():
        return lambda tensor: tensor.view(value.dtype)
    return lambda tensor: tensor.view(value.dtype).as_strided(size, stride)


class Plans:
    """The plans of a public call, by what decides them."""

    def __init__(self, planned: Callable[..., Plan]) -> None:
        self._planned = planned
        self._plans: dict[tuple[object, ...], Plan] = {}
        _all.append(self)

    def find(self, call: tuple[Any, ...], options: tuple[object, ...], tensors: Tensors, anew: bool = False) -> Plan:
        """Return the plan of a call. A new one if no earlier call was like it, or if `anew`.

        call: the arguments of the function that checks a call and plans it. tensors: all on the device of the first
        one, which is never None; else the compiled function rejects them.
        """
        first: Any = tensors[0]
        grad = torch.is_grad_enabled()
        try:
            key = (
                *options,
                *map(type, options),
                first.device,
                *[
                    None if each is None else (each.shape, each.stride(), each.dtype, grad and each.requires_grad)
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

    def launch(self, plan: Plan, call: tuple[Any, ...], tensors: Tensors) -> list[Any]:
        """Launch a plan; return o, lse, u and m.

        Raises the error of the checks if the compiled function rejects a device or an address.
        """
        try:
            return plan.launch(tensors)
        except (BufferError, TypeError, ValueError):  # BufferError: torch exports no meta tensor
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
