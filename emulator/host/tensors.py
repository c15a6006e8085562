"""torch tensors on the emulated device: CPU tensors with a mark that report the device cuda:0."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils import _device as default_device
from torch.utils._pytree import tree_map

from ..bridge.callers import caller
from ..bridge.ffi import cuda_capsule
from ..bridge.order import extent_of, report, runs_of, stream_name
from ..errors import UseAfterFree
from .captures import Captures
from .errors import not_emulated
from .guard import Guard
from .memory import POISON, Allocations, Piece
from .scaled_matmul import is_block_scaled, scaled_grouped_mm, scaled_mm
from .streams import DEVICE, Current, Stream

CPU: Final = torch.device("cpu")
_MARK: Final = "_on_emulated_device"
_PLAIN: Final = (torch.Tensor, torch.nn.Parameter)
_UNINITIALIZED: Final = frozenset(
    {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
)
_TO_THE_HOST: Final = frozenset({"to", "cpu", "copy_"})
_FROM_THE_HOST: Final = frozenset({"tensor", "as_tensor", "asarray", "cuda"})
_READS_ON_THE_HOST: Final = frozenset({"numpy", "__array__"})
_READS_VALUES: Final = frozenset(
    {"item", "tolist", "is_nonzero", "equal", "nonzero", "unique", "masked_select"}
    | {"unique_consecutive", "argwhere", "bincount", "allclose"}
    | {"__bool__", "__int__", "__float__", "__complex__", "__index__", "__repr__", "__format__", "__contains__"}
)
"""Functions that synchronise with the device because the host needs a tensor's values."""
_WRITES: Final = re.compile("__(setitem|i(add|sub|mul|(true|floor)?div|mod|pow|matmul|and|or|xor|lshift|rshift))__$")
_ALIASING: Final = frozenset({"to", "cuda", "cpu", "as_tensor", "asarray"})


def _alias(tensor: torch.Tensor, piece: Piece) -> torch.Tensor:
    """Return a tensor of the emulated device with the same memory, which it does not own."""
    with torch._C.DisableTorchFunction():
        owner = (ctypes.c_uint8 * piece.size).from_address(piece.address)
        home = torch.frombuffer(owner, dtype=torch.uint8).untyped_storage()
        setattr(home, _MARK, True)
        alias = torch.empty(0, dtype=tensor.dtype, device=CPU)
        alias.set_(home, tensor.storage_offset(), tensor.size(), tensor.stride())
    mark(alias, True)
    return alias


def is_emulated(value: object) -> bool:
    """Return True if `value` is a tensor on the emulated device.

    The tensor's storage carries the mark too, because autograd makes new tensor objects for saved tensors.
    """
    if not isinstance(value, torch.Tensor):
        return False
    return _MARK in value.__dict__ or (type(value) in _PLAIN and _in_device_memory(value))


def _in_device_memory(tensor: torch.Tensor) -> bool:
    with torch._C.DisableTorchFunction():
        return torch._C._has_storage(tensor) and hasattr(tensor.untyped_storage(), _MARK)


def mark(value: Any, emulated: bool) -> None:
    """Mark every tensor in `value` (nested lists and tuples) as on the emulated device, or remove the mark."""
    for tensor in tensors_in((value,)):
        if emulated:
            setattr(tensor, _MARK, True)
        else:
            tensor.__dict__.pop(_MARK, None)


def _is_torchs(name: str, inputs: Sequence[torch.Tensor]) -> bool:
    """Return True for an operation that torch does as it is.

    It replaces the data of a parameter, which then has the mark of the new data, or its tensors have no memory and know
    their device themselves (FakeTensorMode).
    """
    if name == "__set__" and len(inputs) == 2:  # parameter.data = tensor
        mark(inputs[0], is_emulated(inputs[1]))
        return True
    active = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None
    return active or any(isinstance(tensor, FakeTensor) for tensor in inputs)


def is_cuda_device(device: object) -> bool:
    """Return True if a device argument (str, torch.device, int, or None) names the emulated device."""
    if isinstance(device, bool) or device is None:
        return False
    if isinstance(device, int):
        return _checked(torch.device("cuda", device)).type == "cuda"
    if isinstance(device, str | torch.device):
        return _checked(torch.device(device)).type == "cuda"
    return False


class EmulatedTensors(TorchFunctionMode):
    """A function mode that makes torch's `cuda` device CPU memory.

    Factories whose device argument is `cuda` allocate there, and operations on its tensors return tensors there. Those
    tensors report cuda:0 in `.device`, `.is_cuda` and DLPack. A copy between the devices is a real copy, as on
    hardware: later writes to one tensor do not change the other.
    """

    def __init__(self, memory: Allocations, captures: Captures, guard: Guard) -> None:
        super().__init__()
        self._memory, self._guard = memory, guard
        self._captures = captures
        self.operators: AbstractContextManager[Any] = nullcontext()
        """The dispatch mode for operators on the device's tensors (`torch_dispatch.DeviceOperators`)."""
        self.forward_streams: set[int] = set()
        """The streams of operators whose gradients torch may compute."""
        self.overridden = False
        """True if it replaces kernels of operators."""

    def enabled_in(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that runs `function` with this mode active, for callers that turn function modes off."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if self in _get_current_function_mode_stack():  # type: ignore[no-untyped-call]
                return function(*args, **kwargs)
            with self:
                return function(*args, **kwargs)

        return call

    def place_on_device(self, values: Iterable[Any]) -> None:
        """Place the tensors among (nested) values on the emulated device, for results that this mode did not see."""
        with torch._C.DisableTorchFunction():
            for tensor in tensors_in(values):
                mark(tensor, True)
                self._move_to_device_memory(tensor, [])

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = _name(func)
        inputs = list(tensors_in((args, kwargs)))
        emulated = [tensor for tensor in inputs if is_emulated(tensor)]
        if emulated and name in _ATTRIBUTES and is_emulated(args[0]):
            return _ATTRIBUTES[name](*args, **kwargs)

        if _is_torchs(name, inputs):
            return func(*args, **kwargs)
        with self._guard.inside() if self._memory.exposed else nullcontext():
            return self._call(func, name, args, kwargs, inputs, emulated)

    def _call(
        self,
        func: Callable[..., Any],
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        inputs: list[torch.Tensor],
        emulated: list[torch.Tensor],
    ) -> Any:
        """Call a function of torch whose tensors may be on the device."""
        if name == "cuda":
            func = torch.Tensor.cpu
        pinned = name == "pin_memory" or bool(kwargs.get("pin_memory"))
        if name == "pin_memory":
            func, args, kwargs = torch.Tensor.clone, args[:1], {}
        if name == "_scaled_mm" and is_block_scaled(_argument(args, kwargs, 2, "scale_a")):
            func = scaled_mm
        if name == "_scaled_grouped_mm_v2":
            func = scaled_grouped_mm
        blocking = not kwargs.get("non_blocking") and all(value is not True for value in args[2:])
        target, args, kwargs = _target(name, func, args, kwargs, bool(emulated))
        if emulated and _synchronizes(name, args, kwargs, target):
            self._captures.synchronize(Current.stream.cuda_stream)
        captured = target and self._captures.capturing(Current.stream.cuda_stream)
        before = _Contents(emulated) if captured else None
        watched = self._watches(emulated, inputs, target) and not captured
        try:
            with self.operators if watched else nullcontext():
                result = func(*args, **kwargs)
        except NotImplementedError as error:
            if not target:
                raise
            raise not_emulated(f"torch's {name} on the device", "torch has no CPU kernel for it") from error
        result = self._place(name, args, result, inputs, target)
        crosses = name in _TO_THE_HOST and is_emulated(args[0]) != is_emulated(args[1] if name == "copy_" else result)
        if pinned or (crosses and name == "to" and not target and not blocking):
            self._move_to_device_memory(result, [], host=True)
        if before is not None:
            before.restore()
            if name not in _UNINITIALIZED and not _only_looks(name, kwargs, result, inputs):
                work = self._replay_of(func, args, kwargs, result, inputs)
                self._captures.submit(Current.stream.cuda_stream, work)
            return result
        if not watched or (crosses and name != "copy_") or name in _READS_VALUES:
            self._record_function(name, args, kwargs, result, inputs, bool(emulated or target))
        if name in _READS_ON_THE_HOST and (piece := self._piece(args[0])) is not None and piece.host:
            self._memory.expose(piece)
            with self._guard.inside():  # which protects its pages from now on
                pass
        waits = (crosses and blocking) or (target and name in _FROM_THE_HOST) or (emulated and name in _READS_VALUES)
        if waits:
            self._captures.order.synchronize(Current.stream.cuda_stream)
        return result

    def _watches(self, emulated: list[torch.Tensor], inputs: list[torch.Tensor], target: bool) -> bool:
        """Return whether `operators` has to see the operators of a function."""
        order = self._captures.order
        if emulated or target:
            saves = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in emulated)
            if saves:
                self.forward_streams.add(Current.stream.cuda_stream)
            return saves or order.concurrent or order.on_host or (self.overridden and bool(emulated) and target)
        return order.on_host and any(self._piece(tensor) is not None for tensor in inputs)

    def _record_function(
        self, name: str, args: Any, kwargs: Any, result: Any, inputs: list[torch.Tensor], on_device: bool
    ) -> None:
        """Record the accesses of a function whose operators were not seen."""
        if not (on_device or self._captures.order.on_host) or any(map(is_functorch_wrapped_tensor, inputs)):
            return
        known = {id(tensor) for tensor in inputs}
        made = [tensor for tensor in tensors_in((result,)) if id(tensor) not in known]
        fresh = [tensor for tensor in made if not any(shares_memory(tensor, other) for other in inputs)]
        writes = [*fresh, *tensors_in((args[:1] if _is_in_place(name) else (), kwargs.get("out")))]
        if name in _UNINITIALIZED or not (writes or name in _READS_VALUES):
            return
        reads = [] if name.startswith("new_") or name.endswith("_like") else inputs
        self.record(name, reads, writes, on_device)

    def record(self, name: str, reads: Iterable[Any], writes: Iterable[Any], on_device: bool) -> None:
        """Record the accesses of an operator on the current stream or, if it has no tensor there, of the host."""
        extents, on_host = [], False
        with torch._C.DisableTorchFunction():
            for tensors, write in ((reads, False), (writes, True)):
                for tensor in tensors:
                    if (piece := self._piece_of(tensor)) is not None:
                        on_host |= piece.host
                        extents.append((extent_of(tensor), write))
        if not extents or self._captures.capturing(Current.stream.cuda_stream):
            return
        order, what, at = self._captures.order, f"torch's {name}", caller()
        if on_device:
            order.submit(Current.stream.cuda_stream, what, lambda: runs_of(what, at, extents), at, on_host)
        elif on_host:
            order.access(what, runs_of(what, at, extents))

    def _piece(self, tensor: torch.Tensor) -> Piece | None:
        """Return the allocation of device or pinned memory that holds a tensor; None for other memory."""
        with torch._C.DisableTorchFunction():
            return self._piece_of(tensor)

    def _piece_of(self, tensor: torch.Tensor) -> Piece | None:
        there = type(tensor) in _PLAIN and torch._C._has_storage(tensor)
        return self._memory.at(tensor.untyped_storage().data_ptr()) if there else None

    def record_stream(self, tensor: torch.Tensor, stream: Stream) -> None:
        """Keep a tensor's memory from being used again before the stream's present work is done."""
        piece = self._piece(tensor)
        if piece is not None:
            piece.recorded.add(stream_name(stream.cuda_stream))

    def _replay_of(
        self, func: Callable[..., Any], args: Any, kwargs: Any, result: Any, inputs: list[torch.Tensor]
    ) -> Callable[[], None]:
        """Return the work that a graph replays: the operator on the same arguments, into the first results' memory.

        The graph keeps memory that was allocated during its capture, and no other: the allocator may use that again.
        """
        graph = self._captures.graph_of(Current.stream.cuda_stream)
        pool = {home.data_ptr() for home in graph.pool} if graph is not None else set[int]()
        borrowed = dict[int, tuple[Piece, torch.Tensor]]()

        def borrow(value: Any) -> Any:
            piece = self._piece(value) if isinstance(value, torch.Tensor) else None
            if piece is None or piece.host or piece.address in pool:
                return value
            alias = borrowed[id(value)][1] if id(value) in borrowed else _alias(value, piece)
            borrowed[id(value)] = piece, alias
            return alias

        result, args, kwargs = (tree_map(borrow, part) for part in (result, args, kwargs))
        inputs = [borrow(tensor) for tensor in inputs]
        pieces, name, at = [piece for piece, _ in borrowed.values()], _name(func), caller()

        def work() -> None:
            for piece in pieces:
                if piece.freed:
                    missing = "a reference to the tensor as long as the graph is replayed"
                    lines = ("captured at", str(at)), ("freed", str(piece)), ("missing", missing)
                    report(UseAfterFree(f"a graph replays torch's {name} on memory that was freed", lines))
            seen = self.operators if self._captures.order.concurrent else nullcontext()
            with torch._C.DisableTorchFunction(), torch.inference_mode(), seen:
                for old, new in zip(tensors_in((result,)), tensors_in((func(*args, **kwargs),)), strict=True):
                    if not any(shares_memory(new, tensor) for tensor in inputs):
                        old.detach().copy_(new)

        return work

    def _place(self, name: str, args: tuple[Any, ...], result: Any, inputs: list[torch.Tensor], target: bool) -> Any:
        """Place a result on its device. Inputs that are returned (in-place operations, `out=`) stay on theirs."""
        if name in _ALIASING and isinstance(result, torch.Tensor):
            source = args[0] if args else None
            crossed = is_emulated(source) != target
            if crossed and shares_memory(result, source):
                result = result.clone()
        known = {id(tensor) for tensor in inputs}
        for tensor in tensors_in((result,)):
            if id(tensor) not in known:
                mark(tensor, target)
                if target:
                    self._move_to_device_memory(
                        tensor, inputs, name in _UNINITIALIZED and not _torch_fills_new_memory()
                    )
        return result

    def _move_to_device_memory(
        self, tensor: torch.Tensor, inputs: list[torch.Tensor], unwritten: bool = False, host: bool = False
    ) -> None:
        """Move a new tensor's memory to device memory, and poison it if the tensor is uninitialised.

        host: move it to pinned memory.
        """
        if type(tensor) not in _PLAIN or tensor.device != CPU:
            return
        if not torch._C._has_storage(tensor) or _in_device_memory(tensor):
            return
        storage = tensor.untyped_storage()
        if storage.nbytes() == 0 or any(shares_memory(tensor, other) for other in inputs):
            return
        stream, captures = Current.stream.cuda_stream, self._captures
        if captures.order.concurrent and not host and not captures.capturing(stream):
            captures.order.allocated(storage.nbytes(), stream)
        buffer = self._memory.storage(storage.nbytes(), host, None if host else stream)
        home = torch.from_numpy(buffer).untyped_storage()
        if (graph := captures.graph_of(stream)) is not None and not host:
            graph.pool.append(home)
        if _MARK in tensor.__dict__:  # a pinned tensor has no mark: it stays on the CPU
            setattr(home, _MARK, True)
        if unwritten:
            ctypes.memset(home.data_ptr(), POISON, home.nbytes())
        else:
            home.copy_(storage)
        moved = torch.empty(0, dtype=tensor.dtype, device=CPU)
        tensor.data = moved.set_(home, tensor.storage_offset(), tensor.size(), tensor.stride())


def _torch_fills_new_memory() -> bool:
    """Return True if the program asked torch to fill uninitialised memory itself."""
    asked: bool = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    return asked and torch.are_deterministic_algorithms_enabled()


class _Contents:
    """A copy of tensors' contents, to undo the effects of an operator that is only captured."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        with torch._C.DisableTorchFunction(), torch.inference_mode():
            self._held = [(tensor, _version(tensor), tensor.detach().clone()) for tensor in tensors]

    def restore(self) -> None:
        """Write back the contents of the tensors that have changed."""
        with torch._C.DisableTorchFunction(), torch.inference_mode():
            for tensor, version, content in self._held:
                if version is None or _version(tensor) != version:
                    tensor.detach().copy_(content)


def _version(tensor: torch.Tensor) -> int | None:
    """Return a tensor's version counter, None for inference tensors, which have none."""
    return None if tensor.is_inference() else tensor._version


def _synchronizes(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], target: bool) -> bool:
    """Return True if this operation on the device's tensors synchronises the host with the stream."""
    if name in _READS_VALUES or _counts_elements(name, args, kwargs):
        return True
    arrives = is_emulated(args[0]) if name == "copy_" else target
    return (
        name in _TO_THE_HOST
        and not arrives
        and not kwargs.get("non_blocking")
        and all(value is not True for value in args[2:])
    )


def _counts_elements(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return True for a function whose result's size, or whose number of accesses, depends on values."""
    if name in ("__setitem__", "index_put_") and not any(tensor.numel() > 1 for tensor in tensors_in(args[2:3])):
        return False
    if name in ("__getitem__", "__setitem__", "index_put_"):
        return any(tensor.dtype in (torch.bool, torch.uint8) for tensor in tensors_in(args[1:2]))
    return (name == "where" and len(args) == 1) or (
        name == "repeat_interleave" and kwargs.get("output_size") is None and any(True for _ in tensors_in(args[1:2]))
    )


def _is_in_place(name: str) -> bool:
    """Return True for a function that writes its first argument."""
    return (name.endswith("_") and not name.endswith("__")) or _WRITES.match(name) is not None


def _only_looks(name: str, kwargs: dict[str, Any], result: Any, inputs: Sequence[torch.Tensor]) -> bool:
    """Return True for a function without work on the device: it returns views of its arguments, or no tensor."""
    if _is_in_place(name) or kwargs.get("out") is not None:
        return False
    found = list(tensors_in((result,)))
    if not found:
        return hasattr(torch.Tensor, name)
    given = {id(tensor) for tensor in inputs}
    return all(
        torch._C._has_storage(view) and id(view) not in given and any(shares_memory(view, one) for one in inputs)
        for view in found
    )


_Call = tuple[bool, tuple[Any, ...], dict[str, Any]]


def _target(name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], from_emulated: bool) -> _Call:
    """Return True if the result belongs on the emulated device, and the arguments with `cuda` replaced by `cpu`."""
    if name in ("cuda", "cpu"):
        layout = {key: value for key, value in kwargs.items() if key == "memory_format"}
        return name == "cuda", args[:1], layout
    if kwargs.get("pin_memory"):
        kwargs["pin_memory"] = False
    if kwargs.get("device") is not None:
        target = is_cuda_device(kwargs["device"])
        return target, args, {**kwargs, "device": CPU} if target else kwargs
    if name == "to":
        return _target_of_to(args, kwargs, from_emulated)
    if not from_emulated and is_cuda_device(default_device.CURRENT_DEVICE) and func in _FACTORIES:
        return True, args, {**kwargs, "device": CPU}
    return from_emulated, args, kwargs


def _target_of_to(args: tuple[Any, ...], kwargs: dict[str, Any], from_emulated: bool) -> _Call:
    if len(args) < 2:
        other = kwargs.get("other")
        return (is_emulated(other) if other is not None else from_emulated), args, kwargs
    where = args[1]
    if isinstance(where, torch.Tensor):
        return is_emulated(where), args, kwargs
    if isinstance(where, str | torch.device) or (isinstance(where, int) and not isinstance(where, bool)):
        target = is_cuda_device(where)
        return target, (args[0], CPU if target else where, *args[2:]), kwargs
    return is_emulated(args[0]), args, kwargs


def default_device_factory(
    context: default_device.DeviceContext, func: Any, types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """Replace DeviceContext.__torch_function__, which must not pass the emulated device to torch itself.

    `with torch.device(...)` puts the context above EmulatedTensors, which then sees the device and replaces it. A
    default device is below EmulatedTensors. There the tensor is already marked and only its memory is requested.
    """
    kwargs = dict(kwargs or {})
    if func in _FACTORIES and kwargs.get("device") is None:
        modes = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
        seen = any(isinstance(mode, EmulatedTensors) for mode in modes)
        kwargs["device"] = CPU if is_cuda_device(context.device) and not seen else context.device
    return func(*args, **kwargs)


def _name(func: Callable[..., Any]) -> str:
    """Return the name of a torch function, or of the property if it is a getter."""
    name = getattr(func, "__name__", "")
    if name != "__get__":
        return name
    owner = getattr(func, "__self__", None)
    return getattr(getattr(owner, "fget", owner), "__name__", "")


def _argument(args: tuple[Any, ...], kwargs: dict[str, Any], index: int, name: str) -> Any:
    return args[index] if len(args) > index else kwargs.get(name)


def shares_memory(result: torch.Tensor, source: object) -> bool:
    if isinstance(source, torch.Tensor):
        there = torch._C._has_storage(source)
        return there and result.untyped_storage().data_ptr() == source.untyped_storage().data_ptr()
    interface = getattr(source, "__array_interface__", None)
    return interface is not None and interface["data"][0] == result.data_ptr()


def tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors in values, also in nested lists, tuples and dictionaries."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)
        elif isinstance(value, dict):
            yield from tensors_in(value.values())


def _checked(device: torch.device) -> torch.device:
    if device.type == "cuda" and device.index not in (None, 0):
        raise not_emulated(f"device {str(device)!r}", "there is one emulated device, cuda:0")
    return device


def _dlpack(tensor: torch.Tensor, **_kwargs: Any) -> Any:
    with torch._C.DisableTorchFunction():
        return cuda_capsule(torch.utils.dlpack.to_dlpack(tensor))


def _array_interface(tensor: torch.Tensor) -> dict[str, Any]:
    with torch._C.DisableTorchFunction():
        array = tensor.detach().numpy()
        return {**array.__array_interface__, "version": 3}


def _no_numpy(tensor: torch.Tensor, *, force: bool = False) -> Any:
    if force:
        with torch._C.DisableTorchFunction():
            return tensor.detach().clone().numpy()
    raise TypeError(
        "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
    )


_ATTRIBUTES: Final[dict[str, Callable[..., Any]]] = {
    "device": lambda tensor: DEVICE,
    "is_cuda": lambda tensor: True,
    "is_cpu": lambda tensor: False,
    "get_device": lambda tensor: 0,
    "is_pinned": lambda tensor, *_: False,
    "numpy": _no_numpy,
    "__cuda_array_interface__": _array_interface,
    "__dlpack__": _dlpack,
    "__dlpack_device__": lambda tensor: (torch.utils.dlpack.DLDeviceType.kDLCUDA, 0),
}
_FACTORIES: Final = default_device._device_constructors()
