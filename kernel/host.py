"""The host call: torch tensors in, attention out, everything refused that the kernel cannot take."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from cuda.bindings.driver import CUstream
from cutlass import Float32, Int32
from cutlass.cute.runtime import from_dlpack

from kernel.compiled import ALIGN_BYTES, compile
from kernel.config import HEAD_DIMS, FmhaConfig, Mask, PPath
from kernel.errors import ArgumentError

MAX_KEYS = 2**31 - 1024  # key and row numbers are 32-bit, a tile past the end included
MAX_BATCH = 65535  # gridDim.z
UNBOUNDED = 2**30  # a window wider than any sequence
SMEM_P_FROM = 512  # automatic choice: P stays in tensor memory below this head dim


@dataclass(frozen=True)
class Attention:
    """What the kernel computes (symbols of attention.md).

    o: [B, T, H, D] bf16, normalised. lse: [B, T, H] fp32, natural logarithm.
    u: [B, T, H, D] fp32, not normalised, and m: [B, T, H] fp32, the maximum it refers to, in the units of the
    scaled logits; O = U exp(m - lse). Both None where partials were not asked for.
    """

    o: torch.Tensor
    lse: torch.Tensor
    u: torch.Tensor | None = None
    m: torch.Tensor | None = None


def fmha(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor | None = None,
    *,
    scale: float | None = None,
    swa_lens: torch.Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    p_path: PPath | Literal["auto"] = "auto",
    partials: bool = True,
    out: Attention | None = None,
) -> Attention:
    """Attention of every query head over one shared key and value head.

    q: [B, T, H, D] bf16, k and v: [B, S, D] bf16, D in HEAD_DIMS; v=None means V = K, loaded once.
    scale multiplies the logits, default D^-0.5.
    swa_lens: [B] int32, keys of each sequence that hold something, at most S; keys from there on are never read as
    numbers, NaN included. causal: query t sits on key p = swa_lens[b] - T + t (S where swa_lens is None) and sees
    keys p - window + 1 to p; window=None is unbounded.
    p_path forces where P waits for the second product. partials=False leaves U and m out. out takes the caller's
    buffers, shaped as in Attention.
    Runs on the current stream of q's device. Raises ArgumentError before anything is compiled or launched.
    """
    check_inputs(q, k, v)
    head_dim = q.shape[-1]
    if scale is None:
        scale = head_dim**-0.5
    if not (isinstance(scale, int | float) and math.isfinite(scale) and scale > 0):
        raise ArgumentError("scale", scale, "a finite number above 0")
    mask = check_mask(q, swa_lens, causal, window)
    config = FmhaConfig(
        head_dim,
        mask=mask,
        p_path=default_p_path(head_dim) if p_path == "auto" else p_path,
        shared_kv=v is None,
        partials=partials,
    )
    if out is None:
        out = empty_output(q, partials)
    check_outputs(out, q, partials)
    if q.numel() == 0:
        return out
    keys = k.shape[1]
    if mask == "causal" and swa_lens is None:
        swa_lens = torch.full((q.shape[0],), keys, dtype=torch.int32, device=q.device)
    if keys == 0:  # a tensor map cannot describe an empty tensor
        k = v = q.new_zeros(q.shape[0], 1, head_dim)
    launch(Launch(config, q, k, k if v is None else v, out, swa_lens, keys, window or UNBOUNDED, scale))
    return out


def default_p_path(head_dim: int) -> PPath:
    return "tmem" if head_dim < SMEM_P_FROM else "smem"


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
    scale: float


def launch(job: Launch) -> None:
    """Compile if this configuration was not seen yet, and launch on the current stream of q's device."""
    q, out = job.q, job.out
    stream = torch.cuda.current_stream(q.device).cuda_stream if q.is_cuda else 0
    compile(job.config).function(
        dynamic(packed_rows(q)),
        dynamic(job.k),
        dynamic(job.v),
        dynamic(packed_rows(out.o)),
        dynamic(packed_rows(out.u)),
        dynamic(packed_rows(out.lse)),
        dynamic(packed_rows(out.m)),
        dynamic(job.lens),
        Int32(q.shape[2]),
        Int32(job.keys),
        Int32(job.window),
        Float32(job.scale * math.log2(math.e)),
        CUstream(stream),
    )


def packed_rows(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """[B, T, H, ...] seen as [B, T * H, ...]; no copy."""
    return None if tensor is None else tensor.flatten(1, 2)


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
    if batch > MAX_BATCH:
        raise ArgumentError("q.shape[0]", batch, f"at most {MAX_BATCH}")
    if tokens * heads > MAX_KEYS:
        raise ArgumentError("q.shape[1] * q.shape[2]", tokens * heads, f"at most {MAX_KEYS}")
    for name, tensor in (("k", k), ("v", v)):
        if tensor is None:
            continue
        check_tensor(name, tensor, torch.bfloat16, 3, "[B, S, D]", q)
        keys = k.shape[1]
        if tuple(tensor.shape) != (batch, keys, head_dim):
            raise ArgumentError(f"{name}.shape", tuple(tensor.shape), f"[B, S, D] = {(batch, keys, head_dim)}")
        if keys > MAX_KEYS:
            raise ArgumentError(f"{name}.shape[1]", keys, f"at most {MAX_KEYS}")
        check_alignment(name, tensor)
    check_alignment("q", q)
    check_packs("q", q)


def check_mask(q: torch.Tensor, swa_lens: torch.Tensor | None, causal: bool, window: int | None) -> Mask:
    """The kind of mask that these arguments mean."""
    if swa_lens is not None:
        check_tensor("swa_lens", swa_lens, torch.int32, 1, "[B]", q)
        if swa_lens.shape[0] != q.shape[0]:
            raise ArgumentError("swa_lens.shape", tuple(swa_lens.shape), f"[B] = {(q.shape[0],)}")
    if window is not None:
        if not causal:
            raise ArgumentError("window", window, "None unless causal=True")
        if not (isinstance(window, int) and 0 < window <= UNBOUNDED):
            raise ArgumentError("window", window, f"None or 1 to {UNBOUNDED}")
    if causal:
        return "causal"
    return "none" if swa_lens is None else "length"


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
