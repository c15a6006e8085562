"""A shape that a milestone is held to: inputs from a seed, float64 reference, launch of the real kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch

import kernel
from kernel.config import PPath, Size
from kernel.reference import (
    Partial,
    branch,
    causal_mask,
    compressed_mask,
    dense_mask,
    length_mask,
    merge,
    selection,
    weights,
)
from stages.buffers import Poisoned
from stages.metrics import Array

Outputs = dict[str, Array]
Trend = Literal["growing", "falling", "constant"]

#: V is drawn at half the size of Q and K: the bound on every element of O is partly absolute (1e-3), and what
#: bf16 P alone costs must fit. Over 4,000 seeds of a numpy model of hd=64 n=128 the worst element came to
#: 0.60 of the bound, and to 1.11 of it at full size. Rows that see two or three keys have nothing to average: their
#: V is smaller still, for half a bf16 step of P is 2^-9 of it.
V_SCALE, V_SCALE_OF_FEW = 0.5, 0.125

TILE = 128  # keys of the widest KV tile
RISE = 6.5  # what a trend adds to the logits of a tile: past the 8 ln 2 = 5.5 from which O is rescaled
PAST_THE_LAST = 3  # numbers past the last compressed key that lists name too
FALL = 2.0  # of such tiles the fourth still counts, at exp(-6) of the first


@dataclass(frozen=True)
class Compressed:
    """Compressed keys beside a window: all visible blocks of `ratio` tokens, or `topk` of them listed by each token.

    past: how many tokens of each sequence lie before its window buffer.
    """

    past: tuple[int, ...]
    ratio: int
    topk: int | None = None

    def __str__(self) -> str:
        return f"blocks of {self.ratio}" if self.topk is None else f"top {self.topk}"


@dataclass(frozen=True)
class Case:
    """Queries of `heads` heads and `tokens` tokens against `keys` keys, in `batch` sequences.

    scale: what multiplies the logits, where it is not head_dim^-0.5; Q is drawn so that they come out as large.
    lens: how many of a sequence's keys hold something; what lies past them is poisoned. causal, window, p_path and
    partials are the kernel's own; shared_kv: V is K. trend: how a row's maximum moves from KV tile to KV tile.
    compressed: keys beside those. sinks: those of the heads, in turn. merged: each branch has its own launch, and
    kernel.merge brings them together. splits: CTAs that share the keys of a row tile; "auto": as the kernel chooses.
    sms: CTAs of the launch at most, which take row tile after row tile then.
    """

    milestone: str
    head_dim: int
    keys: int
    heads: int = 128
    tokens: int = 1
    batch: int = 1
    p_path: PPath | None = None
    shared_kv: bool = False
    partials: bool = True
    trend: Trend | None = None
    lens: tuple[int, ...] | None = None
    causal: bool = False
    window: int | None = None
    compressed: Compressed | None = None
    sinks: tuple[float, ...] | None = None
    merged: bool = False
    scale: float | None = None
    splits: int | Literal["auto"] = 1
    sms: int | None = None

    def __post_init__(self) -> None:
        assert self.lens is None or len(self.lens) == self.batch, f"{len(self.lens or ())} lens, batch={self.batch}"

    @property
    def name(self) -> str:
        """What the pins and the report call it."""
        said = {
            f"hd={self.head_dim}": True,
            f"n={self.keys}": True,
            f"B={self.batch}": self.batch > 1,
            f"T={self.tokens}": self.tokens > 1,
            f"H={self.heads}": self.heads != TILE,
            f"scale={self.scale}": self.scale is not None,
            f"P in {self.p_path}": self.p_path is not None,
            "V=K": self.shared_kv,
            "O and lse": not self.partials,
            str(self.trend): self.trend is not None,
            f"lens={','.join(map(str, self.lens or ()))}": self.lens is not None,
            f"W={self.window or 'none'}": self.causal,
            str(self.compressed): self.compressed is not None,
            "sink": self.sinks is not None,
            "merged": self.merged,
            f"splits={self.splits}": self.splits != 1,
            f"sms={self.sms}": self.sms is not None,
        }
        return " ".join(word for word, holds in said.items() if holds)

    def __str__(self) -> str:
        return self.name

    @property
    def config(self) -> kernel.FmhaConfig:
        """What the kernel is compiled for; of merged branches, the launch over the compressed keys."""
        return kernel.configuration(
            self.head_dim,
            self.heads,
            self.tokens,
            has_lens=self.lens is not None,
            causal=self.causal,
            shared_kv=self.shared_kv,
            compressed="none" if self.compressed is None else "blocks" if self.compressed.topk is None else "topk",
            sink=self.sinks is not None and not self.merged,
            partials=self.partials or self.merged,
            p_path=self.p_path or "auto",
            splits=1 if self.splits == "auto" else self.splits,
            size=self.size if self.splits == "auto" else None,
        )

    @property
    def size(self) -> Size:
        """How much the launch asks for."""
        listed = 0 if self.compressed is None else self.compressed.topk or self.blocks
        return Size(self.batch, self.tokens, self.keys, listed, self.window)

    @property
    def floor(self) -> str:
        """Which floor of tolerances.toml its pins keep to."""
        one_tile = self.keys <= TILE and self.compressed is None
        return "64 one KV tile" if self.head_dim == 64 and one_tile else str(self.head_dim)

    @property
    def tensors(self) -> tuple[str, ...]:
        """The results that the launch gives."""
        return ("O", "U", "lse", "m") if self.partials else ("O", "lse")

    @property
    def visible(self) -> torch.Tensor:
        """Which keys a token sees, bool [batch, tokens, keys]."""
        lens = torch.tensor(self.lens or (self.keys,) * self.batch)
        if self.causal:
            return causal_mask(self.tokens, self.keys, lens, self.window)
        if self.lens is not None:
            return length_mask(self.tokens, self.keys, lens)
        return dense_mask(self.batch, self.tokens, self.keys)

    @property
    def sink(self) -> torch.Tensor | None:
        """The sinks, fp32 [heads]."""
        return None if self.sinks is None else torch.tensor(self.sinks).repeat(self.heads)[: self.heads]

    @property
    def seq_lens(self) -> torch.Tensor:
        """Tokens of each sequence up to its newest, int32 [batch]."""
        assert self.lens is not None and self.compressed is not None, "only compressed keys ask for it"
        return torch.tensor([before + held for before, held in zip(self.compressed.past, self.lens, strict=True)]).int()

    @property
    def visible_blocks(self) -> torch.Tensor:
        """Which compressed blocks a token sees where none are listed, bool [batch, tokens, blocks]."""
        assert self.compressed is not None
        position = self.seq_lens[:, None] - self.tokens + torch.arange(self.tokens)
        return compressed_mask(position, self.blocks, self.compressed.ratio)

    @property
    def blocks(self) -> int:
        """Rows of the compressed keys: a few more than any sequence fills."""
        assert self.compressed is not None
        return int(self.seq_lens.max()) // self.compressed.ratio + 3


@dataclass(frozen=True)
class Inputs:
    """bf16 CPU tensors: q [batch, tokens, heads, head_dim], k and v [batch, keys, head_dim]; no v: V is K.

    compressed [batch, blocks, head_dim]. topk_indices [batch, tokens, topk] and topk_lens [batch, tokens], int32:
    what each token lists of them, and how many entries count.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor | None
    compressed: torch.Tensor | None = None
    topk_indices: torch.Tensor | None = None
    topk_lens: torch.Tensor | None = None


def draw(case: Case, seed: int) -> Inputs:
    """Normal Q, K and V of a seed, rounded to bf16: the same on every machine."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    q = normal(case.batch, case.tokens, case.heads, case.head_dim)
    k, v = (normal(case.batch, case.keys, case.head_dim) for _ in range(2))
    if case.scale is not None:
        q *= case.head_dim**-0.5 / case.scale
    if case.trend:
        _follow(case.trend, q, k)
    size = V_SCALE_OF_FEW if case.causal else V_SCALE
    if not case.shared_kv:
        return Inputs(q.bfloat16(), k.bfloat16(), (v * size).bfloat16())
    window = Inputs((q / size).bfloat16(), (k * size).bfloat16(), None)
    if case.compressed is None:
        return window
    compressed = (normal(case.batch, case.blocks, case.head_dim) * size).bfloat16()
    if case.compressed.topk is None:
        return replace(window, compressed=compressed)
    return replace(window, compressed=compressed, **_lists(case, case.compressed.topk, generator))


def _lists(case: Case, topk: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Lists out of order, with repeats, -1 and numbers past the last key in them; the first token's counts whole.

    The others' are cut short, and what stands past their length are keys like any other.
    """
    shape = (case.batch, case.tokens)
    indices = torch.randint(-1, case.blocks + PAST_THE_LAST, (*shape, topk), generator=generator).int()
    lens = torch.randint(0, topk + 1, shape, generator=generator).int()
    lens[0, 0] = topk
    return {"topk_indices": indices, "topk_lens": lens}


def _follow(trend: Trend, q: torch.Tensor, k: torch.Tensor) -> None:
    """Make the maxima of the rows move with the KV tiles, by way of the head dim's first element.

    Growing, those of a warp's rows move at every tile, but those of the last quarter stay below what moves them.
    """
    tile = torch.arange(k.shape[1]) // TILE
    if trend == "constant":
        k[:] = k[:, torch.arange(k.shape[1]) % TILE]
        return
    q[..., 0] = q.shape[-1] ** 0.5
    if trend == "growing":
        q[..., -(q.shape[2] // 4) :, 0] /= 8
    k[..., 0] = RISE * (tile - tile[-1]) if trend == "growing" else -FALL * tile


def reference(case: Case, inputs: Inputs, visible: torch.Tensor | None = None) -> Outputs:
    """What the kernel must give, in float64, rows flattened; `visible` in place of the case's own mask."""
    parts = partials(case, inputs, visible)
    whole, out = joined(parts), merge(parts, case.sink)
    return outputs_of(case, kernel.Attention(o=out.o, u=whole.u, lse=out.lse, m=whole.m))


def partials(case: Case, inputs: Inputs, visible: torch.Tensor | None = None) -> list[Partial]:
    """The branches in float64: the window, and the compressed keys where there are any."""
    parts = [
        branch(inputs.q, inputs.k, inputs.v, scale=case.scale, visible=case.visible if visible is None else visible)
    ]
    if inputs.compressed is None:
        return parts
    if inputs.topk_indices is None:
        return [*parts, branch(inputs.q, inputs.compressed, scale=case.scale, visible=case.visible_blocks)]
    return [
        *parts,
        selection(
            inputs.q,
            inputs.compressed,
            topk_indices=inputs.topk_indices,
            topk_lens=inputs.topk_lens,
            scale=case.scale,
        ),
    ]


def joined(parts: list[Partial]) -> Partial:
    """The partial of all branches' keys together."""
    m = torch.stack([part.m for part in parts]).amax(0)
    u = torch.stack([part.u * weights(part.m, m)[..., None] for part in parts]).sum(0)
    return Partial(u, torch.logsumexp(torch.stack([part.lse for part in parts]), 0), m)


def poisoned(case: Case, kv: torch.Tensor, poison: float) -> torch.Tensor:
    """`kv` with `poison` past every sequence's length, and in whole tiles that no query sees."""
    lens = torch.tensor(case.lens or (case.keys,) * case.batch)
    seen = case.visible.any(1)
    tiles = torch.nn.functional.pad(seen, (0, -case.keys % TILE)).reshape(case.batch, -1, TILE).any(2)
    alive = tiles.repeat_interleave(TILE, 1)[:, : case.keys] & (torch.arange(case.keys) < lens[:, None])
    return torch.where(alive[..., None], kv, torch.tensor(poison).to(kv.dtype))


def compressed_keys(case: Case, inputs: Inputs, torch_device: str) -> kernel.AllBlocks | kernel.TopkBlocks | None:
    """The compressed keys as the kernel takes them; NaN in the rows that no token sees or lists."""
    if inputs.compressed is None:
        return None
    assert case.compressed is not None
    if inputs.topk_indices is None or inputs.topk_lens is None:
        alive = case.visible_blocks.any(1)
    else:
        counts = torch.arange(inputs.topk_indices.shape[2]) < inputs.topk_lens[..., None]
        rows = torch.arange(case.blocks)[:, None, None]
        alive = ((inputs.topk_indices[:, None] == rows) & counts[:, None]).any(3).any(2)
    compressed = torch.where(alive[..., None], inputs.compressed, torch.tensor(torch.nan).bfloat16()).to(torch_device)
    if inputs.topk_indices is None or inputs.topk_lens is None:
        return kernel.AllBlocks(compressed, case.seq_lens.to(torch_device), case.compressed.ratio)
    return kernel.TopkBlocks(compressed, inputs.topk_indices.to(torch_device), inputs.topk_lens.to(torch_device))


def launch(case: Case, inputs: Inputs, torch_device: str) -> kernel.Attention:
    """One launch, or one a branch and their merge; every key that is not to be read is poisoned.

    Raises WroteOutside where anything beside an output was written.
    """
    buffers: list[Poisoned] = []

    def poisoned_outputs(q: torch.Tensor) -> kernel.Attention:
        buffers.append(Poisoned.like(q, case.config.partials))
        return buffers[-1].attention

    out = prepared(case, inputs, torch_device, poisoned_outputs)()
    for each in buffers:
        each.check_guards()
    return out


def prepared(
    case: Case,
    inputs: Inputs,
    torch_device: str,
    outputs: Callable[[torch.Tensor], kernel.Attention | None] = lambda _: None,
) -> Callable[[], kernel.Attention]:
    """What `launch` does, its inputs on the device already; `outputs` makes what a launch writes to, None: it does."""
    q = inputs.q.to(torch_device)
    k = poisoned(case, inputs.k, torch.nan).to(torch_device)
    v = None if inputs.v is None else poisoned(case, inputs.v, torch.inf).to(torch_device)
    sink = None if case.sink is None else case.sink.to(torch_device)
    compressed = compressed_keys(case, inputs, torch_device)
    lens = None if case.lens is None else torch.tensor(case.lens, dtype=torch.int32, device=q.device)

    def attention(
        k: torch.Tensor, compressed: kernel.AllBlocks | kernel.TopkBlocks | None, sink: torch.Tensor | None
    ) -> Callable[[], kernel.Attention]:
        swa_lens = None if lens is None else lens.clamp(max=k.shape[1])
        return lambda: kernel.fmha(
            q,
            k,
            v,
            scale=case.scale,
            swa_lens=swa_lens,
            causal=case.causal,
            window=case.window,
            compressed=compressed,
            sink=sink,
            p_path=case.p_path or "auto",
            splits=case.splits,
            sms=case.sms,
            partials=case.config.partials,
            out=outputs(q),
        )

    if not case.merged:
        return attention(k, compressed, sink)
    parts = [attention(k, None, None)]
    if compressed is not None:
        parts.append(attention(k[:, :0], compressed, None))
    return lambda: kernel.merge([part() for part in parts], sink)


def outputs_of(case: Case, attention: kernel.Attention) -> Outputs:
    """The results as float64 arrays: O and U [rows, head_dim], lse and m [rows]."""
    tensors = {"O": attention.o, "U": attention.u, "lse": attention.lse, "m": attention.m}
    outputs = {}
    for name in case.tensors:
        tensor = tensors[name]
        assert tensor is not None, f"{name} was not asked for"
        outputs[name] = _float64(tensor.flatten(0, 2))
    return outputs


def _float64(tensor: torch.Tensor) -> Array:
    array: Array = tensor.detach().cpu().double().numpy()
    return array
