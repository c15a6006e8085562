"""Run launches on this machine's GPU and on the emulator, and compare the results."""

from __future__ import annotations

import ctypes
import hashlib
import multiprocessing
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from emulator.machine.execution import scheduler
from emulator.machine.formats.tensormap import TensorMap
from emulator.machine.launch.launch import Launch
from emulator.machine.launch.statistics import Stats
from lab.gpu import INVALID_PTX, LOST, NO_BINARY, DriverError, Gpu, Job, Move, Span, is_map, translated_map

PATIENCE_S = 20.0
PLACE, SHOWN = 16, 6
Same = Callable[[np.ndarray, np.ndarray], str]
"""Compares bytes of the emulator (first) and the GPU (second). Returns the difference, "" if they agree."""


class Worker:
    """A GPU in its own process, because a kernel's fault makes the GPU unusable for the process."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawning.Pipe()
        self._process = spawning.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self.target = str(self._answer())

    def run(self, job: Job) -> tuple[list[Move], list[bytes]]:
        """Run a job as Gpu.run does. A kernel that does not end within PATIENCE_S also raises DriverError."""
        try:
            self._pipe.send(job)
            answer = self._answer()
        except DriverError as error:
            if error.code not in (NO_BINARY, INVALID_PTX):
                self.stop()
                self._start()
            raise
        return answer  # type: ignore[no-any-return]

    def _answer(self) -> Any:
        try:
            if not self._pipe.poll(PATIENCE_S):
                raise DriverError(f"no end within {PATIENCE_S} s", LOST)
            answer = self._pipe.recv()
        except EOFError:
            raise DriverError("the process with the GPU ended", LOST) from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()


def _serve(pipe: Connection) -> None:
    try:
        gpu = Gpu()
        pipe.send(gpu.target)
        with suppress(EOFError):
            while True:
                try:
                    pipe.send(gpu.run(pipe.recv()))
                except DriverError as error:
                    pipe.send(error)
    except (DriverError, OSError) as error:
        pipe.send(error)


def equal(emulated: np.ndarray, seen: np.ndarray) -> str:
    """Compare all bits."""
    different = np.flatnonzero(emulated != seen)
    if not different.size:
        return ""
    places = np.unique(different // PLACE)[:SHOWN] * PLACE
    shown = "; ".join(f"at {at} {_hex(emulated, at)} and {_hex(seen, at)}" for at in places)
    return f"{different.size} of {seen.size} bytes differ, emulator and silicon have: {shown}"


def _hex(content: np.ndarray, at: int) -> str:
    return content[at : at + PLACE].tobytes().hex()


class Comparison:
    """A replacement for scheduler.run that runs launches on both sides.

    Raises AssertionError if they differ by `same`. `tally` counts launches by outcome, and instructions executed and
    compared.
    """

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.tally: Counter[str] = Counter()
        self.rejections: Counter[str] = Counter()
        self.same: Same = equal
        self.optimisation = 4
        self._run = scheduler.run
        self._done: set[str] = set()

    def __call__(self, launch: Launch, *arguments: Any, **named: Any) -> Stats:
        spans = [(a, n) for a, n, _ in launch.allocations if n]
        job = self.job(launch, spans + mapped(launch, spans))
        stats = self._run(launch, *arguments, **named)
        key = hashlib.sha256(repr((job.text, job.grid, job.cluster, job.before)).encode()).hexdigest()
        if key in self._done or launch.findings:
            self.tally["again, or with findings"] += 1
            return stats
        self._done.add(key)
        try:
            moved, seen = self.worker.run(job)
        except DriverError as error:
            if error.code not in (NO_BINARY, INVALID_PTX):
                raise AssertionError(f"{error}\n{job.text}") from None
            self._done.remove(key)
            self.tally["rejected by its compiler"] += 1
            self.rejections[error.log.split(";")[-1].strip().split("\n")[0]] += 1
            return stats
        self.tally["launches"] += 1
        self.tally["warp-instructions"] += stats.instructions
        for i, (span, content) in enumerate(zip(job.spans, seen, strict=True)):
            wanted = ctypes.string_at(*span)
            wanted = translated_map(wanted, moved, self.worker.target) if i in job.maps else wanted
            self.tally["bytes"] += len(wanted)
            if wrong := self.same(np.frombuffer(wanted, np.uint8), np.frombuffer(content, np.uint8)):
                raise AssertionError(f"{wrong}\n{job.text}")
        return stats

    def job(self, launch: Launch, spans: Sequence[Span]) -> Job:
        """Return the GPU's job for a launch, with the current contents of memory."""
        before = tuple(ctypes.string_at(*span) for span in spans)
        raw, kernel = launch.param_bytes, launch.kernel
        clustered = launch.cluster != (1, 1, 1) and kernel.reqnctapercluster is None
        return Job(
            "\n".join(kernel.source),
            kernel.name,
            launch.grid,
            launch.block,
            launch.cluster if clustered else None,
            launch.dynamic_shared_bytes,
            tuple(raw[p.offset : p.offset + p.size] for p in kernel.params),
            tuple(spans),
            before,
            frozenset(i for i, content in enumerate(before) if is_map(content)),
            self.optimisation,
        )


def mapped(launch: Launch, known: Sequence[Span]) -> list[Span]:
    """Return the tensors that the launch's tensor maps address and that are not among its allocations."""
    found: dict[int, int] = {}
    for param in launch.kernel.params:
        raw = launch.param_bytes[param.offset : param.offset + param.size]
        if is_map(raw):
            tensor = TensorMap.decode(raw)
            if not any(start <= tensor.address < start + size for start, size in known):
                found[tensor.address] = tensor.dims[-1] * tensor.strides[-1]
    return sorted(found.items())
