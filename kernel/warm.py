"""Compilation of what a range of calls needs, in parallel, before the first request."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch

from kernel import chips, compiled, plan
from kernel.chips import Config

PROGRAM = """
import importlib, pickle, sys
sys.path[:], package, folder, most, configs = (pickle.load(sys.stdin.buffer) for _ in range(5))
compiled = importlib.import_module(package + ".compiled")
compiled.keep_on_disk(folder, most)
for config in pickle.loads(configs):
    compiled.compile(config)
    print(config.name, flush=True)
"""


def warm_up(
    calls: Iterable[Callable[[], object]],
    device: torch.device | str | None = None,
    processes: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[str]:
    """Compile the configurations of some calls that are not on disk yet; return the names of all of them.

    calls: functions that make one call each, on meta tensors, which are planned and not launched. For a layer kind pass
    one for each batch size that is served. device: the GPU that they are for; by default the current one, or a B200 if
    there is none. processes: the most processes that compile at a time, by default half of the processors. progress:
    receives a line for each configuration; by default it is printed to stderr.

    Turns `keep_on_disk` on unless it is. Compiling takes about 10 s and 1 GB for each configuration and process.
    """
    if compiled.disk is None:
        compiled.keep_on_disk()
    assert compiled.disk is not None
    say = progress or (lambda line: print(line, file=sys.stderr, flush=True))
    started, configs = time.monotonic(), wanted(calls, device)
    count = max(1, min(processes or (os.cpu_count() or 2) // 2, len(configs)))
    workers = [_worker(configs[i::count]) for i in range(count) if configs]
    lines = (line for worker in workers for line in worker.stdout or ())
    for number, line in enumerate(lines, 1):
        say(f"{number} of {len(configs)} configurations, {time.monotonic() - started:.0f} s: {line.decode().strip()}")
    if sum(worker.wait() != 0 for worker in workers):
        raise RuntimeError("a process that compiles failed; its error is above")
    return [config.name for config in configs]


def wanted(calls: Iterable[Callable[[], object]], device: torch.device | str | None = None) -> list[Config]:
    """Return the configurations that calls on meta tensors choose for a GPU, each once."""
    if device is None:
        device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else "cpu"
    plan.clear()  # calls that were planned before choose nothing
    with chips.planning(torch.device(device)) as chosen:
        for call in calls:
            call()
    plan.clear()  # plans on meta tensors may be for another chip
    return list(dict.fromkeys(chosen))


def _worker(configs: list[Config]) -> subprocess.Popen[bytes]:
    """Start a process that compiles some configurations, and prints the name of each."""
    assert compiled.disk is not None
    worker = subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert worker.stdin is not None
    facts: tuple[Any, ...] = (sys.path, __package__, compiled.disk.folder, compiled.disk.most, pickle.dumps(configs))
    with worker.stdin as pipe:
        for each in facts:
            pickle.dump(each, pipe)
    return worker
