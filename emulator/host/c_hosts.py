"""The emulated CUDA libraries and the ptxas stand-in that C programs and compilers find during a session."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from ..chip import COMPUTE_CAPABILITY, DEVICE
from .c_library import FOLDER, CLibrary
from .libcublas import LibCublas
from .libcuda import LibCuda
from .libcudart import LibCudart
from .patching import environment
from .state import DriverState

_PTXAS: Final = """\
#!/bin/sh
# A stand-in for ptxas that copies the PTX unchanged. The emulated device's driver loads PTX.
to=elf.o from=
while [ $# -gt 0 ]; do
    case "$1" in
        -V|--version) echo 'ptxas of the emulated B200
Cuda compilation tools, release 13.0, V13.0.0'; exit ;;
        -o|--output-file) to=$2; shift ;;
        *.ptx) from=$1 ;;
    esac
    shift
done
exec cp "$from" "$to"
"""
_COMPUTE: Final = DEVICE.target.replace("sm", "compute")


def _variables() -> dict[str, str]:
    """Return the environment variables that direct compilers to the emulated device.

    Linkers and Triton get the folder of the libraries, TVM-FFI the architecture, and nvcc an option that keeps PTX.
    """

    def appended(name: str, separator: str, value: str) -> str:
        before = os.environ.get(name, "")
        return before if value in before.split(separator) else separator.join(filter(None, [before, value]))

    return {
        "LIBRARY_PATH": appended("LIBRARY_PATH", os.pathsep, str(FOLDER)),
        "NVCC_APPEND_FLAGS": appended("NVCC_APPEND_FLAGS", " ", f"-gencode=arch={_COMPUTE},code={_COMPUTE}"),
        "TVM_FFI_CUDA_ARCH_LIST": os.environ.get("TVM_FFI_CUDA_ARCH_LIST", "{}.{}a".format(*COMPUTE_CAPABILITY)),
        "TRITON_LIBCUDA_PATH": str(FOLDER),
        "TRITON_PTXAS_PATH": str(FOLDER / "ptxas"),
        "TRITON_PTXAS_BLACKWELL_PATH": str(FOLDER / "ptxas"),
    }


@contextmanager
def c_hosts(state: DriverState) -> Iterator[None]:
    """Connect C code that is linked to CUDA's libraries, or opens them by name, to the emulated device."""
    libraries = _libraries()
    if (other := _other_runtime(Path("/proc/self/maps").read_text())) is not None:
        warnings.warn(
            f"{other} was loaded before the emulated runtime, as by a CUDA build of torch. C code linked to it calls "
            "NVIDIA's runtime, which finds no driver (error 35); for such code use a CPU build of torch",
            stacklevel=2,
        )
    outer = [library.state for library in libraries]
    for library in libraries:
        library.state = state
    try:
        with environment(_variables()):
            yield
    finally:
        for library, before in zip(libraries, outer, strict=True):
            library.state = before


def _other_runtime(maps: str) -> str | None:
    """Return the path of a CUDA runtime other than the emulated one among the mapped files of this process."""
    paths = {line.partition("/")[1] + line.partition("/")[2] for line in maps.splitlines() if "/libcudart.so" in line}
    return min((path for path in paths if Path(path).parent != FOLDER), default=None)


def driver_functions() -> Collection[str]:
    """Return the names of the driver's functions without their version suffix."""
    return {name.partition("_v")[0] for name in _libraries()[0].functions}


def runtime_function(name: str) -> int:
    """Return the address of a runtime function, 0 if there is none of that name."""
    return _libraries()[1].address(name)


@cache
def _libraries() -> tuple[CLibrary, ...]:
    """Load the libraries once and write the ptxas stand-in beside them."""
    ptxas = FOLDER / "ptxas"
    ptxas.write_text(_PTXAS)
    ptxas.chmod(0o755)
    for name, linked in (("libcuda.so", "libcuda.so.1"), ("libcudart.so", "libcudart.so.13")):
        (FOLDER / name).symlink_to(linked)
    driver = LibCuda()
    return driver, LibCudart(driver), LibCublas()
