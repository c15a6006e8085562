"""Configurations of the kernel that were compiled before, by any process: for the emulated device.

One is found only under the digest of all that it was compiled from: every file of kernel/, the configuration, the
versions of Python and of every package, CuTeDSL's environment, and the processor that its host code is for. The files
are those that were there before the kernel was imported, and still are: a process that cannot tell, or whose kernel
changes meanwhile, finds and keeps nothing. Whoever may write to the folder is trusted as one who may write to the
environment.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING

import llvmlite.binding as llvm
import msgspec

from harness.host.files import write_atomically
from harness.host.job import KERNELS
from harness.paths import ROOT
from remote.device import Emulated

if TYPE_CHECKING:
    from kernel.compiled import CompiledFmha
    from kernel.config import FmhaConfig

MOST = 256
"""So many are kept, 0.5 MB each."""
OUTPUT = ("CUTE_DSL_DUMP_DIR", "CUTE_EXPERIMENTAL_DSL_DUMP_DIR")
"""Variables of CuTeDSL's that name where it leaves files."""


class Entry(msgspec.Struct, frozen=True):
    """What is kept. root: where the sources lay whose lines the PTX names."""

    name: str
    ptx: str
    host: bytes
    cubin: bytes
    layouts: tuple[str, ...]
    compile_s: float
    root: str


class KeptKernels:
    """The folder where compiled configurations are kept; `found` are those that it had."""

    def __init__(self, folder: Path, device: Emulated) -> None:
        self._folder, self._device = folder, device
        self.found: set[FmhaConfig] = set()

    def key(self, config: FmhaConfig) -> str:
        """What a configuration is kept under."""
        versions = sorted({f"{each.name} {each.version}" for each in distributions()})
        cute = {k: v for k, v in os.environ.items() if k.startswith("CUTE_") and k not in OUTPUT}
        processor = [llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
        made_of = [IMPORTED, repr(config), sys.version, versions, sorted(cute.items()), processor]
        return hashlib.sha256(msgspec.json.encode(made_of)).hexdigest()

    def find(self, config: FmhaConfig) -> CompiledFmha | None:
        """A configuration that was compiled before, from the same."""
        from kernel.compiled import CompiledFmha
        from kernel.fmha import Fmha

        if source() != IMPORTED:
            return None
        key = self.key(config)
        path = self._folder / key
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
        digest, body = raw[: hashlib.sha256().digest_size], raw[hashlib.sha256().digest_size :]
        if digest != _seal(key, body):
            return None
        os.utime(path)
        kept = msgspec.msgpack.decode(body, type=Entry)
        ptx = kept.ptx.replace(f'"{kept.root}/kernel/', f'"{ROOT}/kernel/')
        function = self._device.restored(kept.name, ptx, kept.host, Fmha.launch)
        self.found.add(config)
        return CompiledFmha(config, function, ptx, kept.cubin, kept.layouts, kept.compile_s)

    def keep(self, compiled: CompiledFmha) -> None:
        """Keep what was just compiled, unless the sources have changed since they were imported."""
        if source() != IMPORTED:
            return
        name, ptx, host = self._device.saved(compiled.function)
        entry = Entry(name, ptx, host, compiled.cubin, compiled.layouts, compiled.compile_s, str(ROOT))
        key, body = self.key(compiled.config), msgspec.msgpack.encode(entry)
        self._folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._folder / key, _seal(key, body) + body)
        for oldest in sorted(self._folder.iterdir(), key=_used)[:-MOST]:
            oldest.unlink(missing_ok=True)


def kept_kernels(device: object) -> KeptKernels | None:
    """Those of the folder that the environment names; none where it names none, nor for a real device."""
    folder = os.environ.get(KERNELS, "")
    return KeptKernels(Path(folder), device) if folder and isinstance(device, Emulated) else None


def use(kept: KeptKernels) -> None:
    """Find the kernel's configurations there, and keep them there, in this process."""
    from kernel.compiled import keepers

    keepers.append(kept)


def source() -> str:
    """The digest of every file of kernel/."""
    digest = hashlib.sha256()
    for path in sorted(_files(ROOT / "kernel")):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)} {len(data)}\n".encode() + data)
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


IMPORTED = source() if "kernel" not in sys.modules else ""
"""What the kernel is imported from after this; "" where that was done before."""


def _seal(key: str, body: bytes) -> bytes:
    """What a whole file begins with: of its name too, so that none is taken for another."""
    return hashlib.sha256(key.encode() + body).digest()


def _used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another process removed it
        return 0.0
