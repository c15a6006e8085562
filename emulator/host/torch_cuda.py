"""The module torch.cuda on the emulated device."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NoReturn

import torch
from torch.profiler import ProfilerActivity, profiler

from ..patching import Patches
from .captures import Captures, Graph, new_handle
from .errors import not_emulated, unsupported
from .properties import PROPERTIES
from .streams import DEFAULT_STREAM, Current, Event, ExternalStream, Generator, Stream, StreamContext
from .tensors import EmulatedTensors, is_cuda_device

_EXTENSION: Final = "torch's C++ code sees CPU tensors; use tvm_ffi.cpp.load_inline for the same kernels"

_NVTX: Final = ("range_push", "range_pop", "mark", "range_start", "range_end")
_NO_MEMORY_COUNTED: Final = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")


class DeviceContext:
    """torch.cuda.device(...). There is one device, so entering it changes nothing."""

    def __init__(self, device: Any) -> None:
        _check(device)

    def __enter__(self) -> None: ...

    def __exit__(self, *_error: object) -> None: ...


class CUDAGraph:
    """torch.cuda.CUDAGraph."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._graph = Graph()

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        Current.captures.begin(Current.stream.cuda_stream)

    def capture_end(self) -> None:
        self._graph = Current.captures.end(Current.stream.cuda_stream) or Graph()

    def replay(self) -> None:
        stream = Current.stream.cuda_stream
        Current.captures.submit(stream, lambda: self._graph.replay(Current.captures.order, stream))

    def reset(self) -> None:
        self._graph = Graph()

    def pool(self) -> tuple[int, int]:
        return (0, self._graph.handle)


class graph:
    """torch.cuda.graph(cuda_graph, pool, stream): capture on `stream`, or on a new stream."""

    def __init__(
        self, cuda_graph: Any, pool: Any = None, stream: Stream | None = None, capture_error_mode: str = "global"
    ) -> None:
        self._graph, self._stream = cuda_graph, stream or Stream()

    def __enter__(self) -> None:
        Current.captures.synchronize()  # as torch does
        self._stream.__enter__()
        self._graph.capture_begin()

    def __exit__(self, *error: object) -> None:
        try:
            self._graph.capture_end()
        finally:
            self._stream.__exit__(*error)


def install(patches: Patches, captures: Captures, tensors: EmulatedTensors) -> None:
    """Make torch.cuda report the emulated device. Functions that are not replaced raise NotEmulated when called."""
    patches.update(torch.cuda, _functions(captures))
    patches.update(torch.cuda.nvtx, dict.fromkeys(_NVTX, _nothing))
    patches.set(torch, "Generator", Generator)
    patches.set(Current, "captures", captures)
    # torch checks the stream's type before any mode sees the call
    patches.set(torch.Tensor, "record_stream", lambda tensor, stream: tensors.record_stream(tensor, stream))
    version = PROPERTIES.runtime_version
    patches.set(torch.version, "cuda", f"{version // 1000}.{version % 1000 // 10}")
    extensions = partial(
        patches.set, name="_join_cuda_home", value=unsupported("an extension of torch in CUDA", _EXTENSION)
    )
    patches.when_imported("torch.utils.cpp_extension", extensions)
    patches.set(torch._C, "_cuda_getCurrentRawStream", lambda device: Current.stream.cuda_stream)
    patches.wrap(profiler, "_parse_activities", _on_cpu)


def _functions(captures: Captures) -> dict[str, Any]:
    """Make the names of torch.cuda that are replaced."""

    def about(answer: Any) -> Callable[..., Any]:
        def ask(device: Any = None) -> Any:
            _check(device)
            return answer

        return ask

    def synchronize(device: Any = None) -> None:
        _check(device)
        captures.synchronize()

    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": _nothing,
        "_lazy_init": _reject_caller,
        "_lazy_call": lambda callback, **_: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": about(None),
        "device": DeviceContext,
        "get_device_capability": about((PROPERTIES.major, PROPERTIES.minor)),
        "get_device_name": about(PROPERTIES.name),
        "get_device_properties": about(PROPERTIES),
        "get_arch_list": lambda: [f"sm_{PROPERTIES.major}{PROPERTIES.minor}a"],
        "is_bf16_supported": lambda including_emulation=True: True,
        "can_device_access_peer": lambda device, peer: False,
        "synchronize": synchronize,
        "Stream": Stream,
        "ExternalStream": ExternalStream,
        "Event": Event,
        "stream": StreamContext,
        "StreamContext": StreamContext,
        "current_stream": lambda device=None: Current.stream,
        "default_stream": lambda device=None: DEFAULT_STREAM,
        "set_stream": lambda stream: setattr(Current, "stream", stream),
        "CUDAGraph": CUDAGraph,
        "graph": graph,
        "graph_pool_handle": lambda: (0, new_handle()),
        "is_current_stream_capturing": lambda: captures.capturing(Current.stream.cuda_stream),
        "make_graphed_callables": unsupported("torch.cuda.make_graphed_callables", "use torch.cuda.graph"),
        "empty_cache": lambda: gc.collect() and None,
        "mem_get_info": lambda device=None: (PROPERTIES.total_memory, PROPERTIES.total_memory),
        **{name: lambda device=None: 0 for name in _NO_MEMORY_COUNTED},
        **dict.fromkeys(("reset_peak_memory_stats", "reset_max_memory_allocated", "ipc_collect"), _nothing),
        # A function each: torch._dynamo has other rules for manual_seed than for seed, and keys them by the function.
        **{name: lambda seed=0: None for name in ("manual_seed", "manual_seed_all", "seed", "seed_all")},
        "get_rng_state": lambda device=None: torch.random.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.random.set_rng_state(state),
    }


def _on_cpu(parse: Callable[..., Any]) -> Callable[..., Any]:
    """Return torch.profiler's parser of `activities` with CUDA replaced by CPU, where the device's work is done."""

    def activities(asked: Any) -> Any:
        found, filters = parse(asked)
        return {ProfilerActivity.CPU if a is ProfilerActivity.CUDA else a for a in found}, filters

    return activities


def _check(device: Any) -> None:
    if isinstance(device, int | str | torch.device) and not is_cuda_device(device):
        raise ValueError(f"device: expected a cuda device, got {device!r}; cuda:0 is the only one")


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    return None


def _reject_caller() -> NoReturn:
    caller = sys._getframe(1).f_code
    raise not_emulated(f"torch.cuda's {caller.co_qualname}", "it needs a CUDA driver")
