"""PTX modules on the device: parsed, with variables in memory. Kernels are lowered at their first launch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from .garbage import uncollected
from .machine.execution.scheduler import RunOptions, run
from .machine.launch.launch import Launch
from .program import Program
from .ptx.parser import parse
from .ptx.syntax import Kernel


class LoadedModule:
    """A module and its variables."""

    def __init__(self, ptx: str) -> None:
        self.ptx = ptx
        with uncollected():  # garbage collection triples the time when torch and CuTeDSL are loaded
            self.syntax = parse(ptx)
        self._programs: dict[str, Program] = {}
        self.registry: dict[Any, Any] = {}
        """Data that users of the module keep with it, such as the clock's skeletons of its kernels."""
        self._memory = {v.name: _placed(v.size, v.align) for v in self.syntax.variables}
        self.initialise()

    def initialise(self) -> None:
        """Give every variable the value that it has in a module that was just loaded."""
        for one in self.syntax.variables:
            address = self.variables[one.name]
            ctypes.memset(address, 0, one.size)
            ctypes.memmove(address, one.initial, len(one.initial))
            for offset, name in one.references:
                ctypes.c_uint64.from_address(address + offset).value = self.variables[name]

    @cached_property
    def variables(self) -> dict[str, int]:
        """Host addresses of the module's variables, and stand-in addresses of its functions."""
        return self.syntax.functions | {name: address for name, (_, address) in self._memory.items()}

    @property
    def allocations(self) -> list[tuple[int, int, str]]:
        """Address, size in bytes and name of each variable."""
        return [(self.variables[v.name], v.size, v.name) for v in self.syntax.variables]

    @cached_property
    def constants(self) -> list[range]:
        """The addresses of each variable in constant memory."""
        return [range(at := self.variables[v.name], at + v.size) for v in self.syntax.variables if v.constant]

    def kernel(self, name: str) -> Kernel:
        """Find a kernel by name. Raises KeyError if there is none, PtxSyntaxError if it could not be parsed."""
        if name in self.syntax.rejected:
            raise self.syntax.rejected[name]
        return self.syntax.kernels[name]

    def program(self, name: str) -> Program:
        """Lower a kernel, at its first launch."""
        if name not in self._programs:
            with uncollected():
                self._programs[name] = Program(self.kernel(name), self.variables)
        return self._programs[name]


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel of a module, by its name."""

    module: LoadedModule
    name: str

    @property
    def syntax(self) -> Kernel:
        """The parsed kernel. Raises PtxSyntaxError if it could not be parsed."""
        return self.module.kernel(self.name)

    @property
    def program(self) -> Program:
        """The lowered kernel."""
        return self.module.program(self.name)


Runner = Callable[[Launch, LoadedKernel, RunOptions], Mapping[str, Any]]
"""Runs a launch and returns the fields of its result that it sets. A tool attaches to a device as its runner."""


def execute(launch: Launch, kernel: LoadedKernel, options: RunOptions) -> Mapping[str, Any]:
    """Run a launch without any tool."""
    run(launch, kernel.program, options)
    return {}


@lru_cache(maxsize=64)
def load(ptx: str) -> LoadedModule:
    """Load a PTX text. Equal texts share one module."""
    return LoadedModule(ptx)


def _placed(size: int, align: int) -> tuple[object, int]:
    buffer = ctypes.create_string_buffer(size + align)
    return buffer, -(-ctypes.addressof(buffer) // align) * align
