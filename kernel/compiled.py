"""Compilation of configurations to machine code, at most once per configuration and process; needs no GPU."""

from __future__ import annotations

import functools
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from kernel.arguments import Arguments, Operands, fakes
from kernel.checks import is_emulated
from kernel.chips import Config, chip_of
from kernel.disk import MOST, Disk, default_folder


@dataclass(frozen=True)
class CompiledFmha:
    """One configuration, compiled.

    function: CuTeDSL's compiled host function. ptx, cubin: the code that it launches. layouts: the shapes and layouts
    seen while tracing, one per line. compile_s: seconds from the start of tracing to the cubin.
    """

    config: Config
    function: Any
    ptx: str
    cubin: bytes
    layouts: tuple[str, ...]
    compile_s: float


class Keeper(Protocol):
    """A cache of compiled configurations that outlives a process."""

    def find(self, config: Config) -> CompiledFmha | None:
        """Return a configuration compiled before from the same sources by the same compiler, or None."""

    def keep(self, compiled: CompiledFmha) -> None:
        """Store a configuration that was just compiled."""


keepers: list[Keeper] = []
"""Caches that are asked before a configuration is compiled, and receive the result."""


@functools.cache
def compile(config: Config) -> CompiledFmha:
    """Compile `config`, or return the result from a cache."""
    for keeper in keepers:
        if (found := keeper.find(config)) is not None:
            return found
    compiled = _compiled(config) if disk is None or is_emulated() else _from_disk(disk, config)
    for keeper in keepers:
        keeper.keep(compiled)
    return compiled


disk: Disk | None = None
"""The cache that `keep_on_disk` chose; None if configurations are not kept."""


def keep_on_disk(folder: str | Path | None = None, most: int = MOST) -> None:
    """Share configurations that processes compile from the same sources through a folder, from now on.

    folder: by default that of DSV4_ATTENTION_CACHE, else ~/.cache/dsv4_attention. most: the limit of entries, each
    about 0.5 MB. One process compiles a configuration at a time, and others wait for it. Not for the emulated device.
    """
    global disk
    disk = Disk(Path(folder or os.environ.get("DSV4_ATTENTION_CACHE") or default_folder()), most)


def _from_disk(disk: Disk, config: Config) -> CompiledFmha:
    def make() -> tuple[Any, str, bytes, Any]:
        made = _compiled(config)
        return made.function, made.ptx, made.cubin, [made.compile_s, *made.layouts]

    function, ptx, cubin, (compile_s, *layouts) = disk.get(f"{chip_of(config).arch} {config!r}", make)
    return CompiledFmha(config, function, ptx, cubin, tuple(layouts), compile_s)


def _compiled(config: Config) -> CompiledFmha:
    chip = chip_of(config)
    kernel: Any = chip.kernel(config)
    fmha = kernel(config)
    for function, suffix in ((kernel.device, ""), (kernel.launch, "_launch")):
        function.set_name_prefix(config.name + suffix, remove_cutlass_symbol=True, keep_mangled_name=False)
    start = time.perf_counter()
    with _plainly_named_folder() as folder:
        function = cute.compile(
            fmha.launch,
            fakes(Operands, config),
            fakes(Arguments, config),
            make_fake_stream(use_tvm_ffi_env_stream=True),
            options=f"--gpu-arch={chip.arch} --enable-tvm-ffi --keep-ptx --keep-cubin --dump-dir={folder}",
            # What a keeper returns runs on the emulated device, which links host code itself: 13% of compiling.
            **({"no_jit_engine": True} if keepers else {}),
        )
        ptx, cubin = function.artifacts.PTX, function.artifacts.CUBIN
    return CompiledFmha(config, function, ptx, cubin, tuple(fmha.layouts), time.perf_counter() - start)


@contextmanager
def _plainly_named_folder() -> Iterator[str]:
    """Make a temporary folder; yield a name without spaces and quotes, which CuTeDSL's options cannot escape."""
    with tempfile.TemporaryDirectory() as folder:
        opened = os.open(folder, os.O_PATH)
        try:
            yield f"/proc/self/fd/{opened}"
        finally:
            os.close(opened)
