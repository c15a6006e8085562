"""The host call rejects bad arguments; the error names the argument, its value and the allowed values."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
import torch

import kernel
from kernel.problem import CacheKind, PPath
from kernel.sm100.hardware import TMEM_COLS
from kernel.sm100.variants import VARIANTS, variant
from stages import bad_arguments


@pytest.mark.parametrize("bad", bad_arguments.FMHA, ids=str)
def test_bad_arguments_are_refused_before_anything_is_compiled(
    bad: bad_arguments.BadCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*args: object) -> None:
        raise AssertionError("compiled")

    monkeypatch.setattr("kernel.plan.compile", never)
    assert not bad.accepted_by(kernel.fmha, bad_arguments.plain())


def test_cpu_tensors_are_refused_where_no_device_is_emulated() -> None:
    with pytest.raises(kernel.ArgumentError, match=r"q\.device is cpu; allowed: .*emulate\(\)"):
        kernel.fmha(**bad_arguments.plain())


def test_gradients_are_left_out_where_torch_does_not_track_them() -> None:
    a = bad_arguments.plain()
    a["q"].requires_grad_()
    with torch.no_grad(), pytest.raises(kernel.ArgumentError, match=r"q\.device"):
        kernel.fmha(**a)


@pytest.mark.parametrize("scale", [np.float32(0.5), np.array(0.5), torch.tensor(0.5), np.int64(1), torch.tensor(1)])
def test_a_scale_is_a_number_of_any_library(scale: Any) -> None:
    a = bad_arguments.plain("meta")
    assert kernel.fmha(**a, scale=scale).o.shape == a["q"].shape


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_nothing_to_compute_launches_nothing(shape: tuple[int, int, int]) -> None:
    batch, tokens, heads = shape
    q, k = bad_arguments.bf16(batch, tokens, heads, 64), bad_arguments.bf16(batch, 5, 64)
    got = kernel.fmha(q, k)
    assert got.o.shape == q.shape and got.lse.shape == shape


PLANS = [
    kernel.FmhaConfig(head_dim=head_dim, p_path=p_path, variant=each)
    for each in VARIANTS
    if not each.swapped and not each.converts
    if each.name != "split keys"
    for head_dim in each.head_dims
    for p_path in get_args(PPath)
    if p_path == ("smem" if head_dim == 512 else "tmem") or (each.name == "one Q tile" and head_dim < 512)
]
SERVED: Any = {"shared_kv": True, "partials": False, "caches": (CacheKind("v4"),)}
PLANS += [kernel.FmhaConfig(head_dim=512, **SERVED, p_path="smem", variant=variant("converting CTA pair", 512))]


@pytest.mark.parametrize("config", PLANS, ids=lambda config: config.name)
def test_memory_plan_fits_and_does_not_overlap(config: kernel.FmhaConfig) -> None:
    """P may lie over the logits that it was made of, and over nothing else."""
    tmem, block_n = config.tmem, config.block_n
    assert config.smem.kv_bytes >= 2 * config.smem.kv_tile_bytes
    regions = {"S": range(tmem.o_start), "O": range(tmem.o_start, tmem.o_end)}
    regions["Q"] = range(tmem.o_end, tmem.o_end + tmem.a_slices * tmem.a_cols)
    for i in range(2 if config.p_path == "tmem" else 0):
        start = tmem.p_start + i * tmem.p_stride
        p, s = range(start, start + tmem.p_cols), range(i * block_n, (i + 1) * block_n)
        if tmem.p_over_s:
            assert {*p} <= {*s}
        else:
            regions[f"P{i}"] = p
    used = [column for columns in regions.values() for column in columns]
    assert len(used) == len(set(used)) and max(used) < tmem.alloc_cols <= TMEM_COLS
