"""Compilation of a milestone's configurations, and their cache."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TYPE_CHECKING

from harness.judge.kept import KeptKernels, use
from harness.judge.record_writer import RecordWriter
from harness.report import record

if TYPE_CHECKING:
    from kernel.chips import Config
    from stages.case import Case

#: Terminal colours in CuTeDSL's error messages.
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
LONGEST = 100  # characters of a file's name without its ending


def stem_of(case: str) -> str:
    """Return a file name for a case: its own with dashes; characters beyond LONGEST are replaced by a digest."""
    stem = re.sub(r"[^a-z0-9]+", "-", case)
    return stem if len(stem) <= LONGEST else f"{stem[: LONGEST - 9]}-{hashlib.sha256(case.encode()).hexdigest()[:8]}"


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def compile_cases(
    cases: Sequence[Case], recorder: RecordWriter, kept: KeptKernels | None = None, processes: int = 1
) -> None:
    """Compile every configuration of `cases`, or take it from the cache; record its PTX and traced layouts.

    processes: how many may compile at a time, if there is a cache.
    """
    import kernel
    from kernel.cubin import resources

    if kept is not None:
        use(kept)
    configured = {each.config: each for each in reversed(cases)}
    missing = [config for config in configured if kept is None or not kept.has(config)]
    with compiled_ahead(missing, processes if kept is not None else 1) as wait_for:
        for config, case in configured.items():
            print(f"compiling {case}", flush=True)
            wait_for(config)
            compiled = kernel.compile(config)
            stem = stem_of(case.name)
            key = "" if kept is None else kept.key(config)
            registers, files = resources(compiled.cubin).registers, [f"{stem}.ptx", f"{stem}.layouts.txt"]
            what = record.Compile(case.name, compiled.compile_s, files, registers, key, config not in missing)
            recorder.compiled(what, [compiled.ptx, "\n".join(compiled.layouts) + "\n"])


@contextmanager
def compiled_ahead(configs: Sequence[Config], processes: int) -> Iterator[Callable[[Config], None]]:
    """Let other processes compile configurations into the kernel's caches while the body runs.

    Yields a function that waits until a configuration is compiled. A configuration that does not compile there raises
    its error when the body compiles it. The processes are forks, so that they need not import torch and CuTeDSL again;
    this process must have one thread.
    """
    if min(len(configs), processes) < 2:
        yield lambda config: None
        return
    pool = ProcessPoolExecutor(min(len(configs), processes), get_context("fork"))
    started = {config: pool.submit(compile_to_cache, config) for config in configs}

    def wait_for(config: Config) -> None:
        if config in started:
            started[config].exception()

    try:
        yield wait_for
    finally:
        pool.shutdown(cancel_futures=True)


def compile_to_cache(config: Config) -> None:
    """Compile a configuration. Its result is in the kernel's caches."""
    import kernel

    kernel.compile(config)
