"""Attention of a DeepSeek-V4 layer as a serving engine calls it: window, compressed keys and sink in one launch.

The kinds of layers (SWA; CSA, compress ratio 4; HCA, ratio 128) are those of the DeepSeek-V4 technical report. Argument
names are those of vLLM and FlashMLA. Norms, rotary embedding and the inverse rotation of o are the caller's.
"""

from __future__ import annotations

from typing import Literal

import torch

from kernel.errors import ArgumentError
from kernel.host import fmha
from kernel.tensors import AllBlocks, Attention, TopkBlocks

WINDOW = 128  # keys, the query's own included
#: Argument names of kernel.fmha, and their names here.
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
    Keys are also the values: one latent vector per token. D is 512 in the model; 64, 128 and 256 are supported too.

    Window: swa_kv [B, S, D] bf16, swa_lens [B] int32, 0 to S (default S). Query t has row p = swa_lens[b] - T + t and
    sees rows p - window + 1 to p; with window=None it sees all rows up to p. Rows from swa_lens on may hold anything,
    NaN included.
    Compressed: cmp_kv [B, S_c, D] bf16, where block j compresses tokens j * ratio to (j + 1) * ratio - 1.
    - HCA: compress_ratio with seq_lens [B] int32, tokens of each sequence up to its newest (default swa_lens). Query t
      sees every block that ends at or before its position seq_lens[b] - T + t.
    - CSA: topk_indices [B, T, K] int32, the blocks of each token in any order, -1 for none, and topk_lens [B, T] int32,
      the number of indices that count (default K). An index that occurs twice counts twice, in o and in lse. An index
      past the end reads nothing.
    Sink: attn_sink [H] fp32, a logit of each head in the denominator of o only, not scaled.

    softmax_scale defaults to D^-0.5. splits and sms are those of kernel.fmha. out: buffers for the results. Any branch
    may be missing. Rows that see no key have o = 0 and lse = -inf. The device clamps lengths and skips indices that are
    out of range; debug=True rejects them, which synchronizes with the device.
    Raises ArgumentError for arguments that exclude each other or have a wrong shape or dtype.
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
        raise error.renamed(NAMES) from None


def compressed_branch(
    cmp_kv: torch.Tensor | None,
    seq_lens: torch.Tensor | None,
    compress_ratio: int | None,
    topk_indices: torch.Tensor | None,
    topk_lens: torch.Tensor | None,
    swa_lens: torch.Tensor | None,
) -> AllBlocks | TopkBlocks | None:
    """Return the compressed branch that the arguments describe. Raises ArgumentError if they exclude each other."""
    given = {
        "seq_lens": seq_lens,
        "compress_ratio": compress_ratio,
        "topk_indices": topk_indices,
        "topk_lens": topk_lens,
    }
    if cmp_kv is None:
        without, allowed = tuple(given), "None without cmp_kv"
    elif topk_indices is not None:
        without, allowed = ("seq_lens", "compress_ratio"), "None with topk_indices, which select each token's keys"
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
        raise ArgumentError("compress_ratio", None, "an integer above 0 if cmp_kv comes without topk_indices")
    positions = swa_lens if seq_lens is None else seq_lens
    if positions is None:
        raise ArgumentError("seq_lens", None, "[B] int32 if neither swa_lens nor topk_indices is given")
    return AllBlocks(cmp_kv, positions, compress_ratio)
