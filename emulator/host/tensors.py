"""torch tensors on the emulated device: ordinary CPU tensors that carry a mark and answer as cuda:0."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils import _device as default_device

from .captures import Captures
from .memory import POISON, Allocations
from .refusal import not_emulated
from .scaled_matmul import is_block_scaled, scaled_grouped_mm, scaled_mm
from .streams import DEVICE, Current

CPU: Final = torch.device("cpu")
_MARK: Final = "_on_emulated_device"
_DL_CUDA: Final = 2
_PLAIN: Final = (torch.Tensor, torch.nn.Parameter)
_UNWRITTEN: Final = frozenset(
    {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
)
_TO_THE_HOST: Final = frozenset({"to", "cpu", "copy_"})
_NEEDING_VALUES: Final = frozenset(
    {"item", "tolist", "is_nonzero", "equal", "nonzero", "unique", "masked_select"}
    | {"__bool__", "__int__", "__float__", "__complex__", "__index__", "__repr__", "__format__", "__contains__"}
)
"""What waits for the device, since the host needs what a tensor holds."""
_ALIASING: Final = frozenset({"to", "cuda", "cpu", "as_tensor", "asarray"})


def is_emulated(value: object) -> bool:
    """Whether `value` is a tensor that lives on the emulated device.

    Its storage carries the mark too, which torch keeps with it: autograd makes new objects of tensors that it saved.
    """
    if not isinstance(value, torch.Tensor):
        return False
    return _MARK in value.__dict__ or (type(value) in _PLAIN and _in_device_memory(value))


def _in_device_memory(tensor: torch.Tensor) -> bool:
    with torch._C.DisableTorchFunction():
        return torch._C._has_storage(tensor) and hasattr(tensor.untyped_storage(), _MARK)


def mark(value: Any, emulated: bool) -> None:
    """Put every tensor in `value` (nested lists and tuples) on the emulated device, or take it off."""
    for tensor in tensors_in((value,)):
        if emulated:
            setattr(tensor, _MARK, True)
        else:
            tensor.__dict__.pop(_MARK, None)


def is_cuda_device(device: object) -> bool:
    """Whether a device argument (str, torch.device, int, or None) names the emulated device."""
    if isinstance(device, bool) or device is None:
        return False
    if isinstance(device, int):
        return _known(torch.device("cuda", device)).type == "cuda"
    if isinstance(device, str | torch.device):
        return _known(torch.device(device)).type == "cuda"
    return False


def cuda_capsule(capsule: Any) -> Any:
    """Rewrite the device of an unversioned DLPack capsule in place to (CUDA, 0). The memory stays where it is."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    device = ctypes.cast(get(capsule, b"dltensor") + 8, ctypes.POINTER(ctypes.c_int32))
    device[0], device[1] = _DL_CUDA, 0
    return capsule


class EmulatedTensors(TorchFunctionMode):
    """While active, torch's `cuda` device is CPU memory: arguments that name it allocate there, results of
    operations on its tensors stay there, and those tensors answer `.device`, `.is_cuda` and DLPack as on cuda:0.

    A copy between the devices copies, as on hardware, so later writes on one side are not seen on the other.
    """

    def __init__(self, memory: Allocations, captures: Captures) -> None:
        super().__init__()
        self._memory = memory
        self._captures = captures
        self.dispatching: AbstractContextManager[Any] = nullcontext()
        """What decides which kernel an operator on the device's tensors has."""

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that torch calls with its function modes off, with this one on."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if self in _get_current_function_mode_stack():  # type: ignore[no-untyped-call]
                return function(*args, **kwargs)
            with self:
                return function(*args, **kwargs)

        return call

    def adopt(self, values: Iterable[Any]) -> None:
        """Put the tensors among (nested) values, which no function seen here made, on the emulated device."""
        with torch._C.DisableTorchFunction():
            for tensor in tensors_in(values):
                mark(tensor, True)
                self._settle(tensor, [])

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = _name(func)
        inputs = list(tensors_in((args, kwargs)))
        emulated = [tensor for tensor in inputs if is_emulated(tensor)]
        if emulated and name in _ANSWERS and is_emulated(args[0]):
            return _ANSWERS[name](*args, **kwargs)

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
        if emulated and _waits(name, args, kwargs, target):
            self._captures.synchronize(Current.stream.cuda_stream)
        captured = target and self._captures.capturing(Current.stream.cuda_stream)
        before = _Contents(emulated) if captured else None
        try:
            with self.dispatching if emulated and target else nullcontext():
                result = func(*args, **kwargs)
        except NotImplementedError as error:
            if not target:
                raise
            raise not_emulated(f"torch's {name} on the device", "torch has no kernel of it for the CPU") from error
        result = self._place(name, args, result, inputs, target)
        if pinned:
            self._settle(result, [])
        if before is not None:
            before.restore()
            if name not in _UNWRITTEN:
                self._captures.submit(Current.stream.cuda_stream, _again(func, args, kwargs, result, inputs))
        return result

    def _place(self, name: str, args: tuple[Any, ...], result: Any, inputs: list[torch.Tensor], target: bool) -> Any:
        """Put a result on its side. Inputs that come back (in-place operations, `out=`) keep the side they are on."""
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
                    self._settle(tensor, inputs, name in _UNWRITTEN and not _fills_what_is_unwritten())
        return result

    def _settle(self, tensor: torch.Tensor, inputs: list[torch.Tensor], unwritten: bool = False) -> None:
        """Move a new tensor's memory into the device's; poison it there if nothing has been written to it."""
        if type(tensor) not in _PLAIN or tensor.device != CPU:
            return
        if not torch._C._has_storage(tensor) or _in_device_memory(tensor):
            return
        storage = tensor.untyped_storage()
        if storage.nbytes() == 0 or any(_shares_memory(tensor, other) for other in inputs):
            return
        home = self._memory.storage(storage.nbytes())
        if _MARK in tensor.__dict__:  # pinned memory is the CPU's
            setattr(home, _MARK, True)
        if unwritten:
            ctypes.memset(home.data_ptr(), POISON, home.nbytes())
        else:
            home.copy_(storage)
        moved = torch.empty(0, dtype=tensor.dtype, device=CPU)
        tensor.data = moved.set_(home, tensor.storage_offset(), tensor.size(), tensor.stride())


def _fills_what_is_unwritten() -> bool:
    """Whether torch itself writes to new memory, as programs may ask for."""
    asked: bool = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    return asked and torch.are_deterministic_algorithms_enabled()


class _Contents:
    """What tensors hold, to undo what an operator does to them while it is captured only."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        with torch._C.DisableTorchFunction(), torch.inference_mode():
            self._held = [(tensor, _version(tensor), tensor.detach().clone()) for tensor in tensors]

    def restore(self) -> None:
        """Write it back where something else is now."""
        with torch._C.DisableTorchFunction(), torch.inference_mode():
            for tensor, version, content in self._held:
                if version is None or _version(tensor) != version:
                    tensor.detach().copy_(content)


def _version(tensor: torch.Tensor) -> int | None:
    """How often a tensor was written; None for those of inference mode, which do not count it."""
    return None if tensor.is_inference() else tensor._version


def _again(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, inputs: list[torch.Tensor]
) -> Callable[[], None]:
    """The operator as a graph does it: with the same arguments, into the memory of its first results."""

    def work() -> None:
        with torch._C.DisableTorchFunction(), torch.inference_mode():
            for old, new in zip(tensors_in((result,)), tensors_in((func(*args, **kwargs),)), strict=True):
                if not any(_shares_memory(new, tensor) for tensor in inputs):
                    old.detach().copy_(new)

    return work


def _waits(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], target: bool) -> bool:
    """Whether the host waits for the stream in this operation on the device's tensors."""
    if name in _NEEDING_VALUES:
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
    """Where the result belongs, and the arguments with every name of the emulated device made `cpu`."""
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
    """DeviceContext.__torch_function__, which must not name the emulated device to torch itself.

    `with torch.device(...)` puts the context above EmulatedTensors, which then sees the name and acts on it;
    a default device stands below it, where the tensor is already marked and only its memory is asked for.
    """
    kwargs = dict(kwargs or {})
    if func in _FACTORIES and kwargs.get("device") is None:
        modes = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
        seen = any(isinstance(mode, EmulatedTensors) for mode in modes)
        kwargs["device"] = CPU if is_cuda_device(context.device) and not seen else context.device
    return func(*args, **kwargs)


def _name(func: Callable[..., Any]) -> str:
    """The name of a torch function; of a property for its getter."""
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
    """The tensors among values, in nested lists, tuples and dictionaries too."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)
        elif isinstance(value, dict):
            yield from tensors_in(value.values())


def _known(device: torch.device) -> torch.device:
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


_ANSWERS: Final[dict[str, Callable[..., Any]]] = {
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
