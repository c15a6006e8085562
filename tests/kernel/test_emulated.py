"""The kernel's own PTX on the emulated device, against the float64 reference: every path, mask and tail."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import emulator
import kernel
from emulator.machine.order.completion import Completion
from kernel import reference
from tests.tiers import tier

MODES: tuple[Completion, ...] = ("eager", "lazy", "random")
COSINE, DIFF, LSE = 0.999996, 5e-6, 2e-6
NONE: dict = {}


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def poisoned(q: torch.Tensor) -> kernel.Attention:
    """Output buffers full of NaN."""
    u, stats = q.float() * torch.nan, torch.full(q.shape[:3], torch.nan)
    return kernel.Attention(o=u.bfloat16(), lse=stats, u=u, m=stats.clone())


def run(mode: Completion, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor | None, **options: Any) -> kernel.Attention:
    with emulator.emulate(completion=mode, seed=7):
        return kernel.fmha(q, k, v, out=poisoned(q), **options)


def bits(x: kernel.Attention) -> list[torch.Tensor]:
    assert x.u is not None and x.m is not None
    return [x.o.view(torch.int16), *(t.view(torch.int32) for t in (x.u, x.lse, x.m))]


def holds(got: kernel.Attention, want: reference.Partial) -> None:
    """O and the normalised U lie close, statistics too, and empty rows are exact."""
    assert got.u is not None and got.m is not None
    seen = want.lse.isfinite()
    assert torch.equal(got.lse.double()[~seen], want.lse[~seen]) and (got.m[~seen] == -torch.inf).all()
    assert (got.o[~seen] == 0).all() and (got.u[~seen] == 0).all()
    if not seen.any():
        return
    assert (got.lse.double() - want.lse)[seen].abs().max() <= LSE
    assert (got.m.double() <= want.m + LSE)[seen].all() and (got.m.double() >= want.m - 8 * math.log(2) - LSE)[
        seen
    ].all()
    for o in (got.o.double(), got.u.double() * torch.exp(got.m - got.lse).double()[..., None]):
        x, y = o[seen], want.o[seen]
        rows = torch.nn.functional.cosine_similarity(x, y, dim=-1)
        assert x.isfinite().all() and rows.min() >= 0.99999
        xy, xx, yy = (x * y).sum(), (x * x).sum(), (y * y).sum()
        assert xy / (xx * yy).sqrt() >= COSINE and 1 - 2 * xy / (xx + yy) <= DIFF


PATHS: list[tuple[int, dict]] = [
    (64, {"p_path": "tmem"}),
    (64, {"p_path": "smem"}),
    (128, {"p_path": "tmem"}),
    (128, {"p_path": "smem"}),
    (256, {"p_path": "tmem"}),
    (256, {"p_path": "smem"}),
    (512, NONE),
]
#: (index in PATHS, V is K). Other tests compile them too.
EVERY_RUN = {(1, False), (6, False)}
IN_CI = {(0, True), (2, False), (5, True), (6, True)}


@pytest.mark.parametrize(
    ("head_dim", "options", "shared"),
    [
        pytest.param(
            *path,
            shared,
            marks=tier((index, shared) in EVERY_RUN, (index, shared) in IN_CI),
        )
        for index, path in enumerate(PATHS)
        for shared in (False, True)
    ],
    ids=str,
)
def test_every_path_gives_the_same_bits_in_every_mode(head_dim: int, options: dict, shared: bool) -> None:
    q, k = normal(1, 1, 1, 130, head_dim), normal(2, 1, 200, head_dim)
    v = None if shared else normal(3, 1, 200, head_dim)
    first, *others = [run(mode, q, k, v, splits=1, **options) for mode in MODES]
    holds(first, reference.branch(q, k, v))
    for other in others:
        assert all(map(torch.equal, bits(first), bits(other)))


@pytest.mark.parametrize("keys", [0, 1, 127, 128, 129, 384, 1000])
def test_any_number_of_keys(keys: int) -> None:
    """All keys in one split; test_splits.py has more."""
    q, k, v = normal(1, 1, 1, 128, 64), normal(2, 1, keys, 64), normal(3, 1, keys, 64)
    holds(run("lazy", q, k, v, splits=1), reference.branch(q, k, v))


@pytest.mark.parametrize("trend", ["growing", "falling", "constant"])
def test_row_maxima_that_move(trend: str) -> None:
    """Between the four tiles of one split."""
    keys = 512
    slope = {
        "growing": torch.linspace(0, 2, keys),
        "falling": torch.linspace(2, 0, keys),
        "constant": torch.zeros(keys),
    }
    q = torch.ones(1, 1, 128, 64).bfloat16()
    k = (normal(2, 1, keys, 64).float() * 0.01 + slope[trend][None, :, None]).bfloat16()
    v = normal(3, 1, keys, 64)
    holds(run("lazy", q, k, v, splits=1), reference.branch(q, k, v))


@pytest.mark.parametrize(("batch", "tokens", "heads"), [(1, 2, 64), (3, 1, 16), (2, 5, 16), (1, 3, 128), (2, 3, 5)])
def test_heads_are_packed_into_rows(batch: int, tokens: int, heads: int) -> None:
    q, k, v = normal(1, batch, tokens, heads, 64), normal(2, batch, 130, 64), normal(3, batch, 130, 64)
    holds(run("lazy", q, k, v), reference.branch(q, k, v))


def poison(kv: torch.Tensor, lens: torch.Tensor, value: float) -> torch.Tensor:
    past = torch.arange(kv.shape[1])[None, :, None] >= lens[:, None, None]
    return torch.where(past, torch.tensor(value).bfloat16(), kv)


@pytest.mark.parametrize("head_dim", [64, pytest.param(512, marks=pytest.mark.long)])
@pytest.mark.parametrize("lens", [(0, 1), (127, 128), (129, 200)], ids=str)
def test_nothing_past_the_length_reaches_the_result(head_dim: int, lens: tuple[int, int]) -> None:
    swa_lens = torch.tensor(lens, dtype=torch.int32)
    q = normal(1, 2, 3, 16, head_dim)
    k = poison(normal(2, 2, 200, head_dim), swa_lens, math.nan)
    v = None if head_dim == 512 else poison(normal(3, 2, 200, head_dim), swa_lens, math.inf)
    want = reference.branch(q, k, v, visible=reference.length_mask(3, 200, swa_lens))
    holds(run("lazy", q, k, v, swa_lens=swa_lens), want)


@pytest.mark.parametrize("window", [1, 128, None])
@pytest.mark.parametrize(("tokens", "heads", "lens"), [(1, 64, (1, 200)), (4, 16, (2, 129)), (130, 2, (100, 260))])
def test_causal_window(tokens: int, heads: int, lens: tuple[int, int], window: int | None) -> None:
    swa_lens = torch.tensor(lens, dtype=torch.int32)
    q, k = normal(1, 2, tokens, heads, 64), poison(normal(2, 2, 260, 64), swa_lens, math.nan)
    want = reference.branch(q, k, visible=reference.causal_mask(tokens, 260, swa_lens, window))
    holds(run("lazy", q, k, None, swa_lens=swa_lens, causal=True, window=window, splits=2), want)


@pytest.mark.parametrize("head_dim", [64, pytest.param(512, marks=pytest.mark.long)])
def test_nothing_outside_the_outputs_is_written(head_dim: int) -> None:
    """Guard elements around every output keep their value; the last row tile is not full."""
    q, k = normal(1, 1, 3, 30, head_dim), normal(2, 1, 200, head_dim)
    v = None if head_dim == 512 else normal(3, 1, 200, head_dim)

    def guarded(shape: torch.Size, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        whole = torch.full((shape.numel() + 512,), 7.0, dtype=dtype)
        return whole, whole[256:-256].view(shape)

    stats = q.shape[:3]
    kinds = [(q.shape, torch.bfloat16), (stats, torch.float32), (q.shape, torch.float32), (stats, torch.float32)]
    wholes, views = zip(*(guarded(*kind) for kind in kinds), strict=True)
    with emulator.emulate(completion="lazy"):
        kernel.fmha(q, k, v, out=kernel.Attention(*views))
    for whole in wholes:
        assert (whole[:256] == 7).all() and (whole[-256:] == 7).all()
