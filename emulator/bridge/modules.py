"""PTX modules on the device: parsed, with variables in memory; kernels are lowered at their first launch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

from ..errors import AssemblerError
from ..garbage import uncollected
from ..machine_code import Resources, resources
from ..program import Program
from ..ptx.parser import parse
from ..ptx.syntax import Kernel

if TYPE_CHECKING:
    from ..clock.chips import Chip
    from ..clock.registers import Registers
    from ..clock.skeleton import Skeleton


class LoadedModule:
    """A module and its variables."""

    def __init__(self, ptx: str) -> None:
        self.ptx = ptx
        with uncollected():  # garbage collection triples the time when torch and CuTeDSL are loaded
            self.syntax = parse(ptx)
        self._programs: dict[str, Program] = {}
        self._skeletons: dict[tuple[str, Chip], tuple[Skeleton, Program]] = {}
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

    def kernel(self, name: str) -> Kernel:
        """Return a kernel by name. Raises KeyError if there is none, PtxSyntaxError if it could not be parsed."""
        if name in self.syntax.rejected:
            raise self.syntax.rejected[name]
        return self.syntax.kernels[name]

    def program(self, name: str) -> Program:
        """Return a lowered kernel."""
        if name not in self._programs:
            with uncollected():
                self._programs[name] = Program(self.kernel(name), self.variables)
        return self._programs[name]

    @cached_property
    def _resources(self) -> dict[str, Resources]:
        """The resources of the kernels by name, as ptxas states them; empty if it is missing or rejects the module."""
        try:
            return resources(self.ptx, self.syntax.target)
        except AssemblerError:
            return {}

    def _registers(self, name: str, estimated: Callable[[], Registers]) -> Registers:
        """Return the registers of a kernel's thread: ptxas's, else an estimate."""
        from ..clock.registers import Registers

        asked = self._resources.get(name)
        return estimated() if asked is None else Registers(asked.registers, "by ptxas")

    def skeleton(self, name: str, chip: Chip) -> tuple[Skeleton, Program]:
        """Return the part of a kernel that a chip's clock executes, and its lowered program."""
        from ..clock.operations import find
        from ..clock.skeleton import skeleton

        if (name, chip) not in self._skeletons:
            left = skeleton(self.kernel(name), self.variables, chip)
            left = replace(left, registers=partial(self._registers, name, left.registers))
            self._skeletons[name, chip] = left, Program(left.kernel, self.variables, find)
        return self._skeletons[name, chip]


@lru_cache(maxsize=64)
def load(ptx: str) -> LoadedModule:
    """Return the module of a PTX text. Equal texts share one module."""
    return LoadedModule(ptx)


def _placed(size: int, align: int) -> tuple[object, int]:
    buffer = ctypes.create_string_buffer(size + align)
    return buffer, -(-ctypes.addressof(buffer) // align) * align
