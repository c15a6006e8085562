"""A shape that a milestone is held to: inputs from a seed, float64 reference, launch of the real kernel."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import kernel
from kernel.reference import branch
from stages.metrics import Array

Outputs = dict[str, Array]

#: V is drawn at half the size of Q and K: the bound on every element of O is partly absolute (1e-3), and what
#: bf16 P alone costs must fit. Over 4,000 seeds of a numpy model of hd=64 n=128 the worst element came to
#: 0.60 of the bound, and to 1.11 of it at full size.
V_SCALE = 0.5


@dataclass(frozen=True)
class Case:
    """`rows` query rows against `keys` keys, all visible, in one batch."""

    milestone: str
    head_dim: int
    rows: int
    keys: int

    @property
    def name(self) -> str:
        """What the pins and the report call it."""
        return f"hd={self.head_dim} n={self.keys}"

    def __str__(self) -> str:
        return self.name

    @property
    def config(self) -> kernel.FmhaConfig:
        """What the kernel is compiled for."""
        return kernel.FmhaConfig(head_dim=self.head_dim)


@dataclass(frozen=True)
class Inputs:
    """bf16 CPU tensors: q [1, 1, rows, head_dim], k and v [1, keys, head_dim]."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor


def draw(case: Case, seed: int) -> Inputs:
    """Normal Q, K and V of a seed, rounded to bf16: the same on every machine."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    q = normal(1, 1, case.rows, case.head_dim)
    k, v = normal(1, case.keys, case.head_dim), normal(1, case.keys, case.head_dim) * V_SCALE
    return Inputs(q.bfloat16(), k.bfloat16(), v.bfloat16())


def reference(inputs: Inputs) -> Outputs:
    """What the kernel must give, in float64, rows flattened."""
    part = branch(inputs.q, inputs.k, inputs.v)
    return outputs_of(kernel.Attention(o=part.o, u=part.u, lse=part.lse, m=part.m))


def launch(inputs: Inputs, torch_device: str) -> kernel.Attention:
    """One launch into buffers full of NaN, so that an element that is not written shows."""
    q, k, v = (tensor.to(torch_device) for tensor in (inputs.q, inputs.k, inputs.v))
    statistics = q.shape[:3]
    out = kernel.Attention(
        o=q.new_full(q.shape, torch.nan),
        u=q.new_full(q.shape, torch.nan, dtype=torch.float32),
        lse=q.new_full(statistics, torch.nan, dtype=torch.float32),
        m=q.new_full(statistics, torch.nan, dtype=torch.float32),
    )
    return kernel.fmha(q, k, v, out=out)


def outputs_of(attention: kernel.Attention) -> Outputs:
    """The results as float64 arrays: O and U [rows, head_dim], lse and m [rows]."""
    assert attention.u is not None and attention.m is not None, "partials were not asked for"
    rows = {"O": attention.o, "U": attention.u}
    statistics = {"lse": attention.lse, "m": attention.m}
    return {name: _float64(tensor.flatten(0, 2)) for name, tensor in (rows | statistics).items()}


def _float64(tensor: torch.Tensor) -> Array:
    array: Array = tensor.detach().cpu().double().numpy()
    return array
