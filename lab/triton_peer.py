"""Attention in Triton's interpreter, which computes whole blocks where the emulator executes instructions."""

from __future__ import annotations

import os

import torch

from lab.attention import Problem

os.environ["TRITON_INTERPRET"] = "1"

import triton
import triton.language as tl

BLOCK = 128


@triton.jit  # type: ignore[untyped-decorator]
def _attention(q_at, k_at, v_at, o_at, scale, KEYS: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dims = tl.arange(0, D)
    q = tl.load(q_at + rows[:, None] * D + dims[None, :])
    row_max = tl.full([BLOCK], float("-inf"), tl.float32)
    row_sum = tl.zeros([BLOCK], tl.float32)
    total = tl.zeros([BLOCK, D], tl.float32)
    for start in range(0, KEYS, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        k = tl.load(k_at + keys[:, None] * D + dims[None, :])
        s = tl.dot(q, tl.trans(k)) * scale
        new_max = tl.maximum(row_max, tl.max(s, 1))
        p = tl.exp(s - new_max[:, None])
        fade = tl.exp(row_max - new_max)
        row_sum = row_sum * fade + tl.sum(p, 1)
        v = tl.load(v_at + keys[:, None] * D + dims[None, :])
        total = total * fade[:, None] + tl.dot(p.to(v.dtype), v)
        row_max = new_max
    tl.store(o_at + rows[:, None] * D + dims[None, :], (total / row_sum[:, None]).to(o_at.dtype.element_ty))


def attention(problem: Problem, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Compute softmax(q k' / sqrt(hd)) v as [rows, hd] in fp16.

    fp16, because Triton 3.9's interpreter multiplies the raw bits of bf16 operands.
    """
    q, k, v = q.half(), k.half(), v.half()
    o = torch.full_like(q, float("nan"))
    _attention[(problem.rows // BLOCK,)](q, k, v, o, problem.scale, problem.keys, problem.head_dim, BLOCK)
    return o
