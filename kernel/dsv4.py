"""Attention of a DeepSeek-V4 layer as a serving engine calls it: window, compressed keys and sink in one launch.

The layer's kinds (SWA; CSA, compress ratio 4; HCA, ratio 128) are those of the DeepSeek-V4 technical report, the
argument names those of vLLM and FlashMLA. Norms, rotary embedding and the inverse rotation of o lie outside.
"""

from __future__ import annotations

import torch

from kernel.errors import ArgumentError
from kernel.host import fmha
from kernel.tensors import AllBlocks, Attention, TopkBlocks

WINDOW = 128  # keys, the query's own included


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
    out: Attention | None = None,
    debug: bool = False,
) -> Attention:
    """o [B, T, H, D] bf16 and lse [B, T, H] fp32 (natural, without the sink) of one softmax over all branches.

    q: [B, T, H, D] bf16, the T newest tokens of B sequences: T = 1 decodes, more are drafts or a chunk of prefill.
    Keys are values: one latent vector a token, D = 512 in the model, 64, 128 and 256 beside.

    Window: swa_kv [B, S, D] bf16, swa_lens [B] int32 (default S). Query t sits on row p = swa_lens[b] - T + t and
    sees rows p - window + 1 to p; window=None sees all before it. What lies past swa_lens is never read as numbers.
    Compressed: cmp_kv [B, S_c, D] bf16, block j made of tokens j * ratio to (j + 1) * ratio - 1, and either
    compress_ratio with seq_lens [B] int32, tokens of each sequence up to its newest (default swa_lens): query t
    sees every block that ends at or before its position seq_lens[b] - T + t (HCA); or topk_indices [B, T, K] int32,
    the blocks that each token lists in any order, -1 for none, and topk_lens [B, T] int32, how many entries count
    (default K) (CSA). An index past the end reads nothing; debug=True refuses it, which waits for the device.
    Sink: attn_sink [H] fp32, a logit of each head that only the denominator of o has; not scaled.

    softmax_scale defaults to D^-0.5. out takes buffers of the caller's. Any branch may be missing; rows that see no
    key are 0, lse -inf. Raises ArgumentError for arguments that do not go together or have another shape or dtype.
    """
    batch, head_dim = (q.shape[0], q.shape[-1]) if isinstance(q, torch.Tensor) and q.dim() else (0, 0)
    if swa_kv is None:
        if swa_lens is not None:
            raise ArgumentError("swa_lens", "a tensor", "None without swa_kv")
        swa_kv = q.new_empty(batch, 0, head_dim)
    compressed = compressed_branch(cmp_kv, seq_lens, compress_ratio, topk_indices, topk_lens, swa_lens)
    return fmha(
        q,
        swa_kv,
        scale=softmax_scale,
        swa_lens=swa_lens,
        causal=True,
        window=window,
        compressed=compressed,
        sink=attn_sink,
        partials=False,
        out=out,
        debug=debug,
    )


def compressed_branch(
    cmp_kv: torch.Tensor | None,
    seq_lens: torch.Tensor | None,
    compress_ratio: int | None,
    topk_indices: torch.Tensor | None,
    topk_lens: torch.Tensor | None,
    swa_lens: torch.Tensor | None,
) -> AllBlocks | TopkBlocks | None:
    """The kind of layer that the arguments mean."""
    given = {"compress_ratio": compress_ratio, "topk_indices": topk_indices, "topk_lens": topk_lens}
    if cmp_kv is None:
        for name, value in given.items():
            if value is not None:
                raise ArgumentError(name, "given", "None without cmp_kv")
        return None
    if topk_indices is not None:
        return TopkBlocks(cmp_kv, topk_indices, topk_lens)
    if topk_lens is not None:
        raise ArgumentError("topk_lens", "a tensor", "None without topk_indices")
    if compress_ratio is None:
        raise ArgumentError("compress_ratio", None, "an integer above 0 where cmp_kv has no topk_indices")
    positions = swa_lens if seq_lens is None else seq_lens
    if positions is None:
        raise ArgumentError("seq_lens", None, "[B] int32 where neither swa_lens nor topk_indices is given")
    return AllBlocks(cmp_kv, positions, compress_ratio)
