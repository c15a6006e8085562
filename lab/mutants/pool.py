"""Run tasks in forked processes: each has what the parent imported, a deadline, and a pipe for its reports."""

from __future__ import annotations

import gc
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

Report = Callable[[Any], None]
WALL_S = 1800.0
"""Seconds after which a task is ended that neither computes nor ends. Those that compute limit their own CPU time."""


@dataclass
class Running:
    """A task under way: what it reported so far."""

    task: Any
    pid: int
    pipe: int
    started: float
    raw: bytearray = field(default_factory=bytearray)


@dataclass(frozen=True)
class Done:
    """A task that ended: its reports, and how the process ended ("" where it returned)."""

    task: Any
    reports: list[Any]
    end: str
    seconds: float


def run(tasks: Sequence[Any], work: Callable[[Any, Report], None], processes: int) -> Iterator[Done]:
    """Run `work` on every task in a process of its own, `processes` at a time; yield each as it ends."""
    waiting, running = list(tasks)[::-1], dict[int, Running]()
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that no child is left
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                started = _start(waiting.pop(), work)
                running[started.pipe] = started
            yield from _ended(running)
    finally:
        for left in running.values():
            _kill(left)
        signal.signal(signal.SIGTERM, before)


def _start(task: Any, work: Callable[[Any, Report], None]) -> Running:
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Running(task, pid, reading, time.perf_counter())
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setpgid(0, 0)
        os.close(reading)
        gc.disable()  # with torch and CuTeDSL loaded a collection takes longer than all that it frees is worth
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)

        def report(value: Any) -> None:
            os.write(writing, msgspec.json.encode(value) + b"\n")

        try:
            work(task, report)
            code = 0
        except BaseException:
            report({"error": traceback.format_exc()[-2000:]})
    finally:
        os._exit(code)


def _ended(running: dict[int, Running]) -> Iterator[Done]:
    """Read what is there, and yield the tasks that ended."""
    ready, _, _ = select.select(list(running), [], [], 1.0)
    for pipe in ready:
        one = running[pipe]
        piece = os.read(pipe, 1 << 20)
        one.raw += piece
        if not piece:
            del running[pipe]
            yield _done(one)
    for one in list(running.values()):
        if time.perf_counter() - one.started > WALL_S:
            del running[one.pipe]
            _kill(one)
            yield Done(one.task, _reports(one), "timeout", time.perf_counter() - one.started)


def _done(one: Running) -> Done:
    os.close(one.pipe)
    _, status = os.waitpid(one.pid, 0)
    seconds = time.perf_counter() - one.started
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return Done(one.task, _reports(one), "timeout" if name in ("SIGXCPU", "SIGKILL") else name, seconds)
    return Done(one.task, _reports(one), "" if os.WEXITSTATUS(status) == 0 else "error", seconds)


def _kill(one: Running) -> None:
    for end in (os.killpg, os.kill):
        try:
            end(one.pid, signal.SIGKILL)
            break
        except ProcessLookupError:
            continue
    os.waitpid(one.pid, 0)
    os.close(one.pipe)


def _reports(one: Running) -> list[Any]:
    return [msgspec.json.decode(line) for line in one.raw.splitlines() if line]


def limit_cpu(seconds: float) -> None:
    """End this process with SIGXCPU once it has used `seconds` more of CPU time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))
