"""Record a call of compiled CuTeDSL functions on CPU tensors: nothing is launched, nothing is computed."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..bridge import driver
from ..bridge.device import LaunchingDevice
from ..bridge.launchconfig import (
    CLUSTER_DIMENSION,
    COOPERATIVE,
    PREFERRED_CLUSTER,
    PROGRAMMATIC,
    LaunchConfig,
    values_at,
)
from ..bridge.patches import cutedsl_calls
from ..machine.formats.tensormap import LIVE_WORDS, MAP_BYTES
from ..modules import LoadedModule
from .format import Constant, HostOp, Launched, Module, Recording, Relocation, Step
from .values import FACTORIES, NotRecordable, Rules, encoded, layout, tensors_in

Tensors = Mapping[str, torch.Tensor]
Call = Callable[[Tensors], Mapping[str, torch.Tensor]]
NO_NAMES: Final[frozenset[str]] = frozenset()
MOST_CONSTANT_BYTES: Final = 1 << 20
WORD: Final = 8
LIVE: Final = {COOPERATIVE: 4, PROGRAMMATIC: 4, CLUSTER_DIMENSION: 12, PREFERRED_CLUSTER: 12}
"""The bytes that count of launch attributes; host code leaves the others, and they differ from process to process."""


def record(
    name: str,
    call: Call,
    tensors: Callable[[], Tensors],
    readable: frozenset[str] = NO_NAMES,
    about: dict[str, Any] | None = None,
    names: Mapping[int, str] | None = None,
    examples: Mapping[str, bytes] | None = None,
) -> Recording:
    """Record a call, which gets tensors by name and returns its results by name.

    tensors: makes the call's tensors, CPU tensors in memory of their own each time. After a first call, whose plan and
    compiled code later ones may find, the call is made twice: addresses differ between the two, numbers do not. The
    first one must make the same launches.
    readable: see `rules`. names: of mbarriers.

    Raises NotRecordable for host code that reads the values of a tensor, or that differs between the two calls.
    """
    passes = [_Pass(tensors(), readable, names or {}) for _ in range(3)]  # all live, so their addresses differ
    for each in passes:
        each.run(call)
    planning, first, second = passes
    launches = [[step for step in each.steps if isinstance(step, Launched)] for each in (planning, first)]
    if len(launches[0]) != len(launches[1]):
        raise NotRecordable(f"{name}: a first call makes {len(launches[0])} launches, and the next {len(launches[1])}")
    for earlier, later in zip(*launches, strict=True):
        _agreed(name, earlier, later)
    if len(first.steps) != len(second.steps) or first.results != second.results:
        raise NotRecordable(f"{name}: two calls with equal shapes do not do the same on the host")
    steps = tuple(_agreed(name, one, other) for one, other in zip(first.steps, second.steps, strict=True))
    examples = examples or {}
    layouts = {key: layout(tensor, examples.get(key, b"")) for key, tensor in first.tensors.items()}
    if layouts != {key: layout(tensor, examples.get(key, b"")) for key, tensor in second.tensors.items()}:
        raise NotRecordable(f"{name}: the call changes the layout of its tensors")
    return Recording(name, layouts, steps, first.results, first.modules, about or {})


def _agreed(name: str, one: Step, other: Step) -> Step:
    """Return the step that both passes took, with the relocations that both have. Raises NotRecordable."""
    if not (isinstance(one, Launched) and isinstance(other, Launched)):
        if one != other:
            raise NotRecordable(f"{name}: two calls with equal shapes do not do the same on the host: {one}, {other}")
        return one
    kept = [
        each
        for each in set(one.relocations) & set(other.relocations)
        if _word(one, each.parameter, each.at) != _word(other, each.parameter, each.at)
    ]
    first, second = (_without_addresses(each, kept) for each in (one, other))
    if [number for number, _ in first.attributes] == [number for number, _ in second.attributes]:
        attributes = zip(first.attributes, second.attributes, strict=True)
        bytes_of = tuple((number, _common(data, others)) for (number, data), (_, others) in attributes)
        parameters = tuple(map(_common, first.parameters, second.parameters))
        merged = replace(first, parameters=parameters, attributes=bytes_of)
        if merged == replace(second, parameters=parameters, attributes=bytes_of):
            return merged
    raise NotRecordable(f"{name}: the launches of {one.kernel} differ between two calls with equal shapes")


def _common(one: bytes, other: bytes) -> bytes:
    """Return the bytes that both calls passed, and 0 for others: padding, which host code leaves as it is."""
    return bytes(a if a == b else 0 for a, b in zip(one, other, strict=True))


@cache
def _read_bytes(ptx: str, kernel: str) -> dict[int, frozenset[int]]:
    """Return the bytes that a kernel loads of each parameter, by number; none of one whose address it takes."""
    name = rf"\b{re.escape(kernel)}_param_(\d+)"
    loads = rf"ld\.param(?:\.v(\d))?\.[a-z](\d+)[^;\[]*\[{name}(?:\+(\d+))?\]"
    named, read = Counter(re.findall(rf"{name}\b", ptx)), defaultdict[str, list[range]](list)
    for vector, bits, number, at in re.findall(loads, ptx):
        read[number].append(range(int(at or 0), int(at or 0) + int(vector or 1) * int(bits) // 8))
    return {int(n): frozenset(chain(*read[n])) for n, times in named.items() if times == len(read[n]) + 1}


def _without_padding(ptx: str, kernel: str, number: int, data: bytes) -> bytes:
    """Clear the bytes of a parameter that its kernel never loads: host code leaves padding uninitialised."""
    read = _read_bytes(ptx, kernel).get(number, range(len(data)))
    return bytes(byte if at in read else 0 for at, byte in enumerate(data))


def _word(launch: Launched, parameter: int, at: int) -> bytes:
    return launch.parameters[parameter][at : at + WORD]


def _without_addresses(launch: Launched, relocations: list[Relocation]) -> Launched:
    """Clear the words with addresses, and what follows a tensor map's live words: host code leaves it unwritten."""
    parameters = [bytearray(each) for each in launch.parameters]
    for each in relocations:
        data = parameters[each.parameter]
        data[each.at : each.at + WORD] = bytes(WORD)
        if (len(data), each.at) == (MAP_BYTES, 0):
            data[LIVE_WORDS * WORD :] = bytes(MAP_BYTES - LIVE_WORDS * WORD)
    ordered = tuple(sorted(relocations, key=lambda each: (each.parameter, each.at)))
    return replace(launch, parameters=tuple(map(bytes, parameters)), relocations=ordered)


@dataclass
class _Pass:
    """One of the two calls: the steps of the host, and all its tensors, so that no address is used twice."""

    tensors: Tensors
    readable: frozenset[str]
    names: Mapping[int, str]
    steps: list[Step] = field(default_factory=list)
    results: dict[str, int] = field(default_factory=dict)
    modules: dict[str, Module] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values: list[torch.Tensor] = list(self.tensors.values())
        self._numbers = {id(tensor): number for number, tensor in enumerate(self.values)}
        self._roots: dict[int, int] = {}
        """The first value of each storage, by the storage's address."""
        for number, tensor in enumerate(self.values):
            self._roots.setdefault(_storage(tensor), number)
        self._rules = Rules(self.tensors, self.readable)

    def run(self, call: Call) -> None:
        """Make the call."""
        with _current(_RecordingDevice(self)), _HostTrace(self):
            returned = call(self.tensors)
        self.results = {name: self.number(tensor) for name, tensor in returned.items()}

    def number(self, tensor: torch.Tensor, shape_only: bool = False) -> int:
        """Return the number of a value. One that no recorded operation made is a constant of the host's.

        shape_only: the constant may have any elements, and all may be one.
        """
        if id(tensor) in self._numbers:
            return self._numbers[id(tensor)]
        if shape_only:
            one = torch.zeros(1, dtype=tensor.dtype)
            of = encoded([one, [*tensor.shape], [0] * tensor.ndim], self.number)
            self.steps.append(HostOp("aten.as_strided.default", of, {}, (self._new(tensor),)))
            return self._numbers[id(tensor)]
        if tensor.nelement() * tensor.element_size() > MOST_CONSTANT_BYTES:
            raise NotRecordable(f"host code uses a tensor {list(tensor.shape)} that was made before the call")
        dense = tensor.detach().contiguous().view(-1).view(torch.uint8) if tensor.numel() else torch.empty(0)
        number = self._new(tensor)
        name = str(tensor.dtype).removeprefix("torch.")
        self.steps.append(Constant(name, (*tensor.shape,), bytes(dense.numpy()), number))
        return number

    def operation(self, op: Any, args: Any, kwargs: Any) -> Any:
        """Admit a torch operation, run it and record it."""
        inputs = list(tensors_in([args, kwargs]))
        makes = str(op).removesuffix(".default") in FACTORIES
        numbers = [self.number(tensor, makes) for tensor in inputs]
        holds = self._rules.admit(op, [self.root(number) for number in numbers])
        written = [encoded(list(args), self.number), {key: encoded(each, self.number) for key, each in kwargs.items()}]
        out = op(*args, **kwargs)
        made = list(tensors_in(out))
        values = tuple(self._numbers.get(id(tensor), -1) for tensor in made)
        values = tuple(self._new(t) if known < 0 else known for t, known in zip(made, values, strict=True))
        for number in values if holds else ():
            self._rules.hold(self.root(number))
        self.steps.append(HostOp(str(op), written[0], written[1], values))
        return out

    def root(self, number: int) -> int:
        """Return the first value that shares the storage of this one."""
        return self._roots.get(_storage(self.values[number]), number)

    def launched(self, module: Module, kernel: str, config: LaunchConfig, parameters: tuple[bytes, ...]) -> None:
        """Record a launch, and every word that could be an address. The second call shows which words are."""
        self.modules[module.digest] = module
        relocations = tuple(
            Relocation(index, at, *found)
            for index, data in enumerate(parameters)
            for at in range(0, len(data) - len(data) % WORD, WORD)
            if (found := self._located(int.from_bytes(data[at : at + WORD], "little"))) is not None
        )
        for each in relocations:
            self._rules.hold(each.value)
        self.steps.append(
            Launched(
                module.digest,
                kernel,
                config.grid,
                config.block,
                config.cluster,
                config.dynamic_shared_bytes,
                config.cooperative,
                tuple(_without_padding(module.ptx, kernel, index, data) for index, data in enumerate(parameters)),
                relocations,
                tuple((number, data[: LIVE.get(number)].ljust(len(data), b"\0")) for number, data in config.values),
                dict(self.names),
            )
        )

    def _located(self, address: int) -> tuple[int, int] | None:
        """Return the value whose storage has this address, and the offset in it in bytes."""
        for start, number in self._roots.items():
            if start <= address < start + self.values[number].untyped_storage().nbytes():
                return number, address - start
        return None

    def _new(self, tensor: torch.Tensor) -> int:
        number = len(self.values)
        self.values.append(tensor)
        self._numbers[id(tensor)] = number
        if tensor.untyped_storage().nbytes():
            self._roots.setdefault(_storage(tensor), number)
        return number


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class _HostTrace(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands every torch operation of the call to its pass."""

    def __init__(self, taking: _Pass) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._taking = taking

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: torch otherwise imports its compiler here, which takes a second."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if _on_meta(device) or any(each.device.type == "meta" for each in tensors_in([args, kwargs])):
            return func(*args, **kwargs)  # of no memory, so it leaves nothing to replay
        return self._taking.operation(func, args, kwargs)


def _on_meta(device: Any) -> bool:
    return device is not None and torch.device(device).type == "meta"


class _RecordingDevice(LaunchingDevice):
    """A device that records launches instead of running them."""

    def __init__(self, taking: _Pass) -> None:
        super().__init__()
        self._taking = taking
        self._cubin = b""

    def module_of(self, compiled: Any) -> LoadedModule | None:
        """Return the module of a compiled function that is called, and keep its machine code."""
        artifacts = compiled.artifacts
        self._cubin = artifacts.CUBIN if artifacts is not None and isinstance(artifacts.CUBIN, bytes) else b""
        return super().module_of(compiled)

    def launch(self, kernel: int, config: LaunchConfig, arguments: int) -> None:
        """Record a launch."""
        loaded = self.kernel_of(kernel)
        parameters = tuple(values_at(arguments, self.parameter_bytes(kernel)))
        self._taking.launched(Module(loaded.module.ptx, self._cubin), loaded.name, config, parameters)


@contextmanager
def _current(device: LaunchingDevice) -> Iterator[None]:
    driver.make_current(device)
    try:
        with cutedsl_calls():
            yield
    except Exception as error:
        if device.error is not None and error is not device.error:
            raise device.error from error
        raise
    finally:
        driver.release(device)
