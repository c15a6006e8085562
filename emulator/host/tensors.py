"""torch tensors on the emulated device: CPU tensors with a mark that report the device cuda:0."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils import _device as default_device

from ..bridge.ffi import cuda_capsule
from .captures import Captures
from .errors import not_emulated
from .memory import POISON, Allocations
from .scaled_matmul import is_block_scaled, scaled_grouped_mm, scaled_mm
from .streams import DEVICE, Current

CPU: Final = torch.device("cpu")
_MARK: Final = "_on_emulated_device"
_PLAIN: Final = (torch.Tensor, torch.nn.Parameter)
_UNINITIALIZED: Final = frozenset(
    {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
)
_TO_THE_HOST: Final = frozenset({"to", "cpu", "copy_"})
_READS_VALUES: Final = frozenset(
    {"item", "tolist", "is_nonzero", "equal", "nonzero", "unique", "masked_select"}
    | {"__bool__", "__int__", "__float__", "__complex__", "__index__", "__repr__", "__format__", "__contains__"}
)
"""Functions that synchronise with the device because the host needs a tensor's values."""
_ALIASING: Final = frozenset({"to", "cuda", "cpu", "as_tensor", "asarray"})


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

    def __init__(self, memory: Allocations, captures: Captures) -> None:
        super().__init__()
        self._memory = memory
        self._captures = captures
        self.dispatching: AbstractContextManager[Any] = nullcontext()
        """The dispatch mode that selects kernels for operators on the device's tensors."""

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

        if name == "__set__" and len(inputs) == 2:  # parameter.data = tensor
            mark(args[0], is_emulated(args[1]))
            return func(*args, **kwargs)

        if name == "cuda":
            func = torch.Tensor.cpu
        pinned = name == "pin_memory" or bool(kwargs.get("pin_memory"))
        if name == "pin_memory":
            func, args, kwargs = torch.Tensor.clone, args[:1], {}
        if name == "_scaled_mm" and is_block_scaled(_argument(args, kwargs, 2, "scale_a")):
            func = scaled_mm
        if name == "_scaled_grouped_mm_v2":
            func = scaled_grouped_mm
        target, args, kwargs = _target(name, func, args, kwargs, bool(emulated))
        if emulated and _synchronizes(name, args, kwargs, target):
            self._captures.synchronize(Current.stream.cuda_stream)
        captured = target and self._captures.capturing(Current.stream.cuda_stream)
        before = _Contents(emulated) if captured else None
        try:
            with self.dispatching if emulated and target else nullcontext():
                result = func(*args, **kwargs)
        except NotImplementedError as error:
            if not target:
                raise
            raise not_emulated(f"torch's {name} on the device", "torch has no CPU kernel for it") from error
        result = self._place(name, args, result, inputs, target)
        if pinned:
            self._move_to_device_memory(result, [])
        if before is not None:
            before.restore()
            if name not in _UNINITIALIZED:
                self._captures.submit(Current.stream.cuda_stream, _replay_of(func, args, kwargs, result, inputs))
        return result

    def _place(self, name: str, args: tuple[Any, ...], result: Any, inputs: list[torch.Tensor], target: bool) -> Any:
        """Place a result on its device. Inputs that are returned (in-place operations, `out=`) stay on theirs."""
        if name in _ALIASING and isinstance(result, torch.Tensor):
            source = args[0] if args else None
            crossed = is_emulated(source) != target
            if crossed and _shares_memory(result, source):
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

    def _move_to_device_memory(self, tensor: torch.Tensor, inputs: list[torch.Tensor], unwritten: bool = False) -> None:
        """Move a new tensor's memory to device memory, and poison it if the tensor is uninitialised."""
        if type(tensor) not in _PLAIN or tensor.device != CPU:
            return
        if not torch._C._has_storage(tensor) or _in_device_memory(tensor):
            return
        storage = tensor.untyped_storage()
        if storage.nbytes() == 0 or any(_shares_memory(tensor, other) for other in inputs):
            return
        home = self._memory.storage(storage.nbytes())
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


def _replay_of(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, inputs: list[torch.Tensor]
) -> Callable[[], None]:
    """Return the work that a graph replays: the operator on the same arguments, into the first results' memory."""

    def work() -> None:
        with torch._C.DisableTorchFunction(), torch.inference_mode():
            for old, new in zip(tensors_in((result,)), tensors_in((func(*args, **kwargs),)), strict=True):
                if not any(_shares_memory(new, tensor) for tensor in inputs):
                    old.detach().copy_(new)

    return work


def _synchronizes(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], target: bool) -> bool:
    """Return True if this operation on the device's tensors synchronises the host with the stream."""
    if name in _READS_VALUES:
        return True
    arrives = is_emulated(args[0]) if name == "copy_" else target
    return (
        name in _TO_THE_HOST
        and not arrives
        and not kwargs.get("non_blocking")
        and all(value is not True for value in args[2:])
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


def _shares_memory(result: torch.Tensor, source: object) -> bool:
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
