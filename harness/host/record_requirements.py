"""Requirements on the record of a milestone, from the pins and seeds of the accepted tree, and their check.

The pins of `stages/tolerances.toml` name every case with its figures, and the milestone's module its seeds. On a GPU,
`tolerances.gpu.toml` replaces some pins. All are read as data: the supervisor has nothing but Python, and imports
nothing that it judges with.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Pins = dict[str, dict[str, float]]

#: Metrics that must be at least their pin. All others must be at most theirs.
AT_LEAST = frozenset({"cosine", "worst_row"})
#: A pin is at most twice a measured error. A `diff`, a mean of squares, that is this much below its pin is less than
#: the rounding of bf16 and fp32 leaves: something other than the kernel's arithmetic computed it.
FLOOR = 1e-3
#: The pin of a `diff` that is 0 in each measured seed, as with a single key, whose P is 1.
EXACT = 1e-12


class RequirementsError(ValueError):
    """The accepted tree has no readable requirements of a milestone."""


@dataclass(frozen=True)
class Requirements:
    """The pins of each case of a milestone, by tensor and metric, and the milestone's own seeds."""

    milestone: str
    cases: dict[str, Pins]
    seeds: tuple[int, ...]

    def objections(self, record: dict[str, Any], fresh: int, modes: Sequence[str]) -> Iterator[str]:
        """Yield a phrase for each reason why a record does not show that the milestone holds.

        fresh: the seed that the supervisor drew; modes: completion modes in which every case must have been launched.
        """
        by_case: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for case in objects(record, "cases"):
            if case.get("outcome") != "passed":
                yield f"case {_text(case.get('name'))} is {_text(case.get('outcome'))}"
            if isinstance(case.get("seed"), int) and case.get("name") in self.cases:
                by_case.setdefault((case["name"], case["seed"]), []).append(case)
        for name, pins in self.cases.items():
            for seed in (*self.seeds, fresh):
                found = by_case.get((name, seed), [])
                if len(found) != 1:
                    yield f"case {name} seed={seed} is there {len(found)} times"
                for case in found:
                    yield from (f"case {name} seed={seed}: {said}" for said in _of_a_case(case, pins, modes))
            controls = [each for each in objects(record, "mutants") if str(each.get("name")).startswith(f"{name}: ")]
            if not controls:
                yield f"case {name}: no negative control was compared"
        for each in objects(record, "mutants"):
            if each.get("refused") is not True or not each.get("by"):
                yield f"negative control {_text(each.get('name'))} was accepted"


def read(stages: Path, milestone: str, gpu: bool = False) -> Requirements:
    """Read the requirements of a milestone in the folder `stages` of a checkout, for a GPU or the emulated device.

    Raises RequirementsError.
    """
    module = stages / f"{milestone.lower().replace('.', '_')}.py"
    try:
        cases = tomllib.loads((stages / "tolerances.toml").read_text())[milestone]
        other = tomllib.loads((stages / "tolerances.gpu.toml").read_text()).get(milestone, {}) if gpu else {}
        seeds = _seeds(ast.parse(module.read_text()))
    except (OSError, ValueError, KeyError, SyntaxError) as error:
        said = f"{type(error).__name__}: {error}"
        raise RequirementsError(f"{milestone} has no requirements in {stages.name}: {said}") from error
    if not cases or not seeds:
        raise RequirementsError(f"{milestone} has {len(cases)} pinned cases and {len(seeds)} seeds: both must be there")
    of_gpu = {name: _with(pins, other.get(name, {})) for name, pins in cases.items()}
    return Requirements(milestone, of_gpu, seeds)


def _with(pins: Pins, other: Pins) -> Pins:
    return {tensor: bounds | other.get(tensor, {}) for tensor, bounds in pins.items()}


def _seeds(module: ast.Module) -> tuple[int, ...]:
    """Return the seeds that a module assigns to SEEDS. Raises KeyError or ValueError."""
    for node in module.body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["SEEDS"]:
            found = ast.literal_eval(node.value)
            return tuple(int(seed) for seed in found)
    raise KeyError("SEEDS")


def _of_a_case(case: dict[str, Any], pins: Pins, modes: Sequence[str]) -> Iterator[str]:
    """Yield the faults of the launches and figures of a case."""
    launches = objects(case, "launches")
    if {each.get("mode") for each in launches} != set(modes) or any(each.get("error") for each in launches):
        yield f"launched as {_text([each.get('mode') for each in launches])}, not in {', '.join(modes)}"
    figures = {(each.get("tensor"), each.get("metric")): each for each in objects(case, "figures")}
    wanted = {(tensor, metric): pin for tensor, metrics in pins.items() for metric, pin in metrics.items()}
    if figures.keys() != wanted.keys() or len(figures) != len(objects(case, "figures")):
        yield f"has {len(figures)} figures, pinned are {len(wanted)}"
        return
    for (tensor, metric), pin in wanted.items():
        figure = figures[tensor, metric]
        value = figure.get("value")
        if figure.get("pin") != pin:
            yield f"{tensor}.{metric} was compared with {_text(figure.get('pin'))}, pinned is {pin}"
        if not isinstance(value, int | float) or not (value >= pin if metric in AT_LEAST else value <= pin):
            yield f"{tensor}.{metric} = {_text(value)} is outside its pin {pin}"
        elif metric == "diff" and pin > EXACT and value < pin * FLOOR:
            yield f"{tensor}.diff = {value:.2g} is less than the rounding of bf16 and fp32 leaves (pinned {pin:.2g})"


def objects(record: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects in the list `name` of a record; [] if there is no such list."""
    found = record.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _text(thing: object) -> str:
    return str(thing)[:80]
