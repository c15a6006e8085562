"""One mutant against the cases that its line is part of, in a process of its own."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from lab.mutants import pool
from lab.mutants.baseline import Keeper, Known, KnownTest, inputs_path
from lab.mutants.imported import install
from lab.mutants.operators import Mutant
from lab.mutants.sources import HOST, original

MODES = ("lazy", "random", "eager")
"""In the order in which they find most."""
SLACK_S, TIMES = 30.0, 30.0
"""CPU seconds that a case may take: a constant, and a multiple of the right kernel's."""
COMPILE_S, TESTS_S = 60.0, 600.0


class Task(msgspec.Struct, frozen=True):
    """Task of one process: run a mutant against tests and cases in their order.

    tests: the milestones' own tests that run the mutant's line on the host. last: run all tests of the milestones and
    the clock afterwards, also for milestones in `affected`, which the mutant changed in an earlier process.
    """

    mutant: Any
    tests: list[KnownTest]
    cases: list[Known]
    folder: str
    last: bool
    affected: list[str] = []


class Killed(Exception):
    """A difference between the mutant and the kernel was seen."""

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
        device = _imported(report)
        keeper = Keeper(Path(task.folder), device, mutant.path in HOST)
        from kernel.compiled import keepers

        keepers.append(keeper)
        for test in task.tests:
            _own_tests([test.milestone], report, [test.name])
        milestones = list(dict.fromkeys([*task.affected, *_cases(mutant, task, device, keeper, report)]))
        if task.last and mutant.path not in HOST:
            _own_tests(milestones, report)
            _clock(milestones, report)
        report({"how": "", "affected": milestones})
    except Killed as killed:
        report({"how": killed.how, "case": killed.case, "says": killed.says})


def _imported(report: pool.Report) -> Any:
    """Import the kernel and all stages; return the device. Raises Killed."""
    from remote.device import Emulated

    report({"case": "import"})
    pool.limit_cpu(COMPILE_S)
    device = Emulated()
    try:
        from stages.catalog import CATALOG

        for milestone in CATALOG:
            milestone.load()
    except Exception as error:
        raise Killed("import", "import", _said(error)) from error
    return device


def _cases(mutant: Mutant, task: Task, device: Any, keeper: Keeper, report: pool.Report) -> list[str]:
    """Run the cases; return the milestones of those that the mutant changes anything of. Raises Killed."""
    from stages.catalog import find

    affected = []
    for known in task.cases:
        report({"case": known.key})
        module = find(known.milestone).load()
        case = next(each for each in module.CASES if each.name == known.name)
        before = set(keeper.digests)
        if _compiles(case, known, keeper, mutant):
            pool.limit_cpu(SLACK_S + TIMES * known.seconds)
            for seed in module.SEEDS:
                _compare_case(case, seed, device, known, Path(task.folder))
            compiled = {digest for config, digest in keeper.digests.items() if config not in before}
            if mutant.path in HOST or _differs(case, known, keeper) or not compiled <= set(known.configs):
                affected.append(known.milestone)
    return affected


def _compiles(case: Any, known: Known, keeper: Keeper, mutant: Mutant) -> bool:
    """Compile a case's configuration; return whether the case has to be launched. Raises Killed."""
    import kernel

    pool.limit_cpu(COMPILE_S)
    try:
        config = case.config
        kernel.compile(config)
    except Exception as error:
        raise Killed("compile", known.key, _said(error)) from error
    return mutant.path in HOST or case.merged or _differs(case, known, keeper)


def _differs(case: Any, known: Known, keeper: Keeper) -> bool:
    """Return True if the case's own configuration compiles to other code than the kernel's."""
    return keeper.digests.get(case.config) != known.configs[0]


def _compare_case(case: Any, seed: int, device: Any, known: Known, folder: Path) -> None:
    """Launch a case in every mode, the last one without buffers, and compare as a stage does. Raises Killed."""
    from kernel.errors import ArgumentError
    from stages.buffers import WroteOutside
    from stages.check import compare, failing
    from stages.error_model import ErrorModel
    from stages.expected import outputs_of
    from stages.inputs import POISONS
    from stages.launch import launch
    from stages.verify import same_bits

    inputs, want = pickle.loads(inputs_path(folder, known.milestone, known.name, seed).read_bytes())
    model = ErrorModel(case, inputs)
    first = None
    for i, mode in enumerate(MODES):
        try:
            with device.running(mode, seed, case.config.mbarriers):
                poison = POISONS[i % len(POISONS)]
                attention = launch(case, inputs, device.torch_device, poison, guarded=mode != MODES[-1])
            outside = () if first else failing(compare(case, outputs_of(case, attention), want, model))
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
    """Return the kind of error by which the emulator, or else Python, detects a mutant."""
    names = {each.__name__ for each in type(error).__mro__}
    if "Deadlock" in names:
        return "deadlock"
    return "finding" if "EmulatorError" in names else "error"


def _own_tests(milestones: Sequence[str], report: pool.Report, only: Sequence[str] = ()) -> None:
    """Run tests of milestones besides their cases. Raises Killed."""
    from lab.mutants import own_tests

    for milestone in milestones:
        report({"case": f"{milestone} tests"})
        pool.limit_cpu(TESTS_S)
        failed = own_tests.run(milestone, only)
        if failed is not None:
            raise Killed("test", failed[0], failed[1])


def _clock(milestones: Sequence[str], report: pool.Report) -> None:
    """Hold the milestones' first cases to their predicted cycles. Raises Killed."""
    from emulator.clock.uncertainty import mean_error
    from harness.judge.predict import launching, predicted
    from remote.device import Emulated
    from stages.catalog import find
    from stages.tolerances import most_cycles

    device = Emulated()
    margin = mean_error(device.chip)
    for milestone in milestones:
        cases = find(milestone).load().CASES
        case = cases[0]
        most = most_cycles(milestone, cases, margin, device.chip)[str(case)]
        report({"case": f"{milestone} clock"})
        pool.limit_cpu(COMPILE_S)
        try:
            cycles = sum(each.cycles for each in predicted(device, launching(case), case.config.mbarriers))
        except Exception as error:
            raise Killed("clock", f"{milestone} {case}", _said(error)) from error
        if cycles > most:
            raise Killed("clock", f"{milestone} {case}", f"{cycles:.0f} cycles, at most {most} are pinned")


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"
