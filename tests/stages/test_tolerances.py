"""The pins are complete and hold the floor."""

import tomllib
from copy import deepcopy

import pytest

from stages.catalog import CATALOG
from stages.metrics import ALL_METRICS
from stages.tolerances import GPU_FILE, PinError, Pins, check, most_cycles, pins

FLOOR = {"O": {"cosine": 0.999997, "diff": 5e-6}, "lse": {"error": 2e-6}}
GOOD: Pins = {
    "O": {
        "cosine": 0.999998, "diff": 5e-6, "bias": 5e-4,
        "worst_row": 0.9, "max_abs": 1, "max_rel": 1, "element": 1, "masks": 0,
    },
    "lse": {"error": 1e-6, "masks": 0},
}  # fmt: skip


def test_every_case_of_a_built_milestone_pins_every_tensor() -> None:
    for milestone in CATALOG:
        for case in milestone.load().CASES if milestone.built else ():
            assert pins(case.milestone, case.name, case.floor).keys() == set(case.tensors), case


def test_the_floor_of_the_milestones_is_in_the_file() -> None:
    """The figures of docs/reference/milestones.md for hd=64: a pin at the floor holds, one beyond it does not."""
    held = pins("D1.1", "hd=64 n=128", "64 one KV tile")
    assert held["O"]["cosine"] >= 0.999997 and held["O"]["diff"] <= 5e-6 and held["O"]["worst_row"] >= 0.99999
    assert held["O"]["element"] <= 1 and held["lse"]["error"] <= 2e-6


def test_every_pin_of_a_gpu_replaces_a_tighter_one_of_the_same_case() -> None:
    """Products of the emulated device sum in fp32; those of a GPU are truncated, and no more exact."""
    cases = {(each.milestone, each.name): each for each in (case for m in CATALOG for case in m.load().CASES)}
    for milestone, table in tomllib.loads(GPU_FILE.read_text()).items():
        for name in table:
            if milestone == "floor":
                continue
            case = cases[milestone, name]
            emulated = pins(milestone, name, case.floor)
            for tensor, bounds in pins(milestone, name, case.floor, gpu=True).items():
                changed = {metric for metric, bound in bounds.items() if bound != emulated[tensor][metric]}
                assert changed == set(table[name].get(tensor, {})), f"{milestone} {name}: {tensor}"
                for metric in ALL_METRICS[tensor]:
                    if metric.name in changed:
                        assert metric.holds(emulated[tensor][metric.name], bounds[metric.name]), f"{name}: {metric}"


def test_a_case_without_pins_is_an_error() -> None:
    with pytest.raises(PinError, match=r"no pins for D1\.1, case 'hd=64 n=999'"):
        pins("D1.1", "hd=64 n=999", "64")


def test_every_milestone_pins_its_cycles() -> None:
    for chip in ("b200", "h200"):
        built = [milestone.id for milestone in CATALOG if milestone.built]
        assert all(most_cycles(milestone, 0.0, chip) > 1000 for milestone in built)
        assert most_cycles("D1.1", 0.5, chip) == 1.5 * most_cycles("D1.1", 0.0, chip)
    with pytest.raises(PinError, match=r"no cycles for D99: make pin-cycles"):
        most_cycles("D99", 0.0)


def test_pins_at_the_floor_hold() -> None:
    assert check(GOOD, FLOOR, "here") == GOOD


@pytest.mark.parametrize(
    ("tensor", "metric", "value"), [("O", "cosine", 0.9999969), ("O", "diff", 5.1e-6), ("lse", "error", 2.1e-6)]
)
def test_a_pin_looser_than_the_floor_is_rejected(tensor: str, metric: str, value: float) -> None:
    table = deepcopy(GOOD)
    table[tensor][metric] = value
    with pytest.raises(PinError, match=f"here: {tensor}.{metric} = .* is looser than the floor"):
        check(table, FLOOR, "here")


def test_a_metric_without_a_pin_is_rejected() -> None:
    table = deepcopy(GOOD)
    del table["O"]["element"]
    with pytest.raises(PinError, match=r"here: O must pin .*element"):
        check(table, FLOOR, "here")


def test_an_unknown_tensor_or_metric_is_rejected() -> None:
    with pytest.raises(PinError, match="no tensor 'P'; there are O, U, lse, m"):
        check({"P": {}}, FLOOR, "here")
    with pytest.raises(PinError, match="lse must pin"):
        check({"lse": {"error": 1e-6, "masks": 0, "mood": 1}}, FLOOR, "here")
