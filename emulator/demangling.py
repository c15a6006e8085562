"""Names of C++ as the source has them."""

from __future__ import annotations

import ctypes
from functools import lru_cache


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


def parameters(name: str) -> list[str]:
    """Return the types of a mangled function's parameters; none if the symbol does not tell."""
    text = demangled(name).rstrip()
    if not text.endswith(")"):
        return []
    found, depth = [""], 0
    for letter in reversed(text):
        depth += (letter in ")>") - (letter in "(<")
        if not depth:
            break
        if letter == "," and depth == 1:
            found.append("")
        elif not (letter == ")" and depth == 1 and found == [""]):
            found[-1] = letter + found[-1]
    return [each.strip() for each in reversed(found)]
