"""Names of kernels and other symbols as the source has them."""

from __future__ import annotations

import ctypes
from functools import lru_cache

from ...ptx.syntax import Kernel
from .source import functions


def kernel_name(kernel: Kernel) -> str:
    """Return the source's name of a kernel: CuTeDSL and C++ add the parameters' types to it."""
    names = (each.name for file in kernel.files for each in functions(file))
    matching = [name for name in names if kernel.name.startswith(f"kernel_cutlass_{name.rpartition('.')[2]}_")]
    return max(matching, key=len, default=demangled(kernel.name))


@lru_cache(maxsize=1024)
def demangled(name: str) -> str:
    """Return the C++ function or variable that a symbol names; the symbol itself if it is no mangled one."""
    if not name.startswith("_Z"):
        return name
    try:
        library = ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return name
    library.__cxa_demangle.restype = ctypes.c_void_p
    text = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(ctypes.c_int()))
    if not text:
        return name
    found = ctypes.string_at(text).decode()
    ctypes.CDLL(None).free(ctypes.c_void_p(text))
    return found
