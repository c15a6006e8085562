"""Run C++ and CUDA executables: call their `main` in this process, with the emulated CUDA libraries."""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from ..bridge.callers import c_caller
from ..bridge.elf import LOAD, TLS, UNDEFINED, Symbol, dynamic, segments
from ..bridge.elf import symbols as symbols_of
from ..bridge.patches import ORIGINAL_ENVIRONMENT
from .c_hosts import runtime
from .c_library import FOLDER
from .copied_variables import copy_variables
from .errors import not_emulated
from .guard import ADDRESS_AT, CODE_AT, STACK_AT, Handler, handle
from .redirection import JUMP, jump

_SHARED, _X86_64 = 3, 62
_FLAGS_1, _PIE = 0x6FFFFFFB, 0x08000000
_CONSTRUCTORS, _CONSTRUCTORS_SIZE = 25, 27
"""Tags of the dynamic section."""
_THREAD_LOCAL: Final = 6
_STATIC_RUNTIME: Final = "libcudart_static_"
"""The prefix of symbols internal to NVIDIA's static runtime."""
_NO_CODE: Final = bytes(2)
"""The bytes that GNU's linker writes for a call of an unknown function with --unresolved-symbols=ignore-all."""
_TO_MAIN: Final = b"\x48\x8d\x3d"
"""`lea main(%rip), %rdi`, which the entry point executes before it calls __libc_start_main."""


def run_main(path: Path, arguments: Sequence[str], at_exit: Callable[[int], int]) -> int:
    """Call the executable's `main`, then end the process.

    `at_exit` gets the program's exit code, from `main` or exit(), and returns the exit code of this process. Raises
    NotEmulated for a program that cannot be loaded this way.
    """
    what, image = f"running {path}", bytearray(path.read_bytes())
    kind, machine = struct.unpack_from("<HH", image, 16)
    if (kind, machine) != (_SHARED, _X86_64):
        raise not_emulated(what, "only position-independent executables (-pie) for x86-64 can be loaded")
    if b"libcudart.so" not in image and b"libcuda.so" not in image:
        raise not_emulated(what, "it is linked to neither libcudart.so nor libcuda.so")
    symbols = list(symbols_of(image))
    local = [s for s in symbols if s.kind == _THREAD_LOCAL and s.section != UNDEFINED]
    own = [s.name for s in local if not s.name.startswith(_STATIC_RUNTIME)]
    if any(segment.kind == TLS for segment in segments(image)) and (own or not symbols):
        why = f"it has thread-local variables: {', '.join(own)}" if own else "it is stripped and has thread-local data"
        raise not_emulated(what, why)
    _leave_static_runtime(image, symbols)
    start = _main(image, symbols)
    tags = {tag: value for _, tag, value in dynamic(image)}
    for at, tag, value in dynamic(image):
        if tag == _FLAGS_1:  # without the flag the loader accepts it as a library
            struct.pack_into("<QQ", image, at, tag, value & ~_PIE)
        if tag == _CONSTRUCTORS_SIZE:  # they run when the variables that they use are copied
            struct.pack_into("<QQ", image, at, tag, 0)
    copy = FOLDER / path.name
    copy.write_bytes(image)
    program, libc = _load(copy), ctypes.CDLL(None)
    base = ctypes.c_uint64.from_address(program._handle).value
    ended = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(lambda code, _: _end(program, at_exit(code)))
    libc.on_exit(ended, None)
    main = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(base + start)
    copy_variables(program)
    crashed = Handler(lambda *given: _end(program, at_exit(_report_signal(path, *given))))
    for number in (signal.SIGSEGV, signal.SIGABRT):
        handle(number, crashed)
    argv = (ctypes.c_char_p * (len(arguments) + 2))(str(path).encode(), *(a.encode() for a in arguments), None)
    for i in range(tags.get(_CONSTRUCTORS_SIZE, 0) // 8):
        constructor = ctypes.c_uint64.from_address(base + tags[_CONSTRUCTORS] + 8 * i).value
        ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(constructor)(len(arguments) + 1, ctypes.addressof(argv))
    code = main(len(arguments) + 1, ctypes.addressof(argv))
    libc.exit(code)
    raise AssertionError("exit() came back")


def _load(path: Path) -> ctypes.CDLL:
    """Load a program. Start this process again with the library whose thread-local variables it uses, if there is one.

    std::call_once and std::async use libstdc++'s, whose addresses are valid if it is loaded at the
    start.
    """
    try:
        return ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    except OSError as error:
        library, _, why = str(error).partition(": ")
        loaded = os.environ.get("LD_PRELOAD", "")
        if "static TLS block" not in why or library in loaded:
            raise
    atexit._run_exitfuncs()  # removes the temporary folders
    os.execve(sys.executable, sys.orig_argv, ORIGINAL_ENVIRONMENT | {"LD_PRELOAD": f"{library} {loaded}".strip()})


def _report_signal(path: Path, number: int, info: int, context: int) -> int:
    """Print the place of a program that got a signal, and return the exit code."""
    address = ctypes.c_uint64.from_address(info + ADDRESS_AT).value
    code = ctypes.c_uint64.from_address(context + CODE_AT).value
    inner, why = list[int](), f", which accesses address {address:#x}"
    if number == signal.SIGABRT:
        why = ""
    elif not code or (code != address and ctypes.string_at(code, 2) == _NO_CODE):
        stack = ctypes.c_uint64.from_address(context + STACK_AT).value
        inner = [ctypes.c_uint64.from_address(stack).value]
        why = ", which calls a function that it was linked without: link the library that has it (cu...: -lcuda)"
    print(f"{path} ended with {signal.Signals(number).name} in {c_caller(inner)}{why}", file=sys.stderr)
    return 128 + number  # as a shell does


def _end(program: ctypes.CDLL, code: int) -> None:
    """End the process after the program's exit handlers, without those of other libraries."""
    libc = ctypes.CDLL(None)
    for stream in ("_ZSt4cout", "_ZSt4clog"):  # std::cout, which a library's exit handler would flush
        with suppress(AttributeError, ValueError):
            program._ZNSo5flushEv(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(program, stream))))
    libc.fflush(None)
    atexit._run_exitfuncs()  # Python's own shutdown is skipped; this removes the temporary folders
    libc._exit(code)


def _leave_static_runtime(image: bytearray, symbols: Sequence[Symbol]) -> None:
    """Redirect the functions of a statically linked CUDA runtime to the emulated runtime."""
    loaded = [segment for segment in segments(image) if segment.kind == LOAD]
    for symbol in symbols if any(s.name.startswith(_STATIC_RUNTIME) for s in symbols) else ():
        function = runtime().of_static_runtime(symbol.name)
        if function and symbol.address:
            home = next(s for s in loaded if s.address <= symbol.address < s.address + s.size)
            at = symbol.address - home.address + home.offset
            image[at : at + JUMP.size] = jump(function)


def _main(image: bytearray, symbols: Sequence[Symbol]) -> int:
    """Return the address of `main`, from its symbol or, if the program is stripped, from the entry point's code."""
    for symbol in symbols:
        if symbol.name == "main":
            return symbol.address
    entry: int = struct.unpack_from("<Q", image, 0x18)[0]
    at = image.find(_TO_MAIN, entry, entry + 64)
    if at < 0:
        raise not_emulated("this program", "it is stripped and its entry point does not show where `main` is")
    return at + 7 + int(struct.unpack_from("<i", image, at + 3)[0])
