"""The emulated CUDA libraries and the ptxas stand-in that C programs and compilers find during a session."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from ..bridge.elf import is_linked_to
from ..chip import COMPUTE_CAPABILITY, DEVICE
from ..patching import environment
from .c_library import FOLDER, CLibrary
from .libcublas import LibCublas
from .libcuda import LibCuda
from .libcudart import LibCudart
from .linker import LibNvJitLink
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
_NVCC: Final = """\
#!/bin/sh
# nvcc that writes PTX where it is asked for machine code alone, as PyCUDA and TileLang do.
nvcc='{nvcc}'
for argument do
    case "$argument" in
        -cubin|--cubin) argument=-ptx NVCC_APPEND_FLAGS= ;;
    esac
    set -- "$@" "$argument"
    shift
done
export NVCC_APPEND_FLAGS
exec "$nvcc" "$@"
"""
_MAPS: Final = Path("/proc/self/maps")
_RUNTIME: Final = "libcudart.so"
_OF_TORCH: Final = frozenset({"torch", "nvidia"})
"""Folders of torch's own libraries and of those that it requires."""
_COMPUTE: Final = DEVICE.target.replace("sm", "compute")


def _variables() -> dict[str, str]:
    """Return the environment variables that direct compilers to the emulated device.

    Linkers and Triton get the folder of the libraries, TVM-FFI the architecture, and nvcc an option that keeps PTX.
    CuPy compiles its kernels: its cache and its parts in CUDA C++ (CUB) may hold machine code of a GPU.
    """

    def appended(name: str, separator: str, value: str) -> str:
        before = os.environ.get(name, "")
        return before if value in before.split(separator) else separator.join(filter(None, [before, value]))

    return {
        **_homes_with_nvcc(),
        "PATH": _path_with_nvcc(),
        "LIBRARY_PATH": appended("LIBRARY_PATH", os.pathsep, str(FOLDER)),
        "NVCC_APPEND_FLAGS": appended("NVCC_APPEND_FLAGS", " ", f"-gencode=arch={_COMPUTE},code={_COMPUTE}"),
        "CUPY_ACCELERATORS": os.environ.get("CUPY_ACCELERATORS", ""),
        "CUPY_CACHE_IN_MEMORY": "1",
        "TVM_FFI_CUDA_ARCH_LIST": os.environ.get("TVM_FFI_CUDA_ARCH_LIST", "{}.{}a".format(*COMPUTE_CAPABILITY)),
        "TRITON_LIBCUDA_PATH": str(FOLDER),
        "TRITON_PTXAS_PATH": str(FOLDER / "ptxas"),
        "TRITON_PTXAS_BLACKWELL_PATH": str(FOLDER / "ptxas"),
    }


def _path_with_nvcc() -> str:
    """Return PATH with the stand-in of its nvcc before all folders, if it has an nvcc."""
    path, folder = os.environ.get("PATH", ""), FOLDER / "bin"
    found = shutil.which("nvcc")
    if found is None or str(folder) in path.split(os.pathsep):
        return path
    _write_program(folder / "nvcc", _NVCC.format(nvcc=found))
    return os.pathsep.join([str(folder), path])


def _homes_with_nvcc() -> dict[str, str]:
    """Return CUDA_HOME and CUDA_PATH, if they are set, as folders of links whose nvcc is the stand-in of theirs."""
    stand_ins = {}
    for name in ("CUDA_HOME", "CUDA_PATH"):
        home, folder = Path(os.environ.get(name, "")).absolute(), FOLDER / name.lower()
        if not os.environ.get(name) or not (home / "bin/nvcc").is_file() or home == folder:
            continue
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "bin").mkdir(parents=True)
        for each in (*home.iterdir(), *(home / "bin").iterdir()):
            if each not in (home / "bin", home / "bin/nvcc"):
                (folder / each.relative_to(home)).symlink_to(each)
        _write_program(folder / "bin/nvcc", _NVCC.format(nvcc=home / "bin/nvcc"))
        stand_ins[name] = str(folder)
    return stand_ins


def _write_program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@contextmanager
def c_hosts(state: DriverState) -> Iterator[None]:
    """Connect C code that is linked to CUDA's libraries, or opens them by name, to the emulated device."""
    libraries: Sequence[CLibrary] = _libraries()
    outer = [library.state for library in libraries]
    for library in libraries:
        library.state = state
    try:
        with environment(_variables()):
            yield
    finally:
        for library, before in zip(libraries, outer, strict=True):
            library.state = before
        _warn_of_another_runtime()


def _warn_of_another_runtime() -> None:
    """Warn if a library of the program is linked to a CUDA runtime that was loaded before the emulated one.

    A CUDA build of torch loads NVIDIA's runtime. Its own libraries do not count, because none of them is called.
    """
    loaded = {Path(line.split(maxsplit=5)[5]) for line in _MAPS.read_text().splitlines() if ".so" in line}
    other = min((path for path in loaded if path.name.startswith(_RUNTIME) and path.parent != FOLDER), default=None)
    for path in loaded if other is not None else ():
        known = path.parent == FOLDER or path.name.startswith(_RUNTIME) or _OF_TORCH.intersection(path.parts)
        if not known and path.is_file() and is_linked_to(path, _RUNTIME.encode()):
            warnings.warn(
                f"{path} calls {other}, which was loaded before the emulated runtime and has its kernels (error 98): "
                "use a CPU build of torch for this program",
                stacklevel=2,
            )


def driver_functions() -> Collection[str]:
    """Return the names of the driver's functions that are emulated, without their version suffix."""
    return _libraries()[0].known


def runtime() -> LibCudart:
    """Return the runtime."""
    return _libraries()[1]


@cache
def _libraries() -> tuple[LibCuda, LibCudart, LibCublas, LibNvJitLink]:
    """Load the libraries once, and write the ptxas stand-in into their folder."""
    _write_program(FOLDER / "ptxas", _PTXAS)
    for name, linked in (("libcuda.so", "libcuda.so.1"), ("libcudart.so", "libcudart.so.13")):
        (FOLDER / name).symlink_to(linked)
    driver = LibCuda()
    return driver, LibCudart(driver), LibCublas(), LibNvJitLink()
