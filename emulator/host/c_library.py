"""CUDA's libraries for C code: generated shared libraries whose functions are implemented in Python.

A library stays loaded until the process ends, because programs linked to it do. Each session provides its state.
C++ destructors may call a library after Python has shut down. From then on each function returns 0 and does nothing.
"""

from __future__ import annotations

import atexit
import ctypes
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, Final

from ..bridge.callers import PROGRAMS
from ..bridge.driver import callback, code_of, is_sticky, put
from ..bridge.prototypes import Prototype, prototype
from ..bridge.sharedobject import RETURN_ZERO, TABLE, shared_object
from ..errors import EmulatorError
from .errors import NO_DEVICE, CudaError
from .properties import PROPERTIES
from .state import DriverState

INT, UINT, LONG, FLOAT = ctypes.c_int, ctypes.c_uint, ctypes.c_uint64, ctypes.c_float
_folder = tempfile.TemporaryDirectory(prefix=PROGRAMS)
FOLDER: Final = Path(_folder.name)
"""The folder of the libraries, for linkers and for programs that open them by path."""

_RELEASES: Final = re.compile("Free|Destroy|Release|Unload|Unregister")

Function = Callable[..., Any]


@dataclass(frozen=True)
class _Entry:
    names: tuple[str, ...]
    always: bool


def entry(*names: str, always: bool = False) -> Callable[[Function], Function]:
    """Mark a method as the implementation of the C functions of these names.

    The method gets as many of the first arguments as it has parameters, and raises CudaError to return an error code.
    It returns the C function's result, or None for 0. always: the functions also work outside of a session.
    """

    def mark(function: Function) -> Function:
        function.__dict__["c_entry"] = _Entry(names, always)
        return function

    return mark


class CLibrary:
    """One emulated library.

    sonames: the names that programs link to. quiet: functions that return 0 and do nothing. answers: functions that
    write known values. For each: the output parameter's position, its C type and the value, or a property's name.
    """

    sonames: tuple[str, ...] = ()
    versioned = False
    quiet: tuple[str, ...] = ()
    answers: ClassVar[Mapping[str, Sequence[tuple[int, Any, int | str]]]] = {}

    def __init__(self) -> None:
        self.state: DriverState | None = None
        self.methods: dict[str, Function] = {}
        self.calls: dict[str, Callable[..., int | None]] = {}
        """The functions for callers in Python."""
        quiet = Prototype(INT, ())
        self.functions = {name: callback(self._checked(lambda: None, _outside(name)), quiet) for name in self.quiet}
        for name, outputs in self.answers.items():
            self._add(name, partial(self._answer, outputs))
        for method in vars(type(self)).values():
            if (found := getattr(method, "c_entry", None)) is not None:
                for name in found.names:
                    self._add(name, method.__get__(self), found.always)
        self._add_more()
        self._loaded = [self._load(soname) for soname in self.sonames]

    def _add_more(self) -> None:
        """Add functions that are not methods of this class."""

    def address(self, name: str) -> int:
        """Return the address of a function, 0 if the library has none of that name."""
        return _address(self._loaded[0][name]) if name in self.functions else 0

    @property
    def session(self) -> DriverState:
        """The state of the open session."""
        assert self.state is not None
        return self.state

    def record_error(self, error: int) -> None:
        """Record the error code of a failed call, in a library that remembers the last one."""

    def _answer(self, outputs: Sequence[tuple[int, Any, int | str]], *arguments: int) -> None:
        for at, kind, value in outputs:
            put(arguments[at], kind, getattr(PROPERTIES, value) if isinstance(value, str) else value)

    def _add(self, name: str, method: Function, always: bool = False) -> None:
        self.methods[name] = method
        self.calls[name] = self._checked(method, None if always else _outside(name))
        self.functions[name] = callback(self.calls[name], prototype(name))

    def _checked(self, method: Function, outside: int | None) -> Callable[..., int | None]:
        """Make a function of a method. outside: what it returns outside of a session, None if it works there."""
        taken = parameter_count(method)

        def call(*arguments: Any) -> int | None:
            if self.state is None and outside is not None:
                return outside
            if self.state is not None and self.state.sticky_error and outside is not None:
                return self.state.sticky_error
            try:
                with nullcontext() if self.state is None else self.state.guard.inside():
                    result: int | None = method(*arguments[:taken])
            except CudaError as error:
                self.record_error(error.code)
                return error.code
            except EmulatorError as error:
                self.record_error(code_of(error))
                if self.state is not None and is_sticky(error):
                    self.state.sticky_error = code_of(error)
                raise
            return result

        return call

    def _load(self, soname: str) -> ctypes.CDLL:
        path = FOLDER / soname
        path.write_bytes(shared_object(soname, list(self.functions), soname if self.versioned else ""))
        library = ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
        table = (ctypes.c_size_t * len(self.functions)).in_dll(library, TABLE)
        table[:] = [_address(function) for function in self.functions.values()]
        atexit.register(_fill, table, _address(library[RETURN_ZERO]))
        return library


def _outside(name: str) -> int:
    """Return the result of a function outside of a session. What the session held is released with it."""
    return 0 if _RELEASES.search(name) else NO_DEVICE


def parameter_count(method: Function) -> int | None:
    """Count the positional parameters of a method; None for any number."""
    parameters = [p for p in signature(method).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    return None if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(parameters)


def _fill(table: ctypes.Array[ctypes.c_size_t], function: int) -> None:
    table[:] = [function] * len(table)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
