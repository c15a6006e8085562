"""A cache of configurations of the kernel, compiled on the emulated device or for recordings, shared by all processes.

The key of an entry is a digest of everything that it was compiled from: every file of kernel/, the configuration, the
versions of Python and of every package, CuTeDSL's environment variables, and the processor of its host code. The files
are hashed before the kernel is imported. If the kernel was imported earlier, or its files have changed since, the cache
is neither read nor written. In a run only the supervisor fills the folder that is read (`harness.host.kernel_cache`).
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING

import llvmlite.binding as llvm
import msgspec

from harness.host.files import last_used, write_atomically
from harness.host.job import COMPILED, KERNELS
from harness.paths import ROOT
from remote.device import Emulated

if TYPE_CHECKING:
    from kernel.chips import Config
    from kernel.compiled import CompiledFmha

MOST = 256
"""Limit of entries, each about 0.5 MB."""
OUTPUT = ("CUTE_DSL_DUMP_DIR", "CUTE_EXPERIMENTAL_DSL_DUMP_DIR")
"""CuTeDSL's variables that name its output folders."""


class Entry(msgspec.Struct, frozen=True):
    """One compiled configuration. `root` is the folder of the sources whose lines the PTX names."""

    name: str
    ptx: str
    host: bytes
    cubin: bytes
    layouts: tuple[str, ...]
    compile_s: float
    root: str


class KeptKernels:
    """The cache in a folder.

    written_to: the folder of new entries, which are found as well; by default the same. asked: how often any was asked
    for a configuration.
    """

    asked = 0

    def __init__(self, folder: Path, device: Emulated, written_to: Path | None = None) -> None:
        self._device = device
        self._written_to = written_to or folder
        self._folders = dict.fromkeys((folder, self._written_to))

    def key(self, config: Config) -> str:
        """Return the key of a configuration."""
        cute = {k: v for k, v in os.environ.items() if k.startswith("CUTE_") and k not in OUTPUT}
        processor = [llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
        made_of = [IMPORTED, repr(config), sys.version, _versions(), sorted(cute.items()), processor]
        return hashlib.sha256(msgspec.json.encode(made_of)).hexdigest()

    def has(self, config: Config) -> bool:
        """Return True if a configuration is in the cache."""
        return source() == IMPORTED and bool(self._body(self.key(config)))

    def find(self, config: Config) -> CompiledFmha | None:
        """Return the cached result of compiling a configuration, or None."""
        from kernel.chips import chip_of
        from kernel.compiled import CompiledFmha

        KeptKernels.asked += 1
        if source() != IMPORTED:
            return None
        body = self._body(self.key(config))
        if not body:
            return None
        kept = msgspec.msgpack.decode(body, type=Entry)
        ptx = kept.ptx.replace(f'"{kept.root}/kernel/', f'"{ROOT}/kernel/')
        function = self._device.restored(kept.name, ptx, kept.host, chip_of(config).kernel(config).launch, kept.cubin)
        return CompiledFmha(config, function, ptx, kept.cubin, kept.layouts, kept.compile_s)

    def _body(self, key: str) -> bytes:
        return next(filter(None, (_sealed(folder / key) for folder in self._folders)), b"")

    def keep(self, compiled: CompiledFmha) -> None:
        """Write a compiled configuration to the cache, unless the sources have changed since they were imported."""
        if source() != IMPORTED:
            return
        name, ptx, host = self._device.saved(compiled.function)
        entry = Entry(name, ptx, host, compiled.cubin, compiled.layouts, compiled.compile_s, str(ROOT))
        key, body = self.key(compiled.config), msgspec.msgpack.encode(entry)
        self._written_to.mkdir(parents=True, exist_ok=True)
        write_atomically(self._written_to / key, _seal(key, body) + body)
        for oldest in sorted(self._written_to.iterdir(), key=last_used)[:-MOST]:
            oldest.unlink(missing_ok=True)


def kept_kernels(device: object) -> KeptKernels | None:
    """Return the cache in the folder that the environment names; None if it names none, or for a real device."""
    folder = os.environ.get(KERNELS, "")
    if not folder or not isinstance(device, Emulated):
        return None
    return KeptKernels(Path(folder), device, Path(os.environ.get(COMPILED) or folder))


@functools.cache
def _versions() -> list[str]:
    """Return name and version of every installed package. Reading their metadata takes 0.06 s."""
    return sorted({f"{each.name} {each.version}" for each in distributions()})


def use(kept: KeptKernels) -> None:
    """Make the kernel use a cache in this process."""
    from kernel.compiled import keepers

    keepers.append(kept)


def source() -> str:
    """Return the digest of all files of kernel/."""
    digest = hashlib.sha256()
    for path in sorted(_files(ROOT / "kernel")):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)} {len(data)}\n".encode() + data)
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


IMPORTED = source() if "kernel" not in sys.modules else ""
"""The digest of the files that the kernel will be imported from; "" if it was imported already."""


def _seal(key: str, body: bytes) -> bytes:
    """Return the digest that a valid file starts with. It includes the key, so a renamed file is not valid."""
    return hashlib.sha256(key.encode() + body).digest()


def _sealed(path: Path) -> bytes:
    """Return the entry in a file, and set the time of its use; b"" if there is none, or if it is damaged."""
    try:
        raw = path.read_bytes()
    except OSError:
        return b""
    size = hashlib.sha256().digest_size
    if raw[:size] != _seal(path.name, raw[size:]):
        return b""
    with suppress(OSError):  # behind walls the entries of accepted runs are read-only
        os.utime(path)
    return raw[size:]
