"""The emulated device. `emulate` makes one current, and every launch inside runs on it."""

from __future__ import annotations

import ctypes
import os
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, get_args

from .. import chip, progress
from ..errors import EmulatorError, Fault, Incomplete, LaunchError, Level, same_cause
from ..machine.execution.scheduler import RunOptions
from ..machine.launch.globalmem import Allocation as GlobalAllocation
from ..machine.launch.launch import Diagnostics, Launch, LevelName, Numerics
from ..machine.order.completion import Completion
from ..machine.order.operations import Surroundings
from ..modules import LoadedKernel, LoadedModule, Runner, execute, load
from ..ptx.syntax import Kernel
from ..tensors import tensors_of_callers
from . import driver
from .allocations import Memory
from .driver import NotEmulated, entry, put
from .hostcode import HostCode
from .launchconfig import UNDERSTOOD, LaunchConfig, values_at
from .result import Failure, LaunchResult
from .tensormap import encode_im2col, encode_tiled

OPTIONS: Final = {
    "completion": get_args(Completion),
    "level": get_args(LevelName),
    "numerics": get_args(Numerics),
    "diagnostics": get_args(Diagnostics),
}
_MAJOR, _MINOR = chip.COMPUTE_CAPABILITY
_DEVICE_ATTRIBUTES: Final = {97: chip.MAX_SHARED_BYTES_A_CTA, 16: chip.SMS, 75: _MAJOR, 76: _MINOR}
_STATIC_SHARED_ATTRIBUTE: Final = 1
_INT, _SIZE = ctypes.c_int, ctypes.c_size_t
NO_MEMORY: Final = Memory()

Names = Callable[[str], Mapping[int, str]]
"""Maps a kernel's name in PTX to the names of its mbarriers, by byte offset in dynamic shared memory."""


def no_names(kernel: str) -> Mapping[int, str]:
    """Return no mbarrier names. Reports then number the mbarriers in order of initialisation."""
    return {}


_host_code: weakref.WeakKeyDictionary[Any, HostCode] = weakref.WeakKeyDictionary()
_libraries: list[LoadedModule] = []
_kernels: list[LoadedKernel] = []


@dataclass
class LaunchingDevice:
    """A device that runs each launch synchronously in this process, by its `runner`."""

    completion: Completion = "lazy"
    seed: int = 0
    budget: int | None = None
    level: LevelName = "fault"
    numerics: Numerics = "fp32"
    diagnostics: Diagnostics = "stop"
    processes: int | None = None
    names: Names = no_names
    baseline: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid option."""
        for option, allowed in OPTIONS.items():
            if getattr(self, option) not in allowed:
                raise ValueError(f"{option} is {getattr(self, option)!r}; allowed: {' or '.join(map(repr, allowed))}")
        if not isinstance(self.seed, int):
            raise ValueError(f"seed is {self.seed!r}; allowed: an integer")
        if self.budget is not None and (not isinstance(self.budget, int) or self.budget < 1):
            raise ValueError(f"budget is {self.budget!r}; allowed: None or a number of instructions from 1")
        if self.processes is not None and (not isinstance(self.processes, int) or self.processes < 1):
            raise ValueError(f"processes is {self.processes!r}; allowed: None or a number of processes from 1")
        self.runner: Runner = execute
        self.knows: Callable[[Fault], bool] = lambda _fault: False
        self.launches: list[LaunchResult] = []
        self.failures: list[Failure] = []
        """The errors that ended launches, also those that a program caught or saw only as a CUDA error."""
        self.nested = False
        """True if it was entered inside another device, as by a script under `run` or `time`."""
        self._failed: EmulatorError | None = None
        """The newest recorded error."""
        self.error: BaseException | None = None
        """The first error of an entry point that compiled code saw only as a CUDA error."""
        self._visible = NO_MEMORY
        self._loading: LoadedModule | None = None

    @contextmanager
    def calling(self, module: LoadedModule | None, visible: Memory = NO_MEMORY) -> Iterator[None]:
        """Set up this device for calls by a compiled CuTeDSL function while the context is open.

        visible: the memory that the function's arguments describe. An exception cannot pass through compiled code, so
        an exception of an entry point is stored and raised on leaving the context.
        """
        self._loading = module
        before, self._visible, self.error = self.error, visible, None
        try:
            yield
        finally:
            error, self.error, self._visible = self.error, before, NO_MEMORY
            if error is not None:
                raise error from None

    def call(self, compiled: Any, arguments: Sequence[Any], visible: Memory = NO_MEMORY) -> int:
        """Call a compiled CuTeDSL function with the addresses of its arguments and return its CUDA error code."""
        with self.calling(self.module_of(compiled), visible):
            code = _host_code.get(compiled)
            if code is None:
                code = _host_code[compiled] = HostCode(compiled)
            return code(list(arguments))

    def module_of(self, compiled: Any) -> LoadedModule | None:
        """Return the module of a compiled function that is called, None if it launches nothing."""
        try:
            return module_of(compiled)
        except EmulatorError as error:
            self.fail(error)
            raise

    def memory(self) -> Memory:
        """Return the memory that a launch may access now."""
        return self._visible

    def surroundings(self, kernel: LoadedKernel, config: LaunchConfig) -> Surroundings | None:
        """Return the operations concurrent with a launch that starts now; None if all happen before."""
        return self.surroundings_alone(kernel, config)

    def ended(self, launch: Launch, config: LaunchConfig) -> None:
        """Record a launch that has run to its end."""
        self.ended_alone(launch)

    def surroundings_alone(self, kernel: LoadedKernel, config: LaunchConfig) -> Surroundings | None:
        """Return the same without a host that knows streams."""
        return None

    def ended_alone(self, launch: Launch) -> None:
        """Do the same without a host that knows streams."""

    @entry("cudaLibraryLoadData")
    def load_library(self, library: int, *_: int) -> None:
        """Write a handle of the module of the function being called."""
        assert self._loading is not None
        _libraries.append(self._loading)
        put(library, _SIZE, len(_libraries))

    @entry("cudaLibraryGetKernel")
    def library_kernel(self, kernel: int, library: int, name: int) -> None:
        """Write a handle of a library's kernel."""
        put(kernel, _SIZE, self.handle(_libraries[library - 1], ctypes.string_at(name).decode()))

    def handle(self, module: LoadedModule, name: str) -> int:
        """Return a handle of a module's kernel. Raises KeyError if the module has none of that name."""
        module.kernel(name)
        _kernels.append(LoadedKernel(module, name))
        return len(_kernels)

    @entry("cuKernelGetAttribute")
    def kernel_attribute(self, value: int, attribute: int, kernel: int, _device: int) -> None:
        """Write a CUfunction_attribute. CuTeDSL's host code asks only for the bytes of static shared memory."""
        if attribute != _STATIC_SHARED_ATTRIBUTE:
            raise NotEmulated(
                f"CUfunction_attribute {attribute} is not emulated: "
                f"the only supported one is {_STATIC_SHARED_ATTRIBUTE} (static shared memory)"
            )
        put(value, _INT, self.kernel_of(kernel).syntax.static_shared_bytes - chip.RESERVED_SHARED_BYTES)

    @entry("cudaGetDevice")
    def device_number(self, ordinal: int) -> None:
        """Write the number of the only device."""
        put(ordinal, _INT, 0)

    @entry("cudaDeviceGetAttribute")
    def device_attribute(self, value: int, attribute: int, _device: int) -> None:
        """Write a cudaDeviceAttr, one of those that CuTeDSL's host code asks for."""
        if attribute not in _DEVICE_ATTRIBUTES:
            raise NotEmulated(f"cudaDeviceAttr {attribute} is not emulated: supported are {sorted(_DEVICE_ATTRIBUTES)}")
        put(value, _INT, _DEVICE_ATTRIBUTES[attribute])

    @entry("cudaFuncSetAttribute", "cudaKernelSetAttributeForDevice")
    def set_kernel_attribute(self, *_: int) -> None:
        """Ignore the attribute. Limits of shared memory and clusters are checked at launch."""

    def kernel_of(self, handle: int) -> LoadedKernel:
        """Return a kernel by its handle."""
        return _kernels[handle - 1]

    def parameter_bytes(self, kernel: int) -> list[int]:
        """Return the size in bytes of each parameter of a kernel."""
        return [param.size for param in self.kernel_of(kernel).syntax.params]

    def fail(self, error: BaseException, kernel: str = "", findings: Sequence[Fault] = ()) -> None:
        """Record an error of a launch, once. A rejected launch is no failure, because programs probe for limits."""
        if not isinstance(error, EmulatorError) or isinstance(error, LaunchError) or error is self._failed:
            return
        self._failed = error
        known = next((one for one in self.failures if same_cause(one.error, error)), None)
        if known is None:
            self.failures.append(Failure(error, kernel, tuple(findings), _test()))
        else:
            known.times += 1

    @entry("cudaLaunchKernelExC")
    def launch_with(self, config: int, kernel: int, arguments: int) -> None:
        """Run a kernel with the cudaLaunchConfig_t at an address."""
        self.launch(kernel, LaunchConfig.read(config), arguments)

    def launch(self, kernel: int, config: LaunchConfig, arguments: int) -> None:
        """Run a kernel to its end. Raises an EmulatorError for any fault found."""
        try:
            self._launch(kernel, config, arguments)
        except EmulatorError as error:
            self.fail(error, self.kernel_of(kernel).name)
            raise

    def _launch(self, kernel: int, config: LaunchConfig, arguments: int) -> None:
        for attribute in config.attributes:
            if attribute not in UNDERSTOOD:
                raise NotEmulated(f"launch attribute {attribute} is not emulated: supported are {sorted(UNDERSTOOD)}")
        loaded = self.kernel_of(kernel)
        syntax = loaded.syntax
        params, address = _parameters(syntax, arguments)
        cluster = config.cluster or syntax.reqnctapercluster or (1, 1, 1)
        seen = self.memory()
        launch = Launch(
            kernel=syntax,
            grid=config.grid,
            block=config.block,
            cluster=cluster,
            dynamic_shared_bytes=config.dynamic_shared_bytes,
            params=params,
            params_address=address,
            allocations=[(address, syntax.param_bytes, "parameters"), *loaded.module.allocations, *seen.allocations],
            constants=loaded.module.constants,
            closed=seen.closed,
            cooperative=config.cooperative,
            level=Level[self.level.upper()],
            numerics=self.numerics,
            diagnostics=self.diagnostics,
            names=self.names(loaded.name),
            surroundings=self.surroundings(loaded, config),
            knows=self.knows,
        )
        launch.memory.name_of, launch.memory.freed_at = _name_in_program, seen.freed_at
        started = time.perf_counter()
        found: Mapping[str, Any] = {}
        try:
            processes = self.processes if launch.surroundings is None else 1
            with progress.doing(f"launch {len(self.launches) + 1}: {loaded.name}, grid {config.grid}"):
                found = self.runner(launch, loaded, RunOptions(self.completion, self.seed, self.budget, processes))
        except Incomplete as left:
            self.fail(left, loaded.name)  # the launch has its results
        except EmulatorError as error:
            for fault in launch.findings:
                if not (isinstance(error, Fault) and (fault.what, fault.line) == (error.what, error.line)):
                    error.add_note(f"found before: {fault}")
            self.fail(error, loaded.name, launch.findings)
            raise
        self.ended(launch, config)
        self.launches.append(
            LaunchResult(
                loaded.name,
                config.grid,
                config.block,
                cluster,
                config.dynamic_shared_bytes,
                time.perf_counter() - started,
                launch.stats,
                tuple(launch.findings),
                loaded.module.ptx,
                _test(),
                written=frozenset(launch.memory.tracked),
                known=tuple(launch.known),
                **found,
            )
        )

    @entry("cuTensorMapEncodeTiled")
    def encode_tensor_map(self, destination: int, *fields: Any) -> None:
        """Write the 128 bytes of a tensor map, as cuTensorMapEncodeTiled does."""
        ctypes.memmove(destination, encode_tiled(*fields), 128)

    @entry("cuTensorMapEncodeIm2col")
    def encode_im2col_map(self, destination: int, *fields: Any) -> None:
        """Write the 128 bytes of a tensor map, as cuTensorMapEncodeIm2col does."""
        ctypes.memmove(destination, encode_im2col(*fields), 128)


def _test() -> str:
    """Return the running test under pytest, else an empty string."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]


def current_device() -> LaunchingDevice:
    """Return the innermost current device. Raises RuntimeError if there is none."""
    device = driver.current()
    if not isinstance(device, LaunchingDevice):
        raise RuntimeError("this function belongs to an emulated device that is no longer current")
    return device


def module_of(compiled: Any) -> LoadedModule | None:
    """Return the module of a compiled function, None if it launches nothing."""
    if not compiled.has_gpu_module:
        return None
    ptx = compiled.artifacts.PTX if compiled.artifacts is not None else None
    if ptx is None:
        raise NotEmulated(
            f"a launch of {compiled.function_name} is not emulated: it was compiled without keeping its PTX; "
            "import emulator before compiling, or set CUTE_DSL_KEEP=ptx"
        )
    return load(ptx)


def _name_in_program(allocation: GlobalAllocation) -> str:
    """Return the variable of the launching program that holds a tensor there, else the allocation's own name."""
    first, end = allocation.address, allocation.address + allocation.size
    inside = [tensor for tensor in tensors_of_callers().values() if first <= tensor.address < end]
    whole = next((tensor for tensor in inside if tensor.address == first), None)
    named = whole or next(iter(inside), None)
    return allocation.name if named is None else named.name


def _parameters(kernel: Kernel, arguments: int) -> tuple[object, int]:
    """Gather the arguments into the launch's parameter space; return its buffer and address."""
    buffer = ctypes.create_string_buffer(kernel.param_bytes + 128)
    address = -(-ctypes.addressof(buffer) // 128) * 128
    values = values_at(arguments, [param.size for param in kernel.params])
    for param, value in zip(kernel.params, values, strict=True):
        ctypes.memmove(address + param.offset, value, param.size)
    return buffer, address
