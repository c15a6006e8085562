"""Attention of a DeepSeek-V4 layer as a serving engine calls it: window, compressed keys and sink in one launch.

The layer's kinds (SWA; CSA, compress ratio 4; HCA, ratio 128) are those of the DeepSeek-V4 technical report, the
argument names those of vLLM and FlashMLA. Norms, rotary embedding and the inverse rotation of o lie outside.
"""

from __future__ import annotations

import re
from typing import Literal

import torch

from kernel.errors import ArgumentError
from kernel.host import fmha
from kernel.tensors import AllBlocks, Attention, TopkBlocks

WINDOW = 128  # keys, the query's own included
#: What kernel.fmha calls an argument, and its name here.
NAMES = {
    "compressed.indices": "topk_indices",
    "compressed.lens": "topk_lens",
    "compressed.seq_lens": "seq_lens",
    "compressed.ratio": "compress_ratio",
    "compressed.kv": "cmp_kv",
    "scale": "softmax_scale",
    "sink": "attn_sink",
    "k": "swa_kv",
}
INNER_NAME = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, NAMES))})(?!\w)")


def attention(
    q: torch.Tensor,
    swa_kv: torch.Tensor | None = None,
    *,
    swa_lens: torch.Tensor | None = None,
    cmp_kv: torch.Tensor | None = None,
    seq_lens: torch.Tensor | None = None,
    compress_ratio: int | None = None,
    topk_indices: torch.Tensor | None = None,
    topk_lens: torch.Tensor | None = None,
    attn_sink: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    window: int | None = WINDOW,
    splits: int | Literal["auto"] = "auto",
    sms: int | None = None,
    out: Attention | None = None,
    debug: bool = False,
) -> Attention:
    """Compute o [B, T, H, D] bf16 and lse [B, T, H] fp32 (natural logarithm, without the sink) over all branches.

    q: [B, T, H, D] bf16, the T newest tokens of B sequences: T = 1 decodes, more are drafts or a chunk of prefill.
    Keys are values: one latent vector a token, D = 512 in the model, 64, 128 and 256 beside.

    Window: swa_kv [B, S, D] bf16, swa_lens [B] int32, 0 to S (default S). Query t sits on row
    p = swa_lens[b] - T + t and sees rows p - window + 1 to p; window=None sees all before it. Rows past swa_lens are
    never read as numbers.
    Compressed: cmp_kv [B, S_c, D] bf16, block j made of tokens j * ratio to (j + 1) * ratio - 1. Which blocks count:
    - HCA: compress_ratio with seq_lens [B] int32, tokens of each sequence up to its newest (default swa_lens). Query t
      sees every block that ends at or before its position seq_lens[b] - T + t.
    - CSA: topk_indices [B, T, K] int32, the blocks of each token in any order, -1 for none, and topk_lens [B, T] int32,
      how many entries count (default K). A block that is listed twice counts twice, in o and in lse. An index past the
      end reads nothing.
    Sink: attn_sink [H] fp32, a logit of each head in the denominator of o only, not scaled.

    softmax_scale defaults to D^-0.5. splits and sms are those of kernel.fmha. out takes the caller's buffers. Any
    branch may be missing; rows that see no key are 0, lse -inf. The device clamps lengths and skips indices that are
    out of range; debug=True rejects them, for which it waits for the device.
    Raises ArgumentError for arguments that do not go together or have another shape or dtype.
    """
    batch, head_dim = (q.shape[0], q.shape[-1]) if isinstance(q, torch.Tensor) and q.dim() else (0, 0)
    if swa_kv is None:
        if swa_lens is not None:
            raise ArgumentError("swa_lens", "a tensor", "None without swa_kv")
        swa_kv = q.new_empty(batch, 0, head_dim) if isinstance(q, torch.Tensor) else torch.empty(0)
    compressed = compressed_branch(cmp_kv, seq_lens, compress_ratio, topk_indices, topk_lens, swa_lens)
    try:
        return fmha(
            q,
            swa_kv,
            scale=softmax_scale,
            swa_lens=swa_lens,
            causal=True,
            window=window,
            compressed=compressed,
            sink=attn_sink,
            splits=splits,
            sms=sms,
            partials=False,
            out=out,
            debug=debug,
        )
    except ArgumentError as error:
        raise ArgumentError(renamed(error.name), error.seen, error.allowed) from None


def renamed(name: str) -> str:
    """Replace what kernel.fmha calls an argument, or a part of it, by the name that the caller knows."""
    return INNER_NAME.sub(lambda match: NAMES[match[0]], name)


def compressed_branch(
    cmp_kv: torch.Tensor | None,
    seq_lens: torch.Tensor | None,
    compress_ratio: int | None,
    topk_indices: torch.Tensor | None,
    topk_lens: torch.Tensor | None,
    swa_lens: torch.Tensor | None,
) -> AllBlocks | TopkBlocks | None:
    """Return the compressed branch that the arguments mean."""
    given = {
        "seq_lens": seq_lens,
        "compress_ratio": compress_ratio,
        "topk_indices": topk_indices,
        "topk_lens": topk_lens,
    }
    if cmp_kv is None:
        without, allowed = tuple(given), "None without cmp_kv"
    elif topk_indices is not None:
        without, allowed = ("seq_lens", "compress_ratio"), "None beside topk_indices, which say what each token sees"
    else:
        without, allowed = ("topk_lens",), "None without topk_indices"
    for name in without:
        if given[name] is not None:
            raise ArgumentError(name, "given", allowed)
    if cmp_kv is None:
        return None
    if topk_indices is not None:
        return TopkBlocks(cmp_kv, topk_indices, topk_lens)
    if compress_ratio is None:
        raise ArgumentError("compress_ratio", None, "an integer above 0 where cmp_kv has no topk_indices")
    positions = swa_lens if seq_lens is None else seq_lens
    if positions is None:
        raise ArgumentError("seq_lens", None, "[B] int32 where neither swa_lens nor topk_indices is given")
    return AllBlocks(cmp_kv, positions, compress_ratio)
