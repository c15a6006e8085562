"""Window, compressed keys and sink in one launch of the kernel's own PTX on the emulated device."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

import pytest
import torch

import emulator
import kernel
from emulator.machine.order.completion import Completion
from kernel import reference
from kernel.sm100 import choice

MODES: tuple[Completion, ...] = ("eager", "lazy", "random")
COSINE, DIFF, LSE = 0.999996, 5e-6, 4e-6
NAN = torch.tensor(math.nan).bfloat16()
KINDS = ("window", "blocks", "topk")


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def numbers(seed: int, low: int, high: int, *shape: int) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int32)


def long(*values: Any) -> Any:
    """Parameters that `make test` leaves out."""
    return pytest.param(*values, marks=pytest.mark.long)


def thorough(*values: Any) -> Any:
    """Parameters between two that every run of the tests has."""
    return pytest.param(*values, marks=pytest.mark.thorough)


@dataclass(frozen=True)
class Layer:
    """Inputs of a layer, poisoned where nothing may be read, and the branches in float64."""

    q: torch.Tensor
    swa_kv: torch.Tensor
    swa_lens: torch.Tensor
    compressed: kernel.AllBlocks | kernel.TopkBlocks | None
    branches: list[reference.Partial]

    def want(self, sink: torch.Tensor | None = None) -> reference.Output:
        return reference.merge(self.branches, sink)

    def run(
        self,
        sink: torch.Tensor | None = None,
        mode: Completion = "lazy",
        partials: bool = False,
        splits: int | Literal["auto"] = "auto",
        sms: int | None = None,
    ) -> kernel.Attention:
        return self.counted(sink, mode, partials, splits, sms)[0]

    def counted(
        self,
        sink: torch.Tensor | None = None,
        mode: Completion = "lazy",
        partials: bool = False,
        splits: int | Literal["auto"] = "auto",
        sms: int | None = None,
    ) -> tuple[kernel.Attention, emulator.Stats]:
        """Return the attention, and the counts of the one launch that computed it."""
        stats = torch.full(self.q.shape[:3], math.nan)
        out = kernel.Attention(torch.full_like(self.q, math.nan), stats)
        if partials:
            out = dataclasses.replace(out, u=self.q.float() * math.nan, m=stats.clone())
        options: Any = {"swa_lens": self.swa_lens, "causal": True, "window": 128, "compressed": self.compressed}
        with emulator.emulate(completion=mode, seed=5) as device:
            got = kernel.fmha(
                self.q, self.swa_kv, **options, sink=sink, splits=splits, sms=sms, partials=partials, out=out
            )
        (launch,) = device.launches
        return got, launch.stats


def layer(kind: str, d: int, shape: tuple[int, int, int], lens: list[int], **sizes: int) -> Layer:
    """Return a layer of `kind` "window", "blocks" or "topk" with q of `shape` (B, T, H).

    Sequences are `past` tokens longer than their window buffers, blocks have `ratio` tokens, a token has `most` top-k
    indices.
    """
    batch, tokens, heads = shape
    swa_lens = torch.tensor(lens, dtype=torch.int32)
    keys = max(*lens, 1) + 20
    q, kv = normal(1, batch, tokens, heads, d), normal(2, batch, keys, d)
    branches = [reference.branch(q, kv, visible=reference.causal_mask(tokens, keys, swa_lens, 128))]
    kv = torch.where(torch.arange(keys)[None, :, None] >= swa_lens[:, None, None], NAN, kv)
    if kind == "window":
        return Layer(q, kv, swa_lens, None, branches)
    seq_lens = swa_lens + sizes.get("past", 0)
    ratio = sizes.get("ratio", 4)
    blocks = int(seq_lens.max()) // ratio + 3
    compressed = normal(3, batch, blocks, d)
    if kind == "blocks":
        at = seq_lens[:, None] - tokens + torch.arange(tokens)
        branches.append(reference.branch(q, compressed, visible=reference.compressed_mask(at, blocks, ratio)))
        compressed = torch.where(
            torch.arange(blocks)[None, :, None] >= (seq_lens // ratio)[:, None, None], NAN, compressed
        )
        return Layer(q, kv, swa_lens, kernel.AllBlocks(compressed, seq_lens, ratio), branches)
    most = sizes["most"]
    indices, listed = numbers(4, -1, blocks, batch, tokens, most), numbers(5, 0, most + 1, batch, tokens)
    listed[-1, -1] = most
    branches.append(reference.selection(q, compressed, topk_indices=indices, topk_lens=listed))
    return Layer(q, kv, swa_lens, kernel.TopkBlocks(compressed, indices, listed), branches)


def holds(got: kernel.Attention, want: reference.Output) -> None:
    seen = want.lse.isfinite()
    assert torch.equal(got.lse.isfinite(), seen) and (got.lse[~seen] == -math.inf).all()
    assert (got.o[~seen] == 0).all() and got.o.isfinite().all()
    if seen.any():
        assert (got.lse.double() - want.lse)[seen].abs().max() <= LSE
    x, y = got.o.double()[seen], want.o[seen]
    if not y.any():
        assert not x.any()
        return
    x, y = x / y.abs().max(), y / y.abs().max()
    xy, xx, yy = (x * y).sum(), (x * x).sum(), (y * y).sum()
    assert xy / (xx * yy).sqrt() >= COSINE and 1 - 2 * xy / (xx + yy) <= DIFF
    rows = torch.nn.functional.cosine_similarity(x, y, dim=-1)
    assert rows[y.abs().amax(-1) > 1e-6].min() >= 0.99999


def spread(heads: int) -> torch.Tensor:
    return torch.linspace(-4, 6, heads)


LAYERS = {
    "HCA hd=64": ("blocks", 64, (2, 3, 16), [3, 150], {"past": 30}),
    "HCA hd=512": ("blocks", 512, (1, 2, 64), [140], {"past": 300}),
    "HCA ratio 128": ("blocks", 128, (2, 2, 16), [129, 130], {"past": 126, "ratio": 128}),
    "CSA hd=64": ("topk", 64, (2, 2, 16), [1, 150], {"past": 200, "most": 200}),
    "CSA hd=256": ("topk", 256, (1, 2, 160), [150], {"past": 20, "most": 130}),
    "CSA hd=512": ("topk", 512, (1, 2, 96), [130], {"past": 300, "most": 70}),
    "window hd=512": ("window", 512, (2, 1, 64), [1, 200], {}),
}
#: Both kinds of compressed keys, at both ends of the head dims. `test_sinks_of_any_size` runs layers of a window only.
EVERY_RUN, LONG = "CSA hd=64", "HCA hd=512"


@pytest.mark.parametrize(
    "name", [EVERY_RUN, long(LONG), *(thorough(name) for name in LAYERS if name not in (EVERY_RUN, LONG))]
)
def test_one_softmax_over_both_branches_and_the_sink(name: str) -> None:
    kind, d, shape, lens, sizes = LAYERS[name]
    case = layer(kind, d, shape, lens, **sizes)
    sink = spread(shape[2])
    holds(case.run(sink), case.want(sink))


@pytest.mark.parametrize(
    ("d", "heads", "kind"),
    [
        long(64, 256, "window"),
        long(512, 128, "topk"),
        *(thorough(64, 64, kind) for kind in KINDS),
        *(thorough(64, 256, kind) for kind in ("blocks", "topk")),
        *(thorough(512, 64, kind) for kind in KINDS),
        *(thorough(512, 128, kind) for kind in ("window", "blocks")),
    ],
)
def test_every_mode_gives_the_same_bits(d: int, heads: int, kind: str) -> None:
    """At 512 and with an even number of row tiles of a token, one MMA is of two CTAs."""
    case = layer(kind, d, (1, 2, heads), [140], past=160, most=70)
    sink = spread(heads)
    first, *others = [case.run(sink, mode, splits=1) for mode in MODES]
    holds(first, case.want(sink))
    for other in others:
        assert torch.equal(first.o.view(torch.int16), other.o.view(torch.int16)) and torch.equal(first.lse, other.lse)


@pytest.mark.parametrize("kind", [thorough("blocks"), "topk"])
@pytest.mark.parametrize(
    ("d", "p_path"), [thorough(64, "smem"), thorough(128, "tmem"), thorough(256, "smem"), long(512, "smem")]
)
def test_partials_over_both_branches(kind: str, d: int, p_path: kernel.problem.PPath) -> None:
    """Without a window's mask: U and m are those of all keys, O has the sink besides."""
    case = layer(kind, d, (2, 2, 16), [30, 150], most=70)
    kv, sink = normal(9, 2, 150, d), spread(16)
    window, compressed = reference.branch(case.q, kv), case.branches[1]
    options: Any = {"compressed": case.compressed, "sink": sink, "p_path": p_path}
    with emulator.emulate(completion="random", seed=2):
        got = kernel.fmha(case.q, kv, **options)
    holds(got, reference.merge([window, compressed], sink))
    whole = reference.merge([window, compressed])
    assert got.u is not None and got.m is not None
    o = got.u.double() * torch.exp(got.m - got.lse).double()[..., None]
    assert 1 - 2 * (o * whole.o).sum() / ((o * o).sum() + (whole.o * whole.o).sum()) <= DIFF


@pytest.mark.parametrize("sink", [-math.inf, -1e4, -80.0, 80.0, 1e4, math.inf])
@pytest.mark.parametrize("d", [64, long(512)])
def test_sinks_of_any_size(sink: float, d: int) -> None:
    """An empty sequence stands beside one that is not."""
    case = layer("window", d, (2, 1, 16), [0, 40])
    sinks = torch.full((16,), sink)
    got = case.run(sinks)
    holds(got, case.want(sinks))
    if sink == math.inf:
        assert (got.o == 0).all()
    if sink == -math.inf:
        assert torch.equal(got.o, case.run(None).o)


@pytest.mark.parametrize("sink", [-1e4, 0.0, 1e4])
def test_logits_of_ten_thousand(sink: float) -> None:
    case = layer("window", 64, (1, 1, 16), [40])
    q = (case.q.float() * 1500).bfloat16()
    part = reference.branch(q, case.swa_kv, visible=reference.causal_mask(1, 60, case.swa_lens, 128))
    assert part.m.abs().max() > 1e4 / 2
    got = dataclasses.replace(case, q=q).run(torch.full((16,), sink))
    want = reference.merge([part], torch.full((16,), sink))
    assert got.o.isfinite().all() and (got.o.double() - want.o).abs().max() <= 0.02
    assert (got.lse.double() - want.lse).abs().max() <= 4e-3


@pytest.mark.thorough  # milestone D5c requires the same of its cases; merge.py has tests of its own
@pytest.mark.parametrize("kind", ["blocks", "topk"])
def test_fused_equals_merged(kind: str) -> None:
    """Partials of two launches, merged in torch, and one launch with both branches."""
    case = layer(kind, 64, (2, 2, 16), [3, 150], past=200, most=70)
    sink = spread(16)
    window = dataclasses.replace(case, compressed=None).run(partials=True)
    compressed = dataclasses.replace(case, swa_kv=case.swa_kv[:, :1], swa_lens=torch.zeros_like(case.swa_lens))
    merged = kernel.merge([window, compressed.run(partials=True)], sink)
    fused = case.run(sink)
    holds(merged, case.want(sink))
    assert ((fused.o.double() - merged.o.double()).abs() <= 0.004 + merged.o.double().abs() / 64).all()
    seen = fused.lse.isfinite()
    assert torch.equal(seen, merged.lse.isfinite()) and (fused.lse - merged.lse)[seen].abs().max() <= 2e-6


def test_repeats_and_order_of_a_list() -> None:
    case = layer("topk", 64, (1, 1, 16), [5], past=100, most=80)
    keys = case.compressed
    assert isinstance(keys, kernel.TopkBlocks) and len(keys.indices.unique()) < 30
    turned = dataclasses.replace(keys, indices=keys.indices.flip(-1))
    holds(case.run(), case.want())
    holds(dataclasses.replace(case, compressed=turned).run(), case.want())


@pytest.mark.parametrize("bad", [-2, -(2**31), 27, 10**6, 2**31 - 1])
def test_an_index_that_names_no_key_reads_nothing(bad: int) -> None:
    """Neither past the tensor's end nor of the next sequence, whose keys are NaN."""
    q, kv = normal(1, 2, 1, 16, 64), normal(2, 2, 10, 64)
    compressed = torch.stack([normal(3, 27, 64), NAN.expand(27, 64)])
    indices = torch.tensor([[[3, bad, 26, bad]], [[bad, bad, -1, bad]]], dtype=torch.int32)
    lens = torch.tensor([10, 10], dtype=torch.int32)
    window = reference.branch(q, kv, visible=reference.causal_mask(1, 10, lens, 128))
    kept = torch.where(indices == bad, -1, indices)
    want = reference.merge([window, reference.selection(q, compressed, topk_indices=kept)])
    case = Layer(q, kv, lens, kernel.TopkBlocks(compressed, indices), [])
    holds(case.run(), want)
    with pytest.raises(kernel.ArgumentError, match=r"compressed\.indices"):
        kernel.fmha(q, kv, compressed=case.compressed, debug=True)


@pytest.mark.parametrize(("heads", "most"), [(128, 1024), long(64, 512)])
def test_whole_dsv4_layer(heads: int, most: int) -> None:
    """V4-Pro's and V4-Flash's shapes, D=512, W=128, keys in one share: products and bytes near those of its keys."""
    case = layer("topk", 512, (1, 1, heads), [300], past=4 * most, most=most)
    got, counts = case.counted(spread(heads), splits=1)
    assert got.u is None and got.m is None
    holds(got, case.want(spread(heads)))
    assert isinstance(case.compressed, kernel.TopkBlocks)
    keys, ctas = 128 + int((case.compressed.indices >= 0).sum()), heads // 64
    assert counts.mma_flops <= 1.25 * 4 * heads * 512 * keys
    assert counts.copied_in_bytes <= 1.25 * 2 * 512 * (heads + ctas * keys)
    assert counts.copied_out_bytes == 2 * 512 * heads and counts.shared_conflicts == 0


PAIRS: dict[str, tuple[str, tuple[int, int, int], list[int], dict[str, int], bool, Completion]] = {
    "window": ("window", (3, 2, 128), [1, 0, 200], {}, True, "random"),
    "blocks": ("blocks", (3, 2, 128), [2, 0, 150], {"past": 70, "ratio": 4}, False, "eager"),
    "topk": ("topk", (2, 2, 128), [0, 131], {"past": 400, "most": 150}, True, "lazy"),
    "four row tiles a token": ("topk", (1, 2, 256), [130], {"past": 40, "most": 20}, False, "random"),
}


@pytest.mark.parametrize("name", [thorough("window"), thorough("blocks"), long("topk"), "four row tiles a token"])
def test_a_pair_takes_row_tile_after_row_tile(name: str) -> None:
    """One pair of CTAs has all of them: some see no key, some end in poisoned tiles."""
    kind, shape, lens, sizes, partials, mode = PAIRS[name]
    case = layer(kind, 512, shape, lens, **sizes)
    got = case.run(spread(shape[2]), mode, partials, splits=1, sms=2)
    holds(got, case.want(spread(shape[2])))
    assert "tcgen05.mma.cta_group::2" in kernel.compile(paired(kind, partials)).ptx
    if got.u is not None and got.m is not None:
        holds(dataclasses.replace(got, o=got.u * (got.m - got.lse).exp().nan_to_num(0)[..., None]), case.want())


def paired(kind: str, partials: bool) -> kernel.FmhaConfig:
    compressed: Any = "none" if kind == "window" else kind
    options: Any = {"mask": "causal", "shared_kv": True, "sink": True, "partials": partials, "splits": 1}
    return choice.configuration(kernel.Problem(head_dim=512, heads=128, keys=1, compressed=compressed, **options))


def test_nothing_outside_the_outputs_is_written_where_tiles_are_of_one_token() -> None:
    case = layer("topk", 64, (1, 3, 40), [50], most=20)
    whole = torch.full((case.q.numel() + 1024,), 7.0).bfloat16()
    stats = torch.full((case.q.shape[:3].numel() + 512,), 7.0)
    out = kernel.Attention(whole[512:-512].view(case.q.shape), stats[256:-256].view(case.q.shape[:3]))
    with emulator.emulate(completion="lazy"):
        kernel.fmha(
            case.q,
            case.swa_kv,
            swa_lens=case.swa_lens,
            causal=True,
            compressed=case.compressed,
            partials=False,
            out=out,
        )
    holds(out, case.want())
    assert all((x[:256] == 7).all() and (x[-256:] == 7).all() for x in (whole, stats))
