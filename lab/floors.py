"""Figures that people know, as large as the error model lets them be: `python -m lab.floors [MILESTONE...]`.

For each milestone it prints what a right kernel may reach in its cases with seed 1, on the emulated device and on a
GPU, beside the pins (for a cosine, 1 - cosine). docs/explanation/error-model.md derives the bounds.
"""

from __future__ import annotations

import argparse
from typing import Final

import numpy as np

from stages.case import Case
from stages.catalog import CATALOG, find
from stages.error_model import P_VARIANCE, ROUNDS, SPREAD, TRUNCATES, ErrorModel, OutputModel, TensorCore
from stages.expected import Outputs, reference
from stages.inputs import draw
from stages.metrics import Array, measure
from stages.tolerances import pins

EXPONENT: Final = 24.5  # squares exceed their bound with a probability of exp(-EXPONENT), as z_square does its own
OF_OUTPUTS: Final = {"O": ("element", "element_or"), "U": ()}
OF_ROWS: Final = {"lse": ("error", "element_or"), "m": ("error",)}
Floors = dict[tuple[str, str], float]
"""Figures by tensor and metric."""


def elements(model: OutputModel) -> Array:
    """Return the largest error of each element: SPREAD deviations, or all roundings in one direction if less."""
    noise, size = model.noise, np.abs(model.values)
    rounded = noise.p > P_VARIANCE / 5  # a P that is exact errs by less than SPREAD deviations
    width = np.where(rounded, np.sqrt(3 * P_VARIANCE), SPREAD * np.sqrt(noise.p))
    logits = noise.weight**2 * noise.logits
    of_logits = np.sqrt(logits @ size**2) + np.abs(model.y) * np.sqrt(np.sum(logits, 1, keepdims=True))
    together = (noise.weight * width) @ size + np.sqrt(3 * noise.rounding) + SPREAD * of_logits
    found: Array = np.minimum(together, SPREAD * model.sigma + np.abs(noise.known)) + model.reach
    return found + np.abs(noise.possible)


def squares(models: list[OutputModel]) -> float:
    """Return the largest sum of the squared errors of all rows.

    Beyond what is bounded, and roundings of O that are known or possible, a sum of squares with covariance C exceeds
    tr C + 2 sqrt(t tr C^2) + 2 t |C| with a probability of at most exp(-t) (Hsu, Kakade and Zhang, 2012).
    """
    certain = [(each.noise.known != 0) | (each.noise.possible != 0) for each in models]
    trace = sum(np.sum(each.square) - np.sum(each.noise.rounding[at]) for each, at in zip(models, certain, strict=True))
    norms = np.concatenate([each.square / np.maximum(each.freedom, 1) for each in models])
    known = sum(np.sum(each.noise.known**2 + each.noise.possible**2) for each in models)
    bounded = np.sqrt(sum(np.sum(each.length**2) for each in models)) + np.sqrt(known)
    random = trace + 2 * np.sqrt(EXPONENT * np.sum(norms**2)) + 2 * EXPONENT * np.max(norms)
    return float((np.sqrt(random) + bounded) ** 2)


def floors(case: Case, want: Outputs, model: ErrorModel) -> Floors:
    """Return the largest figures of a right kernel; for cosine, 1 - cosine."""
    found: Floors = {}

    def add(tensor: str, figures: dict[str, float]) -> None:
        found.update({(tensor, name): max(found.get((tensor, name), 0.0), x) for name, x in figures.items()})

    for tensor in case.tensors:
        if tensor in OF_ROWS:
            for group in model.groups:
                right = want[tensor][group.rows]
                most = group.lse if tensor == "lse" else np.maximum(group.above, group.below)
                figures = measure(right + np.where(np.isfinite(right), most, 0.0), right)
                add(tensor, {name: figures[name] for name in OF_ROWS[tensor]})
            continue
        models = [group.outputs[tensor] for group in model.groups]
        ratio = np.sqrt(squares(models) / sum(np.sum(each.y**2) for each in models))
        add(tensor, {"cosine": float(1 - np.sqrt(1 - ratio**2)), "diff": float(ratio**2 / (1 + (1 - ratio) ** 2))})
        for each in models:
            figures = measure(each.y + elements(each), each.y)
            add(tensor, {name: figures[name] for name in OF_OUTPUTS[tensor]})
    return found


def of_milestone(name: str, core: TensorCore, seed: int = 1) -> Floors:
    """Return the largest figures of all cases of a milestone."""
    largest: Floors = {}
    for case in find(name).load().CASES:
        inputs = draw(case, seed)
        want = reference(case, inputs)
        for key, value in floors(case, want, ErrorModel(case, inputs, core)).items():
            largest[key] = max(largest.get(key, 0.0), value)
    return largest


def pinned(name: str, core: TensorCore) -> Floors:
    """Return the pins of these figures."""
    table = pins(name, core is not ROUNDS)
    return {
        (tensor, metric): 1 - pin if metric == "cosine" else pin
        for tensor, of_tensor in table.items()
        for metric, pin in of_tensor.items()
    }


def main() -> None:
    """Run the command line that the module's docstring describes."""
    parser = argparse.ArgumentParser(prog="python -m lab.floors", description=__doc__)
    parser.add_argument("milestones", nargs="*", metavar="MILESTONE")
    for name in parser.parse_args().milestones or [each.id for each in CATALOG]:
        for core in (ROUNDS, TRUNCATES):
            right = pinned(name, core)
            for (tensor, metric), value in of_milestone(name, core).items():
                print(f"{name}  {core.name:9}  {tensor}.{metric:10}  {value:.2e}  pin {right[tensor, metric]:.2e}")


if __name__ == "__main__":
    main()
