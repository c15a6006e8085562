"""Inputs of a case, what is poisoned in them, and buffers that show what was written beside the outputs."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from kernel import oracle
from stages.buffers import GUARD, GUARD_VALUE, Poisoned, WroteOutside
from stages.case import Case, Compressed
from stages.catalog import CATALOG, runnable
from stages.check import measured
from stages.error_model import ErrorModel
from stages.expected import reference
from stages.inputs import draw, poisoned, poisoned_compressed
from stages.launch import placed

ALL = [case for milestone in CATALOG for case in milestone.load().CASES]
FAR = Case(
    "none", 64, 20, 3, 2, 2, None, True, False,
    lens=(18, 3), causal=True, window=8, compressed=Compressed((30, 1), ratio=4), sinks=(0.5, -1.0),
)  # fmt: skip


def test_names_tell_the_cases_of_a_milestone_apart() -> None:
    names = [(case.milestone, case.name) for case in ALL]
    assert len(set(names)) == len(names)
    assert str(replace(FAR, merged=True)) == (
        "hd=64 n=20 B=2 T=2 H=3 V=K O and lse lens=18,3 W=8 blocks of 4 sink merged"
    )


@pytest.mark.parametrize("name", ["D2", "D5c", "D6a", "D6b", "D6c", "D6d", "D6e"])
def test_tensors_on_another_device_have_the_same_strides_offset_and_memory_around_them(name: str) -> None:
    for case in runnable(name).load().CASES:
        inputs = draw(case, 1)
        here, there = (placed(case, inputs, device) for device in ("cpu", "meta"))
        assert {name: layout(each) for name, each in there.items()} == {
            name: layout(each) for name, each in here.items()
        }


def layout(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return what a launch depends on besides values."""
    return tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.untyped_storage().nbytes()


@pytest.mark.parametrize("name", ["o", "u", "lse", "m"])
@pytest.mark.parametrize("beside", [-1, -GUARD, 0, GUARD - 1], ids=["-1", "first guard", "end", "last guard"])
def test_an_element_beside_an_output_is_seen(name: str, beside: int) -> None:
    q = torch.zeros(1, 2, 3, 64).bfloat16()
    buffers = Poisoned.like(q, partials=True)
    output = getattr(buffers.attention, name)
    assert output.isnan().all() and output.is_contiguous()
    output.fill_(1)
    buffers.check_guards()
    whole = buffers.wholes[name]
    whole[GUARD + beside if beside < 0 else GUARD + output.numel() + beside] = 0
    with pytest.raises(WroteOutside, match=f"1 of the {GUARD} elements {'before' if beside < 0 else 'after'} {name} "):
        buffers.check_guards()


def test_keys_past_the_length_and_tiles_that_nobody_sees_are_poisoned() -> None:
    case = Case("none", 64, 400, 2, 2, 2, lens=(390, 3), causal=True, window=10)
    dead = poisoned(case, torch.zeros(2, 400, 1), torch.nan).isnan()[..., 0]
    assert dead[0, :256].all() and not dead[0, 256:390].any() and dead[0, 390:].all()
    assert not dead[1, :3].any() and dead[1, 3:].all()


def test_blocks_that_nobody_sees_are_poisoned() -> None:
    got = poisoned_compressed(FAR, draw(FAR, 1), torch.nan)
    assert got is not None and FAR.seq_lens.tolist() == [48, 4]
    dead = got.isnan().all(2)
    assert dead.sum(1).tolist() == [3, 14] and not dead[0, :12].any() and not dead[1, :1].any()


def test_blocks_that_nobody_lists_are_poisoned() -> None:
    case = replace(FAR, compressed=Compressed((30, 1), ratio=4, topk=5))
    inputs = draw(case, 1)
    got = poisoned_compressed(case, inputs, torch.nan)
    indices, lens = inputs.topk_indices, inputs.topk_lens
    assert got is not None and indices is not None and lens is not None
    for b in range(2):
        named = {int(j) for t in range(2) for j in indices[b, t, : lens[b, t]] if 0 <= j < case.blocks}
        assert set(torch.nonzero(~got[b].isnan().all(1))[:, 0].tolist()) == named


def test_tokens_have_no_index_all_of_them_and_none_that_names_a_key() -> None:
    case = replace(FAR, compressed=Compressed((30, 1), ratio=4, topk=5))
    inputs = draw(case, 1)
    assert inputs.topk_indices is not None and inputs.topk_lens is not None
    assert inputs.topk_lens[0].tolist() == [0, 5] and inputs.topk_lens[1, 1] == 5
    last = inputs.topk_indices[1, 1]
    assert ((last < 0) | (last >= case.blocks)).all()
    whole = draw(replace(FAR, compressed=Compressed((30, 1), ratio=4, topk=5, lens=False)), 1)
    assert whole.topk_lens is not None and (whole.topk_lens == 5).all()
    without = draw(replace(FAR, compressed=Compressed((30, 1), ratio=4, topk=50, first_key=False)), 1)
    assert without.topk_indices is not None and not (without.topk_indices == 0).any()


def test_lists_name_what_is_no_key_and_go_on_past_their_length() -> None:
    case = replace(FAR, compressed=Compressed((30, 1), ratio=4, topk=50))
    inputs = draw(case, 1)
    assert inputs.topk_indices is not None and inputs.topk_lens is not None
    counted = torch.arange(50) < inputs.topk_lens[..., None]
    named = (inputs.topk_indices >= 0) & (inputs.topk_indices < case.blocks)
    assert (inputs.topk_indices[counted] == -1).any() and (inputs.topk_indices[counted] >= case.blocks).any()
    assert (named & ~counted).any()


def test_an_element_in_a_gap_of_a_strided_output_is_seen() -> None:
    buffers = Poisoned.like(torch.zeros(2, 2, 3, 64).bfloat16(), partials=True, strided=True)
    for name, whole in buffers.wholes.items():
        output = getattr(buffers.attention, name)
        assert output.isnan().all() and not output.is_contiguous()
        buffers.check_guards()
        first_gap = output[1, 0].storage_offset() - 1
        whole[first_gap] = 0
        with pytest.raises(WroteOutside, match=f"1 elements in the gaps of {name} were overwritten"):
            buffers.check_guards()
        whole[first_gap] = GUARD_VALUE


@pytest.mark.parametrize("topk", [None, 7])
def test_the_reference_is_one_softmax_over_the_concatenation(topk: int | None) -> None:
    case = replace(FAR, compressed=Compressed((30, 1), ratio=4, topk=topk))
    inputs = draw(case, 2)
    q, window, compressed = (x.double().numpy() for x in (inputs.q, inputs.k, inputs.compressed) if x is not None)
    if inputs.topk_indices is None or inputs.topk_lens is None:
        positions = case.seq_lens[:, None].numpy() - 2 + np.arange(2)
        keys = oracle.compressed_keys(positions, 4)
    else:
        keys = oracle.topk_keys(inputs.topk_indices.numpy(), inputs.topk_lens.numpy(), case.blocks)
    sources = [(window, window, oracle.swa_keys([18, 3], 2, 8)), (compressed, compressed, keys)]
    assert case.sink is not None
    o, lse = oracle.attention(q, sources, 64**-0.5, case.sink.numpy())
    want = reference(case, inputs)
    np.testing.assert_allclose(want["O"], o.reshape(-1, 64), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(want["lse"], lse.ravel(), rtol=1e-9)


@pytest.mark.parametrize("behind", [0.0, 2.5, 5.5])
def test_a_maximum_that_stays_behind_changes_no_figure_of_u(behind: float) -> None:
    """U refers to the m that stands beside it: both moved together are the same partial."""
    case = Case("none", 64, 256)
    inputs = draw(case, 1)
    want, model = reference(case, inputs), ErrorModel(case, inputs)
    moved = want | {"m": want["m"] - behind, "U": want["U"] * np.exp(behind)}
    values = measured(case.tensors, moved, want, model)
    assert values["U"]["diff"] < 1e-25 and values["U"]["z"] == 0
    assert values["m"]["error"] == pytest.approx(behind) and values["m"]["limit"] == pytest.approx(behind / 5.545, 1e-3)
    alone = measured(case.tensors, want | {"m": want["m"] - 0.01}, want, model)
    assert alone["U"]["diff"] > 1e-5 and alone["U"]["z_factor"] < -20, "m alone moved is another partial"


def test_peaked_rows_have_few_keys_of_weight_and_maxima_that_move() -> None:
    case = Case("none", 64, 512, peak=32)
    inputs = draw(case, 1)
    logits = inputs.q[0, 0].double() @ inputs.k[0].double().T * 64**-0.5
    assert (torch.softmax(logits, 1).amax(1) > 0.5).float().mean() > 0.9
    moved = logits.unflatten(1, (4, 128)).amax(2).cummax(1).values.diff(dim=1) > 8 * np.log(2)
    assert moved.any(0).all(), "some row's maximum moves at every KV tile"


def test_growing_maxima_move_in_some_warps_and_not_in_others() -> None:
    case = Case("none", 64, 512, trend="growing")
    inputs = draw(case, 1)
    logits = (inputs.q[0, 0].double() @ inputs.k[0].double().T * 64**-0.5).unflatten(1, (4, 128)).amax(2)
    jumps = logits.diff(dim=1)
    assert (jumps[:96] > 4).all() and jumps[:96].mean() > 5.5
    assert (logits[96:].amax(1) - logits[96:, 0] < 8 * np.log(2)).all()
