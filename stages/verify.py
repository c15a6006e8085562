"""How a kernel is verified against its pins, and the pins against negative controls: outputs that are wrong."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

import kernel
from stages.case import Case
from stages.check import Figure, compare, failing
from stages.device import Device
from stages.expected import Outputs, outputs_of, reference
from stages.inputs import POISONS, Inputs, Poison, draw
from stages.launch import launch
from stages.locate import located
from stages.negative_controls import negative_controls, right

#: The tensors of a kernel's result.
NAMES = ("o", "u", "lse", "m")


@dataclass(frozen=True)
class Trial:
    """One launch: the order of completion, wall seconds, and the error that ended it, if one did."""

    mode: str
    seconds: float
    attention: kernel.Attention | None
    error: Exception | None = None


@dataclass(frozen=True)
class Result:
    """What a case gave: every trial, and the first whole output beside the reference."""

    case: Case
    seed: int | None
    trials: tuple[Trial, ...]
    figures: tuple[Figure, ...]
    got: Outputs | None
    want: Outputs


class Recorder(Protocol):
    """Where results are written down as they come; the harness brings one."""

    def result(self, result: Result) -> None:
        """Keep what a case gave, whether it holds or not."""

    def negative_control(self, name: str, refused_by: tuple[Figure, ...]) -> None:
        """Keep which figures refused a negative control; none means that it was let through."""


def verify(case: Case, seed: int, device: Device, recorder: Recorder) -> None:
    """Launch in every mode and with every poison, write down what came, then raise what is wrong with it.

    Raises the first launch's error, noting how the other modes ended; AssertionError where a figure lies
    outside its pin or two modes differ in bits.
    """
    kernel.compile(case.config)
    inputs = draw(case, seed)
    want = reference(case, inputs)
    count = max(len(device.modes), len(POISONS))
    how = [(device.modes[i % len(device.modes)], POISONS[i % len(POISONS)]) for i in range(count)]
    trials = tuple(_try(case, inputs, device, mode, poison, seed) for mode, poison in how)
    whole = [each.attention for each in trials if each.attention is not None]
    got = outputs_of(case, whole[0]) if whole else None
    figures = compare(case, got, want) if got else ()
    recorder.result(Result(case, seed, trials, figures, got, want))

    where = f"{case.milestone} {case.name} seed={seed}"
    _raise_first_error(trials, where)
    if got and (outside := failing(figures)):
        tensors = dict.fromkeys(figure.tensor for figure in outside)
        places = [line for tensor in tensors for line in located(case, inputs, got, want, tensor)]
        raise AssertionError("\n".join([f"{where}: outside its pins", *map(str, outside), *places]))
    for trial, attention in zip(trials, whole, strict=True):
        same_bits(whole[0], attention, where, f"{trials[0].mode} and {trial.mode} completion")


def same_bits(one: kernel.Attention, other: kernel.Attention, where: str, between: str) -> None:
    """Raises AssertionError naming the results of two launches that differ; a result that one lacks is left out."""
    differing = []
    for name in NAMES:
        x, y = getattr(one, name), getattr(other, name)
        if x is not None and y is not None and not torch.equal(x.view(torch.uint8), y.view(torch.uint8)):
            differing.append(name)
    assert not differing, f"{where}: {', '.join(differing)} differ in bits between {between}"


def refuse_negative_controls(case: Case, seed: int, recorder: Recorder) -> None:
    """Raises AssertionError where the comparison admits a negative control, or refuses the right output of them all.

    An edit that changes nothing (two rows swapped that are equal, as with one key) makes none.
    """
    inputs = draw(case, seed)
    want, sound = reference(case, inputs), right(case, inputs)
    outside = failing(compare(case, sound, want))
    assert not outside, f"the comparison refuses the rounded reference: {', '.join(map(str, outside))}"
    admitted = []
    for control in negative_controls(case):
        wrong = control.make(inputs, sound)
        if all(np.array_equal(wrong[name], sound[name]) for name in sound):
            continue
        refused_by = failing(compare(case, wrong, want))
        recorder.negative_control(f"{case.name}: {control.name}", refused_by)
        if not refused_by:
            admitted.append(control.name)
    assert not admitted, f"{case.milestone} {case.name}: the comparison admits {'; '.join(admitted)}"


def judge(case: Case, figures: tuple[Figure, ...], recorder: Recorder) -> None:
    """Write down figures that need no launch of their own; raises AssertionError where one does not hold."""
    recorder.result(Result(case, None, (), figures, None, {}))
    if outside := failing(figures):
        raise AssertionError("\n".join([f"{case.milestone} {case.name}: outside its pins", *map(str, outside)]))


def launched(case: Case, seed: int, device: Device) -> kernel.Attention:
    """One launch, in the device's first order of completion."""
    kernel.compile(case.config)
    with device.running(device.modes[0], seed):
        return launch(case, draw(case, seed), device.torch_device)


def _try(case: Case, inputs: Inputs, device: Device, mode: str, poison: Poison, seed: int) -> Trial:
    started = time.perf_counter()
    try:
        with device.running(mode, seed, case.config.mbarriers):
            attention = launch(case, inputs, device.torch_device, poison)
    except Exception as error:
        return Trial(mode, time.perf_counter() - started, None, error)
    return Trial(mode, time.perf_counter() - started, attention)


def _raise_first_error(trials: tuple[Trial, ...], where: str) -> None:
    failed = [each for each in trials if each.error]
    if not failed:
        return
    ends = ", ".join(f"{each.mode} {'failed' if each.error else 'ended'}" for each in trials)
    error = failed[0].error
    assert error is not None
    error.add_note(f"in {where} under {failed[0].mode} completion ({ends})")
    raise error
