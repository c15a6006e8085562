"""The host call: torch tensors in, attention out, everything refused that the kernel cannot take."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from cuda.bindings.driver import CUstream
from cutlass import Float32, Int32
from cutlass.cute.runtime import from_dlpack

from kernel.compiled import ALIGN_BYTES, compile
from kernel.config import HEAD_DIMS, Compressed, FmhaConfig, Mask, PPath
from kernel.errors import ArgumentError

MAX_KEYS = 2**31 - 1024  # key and row numbers are 32-bit, a tile past the end included
MAX_CTAS = 2**31 - 1  # gridDim.x
SMALLEST_TILE = 64  # rows of a CTA at head dim 512
UNBOUNDED = 2**30  # a window wider than any sequence
SMEM_P_FROM = 512  # automatic choice: P stays in tensor memory below this head dim


@dataclass(frozen=True)
class Attention:
    """What the kernel computes (symbols of docs/attention.md).

    o: [B, T, H, D] bf16, normalised. lse: [B, T, H] fp32, natural logarithm.
    u: [B, T, H, D] fp32, not normalised, and m: [B, T, H] fp32, the maximum it refers to, in the units of the
    scaled logits; O = U exp(m - lse). Both None where partials were not asked for.
    """

    o: torch.Tensor
    lse: torch.Tensor
    u: torch.Tensor | None = None
    m: torch.Tensor | None = None


@dataclass(frozen=True)
class AllBlocks:
    """Compressed keys of which a query sees every block that ends at or before it (HCA).

    kv: [B, S_c, D] bf16, block j for tokens j * ratio to (j + 1) * ratio - 1. seq_lens: [B] int32, tokens of each
    sequence up to its last query's, so that query t is token p = seq_lens[b] - T + t and sees j < (p + 1) // ratio.
    Blocks that the last query does not see are never read as numbers.
    """

    kv: torch.Tensor
    seq_lens: torch.Tensor
    ratio: int


@dataclass(frozen=True)
class ListedKeys:
    """Keys that each query token lists, in any order, an index listed twice counting twice (CSA).

    kv: [B, S_c, D] bf16. indices: [B, T, K] int32, rows of kv[b]; an entry outside 0 to S_c - 1 is no key and reads
    nothing. lens: [B, T] int32, how many entries of each list count (all K where None).
    """

    kv: torch.Tensor
    indices: torch.Tensor
    lens: torch.Tensor | None = None


def fmha(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor | None = None,
    *,
    scale: float | None = None,
    swa_lens: torch.Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    compressed: AllBlocks | ListedKeys | None = None,
    sink: torch.Tensor | None = None,
    p_path: PPath | Literal["auto"] = "auto",
    partials: bool = True,
    out: Attention | None = None,
    debug: bool = False,
) -> Attention:
    """Attention of every query head over one shared key and value head.

    q: [B, T, H, D] bf16, k and v: [B, S, D] bf16, D in HEAD_DIMS; v=None means V = K, loaded once.
    scale multiplies the logits, default D^-0.5.
    swa_lens: [B] int32, keys of each sequence that hold something, at most S; keys from there on are never read as
    numbers, NaN included. causal: query t sits on key p = swa_lens[b] - T + t (S where swa_lens is None) and sees
    keys p - window + 1 to p; window=None is unbounded.
    compressed: more keys in the same softmax, V = K there too, so it needs v=None. sink: [H] fp32, a logit of each
    head in the denominator of O only, neither scaled nor part of lse; -inf is none, +inf makes O 0.
    p_path forces where P waits for the second product. partials=False leaves U and m out. out takes the caller's
    buffers, shaped as in Attention. debug refuses listed indices that name no key, for which it waits for the device.
    Runs on the current stream of q's device. Raises ArgumentError before anything is compiled or launched.
    """
    check_inputs(q, k, v)
    batch, head_dim = q.shape[0], q.shape[-1]
    if scale is None:
        scale = head_dim**-0.5
    if not (isinstance(scale, int | float) and math.isfinite(scale) and scale > 0):
        raise ArgumentError("scale", scale, "a finite number above 0")
    mask = check_mask(q, swa_lens, causal, window)
    check_compressed(q, v, compressed)
    check_sink(q, sink)
    if debug and isinstance(compressed, ListedKeys):
        check_indices(compressed)
    config = in_pairs(
        q.shape[2],
        FmhaConfig(
            head_dim,
            mask=mask,
            p_path=default_p_path(head_dim) if p_path == "auto" else p_path,
            shared_kv=v is None,
            compressed=kind_of(compressed),
            sink=sink is not None,
            partials=partials,
        ),
    )
    if out is None:
        out = empty_output(q, partials)
    check_outputs(out, q, partials)
    if config.compressed == "listed":
        for name, tensor in (("q", q), ("out.o", out.o), ("out.u", out.u), ("out.lse", out.lse), ("out.m", out.m)):
            if tensor is not None:
                check_flat(name, tensor)
    if q.numel() == 0:
        return out
    keys = k.shape[1]
    if mask == "causal" and swa_lens is None:
        swa_lens = torch.full((batch,), keys, dtype=torch.int32, device=q.device)
    if keys == 0:  # a tensor map cannot describe an empty tensor
        k = v = q.new_zeros(batch, 1, head_dim)
    launch(
        Launch(config, q, k, k if v is None else v, out, swa_lens, keys, window or UNBOUNDED, compressed, sink, scale)
    )
    return out


def default_p_path(head_dim: int) -> PPath:
    return "tmem" if head_dim < SMEM_P_FROM else "smem"


def in_pairs(heads: int, config: FmhaConfig) -> FmhaConfig:
    """`config` with clusters of two CTAs where the row tiles of every token are even in number."""
    return dataclasses.replace(config, cluster=1 if heads % (2 * config.block_m) else 2)


@dataclass(frozen=True)
class Launch:
    """All that a launch needs, checked."""

    config: FmhaConfig
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    out: Attention
    lens: torch.Tensor | None
    keys: int
    window: int
    compressed: AllBlocks | ListedKeys | None
    sink: torch.Tensor | None
    scale: float


def launch(job: Launch) -> None:
    """Compile if this configuration was not seen yet, and launch on the current stream of q's device."""
    q, out = job.q, job.out
    tokens, heads = q.shape[1:3]
    compressed, positions, indices, listed, compressed_keys, ratio = second_branch(job)
    rows = packed_rows if indices is None else rows_of_tokens
    stream = torch.cuda.current_stream(q.device).cuda_stream if q.is_cuda else 0
    compile(job.config).function(
        dynamic(rows(q)),
        dynamic(job.k),
        dynamic(job.v),
        dynamic(rows(out.o)),
        dynamic(rows(out.u)),
        dynamic(rows(out.lse)),
        dynamic(rows(out.m)),
        dynamic(job.lens),
        dynamic(compressed),
        dynamic(positions),
        dynamic(indices),
        dynamic(listed),
        dynamic(job.sink),
        Int32(heads),
        Int32(tokens),
        Int32(job.keys),
        Int32(job.window),
        Int32(compressed_keys),
        Int32(ratio),
        Float32(job.scale * math.log2(math.e)),
        CUstream(stream),
    )


def second_branch(job: Launch) -> tuple:
    """The kernel's arguments for the compressed keys: tensors, S_c and ratio."""
    branch, q = job.compressed, job.q
    if branch is None:
        return None, None, None, None, 0, 1
    keys, kv = branch.kv.shape[1], branch.kv
    if keys == 0:  # a tensor map cannot describe an empty tensor
        kv = q.new_zeros(q.shape[0], 1, q.shape[3])
    if isinstance(branch, AllBlocks):
        return kv, branch.seq_lens, None, None, keys, branch.ratio
    indices = branch.indices.flatten(0, 1)
    most = indices.shape[1]
    if most == 0:
        indices = indices.new_full((len(indices), 1), -1)
    lens = indices.new_full(indices.shape[:1], most) if branch.lens is None else branch.lens.flatten(0, 1)
    return kv.flatten(0, 1)[None], None, indices, lens, keys, 1


def packed_rows(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """[B, T, H, ...] seen as [B, T * H, ...]; no copy."""
    return None if tensor is None else tensor.flatten(1, 2)


def rows_of_tokens(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """[B, T, H, ...] seen as [B * T, H, ...]; no copy."""
    return None if tensor is None else tensor.flatten(0, 1)


def dynamic(tensor: torch.Tensor | None) -> Any:
    """`tensor` as CuTeDSL takes it, shape and strides read at the launch."""
    if tensor is None:
        return None
    align = ALIGN_BYTES if tensor.dim() == 3 else tensor.element_size()
    return from_dlpack(tensor.detach(), assumed_align=align).mark_layout_dynamic(leading_dim=tensor.dim() - 1)


def empty_output(q: torch.Tensor, partials: bool) -> Attention:
    def fp32(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.float32, device=q.device)

    o = torch.empty(q.shape, dtype=torch.bfloat16, device=q.device)
    lse = fp32(*q.shape[:3])
    return Attention(o, lse, fp32(*q.shape), fp32(*q.shape[:3])) if partials else Attention(o, lse)


# What is allowed. Each check raises ArgumentError.


def check_inputs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor | None) -> None:
    check_tensor("q", q, torch.bfloat16, 4, "[B, T, H, D]", q)
    batch, tokens, heads, head_dim = q.shape
    if head_dim not in HEAD_DIMS:
        raise ArgumentError("head_dim", head_dim, f"one of {HEAD_DIMS}")
    if tokens * heads > MAX_KEYS:
        raise ArgumentError("q.shape[1] * q.shape[2]", tokens * heads, f"at most {MAX_KEYS}")
    if batch * max(tokens, -(-tokens * heads // SMALLEST_TILE)) > MAX_CTAS:
        raise ArgumentError("q.shape", tuple(q.shape), f"at most {MAX_CTAS} tiles of rows")
    for name, tensor in (("k", k), ("v", v)):
        if tensor is None:
            continue
        check_tensor(name, tensor, torch.bfloat16, 3, "[B, S, D]", q)
        keys = k.shape[1]
        check_shape(name, tensor, (batch, keys, head_dim), "[B, S, D]")
        if keys > MAX_KEYS:
            raise ArgumentError(f"{name}.shape[1]", keys, f"at most {MAX_KEYS}")
        check_alignment(name, tensor)
    check_alignment("q", q)
    check_packs("q", q)


def check_mask(q: torch.Tensor, swa_lens: torch.Tensor | None, causal: bool, window: int | None) -> Mask:
    """The kind of mask that these arguments mean."""
    if swa_lens is not None:
        check_tensor("swa_lens", swa_lens, torch.int32, 1, "[B]", q)
        check_shape("swa_lens", swa_lens, q.shape[:1], "[B]")
    if window is not None:
        if not causal:
            raise ArgumentError("window", window, "None unless causal=True")
        if not (isinstance(window, int) and 0 < window <= UNBOUNDED):
            raise ArgumentError("window", window, f"None or 1 to {UNBOUNDED}")
    if causal:
        return "causal"
    return "none" if swa_lens is None else "length"


def kind_of(compressed: AllBlocks | ListedKeys | None) -> Compressed:
    if compressed is None:
        return "none"
    return "blocks" if isinstance(compressed, AllBlocks) else "listed"


def check_compressed(q: torch.Tensor, v: torch.Tensor | None, branch: AllBlocks | ListedKeys | None) -> None:
    if branch is None:
        return
    if not isinstance(branch, AllBlocks | ListedKeys):
        raise ArgumentError("compressed", type(branch).__name__, "AllBlocks, ListedKeys or None")
    if v is not None:
        raise ArgumentError("v", "a tensor", "None with compressed keys, which are keys and values at once")
    batch, tokens, _, head_dim = q.shape
    check_tensor("compressed.kv", branch.kv, torch.bfloat16, 3, "[B, S_c, D]", q)
    keys = branch.kv.shape[1]
    check_shape("compressed.kv", branch.kv, (batch, keys, head_dim), "[B, S_c, D]")
    if batch * keys > MAX_KEYS:
        raise ArgumentError("compressed.kv.shape[0] * compressed.kv.shape[1]", batch * keys, f"at most {MAX_KEYS}")
    check_alignment("compressed.kv", branch.kv)
    if isinstance(branch, AllBlocks):
        check_tensor("compressed.seq_lens", branch.seq_lens, torch.int32, 1, "[B]", q)
        check_shape("compressed.seq_lens", branch.seq_lens, (batch,), "[B]")
        if not (isinstance(branch.ratio, int) and branch.ratio > 0):
            raise ArgumentError("compressed.ratio", branch.ratio, "an integer above 0")
        return
    check_flat("compressed.kv", branch.kv)
    check_tensor("compressed.indices", branch.indices, torch.int32, 3, "[B, T, K]", q)
    check_shape("compressed.indices", branch.indices, (batch, tokens, branch.indices.shape[2]), "[B, T, K]")
    check_flat("compressed.indices", branch.indices)
    if branch.lens is not None:
        check_tensor("compressed.lens", branch.lens, torch.int32, 2, "[B, T]", q)
        check_shape("compressed.lens", branch.lens, (batch, tokens), "[B, T]")


def check_indices(branch: ListedKeys) -> None:
    """Refuse an index that names no key; -1 is allowed. Reads the tensor: on a GPU this waits for it."""
    keys = branch.kv.shape[1]
    for bad in branch.indices[(branch.indices < -1) | (branch.indices >= keys)][:1].tolist():
        raise ArgumentError("compressed.indices", bad, f"-1 to {keys - 1}")


def check_sink(q: torch.Tensor, sink: torch.Tensor | None) -> None:
    if sink is not None:
        check_tensor("sink", sink, torch.float32, 1, "[H]", q)
        check_shape("sink", sink, q.shape[2:3], "[H]")


def check_outputs(out: Attention, q: torch.Tensor, partials: bool) -> None:
    expected = {"o": (torch.bfloat16, q.shape), "lse": (torch.float32, q.shape[:3])}
    if partials:
        expected |= {"u": (torch.float32, q.shape), "m": (torch.float32, q.shape[:3])}
    for name in ("o", "lse", "u", "m"):
        tensor = getattr(out, name)
        if name not in expected:
            if tensor is not None:
                raise ArgumentError(f"out.{name}", "a tensor", "None when partials=False")
            continue
        dtype, shape = expected[name]
        check_tensor(f"out.{name}", tensor, dtype, len(shape), str(tuple(shape)), q)
        if tensor.shape != shape:
            raise ArgumentError(f"out.{name}.shape", tuple(tensor.shape), str(tuple(shape)))
        check_packs(f"out.{name}", tensor)
        if len(shape) == 4:
            check_alignment(f"out.{name}", tensor)


def check_tensor(name: str, tensor: Any, dtype: torch.dtype, rank: int, form: str, like: torch.Tensor) -> None:
    """Type, dtype, rank, device and unit last stride."""
    if not isinstance(tensor, torch.Tensor):
        raise ArgumentError(name, type(tensor).__name__, f"a torch.Tensor {form}")
    if tensor.dtype != dtype:
        raise ArgumentError(f"{name}.dtype", tensor.dtype, str(dtype))
    if tensor.dim() != rank:
        raise ArgumentError(f"{name}.shape", tuple(tensor.shape), f"rank {rank}, {form}")
    if tensor.device != like.device:
        raise ArgumentError(f"{name}.device", tensor.device, f"q's device, {like.device}")
    if tensor.numel() == 0:
        return
    if tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        raise ArgumentError(f"{name}.stride(-1)", tensor.stride(-1), "1")


def check_shape(name: str, tensor: torch.Tensor, shape: Sequence[int], form: str) -> None:
    if tuple(tensor.shape) != tuple(shape):
        raise ArgumentError(f"{name}.shape", tuple(tensor.shape), f"{form} = {tuple(shape)}")


def check_flat(name: str, tensor: torch.Tensor) -> None:
    """The first two dimensions have to lie like one."""
    outer, inner = tensor.shape[:2]
    if outer > 1 and inner > 0 and tensor.stride(0) != inner * tensor.stride(1):
        raise ArgumentError(f"{name}.stride(0)", tensor.stride(0), f"shape[1] * stride(1) = {inner * tensor.stride(1)}")


def check_alignment(name: str, tensor: torch.Tensor) -> None:
    """What a tensor map asks: address and strides in multiples of 16 bytes."""
    if tensor.data_ptr() % ALIGN_BYTES:
        raise ArgumentError(f"{name}.data_ptr() % {ALIGN_BYTES}", tensor.data_ptr() % ALIGN_BYTES, "0")
    unit = ALIGN_BYTES // tensor.element_size()
    for i, (size, stride) in enumerate(zip(tensor.shape[:-1], tensor.stride()[:-1], strict=True)):
        if size > 1 and (stride % unit or stride <= 0):
            raise ArgumentError(f"{name}.stride({i})", stride, f"a positive multiple of {unit}")


def check_packs(name: str, tensor: torch.Tensor) -> None:
    """Tokens and heads have to lie like one dimension."""
    tokens, heads = tensor.shape[1:3]
    if tokens > 1 and heads > 0 and tensor.stride(1) != heads * tensor.stride(2):
        raise ArgumentError(f"{name}.stride(1)", tensor.stride(1), f"H * stride(2) = {heads * tensor.stride(2)}")
