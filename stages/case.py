"""A shape that a milestone is held to: inputs from a seed, float64 reference, launch of the real kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

import kernel
from kernel.config import PPath
from kernel.host import default_p_path
from kernel.reference import branch, causal_mask, dense_mask, length_mask
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
FALL = 2.0  # of such tiles the fourth still counts, at exp(-6) of the first


@dataclass(frozen=True)
class Case:
    """Queries of `heads` heads and `tokens` tokens against `keys` keys, in `batch` sequences.

    lens: how many of a sequence's keys hold something; what lies past them is poisoned. causal, window, p_path and
    partials are the kernel's own; shared_kv: V is K. trend: how a row's maximum moves from KV tile to KV tile.
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
            f"P in {self.p_path}": self.p_path is not None,
            "V=K": self.shared_kv,
            "O and lse": not self.partials,
            str(self.trend): self.trend is not None,
            f"lens={','.join(map(str, self.lens or ()))}": self.lens is not None,
            f"W={self.window or 'none'}": self.causal,
        }
        return " ".join(word for word, holds in said.items() if holds)

    def __str__(self) -> str:
        return self.name

    @property
    def config(self) -> kernel.FmhaConfig:
        """What the kernel is compiled for."""
        mask: kernel.config.Mask = "causal" if self.causal else "none" if self.lens is None else "length"
        p_path = self.p_path or default_p_path(self.head_dim)
        return kernel.FmhaConfig(
            self.head_dim, p_path=p_path, mask=mask, shared_kv=self.shared_kv, partials=self.partials
        )

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


@dataclass(frozen=True)
class Inputs:
    """bf16 CPU tensors: q [batch, tokens, heads, head_dim], k and v [batch, keys, head_dim]; no v: V is K."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor | None


def draw(case: Case, seed: int) -> Inputs:
    """Normal Q, K and V of a seed, rounded to bf16: the same on every machine."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    q = normal(case.batch, case.tokens, case.heads, case.head_dim)
    k, v = (normal(case.batch, case.keys, case.head_dim) for _ in range(2))
    if case.trend:
        _follow(case.trend, q, k)
    size = V_SCALE_OF_FEW if case.causal else V_SCALE
    if case.shared_kv:
        return Inputs((q / size).bfloat16(), (k * size).bfloat16(), None)
    return Inputs(q.bfloat16(), k.bfloat16(), (v * size).bfloat16())


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
    seen = case.visible if visible is None else visible
    part = branch(inputs.q, inputs.k, inputs.v, visible=seen)
    return outputs_of(case, kernel.Attention(o=part.o, u=part.u, lse=part.lse, m=part.m))


def poisoned(case: Case, kv: torch.Tensor, poison: float) -> torch.Tensor:
    """`kv` with `poison` past every sequence's length, and in whole tiles that no query sees."""
    lens = torch.tensor(case.lens or (case.keys,) * case.batch)
    seen = case.visible.any(1)
    tiles = torch.nn.functional.pad(seen, (0, -case.keys % TILE)).unflatten(1, (-1, TILE)).any(2)
    alive = tiles.repeat_interleave(TILE, 1)[:, : case.keys] & (torch.arange(case.keys) < lens[:, None])
    return torch.where(alive[..., None], kv, torch.tensor(poison).to(kv.dtype))


def launch(case: Case, inputs: Inputs, torch_device: str) -> kernel.Attention:
    """One launch into poisoned and guarded buffers, keys that are not to be read poisoned too.

    Raises WroteOutside where anything beside an output was written.
    """
    q = inputs.q.to(torch_device)
    k = poisoned(case, inputs.k, torch.nan).to(torch_device)
    v = None if inputs.v is None else poisoned(case, inputs.v, torch.inf).to(torch_device)
    lens = None if case.lens is None else torch.tensor(case.lens, dtype=torch.int32, device=torch_device)
    buffers = Poisoned.like(q, case.partials)
    out = kernel.fmha(
        q,
        k,
        v,
        swa_lens=lens,
        causal=case.causal,
        window=case.window,
        p_path=case.p_path or "auto",
        partials=case.partials,
        out=buffers.attention,
    )
    buffers.check_guards()
    return out


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
