"""The right kernel as a baseline: lines that each case runs, compiled configurations, inputs and references."""

from __future__ import annotations

import hashlib
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from emulator.patching import Patches
from harness.host.files import write_atomically
from harness.paths import ROOT
from lab.mutants import pool

MOST_CASES = 4
"""Cases that a process runs of one configuration, which each process compiles."""


class Known(msgspec.Struct):
    """One case of the right kernel.

    configs: digests of the configurations that it launches, its own first. seconds: of its launches in one mode, the
    host code left out. compile_s: of the configurations.
    """

    milestone: str
    name: str
    config: str
    configs: list[str]
    seconds: float
    compile_s: float
    lines: dict[str, list[int]]

    @property
    def key(self) -> str:
        return f"{self.milestone} {self.name}"


class KnownTest(msgspec.Struct):
    """One test of a milestone besides its cases: the lines that it runs, without those of compiling."""

    milestone: str
    name: str
    seconds: float
    lines: dict[str, list[int]]


class Baseline(msgspec.Struct):
    """Cases and tests of the right kernel, as measured."""

    cases: list[Known]
    tests: list[KnownTest]


class Saved(msgspec.Struct):
    """A compiled configuration, for mutants of files that it does not depend on."""

    name: str
    ptx: str
    host: bytes


def digest(ptx: str, host: bytes) -> str:
    """Return the digest of a configuration's device code and host code."""
    return hashlib.sha256(ptx.encode() + host).hexdigest()


def saved_path(folder: Path, config: object) -> Path:
    """Return the file of a compiled configuration."""
    return folder / f"{hashlib.sha256(repr(config).encode()).hexdigest()[:24]}.kernel"


def inputs_path(folder: Path, milestone: str, name: str, seed: int) -> Path:
    """Return the file of the inputs and the reference of a case."""
    return folder / f"{hashlib.sha256(f'{milestone} {name} {seed}'.encode()).hexdigest()[:24]}.inputs"


def find(folder: Path, processes: int, progress: Callable[[str], None], milestones: tuple[str, ...] = ()) -> Baseline:
    """Return the baseline of the cases and tests of some milestones or of all; run those that `folder` lacks."""
    path = folder / "baseline.json"
    if path.exists():
        return msgspec.json.decode(path.read_bytes(), type=Baseline)
    folder.mkdir(parents=True, exist_ok=True)
    ((names, groups),) = next(pool.run([milestones], _groups, 1)).reports
    found = Baseline([], [])
    for done in pool.run([(folder, group) for group in groups], _run_group, processes):
        found.cases += msgspec.convert(_passed(done), list[Known])
        progress(f"baseline: {len(found.cases)} of {sum(map(len, groups))} cases")
    for done in pool.run([(folder, name) for name in names], _run_tests, processes):
        found.tests += msgspec.convert(_passed(done), list[KnownTest])
    write_atomically(path, msgspec.json.encode(found))
    return found


def _passed(done: pool.Done) -> list[Any]:
    """Return the reports of a process. Raises RuntimeError where the right kernel fails."""
    failed = [each["error"] for each in done.reports if "error" in each]
    if done.end or failed:
        raise RuntimeError(f"the kernel itself does not pass {done.task[1]}: {done.end} {''.join(failed)}")
    return done.reports


def _groups(milestones: tuple[str, ...], report: pool.Report) -> None:
    """Report the milestones, and their cases as (milestone, index), a few of one configuration together.

    The longest lists come first. With 31 cases in one list, one process would work when all others have ended.
    """
    from stages.catalog import CATALOG

    chosen = [each for each in CATALOG if not milestones or each.id in milestones]
    groups: dict[str, list[tuple[str, int]]] = {}
    for milestone in chosen:
        for i, case in enumerate(milestone.load().CASES):
            groups.setdefault(repr(case.config), []).append((milestone.id, i))
    lists = [cases[i : i + MOST_CASES] for cases in groups.values() for i in range(0, len(cases), MOST_CASES)]
    report(([each.id for each in chosen], sorted(lists, key=len, reverse=True)))


def _run_group(task: tuple[Path, list[tuple[str, int]]], report: pool.Report) -> None:
    from remote.device import Emulated

    folder, group = task
    device = Emulated()
    with _traced() as lines:
        import kernel.compiled
        from stages.catalog import find
        from stages.expected import reference
        from stages.inputs import draw
        from stages.launch import launch

        keeper = _Tracing(folder, device, lines)
        kernel.compiled.keepers.append(keeper)
        for milestone, i in group:
            module = find(milestone).load()
            case = module.CASES[i]
            lines.clear()
            started = time.process_time()
            own = case.config
            kernel.compile(own)
            compile_s = time.process_time() - started
            with lines.paused():
                for seed in module.SEEDS:
                    inputs = draw(case, seed)
                    kept = pickle.dumps((inputs, reference(case, inputs)))
                    write_atomically(inputs_path(folder, milestone, case.name, seed), kept)
            lines.paused_s = 0.0
            with device.running(device.modes[0], module.SEEDS[0]):
                launch(case, inputs, device.torch_device)
            used = [
                keeper.known[own],
                *(each for config, each in keeper.known.items() if case.merged and config != own),
            ]
            seen: dict[str, set[int]] = {path: set(numbers) for path, numbers in lines.seen.items()}
            for _, of_config in used:
                for path, numbers in of_config.items():
                    seen.setdefault(path, set()).update(numbers)
            report(
                Known(
                    milestone, case.name, own.name, [each for each, _ in used], lines.paused_s, compile_s,
                    {path: sorted(numbers) for path, numbers in seen.items()},
                )
            )  # fmt: skip


def _run_tests(task: tuple[Path, str], report: pool.Report) -> None:
    """Report the lines that each test of a milestone runs."""
    from remote.device import Emulated

    folder, milestone = task
    device = Emulated()
    with _traced() as lines:
        import kernel.compiled
        from lab.mutants import own_tests

        kernel.compiled.keepers.append(Keeper(folder, device, finds=True))
        known: dict[str, KnownTest] = {}

        def ended(name: str, seconds: float) -> None:
            test = known.setdefault(name, KnownTest(milestone, name, 0.0, {}))
            test.seconds += seconds
            for path, numbers in lines.seen.items():
                test.lines[path] = sorted({*test.lines.get(path, ()), *numbers})
            lines.clear()

        failed = own_tests.run(milestone, ended=ended)
    if failed is not None:
        raise AssertionError(f"{failed[0]}: {failed[1]}")
    for each in known.values():
        report(each)


class Keeper:
    """Records compiled configurations; if `finds`, it substitutes the right kernel for them."""

    def __init__(self, folder: Path, device: Any, finds: bool) -> None:
        self._folder, self._device, self._finds = folder, device, finds
        self.digests: dict[Any, str] = {}

    def find(self, config: Any) -> Any:
        """Return the right kernel's configuration, if it is requested and known."""
        from kernel.compiled import CompiledFmha
        from kernel.fmha import Fmha

        path = saved_path(self._folder, config)
        if not self._finds or not path.exists():
            return None
        saved = msgspec.msgpack.decode(path.read_bytes(), type=Saved)
        function = self._device.restored(saved.name, saved.ptx, saved.host, Fmha.launch)
        return CompiledFmha(config, function, saved.ptx, b"", (), 0.0)

    def keep(self, compiled: Any) -> None:
        """Record the digest of a compiled configuration."""
        _, ptx, host = self._device.saved(compiled.function)
        self.digests[compiled.config] = digest(ptx, host)


class _Lines:
    """Lines of kernel/ that this thread runs, by file, and CPU seconds of what it does meanwhile."""

    def __init__(self) -> None:
        self.seen: dict[str, set[int]] = {}
        self.paused_s = 0.0
        self._prefix = str(ROOT / "kernel") + "/"

    def clear(self) -> None:
        self.seen = {}

    @contextmanager
    def paused(self) -> Iterator[None]:
        """See no line while the context is open: Python calls `trace` for each function of the emulator too."""
        started = time.process_time()
        sys.settrace(None)
        try:
            yield
        finally:
            sys.settrace(self.trace)
            self.paused_s += time.process_time() - started

    def trace(self, frame: FrameType, event: str, arg: object) -> Any:
        path = frame.f_code.co_filename
        if not path.startswith(self._prefix):
            return None
        numbers = self.seen.setdefault(path[len(str(ROOT)) + 1 :], set())
        numbers.add(frame.f_lineno)

        def local(frame: FrameType, event: str, arg: object) -> Any:
            numbers.add(frame.f_lineno)
            return local

        return local


@contextmanager
def _traced() -> Iterator[_Lines]:
    """Trace what the body runs, the emulator's launches left out."""
    from emulator.bridge.device import LaunchingDevice

    lines, run = _Lines(), LaunchingDevice.launch

    def launch(*arguments: Any) -> None:
        with lines.paused():
            run(*arguments)

    sys.settrace(lines.trace)
    try:
        with Patches() as patches:
            patches.set(LaunchingDevice, "launch", launch)
            yield lines
    finally:
        sys.settrace(None)


class _Tracing:
    """A keeper that records the lines that compiling a configuration ran, and saves its result."""

    def __init__(self, folder: Path, device: Any, lines: _Lines) -> None:
        self._folder, self._device, self._lines = folder, device, lines
        self.known: dict[Any, tuple[str, dict[str, set[int]]]] = {}
        self._before: dict[str, set[int]] = {}

    def find(self, config: Any) -> None:
        self._before, self._lines.seen = self._lines.seen, {}

    def keep(self, compiled: Any) -> None:
        name, ptx, host = self._device.saved(compiled.function)
        self.known[compiled.config] = digest(ptx, host), self._lines.seen
        self._lines.seen = self._before
        path = saved_path(self._folder, compiled.config)
        write_atomically(path, msgspec.msgpack.encode(Saved(name, ptx, host)))
