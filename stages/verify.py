"""Verification of a kernel against its pins, and of the pins against negative controls."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import torch

import kernel
from stages.calls import callers
from stages.case import Case
from stages.check import Figure, compare, failing
from stages.device import Device
from stages.error_model import ErrorModel, tensor_core
from stages.expected import Outputs, outputs_of, reference
from stages.inputs import POISONS, Inputs, Poison, draw
from stages.launch import Order, launch
from stages.locate import describe_errors
from stages.negative_controls import negative_controls, stored

#: Tensors of kernel.Attention.
NAMES = ("o", "u", "lse", "m")


@dataclass(frozen=True)
class Trial:
    """One launch: its completion mode, wall seconds, and result or error.

    Of an emulated launch, work: by kind. clusters: one of those that ran the same blocks equally often, of each kind.
    acted: by launch, the places of the operations that it executed (`Stats.acted`).
    """

    mode: str
    seconds: float
    attention: kernel.Attention | None
    error: Exception | None = None
    work: Counter[str] = field(default_factory=Counter)
    clusters: frozenset[tuple[int, int, int]] = frozenset()
    acted: tuple[Set[int], ...] = ()


@dataclass(frozen=True)
class Result:
    """Result of a case: all trials, and the outputs of the first that ended without an error, with the reference."""

    case: Case
    seed: int | None
    trials: tuple[Trial, ...]
    figures: tuple[Figure, ...]
    got: Outputs | None
    want: Outputs


class Recorder(Protocol):
    """Interface that records results as they come. The harness provides the implementation."""

    def result(self, result: Result) -> None:
        """Record the result of a case, passed or failed."""

    def negative_control(self, name: str, rejected_by: tuple[Figure, ...]) -> None:
        """Record the figures that rejected a negative control; none if it was accepted."""


def verify(case: Case, seed: int, device: Device, recorder: Recorder, once: bool = False) -> None:
    """Launch a case in every completion mode, or `once`, record the result, and raise if it is wrong.

    Raises the error of the first launch that failed, with a note on the other modes. Raises AssertionError if a figure
    lies outside its pin or two modes differ in bits.
    """
    inputs, want, _ = expected(case, seed, device.is_gpu)
    trials, got, figures = _compared(case, seed, device, once)
    recorder.result(Result(case, seed, trials, figures, got, want))

    where = f"{case.milestone} {case.name} seed={seed}"
    raise_first_error(trials, where)
    if got and (outside := failing(figures)):
        tensors = dict.fromkeys(figure.tensor for figure in outside)
        places = [line for tensor in tensors for line in describe_errors(case, inputs, got, want, tensor)]
        raise AssertionError("\n".join([f"{where}: outside its pins", *map(str, outside), *places]))
    all_same_bits(trials, where)


def figures_of(case: Case, seed: int, device: Device) -> tuple[tuple[Trial, ...], tuple[Figure, ...]]:
    """Launch a case in every completion mode. Return the trials, and the figures of the first that ended."""
    trials, _, figures = _compared(case, seed, device)
    return trials, figures


@lru_cache(maxsize=4)  # seeds of one case: its negative controls are compared with the first one again
def expected(case: Case, seed: int, is_gpu: bool) -> tuple[Inputs, Outputs, ErrorModel]:
    """Return the inputs of a case, the reference and the error model. None of them may be modified."""
    inputs = draw(case, seed)
    return inputs, reference(case, inputs), ErrorModel(case, inputs, tensor_core(is_gpu))


def _compared(
    case: Case, seed: int, device: Device, once: bool = False
) -> tuple[tuple[Trial, ...], Outputs | None, tuple[Figure, ...]]:
    """Launch a case in every mode or once. Return the trials, and the outputs and figures of the first that ended."""
    inputs, want, model = expected(case, seed, device.is_gpu)
    trials = launch_in_modes(case, inputs, device, seed, once)
    attention = next((each.attention for each in trials if each.attention is not None), None)
    if attention is None:
        return trials, None, ()
    got = outputs_of(case, attention)
    return trials, got, compare(case, got, want, model)


def launch_in_modes(case: Case, inputs: Inputs, device: Device, seed: int, once: bool) -> tuple[Trial, ...]:
    """Launch a case in every completion mode, with every poison, each time in another order; or `once` in the first.

    In the last of several launches the call allocates its results itself.
    """
    callers[-1].compile_s(case)
    count = 1 if once else max(len(device.modes), len(POISONS))
    orders = [Order.of(case, seed, i) for i in range(count)]
    runs = [(device.modes[i % len(device.modes)], POISONS[i % len(POISONS)], orders[i]) for i in range(count)]
    return tuple(_try(case, inputs, device, seed, *run, guarded=run != runs[-1] or once) for run in runs)


def all_same_bits(trials: tuple[Trial, ...], where: str) -> None:
    """Compare the results of launches that all ended. Raises AssertionError naming the tensors that differ in bits."""
    first = trials[0]
    for trial in trials[1:]:
        assert first.attention is not None and trial.attention is not None
        same_bits(first.attention, trial.attention, where, f"{first.mode} and {trial.mode} completion")


def same_bits(one: kernel.Attention, other: kernel.Attention, where: str, between: str) -> None:
    """Compare the tensors that both results have. Raises AssertionError naming those that differ in bits."""
    differing = []
    for name in NAMES:
        x, y = getattr(one, name), getattr(other, name)
        if x is not None and y is not None and not torch.equal(x.view(torch.uint8), y.view(torch.uint8)):
            differing.append(name)
    assert not differing, f"{where}: {', '.join(differing)} differ in bits between {between}"


def reject_negative_controls(case: Case, seed: int, device: Device, recorder: Recorder) -> None:
    """Compare every negative control with the pins of the device.

    Controls that equal the correct output (such as two swapped rows that are equal) are left out. Raises AssertionError
    if the comparison accepts a negative control, or rejects the correct output.
    """
    inputs, want, model = expected(case, seed, device.is_gpu)
    correct = stored(want)
    outside = failing(compare(case, correct, want, model))
    assert not outside, f"the comparison rejects the rounded reference: {', '.join(map(str, outside))}"
    accepted = []
    for control in negative_controls(case):
        wrong = control.make(inputs, correct)
        changed = {name for name in correct if not np.array_equal(wrong[name], correct[name])}
        if not changed:
            continue
        # Tensors that are as in the correct output hold, as it does. U is compared divided by exp(lse - m).
        affected = tuple(name for name in case.tensors if name in changed or (name == "U" and changed != {"O"}))
        rejected_by = failing(compare(case, wrong, want, model, affected))
        recorder.negative_control(f"{case.name}: {control.name}", rejected_by)
        if not rejected_by:
            accepted.append(control.name)
    assert not accepted, f"{case.milestone} {case.name}: the comparison accepts {'; '.join(accepted)}"


def check_figures(case: Case, figures: tuple[Figure, ...], recorder: Recorder) -> None:
    """Record figures that need no launch. Raises AssertionError if one lies outside its pin."""
    recorder.result(Result(case, None, (), figures, None, {}))
    if outside := failing(figures):
        raise AssertionError("\n".join([f"{case.milestone} {case.name}: outside its pins", *map(str, outside)]))


def launched(case: Case, seed: int, device: Device, inputs: Inputs | None = None) -> kernel.Attention:
    """Launch a case once, in the first completion mode of the device. inputs: other ones than those of the seed."""
    callers[-1].compile_s(case)
    with device.running(device.modes[0], seed):
        return launch(case, draw(case, seed) if inputs is None else inputs, device.torch_device)


def _try(
    case: Case, inputs: Inputs, device: Device, seed: int, mode: str, poison: Poison, order: Order, guarded: bool
) -> Trial:
    started = time.perf_counter()
    try:
        with device.running(mode, seed, callers[-1].mbarriers(case)) as ran:
            attention = launch(case, inputs, device.torch_device, poison, order, guarded)
    except Exception as error:
        return Trial(mode, time.perf_counter() - started, None, error)
    launched = getattr(ran, "launches", ())
    seconds, acted = time.perf_counter() - started, tuple(each.stats.acted for each in launched)
    return Trial(mode, seconds, attention, None, total(launched), launched_clusters(launched), acted)


def total(launches: Iterable[Any]) -> Counter[str]:
    """Return the work of emulated launches by kind."""
    return sum((Counter(each.stats.work) for each in launches), Counter())


def launched_clusters(launches: Iterable[Any]) -> frozenset[tuple[int, int, int]]:
    """Return a cluster of each kind: those of a kind ran the same blocks, each equally often."""
    return frozenset(index for each in launches for index in each.stats.paths.values())


def raise_first_error(trials: tuple[Trial, ...], where: str) -> None:
    """Raise the error of the first launch that failed, if any, with a note on how the launches of all modes ended."""
    failed = [each for each in trials if each.error]
    if not failed:
        return
    ends = ", ".join(f"{each.mode} {'failed' if each.error else 'ended'}" for each in trials)
    error = failed[0].error
    assert error is not None
    error.add_note(f"in {where} under {failed[0].mode} completion ({ends})")
    raise error
