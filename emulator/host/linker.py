"""libnvJitLink.so, the linker of device code, which returns PTX where it is asked for machine code.

PTX is returned as it is, with the functions of device_runtime.ptx if it is linked to CUDA's device runtime. Link-time
intermediate code is linked to PTX by NVIDIA's own library.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from ..bridge.driver import put
from .c_library import LONG, UINT, CLibrary, entry
from .captures import new_handle
from .errors import CudaError, not_emulated

_PTX, _INTERMEDIATE = 2, 3
"""Values of nvJitLinkInputType."""
_DEVICE_RUNTIME = Path(__file__).with_name("device_runtime.ptx")
_DECLARED = re.compile(rb"\.extern\s+\.func[^;{]*\bcudaCG(?:GetIntrinsicHandle|Synchronize)\b[^;{]*;")
_HEADER = re.compile(rb"\.address_size\s+64")


@dataclass
class _Link:
    """The options and the modules of one linker: kind and content of each. log: the messages of NVIDIA's library."""

    options: list[bytes]
    modules: list[tuple[int, bytes]] = field(default_factory=list)
    code: bytes = b""
    log: bytes = b"\0"

    def complete(self) -> None:
        """Make the code. Raises NotEmulated for modules that cannot be linked to PTX, CudaError if they have errors."""
        modules = [each for each in self.modules if not _is_device_runtime(each[1])]
        kinds = {kind for kind, _ in modules}
        if kinds == {_PTX} and len(modules) == 1:
            code = modules[0][1].rstrip(b"\0") + b"\0"
        elif kinds == {_INTERMEDIATE}:
            code = self._linked_by_nvidia(_library(), modules)
        else:
            what = f"linking {len(self.modules)} modules of device code to machine code"
            raise not_emulated(what, "link one module of PTX, or any number with link-time optimisation (-lto)")
        self.code = code if modules == self.modules else _with_device_runtime(code)

    def _linked_by_nvidia(self, library: ctypes.CDLL, modules: Sequence[tuple[int, bytes]]) -> bytes:
        handle, size = ctypes.c_void_p(), ctypes.c_size_t()
        options = [*(option for option in self.options if option not in (b"-lto", b"-ptx")), b"-lto", b"-ptx"]
        given = (ctypes.c_char_p * len(options))(*options)
        error = library.nvJitLinkCreate(ctypes.byref(handle), len(options), given)
        for kind, content in modules:
            error = error or library.nvJitLinkAddData(handle, kind, content, ctypes.c_size_t(len(content)), b"module")
        error = error or library.nvJitLinkComplete(handle)
        if error:
            self.log = _text(library, "ErrorLog", handle, size)
            raise CudaError(error)
        return _text(library, "LinkedPtx", handle, size)


def _is_device_runtime(content: bytes) -> bool:
    return content.startswith(b"!<arch>") and b"cuda_device_runtime.o" in content[:4096]


def _with_device_runtime(ptx: bytes) -> bytes:
    """Define the functions that synchronise a grid in place of their declarations."""
    return _HEADER.sub(lambda found: found[0] + b"\n" + _DEVICE_RUNTIME.read_bytes(), _DECLARED.sub(b"", ptx), count=1)


def _text(library: ctypes.CDLL, name: str, handle: ctypes.c_void_p, size: ctypes.c_size_t) -> bytes:
    library[f"nvJitLinkGet{name}Size"](handle, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value + 1)
    library[f"nvJitLinkGet{name}"](handle, text)
    return text.value + b"\0"


def _library() -> ctypes.CDLL:
    """Return NVIDIA's library, by its path: the emulated one has its name. Raises NotEmulated if there is none."""
    path = max(_libraries(), default=None)
    if path is None:
        raise not_emulated("linking intermediate code", "there is no libnvJitLink.so: install nvidia-nvjitlink")
    return ctypes.CDLL(str(path))


def _libraries() -> Iterator[Path]:
    spec = find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec else ():
        yield from Path(folder).glob("*/lib/libnvJitLink.so.*")
    yield from Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "lib64").glob("libnvJitLink.so.*")


class LibNvJitLink(CLibrary):
    """The linker library."""

    sonames = ("libnvJitLink.so.13", "libnvJitLink.so.12")
    quiet = ("nvJitLinkGetInfoLog",)
    answers: ClassVar = {
        "nvJitLinkVersion": ((0, UINT, 13), (1, UINT, 0)),
        "nvJitLinkGetInfoLogSize": ((1, LONG, 0),),
    }

    def __init__(self) -> None:
        self._links: dict[int, _Link] = {}
        super().__init__()

    @entry("nvJitLinkCreate")
    def create(self, handle: int, count: int, options: int) -> None:
        given = (LONG.from_address(options + 8 * i).value for i in range(count))
        made = new_handle()
        self._links[made] = _Link([ctypes.string_at(option) for option in given])
        put(handle, LONG, made)

    @entry("nvJitLinkDestroy")
    def destroy(self, handle: int) -> None:
        self._links.pop(LONG.from_address(handle).value, None)

    @entry("nvJitLinkAddData")
    def add(self, handle: int, kind: int, data: int, size: int) -> None:
        self._links[handle].modules.append((kind, ctypes.string_at(data, size)))

    @entry("nvJitLinkAddFile")
    def add_file(self, handle: int, kind: int, name: int) -> None:
        self._links[handle].modules.append((kind, Path(ctypes.string_at(name).decode()).read_bytes()))

    @entry("nvJitLinkComplete")
    def complete(self, handle: int) -> None:
        self._links[handle].complete()

    @entry("nvJitLinkGetLinkedCubinSize", "nvJitLinkGetLinkedPtxSize")
    def size(self, handle: int, size: int) -> None:
        put(size, LONG, len(self._links[handle].code))

    @entry("nvJitLinkGetLinkedCubin", "nvJitLinkGetLinkedPtx")
    def linked(self, handle: int, code: int) -> None:
        ctypes.memmove(code, self._links[handle].code, len(self._links[handle].code))

    @entry("nvJitLinkGetErrorLogSize")
    def log_size(self, handle: int, size: int) -> None:
        put(size, LONG, len(self._links[handle].log))

    @entry("nvJitLinkGetErrorLog")
    def log(self, handle: int, log: int) -> None:
        ctypes.memmove(log, self._links[handle].log, len(self._links[handle].log))
