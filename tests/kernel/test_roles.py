"""Warp roles: every count and role test follows `Roles`, in any order of the roles."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import emulator
import kernel
from kernel import plan
from kernel.hardware import WARPGROUP
from kernel.sm100 import choice
from kernel.sm100.roles import Roles
from kernel.sm100.variants import VariantName, variant

PERMUTED = {
    "mma and load swapped": Roles(mma=(5,), load=(4,)),
    "two idle warps": Roles(mma=(6,), load=(7,), values=(9,), queries=(4,)),
    "softmax last": Roles(softmax=(4, 5, 6, 7), mma=(0,), load=(3,), values=(1,), queries=()),
    "two Q tiles, softmax last": Roles(tuple(range(4, 12)), mma=(0,), load=(3,), values=(2,), queries=()),
    "slices, softmax last": Roles((12, 13, 14, 15), (9,), load=(4, 5, 6, 7), values=(0, 1, 2, 3), queries=(8,)),
    "slices, two idle warps": Roles(mma=(6,), load=(8, 9, 10, 11), values=(12, 13, 14, 15), queries=(7,)),
}
PLAIN = ("mma and load swapped", "two idle warps", "softmax last")
SLICED = ("slices, softmax last", "slices, two idle warps")
#: With the head dim and the heads; at 256, and at 512 with 128 heads, one MMA is of two CTAs.
SHAPES = [(name, d, 130) for d in (64, 256) for name in PLAIN] + [("two Q tiles, softmax last", 64, 130)]
SHAPES += [(name, 512, heads) for heads in (128, 130) for name in SLICED]
EVERY_RUN, LONG = ("two Q tiles, softmax last", 64, 130), ("slices, two idle warps", 512, 128)


PLAIN_ROLES = [roles for name, roles in PERMUTED.items() if "slices" not in name]


@pytest.mark.parametrize("roles", [Roles(), *PLAIN_ROLES, variant("two Q tiles", 64).roles])
def test_participant_counts_follow_the_roles(roles: Roles) -> None:
    name: VariantName = "one Q tile" if len(roles.softmax) == WARPGROUP else "two Q tiles"
    config = kernel.FmhaConfig(head_dim=64, variant=dataclasses.replace(variant(name, 64), roles=roles))
    arrivals = {barrier.name: barrier.arrivals for barrier in config.barriers}
    assert arrivals["p_full"] == 4
    assert {name for name, count in arrivals.items() if count == 1} == set(arrivals) - {"p_full"}
    assert config.barrier_offset("o_done") + config.barriers[-1].stages == config.barrier_count


@pytest.mark.parametrize(
    ("name", "head_dim", "heads"),
    [
        EVERY_RUN,
        pytest.param(*LONG, marks=pytest.mark.long),
        *(pytest.param(*each, marks=pytest.mark.thorough) for each in SHAPES if each not in (EVERY_RUN, LONG)),
    ],
)
def test_permuted_roles_give_the_same_bits(
    name: str, head_dim: int, heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(1)
    shapes = (1, 1, heads, head_dim), (1, 200, head_dim)
    q, k = (torch.randn(shape, generator=generator).bfloat16() for shape in shapes)

    def run() -> kernel.Attention:
        with emulator.emulate(completion="lazy"):
            return kernel.fmha(q, k, splits=1)

    def permuted(problem: kernel.Problem, _device: torch.device) -> kernel.FmhaConfig:
        config, roles = choice.configuration(problem), PERMUTED[name]
        fits = len(roles.softmax) == len(config.roles.softmax)
        row = config.variant if fits else variant("one Q tile", config.head_dim)
        return dataclasses.replace(config, variant=dataclasses.replace(row, roles=roles))

    want = run()
    monkeypatch.setattr("kernel.host.configuration", permuted)
    plan.clear()
    got = run()
    for field in dataclasses.fields(kernel.Attention):
        assert torch.equal(getattr(got, field.name), getattr(want, field.name)), field.name


@pytest.mark.parametrize(
    ("roles", "argument"),
    [
        ({"softmax": (1, 2, 3, 4), "mma": (0,)}, "softmax"),
        ({"softmax": (0, 1)}, "softmax"),
        ({"mma": (4, 5), "load": (6,)}, "mma"),
        ({"queries": (7, 8)}, "queries"),
        ({"load": (4, 5, 6, 7), "values": (8, 9, 10, 11), "mma": (12,), "queries": ()}, "queries"),
        ({"load": ()}, "load"),
        ({"load": (4,)}, "roles"),
    ],
    ids=str,
)
def test_impossible_roles_are_refused(roles: dict[str, tuple[int, ...]], argument: str) -> None:
    with pytest.raises(kernel.ArgumentError) as raised:
        Roles(**roles)
    assert raised.value.name == argument
