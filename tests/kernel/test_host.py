"""The host call refuses what the kernel cannot take, and says which argument, what it saw and what is allowed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import kernel
from kernel.config import TWO_ROW_TILES


def tensors(batch: int = 2, tokens: int = 3, heads: int = 4, keys: int = 5, d: int = 64) -> dict:
    q = torch.zeros(batch, tokens, heads, d, dtype=torch.bfloat16)
    k = torch.zeros(batch, keys, d, dtype=torch.bfloat16)
    return {"q": q, "k": k, "v": k.clone()}


def output(q: torch.Tensor) -> kernel.Attention:
    stats = torch.empty(q.shape[:3])
    return kernel.Attention(torch.empty_like(q), stats, torch.empty(q.shape), stats.clone())


BAD: dict[str, tuple[Callable[[dict], dict], str, str]] = {
    "not a tensor": (lambda a: a | {"k": [1.0]}, "k", "torch.Tensor"),
    "dtype of q": (lambda a: a | {"q": a["q"].float()}, "q.dtype", "torch.bfloat16"),
    "dtype of v": (lambda a: a | {"v": a["v"].half()}, "v.dtype", "torch.bfloat16"),
    "rank of q": (lambda a: a | {"q": a["q"][0]}, "q.shape", "[B, T, H, D]"),
    "rank of k": (lambda a: a | {"k": a["k"][None]}, "k.shape", "[B, S, D]"),
    "head dim": (lambda a: tensors(d=96), "head_dim", "64"),
    "keys of v": (lambda a: a | {"v": a["v"][:, :3]}, "v.shape", "[B, S, D] = (2, 5, 64)"),
    "batch of k": (lambda a: a | {"k": a["k"][:1]}, "k.shape", "(2, 5, 64)"),
    "head dim of k": (lambda a: a | {"k": torch.zeros(2, 5, 128, dtype=torch.bfloat16)}, "k.shape", "64"),
    "device mix": (lambda a: a | {"k": a["k"].to("meta")}, "k.device", "cpu"),
    "last stride": (lambda a: a | {"k": torch.zeros(2, 64, 5, dtype=torch.bfloat16).mT}, "k.stride(-1)", "1"),
    "row stride": (lambda a: a | {"k": torch.zeros(2, 5, 68, dtype=torch.bfloat16)[..., :64]}, "k.stride(0)", "8"),
    "address": (lambda a: a | {"v": torch.zeros(641, dtype=torch.bfloat16)[1:].view(2, 5, 64)}, "v.data_ptr", "0"),
    "unpackable": (lambda a: a | {"q": a["q"].transpose(1, 2).contiguous().transpose(1, 2)}, "q.stride(1)", "H"),
    "broadcast": (lambda a: a | {"k": a["k"][:1].expand(2, -1, -1)}, "k.stride(0)", "positive"),
    "scale 0": (lambda a: a | {"scale": 0.0}, "scale", "above 0"),
    "scale nan": (lambda a: a | {"scale": float("nan")}, "scale", "finite"),
    "sms 0": (lambda a: a | {"sms": 0}, "sms", "an even number above 0"),
    "sms odd": (lambda a: a | {"sms": 3}, "sms", "an even number above 0"),
    "p_path": (lambda a: a | {"p_path": "gmem"}, "p_path", "'tmem' or 'smem'"),
    "dtype of lens": (lambda a: a | {"swa_lens": torch.ones(2)}, "swa_lens.dtype", "int32"),
    "shape of lens": (lambda a: a | {"swa_lens": torch.ones(3).int()}, "swa_lens.shape", "(2,)"),
    "window alone": (lambda a: a | {"window": 128}, "window", "causal=True"),
    "window 0": (lambda a: a | {"window": 0, "causal": True}, "window", "1 to"),
    "out dtype": (lambda a: a | {"out": kernel.Attention(a["q"].float(), a["q"].float())}, "out.o.dtype", "bfloat16"),
    "out missing": (lambda a: a | {"out": kernel.Attention(a["q"], torch.empty(2, 3, 4))}, "out.u", "torch.Tensor"),
    "out shape": (lambda a: a | {"out": output(a["q"][:, :2].contiguous())}, "out.o.shape", "(2, 3, 4, 64)"),
    "out unasked": (lambda a: a | {"out": output(a["q"]), "partials": False}, "out.u", "None"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_refused_before_anything_is_compiled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: object) -> None:
        raise AssertionError("compiled or launched")

    monkeypatch.setattr("kernel.host.launch", never)
    spoil, argument, allowed = BAD[name]
    with pytest.raises(kernel.ArgumentError) as raised:
        kernel.fmha(**spoil(tensors()))
    assert raised.value.name.startswith(argument)
    assert allowed in raised.value.allowed
    assert str(raised.value) == f"{raised.value.name} is {raised.value.seen}; allowed: {raised.value.allowed}"


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_nothing_to_compute_launches_nothing(shape: tuple[int, int, int]) -> None:
    a = tensors(*shape)
    got = kernel.fmha(**a)
    assert got.o.shape == a["q"].shape and got.lse.shape == shape


PLANS = [kernel.FmhaConfig(d, p_path="tmem") for d in (64, 128, 256)]
PLANS += [kernel.FmhaConfig(d, p_path="smem") for d in kernel.config.HEAD_DIMS]
PLANS += [kernel.FmhaConfig(d, roles=TWO_ROW_TILES) for d in (64, 128)] + [kernel.FmhaConfig(256, mma_ctas=2)]


@pytest.mark.parametrize("config", PLANS, ids=lambda config: config.name)
def test_memory_plan_fits_and_does_not_overlap(config: kernel.FmhaConfig) -> None:
    """P may lie over the logits that it was made of, and over nothing else."""
    assert config.kv_bytes >= 2 * config.kv_tile_bytes
    regions = {"S": range(config.tmem_o), "O": range(config.tmem_o, config.tmem_o + config.row_tiles * config.o_cols)}
    for i in range(2 if config.p_path == "tmem" else 0):
        start = config.tmem_p + i * config.p_stride
        p, s = range(start, start + config.p_cols), range(i * config.block_n, (i + 1) * config.block_n)
        if config.p_over_s:
            assert {*p} <= {*s}
        else:
            regions[f"P{i}"] = p
    used = [column for columns in regions.values() for column in columns]
    assert len(used) == len(set(used)) and max(used) < config.tmem_alloc_cols <= kernel.config.TMEM_COLS
