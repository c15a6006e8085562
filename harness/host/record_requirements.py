"""Requirements on the record of a milestone, from the pins and seeds of the accepted tree, and their check.

`stages/cases.toml` names every case with its results, `stages/tolerances.toml` has the pins of their figures, and the
milestone's module its seeds. All are read as data: the supervisor has nothing but Python, and imports nothing that it
judges with.
"""

from __future__ import annotations

import ast
import math
import tomllib
from collections import ChainMap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

Pins = dict[str, dict[str, float]]

#: Metrics that must be at least their pin. All others must be at most theirs.
AT_LEAST = frozenset({"cosine"})
#: The largest `diff` of a milestone's cases, a mean of squares, is at least this share of its pin. Less is less than
#: the rounding of bf16 and fp32 leaves: something other than the kernel's arithmetic computed it. A single case may be
#: exact, as with one key, whose P is 1.
FLOOR = 1e-3


class Beyond(NamedTuple):
    """A case whose figures are beyond bounds of the error model for some seeds."""

    case: str
    seeds: tuple[int, ...]
    figures: str


class RequirementsError(ValueError):
    """The accepted tree has no readable requirements of a milestone."""


@dataclass(frozen=True)
class Requirements:
    """The pins of each case of a milestone, by tensor and metric, and the milestone's own seeds.

    added_up: most standard deviations of z_factor of a case's seeds, added up. beside: the pins of the cases of other
    milestones, by their name with the milestone; they are launched once, for the fresh seed.
    """

    milestone: str
    cases: dict[str, Pins]
    seeds: tuple[int, ...]
    added_up: float = math.inf
    beside: dict[str, Pins] = field(default_factory=dict)

    def objections(self, record: dict[str, Any], fresh: int, modes: Sequence[str]) -> Iterator[str]:
        """Yield a phrase for each reason why a record does not show that the milestone holds.

        fresh: the seed that the supervisor drew, for which every case must have been launched in all completion modes;
        for other seeds, in the first.
        """
        by_case, proven = self._by_case(record), record.get("proven")
        for case in objects(record, "cases"):
            if case.get("outcome") != "passed":
                yield f"case {_text(case.get('name'))} is {_text(case.get('outcome'))}"
        for name, pins in (self.cases | self.beside).items():
            if not isinstance(proven, dict) or not proven.get(name):
                yield f"case {name}: no feature was seen in its PTX and launches"
            for seed in (*self.seeds, fresh) if name in self.cases else (fresh,):
                found = by_case.get((name, seed), [])
                if len(found) != 1:
                    yield f"case {name} seed={seed} is there {len(found)} times"
                for case in found:
                    faults = _of_a_case(case, pins, modes if seed == fresh and name in self.cases else modes[:1])
                    yield from (f"case {name} seed={seed}: {said}" for said in faults)
        for name in self.cases:
            controls = [each for each in objects(record, "mutants") if str(each.get("name")).startswith(f"{name}: ")]
            if not controls:
                yield f"case {name}: no negative control was compared"
        yield from _too_exact(by_case, self.cases)
        yield from (f"case {each.case}: {each.figures}" for each in self.beyond_added_up(record))
        for each in objects(record, "mutants"):
            if each.get("refused") is not True or not each.get("by"):
                yield f"negative control {_text(each.get('name'))} was accepted"

    def beyond_added_up(self, record: dict[str, Any]) -> Iterator[Beyond]:
        """Yield each case whose seeds, added up, show a factor."""
        by_case = self._by_case(record)
        for name, pins in self.cases.items():
            seeds = tuple(seed for case, seed in by_case if case == name)
            for tensor in pins:
                of_seeds = (each for seed in seeds for each in by_case[name, seed])
                values = [value for each in of_seeds for value in _values(each, tensor, "z_factor")]
                if values and abs(sum(values)) > self.added_up * math.sqrt(len(values)):
                    said = f"{tensor}.z_factor of {len(values)} seeds adds up to {sum(values):.3g}"
                    yield Beyond(name, seeds, said)

    def _by_case(self, record: dict[str, Any]) -> Recorded:
        found: Recorded = {}
        for case in objects(record, "cases"):
            if isinstance(case.get("seed"), int) and case.get("name") in (*self.cases, *self.beside):
                found.setdefault((case["name"], case["seed"]), []).append(case)
        return found


def read(stages: Path, milestone: str, gpu: bool = False, beside: Sequence[str] = ()) -> Requirements:
    """Read the requirements of a milestone in the folder `stages` of a checkout, for a GPU or the emulated device.

    beside: other milestones, of which its run has cases too, and names of such cases. Raises RequirementsError.
    """
    module = stages / f"{milestone.lower().replace('.', '_')}.py"
    try:
        named = tomllib.loads((stages / "cases.toml").read_text())
        table = tomllib.loads((stages / "tolerances.toml").read_text())
        cases = _pinned(named[milestone], table, milestone, gpu)
        some, needed = named.get(f"{milestone} beside"), named.get("needs", {}).get(milestone)
        others: dict[str, Pins] = {}
        for other, _, drawn in (each.partition(" ") for each in beside):
            wanted = list(named[other])[: None if other == needed else 1] if some is None else some.get(other, [])
            chosen = {name: of for name, of in named[other].items() if name in ([drawn] if drawn else wanted)}
            others |= {f"{other} {name}": pins for name, pins in _pinned(chosen, table, other, gpu).items()}
        added_up = float(table["every_seed"]["z_factor"])
        seeds = _seeds(ast.parse(module.read_text()))
    except (OSError, ValueError, KeyError, SyntaxError, AttributeError, TypeError) as error:
        said = f"{type(error).__name__}: {error}"
        raise RequirementsError(f"{milestone} has no requirements in {stages.name}: {said}") from error
    if not cases or not seeds:
        raise RequirementsError(f"{milestone} has {len(cases)} cases and {len(seeds)} seeds: both must be there")
    return Requirements(milestone, cases, seeds, added_up, others)


def _pinned(named: dict[str, str], table: dict[str, Any], milestone: str, gpu: bool) -> dict[str, Pins]:
    """Return the pins of a milestone's cases. named: the tensors of each. table: tolerances.toml."""
    every, own = table["every"], table.get(milestone, {})
    layers = (every, every.get("gpu", {}) if gpu else {}, own, own.get("gpu", {}) if gpu else {})
    pins = {tensor: dict(ChainMap(*(each.get(tensor, {}) for each in reversed(layers)))) for tensor in every}
    return {name: {tensor: pins[tensor] for tensor in tensors.split()} for name, tensors in named.items()}


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
        if not isinstance(value, int | float) or not (value >= pin if metric in AT_LEAST else abs(value) <= pin):
            yield f"{tensor}.{metric} = {_text(value)} is outside its pin {pin}"


Recorded = dict[tuple[str, int], list[dict[str, Any]]]


def _values(case: dict[str, Any], tensor: str, metric: str) -> list[float]:
    """Return the values of a figure of a case that are numbers."""
    found = (each for each in objects(case, "figures") if (each.get("tensor"), each.get("metric")) == (tensor, metric))
    return [each["value"] for each in found if isinstance(each.get("value"), int | float)]


def _too_exact(by_case: Recorded, cases: dict[str, Pins]) -> Iterator[str]:
    """Yield an objection if results are closer to the reference in every case than rounding leaves them."""
    pins = [each["O"]["diff"] for each in cases.values() if "diff" in each.get("O", {})]
    found = [value for each in by_case.values() for case in each for value in _values(case, "O", "diff")]
    if pins and found and max(found) < min(pins) * FLOOR:
        yield f"O.diff is at most {max(found):.2g}, less than the rounding of bf16 and fp32 leaves"


def objects(record: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects in the list `name` of a record; [] if there is no such list."""
    found = record.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _text(thing: object) -> str:
    return str(thing)[:80]
