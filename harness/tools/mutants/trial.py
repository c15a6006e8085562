"""One mutant against the cases that its line is part of, in a process of its own."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.paths import ROOT
from harness.tools.mutants import pool
from harness.tools.mutants.baseline import Known, Saved, digest, inputs_path, saved_path
from harness.tools.mutants.imported import install
from harness.tools.mutants.operators import Mutant
from harness.tools.mutants.sources import HOST, original

MODES = ("lazy", "random", "eager")
"""In the order in which they find most."""
SLACK_S, TIMES = 30.0, 30.0
"""CPU seconds that a case may take: so many, and so many times what the right kernel takes."""
COMPILE_S = 60.0
ASKED_ALREADY = "not test_holds and not test_refuses_negative_controls"


class Task(msgspec.Struct, frozen=True):
    """What a process is to do: run a mutant against cases in their order.

    last: the milestones' own tests and the clock follow, of the milestones in `affected` too: those that an earlier
    process found the mutant to change.
    """

    mutant: Any
    cases: list[Known]
    folder: str
    last: bool
    affected: list[str] = []


class Killed(Exception):
    """The mutant is told from the kernel."""

    def __init__(self, how: str, case: str, says: str) -> None:
        super().__init__(says)
        self.how, self.case, self.says = how, case, says


def run(task: Task, report: pool.Report) -> None:
    """Report {"case": ...} as each case begins, and {"how": ...} at the end: how the mutant was killed, or "".

    A mutant that survives has its "affected" milestones reported too.
    """
    mutant: Mutant = task.mutant
    install(mutant.path, mutant.source(original(mutant.path)))
    try:
        milestones = list(dict.fromkeys([*task.affected, *_cases(mutant, task, report)]))
        if task.last:
            _own_tests(milestones, report)
            _clock(milestones, report)
        report({"how": "", "affected": milestones})
    except Killed as killed:
        report({"how": killed.how, "case": killed.case, "says": killed.says})


def _cases(mutant: Mutant, task: Task, report: pool.Report) -> list[str]:
    """Run the cases; return the milestones of those that the mutant changes anything of. Raises Killed."""
    from remote.device import Emulated

    report({"case": "import"})
    pool.limit_cpu(COMPILE_S)
    device = Emulated()
    try:
        import kernel.compiled
        from stages.catalog import find

        modules = {known.milestone: find(known.milestone).load() for known in task.cases}
    except Exception as error:
        raise Killed("import", "import", _said(error)) from error
    keeper = _Keeper(Path(task.folder), device, mutant.path in HOST)
    kernel.compiled.keepers.append(keeper)
    affected = []
    for known in task.cases:
        report({"case": known.key})
        module = modules[known.milestone]
        case = next(each for each in module.CASES if each.name == known.name)
        if _compiles(case, known, keeper, mutant):
            pool.limit_cpu(SLACK_S + TIMES * known.seconds)
            for seed in module.SEEDS:
                _judge(case, seed, device, known, Path(task.folder))
            affected.append(known.milestone)
    return affected


def _compiles(case: Any, known: Known, keeper: _Keeper, mutant: Mutant) -> bool:
    """Compile a case's configuration; return whether the case has to be launched. Raises Killed."""
    import kernel

    pool.limit_cpu(COMPILE_S)
    try:
        config = case.config
        kernel.compile(config)
    except Exception as error:
        raise Killed("compile", known.key, _said(error)) from error
    return mutant.path in HOST or len(known.configs) > 1 or keeper.digests.get(config) != known.configs[0]


def _judge(case: Any, seed: int, device: Any, known: Known, folder: Path) -> None:
    """Launch a case in every mode, and compare as a stage does. Raises Killed."""
    from kernel.errors import ArgumentError
    from stages.buffers import WroteOutside
    from stages.check import compare, failing
    from stages.expected import outputs_of
    from stages.inputs import POISONS
    from stages.launch import launch
    from stages.verify import same_bits

    inputs, want = pickle.loads(inputs_path(folder, known.milestone, known.name, seed).read_bytes())
    first = None
    for i, mode in enumerate(MODES):
        try:
            with device.running(mode, seed, case.config.mbarriers):
                attention = launch(case, inputs, device.torch_device, POISONS[i % len(POISONS)])
            outside = () if first else failing(compare(case, outputs_of(case, attention), want))
            if first is not None:
                same_bits(first, attention, known.key, f"{MODES[0]} and {mode} completion")
        except WroteOutside as error:
            raise Killed("guard", known.key, _said(error)) from error
        except AssertionError as error:
            raise Killed("bits", known.key, _said(error)) from error
        except ArgumentError as error:
            raise Killed("refused", known.key, _said(error)) from error
        except Exception as error:
            raise Killed(_kind(error), known.key, f"{mode}: {_said(error)}") from error
        if outside:
            raise Killed("figure", known.key, ", ".join(map(str, outside)))
        first = attention


def _kind(error: Exception) -> str:
    """Return how the emulator, or else Python, tells a mutant."""
    names = {each.__name__ for each in type(error).__mro__}
    if "Deadlock" in names:
        return "deadlock"
    return "finding" if "EmulatorError" in names else "error"


def _own_tests(milestones: Sequence[str], report: pool.Report) -> None:
    """Run what the milestones' modules ask beside their cases. Raises Killed."""
    import pytest

    from remote.device import Emulated
    from stages import every
    from stages.catalog import find

    for milestone in milestones:
        report({"case": f"{milestone} tests"})
        pool.limit_cpu(600)
        plugin = _Plugin(find(milestone).load(), Emulated())
        options = ["-q", "-x", "--noconftest", "-p", "no:cacheprovider", "-o", "addopts=", f"--rootdir={ROOT}"]
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        pytest.main([*options, "-k", ASKED_ALREADY, every.__file__, str(find(milestone).module)], [plugin])
        if plugin.failed:
            raise Killed("test", plugin.failed[0], plugin.failed[1])


class _Plugin:
    """Brings a milestone's tests what the harness brings them."""

    def __init__(self, module: Any, device: Any) -> None:
        self._module, self._device = module, device
        self.failed: tuple[str, str] | None = None

    def pytest_generate_tests(self, metafunc: Any) -> None:
        given = {"seed": self._module.SEEDS, "case": self._module.CASES, "device": [self._device]}
        given |= {"recorder": [_Recorder()], "seeds": [tuple(self._module.SEEDS)]}
        named = {mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")}
        for name, values in given.items():
            if name in metafunc.fixturenames and name not in named:
                metafunc.parametrize(name, values, ids=str)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and self.failed is None:
            self.failed = report.nodeid.rpartition("::")[2], report.longreprtext[-400:]


class _Recorder:
    """Keeps nothing."""

    def result(self, result: object) -> None: ...

    def negative_control(self, name: str, refused_by: object) -> None: ...


def _clock(milestones: Sequence[str], report: pool.Report) -> None:
    """Hold the milestones' first cases to their predicted cycles. Raises Killed."""
    from harness.judge.predict import launching, predicted
    from remote.device import Emulated
    from stages.catalog import find
    from stages.tolerances import most_cycles

    for milestone in milestones:
        case, most = find(milestone).load().CASES[0], most_cycles(milestone)
        report({"case": f"{milestone} clock"})
        pool.limit_cpu(COMPILE_S)
        try:
            cycles = sum(each.cycles for each in predicted(Emulated(), launching(case), case.config.mbarriers))
        except Exception as error:
            raise Killed("clock", str(case), _said(error)) from error
        if cycles > most:
            raise Killed("clock", str(case), f"{cycles:.0f} cycles, at most {most} are pinned")


class _Keeper:
    """Notes what a mutant compiles to; for mutants of host code, finds the kernel as it is."""

    def __init__(self, folder: Path, device: Any, finds: bool) -> None:
        self._folder, self._device, self._finds = folder, device, finds
        self.digests: dict[Any, str] = {}

    def find(self, config: Any) -> Any:
        from kernel.compiled import CompiledFmha
        from kernel.fmha import Fmha

        path = saved_path(self._folder, config)
        if not self._finds or not path.exists():
            return None
        saved = msgspec.msgpack.decode(path.read_bytes(), type=Saved)
        function = self._device.restored(saved.name, saved.ptx, saved.host, Fmha.launch)
        return CompiledFmha(config, function, saved.ptx, b"", (), 0.0)

    def keep(self, compiled: Any) -> None:
        _, ptx, host = self._device.saved(compiled.function)
        self.digests[compiled.config] = digest(ptx, host)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"
