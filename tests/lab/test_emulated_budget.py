"""Counts of emulated launches compared with the minimum for their shapes."""

import pytest
import torch

from emulator import progress
from kernel import FmhaConfig
from kernel.sm100.budget import CONFIGS
from lab import budget
from lab.budget import Counts, case_of, counts, emulated, ideal_bytes, ideal_flops, visible_keys
from remote.device import Emulated
from stages.case import Case
from stages.d5d import CASES
from stages.inputs import draw

pytestmark = pytest.mark.usefixtures("kept_kernels")


@pytest.fixture(scope="module")
def device() -> Emulated:
    return Emulated()


@pytest.mark.long
def test_softmax_stays_within_twelve_hundred_instructions_a_tile(device: Emulated) -> None:
    """Every fourth pair of exponentials is a polynomial: more instructions, but on a pipe that has capacity left."""
    softmax, many_keys = emulated(FmhaConfig(head_dim=128), device)
    assert 256 < int(softmax.split()[1]) <= 1200, softmax
    assert many_keys.split()[2:6] == ["1.00", "of", "the", "ideal"]


def test_the_listed_keys_of_a_layer_cost_what_they_must(device: Emulated) -> None:
    """The whole DSV4-Flash shape, top 512: at most 1.25 times the flops and bytes of its visible keys."""
    case = next(each for each in CASES if each.compressed and each.compressed.topk == 512)
    inputs = draw(case, 0)
    done = counts(case, inputs, device)
    assert 1 <= done.flops / ideal_flops(case, inputs) <= 1.25
    assert 1 <= done.copied_bytes / ideal_bytes(case, inputs) <= 1.25


def test_a_part_of_a_tile_counts_whole(device: Emulated) -> None:
    """The tensor cores process 65 keys like 128, and TMA fills the rest of the tile."""
    case = Case("budget", 64, 65)
    inputs = draw(case, 0)
    done = counts(case, inputs, device)
    assert done.flops == ideal_flops(case, inputs) * 128 // 65
    outputs_and_q = 128 * 64 * (2 + 2 + 4)
    assert done == Counts(done.instructions, done.flops, outputs_and_q + 2 * 128 * 64 * 2)


def test_ideal_figures_of_a_small_case() -> None:
    case = Case("budget", 64, 300, 256, 2, lens=(200,), causal=True, window=128, shared_kv=True)
    inputs = draw(case, 0)
    assert visible_keys(case, inputs) == 2 * 128
    assert ideal_flops(case, inputs) == 2 * 2 * 256 * 64 * 2 * 128
    assert ideal_bytes(case, inputs) == 2 * 256 * 64 * 8 + 2 * 128 * 64 * 2


def test_a_cta_with_fewer_heads_than_rows_reads_the_keys_of_one_token() -> None:
    case = next(each for each in CASES if each.heads < each.config.block_m and each.config.compressed == "topk")
    inputs = draw(case, 0)
    outputs_and_q = case.batch * case.tokens * case.heads * (2 + 2)
    assert ideal_bytes(case, inputs) == (outputs_and_q + 2 * visible_keys(case, inputs)) * 512


def test_progress_is_shown_before_each_shape(
    device: Emulated, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(budget, "counts", lambda case, inputs, device: Counts(1, 2, 3))
    shown = list[str]()
    monkeypatch.setattr(progress, "_draw", lambda: shown.extend(text for text, _ in progress._activities))
    lines = list(budget.layers(device))
    assert [line.split(": ")[0] for line in lines] == [case.name for case in CASES]
    assert shown == [f"shape {n} of {len(CASES)}" for n in range(1, len(CASES) + 1)]
    assert capsys.readouterr().err == "", "no terminal"


def test_entries_that_count_are_visible_keys() -> None:
    case = next(each for each in CASES if each.compressed and each.compressed.topk == 1024)
    inputs = draw(case, 0)
    assert inputs.topk_indices is not None
    listed = torch.count_nonzero((inputs.topk_indices >= 0) & (inputs.topk_indices < case.blocks))
    assert visible_keys(case, inputs) == 128 + int(listed)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_a_case_asks_for_the_configuration_it_is_made_for(config: FmhaConfig) -> None:
    assert case_of(config, 2).config == config
